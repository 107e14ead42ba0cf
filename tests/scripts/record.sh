# A loop of one's own records its run: parameters, metrics, net and data; the end, also by an error; wrong use.
cat >loop.dlsh <<'END'
seed 1
d = dataset("moons", n=200)
net m { linear 8 -> relu -> linear 2 }
m.build([2])
o = adam(m, lr=0.02)
r = start_run("by hand", lr=o.lr, widths=[8, 2], fast=true, net=m, data=d, note="a loop of my own", group="g")
r
for x, y in loader(d, batch=50) {
    o.zero_grad()
    l = cross_entropy(m(x), y)
    backward l
    n = clip_grad_norm(m, 0.01)
    assert n > 0.01 && clip_grad_norm(m.parameters(), 1) <= 0.0101
    clip_grad_value(m, 0.001)
    assert max(abs(m.linear0.weight.grad)) <= 0.001001
    o.step()
    r.log(loss=l, grad_norm=n, ok=true)
}
r.log("test/acc", 0.75, step=r.step)
[r.id, r.name, r.step]
s = r
r = start_run()
r.log("a metric", nan, step=7)
r = none
s.end()
s
s.end()
t = trainer(m, d, opt=sgd(), batch=50, name="with a trainer")
try { t.log(x=1) } catch e { print(e.message, "/", e.hint) }
step t 3;
t.log(zeros=mean((m.linear0.weight == 0).float()))
t.log("test/f1", 0.5, step=2)
END
dlsh -n loop.dlsh
dlsh -n -c 'r = start_run("broken", experiment="e")
r.log(loss=1)
r.log(loss=2)
x = randn(2, 3) @ randn(4, 5)'
echo "status $?"
dlsh -n -c "run show 2" | grep "a metric"
dlsh -n --mode csv -c 'sql "select id, name, status, model_name, dataset, n_params, note, grp, experiment, error is not null as wrong from run"
sql "select run_id, key, value, num from param where run_id = 1 order by key"
sql "select run_id, key, n, n_nan, last_step from series order by run_id, key"'
dlsh -n --db none -k -c 'm = param(ones(2))
r = start_run("nowhere")
r
r.log()
r.log(loss="x")
r.log(loss=randn(3))
r.log("test/acc")
r.log(loss=1, step=-2)
r.log(loss=1, step=9223372036854775807)
r.log(loss=1)
r.log(loss=1, step=3)
r.end()
r.log(loss=1)
start_run(5)
start_run("x", net=3)
clip_grad_norm(3, 1)
clip_grad_norm([m, 3], 1)
clip_grad_norm(m, 0)
clip_grad_norm(m, 1)'
