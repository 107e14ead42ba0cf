/* Times of attention on the GPU, forward and with gradients, and the peak of memory above the operands, for
 * bench/gpu_attention.py, which runs this beside PyTorch. Steps are timed with sums in a fixed order and, "_any", in
 * any order, as PyTorch has them. Usage: bench_gpu_attention [part of a name]. */
#include "gpu_measure.h"

typedef struct setting {
    const char *name;
    int dtype;
    long batch, heads, kv_heads, length, size;
    int causal;
    double dropout;
    int lengths, mask; /* sequences of lengths of their own; a mask of bools [N,1,1,S] */
} setting;

static const setting settings[] = {
    {"bf16_b8_h12_t1024_d64_causal", DL_BF16, 8, 12, 12, 1024, 64, 1, 0, 0, 0},
    {"bf16_b8_h12_t1024_d64", DL_BF16, 8, 12, 12, 1024, 64, 0, 0, 0, 0},
    {"f16_b8_h12_t1024_d64_causal", DL_F16, 8, 12, 12, 1024, 64, 1, 0, 0, 0},
    {"bf16_b4_h16_t4096_d128_causal", DL_BF16, 4, 16, 16, 4096, 128, 1, 0, 0, 0},
    {"bf16_b8_h12_kv4_t1024_d64_causal", DL_BF16, 8, 12, 4, 1024, 64, 1, 0, 0, 0},
    {"bf16_b8_h12_t1024_d64_dropout", DL_BF16, 8, 12, 12, 1024, 64, 0, 0.1, 0, 0},
    {"bf16_b8_h12_t1024_d64_lengths", DL_BF16, 8, 12, 12, 1024, 64, 0, 0, 1, 0},
    {"bf16_b8_h12_t1024_d64_mask", DL_BF16, 8, 12, 12, 1024, 64, 0, 0, 0, 1},
    {"f32_b8_h12_t1024_d64_causal", DL_F32, 8, 12, 12, 1024, 64, 1, 0, 0, 0},
    {"bf16_b1_h1_t65536_d64_causal", DL_BF16, 1, 1, 1, 65536, 64, 1, 0, 0, 0},
    {"f32_b1_h1_t65536_d64_causal", DL_F32, 1, 1, 1, 65536, 64, 1, 0, 0, 0},
};

static const setting *now;
static dl_tensor *in[3], *mask, *lengths, *seed;

static dl_tensor *attended(void) {
    return dl_scaled_dot_product_attention(in[0], in[1], in[2], mask, lengths, now->dropout, now->causal, NULL,
                                           now->heads != now->kv_heads);
}

static int forward(const void *arg) {
    (void)arg;
    dl_grad_mode(0);
    dl_tensor *y = attended();
    dl_unref(y);
    return y != NULL;
}

static int step(const void *arg) {
    (void)arg;
    dl_grad_mode(1);
    dl_tensor *y = attended(), *g[3] = {NULL};
    int good = y && dl_gradients(y, seed, in, 3, 0, 0, g) == DL_OK;
    for (int i = 0; i < 3; i++) dl_unref(g[i]);
    dl_unref(y);
    return good;
}

static int make(void) {
    const long q[4] = {now->batch, now->heads, now->length, now->size};
    const long k[4] = {now->batch, now->kv_heads, now->length, now->size}, keys[4] = {now->batch, 1, 1, now->length};
    int good = 1;
    for (int i = 0; i < 3; i++)
        good = good && (in[i] = dl_randn(i ? k : q, 4, now->dtype, GPU)) && dl_set_requires_grad(in[i], 1) == DL_OK;
    good = good && (seed = dl_randn(q, 4, now->dtype, GPU));
    if (good && now->lengths)
        good = (lengths = dl_randint(now->length / 2, now->length + 1, &now->batch, 1, DL_I64, GPU)) != NULL;
    dl_tensor *x = good && now->mask ? dl_rand(keys, 4, DL_F32, GPU) : NULL, *few = dl_scalar_f(0.25);
    if (x) good = (mask = dl_gt(x, few)) != NULL;
    dl_unref(x), dl_unref(few);
    return good;
}

static void drop(void) {
    for (int i = 0; i < 3; i++) dl_unref(in[i]), in[i] = NULL;
    dl_unref(mask), dl_unref(lengths), dl_unref(seed);
    mask = lengths = seed = NULL;
}

static void line(const char *what, int (*run)(const void *)) {
    dl_device_memory before, after;
    dl_device_empty_cache(GPU);
    dl_device_memory_get(GPU, &before);
    double ms = bench_time(run, NULL);
    dl_device_memory_get(GPU, &after);
    if (ms < 0)
        printf("%s_%s\tfailed: %s\n", now->name, what, dl_errmsg());
    else
        printf("%s_%s\t%.4f\t%.1f\tMB at most, of this and all before\n", now->name, what, ms,
               (double)(after.peak - before.used) * 1e-6);
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (!bench_begin()) return 0;
    for (unsigned i = 0; i < sizeof settings / sizeof *settings; i++) {
        now = &settings[i];
        if (argc > 1 && !strstr(now->name, argv[1])) continue;
        if (make()) {
            line("forward", forward);
            line("step", step);
            dl_deterministic_set(0);
            line("step_any", step);
            dl_deterministic_set(1);
        } else {
            printf("%s\tfailed: %s\n", now->name, dl_errmsg());
        }
        drop();
    }
    return 0;
}
