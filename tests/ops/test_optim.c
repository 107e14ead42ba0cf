/* Steps of optimizers against numbers made with PyTorch 1.13 (torch.optim.SGD, Adam, AdamW; lr 0.1, betas 0.8 and
 * 0.95, eps 1e-6, three steps), and over tensors of any shape and memory order. */
#include "support/tensors.h"
#include "dlcore/copy.h"
#include "dlcore/optim.h"
#include "dlcore/view.h"

#include <stdio.h>

static const double start[4] = {0.5, -1.25, 2.0, 0.0};
static const double grads[3][4] = {{0.1, -0.2, 0.3, 1.5}, {-0.4, 0.25, 0.0, -1.0}, {0.7, 0.7, -0.1, 0.2}};

typedef struct golden {
    const char *attrs;
    double want[4];
} golden;

static const golden sgd[] = {
    {"", {0.46000000000000002, -1.325, 1.98, -0.070000000000000021}},
    {"weight_decay=0.1 maximize=true",
     {0.52535050000000005, -1.1377257500000002, 1.9600009999999999, 0.068015000000000034}},
    {"momentum=0.9", {0.47890000000000005, -1.3132999999999999, 1.9287000000000001, -0.23650000000000004}},
    {"momentum=0.9 dampening=0.3 weight_decay=0.1",
     {0.45362676499999999, -1.2196016575000002, 1.8323255499999997, -0.2840073500000001}},
    {"momentum=0.9 nesterov=true weight_decay=0.1",
     {0.40103591150000001, -1.28423080825, 1.7606867050000001, -0.27111588500000006}},
};

static const golden adam[] = {
    {"", {0.42221018628555729, -1.2418617467299835, 1.8152411213480344, -0.1230971063034445}},
    {"weight_decay=0.1", {0.40212464017301403, -1.1717225146564718, 1.7383160152250225, -0.12184933853067305}},
    {"decoupled weight_decay=0.1",
     {0.40874667868398373, -1.2065052436522175, 1.7584658675843898, -0.12101951197063519}},
    {"amsgrad=true maximize=true", {0.57778981371444271, -1.2581382532700165, 2.1831465918811648, 0.12282752713818784}},
};

static void step(const char *op, dl_tensor **in, int nin, const char *attrs) {
    dl_tensor *out[DL_MAX_OUT];
    int nout;
    ok(dl_op_call(op, in, nin, attrs, out, &nout));
}

static dl_tensor *vec(const double *v, dl_dtype t) {
    dl_tensor *d = must(dl_tensor_from(1, SHAPE(4), DL_F64, 0, v)), *c = must(dl_to_dtype(d, t));
    dl_unref(d);
    return c;
}

/* Three steps of one row over a list of one parameter; states start with NaN where they must not be read. */
static void check(const golden *c, bool is_adam, dl_dtype t) {
    static const double zero[4], nan[4] = {NAN, NAN, NAN, NAN};
    bool states = is_adam || strstr(c->attrs, "momentum"), top = strstr(c->attrs, "amsgrad");
    dl_tensor *p = vec(start, t), *m = vec(is_adam ? zero : nan, t), *v = vec(zero, t), *w = vec(zero, t);
    dl_tensor *lr = dl_scalar_f(0.1);
    for (int i = 0; i < 3; i++) {
        char attrs[160];
        dl_tensor *g = vec(grads[i], t), *count = dl_scalar_i(i + 1);
        bool decoupled = !strncmp(c->attrs, "decoupled ", 10);
        snprintf(attrs, sizeof attrs,
                 is_adam ? "%s betas1=0.8 betas2=0.95 eps=1e-6"
                 : i     ? "%s"
                         : "%s first=true",
                 c->attrs + (decoupled ? 10 : 0));
        if (is_adam)
            step(decoupled ? "adamw_step" : "adam_step", (dl_tensor *[]){lr, count, p, g, m, v, w}, top ? 7 : 6, attrs);
        else
            step("sgd_step", (dl_tensor *[]){lr, count, p, g, m}, states ? 5 : 4, attrs);
        dl_unref(g), dl_unref(count);
    }
    double *got = values(p);
    for (int i = 0; i < 4; i++)
        if (!(fabs(got[i] - c->want[i]) <= (t == DL_F64 ? 1e-14 : 3e-7) * (1 + fabs(c->want[i]))))
            fail_msg("%s: element %d is %.17g, not %.17g", c->attrs, i, got[i], c->want[i]);
    free(got);
    dl_unref(p), dl_unref(m), dl_unref(v), dl_unref(w), dl_unref(lr);
}

