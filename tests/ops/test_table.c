/* Every row of the op table against PyTorch (golden.safetensors, made by make_goldens.py) and against differences:
 * results and gradients in f64 and f32, contiguous and strided inputs, first and second derivatives. A new row is
 * tested as soon as its samples are in the file, and fails here until they are. */
#include "support/calls.h"
#include "support/golden.h"
#include "core/memory/fence.h"
#include "dlcore_ops.h"
#include "dlcore/all.h"

static int failures;
static bool expected; /* they are not told */

static void complain(const call *c, const char *what, const char *detail) {
    const char *sample = dl_tensor_file_meta(golden, c->key);
    if (!expected) print_error("%s (%s): %s: %s\n", c->key, sample ? sample : c->op->samples, what, detail);
    failures++;
}

static dl_tensor *find(const call *c, const char *kind, int i) {
    char key[128];
    snprintf(key, sizeof key, "%s/%s%d", c->key, kind, i);
    return dl_tensor_file_find(golden, key);
}

/* An input as a fresh leaf in the dtype under test; numbers of the language and integers stay as they are. */
static dl_tensor *make_input(dl_tensor *from, dl_dtype dtype, bool stretch, bool complex) {
    dl_tensor *cast = in_dtype(from, dtype);
    dl_tensor *own = complex ? of_parts(dl_ref(cast)) : dl_clone(cast), *x = stretch ? stretched(own) : dl_ref(own);
    dl_unref(cast), dl_unref(own);
    return x;
}

typedef struct from {
    const call *c;
    dl_dtype dtype;
    bool stretch;
} from;

static dl_tensor *golden_input(void *arg, int i, const char *token) {
    const from *f = arg;
    bool own =
        f->c->op->mutates >> i & 1 || f->c->op->id == DL_OP_view_as_complex; /* whose pairs must stand together */
    return make_input(find(f->c, "in", i), f->dtype, f->stretch && !own, *token == 'c');
}

static bool load(call *c, const dl_op *op, int index, dl_dtype dtype, bool stretch) {
    *c = (call){.op = op};
    snprintf(c->key, sizeof c->key, "%s/%d", op->name, index);
    const char *text = dl_tensor_file_meta(golden, c->key);
    if (text) parse_call(c, text, golden_input, &(from){c, dtype, stretch});
    return text;
}

static dl_tensor *drawn_input(void *arg, int i, const char *token) {
    (void)arg, (void)i;
    return sample_input(token, DL_F64);
}

/* The same of a row that has no goldens: a sample with drawn inputs in f64. */
static bool draw_call(call *c, const dl_op *op, int index) {
    char text[512];
    const char *s = op->samples;
    *c = (call){.op = op};
    for (int k = 0; s && k < index; k++) s = strchr(s, ';') ? strchr(s, ';') + 1 : NULL;
    if (!s) return false;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(s, ";"), s);
    snprintf(c->key, sizeof c->key, "%s/%d", op->name, index);
    parse_call(c, text, drawn_input, NULL);
    return true;
}

static void unload(call *c) {
    for (int i = 0; i < c->nin; i++) dl_unref(c->in[i]);
}

/* sum over i of out[i] * (0.5 + frac(0.37 (i + 1))), as in make_goldens.py; the parts of complex numbers count each */
static dl_tensor *weighted(dl_tensor *result, dl_tensor *total) {
    dl_tensor *t = parts_of(result);
    dl_tensor *w = dl_tensor_empty(t->ndim, t->shape, DL_F64, 0);
    for (long i = 0; i < w->numel; i++) ((double *)dl_ptr(w))[i] = 0.5 + fmod(0.37 * (double)(i + 1), 1.0);
    dl_tensor *cast = dl_to_dtype(t, DL_F64), *p = dl_mul(cast, w), *s = dl_sum(p, NULL, 0, 0);
    dl_tensor *sum = total ? dl_add(total, s) : dl_ref(s);
    dl_unref(w), dl_unref(cast), dl_unref(p), dl_unref(s), dl_unref(total), dl_unref(t);
    return sum;
}

static void compare_gradients(call *c, dl_tensor *total, double tolerance, int create) {
    char why[256] = "";
    if (!total || !dl_requires_grad(total)) {
        for (int i = 0; i < c->nin; i++)
            if (find(c, "grad", i)) complain(c, "gradient", "no history");
        dl_unref(total);
        return;
    }
    if (dl_backward(total, NULL, 0, create) != DL_OK)
        complain(c, "backward", dl_errmsg());
    else
        for (int i = 0; i < c->nin; i++) {
            dl_tensor *want = find(c, "grad", i), *got = c->in[i] ? dl_grad(c->in[i]) : NULL;
            if (want && !got) complain(c, "gradient", "missing");
            dl_tensor *parts = got ? parts_of(got) : NULL;
            if (want && got && worst(parts, want, "PyTorch", why, sizeof why) > tolerance) complain(c, "gradient", why);
            dl_unref(parts);
            if (create && got) dl_set_grad(c->in[i], NULL); /* its history leads to the input, which holds it */
        }
    dl_unref(total);
}

