# A run keeps what is printed while it is open, also of killed processes, and its use of the machine.
export DLCORE_USAGE_S=0.3
echo 'print("before")
r = start_run("first")
print("hello", [1, 2])
s = start_run("second")
1 + 1
r.end()
"only the second"
{a: 1}
x = ones(2, 3) @ ones(2, 5)' > main.dlsh
dlsh -n --db runs.db main.dlsh > /dev/null 2>&1
dlsh -n --db runs.db -c 'run show first output; print("--"); run show second output' 2>&1 | head -20
echo 'r = start_run("long")
x = randn(100, 100)
for i in range(12000) { print("line", i); if i % 100 == 0 { y = x @ x } }
for i in range(200000) { print("more and more", i) }
r.end()' > long.dlsh
dlsh -n --db runs.db long.dlsh > all.txt
dlsh -n --db runs.db -c 'run show long output' > kept.txt
head -2 kept.txt; sed -n 12000,12001p kept.txt; tail -1 kept.txt; grep -c 'bytes are left out' kept.txt | sed 's/[1-9][0-9]*/some/'
[ "$(stat -c %s kept.txt)" -lt 2200000 ] && echo "bounded" # two parts of 1 MiB, of 4.2 MB
echo 'r = start_run("busy"); x = randn(300, 300)
for i in range(100000) { for k in range(50) { y = x @ x }; if len(sql("select 1 from metrics where run = 4 and key = '"'system/cpu'"'")) > 1 { quit } }' > busy.dlsh
dlsh -n --db runs.db busy.dlsh
dlsh -n --db runs.db -c 'for m in sql("select key, min(value) > 1 as used, max(value) < 1e6 as sane, count(*) > 1 or max(step) = 0 as several from metrics where run = 4 and key in ('"'system/cpu', 'system/memory_mb'"') group by key") { print(m) }'
(echo 'r = start_run("killed"); print("still here")'; sleep 2.5) | dlsh -n --db runs.db -i > said.txt 2>&1 &
until sqlite3 runs.db "select text from event join run on run.id = run_id where name = 'killed' and kind = 'output'" 2> /dev/null | grep -q here; do sleep 0.1; done
kill -9 $! 2> /dev/null; wait
dlsh -n --db runs.db -c 'run show killed output' | grep -c "still here"
