# Files that cannot be written to their end: an error that says so, the old file unchanged, and no partial file left.
run() { dlsh -n --db none -k "$@" 2>&1 | grep -v '^    ' | sed "s#$PWD/##"; }
for f in t.npy t.npz t.safetensors g.svg; do echo old > $f; done
command -v gnuplot > /dev/null && for f in p.svg h.png; do echo old > $f; done
cat > w.dlsh <<'END'
t = randn(100, 100)
save t "t.npy"
save t "t.npz"
save t "t.safetensors"
x = param(randn(3)); y = x
for i in range(300) { y = y * 2 }
graph y out="g.svg" max=1000
END
(ulimit -f 4; run w.dlsh)
command -v gnuplot > /dev/null && (ulimit -f 4; run -c 'v = arange(100.0); plot v out="p.svg"
hist v out="h.png"') | sort -u > plots
[ ! -e plots ] || [ "$(grep -c 'File too large' plots)" = 2 ] || cat plots
cat *.npy *.npz *.safetensors *.svg *.png 2> /dev/null | sort -u
rm -f plots
run -c 'save ones(3) "/dev/full"
x = param(ones(1)) * 2
graph x out="none/g.svg"
save ones(3) "/tmp"'

# what a killed writer left is removed by the next one; what a living one holds, and what others made, is not
echo x > .dlcore-part-1-1; echo x > .dlcore-part-1-1x; echo x > .dlcore-part-me; mkfifo .dlcore-part-2-2; mkdir .dlcore-part-3-3
python3 -c '
import fcntl, os, subprocess
f = open(".dlcore-part-4-4", "w"); fcntl.flock(f, fcntl.LOCK_EX)
subprocess.run(["dlsh", "-n", "--db", "none", "-c", "save ones(2) \"s.npy\""], check=True)'
ls -A | grep part
chmod 600 s.npy; dlsh -n --db none -c 'save ones(2) "s.npy"'; stat -c %a s.npy

# archives that uncompress to far more than their headers say
python3 -c '
import gzip, struct
mib = bytes(1 << 20)
with gzip.open("x.gz", "wb", 1) as f:
    f.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 10, 28, 28))
    for i in range(300): f.write(mib)
with gzip.open("y.gz", "wb") as f: f.write(struct.pack(">BBBBI", 0, 0, 8, 1, 10) + bytes(10))
with gzip.open("t.csv.gz", "wb", 9) as f:
    for i in range(300): f.write(mib)
with gzip.open("big.gz", "wb") as f: f.write(struct.pack(">BBBBIII", 0, 0, 8, 3, 0xffffffff, 28, 28))'
# AddressSanitizer's shadow needs more addresses than any limit leaves.
(ldd "$(command -v dlsh)" | grep -q 'lib[at]san' || ulimit -v 2000000; run -c 'dataset("idx", "x.gz", labels="y.gz")
dataset("csv", "t.csv.gz")
dataset("idx", "big.gz", labels="y.gz")')
