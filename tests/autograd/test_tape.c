/* The tape: accumulation, history through views and in-place writes, errors that name lines, depth, interruption. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "core/scope.h"
#include "core/tensor.h"
#include "dlcore/all.h"

static dl_tensor *vec(const double *v, long n) { return dl_tensor_from(1, &n, DL_F64, 0, v); }

static dl_tensor *leaf(const double *v, long n) {
    dl_tensor *t = vec(v, n);
    assert_int_equal(dl_set_requires_grad(t, 1), DL_OK);
    return t;
}

static void ok(dl_status s) {
    if (s != DL_OK) fail_msg("%s", dl_errmsg());
}

/* backward of sum(t) */
static void back(dl_tensor *t) {
    dl_tensor *s = dl_sum(t, NULL, 0, 0);
    assert_non_null(s);
    ok(dl_backward(s, NULL, 0, 0));
    dl_unref(s);
}

static void expect(const dl_tensor *t, const double *want) {
    assert_non_null(t);
    double got[64];
    ok(dl_read_f64(t, got));
    for (long i = 0; i < dl_numel(t); i++)
        if (fabs(got[i] - want[i]) > 1e-12) fail_msg("element %ld is %g, not %g", i, got[i], want[i]);
}

static void accumulates_in_place(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1, 2, 3}, 3), *y = dl_mul(x, x);
    back(y);
    expect(dl_grad(x), (double[]){2, 4, 6});
    void *memory = dl_data(dl_grad(x));
    dl_tensor *z = dl_exp(x);
    dl_unref(z);
    z = dl_mul(x, x);
    back(z);
    expect(dl_grad(x), (double[]){4, 8, 12});
    assert_ptr_equal(memory, dl_data(dl_grad(x)));
    dl_unref(x), dl_unref(y), dl_unref(z);
}

static void same_input_twice_and_shared_gradients(void **state) {
    (void)state;
    /* add passes one gradient to both inputs: the leaves must not share its memory */
    dl_tensor *x = leaf((double[]){1, 2}, 2), *y = leaf((double[]){3, 4}, 2), *s = dl_add(x, y), *t = dl_add(s, x);
    back(t);
    expect(dl_grad(x), (double[]){2, 2});
    expect(dl_grad(y), (double[]){1, 1});
    assert_ptr_not_equal(dl_data(dl_grad(x)), dl_data(dl_grad(y)));
    dl_unref(x), dl_unref(y), dl_unref(s), dl_unref(t);
}

static void history_is_freed_unless_retained(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1, 2}, 2), *y = dl_mul(x, x), *s = dl_sum(y, NULL, 0, 0);
    ok(dl_backward(s, NULL, 1, 0));
    ok(dl_backward(s, NULL, 0, 0));
    expect(dl_grad(x), (double[]){4, 8});
    assert_int_equal(dl_backward(s, NULL, 0, 0), DL_ERR_AUTOGRAD);
    assert_non_null(strstr(dl_error_last()->hint, "retain=true"));
    expect(dl_grad(x), (double[]){4, 8});
    dl_unref(x), dl_unref(y), dl_unref(s);
}

/* Leaves the inner block and the function while modes hold. */
static dl_tensor *squared_without_history(dl_tensor *x) {
    DL_SCOPED_GRAD_MODE(0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dl_grad_mode_get(), 0);
        DL_SCOPED_GRAD_MODE(1);
        assert_int_equal(dl_grad_mode_get(), 1);
        if (i) break;
    }
    return dl_mul(x, x);
}

