/* Properties that a session on the GPU relies on: the same masks as on the CPU, every optimizer, sums by index that
 * repeat bit for bit, faults and errors that it survives, training without growth, more than 2^31 elements. */
#include "cuda/calls.h"
#include "dlcore/all.h"

static dl_tensor *there(dl_tensor *t) { return must(dl_to_device(t, GPU)); }

/* The same values, both taken over. */
static void same(dl_tensor *cpu, dl_tensor *gpu, double tolerance, const char *what) {
    dl_tensor *back = host(must(gpu));
    near(back, must(cpu), tolerance, what);
    dl_unref(cpu), dl_unref(gpu), dl_unref(back);
}

static void masks(void **state) {
    (void)state;
    NEEDS_GPU();
    static const dl_dtype floats[] = {DL_F32, DL_F64, DL_F16, DL_BF16};
    static const double p[] = {0, 0.1, 0.5, 0.999, 1};
    for (int k = 0; k < 40; k++) {
        long shape[4] = {1 + k % 7, 1 + k * 3 % 5, 1 + k * 11 % 13, 1 + k * k * 7 % 90};
        dl_tensor *x = drawn((unsigned)k, 4, shape, floats[k % 4]),
                  *v = k < 20 ? dl_ref(x) : must(dl_permute(x, SHAPE(0, 3, 1, 2), 4));
        dl_tensor *c = k < 30 ? dl_ref(v) : must(dl_clone(v)), *g = there(c),
                  *w = k < 30 ? there(v) : must(dl_clone(g));
        dl_seed(3);
        dl_tensor *a = must(dl_dropout(c, p[k % 5], 1)), *a2 = must(dl_dropout(c, p[k % 5], 1));
        dl_seed(3);
        dl_tensor *b = dl_dropout(w, p[k % 5], 1), *b2 = dl_dropout(w, p[k % 5], 1);
        same(a, b, 0, "dropout"), same(a2, b2, 0, "the second dropout");
        dl_unref(x), dl_unref(v), dl_unref(c), dl_unref(g), dl_unref(w);
    }
}

/* ---- optimizers */

static dl_tensor *parameter(unsigned seed, dl_dtype dtype, int device) {
    dl_tensor *t = drawn(seed, 2, SHAPE(37, 5), DL_F32), *cast = must(dl_to_dtype(t, dtype));
    dl_tensor *p = leaf(must(dl_to_device(cast, device)));
    dl_unref(t), dl_unref(cast);
    return p;
}

/* Two parameters after ten steps, the learning rate changing on the way. */
static dl_tensor *trained(const char *text, dl_dtype dtype, int device) {
    dl_optimizer *o = dl_optimizer_parse(text);
    if (!o) fail_msg("%s: %s", text, dl_errmsg());
    dl_tensor *p[2];
    char name[] = "p0";
    for (unsigned i = 0; i < 2; i++, name[1]++) {
        p[i] = parameter(i + 1, dtype, device);
        ok(dl_optimizer_add(o, name, p[i]));
    }
    for (unsigned step = 0; step < 10; step++) {
        if (step == 5) ok(dl_optimizer_set_lr(o, dl_optimizer_lr(o) / 2));
        for (unsigned i = 0; i < 2; i++) {
            dl_tensor *g = parameter(10 + 2 * step + i, dtype, device), *plain = must(dl_detach(g));
            ok(dl_set_grad(p[i], plain));
            dl_unref(g), dl_unref(plain);
        }
        ok(dl_optimizer_step(o));
    }
    dl_tensor *d = must(dl_cat((dl_tensor *[]){p[0], p[1]}, 2, 0)), *end = must(dl_detach(d));
    dl_unref(p[0]), dl_unref(p[1]), dl_unref(d);
    dl_optimizer_unref(o);
    return end;
}