/* Vectors of either sign are compared without it, and their gradients, which depend on it, not at all. */
static dl_tensor *without_sign(const call *c, dl_tensor *t) {
    return c->op->flags & DL_F_SIGNS && dl_dtype_is_float(dl_dtype_of(t)) ? must(dl_abs(t)) : dl_ref(t);
}

static void compare_result(const call *c, dl_tensor *got, dl_tensor *want, double tolerance) {
    char why[256] = "";
    dl_tensor *parts = parts_of(got), *a = without_sign(c, parts), *b = without_sign(c, want);
    if (worst(a, b, "PyTorch", why, sizeof why) > tolerance) complain(c, "result", why);
    dl_unref(a), dl_unref(b), dl_unref(parts);
}

/* create: gradients by the rules made of rows, else by fused ones where there are such. */
static void run_call(call *c, double tolerance, int create) {
    dl_tensor *out[DL_MAX_OUT] = {0}, *total = NULL;
    if (dl_invoke(c->op, c->in, c->nin, c->attr, out) != DL_OK) {
        complain(c, "call", dl_errmsg());
        return;
    }
    for (int i = 0; i < c->op->out; i++) {
        dl_tensor *want = i < c->op->visible ? find(c, "out", i) : NULL;
        if (want) compare_result(c, out[i], want, tolerance);
        if (want && dl_dtype_is_smooth(dl_dtype_of(out[i])) && dl_requires_grad(out[i]))
            total = weighted(out[i], total);
        dl_unref(out[i]);
    }
    if (c->op->flags & DL_F_SIGNS)
        dl_unref(total);
    else
        compare_gradients(c, total, tolerance, create);
}

static void against_pytorch(dl_dtype dtype, bool stretch, double tolerance, int create) {
    failures = 0;
    const dl_op *op;
    call c;
    for (int i = 0; (op = dl_op_at(i)); i++)
        for (int k = 0; load(&c, op, k, dtype, stretch); k++) {
            run_call(&c, tolerance, create);
            unload(&c);
        }
    assert_int_equal(failures, 0);
}

static void f64_contiguous(void **state) { (void)state, against_pytorch(DL_F64, false, 1e-10, 0); }
static void f64_strided(void **state) { (void)state, against_pytorch(DL_F64, true, 1e-10, 0); }
static void f64_by_rules(void **state) { (void)state, against_pytorch(DL_F64, false, 1e-10, 1); }
static void f32_contiguous(void **state) { (void)state, against_pytorch(DL_F32, false, 1e-5, 0); }
static void f32_strided(void **state) { (void)state, against_pytorch(DL_F32, true, 1e-5, 0); }

/* The result with 0 in place of infinities, which have no differences. */
static dl_tensor *without_infinities(dl_tensor *t) {
    if (!dl_dtype_is_float(dl_dtype_of(t))) return t;
    dl_tensor *infinite = must(dl_isinf(t)), *zero = must(dl_scalar_f(0)),
              *out = must(dl_masked_fill(t, infinite, zero));
    dl_unref(infinite), dl_unref(zero), dl_unref(t);
    return out;
}

/* (t + t^T) / 2: a function of it depends on each element and its mirror image alike. Takes t over. */
static dl_tensor *mirrored(dl_tensor *t) {
    long order[DL_MAX_DIM];
    for (int i = 0; i < t->ndim; i++) order[i] = i < t->ndim - 2 ? i : 2 * t->ndim - 3 - i;
    dl_tensor *turned = must(dl_permute(t, order, t->ndim)), *sum = must(dl_add(t, turned)), *half = dl_scalar_f(0.5);
    dl_tensor *out = must(dl_mul(sum, half));
    dl_unref(t), dl_unref(turned), dl_unref(sum), dl_unref(half);
    return out;
}

static int call_row(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg) {
    const call *c = arg;
    dl_tensor *all[DL_MAX_OUT] = {0};
    (void)max_out;
    /* rows that write to their inputs (running statistics) get copies, so that every evaluation starts the same */
    dl_tensor *use[MAX_INPUTS] = {0};
    for (int i = 0; i < n; i++) use[i] = c->op->mutates >> i & 1 && in[i] ? dl_clone(in[i]) : dl_ref(in[i]);
    if (c->op->flags & DL_F_SYMMETRIC) use[0] = mirrored(use[0]);
    dl_status s = dl_invoke(c->op, use, n, c->attr, all);
    for (int i = 0; i < n; i++) dl_unref(use[i]);
    if (s != DL_OK) return -1;
    int given = 0; /* a call may leave out a result */
    for (int i = 0; i < c->op->out; i++) {
        if (i < c->op->visible && all[i])
            out[given++] = without_infinities(all[i]);
        else
            dl_unref(all[i]);
    }
    return given;
}

/* Differences need results in f64; a cast to f32 has none. */
static bool exact(const call *c) {
    int a = dl_attr_index(c->op, "dtype");
    return a < 0 || !c->attr[a].given || c->attr[a].u.i == DL_F64;
}

