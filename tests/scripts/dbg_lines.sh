# commands from standard input, one a line; an empty one repeats the last, a wrong one is said
cat > l.dlsh <<'END'
x = param(ones(3))
l = sum(x * x)
dbg l
x.grad
END
printf 'next\n\nnonsense\nback\ncontinue\n' | dlsh -n --db none l.dlsh
# of several steps, the prompt goes on with the next one
cat > steps.dlsh <<'END'
seed 1
net m { linear 4 -> tanh -> linear 2 }
t = trainer(m, dataset("moons", n=32, noise=0.1), batch=16)
dbg step t 2
t.step
END
printf 'finish\nfinish\nprint node\nnext\nfinish\nfinish\n' | dlsh -n --db none steps.dlsh | grep -v '^line\|^layer\|^oper\|^res\|^grad\|^to op\|^--\|contrib'
