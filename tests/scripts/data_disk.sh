# A data set of 20 GB in sparse files trains within 1 GB of address space, without its samples being read beforehand.
ldd "$(command -v dlsh)" | grep -q 'lib[at]san' && exit 77 # whose shadow needs more addresses than the limit leaves
set -e
python3 - <<'END'
import math, struct
def sparse(path, descr, shape, numbers):
    head = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (descr, ", ".join(map(str, shape)))
    head += " " * (-(11 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
        start, size = f.tell(), int(descr[2:])
        f.truncate(start + math.prod(shape) * size)
        for at, number in numbers:
            f.seek(start + at * size)
            f.write(number)
sparse("x.npy", "<f4", (400000, 12800), [(12800 * 399999 + 5, struct.pack("<f", 3.5))])
sparse("y.npy", "<i8", (400000,), [(399999, struct.pack("<q", 3))])
sparse("i.npy", "<i8", (50, 3), [(3, struct.pack("<q", 16777217))])
sparse("d.npy", ">f8", (50, 2), [(1, struct.pack(">d", 0.1))])
sparse("short.npy", "<i8", (49,), [])
END
ulimit -v 1048576
export OMP_NUM_THREADS=2 OPENBLAS_NUM_THREADS=2
dlsh -n --db none -c 'd = dataset("npy", "x.npy", "y.npy", holdout=0); show d; print(d.train[-1].x[5].item(), d.train[-1].y.item())
net m { linear 8 -> relu -> linear 4 }
t = trainer(m, d, opt=sgd(lr=0.01), batch=32, workers=2); step t 20; print(t.step)'
cat > same.dlsh <<'END'
whole = dataset("npy", "i.npy", "d.npy", seed=3, mmap=false)
d = dataset("npy", "i.npy", "d.npy", seed=3, mmap=true)
print(d, d.train.x.dtype, d.train.y.dtype, d.train.x.max().item(), d.classes)
print((d.train.x - whole.train.x).abs().sum().item(), (d.test.y - whole.test.y).abs().sum().item())
fn total(d, workers) {
    out = []
    for x, y in loader(d, batch=8, shuffle=true, seed=5, workers=workers) { out.append(x.sum().item() + y.sum().item()) }
    return out
}
for w in [0, 1, 2, 8] { print(total(d, w) == total(whole, 0)) }
try { dataset("npy", "i.npy", "short.npy", mmap=true) } catch e { print(e.message) }
try { dataset("npy", "i.npy", "d.npy", mmap=true, normalize="standard") } catch e { print(e.message) }
END
dlsh -n --db none same.dlsh
truncate -s 600 i.npy
dlsh -n --db none -c 'try { dataset("npy", "i.npy", "d.npy", mmap=true) } catch e { print(e.message) }'
