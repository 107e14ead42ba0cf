/* Attention on the GPU: against attention that stores all scores, on the CPU in f64; with dropout against the rule that
 * reads off the kernel what was left out, and in f32 against the CPU; and lengths whose scores would not fit. */
#include "cuda/gpu.h"

#include "support/attention.h"

#include "core/device/device.h"

/* f32 by blocks has the errors of products of matrices; cuDNN rounds weights to 16 bits before they are summed. */
static const struct {
    dl_dtype dtype;
    double tolerance;
} kinds[] = {{DL_F64, 1e-13}, {DL_F32, 3e-6}, {DL_BF16, 1.5e-2}, {DL_F16, 2e-3}};

static void agrees_with_the_whole(void **state) {
    (void)state;
    NEEDS_GPU();
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < ATTENTION_CASES; i++) {
            const attention_case *c = &attention_cases[i];
            dl_tensor *in[6], *got[4], *want[4];
            if (c->dropout > 0) continue;
            attention_operands(c, kinds[k].dtype, in);
            attention_want(c, in, want);
            attention_run(c, in, kinds[k].dtype, GPU, 0, got);
            attention_near(c, got, want, kinds[k].tolerance, dl_dtype_name(kinds[k].dtype));
            attention_drop(in, 6), attention_drop(got, 4), attention_drop(want, 4);
        }
}

static void rules_agree_about_dropout(void **state) {
    (void)state;
    NEEDS_GPU();
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < ATTENTION_CASES; i++) {
            const attention_case *c = &attention_cases[i];
            dl_tensor *in[6], *fused[4], *whole[4];
            if (c->dropout == 0) continue;
            attention_operands(c, kinds[k].dtype, in);
            attention_run(c, in, kinds[k].dtype, GPU, 0, fused);
            attention_run(c, in, kinds[k].dtype, GPU, 1, whole);
            attention_near(c, fused, whole, 2 * kinds[k].tolerance, "both rules");
            attention_drop(in, 6), attention_drop(fused, 4), attention_drop(whole, 4);
        }
}

static void dropout_is_that_of_the_cpu(void **state) {
    (void)state;
    NEEDS_GPU();
    for (int i = 0; i < ATTENTION_CASES; i++) {
        const attention_case *c = &attention_cases[i];
        dl_tensor *in[6], *there[4], *here[4];
        if (c->dropout == 0) continue;
        attention_operands(c, DL_F32, in);
        attention_run(c, in, DL_F32, GPU, 0, there);
        attention_run(c, in, DL_F32, 0, 0, here);
        attention_near(c, there, here, 3e-6, "dropout in f32");
        attention_drop(in, 6), attention_drop(there, 4), attention_drop(here, 4);
    }
}

/* Twice the same, unless that is switched off. */
static void gradients_repeat(void **state) {
    (void)state;
    NEEDS_GPU();
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < ATTENTION_CASES; i++) {
            const attention_case *c = &attention_cases[i];
            dl_tensor *in[6], *one[4], *two[4];
            attention_operands(c, kinds[k].dtype, in);
            attention_run(c, in, kinds[k].dtype, GPU, 0, one);
            attention_run(c, in, kinds[k].dtype, GPU, 0, two);
            attention_near(c, two, one, 0, "twice");
            attention_drop(in, 6), attention_drop(one, 4), attention_drop(two, 4);
        }
}

/* Sums in any order are as near to those of the CPU. */
static void any_order_agrees(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_deterministic_set(0);
    agrees_with_the_whole(state);
    dl_deterministic_set(1);
}

/* The share of kept weights, read off equal weights of values 1. */
static void dropout_takes_its_share(void **state) {
    (void)state;
    NEEDS_GPU();
    long shape[] = {2, 4, 512, 64};
    dl_tensor *q = must(dl_zeros(shape, 4, DL_BF16, GPU)), *v = must(dl_ones(shape, 4, DL_BF16, GPU));
    dl_tensor *y = must(dl_scaled_dot_product_attention(q, q, v, NULL, NULL, 0.25, 0, NULL, 0));
    dl_tensor *mean = must(dl_mean(y, NULL, 0, 0)), *host = must(dl_to_device(mean, 0));
    double got;
    ok(dl_read_f64(host, &got));
    if (fabs(got - 1) > 0.01) fail_msg("weights of mean %g are kept, where 1 was expected", got);
    dl_unref(q), dl_unref(v), dl_unref(y), dl_unref(mean), dl_unref(host);
}

/* All scores of one head would take 8 and 16 GiB. */
static void long_sequences_run(void **state) {
    (void)state;
    NEEDS_GPU();
    static const dl_dtype dtypes[] = {DL_BF16, DL_F32};
    for (int i = 0; i < 2; i++) {
        long shape[] = {1, 1, 65536, 64};
        dl_tensor *x = leaf(must(dl_randn(shape, 4, dtypes[i], GPU))), *g = NULL;
        dl_device_memory before, after;
        ok(dl_device_memory_get(GPU, &before));
        dl_tensor *y = must(dl_scaled_dot_product_attention(x, x, x, NULL, NULL, 0, 1, NULL, 0));
        dl_tensor *seed = must(dl_ones(shape, 4, dtypes[i], GPU));
        ok(dl_gradients(y, seed, &x, 1, 0, 0, &g));
        ok(dl_device_memory_get(GPU, &after));
        if (after.peak - before.used > 1l << 30) fail_msg("%ld bytes", after.peak - before.used);
        dl_unref(x), dl_unref(y), dl_unref(seed), dl_unref(g);
    }
}

/* Given the name of a test, that one alone. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sequences_run),        cmocka_unit_test(agrees_with_the_whole),
        cmocka_unit_test(rules_agree_about_dropout), cmocka_unit_test(dropout_is_that_of_the_cpu),
        cmocka_unit_test(dropout_takes_its_share),   cmocka_unit_test(gradients_repeat),
        cmocka_unit_test(any_order_agrees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
