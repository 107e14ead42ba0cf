# What others wrote is shown with its controls visible, by everything but print; data stays exact.
run() { dlsh -n --db v.db -k "$@" 2>&1 | sed -E 's/20[0-9-]* [0-9:]*  *[0-9.]* m?s/WHEN/; s/  +/  /g; s/---+/--/g'; } # widths follow the time that a run took
raw() { python3 -c '
import sys
text = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
print(any(c in text for c in "\x1b\x07\r\x7f\x9b\u202e\u2066\udc9b"))'; }
cat > v.dlsh <<'END'
r = start_run("na\x1b[31mme\u202e", tags=["t\x1b]0;x\a"]); r.log("lo\x1bss", 1, step=0); r.end()
note 1 "no\x1bte\r"
runs
sql "select name, note as 'h\x1b[1m' from run"
"va\x1blue\u202e\x9b\u009b"
["a\x7f", "b\u2066"]
load("no\x1bfile")
tag 1 "e\x1bvil"
compare 1 1
net m { linear 2 }
m(randn(1, 2));
save m "t.safetensors"
END
run --echo v.dlsh > shown; cat shown; run -c 'run show 1' | grep -v 'cmd\|command\|uuid\|folder' > more; cat shown more | raw
python3 - <<'END'
import json, struct
head = json.dumps({"k\x1b[2J": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
open("k.safetensors", "wb").write(struct.pack("<Q", len(head)) + head + b"\1")
open("bad.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", 60) + b"{'descr': '\x1b[31m', 'fortran_order': False, 'shape': (1,), }".ljust(60))
open("c.csv", "w").write("x,y\n1,cl\x1bass\n2,other\n3,cl\x1bass\n4,b\u202ec\n")
END
run -c 'load("k.safetensors")
load("bad.npy")
d = dataset("csv", "c.csv", holdout=0.0)
d.classes
show d' | tee files | head -20; raw < files
dlsh "no$(printf '\033')file.dlsh" 2>&1
echo exact:
run -c 'print("\e[1mbold")' | raw
run --mode json -c '"a\x1b\u009b\u202e"'
run --mode csv -c 'sql "select name from run"' | raw

# a name stays on one line, and further lines of a note are indented below the first: neither can imitate a row
dlsh -n --db line.db -c 'r = start_run("a\nrun 7  forged\tx", note="one\ntwo"); r.log(loss=1); r.end()
tag 1 "t\nu"
run show 1
best loss
compare 1 1' | grep -v command | grep -e forged -e note -e two -e '^ *u$'
