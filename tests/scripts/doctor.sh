# What the doctor says of programs with mistakes in other settings: typed, in functions, asked before; doctor_bugs*.sh and
# doctor_healthy.sh run the programs.
# Nothing is said to be well of gradients and units where no unit is alive, or no number is finite.
for f in b24_dead.dlsh b43_nan_data.dlsh; do
    dlsh -n --db none "$f" 2>err | grep -E "^PASS  (gradients get through|dead and saturated)"
done
# a loss that became nan is told without the sign that 0 / 0 gives it
cat >signed_nan.dlsh <<'END'
seed 1
x = randn(40, 6)
net m { linear 8 -> relu -> linear 2 }
m(x);
o = sgd(m, lr=0.01)
for i in range(6) {
    far = (m(x)[:20] - m(x)[20:]).square().sum(dim=1)
    near = (m(x)[:20] - m(x)[:20]).square().sum(dim=1).sqrt()
    o.zero_grad()
    l = relu(near - far + 2).mean()
    backward l
    o.step()
}
doctor
END
dlsh -n --db none signed_nan.dlsh 2>err | grep -e "-nan\|to nan"
# an optimizer stands for the net that it trains
sed 's/^doctor$/doctor o/' b13_no_zero.dlsh >of_optimizer.dlsh
dlsh -n --db none of_optimizer.dlsh 2>err | grep "^FAIL"
# asked before anything has run, it watches what comes then
(echo doctor; cat b13_no_zero.dlsh) >asked.dlsh
dlsh -n --db none asked.dlsh 2>err | grep -o "nothing to look at yet\|FAIL  gradients are zeroed"
true
# Typed line by line, what the pieces say together counts as it does in a script, and places are those of the pieces.
causes() { sed -n 's/^      cause  *//p' | sed 's/[^ (]*:[0-9]*//g; s/line [0-9]*/line /'; }
for f in e1*.dlsh; do
    dlsh -n --db none "$f" 2>err | causes >script
    dlsh -n --db none -i <"$f" 2>err | causes >typed
    cmp -s script typed || { echo "$f: typed, other causes"; diff script typed; }
done
# Within a function, and in functions for the data and the rest, the same is named as at the top level.
for f in b1[679]*.dlsh b2[19]*.dlsh b3[0235678]*.dlsh b4[016]*.dlsh; do
    grep -v '^doctor' "$f" >body; echo doctor >>body
    dlsh -n --db none body 2>err | causes >script
    (echo 'fn main() {'; grep -v '^doctor' "$f"; echo '}'; echo 'main()'; echo doctor) >body
    dlsh -n --db none body 2>err | causes >inside
    cmp -s script inside || { echo "$f: in a function, other causes"; diff script inside; }
done
# A loop that was changed and run again replaces the former one.
head -5 b13_no_zero.dlsh >typing
cat >>typing <<'.'
for i in range(30) { l = cross_entropy(m(x), y); backward l; o.step() }
doctor
for i in range(30) { o.zero_grad(); l = cross_entropy(m(x), y); backward l; o.step() }
doctor
.
dlsh -n --db none -i <typing 2>err | grep -A3 "gradients are zeroed"
# A statement that is typed again goes on with what it did.
cat >typing <<'.'
seed 3
net m { flatten -> linear 32 -> relu -> linear 10 }
t = trainer(m, dataset("digits", n=400), opt=adam(lr=0.01), batch=32)
train t steps=20
train t steps=20
train t steps=30
doctor
.
dlsh -n --db none -i <typing 2>err | grep -E "FAIL|NOTE|zeroed"
# What could not be looked at is no PASS.
dlsh -n --db none kx21_actor_critic.dlsh | grep -o "^----.*: not checked: [a-z ]*"
dlsh -n --db none b24_dead.dlsh | grep -o "size of updates: not checked\|its targets were not seen\|looked at with targets"
# A table that was made anew since the training is not said to be what was trained on; frozen parameters are counted.
cat >typing <<'.'
seed 4
fn points(n) { x = randn(n, 3); return x, (x[:, 0] > 0).long() }
net body { linear 8 -> relu }
body.build([3])
body.requires_grad_(false);
net m { b: body; linear 2 }
m.build([3])
o = adam(m, lr=0.01)
for i in range(20) { x, y = points(40); l = cross_entropy(m(x), y); o.zero_grad(); backward l; o.step() }
x, y = points(60)
m.eval()
no_grad { print((m(x).argmax(1) == y).float().mean().item() > 0) }
doctor
.
dlsh -n --db none typing 2>err | grep -oE "numbers that it got later|[0-9]+ of them frozen"
# A check without a finding says so in any case, where nothing of its kind was seen, and where a finding may explain it.
dlsh -n --db none gq13_trained_weights_of_losses.dlsh 2>err |
    grep -oE "^(PASS|----)  (hooks keep the direction|copies follow what they are made of|the loss falls): [^:]*"
# Blocks that are a net of their own: the remedy names the loop that runs them without anything that goes past.
dlsh -n --db none gr42_blocks_of_another_net.dlsh 2>err | grep -o "h = h + b(h) in line 14"
