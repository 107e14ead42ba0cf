# CIFAR-10 and -100 in both versions, as folders and archives; KMNIST and EMNIST; files that are damaged.
python3 - <<'P'
import gzip, io, os, pickle, random, struct, tarfile
try:
    import numpy
except ImportError:
    numpy = None
random.seed(1)
PICTURE = 3072
def pictures(n): return [bytes(random.randrange(256) for _ in range(64)) * 48 for _ in range(n)]
class Array:
    """Pickled as NumPy's arrays are, without NumPy."""
    def __init__(self, rows): self.rows = rows
def pickled(value):
    out = io.BytesIO()
    class Pickler(pickle._Pickler):
        def save(self, obj, *more):
            if not isinstance(obj, Array): return super().save(obj, *more)
            data = b"".join(obj.rows)
            self.write(b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\0\x85U\1btR(K\1M" + struct.pack("<H", len(obj.rows)) +
                       b"M" + struct.pack("<H", PICTURE) + b"\x86cnumpy\ndtype\n(U\2u1K\0K\1tR(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T" +
                       struct.pack("<I", len(data)) + data + b"tb")
    Pickler(out, 2).dump(value)
    return out.getvalue()
def tar(name, folder, files):
    with tarfile.open(name, "w:gz") as t:
        for n, data in files.items():
            info = tarfile.TarInfo(folder + "/" + n)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
def write(folder, files):
    os.makedirs(folder)
    for n, data in files.items(): open(folder + "/" + n, "wb").write(data)
names = ["data_batch_%d" % i for i in range(1, 6)] + ["test_batch"]
data = {n: (pictures(2), [random.randrange(10) for _ in range(2)]) for n in names}
binary = {n + ".bin": b"".join(bytes([y]) + x for x, y in zip(*data[n])) for n in names}
python = {n: pickled({"batch_label": "x", "labels": data[n][1], "data": Array(data[n][0]), "filenames": ["a", "b"]}) for n in names}
write("c10/cifar-10-batches-bin", {**binary, "batches.meta.txt": b"airplane\n"})
write("c10py", python)
tar("c10.tar.gz", "cifar-10-batches-bin", binary)
tar("c10py.tar.gz", "cifar-10-batches-py", python)
data = {n: (pictures(3), [random.randrange(20) for _ in range(3)], [random.randrange(100) for _ in range(3)]) for n in ("train", "test")}
binary = {n + ".bin": b"".join(bytes([c, f]) + x for x, c, f in zip(*data[n])) for n in data}
python = {n: pickled({"fine_labels": data[n][2], "coarse_labels": data[n][1], "data": Array(data[n][0])}) for n in data}
write("c100", binary)
write("c100py", python)
tar("c100py.tar.gz", "cifar-100-python", {"file.txt~": b"", "meta": b"x", **python})
write("wrong", {**python, "test": pickled({"fine_labels": [100] * 3, "coarse_labels": [0] * 3, "data": Array(data["test"][0])})})
write("short", {**python, "test": pickled({"fine_labels": [1] * 2, "data": Array(data["test"][0])})})
write("none", {**python, "test": pickled({"data": [1]})})
write("cut", {**python, "test": python["test"][:5000]})
write("odd", {**binary, "test.bin": binary["test.bin"][:5000]})
class Call:
    def __reduce__(self): return os.system, ("touch owned",)
write("call", {**python, "test": pickle.dumps(Call(), 2)})
whole = gzip.decompress(open("c100py.tar.gz", "rb").read())
gzip.open("cut.tar.gz", "wb").write(whole[:12000])
gzip.open("flipped.tar.gz", "wb").write(whole[:20] + b"!" + whole[21:])
tar("other.tar.gz", "x", {"y": b"z"})
def idx(rows, dims): return struct.pack(">HBB%dI" % len(dims), 0, 8, len(dims), *dims) + bytes(rows)
def mnist(folder, prefix, test, labels, side=4):
    n = len(labels)
    os.makedirs(folder, exist_ok=True)
    for split in ("train", test):
        for what, content in (("images-idx3", idx([i % 256 for i in range(n * side * side)], [n, side, side])), ("labels-idx1", idx(labels, [n]))):
            gzip.open("%s/%s%s-%s-ubyte.gz" % (folder, prefix, split, what), "wb").write(content)
mnist("kmnist", "", "t10k", [0, 9, 3])
mnist("emnist", "emnist-letters-", "test", [1, 26])
mnist("emnist", "emnist-balanced-", "test", [46, 0])
mnist("emnist", "emnist-digits-", "test", [11, 0])
P
run() { dlsh -n --db none --device cpu "$@" 2>&1; }
run -c 'fn facts(kind, path) { d = dataset(kind, path); return [d.fingerprint, d.classes, len(d.train), len(d.test), d.shape] }
a = facts("cifar10", "c10"); print(a[1:])
for p in ["c10/cifar-10-batches-bin", "c10py", "c10.tar.gz", "c10py.tar.gz"] { print(p, facts("cifar10", p) == a) }
b = facts("cifar100", "c100"); print(b[1:])
for p in ["c100py", "c100py.tar.gz"] { print(p, facts("cifar100", p) == b) }
f = dataset("cifar100", "c100"); c = dataset("cifar100", "c100", labels="coarse")
print(f.train.y, c.train.y, c.classes, f.names[:3], c.names[-2:])
g = dataset("cifar100", "c100py", labels="coarse")
g.fingerprint == c.fingerprint
k = dataset("kmnist", "kmnist"); print(k.names, k.train.y)
e = dataset("emnist", "emnist", split="letters", normalize="none"); print(e.classes, e.names[1], e.train.y)
e.train[0].x[0, 0]
dataset("emnist", "emnist", split="letters", normalize="none", upright=false).train[0].x[0, 0]
b = dataset("emnist", "emnist"); print(b.classes, b.names[46])'
for p in wrong short none cut odd call cut.tar.gz flipped.tar.gz other.tar.gz nothing; do run -c "dataset(\"cifar100\", \"$p\")"; done | grep -v '^    '
run -c 'dataset("emnist", "emnist", split="digits")' | grep -v '^    '
run -c 'dataset("emnist", "emnist", split="mnist")' | grep -v '^    '
ls owned 2>&1
exit 0