static void no_history(void **state) {
    (void)state;
    dl_tensor *c = vec((double[]){1}, 1), *x = leaf((double[]){1, 2}, 2);
    assert_int_equal(dl_backward(c, NULL, 0, 0), DL_ERR_AUTOGRAD);
    dl_tensor *y = squared_without_history(x);
    assert_int_equal(dl_grad_mode_get(), 1);
    assert_false(dl_requires_grad(y));
    dl_tensor *d = dl_detach(x), *z = dl_mul(d, d);
    assert_false(dl_requires_grad(z));
    assert_int_equal(dl_backward(x, NULL, 0, 0), DL_ERR_SHAPE); /* two elements and no seed */
    dl_unref(c), dl_unref(x), dl_unref(y), dl_unref(d), dl_unref(z);
}

static void change_of_a_saved_tensor_names_both_lines(void **state) {
    (void)state;
    dl_source_set("a.dlsh", 7);
    dl_tensor *x = leaf((double[]){1, 2}, 2), *e = dl_exp(x), *y = dl_mul(e, e), *two = dl_scalar_f(2);
    dl_source_set("a.dlsh", 9);
    ok(dl_assign(e, two));
    dl_source_set("a.dlsh", 10);
    dl_tensor *s = dl_sum(y, NULL, 0, 0);
    assert_int_equal(dl_backward(s, NULL, 0, 0), DL_ERR_AUTOGRAD);
    assert_non_null(strstr(dl_errmsg(), "a.dlsh:7"));
    assert_non_null(strstr(dl_errmsg(), "a.dlsh:9"));
    assert_null(dl_grad(x));
    dl_source_set("", 0);
    dl_unref(x), dl_unref(e), dl_unref(y), dl_unref(two), dl_unref(s);
}

static void writing_into_a_view_rebases_the_base(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1, 2, 3, 4}, 4), *v = leaf((double[]){10, 20}, 2), *b = dl_mul(x, x);
    long start = 1, stop = 3;
    dl_tensor *early = dl_select(b, 0, 1), *w = dl_slice(b, 0, &start, &stop, 1);
    ok(dl_assign(w, v)); /* b = [1, 10, 20, 16] */
    dl_tensor *three = dl_scalar_f(3), *y = dl_mul(b, three), *s = dl_sum(y, NULL, 0, 0);
    dl_tensor *again = dl_mul(early, early); /* a view made before sees the write, and its history */
    dl_tensor *total = dl_add(s, again);
    double item;
    ok(dl_item_f(early, &item));
    assert_true(item == 10);
    ok(dl_backward(total, NULL, 0, 0));
    expect(dl_grad(x), (double[]){6, 0, 0, 24});
    expect(dl_grad(v), (double[]){3 + 20, 3});
    dl_unref(x), dl_unref(v), dl_unref(b), dl_unref(early), dl_unref(w);
    dl_unref(three), dl_unref(y), dl_unref(s), dl_unref(again), dl_unref(total);
}

static void writing_into_a_plain_tensor_gives_it_history(void **state) {
    (void)state;
    double zero[6] = {0};
    long shape[] = {2, 3};
    dl_tensor *x = leaf((double[]){1, 2, 3}, 3), *b = dl_tensor_from(2, shape, DL_F64, 0, zero);
    dl_tensor *t = dl_permute(b, (long[]){1, 0}, 2), *col = dl_select(t, 1, 1), *e = dl_exp(x);
    ok(dl_assign(col, e)); /* row 1 of b, through a transposed view */
    back(b);
    expect(dl_grad(x), (double[]){exp(1), exp(2), exp(3)});
    dl_unref(x), dl_unref(b), dl_unref(t), dl_unref(col), dl_unref(e);
}

static void refused_writes(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1, 2}, 2), *one = dl_scalar_f(1), *v = dl_select(x, 0, 0);
    assert_int_equal(dl_assign(x, one), DL_ERR_AUTOGRAD);
    assert_int_equal(dl_assign(v, one), DL_ERR_AUTOGRAD);
    int mode = dl_grad_mode(0);
    ok(dl_assign(x, one));
    dl_grad_mode(mode);
    expect(x, (double[]){1, 1});
    dl_tensor *c = vec((double[]){5}, 1), *wide = dl_expand(c, (long[]){3}, 1);
    assert_int_equal(dl_assign(wide, one), DL_ERR_AUTOGRAD);
    dl_tensor *three = vec((double[]){1, 2, 3}, 3);
    assert_int_equal(dl_assign(c, three), DL_ERR_SHAPE);
    dl_unref(x), dl_unref(one), dl_unref(v), dl_unref(c), dl_unref(wide), dl_unref(three);
}

