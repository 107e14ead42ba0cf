/* Optimizers, schedules and limits on gradients against PyTorch's numbers; groups, state and errors. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "support/wrong.h"
#include "goldens.h"
#include "core/scope.h"
#include "dlcore/all.h"
#include "nn/parse.h"
#include "optim/optimizer.h"

/* cmocka compares floats in single precision. */
#define assert_near(a, b, eps)                                                                                         \
    do {                                                                                                               \
        double a_ = (a), b_ = (b);                                                                                     \
        if (!(fabs(a_ - b_) <= (eps))) fail_msg("%s is %.17g, not %.17g", #a, a_, b_);                                 \
    } while (0)

static dl_tensor *param(int ndim, const long *shape, dl_dtype dtype, const void *data) {
    dl_tensor *p = dl_tensor_from(ndim, shape, dtype, 0, data);
    assert_int_equal(dl_set_requires_grad(p, 1), DL_OK);
    return p;
}

static dl_optimizer *optimizer(const char *text) {
    dl_optimizer *o = dl_optimizer_parse(text);
    if (!o) fail_msg("%s", dl_errmsg());
    return o;
}

/* p.grad = p * scale + shift */
static void set_gradient(dl_tensor *p) {
    double v[4];
    assert_int_equal(dl_read_f64(p, v), DL_OK);
    for (int i = 0; i < 4; i++) v[i] = v[i] * scale[i] + shift[i];
    dl_tensor *g = dl_tensor_from(dl_ndim(p), dl_shape(p), DL_F64, 0, v), *cast = dl_to_dtype(g, dl_dtype_of(p));
    assert_int_equal(dl_set_grad(p, cast), DL_OK);
    dl_unref(g);
    dl_unref(cast);
}

/* make_goldens.py takes them from the rows' samples. */
static void every_optimizer_has_goldens(void **state) {
    (void)state;
    const dl_kind_row *k;
    for (int i = 0; (k = dl_optimizer_kind_at(i)); i++) {
        size_t n = strlen(k->name), found = 0;
        for (size_t j = 0; j < sizeof optimizers / sizeof *optimizers; j++)
            found +=
                !strncmp(optimizers[j].text, k->name, n) && (optimizers[j].text[n] == ' ' || !optimizers[j].text[n]);
        for (size_t j = 0; j < sizeof hills / sizeof *hills; j++) found += !strncmp(hills[j].text, k->name, n);
        if (!found) fail_msg("%s has no goldens: run tests/optim/make_goldens.py", k->name);
    }
}

static void compare(const char *text, dl_tensor *p, const double *want, double eps) {
    double got[4];
    assert_int_equal(dl_read_f64(p, got), DL_OK);
    for (int i = 0; i < 4; i++)
        if (!(fabs(got[i] - want[i]) / fmax(1, fabs(want[i])) <= eps))
            fail_msg("%s, %s, element %d: %.17g, PyTorch %.17g", text, dl_dtype_name(dl_dtype_of(p)), i, got[i],
                     want[i]);
}

/* 100 steps of a parameter of this shape. */
static void one_equals_pytorch(const char *text, int ndim, const long *shape, dl_dtype dtype, const double *few,
                               const double *want) {
    DL_OWNED dl_tensor *wide = dl_tensor_from(ndim, shape, DL_F64, 0, start), *plain = dl_to_dtype(wide, dtype),
                       *p = dl_clone(plain);
    assert_int_equal(dl_set_requires_grad(p, 1), DL_OK);
    dl_optimizer *o = optimizer(text);
    assert_int_equal(dl_optimizer_add(o, "p", p), DL_OK);
    for (int i = 1; i <= STEPS; i++) {
        set_gradient(p);
        if (dl_optimizer_step(o) != DL_OK) fail_msg("%s", dl_errmsg());
        if (i == FEW) compare(text, p, few, dtype == DL_F64 ? 1e-12 : 1e-6);
    }
    assert_int_equal(dl_optimizer_steps(o), STEPS);
    if (dtype == DL_F64) compare(text, p, want, 1e-11);
    dl_optimizer_unref(o);
}

static void steps_equal_pytorch(void **state) {
    (void)state;
    for (int dtype = DL_F32; dtype <= DL_F64; dtype++) {
        for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
            one_equals_pytorch(optimizers[k].text, 1, (long[]){4}, dtype, optimizers[k].few, optimizers[k].want);
        for (size_t k = 0; k < sizeof matrices / sizeof *matrices; k++)
            one_equals_pytorch(matrices[k].text, 2, (long[]){2, 2}, dtype, matrices[k].few, matrices[k].want);
    }
}

/* A step of a 16-bit parameter is the step of an f32 parameter that starts from the same number, rounded. */
static void half_steps_are_rounded_steps(void **state) {
    (void)state;
    long four = 4;
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
        for (int dtype = DL_BF16; dtype != -1; dtype = dtype == DL_BF16 ? DL_F16 : -1) {
            DL_OWNED dl_tensor *wide = dl_tensor_from(1, &four, DL_F64, 0, start), *narrow = dl_to_dtype(wide, dtype),
                               *f32 = dl_to_dtype(narrow, DL_F32), *p = dl_clone(narrow), *q = dl_clone(f32);
            dl_tensor *of[2] = {p, q};
            dl_optimizer *o[2];
            for (int i = 0; i < 2; i++) {
                assert_int_equal(dl_set_requires_grad(of[i], 1), DL_OK);
                o[i] = optimizer(optimizers[k].text);
                assert_int_equal(dl_optimizer_add(o[i], "p", of[i]), DL_OK);
            }
            for (int step = 0; step < FEW; step++) {
                double got[4], want[4];
                set_gradient(p);
                DL_OWNED dl_tensor *same = dl_to_dtype(p->grad, DL_F32);
                assert_int_equal(dl_set_grad(q, same), DL_OK);
                for (int i = 0; i < 2; i++)
                    if (dl_optimizer_step(o[i]) != DL_OK) fail_msg("%s: %s", optimizers[k].text, dl_errmsg());
                DL_OWNED dl_tensor *plain = dl_detach(q), *rounded = dl_to_dtype(plain, dtype);
                assert_int_equal(dl_read_f64(p, got), DL_OK);
                assert_int_equal(dl_read_f64(rounded, want), DL_OK);
                for (int i = 0; i < 4; i++)
                    if (got[i] != want[i])
                        fail_msg("%s, %s, element %d: %.9g, not %.9g", optimizers[k].text, dl_dtype_name(dtype), i,
                                 got[i], want[i]);
                assert_int_equal(dl_assign(plain, rounded), DL_OK);
            }
            for (int i = 0; i < 2; i++) dl_optimizer_unref(o[i]);
        }
}

/* Rosenbrock's function of six numbers that lie in two parameters. */
typedef struct hill {
    dl_tensor *p[2];
    dl_optimizer *o;
    long calls, fails_at; /* 0: never */
} hill;

static dl_status climb(void *ctx, double *loss) {
    hill *h = ctx;
    const long all = -1, low = 0, one = 1, five = 5, six = 6;
    if (++h->calls == h->fails_at) return dl_fail(DL_ERR_VALUE, "the hill is closed");
    dl_optimizer_zero_grad(h->o);
    DL_OWNED dl_tensor *row = dl_reshape(h->p[0], &all, 1), *x = dl_cat((dl_tensor *[]){row, h->p[1]}, 2, 0),
                       *a = dl_slice(x, 0, &low, &five, 1), *b = dl_slice(x, 0, &one, &six, 1), *aa = dl_square(a),
                       *d = dl_sub(b, aa), *dd = dl_square(d), *ten = dl_scalar_f(10), *steep = dl_mul(dd, ten),
                       *unit = dl_scalar_f(1), *e = dl_sub(unit, a), *ee = dl_square(e), *sum = dl_add(steep, ee),
                       *total = dl_sum(sum, NULL, 0, 0);
    if (!total) return DL_ERR_STATE;
    DL_TRY(dl_backward(total, NULL, 0, 0));
    return dl_item_f(total, loss);
}

static hill new_hill(const char *text) {
    const double at[] = {-1.2, 1.0, 0.5, -0.4, 0.3, 1.5};
    const long square[] = {2, 2};
    hill h = {.o = optimizer(text)};
    h.p[0] = dl_tensor_from(2, square, DL_F64, 0, at), h.p[1] = dl_tensor_from(1, square, DL_F64, 0, at + 4);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dl_set_requires_grad(h.p[i], 1), DL_OK);
        assert_int_equal(dl_optimizer_add(h.o, i ? "b" : "a", h.p[i]), DL_OK);
    }
    return h;
}