static void differences(call *c, int second) {
    dl_gradcheck_report r = {.ok = 1};
    char text[200];
    if (exact(c) && dl_gradcheck(call_row, c, c->in, c->nin, second, second ? 2e-5 : 2e-6, &r) != DL_OK) {
        complain(c, "gradcheck", dl_errmsg());
    } else if (!r.ok) {
        snprintf(text, sizeof text, "input %d element %ld: rule %.12g, differences %.12g", r.input, r.element,
                 r.analytic, r.numeric);
        complain(c, second ? "second derivative" : "gradient", text);
    }
    unload(c);
}

static void check_row(const dl_op *op, int second) {
    bool drawn = op->flags & DL_F_GRADCHECK_ONLY;
    call c;
    if (op->flags & DL_F_NODIFF) return;
    for (int k = 0; drawn ? draw_call(&c, op, k) : load(&c, op, k, DL_F64, false); k++) differences(&c, second);
}

static void check_differences(int second) {
    failures = 0;
    const dl_op *op;
    for (int i = 0; (op = dl_op_at(i)); i++) check_row(op, second);
    assert_int_equal(failures, 0);
}

/* These make millions of small blocks, by calls of rows that the other tests make too: pages between the blocks would
 * take most of the time of all tests, and find nothing more. */
static void first_derivatives(void **state) {
    (void)state;
    if (!dl_fenced) check_differences(0);
}
static void second_derivatives(void **state) {
    (void)state;
    if (!dl_fenced) check_differences(1);
}

/* A row that is differentiable, or is a plain function of its inputs, must be in the golden file. */
static void every_row_is_covered(void **state) {
    (void)state;
    int missing = 0;
    const dl_op *op;
    for (int i = 0; (op = dl_op_at(i)); i++) {
        char key[96];
        snprintf(key, sizeof key, "%s/0", op->name);
        if (op->flags & DL_F_GRADCHECK_ONLY) continue;
        bool exempt = op->flags & (DL_F_INTERNAL | DL_F_RNG) && op->flags & (DL_F_NODIFF | DL_F_INTERNAL);
        if (exempt || dl_tensor_file_meta(golden, key)) continue;
        print_error("%s has no golden samples: give the row SAMPLES and run tests/ops/make_goldens.py\n", op->name);
        missing++;
    }
    assert_int_equal(missing, 0);
}

/* Says which rows wait for goldens; reported as skipped while there are any. Such a row has a gradient to check and
 * samples to check it at, and loses the mark when it has goldens. */
static void rows_without_goldens(void **state) {
    (void)state;
    int waiting = 0;
    const dl_op *op;
    for (int i = 0; (op = dl_op_at(i)); i++) {
        char key[96];
        if (!(op->flags & DL_F_GRADCHECK_ONLY)) continue;
        snprintf(key, sizeof key, "%s/0", op->name);
        if (op->flags & DL_F_NODIFF || !op->samples)
            fail_msg("%s has no gradient or no SAMPLES: DL_F_GRADCHECK_ONLY would leave it untested", op->name);
        if (dl_tensor_file_meta(golden, key)) fail_msg("%s has goldens: take DL_F_GRADCHECK_ONLY off", op->name);
        print_message("%s waits for goldens: its gradient is checked by differences, its results are not\n", op->name);
        waiting++;
    }
    print_message("%d rows wait for goldens\n", waiting);
    if (waiting) skip();
}

static dl_status gradient_of_identity(dl_back *b) { return dl_give(b, 0, dl_ref(b->g[0])); }

/* A row that is marked so is checked at its samples, and a wrong rule is found. */
static void differences_alone(void **state) {
    (void)state;
    dl_op row = *dl_op_row(DL_OP_tanh);
    dl_kernel kernel = *row.kernel[DL_BACKEND_CPU];
    kernel.fused_grad = NULL;
    row.kernel[DL_BACKEND_CPU] = &kernel;
    row.flags |= DL_F_GRADCHECK_ONLY;
    for (int wrong = 0; wrong < 2; wrong++) {
        failures = 0, expected = wrong;
        if (wrong) row.grad = gradient_of_identity;
        check_row(&row, 0);
        assert_true(wrong ? failures > 0 : !failures);
    }
    expected = false;
}

static void every_default_parses(void **state) {
    (void)state;
    const dl_op *op;
    dl_aval attr[DL_MAX_ATTR];
    for (int i = 0; (op = dl_op_at(i)); i++) {
        assert_true(op->nattr <= DL_MAX_ATTR);
        if (dl_attr_parse_defaults(op, attr) != DL_OK) fail_msg("%s: %s", op->name, dl_errmsg());
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_parses), cmocka_unit_test(every_row_is_covered),
        cmocka_unit_test(f64_contiguous),       cmocka_unit_test(f64_by_rules),
        cmocka_unit_test(f64_strided),          cmocka_unit_test(f32_contiguous),
        cmocka_unit_test(f32_strided),          cmocka_unit_test(first_derivatives),
        cmocka_unit_test(second_derivatives),   cmocka_unit_test(rows_without_goldens),
        cmocka_unit_test(differences_alone),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
