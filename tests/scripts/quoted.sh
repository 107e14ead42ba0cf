# Names are passed to programs unchanged: no part of them is run, and none is taken for an option.
command -v gnuplot > /dev/null || { echo "no gnuplot"; exit 77; }
run() { dlsh -n --db q.db -k "$@" 2>&1; }
cat > q.dlsh <<'END'
x = [1, 2, 3]
plot x out="|touch ran #.svg"
plot x out="a`touch ran`$(touch ran).png"
plot x out="quote's.txt"
plot x out="-x.svg"
hist tensor([1.0, 2.0]) out="|touch ran #.png"
r = start_run("`touch ran` $(touch ran) @x ' | <script>"); r.log("m'`touch ran`", 1, step=0); r.log("m'`touch ran`", 2, step=1); r.end()
plot "m'`touch ran`" 1 out="m.svg"
END
run q.dlsh
dlsh -n -c 'C lib="-wrapper sh,-c,\"touch ran\"" { int two(void) { return 2; } }' 2>&1 | grep error
grep -o 'script[^<]*' m.svg | head -1
ls -A | grep -v '^\.'
