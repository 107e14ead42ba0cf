# Values that hold each other are freed without being asked to, whatever the cycle is made of. The peak of memory tells:
# each cycle keeps 8 MB, and 60 are made.
cycle() {
    { cat; echo; echo 'show memory'; } >cycle.dlsh
    dlsh -n --db none --mode json cycle.dlsh >out 2>&1 || cat out
    peak=$(sed -n 's/^{"device":"cpu".*"peak":\([0-9]*\).*/\1/p' out)
    [ "$peak" -lt 200000000 ] && echo "$1: bounded" || echo "$1: a peak of $peak bytes"
}
cycle "record" <<'END'
for i in range(60) { r = record(x=zeros(1000, 2000)); r.me = r }
END
cycle "list" <<'END'
for i in range(60) { l = [zeros(1000, 2000)]; l.append(l); l.append([l, [l]]); }
END
cycle "two records and a list" <<'END'
fn pair() { a = record(x=zeros(1000, 2000)); b = record(peers=[a]); a.peer = b }
for i in range(60) { pair() }
END
cycle "a function that calls itself and escapes" <<'END'
fn make() {
    x = zeros(1000, 2000)
    fn f(n) { return n == 0 ? x[0, 0].item() : f(n - 1) }
    return f
}
for i in range(60) { g = make(); assert g(3) == 0 }
END
cycle "functions that call each other" <<'END'
fn make() {
    x = zeros(1000, 2000)
    fn even(n) { return n == 0 || odd(n - 1) }
    fn odd(n) { return n != 0 && even(n - 1) && len(x) > 0 }
    return [even, odd]
}
for i in range(60) { fs = make(); assert fs[1](3) }
END
cycle "an object of functions" <<'END'
fn counter() {
    self = record(n=0, x=zeros(1000, 2000))
    self.inc = fn () { self.n += 1; return self.n }
    return self
}
for i in range(60) { c = counter(); c.inc(); assert c.inc() == 2 }
END
cycle "a default value" <<'END'
for i in range(60) { box = [zeros(1000, 2000)]; box.append(fn (b=box) { return b }); }
END
cycle "a method" <<'END'
for i in range(60) { l = [zeros(1000, 2000)]; l.append(l.append); }
END
cycle "memory of C" <<'END'
C { struct link { struct link *next; double at; }; }
for i in range(60) { a = new("struct link"); b = new("struct link"); a.next = b; b.next = a; r = [zeros(1000, 2000), a]; r.append(r); }
END
cycle "old values" <<'END'
keep = []
for i in range(60) {
    l = [zeros(1000, 2000)]; l.append(l); keep.append(l);
    if len(keep) == 5 { for k in range(20000) { [k]; }; keep = [] }
}
END
cycle "a tree with parents" <<'END'
fn tree(depth, up) {
    n = record(up=up, kids=[], x=zeros(8000))
    if depth > 0 { for i in range(2) { n.kids.append(tree(depth - 1, n)); } }
    return n
}
for i in range(8) { t = tree(9, none) }
END
# 30 of them, as drawing weights takes time.
cycle "a net whose forward calls it" <<'END'
fn make() { m = none; m = net { a: linear 2000; forward(x) { return x.shape[0] > 5 ? m(x) : a(x) } }; m(zeros(1, 1000)); }
for i in range(30) { make() }
END
cycle "a function as a layer" <<'END'
fn make() { r = record(); f = fn (x) { return len(r) ? x : r.m(x) }; r.m = net { linear 2000 -> f }; r.m(zeros(1, 1000)); }
for i in range(30) { make() }
END
cycle "parts and copies of nets" <<'END'
fn make() {
    r = []
    block = net { a: linear 1000; forward(x) { return len(r) ? a(x) : x } }
    m = net { inner: block; more: list { block; block }; forward(x) { return len(r) ? inner(x) : more[0](inner(x)) } }
    m(zeros(1, 1000));
    r.append(m.copy()); r.append(m.more[1]); r.append(m.more); r.append(block.a)
}
for i in range(30) { make() }
END
cycle "nets that call each other" <<'END'
fn make() {
    r = record()
    r.a = net { l: linear 1000; forward(x) { return x.shape[0] > 5 ? r.b(x) : l(x) } }
    r.b = net { l: linear 1000; forward(x) { return x.shape[0] > 5 ? r.a(x) : l(x) } }
    r.a(zeros(1, 1000)); r.b(zeros(1, 1000));
}
for i in range(30) { make() }
END
# Before memory is refused, cycles are looked for. (AddressSanitizer's shadow needs more addresses than any limit leaves.)
limit=100000
ldd "$(command -v dlsh)" | grep -q 'lib[at]san' && limit=8000000
while [ $limit -lt 8000000 ] && ! (ulimit -v $limit; dlsh -n --db none -c 'ones(2, 2) @ ones(2, 2);') >/dev/null 2>&1; do
    limit=$((limit + 100000))
done
cat >refused.dlsh <<'END'
r = record(x=zeros(100, 1000, 1000)); r.me = r; r = none
y = zeros(100, 1000, 1000)
print("room for it")
END
if [ $limit -lt 8000000 ]; then
    (ulimit -v $((limit + 550000)); dlsh -n --db none refused.dlsh)
else
    echo "room for it"