static void where(const hill *h, double at[6]) {
    assert_int_equal(dl_read_f64(h->p[0], at), DL_OK);
    assert_int_equal(dl_read_f64(h->p[1], at + 4), DL_OK);
}

static void leave(hill *h) {
    dl_optimizer_unref(h->o);
    dl_unref(h->p[0]), dl_unref(h->p[1]);
}

static void lbfgs_equals_pytorch(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof hills / sizeof *hills; k++) {
        hill h = new_hill(hills[k].text);
        double loss, at[6];
        for (int i = 0; i < HILL_STEPS; i++) {
            if (dl_optimizer_minimize(h.o, climb, &h, &loss) != DL_OK) fail_msg("%s", dl_errmsg());
            if (!(fabs(loss - hills[k].loss[i]) <= 1e-8 * fmax(1, fabs(hills[k].loss[i]))))
                fail_msg("%s, step %d: %.17g, PyTorch %.17g", hills[k].text, i, loss, hills[k].loss[i]);
        }
        where(&h, at);
        for (int i = 0; i < 6; i++) assert_near(at[i], hills[k].want[i], 1e-7);
        leave(&h);
    }
}

/* A function that fails within a line search leaves the parameters where the last iteration had brought them. */
static void failures_leave_a_point_accepted(void **state) {
    (void)state;
    double before[6], after[6], loss;
    hill h = new_hill("lbfgs line_search_fn=strong_wolfe");
    where(&h, before);
    h.fails_at = 2;
    assert_int_equal(dl_optimizer_minimize(h.o, climb, &h, &loss), DL_ERR_VALUE);
    assert_string_equal(dl_errmsg(), "the hill is closed");
    where(&h, after);
    for (int i = 0; i < 6; i++) assert_near(after[i], before[i], 0);
    assert_int_equal(dl_optimizer_steps(h.o), 0);
    assert_int_equal(dl_optimizer_step(h.o), DL_ERR_STATE);
    leave(&h);
    h = new_hill("sgd lr=0"); /* other kinds call it once */
    assert_int_equal(dl_optimizer_minimize(h.o, climb, &h, &loss), DL_OK);
    assert_int_equal(h.calls, 1);
    assert_int_equal(dl_optimizer_steps(h.o), 1);
    leave(&h);
}