static void overlapping_copy(void **state) {
    (void)state;
    dl_tensor *x = vec((double[]){1, 2, 3, 4}, 4);
    long one = 1, three = 3;
    dl_tensor *to = dl_slice(x, 0, &one, NULL, 1), *from = dl_slice(x, 0, NULL, &three, 1);
    ok(dl_assign(to, from));
    expect(x, (double[]){1, 1, 2, 3});
    dl_unref(x), dl_unref(to), dl_unref(from);
}

static void second_derivative(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){2}, 1), *three = dl_scalar_i(3), *y = dl_pow(x, three), *g, *h;
    ok(dl_gradients(y, NULL, &x, 1, 0, 1, &g)); /* 3 x^2 */
    expect(g, (double[]){12});
    ok(dl_gradients(g, NULL, &x, 1, 0, 1, &h)); /* 6 x */
    expect(h, (double[]){12});
    assert_null(dl_grad(x));
    dl_unref(x), dl_unref(three), dl_unref(y), dl_unref(g), dl_unref(h);
}

static void deep_history(void **state) {
    (void)state;
    enum { DEPTH = 200000 };
    dl_tensor *x = leaf((double[]){1}, 1), *y = dl_ref(x), *one = dl_scalar_f(1);
    for (int i = 0; i < DEPTH; i++) {
        dl_tensor *next = i % 2 ? dl_tanh(y) : dl_add(y, one);
        dl_unref(y);
        y = next;
    }
    size_t held = dl_host_bytes();
    ok(dl_backward(y, NULL, 1, 0));
    assert_non_null(dl_grad(x));
    dl_unref(y);
    assert_true(dl_host_bytes() < held / 10);
    dl_unref(x), dl_unref(one);
}

static void interruption_leaves_no_trace(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1, 2}, 2), *y = dl_mul(x, x), *s = dl_sum(y, NULL, 0, 0);
    dl_interrupt_set(1);
    assert_int_equal(dl_backward(s, NULL, 1, 0), DL_ERR_INTERRUPT);
    dl_interrupt_set(0);
    assert_null(dl_grad(x));
    ok(dl_backward(s, NULL, 0, 0));
    expect(dl_grad(x), (double[]){2, 4});
    dl_unref(x), dl_unref(y), dl_unref(s);
}

static void promotion_as_in_pytorch(void **state) {
    (void)state;
    struct {
        dl_tensor *a, *b;
        dl_dtype want;
    } rows[] = {
        {dl_tensor_zeros(1, (long[]){2}, DL_F32, 0), dl_scalar_f(2.5), DL_F32},
        {dl_tensor_zeros(1, (long[]){2}, DL_I64, 0), dl_scalar_f(2.5), DL_F32},
        {dl_tensor_zeros(1, (long[]){2}, DL_U8, 0), dl_scalar_i(3), DL_U8},
        {dl_tensor_zeros(1, (long[]){2}, DL_BOOL, 0), dl_scalar_i(3), DL_I64},
        {dl_tensor_zeros(1, (long[]){2}, DL_F32, 0), dl_tensor_zeros(0, NULL, DL_F64, 0), DL_F32},
        {dl_tensor_zeros(1, (long[]){2}, DL_I32, 0), dl_tensor_zeros(0, NULL, DL_F64, 0), DL_F64},
        {dl_tensor_zeros(1, (long[]){2}, DL_F32, 0), dl_tensor_zeros(1, (long[]){2}, DL_F64, 0), DL_F64},
        {dl_tensor_zeros(1, (long[]){2}, DL_F16, 0), dl_tensor_zeros(1, (long[]){2}, DL_BF16, 0), DL_F32},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        dl_tensor *c = dl_add(rows[i].a, rows[i].b);
        if (!c) fail_msg("%s", dl_errmsg());
        assert_int_equal(dl_dtype_of(c), rows[i].want);
        dl_unref(c), dl_unref(rows[i].a), dl_unref(rows[i].b);
    }
}

