/* Every row of the op table on the GPU against the CPU in f64: results and gradients of the golden samples, contiguous
 * and strided; random numbers bit for bit. */
#include "cuda/gpu.h"

#include "core/device.h"

enum { MAX_INPUTS = 16, MAX_RESULTS = DL_MAX_OUT + MAX_INPUTS };

static dl_tensor_file *golden;
static int failures, compared, holes;

/* One sample call and, after it ran, its results and gradients on the CPU. */
typedef struct call {
    const dl_op *op;
    char key[96];
    dl_tensor *in[MAX_INPUTS], *result[MAX_RESULTS];
    int nin;
    dl_aval attr[DL_MAX_ATTR];
} call;

static void complain(const call *c, const char *what, const char *detail) {
    print_error("%s (%s): %s: %s\n", c->key, dl_tensor_file_meta(golden, c->key), what, detail);
    failures++;
}

/* The same values with gaps in memory and the dimensions the other way round. */
static dl_tensor *stretched(dl_tensor *x) {
    int n = dl_ndim(x);
    long shape[DL_MAX_DIM], order[DL_MAX_DIM];
    for (int i = 0; i < n; i++) shape[i] = dl_shape(x)[n - 1 - i] * 2, order[i] = n - 1 - i;
    dl_tensor *v = must(dl_tensor_zeros(n, shape, dl_dtype_of(x), dl_device_of(x)));
    for (int i = 0; i < n; i++) {
        dl_tensor *next = must(dl_slice(v, i, NULL, NULL, 2));
        dl_unref(v);
        v = next;
    }
    dl_tensor *p = must(dl_permute(v, order, n));
    ok(dl_assign(p, x));
    dl_tensor *d = must(dl_detach(p));
    dl_unref(v), dl_unref(p);
    return d;
}

static dl_tensor *input(dl_tensor *from, dl_dtype dtype, int device, bool stretch) {
    dl_tensor *cast = must(dl_dtype_is_float(dl_dtype_of(from)) ? dl_to_dtype(from, dtype) : dl_ref(from));
    dl_tensor *own = must(dl_clone(cast)), *there = must(dl_to_device(own, device));
    dl_tensor *x = stretch ? stretched(there) : dl_ref(there);
    dl_unref(cast), dl_unref(own), dl_unref(there);
    return x;
}

static bool load(call *c, const dl_op *op, int index, dl_dtype dtype, int device, bool stretch) {
    *c = (call){.op = op};
    snprintf(c->key, sizeof c->key, "%s/%d", op->name, index);
    const char *text = dl_tensor_file_meta(golden, c->key);
    if (!text) return false;
    char copy[512], key[128], *save = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    dl_attr_defaults(op, c->attr);
    for (char *tok = strtok_r(copy, " ", &save); tok; tok = strtok_r(NULL, " ", &save)) {
        char *eq = strchr(tok, '=');
        int i = c->nin;
        if (eq) {
            *eq = 0;
            int a = dl_attr_index(op, tok);
            ok(dl_attr_parse(op, a, eq + 1, &c->attr[a]));
            continue;
        }
        c->nin++;
        if (!strncmp(tok, "s:", 2))
            c->in[i] = strpbrk(tok, ".e") ? dl_scalar_f(atof(tok + 2)) : dl_scalar_i(atol(tok + 2));
        if (*tok == '-' || c->in[i]) continue;
        snprintf(key, sizeof key, "%s/in%d", c->key, i);
        c->in[i] = input(dl_tensor_file_find(golden, key), dtype, device, stretch && !(op->mutates >> i & 1));
        bool leaf = dl_dtype_is_float(dl_dtype_of(c->in[i])) && !(op->nondiff_in >> i & 1);
        if (leaf && !(op->flags & DL_F_NODIFF)) ok(dl_set_requires_grad(c->in[i], 1));
    }
    int device_attr = dl_attr_index(op, "device");
    if (device_attr >= 0) c->attr[device_attr] = (dl_aval){.given = true, .is_int = true, .u.i = device};
    return true;
}

