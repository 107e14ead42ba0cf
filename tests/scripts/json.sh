# --mode json: every value and row a line of JSON, all of them read back by a JSON parser.
dlsh -n --db none --mode json -c '
set nan off
1
2.5
1e300
"text with \"quotes\" and \\"
none
true
[1, [2, 3], "a"]
record(a=1, b=[1.5, none])
tensor([[1.0, 2.5], [3.0, 4.0]])
tensor([1, 2])
tensor(3.0)
zeros(0, 3)
tensor([1.0, 0.0]) / 0.0
log(tensor([0.0, -1.0]))
0.1
tensor([0.1])
tensor([0.1], dtype=f64)
x = 5
x;
set digits 2
stat tensor([1.0, 3.0])
vars x
print("said")
' >out
status=$?
cat out
echo "=> $status"
python3 -c '
import json, sys
for line in open("out"):
    json.loads(line, parse_constant=lambda c: sys.exit("not strict: " + c))
print("all lines are JSON")'
dlsh -n --db none --mode csv -c '
1
"a,b"
[1, 2.5, "x"]
record(a=1, b="q\"q")
tensor([[1.0, 2.5], [3.0, 4.0]])
vars
runs'
