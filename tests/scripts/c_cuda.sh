# CUDA blocks: compiled where there is nvcc, errors at their line; without one, a message that says what to install.
export DLSH_NVCC=/no/such/nvcc
dlsh -n --db none -c 'CUDA { int f(int x) { return x; } }' || echo "status $?"
unset DLSH_NVCC
PATH=$PATH:/usr/local/cuda/bin
command -v nvcc >/dev/null || exit 77
dlsh -n --db none -c 'CUDA {
    __global__ void kernel(float *x, long n, float by) {
        long i = blockIdx.x * 256L + threadIdx.x;
        if (i < n) x[i] *= by;
    }
    void scale(float *x, long n, float by) { kernel<<<(n + 255) / 256, 256, 0, current_stream()>>>(x, n, by); }
}
scale
try { scale(zeros(3, device="cpu"), 3, 2) } catch e { print(e.message) }'
dlsh -n --db none -c 'x = 1
CUDA {
    int f(int a) { return a + nope; }
}' || echo "status $?"