static void optimizers(void **state) {
    (void)state;
    NEEDS_GPU();
    static const char *const text[] = {
        "sgd lr=0.1",
        "sgd lr=0.1 momentum=0.9 dampening=0.2 weight_decay=0.01",
        "sgd lr=0.1 momentum=0.9 nesterov=true maximize=true",
        "adam lr=0.01",
        "adam lr=0.01 weight_decay=0.1 amsgrad=true betas=[0.8,0.99]",
        "adam lr=0.01 maximize=true eps=1e-3",
        "adamw lr=0.01",
        "adamw lr=0.01 weight_decay=0.2 amsgrad=true",
        "rmsprop lr=0.01 momentum=0.9 weight_decay=0.1",
        "rmsprop lr=0.01 centered=true maximize=true",
    };
    enum { N = sizeof text / sizeof *text };
    for (int i = 0; i < N; i++) {
        same(trained(text[i], DL_F64, 0), trained(text[i], DL_F64, GPU), 1e-13, text[i]);
        same(trained(text[i], DL_F64, 0), trained(text[i], DL_F32, GPU), 5e-7, text[i]);
        same(trained(text[i], DL_BF16, 0), trained(text[i], DL_BF16, GPU), 8e-3, text[i]);
        same(trained(text[i], DL_F16, 0), trained(text[i], DL_F16, GPU), 1e-3, text[i]);
    }
    const dl_kind_row *kind;
    for (int k = 0; (kind = dl_optimizer_kind_at(k)); k++)
        if (strcmp(kind->name, "lbfgs"))
            same(trained(kind->example, DL_F64, 0), trained(kind->example, DL_F64, GPU), 1e-13, kind->example);
}

/* A bowl: half the sum of w x**2, w being 1 ... n, in two parameters. */
typedef struct bowl {
    dl_tensor *p[2], *weight[2];
    dl_optimizer *o;
} bowl;

static dl_status roll(void *ctx, double *loss) {
    bowl *b = ctx;
    *loss = 0;
    for (int i = 0; i < 2; i++) {
        dl_tensor *x = must(dl_detach(b->p[i])), *g = must(dl_mul(b->weight[i], x)), *part = must(dl_dot(g, x));
        double half;
        ok(dl_set_grad(b->p[i], g));
        ok(dl_item_f(part, &half));
        *loss += half / 2;
        dl_unref(x), dl_unref(g), dl_unref(part);
    }
    return DL_OK;
}

static dl_tensor *rolled(const char *text, dl_dtype dtype, int device) {
    bowl b = {.o = dl_optimizer_parse(text)};
    double numbers[40], loss;
    for (int i = 0; i < 40; i++) numbers[i] = 1 + i % 7;
    if (!b.o) fail_msg("%s: %s", text, dl_errmsg());
    for (int i = 0; i < 2; i++) {
        dl_tensor *t = drawn((unsigned)i + 1, 1, SHAPE(37 - 8 * i), DL_F32), *cast = must(dl_to_dtype(t, dtype));
        dl_tensor *w = must(dl_tensor_from(1, SHAPE(37 - 8 * i), DL_F64, 0, numbers)),
                  *wide = must(dl_to_dtype(w, dtype));
        b.p[i] = leaf(must(dl_to_device(cast, device))), b.weight[i] = must(dl_to_device(wide, device));
        dl_unref(t), dl_unref(cast), dl_unref(w), dl_unref(wide);
        ok(dl_optimizer_add(b.o, i ? "b" : "a", b.p[i]));
    }
    for (int i = 0; i < 3; i++) ok(dl_optimizer_minimize(b.o, roll, &b, &loss));
    dl_tensor *end = must(dl_detach(b.p[0]));
    for (int i = 0; i < 2; i++) dl_unref(b.p[i]), dl_unref(b.weight[i]);
    dl_optimizer_unref(b.o);
    return end;
}

static void algorithms(void **state) {
    (void)state;
    NEEDS_GPU();
    static const char *const text[] = {"lbfgs lr=0.5 max_iter=2", "lbfgs max_iter=3 line_search_fn=strong_wolfe"};
    for (int i = 0; i < 2; i++) same(rolled(text[i], DL_F64, 0), rolled(text[i], DL_F64, GPU), 1e-9, text[i]);
}

