# Ops that cannot be made or called: each error names the mistake.
t() { dlsh -n --db none -k -c 'C {
void f(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = x[i]; }
void b(const float *gy, float *gx, long n) { for (long i = 0; i < n; i++) gx[i] = gy[i]; }
void other(const float *z, float *y) { y[0] = z[0]; }
void writes(float *x, float *y) { y[0] = x[0]; }
void nothing(const float *x) {}
void odd(const float *x, float *y, int k) { y[0] = x[k]; }
int fails(const float *x, float *y) { return 7; }
void crash(const float *x, float *y) { *(volatile int *)0 = 1; }
}
'"$1"; }
t 'op'
t 'op id forward=f'
t 'op id() forward=f'
t 'op id(x)'
t 'op id(x) forward=3'
t 'op id(x) forward=other'
t 'op id(x) forward=writes'
t 'op id(x) forward=nothing'
t 'op id(x) forward=odd'
t 'op id(x) forward=f backward=f'
t 'op relu(x) forward=f'
t 'op id(x) forward=f backward=b
id(tensor([1, 2]))
id(ones(2, dtype=f64))
gradcheck id
id(1, 2)'
t 'op bad(x) forward=fails
bad(ones(2))'
t 'op bad(x) forward=crash
bad(ones(2))'
t 'op id(x) forward=f backward=b
x = param(ones(2)); y = sum(id(x) ** 2)
g = grad(y, x, create_graph=true)
backward sum(g)'
t 'op id(x) forward=f
x = param(ones(2)); y = sum(id(x))
backward y'
# without a gradient there is nothing to compare, but the rest is looked at
dlsh -n --db none -c 'C { static int quiet(void) { return 1; }
int bias_f(const real *x, real *y, long n, double k) { for (long i = 0; i < n; i++) y[i] = x[i] + k; return 0; } }
op bias(x, k=1.0) forward=bias_f
r = gradcheck(bias)
r.ok
quiet()' 2>&1
