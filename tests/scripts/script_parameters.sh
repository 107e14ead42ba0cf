# The arguments that a script declares are parameters of its runs, given on the command line or not.
cat >net.dlsh <<'EOF'
args width=8 lr=0.01 note=none tag_name="plain words" lr_of_loop=0.5
net m { flatten -> linear (width) -> relu -> linear 10 }
t = trainer(m, dataset("digits", n=100, test=20), opt=sgd(lr=lr), batch=50, name="w" + str(width))
train t epochs=1;
EOF
cat >loop.dlsh <<'EOF'
args width=3
r = start_run("loop", depth=2)
r.log(loss=1.0)
r.end()
EOF
for w in 8 16 32; do dlsh -n --db runs.db net.dlsh width=$w lr=0.02 >/dev/null || exit 1; done
dlsh -n --db runs.db loop.dlsh || exit 1
cat >ask.dlsh <<'EOF'
sql "select name, key, value from run join param on run.id = run_id where key in ('width', 'lr', 'note', 'tag_name', 'lr_of_loop', 'depth') order by run.id, key"
for r in runs(where="width >= 16 and lr = 0.02") { print(r.name) }
for r in runs(where="tag_name ~ words") { print(r.name) }
EOF
dlsh -n --db runs.db --mode csv ask.dlsh
