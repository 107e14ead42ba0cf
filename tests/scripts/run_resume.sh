# A killed run goes on from its newest checkpoint, with its script as it was, to the weights of a run that nothing stopped.
export TMPDIR="$PWD"
cat > lib.dlsh <<'X'
d = dataset("digits", n=200, test=50)
net m { flatten -> linear 16 -> relu -> dropout 0.2 -> linear 10 }
X
cat > t.dlsh <<'X'
args epochs=6 lr=0.1 die=false
read "lib.dlsh"
seed 3
r = start_run("beside"); r.end()
t = trainer(m, d, opt=sgd(lr=lr, momentum=0.9), batch=20, name="main", val=0.2, keep="best", checkpoint="t.safetensors")
train t epochs=2
if die { train t epochs=1; step t 3; extern "libc.so.6" int raise(int n); raise(9) }
train t epochs=(epochs - 2)
print("done", t.step)
X
tidy() { sed -E 's|/[^ ]*/||g; s|[0-9a-f]{12,40}|HASH|; s|  [0-9./]+ it/s.*||; /^epoch/d'; }
weights() { dlsh -n --mode csv --db "$1" -c 'sql "select text from event join run on run.id = run_id where kind = '"'weights'"' and name = '"'main'"'"' | tail -1; }
dlsh -n -q --db straight.db --seed 5 t.dlsh | tidy
dlsh -n -q --db x.db --seed 5 t.dlsh die=true > /dev/null 2>&1; echo "status $?"
dlsh -n --db x.db -c 'runs cols=name,status' | sed -E 's/ +$//'
echo "# later" >> lib.dlsh
dlsh -n --db x.db -c 'run resume main die=false' 2>&1 | tidy
dlsh -n --db x.db -c 'runs cols=name,status' | sed -E 's/ +$//'
test "$(weights x.db)" = "$(weights straight.db)" && echo same weights
dlsh -n --db x.db -c 'sql "select n, last_step from series join run on run.id = run_id where name = '"'main'"' and key = '"'train/loss'"'"'
ls -d dlsh-rerun-* 2>/dev/null
# further than it was to go, and from an earlier step
dlsh -n --db x.db -c 'run resume main epochs=7 die=false' 2>&1 | tidy
# what is run again then is the training with the arguments of the end
dlsh -n --db x.db -c 'run rerun main
runs cols=epochs,die limit=2' 2>&1 | tidy | tail -6
sed -i 's/t.safetensors/t-{step}.safetensors/' t.dlsh
dlsh -n -q --db y.db --seed 5 t.dlsh epochs=4 > /dev/null
ls t-*.safetensors
dlsh -n --db y.db -c 'run resume main step=16' 2>&1 | tidy
dlsh -n --db y.db -c 'run resume main step=17' 2>&1 | grep -A2 error
# what cannot go on
rm t-*.safetensors
dlsh -n --db y.db -c 'run resume main' 2>&1 | grep -A3 error
dlsh -n --db y.db -c 'r = start_run("p"); r.end(); run resume last' 2>&1 | grep error
cat > h.dlsh <<'X'
net m { linear 2 }
t = trainer(m, dataset("moons", n=40), name="hand", checkpoint="h.safetensors", batch=40)
if "go" in read_text("go") { train t epochs=1 }
X
echo go > go; dlsh -n -q --db z.db h.dlsh > /dev/null; echo no > go
dlsh -n --db z.db -c 'run resume hand' 2>&1 | grep -A2 error
for o in checkpoint_every=2 'checkpoint="t.ckpt"' 'checkpoint="t.safetensors", checkpoint_steps=-1' 'checkpoint="t.safetensors", checkpoint_steps=1, checkpoint_every=1'; do
    dlsh -n --db none -c "net m { linear 2 }; t = trainer(m, dataset(\"moons\", n=40), $o)" 2>&1 | grep -e error -e hint
done
# a folder that is gone stops no training; a checkpoint in steps
dlsh -n -q --db w.db -c 'net m { linear 2 }; t = trainer(m, dataset("moons", n=40), checkpoint="no/t.safetensors", batch=10); train t epochs=2' 2>&1 | tidy
dlsh -n -q --db w.db -c 'net m { linear 2 }; t = trainer(m, dataset("moons", n=40), checkpoint="w{step}.safetensors", checkpoint_steps=3, batch=10); train t steps=8' > /dev/null; ls w*.safetensors
