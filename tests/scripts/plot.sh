# Plots of variables: over their index or over x, several at once; wrong arguments are errors.
run() { dlsh "$@" 2>&1; }
run -n --db none --mode csv -c 't = [0.5, 1.5, nan]; u = tensor([2, 3, 4]); plot u x=t; plot u; plot u t; plot u x=(u * 0.5)'
run -n --db none -k -c 't = arange(3); u = [1, 2]; w = [1, "a"]; plot t u x=t; plot w; plot loss x=t; plot t x=u * 2; plot t u 1; plot t x=3'
run -n --db none -c 't = arange(-3.0, 3.0, 0.1); y = sin(t); plot y t x=t out="y.svg"'
grep -o ">-3<" y.svg | head -1
