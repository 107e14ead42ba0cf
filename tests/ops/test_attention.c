/* Attention over several blocks: against attention that stores all scores, at one and two threads, and its memory. */
#include "support/attention.h"

#include <omp.h>

#include "cpu/runtime/iter.h"

static const struct {
    dl_dtype dtype;
    double tolerance;
} kinds[] = {{DL_F64, 1e-13}, {DL_F32, 1e-6}, {DL_BF16, 8e-3}, {DL_F16, 1e-3}};

static void blocks_agree_with_the_whole(void **state) {
    (void)state;
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < ATTENTION_CASES; i++) {
            const attention_case *c = &attention_cases[i];
            dl_tensor *in[6], *got[4], *want[4];
            if (c->dropout > 0) continue;
            attention_operands(c, kinds[k].dtype, in);
            attention_want(c, in, want);
            attention_run(c, in, kinds[k].dtype, 0, 0, got);
            attention_near(c, got, want, kinds[k].tolerance, dl_dtype_name(kinds[k].dtype));
            attention_drop(in, 6), attention_drop(got, 4), attention_drop(want, 4);
        }
}

/* The rule of higher orders reads off the kernel what dropout takes. */
static void rules_agree_about_dropout(void **state) {
    (void)state;
    for (int i = 0; i < ATTENTION_CASES; i++) {
        const attention_case *c = &attention_cases[i];
        dl_tensor *in[6], *fused[4], *whole[4];
        if (c->dropout == 0) continue;
        attention_operands(c, DL_F64, in);
        attention_run(c, in, DL_F64, 0, 0, fused);
        attention_run(c, in, DL_F64, 0, 1, whole);
        attention_near(c, fused, whole, 1e-12, "both rules");
        attention_drop(in, 6), attention_drop(fused, 4), attention_drop(whole, 4);
    }
}

/* Tasks are heads at one thread, and blocks at three. */
static void threads_do_not_matter(void **state) {
    (void)state;
    int had = omp_get_max_threads();
    long grain = dl_cpu_grain(1);
    for (int i = 0; i < ATTENTION_CASES; i++) {
        const attention_case *c = &attention_cases[i];
        dl_tensor *in[6], *one[4], *three[4];
        attention_operands(c, DL_F32, in);
        omp_set_num_threads(1);
        attention_run(c, in, DL_F32, 0, 0, one);
        omp_set_num_threads(3);
        attention_run(c, in, DL_F32, 0, 0, three);
        attention_near(c, three, one, 0, "three threads");
        attention_drop(in, 6), attention_drop(one, 4), attention_drop(three, 4);
    }
    omp_set_num_threads(had);
    dl_cpu_grain(grain);
}

/* Views of one tensor, as nets make them, give what copies give. */
static void views_are_operands(void **state) {
    (void)state;
    dl_tensor *all = drawn(5, 4, SHAPE(2, 140, 3, 32), DL_F32), *view[3], *copy[3];
    for (int i = 0; i < 3; i++) {
        dl_tensor *part = must(dl_select(all, 2, i)), *heads = must(dl_reshape(part, SHAPE(2, 140, 4, 8), 4));
        view[i] = must(dl_permute(heads, SHAPE(0, 2, 1, 3), 4)), copy[i] = must(dl_contiguous(view[i]));
        assert_false(dl_is_contiguous(view[i]));
        dl_unref(part), dl_unref(heads);
    }
    dl_tensor *a = must(dl_attention(view[0], view[1], view[2], NULL, NULL, NULL, 0, 1, 0.3)),
              *b = must(dl_attention(copy[0], copy[1], copy[2], NULL, NULL, NULL, 0, 1, 0.3));
    near(a, b, 1e-6, "views");
    attention_drop(view, 3), attention_drop(copy, 3);
    dl_unref(all), dl_unref(a), dl_unref(b);
}

static long peak_of(long length) {
    dl_tensor *x = leaf(drawn(5, 4, SHAPE(1, 1, length, 8), DL_F32)), *g = NULL;
    dl_device_memory before, after;
    ok(dl_device_memory_get(0, &before));
    dl_tensor *y = must(dl_scaled_dot_product_attention(x, x, x, NULL, NULL, 0, 1, NULL, 0));
    dl_tensor *seed = must(dl_ones(dl_shape(y), 4, DL_F32, 0));
    ok(dl_gradients(y, seed, &x, 1, 0, 0, &g));
    ok(dl_device_memory_get(0, &after));
    dl_unref(x), dl_unref(y), dl_unref(g), dl_unref(seed);
    return after.peak - before.used;
}

/* The first test, since a peak stays. */
static void memory_is_linear(void **state) {
    (void)state;
    long one = peak_of(512), four = peak_of(2048);
    if (four > 5 * one + (4l << 20)) fail_msg("%ld bytes for length 512, %ld for 2048", one, four);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_linear),          cmocka_unit_test(blocks_agree_with_the_whole),
        cmocka_unit_test(rules_agree_about_dropout), cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(views_are_operands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
