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
# files read by an absolute path are those of then, too
echo "width = 3" > wide.dlsh
printf 'read "%s/wide.dlsh"\nnet m { flatten -> linear width -> linear 10 }\nt = trainer(m, dataset("digits", n=50, test=10), batch=50, name="absolute")\ntrain t steps=1\n' "$PWD" > a.dlsh
dlsh -n -q --db x.db a.dlsh > /dev/null
echo "width = 5" > wide.dlsh
dlsh -n --db x.db -c 'run rerun absolute' 2>&1 | tidy
# what a script writes again does not reach the files of the first run
mkdir -p out/deep; echo "first line" > out/log.txt
cat > writes.dlsh <<'X'
args lr=0.1
t = trainer(net { flatten -> linear 10 }, dataset("digits", n=40, test=10), opt=sgd(lr=lr), batch=20, name="writes", checkpoint="out/deep/t.safetensors")
train t epochs=1
save t.model "out/m.safetensors"
write_text("out/log.txt", "lr\n", append=true)
X
dlsh -n -q --db x.db writes.dlsh > /dev/null
sha256sum out/log.txt out/m.safetensors out/deep/t.safetensors > sums
dlsh -n --db x.db -c 'run rerun writes lr=0.4' 2>&1 | grep "is run" | tidy
sha256sum -c sums
cat dlsh-rerun-*/"$PWD"/out/log.txt
dlsh -n --db x.db -c 'run resume 10' 2>&1 | tail -1 | tidy
# values of arguments with spaces, and with what looks like another argument
echo 'args label="a" lr=0.1; r = start_run("words"); print(label, "|", lr); r.end()' > words.dlsh
dlsh -n -q --db x.db words.dlsh label="b  c=d lr=3" lr=0.5
dlsh -n --db x.db -c 'run rerun words' 2>&1 | tidy
dlsh -n --db x.db -c 'run rerun words lr=2' 2>&1 | head -2 | tidy