/* total + sum of t times fixed weights. */
static dl_tensor *weighted(dl_tensor *t, dl_tensor *total) {
    dl_tensor *w = must(dl_tensor_empty(dl_ndim(t), dl_shape(t), DL_F64, 0));
    for (long i = 0; i < dl_numel(w); i++) ((double *)dl_data(w))[i] = 0.5 + fmod(0.37 * (double)(i + 1), 1.0);
    dl_tensor *there = must(dl_to_device(w, dl_device_of(t))), *cast = must(dl_to_dtype(t, DL_F64));
    dl_tensor *p = must(dl_mul(cast, there)), *s = must(dl_sum(p, NULL, 0, 0));
    dl_tensor *sum = total ? must(dl_add(total, s)) : dl_ref(s);
    dl_unref(w), dl_unref(there), dl_unref(cast), dl_unref(p), dl_unref(s), dl_unref(total);
    return sum;
}

static dl_tensor *host(dl_tensor *t) { return t ? must(dl_to_device(t, 0)) : NULL; }

/* False: the call failed. */
static bool run(call *c) {
    dl_tensor *out[DL_MAX_OUT] = {0}, *total = NULL;
    dl_seed(5);
    if (dl_invoke(c->op, c->in, c->nin, c->attr, out) != DL_OK) return false;
    for (int i = 0; i < c->op->out; i++) {
        if (i < c->op->visible && out[i]) {
            dl_tensor *d = must(dl_detach(out[i]));
            c->result[i] = host(d);
            dl_unref(d);
            if (dl_dtype_is_float(dl_dtype_of(out[i])) && dl_requires_grad(out[i])) total = weighted(out[i], total);
        }
        dl_unref(out[i]);
    }
    bool good = !total || dl_backward(total, NULL, 0, 0) == DL_OK;
    dl_unref(total);
    for (int i = 0; good && i < c->nin; i++) {
        bool changed = c->op->mutates >> i & 1;
        dl_tensor *t = !c->in[i] ? NULL : changed ? c->in[i] : dl_grad(c->in[i]);
        c->result[DL_MAX_OUT + i] = host(t);
    }
    return good;
}

static void unload(call *c) {
    for (int i = 0; i < c->nin; i++) dl_unref(c->in[i]);
    for (int i = 0; i < MAX_RESULTS; i++) dl_unref(c->result[i]);
}

/* The largest distance, relative to the larger of 1 and the largest magnitude wanted. */
static double worst(dl_tensor *got, dl_tensor *want, char *why, size_t size) {
    if (dl_numel(got) != dl_numel(want)) return snprintf(why, size, "sizes differ"), INFINITY;
    double *x = values(got), *y = values(want), most = 0, scale = 1;
    for (long i = 0; i < dl_numel(got); i++)
        if (fabs(y[i]) > scale && !isinf(y[i])) scale = fabs(y[i]);
    for (long i = 0; i < dl_numel(got); i++) {
        double d = x[i] == y[i] || (isnan(x[i]) && isnan(y[i])) ? 0 : fabs(x[i] - y[i]) / scale;
        if (isnan(d)) d = INFINITY;
        if (d > most) most = d, snprintf(why, size, "element %ld is %.17g, on the CPU %.17g", i, x[i], y[i]);
    }
    free(x), free(y);
    return most;
}

static void compare(call *gpu, call *cpu, double tolerance) {
    char why[160] = "", what[32];
    for (int i = 0; i < MAX_RESULTS; i++) {
        dl_tensor *got = gpu->result[i], *want = cpu->result[i];
        snprintf(what, sizeof what, i < DL_MAX_OUT ? "result %d" : "gradient %d", i % DL_MAX_OUT);
        if (!got != !want)
            complain(gpu, what, got ? "on the GPU only" : "missing");
        else if (got && worst(got, want, why, sizeof why) > tolerance)
            complain(gpu, what, why);
        compared += got != NULL;
    }
}

