# A loop written by hand resumes from a checkpoint bit for bit: net, optimizer, loader, random numbers, numbers of its own.
cat > loop.dlsh <<'P'
args steps=12 stop=-1 resume=false
seed 5
d = dataset("digits", n=96, test=16)
net m {
    body: flatten -> linear 24 -> relu -> dropout 0.3
    param gain [24] init=1
    head: linear 10
    forward(x) { return head(body(x) * gain) }
}
batches = loader(d, batch=16, shuffle=true)
m.build([1, 28, 28])
o = adamw(m, lr=1e-2)
best = {loss: 1e9, at: [0, 0]}
plan = schedule("plateau", patience=1, factor=0.5)
state = record(m=m, o=o, plan=plan, batches=batches, rng=rng_state(), best=best, step=0, name="none")
if resume {
    load state "loop.safetensors"
    best = state.best
}
step = state.step
while step < steps && step != stop {
    x, y = next(batches)
    o.zero_grad()
    l = cross_entropy(m(x + 0.01 * randn(x.shape)), y)
    backward l
    clip_grad_norm(m, 1.0);
    plan.report(l.item())
    o.lr = plan(step, schedule("cosine", 12)(step, 1e-2))
    o.param_groups[0].weight_decay = 0.01 * step
    o.step()
    step += 1
    if l.item() < best.loss { best.loss = l.item(); best.at = [step, step * 2] }
}
save record(m=m, o=o, plan=plan, batches=batches, rng=rng_state(), best=best, step=step, name="it's") "loop.safetensors"
P
dlsh -n --db none loop.dlsh && cp loop.safetensors whole.safetensors
dlsh -n --db none loop.dlsh stop=7 && cp loop.safetensors part.safetensors
dlsh -n --db none loop.dlsh resume=true && cmp loop.safetensors whole.safetensors && echo "the same bits"
cmp -s part.safetensors whole.safetensors || echo "and not those of step 7"
cat > more.dlsh <<'P'
c = load("whole.safetensors")
c.keys()
[c.step, c.name, c.best.at, type(c.rng), c.batches]
c.m.keys()
c.o.keys()
net m {
    body: flatten -> linear 24 -> relu -> dropout 0.3; param gain [24] init=1; head: linear 10
    forward(x) { return head(body(x) * gain) }
}
m.load_state(c.m)
assert equal(m.gain, c.m.gain)
o = adamw(m, lr=1.0)
o.load_state(c.o)
[o.steps, o.lr < 0.01]
set_rng_state(c.rng); a = randn(3)
set_rng_state(c.rng); assert equal(a, randn(3)) && rng_state() != c.rng
set_rng_state(c.rng); assert rng_state() == c.rng
fn refuse(f) { try { f(); print("nothing refused") } catch e { print(e.message) } }
refuse(fn () { load(record(m=m, nothing=1), "whole.safetensors") })
refuse(fn () { load(record(o=m), "whole.safetensors") })
refuse(fn () { load(record(step=m), "whole.safetensors") })
[c.plan.factor, c.plan.text]
refuse(fn () { load(record(plan=schedule("plateau", patience=2)), "whole.safetensors") })
refuse(fn () { load(record(plan=1), "whole.safetensors") })
refuse(fn () { load(record(o=sgd(m, lr=1.0)), "whole.safetensors") })
refuse(fn () { load(record(o=adamw(m.head, lr=1.0)), "whole.safetensors") })
refuse(fn () { o.load_state({lr: 1.0}) })
refuse(fn () { o.load_state({lr: tensor([0.1])}) })
refuse(fn () { save record(f=refuse) "f.safetensors" })
ring = {a: 1}; ring.b = [ring]
refuse(fn () { save ring "f.safetensors" })
refuse(fn () { save record(m=m) "f.npz" })
refuse(fn () { load m "whole.safetensors" })
save record(a=a, b=a) "plain.npz"
load("plain.npz").keys()
P
dlsh -n -k --db none more.dlsh
# what is damaged names its file
python3 - <<'P'
b = open("whole.safetensors", "rb").read()
open("torn.safetensors", "wb").write(b.replace(b'\\"keys\\":', b'\\"keys\\";', 1))
open("bent.safetensors", "wb").write(b.replace(b'\\"items\\"', b'\\"itsme\\"', 1))
P
dlsh -n --db none -c 'for f in ["torn", "bent"] { try { load(f + ".safetensors") } catch e { print(e.message) } }'
dlsh -n --db none -c 'for f in ["torn", "bent"] { try { load({a: 1}, f + ".safetensors") } catch e { print(e.message) } }'
