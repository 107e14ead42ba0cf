# What newcomers write: one message, its place, and what to write instead.
while IFS= read -r line; do
    echo "> $line"
    dlsh -n --db none -c "$line" 2>&1 | grep -v '^    '
done <<'END'
trian t epochs=2
plto loss
comapre 1 2
echo hello
ls
t = 3; train t
train t epochs=2
net m { linear 10 linear 5 }
net m { linear 10 init=kaiming_normal }
d = {a: 1}; d[0]
d = {alpha: 1}; d["alhpa"]
l = [1, 2]; l["a"]
l = [1, 2]; l.push(3)
x := 3
x = 3; x--
x |= 2
f = x => x + 1
for i in 0..10 { }
x = 1:10
x: int = 3
body: linear -> relu
xs = [1]; sorted(set(xs))
a, b = 3
[a, b] = [1, 2]
x(1) = 3
watch x
break loss < 1
x = 3; xcheck f64 x = 5
x = [1 2 3]
x = [1, 2; 3, 4]
y = x .* x
A' * B
x = 3 y = 4
"a" "b"
sum(zeros(3), dims=0)
adam(learning_rate=0.1)
dataset(mnist)
fn f(x) = x * 2
m = net { linear 10 }
precision bf61
x = param(ones(3)); x[0] = 1
x = param(ones(3)); x.add_(1)
net m { linear 10 init=kaiming_normall }
net m { linear 10 init="kaiming" }
net m { conv 16 kernel=3 paddin=1 }
net m { x -> linear 10 }
net m { linear 2 }; m.build([3]); m.get_state()
randn(3, 3).transposed(0, 1)
randn(3).std(biased=false)
hist randn(9) * 2
img randn(4, 4) / 2
x = ones(2); stat x + 1
runs where=lr>0.1
x <- 3
lr <- 3
device cudaa
device gpu
device tpu
3 // comment
x = 3 // a comment
/* c */ 3
// hello
"http://x" + "y" z
n = 3; n // m
a = b = 3
x.y = z = 3
x = ()
1,000
1_000
1e
p->x
x -> 3
try { } catch (e) { }
repeat 3 { }
swish 3
x = new Foo()
quux bar
range 3
goto x
yield 3
pass
nonlocal x
&x
*p
@f
x ?? 3
x |> f
5 mod 3
*p = 3
a, *b, *c = [1]
for *a in [1] { }
print(1 if true else 2)
x = sum(1, i for i in [1])
x = (1 if true else 2)
x = no_grad { 1 }
x = 3 not in [1]
with open("f") { }
class Net(nn.Module):
x = {...r}
assert false, "oh"
assert 1 == 2, 3
1,000,000
net m { linear 1 }; m["x.y"]
step
stat;
step + 1
runs == 3
runs = 3; runs; (runs)
9223372036854775808
net m { a: linear 3; forward(x, a) { return a } }
net m { a: linear 3 -> b: relu; forward(x) { return b(x) } }; m(ones(2, 2))
net m { a: linear 3 }; m.build([2]); net n { a: linear 3; b: linear 1 }; n.build([2]); save n "n.safetensors"; load m "n.safetensors"
help clip_
[x for x in 5]
[x.y for x in [1]]
[x for in [1]]
[x for x [1]]
(x for x in [1])
[a, b for a in [1]]
{1: x for x in [1]}
{k: 1 for k in [3]}
[x for x in [1] if]
[x for x in [1], 2]
[x for *x in [[1]]]
[1 for x in [1] if x + none]
[a for a, b in [[1]]]
{k + "a": 1 for k in ["b"]}
END
for text in "'x = ' + '1 + ' * 100 + 'y' * 1000000" "'print(\"' + 'a' * 1000000"; do
    python3 -c "print($text)" > long.dlsh
    dlsh -n --db none long.dlsh 2>&1 | wc -c | awk '{ print ($1 < 2000 ? "a long line is quoted in part" : "too long") }'
done
