/* Layers of averages, normalisation and tables: shapes, names, starting values, text and back, gradients, errors. */
#include "support/tensors.h"
#include "dlcore/elementary.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

static dl_module *net(const char *text) {
    dl_module *m = dl_net_parse(text);
    if (!m) fail_msg("%s", dl_errmsg());
    return m;
}

static void shape_is(dl_tensor *t, int ndim, const long *shape) {
    must(t);
    assert_int_equal(dl_ndim(t), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(dl_shape(t)[i], shape[i]);
}

static void refused(dl_tensor *t, const char *part) {
    assert_null(t);
    if (!strstr(dl_errmsg(), part)) fail_msg("'%s' is not in: %s", part, dl_errmsg());
}

/* Every parameter gets a gradient. */
static void trains(dl_module *m, dl_tensor *y) {
    dl_tensor *sq = must(dl_square(must(y))), *sum = must(dl_sum(sq, NULL, 0, 0));
    ok(dl_backward(sum, NULL, 0, 0));
    dl_module_list *l = dl_module_tensors(m, 1);
    assert_non_null(l);
    for (long i = 0; i < l->n; i++)
        if (!dl_grad(l->entries[i].tensor)) fail_msg("%s has no gradient", l->entries[i].path);
    dl_module_list_free(l);
    dl_unref(sq), dl_unref(sum);
}

static void images(void **state) {
    (void)state;
    dl_module *m = net("conv 4 k=3 pad=1 -> groupnorm 2 -> relu -> avgpool 2 pad=1 -> adaptiveavgpool [3, 2]\n"
                       "pool: adaptiveavgpool -> flatten -> layernorm -> linear 3");
    dl_tensor *x = drawn(1, 4, SHAPE(2, 3, 9, 8), DL_F32), *y = dl_module_forward(m, x);
    shape_is(y, 2, SHAPE(2, 3));
    shape_is(dl_module_tensor(m, "groupnorm0.weight"), 1, SHAPE(4));
    shape_is(dl_module_tensor(m, "layernorm0.bias"), 1, SHAPE(4));
    trains(m, y);
    dl_unref(x), dl_unref(y);
    dl_module_unref(m);
}

static void sizes_named(void **state) {
    (void)state;
    dl_module *m = net("layernorm [3, 4] bias=false");
    dl_tensor *x = drawn(1, 3, SHAPE(2, 3, 4), DL_F32), *y = dl_module_forward(m, x),
              *t = must(dl_permute(x, SHAPE(0, 2, 1), 3));
    shape_is(y, 3, SHAPE(2, 3, 4));
    shape_is(dl_module_tensor(m, "layernorm0.weight"), 2, SHAPE(3, 4));
    assert_null(dl_module_tensor(m, "layernorm0.bias"));
    dl_module *other = net("layernorm 5"), *groups = net("groupnorm 3");
    refused(dl_module_forward(other, x), "the last size is 4, not 5");
    refused(dl_module_forward(groups, t), "4 channels cannot be split into 3 groups");
    assert_null(dl_net_parse("layernorm 0"));
    assert_null(dl_net_parse("adaptiveavgpool 0"));
    assert_null(dl_net_parse("avgpool"));
    dl_unref(x), dl_unref(y), dl_unref(t);
    dl_module_unref(m), dl_module_unref(other), dl_module_unref(groups);
}

static void tables(void **state) {
    (void)state;
    dl_module *m = net("embedding 50 8 padding_idx=2 -> layernorm affine=false -> linear 4");
    dl_tensor *i = must(dl_tensor_from(2, SHAPE(2, 3), DL_I64, 0, (long[]){0, 2, 49, 7, 7, 1})),
              *y = dl_module_forward(m, i);
    shape_is(y, 3, SHAPE(2, 3, 4));
    dl_tensor *w = dl_module_tensor(m, "embedding0.weight");
    shape_is(w, 2, SHAPE(50, 8));
    double *v = values(w), sum = 0, square = 0;
    for (int k = 0; k < 400; k++) sum += v[k], square += v[k] * v[k];
    for (int k = 16; k < 24; k++) assert_true(v[k] == 0);
    assert_true(fabs(sum / 400) < 0.25 && fabs(square / 400 - 1) < 0.3); /* a standard normal start */
    free(v);
    trains(m, y);
    v = values(dl_grad(w));
    for (int k = 16; k < 24; k++) assert_true(v[k] == 0);
    free(v);
    dl_tensor *far = must(dl_tensor_full(1, SHAPE(1), DL_I64, 0, 50));
    refused(dl_module_forward(m, far), "index 50 is out of range");
    assert_null(dl_net_parse("embedding 5 3 padding_idx=5"));
    assert_null(dl_net_parse("embedding 5"));
    assert_null(dl_net_parse("embedding 5 3 init=nowhere"));
    dl_module *small = net("embedding 50 8 padding_idx=2 init=normal");
    dl_unref(must(dl_module_forward(small, i)));
    v = values(dl_module_tensor(small, "embedding0.weight"));
    double largest = 0;
    for (int k = 0; k < 400; k++) largest = fmax(largest, fabs(v[k]));
    assert_true(largest > 0.01 && largest < 0.2 && v[16] == 0); /* deviation 0.02, padding zero */
    free(v);
    dl_unref(i), dl_unref(y), dl_unref(far);
    dl_module_unref(m), dl_module_unref(small);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(images), cmocka_unit_test(sizes_named),
                                       cmocka_unit_test(tables)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
