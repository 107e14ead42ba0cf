# Merging stores by uuid, gc that frees, a check, a copy.
one() { dlsh -n --db "$1" -c "r = start_run(\"$2\", lr=$3); for i in range(2000) { r.log(loss=1 / (i + 1)) }; r.end(); tag last t$3"; }
one a.db first 1; one b.db second 2; one b.db third 3
dlsh -n --db a.db -c 'db merge b.db
db merge b.db b.db
runs cols=lr,n(loss) sort=lr
db check' 2>&1 | sed 's|/[^ ]*/||'
# a run that went on in its own store is brought up to date, not added again
dlsh -n --db b.db -c 'r = start_run("child", parent=1); r.log(acc=0.5)'
python3 - <<'X'
import sqlite3
db = sqlite3.connect("b.db")
db.execute("update run set note = 'later', heartbeat_us = heartbeat_us + 1 where name = 'third'")
db.commit()
X
dlsh -n --db a.db -c 'db merge b.db
runs cols=lr,parent,note sort=id
db merge a.db' 2>&1 | sed 's|/[^ ]*/||'
ln a.db same.db; dlsh -n --db a.db -c 'db merge same.db' 2>&1 | sed 's|/[^ ]*/||'; rm same.db
dlsh -n --db a.db -c 'run delete 1 2
gc dry
gc older=0s dry
gc older=0s
gc older=0s
runs cols=lr
db check
r = start_run("goes on"); run delete last
gc older=0s dry
r.end()
gc older=x' 2>&1 | sed 's|/[^ ]*/||'
dlsh -n --db none.db -c 'db vacuum'; [ ! -e none.db ] || echo "a store without runs has a file"
dlsh -n --db a.db -c 'db backup c.db
db vacuum
db migrate
db backup c.db' | sed 's|[^ ]*/||' 2>&1 | sed 's|/[^ ]*/||'
dlsh -n --db c.db -c 'sql "select count(*) as points from metric"'
# what is still in the WAL counts as well
dlsh -n --db e.db -c 'r = start_run("grows"); for i in range(30000) { r.log(loss=i) }; r.end(); run delete last
gc older=0s
r = start_run("x"); for i in range(3000) { r.log(loss=i) }; r.end()
db vacuum' 2>&1 | python3 -c 'import re, sys; print([float(a) <= float(b) for a, b in re.findall("has ([0-9.]+) .B, before ([0-9.]+)", sys.stdin.read())])'
# contents that do not have the hash under which they are kept
echo 'r = start_run("s"); r.end()' > s.dlsh && dlsh -n --db d.db s.dlsh
python3 -c 'import sqlite3; d = sqlite3.connect("d.db"); d.execute("update blob set data = x'"'00'"' where sha = (select sha from artifact where kind = \"script\")"); d.commit()'
dlsh -n --db d.db -c 'db check' 2>&1 | sed -E 's/contents [0-9a-f]{12}/contents HASH/; s|/[^ ]*/||'