/* ---- by index */

static void heaps(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long many[] = {1, 50, 1000, 70000}, few[] = {1, 3, 1000, 60000};
    for (int k = 0; k < 16; k++) {
        long n = many[k / 4], places = few[k % 4], inner = k % 3 ? 3 : 40;
        dl_seed(9);
        dl_tensor *index = must(dl_randint(-places, places, &n, 1, DL_I64, 0));
        dl_tensor *x = drawn(1, 2, SHAPE(places, inner), DL_F64), *v = drawn(2, 2, SHAPE(n, inner), DL_F64);
        dl_tensor *gi = there(index), *gx = there(x), *gv = there(v);
        dl_tensor *a = must(dl_index_add(gx, gi, gv, 0)), *b = must(dl_index_add(gx, gi, gv, 0)), *once = host(a);
        same(once, b, 0, "index_add again");
        same(must(dl_index_add(x, index, v, 0)), a, 1e-13, "index_add");
        dl_tensor *col = must(dl_reshape(index, SHAPE(n, 1), 2)), *wide = must(dl_expand(col, SHAPE(n, inner), 2)),
                  *gw = there(wide);
        a = must(dl_scatter_add(gx, gw, gv, 0)), b = must(dl_scatter_add(gx, gw, gv, 0)), once = host(a);
        same(once, b, 0, "scatter_add again");
        same(must(dl_scatter_add(x, wide, v, 0)), a, 1e-13, "scatter_add");
        same(must(dl_index_select(x, index, 0)), dl_index_select(gx, gi, 0), 0, "index_select");
        same(must(dl_gather(x, wide, 0)), dl_gather(gx, gw, 0), 0, "gather");
        same(must(dl_cumsum(v, 0)), dl_cumsum(gv, 0), 1e-13, "cumsum of columns");
        dl_tensor *flat = must(dl_reshape(v, SHAPE(-1), 1)), *gf = there(flat);
        same(must(dl_cumsum(flat, 0)), dl_cumsum(gf, 0), 1e-13, "cumsum");
        dl_tensor *zero = dl_scalar_f(0.5), *is = must(dl_gt(v, zero)), *gis = there(is);
        same(must(dl_nonzero(is)), dl_nonzero(gis), 0, "nonzero");
        dl_tensor *t[] = {index, x, v, gi, gx, gv, col, wide, gw, flat, gf, zero, is, gis};
        for (unsigned i = 0; i < sizeof t / sizeof *t; i++) dl_unref(t[i]);
    }
}

/* What was found on the GPU comes with the next call that waits; the one after is fine. */
static void expect_fault(dl_tensor *t, const char *part) {
    dl_status s = t ? dl_device_synchronize(GPU) : dl_failed();
    if (s != DL_ERR_INDEX) fail_msg("no index error but: %s", dl_errmsg());
    if (!strstr(dl_errmsg(), part)) fail_msg("'%s' is not in: %s", part, dl_errmsg());
    ok(dl_device_synchronize(GPU));
    dl_unref(t);
}

static void faults(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *x = must(dl_tensor_zeros(2, SHAPE(5, 100), DL_F32, GPU)), *i = labels(3, SHAPE(1, 7, 2)), *g = there(i);
    dl_tensor *low = labels(3, SHAPE(0, 1, -6)), *gl = there(low),
              *v = must(dl_tensor_zeros(2, SHAPE(3, 100), DL_F32, GPU));
    dl_tensor *long_i = must(dl_tensor_full(1, SHAPE(100), DL_I64, 0, 9)), *glong = there(long_i);
    dl_tensor *many = must(dl_tensor_zeros(2, SHAPE(100, 100), DL_F32, GPU));
    dl_tensor *wide = must(dl_tensor_full(2, SHAPE(5, 1), DL_I64, GPU, 100)),
              *images = must(dl_tensor_zeros(4, SHAPE(1, 1, 3, 3), DL_F32, GPU));
    dl_tensor *pixel = must(dl_tensor_full(4, SHAPE(1, 1, 2, 2), DL_I64, GPU, 9));
    expect_fault(dl_index_select(x, g, 0), "index 7 is out of range for a dimension of size 5");
    expect_fault(dl_index_select(x, gl, 0), "index -6 is out of range");
    expect_fault(dl_index_add(x, g, v, 0), "index 7 is out of range");
    expect_fault(dl_index_add(x, glong, many, 0), "index 9 is out of range");
    expect_fault(dl_gather(x, wide, 1), "index 100 is out of range for a dimension of size 100");
    expect_fault(dl_one_hot(g, 3), "label 7");
    expect_fault(dl_pool_gather(images, pixel), "index 9 lies outside the 9 pixels");
    dl_tensor *t[] = {x, i, g, low, gl, v, long_i, glong, many, wide, images, pixel};
    for (unsigned k = 0; k < sizeof t / sizeof *t; k++) dl_unref(t[k]);
}

