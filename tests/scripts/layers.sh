# A row for each layer, of which those that look wrong are marked. What is looked at stays as it is: weights, gradients,
# buffers, the optimizer, random numbers.
cat > layers.dlsh <<'END'
fn sums(m) {
    all = 0.0
    for name, w in m.state() { all += sum(w.to(f64)).item() }
    return all
}
seed 3
net m { linear 8 -> relu -> batchnorm -> dropout 0.5 -> linear 4 -> tanh -> linear 3 }
o = adam(lr=0.01)
x = randn(40, 5)
y = randint(0, 3, [40])
m(x);
o.add(m)
l = cross_entropy(m(x), y)
backward l
o.step()
before = [sums(m), norm(m.linear0.w.grad).item(), o.steps]
seed 5
a = rand(1).item()
seed 5
layers m
print(rand(1).item() == a, before == [sums(m), norm(m.linear0.w.grad).item(), o.steps])
no_grad {
    m.linear0.b[:] = -100.0
    m.linear1.w *= 1000.0
}
layers m
t = trainer(net { linear 4 -> relu -> linear 2 }, dataset("moons", n=64), opt=sgd(lr=30.0))
layers t
layers
END
dlsh -n --db none --mode csv layers.dlsh | cut -d, -f1-3,12
# a net of all nodes of a graph does not run on some of them
cat >graph.dlsh <<'END'
a = eye(60)
net g { first: linear 4; forward(x) { return a @ self.first(x) } }
x = randn(60, 3)
g(x);
layers g
END
dlsh -n --db none graph.dlsh | head -1
# a state has its samples in another dimension than the input
cat >state.dlsh <<'END'
net s { r: gru 6 batch_first; forward(x, h) { return r(x, h) } }
s(zeros(1, 5, 2), zeros(1, 1, 6));
s(zeros(16, 5, 2), zeros(1, 16, 6));
layers s
END
dlsh -n --db none state.dlsh | head -1
dlsh -n --db none -c 'layers'
dlsh -n --db none -c 'net m { linear 2 }; layers m' || true
