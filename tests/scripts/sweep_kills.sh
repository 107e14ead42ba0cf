# A sweep whose workers are killed: every trial finishes, and has one run.
cat > s.dlsh <<'X'
args lr=0.1 width=8
r = start_run("trial")
for i in range(5) { r.log(loss=lr * width + 1 / (i + 1)); for k in range(4000) { k + 1 } }
X
dlsh -n --db s.db sweep s.dlsh 'lr=linspace(0.1, 0.8, 8)' 'width=[8, 16, 32]' metric=loss jobs=0 | sed 's/--db [^ ]*/--db FILE/'
worker() { dlsh -n --db s.db sweep worker 1 jobs=2 > /dev/null 2>&1; }
# kills the process that runs a trial, then two workers
PMI_RANK=1 PMI_SIZE=2 worker & first=$!
child() { dlsh -n --db s.db --mode csv -c 'sql "select pid from trial where status = '"'running'"' limit 1"' | tail -n +2; }
pid=
for i in $(seq 100); do # between two trials none runs
    pid=$(child)
    [ -z "$pid" ] || break
    sleep 0.05
done
kill -9 "$pid" 2> /dev/null || true # the trial may have ended since
for i in 1 2; do
    dlsh -n --db s.db sweep worker 1 > /dev/null 2>&1 & second=$!
    sleep 0.25
    kill -9 $second
    wait $second 2> /dev/null
done
wait $first
worker
dlsh -n --db s.db -c 'sql "select status, count(*) as trials, count(distinct run_id) as runs from trial group by status"
sql "select status, count(*) as runs from run group by status"
sql "select count(*) as series, sum(n) as points from series where key = '"'train/loss'"'"
best loss where="sweep = 1 and lr < 0.15 and width in (8, 16)"'
dlsh -n --db s.db --mode csv -c 'sql "select error from trial where error is not null"' | tail -n +2