static void huge_allocation_is_refused(void **state) {
    (void)state;
    long shape[] = {1l << 20, 1l << 20};
    assert_null(dl_tensor_empty(2, shape, DL_F32, 0));
    assert_int_equal(dl_failed(), DL_ERR_MEMORY);
    long over[] = {1l << 32, 1l << 32};
    assert_null(dl_tensor_empty(2, over, DL_F32, 0));
    assert_int_equal(dl_failed(), DL_ERR_SHAPE);
}

/* y = sum((x * w).relu() + x, dim 0) */
static void laid_open(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1, 2}, 2), *w = leaf((double[]){3, -4}, 2);
    dl_tensor_set_name(w, "w");
    dl_source_set("a.dlsh", 7);
    dl_tensor *p = dl_mul(x, w), *r = dl_relu(p), *a = dl_add(r, x), *y = dl_sum(a, (long[]){0}, 1, 0);
    dl_source_set("", 0);
    dl_tape *t = dl_tape_of(y);
    assert_non_null(t);
    assert_int_equal(t->n, 6);
    const char *ops[] = {"sum", "add", "relu", "mul"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(t->nodes[i].op, ops[i]);
        assert_string_equal(t->nodes[i].file, "a.dlsh");
        assert_int_equal(t->nodes[i].line, 7);
        assert_false(t->nodes[i].freed);
    }
    assert_string_equal(t->nodes[0].attrs, "dim=[0]");
    assert_int_equal(t->nodes[0].ndim, 0);
    assert_int_equal(t->nodes[1].shape[0], 2);
    assert_int_equal(t->nodes[1].in[0], 2);
    const dl_tape_node *left = &t->nodes[t->nodes[3].in[0]], *right = &t->nodes[t->nodes[3].in[1]];
    assert_ptr_equal(left->leaf, x);
    assert_ptr_equal(right->leaf, w);
    assert_null(left->op);
    assert_int_equal(t->nodes[1].in[1], t->nodes[3].in[0]); /* x is listed once */
    assert_int_equal(dl_tape_number(p), t->nodes[3].seq);
    assert_int_equal(dl_tape_number(x), 0);
    /* the list outlives its tensors */
    ok(dl_backward(y, NULL, 0, 0));
    dl_unref(y), dl_unref(a), dl_unref(r), dl_unref(p), dl_unref(w);
    assert_string_equal(dl_tensor_name(right->leaf), "w");
    dl_tape_free(t);
    t = dl_tape_of(x);
    assert_int_equal(t->n, 1);
    assert_ptr_equal(t->nodes[0].leaf, x);
    dl_tape_free(t);
    dl_unref(x);
    dl_tensor *plain = vec((double[]){1}, 1);
    assert_null(dl_tape_of(plain));
    assert_int_equal(dl_failed(), DL_ERR_AUTOGRAD);
    dl_error_clear();
    dl_unref(plain);
    dl_tape_free(NULL);
}

/* More ops than the first tables hold, and none is visited twice however many paths lead to it. */
static void laid_open_deep(void **state) {
    (void)state;
    dl_tensor *x = leaf((double[]){1}, 1), *y = dl_ref(x);
    for (int i = 0; i < 3000; i++) {
        dl_tensor *next = dl_add(y, y);
        dl_unref(y);
        y = next;
    }
    dl_tape *t = dl_tape_of(y);
    assert_non_null(t);
    assert_int_equal(t->n, 3001);
    for (int i = 0; i < 3000; i++) assert_int_equal(t->nodes[i].in[1], i + 1);
    dl_tape_free(t);
    dl_unref(y);
    dl_unref(x);
}

