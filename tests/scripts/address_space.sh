# Too little address space for the buffers of OpenBLAS, or for the threads of OpenMP: an error or fewer threads, and no
# waiting for ever.
ldd "$(command -v dlsh)" | grep -q 'lib[at]san' && exit 77 # whose shadow needs more addresses than any limit leaves
run() {
    echo "\$ ulimit -v $1, $2 threads: $3"
    (ulimit -v $1 && OMP_NUM_THREADS=$2 timeout 60 dlsh -n --db none -c "$3" 2>&1) | grep -v '^    '
}
run 400000 2 'a = ones(1000, 1000); print(sum(a @ a))'
run 400000 2 'a = randn(8, 3, 64, 64); w = randn(4, 3, 3, 3); print(conv2d(a, w, padding=1).shape)'
run 2000000 2 'a = ones(1000, 1000); print(sum(a @ a))'
run 900000 2 'a = ones(500, 500); print(sum(a @ a)); set threads 60; print(sum(a @ a))'
run 400000 64 'a = ones(1000, 1000); print(sum(a * 2))'
run 400000 64 'print(sum(exp(zeros(64, 3, 100, 100))))'
# what functions had is kept for the doctor, and given up where memory runs out
run 900000 1 'fn f() { x = zeros(100000000); return len(x) }; f(); y = zeros(100000000); z = zeros(50000000); print(len(z))'