/* ---- memory */

static void too_large(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *kept = must(dl_tensor_full(1, SHAPE(1000), DL_F32, GPU, 2));
    for (int i = 0; i < 3; i++) {
        assert_null(dl_tensor_empty(1, SHAPE(50L << 30), DL_F32, GPU));
        assert_int_equal(dl_failed(), DL_ERR_MEMORY);
        if (!strstr(dl_errmsg(), "204800.0 MiB asked for")) fail_msg("the size is not in: %s", dl_errmsg());
        double sum = 0;
        dl_tensor *s = must(dl_sum(kept, NULL, 0, 0));
        ok(dl_item_f(s, &sum));
        assert_true(sum == 2000);
        dl_unref(s);
    }
    dl_unref(kept);
}

static void train_step(dl_tensor **w, dl_tensor *x, dl_tensor *y, dl_optimizer *o) {
    dl_tensor *h = must(dl_linear(x, w[0], w[1])), *r = must(dl_relu(h)), *d = must(dl_dropout(r, 0.2, 1));
    dl_tensor *z = must(dl_linear(d, w[2], w[3])), *loss = must(dl_cross_entropy(z, y, NULL, "mean", -100, 0));
    dl_optimizer_zero_grad(o);
    ok(dl_backward(loss, NULL, 0, 0));
    ok(dl_optimizer_step(o));
    dl_unref(h), dl_unref(r), dl_unref(d), dl_unref(z), dl_unref(loss);
}

static void no_growth(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shape[4][2] = {{32, 20}, {32, 0}, {5, 32}, {5, 0}};
    dl_tensor *w[4], *x = drawn(1, 2, SHAPE(16, 20), DL_F32), *y = must(dl_tensor_full(1, SHAPE(16), DL_I64, GPU, 3)),
                     *gx = there(x);
    dl_optimizer *o = dl_optimizer_parse("adam lr=0.001");
    assert_non_null(o);
    char name[] = "w0";
    for (unsigned i = 0; i < 4; i++, name[1]++) {
        dl_tensor *t = drawn(i, shape[i][1] ? 2 : 1, shape[i], DL_F32);
        w[i] = leaf(there(t));
        ok(dl_optimizer_add(o, name, w[i]));
        dl_unref(t);
    }
    dl_device_memory before, after;
    for (int i = 0; i < 100; i++) train_step(w, gx, y, o);
    ok(dl_device_memory_get(GPU, &before));
    size_t host_before = dl_host_bytes();
    for (int i = 0; i < 10000; i++) train_step(w, gx, y, o);
    ok(dl_device_memory_get(GPU, &after));
    assert_int_equal(after.used, before.used);
    assert_int_equal(after.peak, before.peak);
    assert_int_equal(after.cached, before.cached);
    assert_int_equal(dl_host_bytes(), host_before);
    for (int i = 0; i < 4; i++) dl_unref(w[i]);
    dl_unref(x), dl_unref(gx), dl_unref(y);
    dl_optimizer_unref(o);
}

/* ---- more than 2^31 elements */

static const long HUGE_N = (1L << 31) + 4099;