/* ---- nothing in a history leads back to itself: without a backward, too, all is freed with the last tensor */

enum { SIDE = 128 }; /* of a matrix whose storage is listed as live */

static int live_storages(void) {
    dl_memory_block b[64];
    return dl_device_memory_largest(0, b, 64);
}

static dl_tensor *matrix(double value, int grad) {
    dl_tensor *t = dl_tensor_full(2, (long[]){SIDE, SIDE}, DL_F64, 0, value);
    assert_non_null(t);
    if (grad) ok(dl_set_requires_grad(t, 1));
    return t;
}

static dl_tensor *row(dl_tensor *t, long i) { return dl_as_strided(t, (long[]){SIDE}, 1, (long[]){1}, 1, i * SIDE); }

/* dst *= by */
static void scale(dl_tensor *dst, dl_tensor *by) {
    dl_tensor *product = dl_mul(dst, by);
    ok(dl_assign(dst, product));
    dl_unref(product);
}

static void in_the_whole(dl_tensor *w) {
    dl_tensor *v = dl_mul(w, w);
    scale(v, w);
    scale(v, v);
    dl_unref(v);
}

static void in_a_view(dl_tensor *w) {
    dl_tensor *v = dl_mul(w, w), *a = row(v, 0), *b = row(v, 1);
    scale(a, b);
    scale(b, a);
    scale(v, v);
    dl_unref(v), dl_unref(a), dl_unref(b);
}

static void after_an_output_was_saved(dl_tensor *w) {
    dl_tensor *v = dl_tanh(w), *y = dl_exp(v);
    scale(v, y);
    dl_unref(v), dl_unref(y);
}

static void in_a_plain_tensor(dl_tensor *w) {
    dl_tensor *x = matrix(1, 0), *y = dl_mul(x, w), *r = row(x, 2), *yr = row(y, 2);
    scale(r, yr);
    scale(x, y);
    dl_unref(x), dl_unref(y), dl_unref(r), dl_unref(yr);
}

static void through_a_detached_one(dl_tensor *w) {
    dl_tensor *v = dl_mul(w, w), *d = dl_detach(v);
    scale(d, w);
    scale(v, d);
    dl_unref(v), dl_unref(d);
}

static void histories_hold_no_ring(void **state) {
    (void)state;
    void (*const ways[])(dl_tensor *) = {in_the_whole, in_a_view, after_an_output_was_saved, in_a_plain_tensor,
                                         through_a_detached_one};
    dl_tensor *w = matrix(0.5, 1);
    int before = live_storages();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        ways[i](w);
        if (live_storages() != before) fail_msg("way %zu keeps %d storages", i, live_storages() - before);
    }
    dl_unref(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(laid_open),
        cmocka_unit_test(laid_open_deep),
        cmocka_unit_test(accumulates_in_place),
        cmocka_unit_test(same_input_twice_and_shared_gradients),
        cmocka_unit_test(history_is_freed_unless_retained),
        cmocka_unit_test(no_history),
        cmocka_unit_test(change_of_a_saved_tensor_names_both_lines),
        cmocka_unit_test(writing_into_a_view_rebases_the_base),
        cmocka_unit_test(writing_into_a_plain_tensor_gives_it_history),
        cmocka_unit_test(refused_writes),
        cmocka_unit_test(histories_hold_no_ring),
        cmocka_unit_test(overlapping_copy),
        cmocka_unit_test(second_derivative),
        cmocka_unit_test(deep_history),
        cmocka_unit_test(interruption_leaves_no_trace),
        cmocka_unit_test(promotion_as_in_pytorch),
        cmocka_unit_test(huge_allocation_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