static void rows(dl_dtype dtype, bool stretch, double tolerance) {
    NEEDS_GPU();
    failures = compared = holes = 0;
    const dl_op *op;
    call cpu, gpu;
    for (int i = 0; (op = dl_op_at(i)); i++)
        for (int k = 0; load(&cpu, op, k, DL_F64, 0, stretch); k++) {
            assert_true(load(&gpu, op, k, dtype, GPU, stretch));
            if (!run(&cpu)) fail_msg("%s on the CPU: %s", cpu.key, dl_errmsg());
            if (run(&gpu))
                compare(&gpu, &cpu, tolerance);
            else if (dl_error_last()->code == DL_ERR_UNSUPPORTED)
                holes++, print_message("%s: %s\n", gpu.key, dl_errmsg());
            else
                complain(&gpu, "call", dl_errmsg());
            unload(&cpu), unload(&gpu);
        }
    print_message("%d results compared, %d calls without a kernel\n", compared, holes);
    assert_int_equal(failures, 0);
}

static void f64_contiguous(void **state) { (void)state, rows(DL_F64, false, 1e-11); }
static void f64_strided(void **state) { (void)state, rows(DL_F64, true, 1e-11); }
static void f32_contiguous(void **state) { (void)state, rows(DL_F32, false, 1e-5); }
static void f32_strided(void **state) { (void)state, rows(DL_F32, true, 1e-5); }
static void bf16_contiguous(void **state) { (void)state, rows(DL_BF16, false, 0.06); }
static void f16_contiguous(void **state) { (void)state, rows(DL_F16, false, 0.01); }

static void same_bits(dl_tensor *cpu, dl_tensor *gpu, const char *what) {
    dl_tensor *back = host(must(gpu));
    size_t bytes = (size_t)dl_numel(must(cpu)) * (size_t)dl_dtype_size(dl_dtype_of(cpu));
    if (memcmp(dl_data(cpu), dl_data(back), bytes)) fail_msg("%s differs", what);
    dl_unref(cpu), dl_unref(gpu), dl_unref(back);
}

static void random_numbers(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long sizes[] = {1, 7, 1000, 123457};
    static const dl_dtype floats[] = {DL_F32, DL_F64, DL_F16, DL_BF16};
    for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const long *n = &sizes[k];
#define BOTH(what, cpu, gpu)                                                                                           \
    do {                                                                                                               \
        dl_seed(11);                                                                                                   \
        dl_tensor *a = (cpu);                                                                                          \
        dl_seed(11);                                                                                                   \
        same_bits(a, (gpu), what);                                                                                     \
    } while (0)
        for (int t = 0; t < 4; t++) {
            BOTH("rand", dl_rand(n, 1, floats[t], 0), dl_rand(n, 1, floats[t], GPU));
            BOTH("randn", dl_randn(n, 1, floats[t], 0), dl_randn(n, 1, floats[t], GPU));
        }
        BOTH("randint", dl_randint(-5, 1L << 61, n, 1, DL_I64, 0), dl_randint(-5, 1L << 61, n, 1, DL_I64, GPU));
        BOTH("randperm", dl_randperm(*n, DL_I64, 0), dl_randperm(*n, DL_I64, GPU));
        dl_tensor *p = must(dl_tensor_full(1, n, DL_F32, 0, 0.3)), *q = must(dl_to_device(p, GPU));
        BOTH("bernoulli", dl_bernoulli(p), dl_bernoulli(q));
        dl_unref(p), dl_unref(q);
    }
}

static int open_golden(void **state) {
    (void)state;
    golden = dl_safetensors_read("tests/ops/golden.safetensors", 0);
    if (!golden) print_error("%s\n", dl_errmsg());
    return golden ? 0 : -1;
}

static int close_golden(void **state) {
    (void)state;
    dl_tensor_file_free(golden);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_contiguous), cmocka_unit_test(f64_strided),     cmocka_unit_test(f32_contiguous),
        cmocka_unit_test(f32_strided),    cmocka_unit_test(bf16_contiguous), cmocka_unit_test(f16_contiguous),
        cmocka_unit_test(random_numbers),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