static dl_tensor *piece_of(dl_tensor *t, long from, long n) {
    long stop = from + n;
    return must(dl_slice(t, 0, &from, &stop, 1));
}

static void put_at(dl_tensor *t, long i, double v) {
    dl_tensor *p = piece_of(t, i, 1), *value = dl_scalar_f(v);
    ok(dl_assign(p, value));
    dl_unref(p), dl_unref(value);
}

/* The first element of row i. */
static double at(dl_tensor *t, long i) {
    dl_tensor *p = piece_of(t, i, 1), *own = must(dl_clone(p)), *back = host(own);
    double *v = values(back), first = v[0];
    free(v);
    dl_unref(p), dl_unref(own), dl_unref(back);
    return first;
}

static double total(dl_tensor *t) {
    double v = 0;
    dl_tensor *s = must(dl_sum(t, NULL, 0, 0));
    ok(dl_item_f(s, &v));
    dl_unref(s);
    return v;
}

static void huge_vector(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *a = must(dl_tensor_zeros(1, &HUGE_N, DL_F16, GPU));
    put_at(a, 5, 2), put_at(a, 1L << 31, 3), put_at(a, HUGE_N - 1, 4);
    assert_true(total(a) == 9);
    dl_tensor *b = must(dl_add(a, a));
    assert_true(at(b, 5) == 4 && at(b, 1L << 31) == 6 && at(b, HUGE_N - 1) == 8 && total(b) == 18);
    dl_tensor *c = must(dl_clone(b)), *every_third = must(dl_slice(c, 0, NULL, NULL, 3)),
              *d = must(dl_clone(every_third));
    assert_true(at(c, HUGE_N - 1) == 8 && total(c) == 18);
    assert_true(at(d, (HUGE_N - 1) / 3) == ((HUGE_N - 1) % 3 ? 0 : 8));
    dl_tensor *is = must(dl_nonzero(a));
    assert_int_equal(dl_shape(is)[0], 3);
    assert_true(at(is, 1) == (double)(1L << 31) && at(is, 2) == (double)(HUGE_N - 1));
    dl_seed(1);
    dl_tensor *kept = must(dl_dropout(b, 0.5, 1));
    assert_true(at(kept, HUGE_N - 1) == 16 || at(kept, HUGE_N - 1) == 0);
    dl_tensor *t[] = {a, b, c, every_third, d, is, kept};
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) dl_unref(t[i]);
}

static void huge_rows(void **state) {
    (void)state;
    NEEDS_GPU();
    enum { COLS = 65536, ROWS = 32769 };
    dl_tensor *x = must(dl_tensor_zeros(2, SHAPE(ROWS, COLS), DL_BF16, GPU)), *last = piece_of(x, ROWS - 1, 1),
              *one = dl_scalar_f(1);
    ok(dl_assign(last, one));
    dl_tensor *s = must(dl_softmax(x, 1)), *l = must(dl_logsumexp(x, SHAPE(1), 1, 0)), *end = piece_of(s, ROWS - 1, 1);
    assert_true(at(s, ROWS - 1) == 1.0 / COLS && at(s, 0) == 1.0 / COLS && total(end) == 1);
    assert_true(fabs(at(l, ROWS - 1) - (1 + log(COLS))) < 0.05);
    dl_tensor *index = labels(4, SHAPE(ROWS - 1, 0, -1, 7)), *g = there(index), *rows = must(dl_index_select(x, g, 0));
    assert_true(at(rows, 0) == 1 && at(rows, 1) == 0 && at(rows, 2) == 1 && total(rows) == 2 * COLS);
    dl_unref(s);
    dl_tensor *many = must(dl_tensor_full(1, SHAPE(ROWS + 2), DL_I64, GPU, ROWS - 1)),
              *wide = must(dl_index_select(x, many, 0));
    assert_true(at(wide, ROWS + 1) == 1 && at(wide, 0) == 1);
    dl_tensor *sums = must(dl_cumsum(last, 1)), *column = must(dl_sum(x, SHAPE(0), 1, 0));
    assert_true(total(column) == COLS);
    dl_tensor *t[] = {x, last, one, l, end, index, g, rows, many, wide, sums, column};
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) dl_unref(t[i]);
    ok(dl_device_empty_cache(GPU));
}

