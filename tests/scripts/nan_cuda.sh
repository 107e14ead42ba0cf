# NaN made on a GPU: found under set nan stop, in a step that diverged, and met when a number is read
dlsh -n --db none --device cuda -c 1 >/dev/null 2>&1 || { echo "skipped: no GPU"; exit 77; }
cat > stop.dlsh <<'END'
set nan stop
x = tensor([1.0, -0.03])
try { log(x) } catch e { print(e.message, "|", e.hint) }
w = param(zeros(3))
try { backward sum(where(w > 0, log(w), zeros(3))) } catch e { print(e.message) }
why nan
sum(x + nan)
END
dlsh -n --db none --device cuda stop.dlsh 2>&1
cat > warn.dlsh <<'END'
w = param(tensor([4.0, -1.0]))
fn loss() { return sum(sqrt(w)) }
l = loss()
print(l.item())
why nan
sum(tensor([1.0, nan])).item()
END
dlsh -n --db none --device cuda warn.dlsh 2>&1
cat > train.dlsh <<'END'
seed 1
d = dataset("moons", n=200)
net m { linear 8 -> tanh -> linear 2 }
fn loss(out, y) { return mean(log(out - 1e9)) }
t = trainer(m, d, loss=loss, batch=50)
before = m.linear0.weight.clone()
try { step t } catch e { print(e.message) }
assert (m.linear0.weight == before).all().item()
net v { batchnorm -> linear 16 -> relu; head: linear 2 }
u = trainer(v, d, opt=sgd(lr=0.1), batch=50)
train u steps=20;
print(u.capture)
no_grad { v.head.weight[0, 0] = 1e38; v.head.weight[0, 1] = 1e38; v.head.weight[0, 2] = 1e38; v.head.weight[0, 3] = 1e38; v.head.weight *= 3 }
try { train u steps=5 } catch e { print(e.message) }
why nan
END
dlsh -n --db runs.db --device cuda train.dlsh 2>&1
dlsh -n --db runs.db -c 'sql "select kind, json ->> '"'op'"' as op, json ->> '"'line'"' as line from event where kind = '"'nan'"'"'