/* A step of lars without momentum, by its formula, of tensors of several pieces and of one; a parameter that is zero
 * takes a plain step. */
static void norms_are_of_whole_tensors(void **state) {
    (void)state;
    enum { N = 3 };
    const long sizes[N] = {40001, 5, 16384};
    dl_optimizer *o = optimizer("lars lr=2 momentum=0 trust_coefficient=0.01 eps=0");
    dl_tensor *p[N];
    double *before[N], *slope[N], *after = malloc(sizeof *after * (size_t)sizes[0]);
    for (int k = 0; k < N; k++) {
        size_t n = (size_t)sizes[k];
        before[k] = malloc(sizeof(double) * n), slope[k] = malloc(sizeof(double) * n);
        for (size_t i = 0; i < n; i++)
            before[k][i] = k == 2 ? 0 : sin((double)i + k), slope[k][i] = cos(3 * (double)i + k);
        p[k] = dl_tensor_from(1, &sizes[k], DL_F64, 0, before[k]);
        assert_int_equal(dl_set_requires_grad(p[k], 1), DL_OK);
        dl_tensor *g = dl_tensor_from(1, &sizes[k], DL_F64, 0, slope[k]);
        assert_int_equal(dl_set_grad(p[k], g), DL_OK);
        dl_unref(g);
        assert_int_equal(dl_optimizer_add(o, "p", p[k]), DL_OK);
    }
    assert_int_equal(dl_optimizer_step(o), DL_OK);
    for (int k = 0; k < N; k++) {
        double a = 0, b = 0;
        for (long i = 0; i < sizes[k]; i++) a += before[k][i] * before[k][i], b += slope[k][i] * slope[k][i];
        double rate = k == 2 ? 2 : 2 * 0.01 * sqrt(a) / sqrt(b);
        assert_int_equal(dl_read_f64(p[k], after), DL_OK);
        for (long i = 0; i < sizes[k]; i++) assert_near(after[i], before[k][i] - rate * slope[k][i], 1e-14);
        free(before[k]), free(slope[k]), dl_unref(p[k]);
    }
    free(after);
    dl_optimizer_unref(o);
}