fi
cycle "tensors that are gradients of themselves and of each other" <<'END'
for i in range(60) { x = param(zeros(1000, 2000)); x.grad = x; y = param(x.data); y.grad = x; x.grad = y }
END
cycle "gradients with a history" <<'EOF'
for i in range(60) { w = param(zeros(1000, 2000)); backward sum(w ** 3) create_graph=true }
EOF
cycle "gradients that are computed from their tensor" <<'EOF'
for i in range(60) { w = param(zeros(1000, 2000)); w.grad = w * 2 }
EOF
cycle "tensors whose gradients are computed from each other" <<'EOF'
for i in range(100) { w = param(zeros(1000, 2000)); v = param(zeros(1000, 2000)); w.grad = v * 2; v.grad = w * 2 }
EOF
cycle "weights of nets" <<'EOF'
for i in range(60) { net m { linear 2000 }; m.build([1000]); m.linear0.weight.grad = m.linear0.weight * 2 }
EOF
cat >kept.dlsh <<'EOF'
w = param(tensor([2.0]))
for i in range(1000) { v = param(zeros(1)); v.grad = v + 1; backward sum(w ** 3) create_graph=true; if i < 999 { w.grad = none } }
backward sum(w.grad)
w.grad
EOF
dlsh -n kept.dlsh
cat >used.dlsh <<'EOF'
fn make(n) { m = none; m = net { a: linear 3; forward(x, k=0) { return k < n ? m(x, k=k + 1) : a(x) } }; return m }
fn litter() { for i in range(3000) { r = record(); r.me = r; make(1) } }
m = make(2)
copy = m.copy()
wrapped = (fn () { inner = make(1); return net { i: inner; forward(x) { litter(); return i(x) } } })()
x = ones(2, 3)
y = m(x); z = wrapped(x)
copy = m.copy(); part = m.a
litter()
no_grad { z2 = copy(x) }
assert all(m(x) == y) && all(z2 == y) && all(wrapped(x) == z)
m = none
litter()
no_grad { z2 = copy(x) }
assert all(z2 == y) && all(part(x) == part(x))
print("nets in use live")
EOF
dlsh -n --db none used.dlsh
cycle_of_training() {
    { cat <<'END'; cat; } | cycle "$1"
x = randn(32, 4); y = randint(0, 2, [32]); d = dataset(x, y)
net m { linear 8 -> relu -> linear 2 }
m.build([4])
fn part(s, name) { return stack(map(fn (i) { return i[name] }, s)) }
END
}
cycle_of_training "the loss of a trainer" <<'END'
for i in range(60) {
    box = [zeros(1000, 2000)]
    box.append(trainer(m.copy(), d, loss=fn (out, y, b=box) { return cross_entropy(out, y) }))
    step box[1];
}
END
cycle_of_training "the schedule of a trainer" <<'END'
for i in range(60) {
    box = [zeros(1000, 2000)]
    box.append(trainer(m.copy(), d, opt=sgd(), schedule=fn (i, b=box) { return 0.1 }))
    step box[1];
}
END
cycle_of_training "a function that makes batches" <<'END'
for i in range(60) {
    box = [zeros(1000, 2000)]
    fn join(s, b=box) { return {x: part(s, "x"), y: part(s, "y")} }
    box.append(trainer(m.copy(), d, collate=join))
    step box[1];
    eval(box[1], split="train");
    box.append(box[1].batches); box.append(loader(d, collate=join)); next(box[3]);
}
END
cycle_of_training "a function that makes samples" <<'END'
for i in range(60) {
    box = [zeros(1000, 2000)]
    box.append(dataset(fn (i, b=box) { return [x[i], y[i]] }, n=32, classes=2))
    box.append(trainer(m.copy(), dataset(box[1], random_split(box[1], [0.5, 0.5])[0]), batch=8))
    step box[2];
    box.append(box[1].train); box.append(loader(box[3]))
}
END
cycle_of_training "the net of a trainer" <<'END'
for i in range(60) {
    box = [zeros(1000, 2000)]
    n = net { body: linear 2; forward(x, b=box) { return body(x) } }
    box.append(trainer(n, d))
    step box[1];
}
END
cat >live.dlsh <<'END'
x = randn(32, 4); y = randint(0, 2, [32]); d = dataset(x, y)
net m { linear 8 -> relu -> linear 2 }
fn part(s, name) { return stack(map(fn (i) { return i[name] }, s)) }
fn kept() {
    box = []
    fn join(s) { return {x: part(s, "x") + 0 * len(box), y: part(s, "y")} }
    t = trainer(m, d, loss=fn (out, y) { box; return cross_entropy(out, y) }, schedule=fn (i) { return 0.1 + 0 * len(box) }, collate=join)
    box.append(t)
    step t;
    return t.batches
}
l = kept()
empty_cache
print(next(l)[0].shape, "loaders in use live")
END
dlsh -n --db none live.dlsh
cycle "a result that ctx keeps, and gradients of gradients" <<'END'
s = autograd_function(fn (ctx, x) { ctx.y = x.exp(); return ctx.y }, fn (ctx, g) { return g * ctx.y })
fn once() { q = param(zeros(1000, 2000)); grad(s(q).sum(), [q], create_graph=true); b = param(2.0); grad((s(q) * b).sum(), b, create_graph=true) }
for i in range(60) { once() }
END
