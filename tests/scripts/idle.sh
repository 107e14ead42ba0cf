# The time of a run is that of the statements which ran while it was open, at a prompt that waits in between; nor does
# the throughput of a step taken apart count the waiting.
statements() {
    cat <<'END'
r = start_run("by hand");
d = dataset("tensor", randn(64, 4), zeros(64, dtype=i64));
net m { linear 2 }
t = trainer(m, d, batch=64);
forward t;
END
    sleep 1.5
    echo 'r.log(loss=1); backward t;'
    sleep 1.5
    echo 'update t; r.end();'
}
statements | dlsh --db idle.db -i >said.txt 2>&1
grep error said.txt
cat >look.dlsh <<'END'
for x in runs() { print(x.name, x.status, x.seconds < 1.4) }
print(sql("select value > 64 / 1.4 as fast from metrics where key = 'perf/samples_per_s'"))
print(sql("select (ended_us - started_us) / 1e6 > 2 as waited from run where id = 1"))
END
dlsh --db idle.db look.dlsh
