# Without OpenBLAS, and without oneDNN: what fails says so, with one thread and with several, and no other reason is named.
mkdir lib
: > lib/libopenblas.so.0
: > lib/libdnnl.so.2
: > lib/libdnnl.so.3
export LD_LIBRARY_PATH="$PWD/lib"
for threads in 1 3; do
    export OMP_NUM_THREADS=$threads
    for line in "randn(200, 200) @ randn(200, 200)" \
                "randn(8, 64, 64) @ randn(8, 64, 64)" \
                "conv2d(randn(4, 16, 20, 20), randn(16, 16, 3, 3))" \
                "conv2d(randn(4, 16, 20, 20).to(bf16), randn(16, 16, 3, 3).to(bf16))" \
                "linear(randn(300, 100), randn(50, 100))"; do
        dlsh -n -q --db none -c "$line;" 2>&1 || :
    done
done