/* ---- a second GPU, where there is one: the same bits, copies both ways, and operands that live apart */

static dl_tensor *computed(int device) {
    dl_tensor *hx = drawn(1, 4, SHAPE(8, 16, 20, 20), DL_F32), *hw = drawn(2, 4, SHAPE(32, 16, 3, 3), DL_F32);
    dl_tensor *x = must(dl_to_device(hx, device)), *w = must(dl_to_device(hw, device));
    dl_tensor *y = must(dl_conv2d(x, w, NULL, NULL, 0, NULL, 0, NULL, 0, 1)), *f = must(dl_reshape(y, SHAPE(8, -1), 2));
    dl_tensor *t = must(dl_permute(f, SHAPE(1, 0), 2)), *p = must(dl_matmul(f, t)), *s = must(dl_softmax(p, 1));
    dl_seed(4);
    dl_tensor *d = must(dl_dropout(s, 0.25, 1)), *c = must(dl_cumsum(d, 1));
    dl_tensor *all[] = {hx, hw, x, w, y, f, t, p, s, d};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) dl_unref(all[i]);
    return c;
}

static void two_gpus(void **state) {
    (void)state;
    NEEDS_GPU();
    enum { OTHER = GPU + 1 };
    if (dl_device_count() <= OTHER) {
        print_message("skipped: one GPU\n");
        skip();
    }
    for (int turn = 0; turn < 3; turn++) {
        dl_tensor *a = computed(GPU), *b = computed(OTHER), *turned = must(dl_permute(a, SHAPE(1, 0), 2));
        dl_tensor *over = must(dl_to_device(turned, OTHER)), *back = must(dl_permute(over, SHAPE(1, 0), 2));
        assert_int_equal(dl_device_of(over), OTHER);
        dl_tensor *same_again = must(dl_to_device(back, GPU)), *ha = host(a), *hb = host(b), *hc = host(same_again);
        near(hb, ha, 0, "the other GPU");
        near(hc, ha, 0, "there and back");
        assert_null(dl_add(a, b));
        assert_non_null(strstr(dl_errmsg(), "operands live on different devices, cuda:0 and cuda:1"));
        dl_tensor *t[] = {a, b, turned, over, back, same_again, ha, hb, hc};
        for (unsigned i = 0; i < sizeof t / sizeof *t; i++) dl_unref(t[i]);
    }
}

/* More products than one call of the library counts. */
static void many_products(void **state) {
    (void)state;
    NEEDS_GPU();
    enum { N = (1 << 24) + 5 };
    dl_tensor *a = must(dl_tensor_full(3, SHAPE(N, 1, 2), DL_F32, GPU, 2)),
              *b = must(dl_tensor_full(3, SHAPE(N, 2, 1), DL_F32, GPU, 3)), *end = piece_of(a, N - 1, 1),
              *five = dl_scalar_f(5);
    ok(dl_assign(end, five));
    dl_tensor *c = must(dl_matmul(a, b));
    assert_true(at(c, 0) == 12 && at(c, N - 6) == 12 && at(c, N - 2) == 12 && at(c, N - 1) == 30);
    assert_true(total(c) == 12.0 * (N - 1) + 30 || fabs(total(c) / (12.0 * N) - 1) < 1e-6);
    dl_tensor *t[] = {a, b, end, five, c};
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) dl_unref(t[i]);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),         cmocka_unit_test(optimizers),  cmocka_unit_test(algorithms),
        cmocka_unit_test(heaps),         cmocka_unit_test(faults),      cmocka_unit_test(too_large),
        cmocka_unit_test(no_growth),     cmocka_unit_test(huge_vector), cmocka_unit_test(huge_rows),
        cmocka_unit_test(many_products), cmocka_unit_test(two_gpus),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