static dl_schedule *parts[8];
static int nparts;
static void *make_schedule(const char *kind, const dl_arg *args, int nargs) {
    return dl_schedule_of(kind, parts, nparts, args, nargs, NULL);
}

/* "KIND OPTION...; PART; PART": the parts are schedules. */
static dl_schedule *schedule(const char *text) {
    char words[256], *rest = words;
    snprintf(words, sizeof words, "%s", text);
    const char *head = strsep(&rest, ";");
    for (nparts = 0; rest; nparts++) parts[nparts] = dl_schedule_parse(strsep(&rest, ";"));
    dl_schedule *s = dl_parse_call(head, make_schedule);
    if (!s) fail_msg("%s: %s", text, dl_errmsg());
    while (nparts) dl_schedule_unref(parts[--nparts]);
    return s;
}

static void every_schedule_has_goldens(void **state) {
    (void)state;
    const dl_kind_row *k;
    for (int i = 0; (k = dl_schedule_kind_at(i)); i++) {
        size_t n = strlen(k->name), found = !strcmp(k->name, "plateau");
        for (size_t j = 0; j < sizeof schedules / sizeof *schedules; j++)
            found += !strncmp(schedules[j].text, k->name, n) && !isalpha(schedules[j].text[n]);
        if (!found) fail_msg("%s has no goldens", k->name);
    }
}

static void schedules_equal_pytorch(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++) {
        dl_schedule *s = schedule(schedules[k].text);
        for (long i = 0; i < RATES; i++) {
            double lr;
            assert_int_equal(dl_schedule_lr(s, 0.1, i, 0, &lr), DL_OK);
            if (!(fabs(lr - schedules[k].want[i]) <= 1e-12))
                fail_msg("%s at %ld: %.17g, PyTorch %.17g", schedules[k].text, i, lr, schedules[k].want[i]);
        }
        dl_schedule_unref(s);
    }
}

static void plateau_equals_pytorch(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof plateaus / sizeof *plateaus; k++) {
        dl_schedule *s = schedule(plateaus[k].text);
        for (size_t i = 0; i < sizeof plateau_losses / sizeof *plateau_losses; i++) {
            double lr;
            dl_schedule_report(s, plateau_losses[i]);
            assert_int_equal(dl_schedule_lr(s, 0.1, 0, 0, &lr), DL_OK);
            if (!(fabs(lr - plateaus[k].want[i]) <= 1e-12))
                fail_msg("%s at %zu: %g, PyTorch %g", plateaus[k].text, i, lr, plateaus[k].want[i]);
        }
        dl_schedule_unref(s);
    }
}

