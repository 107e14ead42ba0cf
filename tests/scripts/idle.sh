# The time of a run is that of the statements which ran while it was open, at a prompt that waits in between; nor does
# the throughput of a step taken apart count the waiting.
waits() {
    until grep -q "part $1 is done" said.txt; do sleep 0.05; done
    sleep 1.5
}
statements() {
    cat <<'END'
r = start_run("by hand");
d = dataset("tensor", randn(64, 4), zeros(64, dtype=i64));
net m { linear 2 }
t = trainer(m, d, batch=64);
forward t;
print("part 1 is", "done")
END
    waits 1
    echo 'r.log(loss=1); backward t; print("part 2 is", "done")'
    waits 2
    echo 'update t; r.end();'
}
: >said.txt
statements | dlsh --db idle.db -i >said.txt 2>&1
grep error said.txt
cat >look.dlsh <<'END'
wall = sql("select (ended_us - started_us) / 1e6 as s from run where name = 'by hand'")[0].s
for x in runs() { print(x.name, x.status, x.seconds < wall - 2.5) }
print("a step", sql("select 64 / value as s from metrics where key = 'perf/samples_per_s'")[0].s < wall - 2.5)
END
dlsh --db idle.db look.dlsh
