/* Every row of the op table on the GPU against the CPU in f64: results and gradients of the golden samples, contiguous
 * and strided; random numbers bit for bit. */
#include "cuda/calls.h"
#include "support/golden.h"
#include "dlcore/copy.h"
#include "dlcore/create.h"
#include "dlcore/elementary.h"

static int failures, compared, holes;

static void complain(const call *c, const char *what, const char *detail) {
    print_error("%s (%s): %s: %s\n", c->key, dl_tensor_file_meta(golden, c->key), what, detail);
    failures++;
}

static dl_tensor *input(dl_tensor *from, dl_dtype dtype, int device, bool stretch, bool complex) {
    dl_tensor *cast = in_dtype(from, dtype);
    dl_tensor *own = complex ? of_parts(dl_ref(cast)) : must(dl_clone(cast)), *there = must(dl_to_device(own, device));
    dl_tensor *x = stretch ? stretched(there) : dl_ref(there);
    dl_unref(cast), dl_unref(own), dl_unref(there);
    return x;
}

typedef struct from {
    const call *c;
    dl_dtype dtype;
    int device;
    bool stretch;
} from;

static dl_tensor *golden_input(void *arg, int i, const char *token) {
    const from *f = arg;
    char key[128];
    bool own = f->c->op->mutates >> i & 1 || !strcmp(f->c->op->name, "view_as_complex");
    snprintf(key, sizeof key, "%s/in%d", f->c->key, i);
    return input(dl_tensor_file_find(golden, key), f->dtype, f->device, f->stretch && !own, *token == 'c');
}

static bool load(call *c, const dl_op *op, int index, dl_dtype dtype, int device, bool stretch) {
    *c = (call){.op = op};
    snprintf(c->key, sizeof c->key, "%s/%d", op->name, index);
    const char *text = dl_tensor_file_meta(golden, c->key);
    if (!text) return false;
    parse_call(c, text, golden_input, &(from){c, dtype, device, stretch});
    int device_attr = dl_attr_index(op, "device");
    if (device_attr >= 0) c->attr[device_attr] = (dl_aval){.given = true, .is_int = true, .u.i = device};
    return true;
}

/* Integers give f32, also among operands of f64; there the functions of the devices differ in the last bit. */
static double within(const dl_op *op, const dl_tensor *result, double tolerance) {
    if (dl_dtype_of(result) != DL_F32) return tolerance;
    return fmax(tolerance, is_recurrent(op) ? 2e-4 : 2.5e-7);
}

static void compare(call *gpu, call *cpu, double tolerance) {
    char why[160] = "", what[32];
    for (int i = 0; i < MAX_RESULTS; i++) {
        dl_tensor *got = gpu->result[i], *want = cpu->result[i];
        snprintf(what, sizeof what, i < DL_MAX_OUT ? "result %d" : "gradient %d", i % DL_MAX_OUT);
        if (!got != !want)
            complain(gpu, what, got ? "on the GPU only" : "missing");
        else if (got && worst(got, want, "the CPU", why, sizeof why) > within(gpu->op, got, tolerance))
            complain(gpu, what, why);
        compared += got != NULL;
    }
}

/* Rows whose samples have another result when their operands are rounded to 16 bits, on the CPU as well. */
static bool falls_elsewhere(const dl_op *op, dl_dtype dtype) {
    static const struct {
        const char *op;
        unsigned dtypes;
    } rows[] = {
        {"grid_sample", DL_BIT(DL_BF16)},                      /* a place on the edge of the image */
        {"poisson_quantile", DL_BIT(DL_F16)},                  /* a share that another count reaches */
        {"interval_counts", DL_BIT(DL_BF16) | DL_BIT(DL_F16)}, /* numbers at the edge of an interval */
        {"pdist", DL_BIT(DL_BF16) | DL_BIT(DL_F16)},           /* equal numbers: no sign of a difference */
        {"row_distances", DL_BIT(DL_BF16) | DL_BIT(DL_F16)},   /* the same */
        {"laplace_icdf", DL_BIT(DL_BF16)},                     /* a share of 1/2: no sign of a side */
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(op->name, rows[i].op)) return rows[i].dtypes >> dtype & 1;
    return false;
}

/* Does the CPU refuse the dtype of the call, too? */
static bool is_refused_on_cpu(const dl_op *op, int index, dl_dtype dtype, bool stretch) {
    call c;
    assert_true(load(&c, op, index, dtype, 0, stretch));
    bool refused = !run(&c) && dl_failed() == DL_ERR_DTYPE;
    unload(&c);
    return refused;
}

static void rows(dl_dtype dtype, bool stretch, double tolerance) {
    NEEDS_GPU();
    failures = compared = holes = 0;
    const dl_op *op;
    call cpu, gpu;
    for (int i = 0; (op = dl_op_at(i)); i++)
        for (int k = 0; !falls_elsewhere(op, dtype) && load(&cpu, op, k, DL_F64, 0, stretch); k++) {
            assert_true(load(&gpu, op, k, dtype, GPU, stretch));
            if (!run(&cpu)) fail_msg("%s on the CPU: %s", cpu.key, dl_errmsg());
            if (run(&gpu))
                compare(&gpu, &cpu, tolerance);
            else if (dl_failed() == DL_ERR_UNSUPPORTED)
                holes++, print_message("%s: %s\n", gpu.key, dl_errmsg());
            else if (dl_failed() == DL_ERR_DTYPE && is_refused_on_cpu(op, k, dtype, stretch))
                holes++;
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
        BOTH("poisson", dl_poisson(p), dl_poisson(q));
        dl_unref(p), dl_unref(q);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_contiguous), cmocka_unit_test(f64_strided),     cmocka_unit_test(f32_contiguous),
        cmocka_unit_test(f32_strided),    cmocka_unit_test(bf16_contiguous), cmocka_unit_test(f16_contiguous),
        cmocka_unit_test(random_numbers),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