/* A plateau among the parts receives the metric, and its state is that of the whole. */
static void chains_keep_a_plateau(void **state) {
    (void)state;
    const char *text = "chained; plateau factor=0.5 patience=0; exponential 0.5";
    dl_schedule *a = schedule(text), *b = schedule(text);
    assert_string_equal(dl_schedule_text(a), "chained(plateau(factor=0.5, patience=0), exponential(gamma=0.5))");
    double kept[DL_SCHEDULE_STATE], lr;
    for (int i = 0; i < 3; i++) dl_schedule_report(a, 1);
    dl_schedule_get_state(a, kept);
    dl_schedule_set_state(b, kept);
    assert_int_equal(dl_schedule_lr(b, 1, 1, 0, &lr), DL_OK);
    assert_near(lr, 0.125, 0);
    dl_schedule_unref(a);
    dl_schedule_unref(b);
    static const wrong cases[] = {
        {"chained", DL_ERR_VALUE, "schedule chained needs a list of schedules", NULL},
        {"wsd 10 0", DL_ERR_VALUE, "schedule wsd: decay must be at least 1, not 0", ""},
        {"wsd 10 5 shape=round", DL_ERR_VALUE, "schedule wsd: shape is one of linear|cosine|sqrt, not 'round'", ""},
        {"restarts 0", DL_ERR_VALUE, "schedule restarts: steps must be at least 1, not 0", ""},
        {"step 1 by=minute", DL_ERR_VALUE, "schedule step: by is one of step|epoch, not 'minute'", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error_clear();
        assert_refused(&cases[i], dl_schedule_parse(cases[i].text));
    }
    dl_schedule *two[] = {dl_schedule_parse("plateau"), dl_schedule_parse("plateau")};
    const long at[] = {10, 5};
    dl_arg milestones = {.kind = DL_ARG_INTS, .n = 2, .v = at};
    assert_null(dl_schedule_of("chained", two, 2, NULL, 0, NULL));
    assert_null(dl_schedule_of("sequential", two, 1, &milestones, 1, NULL));
    assert_null(dl_schedule_of("constant", two, 1, NULL, 0, NULL));
    dl_schedule_unref(two[0]);
    dl_schedule_unref(two[1]);
}

static dl_status halves(void *ctx, long step, double *lr) {
    (void)ctx;
    *lr = step < 3 ? 1.0 / (double)(1L << step) : -1;
    return DL_OK;
}

static void warmup_epochs_and_functions(void **state) {
    (void)state;
    double lr;
    dl_schedule *s = dl_schedule_parse("cosine(8, warmup=4)");
    const double rise[] = {0.25, 0.5, 0.75, 1, 1};
    for (long i = 0; i < 5; i++) {
        assert_int_equal(dl_schedule_lr(s, 1, i, 0, &lr), DL_OK);
        assert_near(lr, rise[i], 1e-12);
    }
    assert_string_equal(dl_schedule_text(s), "cosine(steps=8, warmup=4)");
    dl_schedule_unref(s);
    s = dl_schedule_parse("step 1 gamma=0.5 by=epoch");
    assert_int_equal(dl_schedule_lr(s, 1, 1000, 2, &lr), DL_OK);
    assert_near(lr, 0.25, 1e-12);
    dl_schedule_unref(s);
    s = dl_schedule_function(halves, NULL, NULL);
    assert_int_equal(dl_schedule_lr(s, 1, 2, 0, &lr), DL_OK);
    assert_near(lr, 0.25, 0);
    assert_int_equal(dl_schedule_lr(s, 1, 3, 0, &lr), DL_ERR_VALUE);
    dl_schedule_unref(s);
}

static void clipping_equals_pytorch(void **state) {
    (void)state;
    const double zeros[4] = {0}, a[] = {3, -4}, b[] = {1, 2, -2, 0.5};
    dl_tensor *p[] = {param(1, (long[]){2}, DL_F64, zeros), param(2, (long[]){2, 2}, DL_F64, zeros)};
    dl_tensor *g[] = {dl_tensor_from(1, (long[]){2}, DL_F64, 0, a), dl_tensor_from(2, (long[]){2, 2}, DL_F64, 0, b)};
    for (int i = 0; i < 2; i++) assert_int_equal(dl_set_grad(p[i], g[i]), DL_OK);
    double norm, got[6];
    assert_int_equal(dl_clip_grad_norm(p, 2, 100, &norm), DL_OK); /* nothing to limit */
    assert_int_equal(dl_clip_grad_norm(p, 2, 2, &norm), DL_OK);
    assert_near(norm, clip_norm, 1e-12);
    assert_int_equal(dl_read_f64(dl_grad(p[0]), got), DL_OK);
    assert_int_equal(dl_read_f64(dl_grad(p[1]), got + 2), DL_OK);
    for (int i = 0; i < 6; i++) assert_near(got[i], clipped[i], 1e-12);
    assert_int_equal(dl_clip_grad_value(p, 2, 0.5), DL_OK);
    assert_int_equal(dl_read_f64(dl_grad(p[0]), got), DL_OK);
    assert_near(got[1], -0.5, 0);
    for (int i = 0; i < 2; i++) dl_unref(p[i]), dl_unref(g[i]);
}

/* Norms of gradients whose squares are beyond floats, and of ones longer than a block. */
static void norms_at_the_ends(void **state) {
    (void)state;
    enum { MANY = 10007 };
    const double values[] = {1e25, 1e-25, 3};
    for (int i = 0; i < 3; i++) {
        long n = MANY;
        dl_tensor *p = dl_tensor_zeros(1, &n, DL_F32, 0), *g = dl_tensor_full(1, &n, DL_F32, 0, values[i]);
        assert_int_equal(dl_set_requires_grad(p, 1), DL_OK);
        assert_int_equal(dl_set_grad(p, g), DL_OK);
        double norm, want = values[i] * sqrt((double)MANY);
        assert_int_equal(dl_clip_grad_norm(&p, 1, 0, &norm), DL_OK);
        assert_near(norm / want, 1, 1e-6);
        dl_unref(p);
        dl_unref(g);
    }
}

static void groups(void **state) {
    (void)state;
    const double one = 1;
    dl_optimizer *o = optimizer("sgd lr=0.1");
    dl_arg rate = {.name = "lr", .kind = DL_ARG_FLOAT, .f = 0.01}, wrong = {.name = "lt", .kind = DL_ARG_INT, .i = 1};
    int bad;
    assert_int_equal(dl_optimizer_group(o, "*.bias", &wrong, 1, &bad), DL_ERR_NAME);
    assert_int_equal(bad, 0);
    assert_int_equal(dl_optimizer_group(o, "*.bias", &rate, 1, NULL), DL_OK);
    dl_tensor *w = param(0, NULL, DL_F64, &one), *b = param(0, NULL, DL_F64, &one),
              *g = dl_tensor_from(0, NULL, DL_F64, 0, &one);
    assert_int_equal(dl_optimizer_add(o, "a.weight", w), DL_OK);
    assert_int_equal(dl_optimizer_add(o, "a.bias", b), DL_OK);
    assert_int_equal(dl_optimizer_add(o, "a.bias", b), DL_ERR_NAME);
    assert_int_equal(dl_set_grad(w, g), DL_OK);
    assert_int_equal(dl_set_grad(b, g), DL_OK);
    assert_int_equal(dl_optimizer_set_lr(o, 0.5), DL_OK); /* the group's is then 0.05 */
    assert_int_equal(dl_optimizer_step(o), DL_OK);
    double v;
    assert_int_equal(dl_item_f(w, &v), DL_OK);
    assert_near(v, 0.5, 1e-15);
    assert_int_equal(dl_item_f(b, &v), DL_OK);
    assert_near(v, 0.95, 1e-15);
    dl_unref(w), dl_unref(b), dl_unref(g);
    dl_optimizer_unref(o);
}

/* A parameter that gets its first gradient late starts its state then; many parameters go in several runs of the op. */
static void many_and_late(void **state) {
    (void)state;
    enum { N = 300 };
    const double one = 1;
    dl_tensor *p[N], *g = dl_tensor_from(0, NULL, DL_F64, 0, &one);
    dl_optimizer *o = optimizer("adam lr=0.1");
    for (int i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        p[i] = param(0, NULL, DL_F64, &one);
        assert_int_equal(dl_optimizer_add(o, name, p[i]), DL_OK);
    }
    for (int step = 0; step < 2; step++) {
        for (int i = 0; i < N; i++)
            if (step || i % 2) assert_int_equal(dl_set_grad(p[i], g), DL_OK);
        if (dl_optimizer_step(o) != DL_OK) fail_msg("%s", dl_errmsg());
    }
    for (int i = 0; i < N; i++) { /* with a constant gradient each step of Adam is lr */
        double v;
        assert_int_equal(dl_item_f(p[i], &v), DL_OK);
        assert_near(v, (i % 2 ? 0.8 : 0.9), 1e-6);
        dl_unref(p[i]);
    }
    dl_unref(g);
    dl_optimizer_unref(o);
}

static void errors_have_hints(void **state) {
    (void)state;
    static const wrong cases[] = {
        {"adma lr=1", DL_ERR_NAME, "there is no optimizer called 'adma'", "did you mean 'adam'?"},
        {"sgd mometum=0.9", DL_ERR_NAME, "optimizer sgd has no option 'mometum'", "did you mean 'momentum'?"},
        {"sgd lr=-1", DL_ERR_VALUE, "optimizer sgd: lr must be at least 0, not -1", ""},
        {"sgd nesterov=true", DL_ERR_VALUE, "optimizer sgd: nesterov needs a momentum", NULL},
        {"adam betas=0.9", DL_ERR_VALUE, "optimizer adam: betas are two numbers", ""},
        {"adam betas=[0.9, 1]", DL_ERR_VALUE, "optimizer adam: betas must be at least 0 and below 1, not 1", ""},
        {"adam lr=fast", DL_ERR_TYPE, "optimizer adam: lr must be a number, not a word", "lr: learning rate"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error_clear();
        assert_refused(&cases[i], dl_optimizer_parse(cases[i].text));
    }
    assert_null(dl_schedule_parse("cosin 10"));
    assert_string_equal(dl_error_last()->hint, "did you mean 'cosine'?");
    assert_null(dl_schedule_parse("cosine 0"));
    assert_null(dl_schedule_parse("step 1 by=minute"));
    dl_optimizer *o = optimizer("sgd");
    assert_int_equal(dl_optimizer_step(o), DL_ERR_STATE);
    assert_int_equal(dl_optimizer_set_lr(o, NAN), DL_ERR_VALUE);
    dl_tensor *x = dl_scalar_f(1);
    assert_int_equal(dl_optimizer_add(o, "x", x), DL_ERR_AUTOGRAD);
    dl_unref(x);
    dl_optimizer_unref(o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_optimizer_has_goldens),
        cmocka_unit_test(steps_equal_pytorch),
        cmocka_unit_test(half_steps_are_rounded_steps),
        cmocka_unit_test(lbfgs_equals_pytorch),
        cmocka_unit_test(failures_leave_a_point_accepted),
        cmocka_unit_test(norms_are_of_whole_tensors),
        cmocka_unit_test(schedules_equal_pytorch),
        cmocka_unit_test(plateau_equals_pytorch),
        cmocka_unit_test(every_schedule_has_goldens),
        cmocka_unit_test(chains_keep_a_plateau),
        cmocka_unit_test(warmup_epochs_and_functions),
        cmocka_unit_test(clipping_equals_pytorch),
        cmocka_unit_test(groups),
        cmocka_unit_test(norms_at_the_ends),
        cmocka_unit_test(many_and_late),
        cmocka_unit_test(errors_have_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
