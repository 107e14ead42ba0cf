# The ending of a name chooses the format to write, or is an error that lists the formats; a file is read by its contents.
run() { dlsh -n --db f.db -k "$@" 2>&1 | grep -v '^    '; }
cat > write.dlsh <<'END'
net m { linear 2 }
m(randn(1, 3)); t = arange(6).reshape([2, 3]);
save m "m.safetensors"; save m "plain"; save m "step-1.5"
save m "m.onnx"
save m "m.pt"
save m "m.npz"
save m "m.csv"
save m "m.png"
save m "m.weights"
save t "t.npy"; save t "t.npz"; save t "T.NPZ"
save t "t.csv"
save t "t.jpg"
r = load("t.npz");
r.tensor
r.more = arange(2.0); save r "two.npz"; save r "two.safetensors"
save r "two.npy"
save r "two.h5"
tr = trainer(m, dataset("moons", n=64), opt=sgd(lr=0.1), batch=8);
save tr "tr.ckpt"
save record(m=m, step=1) "tr.ckpt"
checkpoint save tr "tr.npz"
export "points.jsonl"; export "points.csv"
export "points.parquet"
export "points.xlsx"
x = [1, 2, 3]
plot x out="x.pdf"
plot x out="x"
plot x out="x.npz"
y = param(ones(1)) * 2
graph y out="y.png"
END
run write.dlsh
ls
python3 - <<'END'
import json, shutil, struct, zipfile, zlib
z = zipfile.ZipFile("two.npz")
print(z.testzip(), z.namelist(), [i.compress_type for i in z.infolist()])
def archive(name, members, how=zipfile.ZIP_STORED):
    with zipfile.ZipFile(name, "w", how) as out:
        for member, data in members.items():
            out.writestr(member, data)
member = z.read("more.npy")
archive("deflated.npz", {"a.npy": member, "b.npy": member}, zipfile.ZIP_DEFLATED)
archive("bzip2.npz", {"a.npy": member}, zipfile.ZIP_BZIP2)
archive("torch.npz", {"archive/data.pkl": b"x", "archive/data/0": b"y"})
archive("other.npz", {"readme.txt": b"x"})
archive("empty.npz", {})
archive("short.npz", {"a.npy": member[:-1]})
whole = open("deflated.npz", "rb").read()
open("cut.npz", "wb").write(whole[:-30])
at = whole.index(b"PK\1\2")
open("lying.npz", "wb").write(whole[:at + 24] + struct.pack("<I", 1 << 31) + whole[at + 28:])
open("flipped.npz", "wb").write((lambda b, i: b[:i] + bytes([b[i] ^ 1]) + b[i + 1:])(open("two.npz", "rb").read(), 230))
for a, b in (("t.npz", "zip.npy"), ("t.npy", "npy.safetensors"), ("t.npz", "nameless"), ("m.safetensors", "st.npz"), ("torch.npz", "zip.pt")):
    shutil.copy(a, b)
open("x.png", "wb").write(b"\x89PNG\r\n\x1a\n" + bytes(20))
open("words", "w").write("neither this nor that")
open("nothing.npz", "w").close()
END
for f in deflated.npz nameless bzip2.npz torch.npz other.npz empty.npz short.npz cut.npz lying.npz flipped.npz zip.npy npy.safetensors st.npz zip.pt x.png words nothing.npz /dev/zero .; do run -c "load(\"$f\")"; done
run -c 'r = start_run("r"); r.log("a \"b\"", 0.5, step=3); r.log("z", 1 / 3, step=4); r.end(); export "p.jsonl"; export "p.csv" 1'
python3 -c '
import json
for line in open("p.jsonl"):
    row = json.loads(line)
    print({k: v for k, v in row.items() if k not in ("ts", "uuid")})'
sed 's/,[0-9T:.-]*Z,/,TS,/; s/,[0-9a-f-]*$/,UUID/' p.csv
# a table is written as its name says
dlsh -n -c 'write_csv("w.npz", {a: [1, 2]})' 2>&1
dlsh -n -c 'write_csv("w.jsonl", {a: [1, 2]})' 2>&1
dlsh -n -c 'write_csv("w.tsv", {a: [1, 2], b: ["x", "y,z"]}); print(read_text("w.tsv")); read_csv("w.tsv")'
ls w.*