static void numbers_of_pytorch(void **state) {
    (void)state;
    for (unsigned i = 0; i < sizeof sgd / sizeof *sgd; i++)
        check(&sgd[i], false, DL_F64), check(&sgd[i], false, DL_F32);
    for (unsigned i = 0; i < sizeof adam / sizeof *adam; i++)
        check(&adam[i], true, DL_F64), check(&adam[i], true, DL_F32);
}

/* A parameter that is a view with gaps, a transposed gradient, an empty and a 0-d parameter: as contiguous copies. */
static void any_memory_order(void **state) {
    (void)state;
    dl_tensor *big = drawn(1, 2, SHAPE(6, 8), DL_F32), *p = must(dl_slice(big, 1, &(long){1}, &(long){7}, 2));
    dl_tensor *gt = drawn(2, 2, SHAPE(3, 6), DL_F32), *g = must(dl_permute(gt, SHAPE(1, 0), 2));
    dl_tensor *q = must(dl_contiguous(p)), *h = must(dl_contiguous(g));
    dl_tensor *m = drawn(3, 2, SHAPE(6, 3), DL_F32), *n = dl_clone(m);
    dl_tensor *none = drawn(4, 2, SHAPE(0, 3), DL_F32), *one = drawn(5, 0, NULL, DL_F32), *two = dl_clone(one);
    dl_tensor *lr = dl_scalar_f(0.1), *one_step = dl_scalar_i(1), *before = dl_clone(big);
    ok(dl_sgd_step(lr, one_step, (dl_tensor *[]){p, none, one, g, none, one, m, none, two}, 9, 0.9, 0, 0, 0, 0, 0));
    ok(dl_sgd_step(lr, one_step, (dl_tensor *[]){q, h, n}, 3, 0.9, 0, 0, 0, 0, 0));
    near(p, q, 0, "parameter");
    near(m, n, 0, "buffer");
    for (long i = 0; i < 48; i++) /* what lies between the columns is left alone */
        if (i % 8 % 2 == 0 || i % 8 == 7) assert_true(((float *)dl_data(big))[i] == ((float *)dl_data(before))[i]);
    dl_tensor *all[] = {big, p, gt, g, q, h, m, n, none, one, two, lr, one_step, before};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) dl_unref(all[i]);
}

static void versions_move(void **state) {
    (void)state;
    dl_tensor *p = drawn(1, 1, SHAPE(4), DL_F32), *g = drawn(2, 1, SHAPE(4), DL_F32), *lr = dl_scalar_f(0.1);
    dl_tensor *one_step = dl_scalar_i(1);
    long before = dl_tensor_version(p);
    ok(dl_sgd_step(lr, one_step, (dl_tensor *[]){p, g}, 2, 0, 0, 0, 0, 0, 0));
    assert_true(dl_tensor_version(p) > before);
    dl_unref(p), dl_unref(g), dl_unref(lr), dl_unref(one_step);
}

static void refused(dl_status s, dl_status code, const char *text) {
    assert_int_equal(s, code);
    if (!strstr(dl_errmsg(), text)) fail_msg("'%s' lacks '%s'", dl_errmsg(), text);
}

static void wrong_lists(void **state) {
    (void)state;
    dl_tensor *p = drawn(1, 1, SHAPE(4), DL_F32), *g = drawn(2, 1, SHAPE(3), DL_F32), *lr = dl_scalar_f(0.1);
    dl_tensor *zero = dl_scalar_f(0), *one_step = dl_scalar_i(1);
    refused(dl_sgd_step(lr, one_step, (dl_tensor *[]){p, g}, 2, 0, 0, 0, 0, 0, 0), DL_ERR_SHAPE,
            "differs from parameter 0");
    refused(dl_sgd_step(lr, one_step, (dl_tensor *[]){p, p, p}, 3, 0, 0, 0, 0, 0, 0), DL_ERR_VALUE,
            "3 tensors cannot be");
    refused(dl_sgd_step(lr, one_step, (dl_tensor *[]){p, p}, 2, 0, 0, 0, 1, 0, 0), DL_ERR_VALUE, "nesterov");
    refused(dl_sgd_step(p, one_step, (dl_tensor *[]){p, p}, 2, 0, 0, 0, 0, 0, 0), DL_ERR_SHAPE, "single number");
    refused(dl_adam_step(lr, zero, (dl_tensor *[]){p, p, p, p}, 4, 0.9, 0.999, 1e-8, 0, 0, 0, 0), DL_ERR_VALUE,
            "from 1");
    dl_unref(p), dl_unref(g), dl_unref(lr), dl_unref(zero), dl_unref(one_step);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_pytorch),
        cmocka_unit_test(any_memory_order),
        cmocka_unit_test(versions_move),
        cmocka_unit_test(wrong_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
