# commands from standard input, one a line; an empty one repeats the last, a wrong one is said
cat > l.dlsh <<'END'
x = param(ones(3))
l = sum(x * x)
dbg l
x.grad
END
printf 'next\n\nnonsense\nback\ncontinue\n' | dlsh -n --db none l.dlsh
