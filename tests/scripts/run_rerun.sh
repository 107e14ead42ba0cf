# A run again from what the store keeps, and its code as files.
export TMPDIR="$PWD"
cat > lib.dlsh <<'X'
d = dataset("digits", n=200, test=50)
net m { flatten -> linear 10 }
X
cat > t.dlsh <<'X'
args lr=0.1 label="a"
read "lib.dlsh"
r = start_run("other", label=label); r.end()
t = trainer(m, d, opt=sgd(lr=lr), batch=50, name="first")
train t epochs=1
X
git init -q . && git -c user.name=a -c user.email=a@b add t.dlsh lib.dlsh && git -c user.name=a -c user.email=a@b commit -qm x
echo "# not committed" >> lib.dlsh
dlsh -n -q --db x.db --seed 5 t.dlsh lr=0.2 label="b c" > first.out
rm t.dlsh; echo "# later" >> lib.dlsh
tidy() { sed -E 's|/[^ ]*/||g; s|dlsh-rerun-[A-Za-z0-9]*|SCRATCH|; s|[0-9a-f]{12,40}|HASH|; /epoch/d; /^in /d'; }
dlsh -n --db x.db -c 'run rerun first' 2>&1 | tidy
dlsh -n --db x.db -c 'run rerun 2 lr=0.3' 2> no.err | tidy
dlsh -n --db x.db -c 'runs cols=lr,label,seed tag="rerun=2"' | sed -E 's/ +$//'
dlsh -n --db x.db -c 'run restore-code 2 then' | tidy
ls -A then; cat then/lib.dlsh
dlsh -n --db x.db -c 'run restore-code 2 then' 2>&1 | tail -1
dlsh -n --db x.db -c 'r = start_run("p"); r.end(); run rerun last' 2>&1 | grep error
