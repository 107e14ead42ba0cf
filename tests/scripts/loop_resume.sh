# A loop written by hand that was killed goes on from the newest state that it saved, to the bits of a loop that nothing
# stopped.
export TMPDIR="$PWD"
cat > loop.dlsh <<'P'
args steps=40 die=-1
seed 5
d = dataset("digits", n=96, test=16)
net m { flatten -> linear 24 -> relu -> dropout 0.3 -> linear 10 }
m.build([1, 28, 28])
batches = loader(d, batch=16, shuffle=true)
o = adamw(m, lr=1e-2)
state = record(m=m, o=o, batches=batches, rng=rng_state(), step=0)
if resumed() { load(state, resumed()); }
beside = start_run("beside"); beside.end()
r = start_run("by hand", lr=1e-2)
extern "libc.so.6" int raise(int n)
for i in range(state.step, steps) {
    x, y = next(batches)
    o.zero_grad()
    l = cross_entropy(m(x), y)
    backward l
    o.step()
    r.log(loss=l, samples=16 * (i + 1))
    if i == die { raise(9) }
    if i % 7 == 6 { save record(m=m, o=o, batches=batches, rng=rng_state(), step=i + 1) "loop.safetensors" }
}
save record(m=m, o=o, batches=batches, rng=rng_state(), step=steps) "end.safetensors"
P
ask() { dlsh -n --mode csv --db "$1" -c "sql \"$2\"" | tail -n +2; }
points="select key, n, last_step, printf('%.9g', sum) from series s join run r on r.id = s.run_id where r.name = 'by hand' and key not like 'system/%' order by key"
dlsh -n -q --db straight.db loop.dlsh && sha256sum < end.safetensors > straight.sha && rm ./*.safetensors
dlsh -n -q --db x.db loop.dlsh die=25 2> /dev/null; echo "status $?"
ask x.db "select name, step, kind from artifact where kind = 'checkpoint'"
echo "# later" >> loop.dlsh
dlsh -n --db x.db -c 'run resume "by hand" die=-1' 2>&1 | sed -E 's|/[^ ]*/||g'
sha256sum < end.safetensors | cmp - straight.sha && echo "the same bits"
ask x.db "$points" > x.points; ask straight.db "$points" > straight.points; cmp x.points straight.points && cut -d, -f1-3 x.points
dlsh -n --db x.db -c 'runs cols=name,status' | sed -E 's/ +$//'
# again, from an earlier state that is still there; the later one replaced it, unless names differ
dlsh -n --db x.db -c 'run resume "by hand" step=14' 2>&1 | grep -A1 error
# wherever it is killed, the file that is there is one that the store knows
for ms in 30 60 90 120; do
    rm -f y.db* loop.safetensors end.safetensors
    dlsh -n -q --db y.db loop.dlsh steps=4000 2> /dev/null & pid=$!
    for i in $(seq 500); do [ ! -e loop.safetensors ] || break; sleep 0.01; done
    sleep 0.0$ms
    kill -9 $pid 2> /dev/null; wait $pid 2> /dev/null
    at=$(dlsh -n --db none -c 'print(load("loop.safetensors").step)')
    dlsh -n --db y.db -c "run resume \"by hand\" steps=$((at + 7))" 2>&1 | grep -c "goes on after step $at\$"
done
# what cannot go on
cat > no.dlsh <<'P'
net m { linear 2 }; m.build([2]); o = sgd(m, lr=0.1)
r = start_run("silent")
save record(m=m, o=o, step=3) "no.safetensors"
save record(x=ones(2), step=9) "figures.safetensors"
P
dlsh -n -q --db z.db no.dlsh
ask z.db "select name, step from artifact where kind = 'checkpoint'"
dlsh -n --db z.db -c 'run resume silent' 2>&1 | grep -A3 error
rm no.safetensors
dlsh -n --db z.db -c 'run resume silent' 2>&1 | grep -A3 error
dlsh -n --db z.db -c 'print(resumed())'
