/* Convolution on the GPU against the CPU in f64: the shapes of common nets, random ones with groups, dilation and
 * padding, memory orders, empty operands, precision, and choices that are kept between processes. */
#include "cuda/gpu.h"
#include "dlcore/all.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct geometry {
    long N, C, H, W, O, k[2], stride[2], pad[2], dil[2], groups;
} geometry;

static const char *program;

enum { RESULTS = 4 }; /* output; gradients of input, weight and bias */

/* t on a device in another dtype and, with `last`, with its channels innermost. */
static dl_tensor *placed(dl_tensor *t, dl_dtype dtype, int device, bool last) {
    dl_tensor *cast = must(dl_to_dtype(t, dtype)), *there = must(dl_to_device(cast, device));
    dl_unref(cast);
    if (!last) return there;
    dl_tensor *p = must(dl_permute(there, SHAPE(0, 2, 3, 1), 4)), *d = must(dl_contiguous(p));
    dl_tensor *back = must(dl_permute(d, SHAPE(0, 3, 1, 2), 4));
    dl_unref(there), dl_unref(p), dl_unref(d);
    return back;
}

static dl_tensor *host(dl_tensor *t) {
    dl_tensor *d = must(dl_detach(t)), *h = must(dl_to_device(d, 0));
    dl_unref(d);
    return h;
}

/* Output and gradients, on the host. Operands are rounded to `round` first, so that only arithmetic differs. */
static void run(const geometry *c, dl_dtype round, dl_dtype dtype, int device, bool last, dl_tensor *out[RESULTS]) {
    dl_tensor *x = drawn(1, 4, SHAPE(c->N, c->C, c->H, c->W), round), *b = drawn(3, 1, &c->O, round);
    dl_tensor *w = drawn(2, 4, SHAPE(c->O, c->C / c->groups, c->k[0], c->k[1]), round);
    dl_tensor *in[] = {leaf(placed(x, dtype, device, last)), leaf(placed(w, dtype, device, false)),
                       leaf(placed(b, dtype, device, false))};
    dl_tensor *y = must(dl_conv2d(in[0], in[1], in[2], c->stride, 2, c->pad, 2, c->dil, 2, c->groups)), *grad[3];
    dl_tensor *g = drawn(4, 4, dl_shape(y), round), *seed = placed(g, dtype, device, last);
    gradients(y, seed, in, 3, 0, grad);
    out[0] = host(y);
    for (int i = 0; i < 3; i++) out[i + 1] = host(grad[i]), dl_unref(grad[i]), dl_unref(in[i]);
    dl_unref(x), dl_unref(w), dl_unref(b), dl_unref(y), dl_unref(g), dl_unref(seed);
}

static void drop(dl_tensor *t[RESULTS]) {
    for (int i = 0; i < RESULTS; i++) dl_unref(t[i]);
}

/* Numbers that are added up for one element of each result. */
static void terms(const geometry *c, dl_tensor *const out[RESULTS], double n[RESULTS]) {
    double taps = (double)(c->k[0] * c->k[1]), pixels = (double)(dl_shape(out[0])[2] * dl_shape(out[0])[3]);
    n[0] = taps * (double)(c->C / c->groups), n[1] = taps * (double)(c->O / c->groups);
    n[2] = n[3] = pixels * (double)c->N;
}

/* The largest error allowed, relative, for a sum of n terms. */
static double allowed(dl_dtype t, double n) {
    if (t == DL_F64) return 1e-13;
    if (t == DL_BF16) return 1e-2;
    if (t == DL_F16) return 2e-3;
    return fmax(3e-7, 3e-8 * sqrt(n));
}

static void agree(const geometry *c, dl_dtype t, bool last, bool show) {
    static const char *const names[RESULTS] = {"output", "dx", "dw", "db"};
    dl_tensor *want[RESULTS], *got[RESULTS];
    double n[RESULTS], d[RESULTS];
    char what[200];
    run(c, t, DL_F64, 0, false, want);
    run(c, t, t, GPU, last, got);
    terms(c, want, n);
    for (int i = 0; i < RESULTS; i++) {
        snprintf(what, sizeof what,
                 "%s of %s [%ld,%ld,%ld,%ld] * [%ld,.,%ld,%ld] stride %ld pad %ld dil %ld groups %ld%s", names[i],
                 dl_dtype_name(t), c->N, c->C, c->H, c->W, c->O, c->k[0], c->k[1], c->stride[0], c->pad[0], c->dil[0],
                 c->groups, last ? " last" : "");
        near(got[i], want[i], allowed(t, n[i]), what);
        d[i] = distance(got[i], want[i]);
    }
    if (show)
        print_message("k%ld s%ld p%ld%s: errors against f64 %.3g, dx %.3g, dw %.3g\n", c->k[0], c->stride[0], c->pad[0],
                      last ? " last" : "", d[0], d[1], d[2]);
    drop(want), drop(got);
}

static void six_of_common_nets(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long kinds[6][3] = {{3, 1, 0}, {3, 1, 1}, {3, 2, 1}, {1, 1, 0}, {1, 2, 0}, {7, 2, 3}};
    for (int i = 0; i < 6; i++)
        for (int last = 0; last < 2; last++) {
            long k = kinds[i][0], s = kinds[i][1], p = kinds[i][2];
            agree(&(geometry){8, 64, 28, 28, 64, {k, k}, {s, s}, {p, p}, {1, 1}, 1}, DL_F32, last, true);
        }
}

static void random_shapes(void **state) {
    (void)state;
    NEEDS_GPU();
    uint32_t s = 7;
#define DRAW(n) ((long)((s = s * 1664525u + 1013904223u) >> 8) % (n))
    for (int i = 0; i < 48; i++) {
        static const dl_dtype types[] = {DL_F32, DL_F64, DL_F32, DL_BF16, DL_F32, DL_F16};
        geometry c = {.N = 1 + DRAW(5), .groups = 1};
        c.k[0] = 1 + DRAW(4), c.k[1] = 1 + DRAW(4), c.C = 1 + DRAW(9), c.O = 1 + DRAW(9);
        if (DRAW(3) == 0) c.groups = 1 + DRAW(4), c.C *= c.groups, c.O *= c.groups;
        if (DRAW(8) == 0) c.groups = c.C, c.O = c.C;
        for (int d = 0; d < 2; d++) c.stride[d] = 1 + DRAW(3), c.pad[d] = DRAW(4), c.dil[d] = 1 + DRAW(2);
        c.H = c.dil[0] * (c.k[0] - 1) + 1 + DRAW(9), c.W = c.dil[1] * (c.k[1] - 1) + 1 + DRAW(9);
        agree(&c, types[i % 6], DRAW(2), false);
    }
}

/* A grouped and a strided one that is large enough for every way to be tried. */
static void larger_shapes(void **state) {
    (void)state;
    NEEDS_GPU();
    static const geometry cases[] = {{8, 32, 31, 29, 64, {3, 3}, {2, 1}, {1, 2}, {1, 2}, 4},
                                     {8, 48, 24, 24, 48, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 48},
                                     {16, 3, 64, 64, 32, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1},
                                     {4, 96, 19, 19, 40, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int last = 0; last < 2; last++) {
            agree(&cases[i], DL_F32, last, false);
            agree(&cases[i], DL_BF16, last, false);
        }
    agree(&cases[0], DL_F64, false, false);
    agree(&cases[0], DL_F16, true, false);
}

static void empty_operands(void **state) {
    (void)state;
    NEEDS_GPU();
    dl_tensor *bias = must(dl_tensor_full(1, SHAPE(3), DL_F32, GPU, 2));
    const long shapes[][4] = {{0, 2, 5, 5}, {2, 0, 5, 5}};
    for (int i = 0; i < 2; i++) {
        dl_tensor *x = leaf(must(dl_tensor_zeros(4, shapes[i], DL_F32, GPU))), *grad[2];
        dl_tensor *w = leaf(must(dl_tensor_full(4, SHAPE(3, shapes[i][1], 3, 3), DL_F32, GPU, 1)));
        dl_tensor *y = must(dl_conv2d(x, w, bias, NULL, 0, SHAPE(1), 1, NULL, 0, 1));
        dl_tensor *seed = must(dl_tensor_full(4, dl_shape(y), DL_F32, GPU, 1)), *in[] = {x, w};
        gradients(y, seed, in, 2, 0, grad);
        double *v = values(y), *dw = values(grad[1]);
        for (long k = 0; k < dl_numel(y); k++) assert_true(v[k] == 2);
        for (long k = 0; k < dl_numel(w); k++) assert_true(dw[k] == 0);
        free(v), free(dw);
        dl_unref(x), dl_unref(w), dl_unref(y), dl_unref(seed), dl_unref(grad[0]), dl_unref(grad[1]);
    }
    dl_unref(bias);
}

/* tf32 may be less exact than f32, and only while it is asked for; bits repeat. */
static void precision(void **state) {
    (void)state;
    NEEDS_GPU();
    const geometry c = {8, 64, 28, 28, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
    dl_tensor *exact[RESULTS], *rounded[RESULTS], *again[RESULTS], *after[RESULTS];
    run(&c, DL_F32, DL_F64, 0, false, exact);
    ok(dl_precision_set(DL_PRECISION_TF32));
    run(&c, DL_F32, DL_F32, GPU, false, rounded);
    run(&c, DL_F32, DL_F32, GPU, false, again);
    ok(dl_precision_set(DL_PRECISION_F32));
    run(&c, DL_F32, DL_F32, GPU, false, after);
    for (int i = 0; i < 3; i++) { /* the way that was measured as the fastest may be one in f32 */
        near(rounded[i], exact[i], 2e-3, "in tf32");
        near(rounded[i], again[i], 0, "the second run");
        near(after[i], exact[i], 1e-5, "in f32 again");
    }
    drop(exact), drop(rounded), drop(again), drop(after);
}

static dl_tensor *last_image(dl_tensor *t) {
    long n = dl_shape(t)[0], from = n - 1;
    return must(dl_slice(t, 0, &from, &n, 1));
}

/* More than 2^31 elements run in parts: the last image must come out as it does alone, and every image counts in the
 * gradient of the weight. */
static void large_batches(void **state) {
    (void)state;
    NEEDS_GPU();
    const long n = 33000, one_image[4] = {1, 1, 256, 256};
    dl_tensor *x = must(dl_tensor_full(4, SHAPE(n, 1, 256, 256), DL_BF16, GPU, 1)), *end = last_image(x);
    dl_tensor *image = drawn(1, 4, one_image, DL_BF16), *there = must(dl_to_device(image, GPU));
    dl_tensor *w = drawn(2, 4, SHAPE(1, 1, 3, 3), DL_BF16), *wg = must(dl_to_device(w, GPU));
    ok(dl_assign(end, there));
    dl_grad_mode(0);
    dl_tensor *y = must(dl_conv2d(x, wg, NULL, NULL, 0, SHAPE(1), 1, NULL, 0, 1));
    dl_tensor *alone = must(dl_conv2d(there, wg, NULL, NULL, 0, SHAPE(1), 1, NULL, 0, 1)), *tail = last_image(y);
    dl_tensor *a = host(tail), *b = host(alone);
    near(a, b, 1e-2, "the last of many images");
    dl_tensor *dw = must(dl_conv2d_dw(x, x, SHAPE(3, 3), 2, NULL, 0, SHAPE(1), 1, NULL, 0, 1)), *counted = host(dw);
    double *v = values(counted), want = (double)(n - 1) * 255 * 255;
    assert_true(fabs(v[0] / want - 1) < 0.01);
    free(v);
    dl_grad_mode(1);
    dl_unref(x), dl_unref(end), dl_unref(image), dl_unref(there), dl_unref(w), dl_unref(wg), dl_unref(y),
        dl_unref(alone);
    dl_unref(tail), dl_unref(a), dl_unref(b), dl_unref(dw), dl_unref(counted);
}

/* The gradients of a convolution of x and w from g, with its result, in out; they are not recorded. */
static void three(dl_tensor *x, dl_tensor *w, dl_tensor *g, long pad, long groups, dl_tensor *out[3]) {
    const long *s = dl_shape(x), *k = dl_shape(w);
    out[0] = must(dl_conv2d(x, w, NULL, NULL, 0, &pad, 1, NULL, 0, groups));
    out[1] = must(dl_conv2d_dx(g, w, &s[2], 2, NULL, 0, &pad, 1, NULL, 0, groups));
    out[2] = must(dl_conv2d_dw(g, x, &k[2], 2, NULL, 0, &pad, 1, NULL, 0, groups));
}

static dl_tensor *part(dl_tensor *t, int dim, long from, long to) {
    dl_tensor *v = must(dl_slice(t, dim, &from, &to, 1)), *d = must(dl_contiguous(v));
    dl_unref(v);
    return d;
}

/* An image of more than 2^31 elements against the same in parts: rows of the image, whose results do not touch with
 * kernels of 1, and for kernels of 3 groups of channels. */
static void large_images(void **state) {
    (void)state;
    NEEDS_GPU();
    const long side = 8192;
    dl_grad_mode(0);
    for (int kind = 0; kind < 2; kind++) {
        const long channels = kind ? 36 : 34, results = kind ? 36 : 3, groups = kind ? 2 : 1, k = kind ? 3 : 1;
        dl_tensor *x = must(dl_randn(SHAPE(1, channels, side, side), 4, DL_BF16, GPU));
        dl_tensor *w = must(dl_randn(SHAPE(results, channels / groups, k, k), 4, DL_BF16, GPU));
        dl_tensor *g = must(dl_randn(SHAPE(1, results, side, side), 4, DL_BF16, GPU)), *all[3], *sum = NULL;
        three(x, w, g, kind, groups, all);
        for (int half = 0; half < 2; half++) {
            int dim = kind ? 1 : 2;
            long n = dl_shape(x)[dim] / 2, m = dl_shape(g)[dim] / 2, o = results / 2;
            dl_tensor *px = part(x, dim, half * n, half * n + n), *pg = part(g, dim, half * m, half * m + m);
            dl_tensor *pw = kind ? part(w, 0, half * o, half * o + o) : dl_ref(w), *few[3];
            three(px, pw, pg, kind, 1, few);
            for (int i = 0; i < 2; i++) {
                long size = i ? n : m;
                dl_tensor *a = part(all[i], dim, half * size, half * size + size), *off = must(dl_sub(a, few[i]));
                dl_tensor *d = must(dl_norm(off, NULL, 0, 0, 2)), *whole = must(dl_norm(few[i], NULL, 0, 0, 2));
                double v = 0, of = 0;
                ok(dl_item_f(d, &v)), ok(dl_item_f(whole, &of));
                if (!(v <= 1e-2 * of)) fail_msg("kind %d, half %d, result %d: off by %g of %g", kind, half, i, v, of);
                dl_unref(a), dl_unref(off), dl_unref(d), dl_unref(whole);
            }
            dl_tensor *own = kind ? part(all[2], 0, half * o, half * o + o) : NULL;
            if (own) {
                dl_tensor *a = host(own), *b = host(few[2]);
                near(a, b, 1e-2, "a gradient of weights of a group");
                dl_unref(a), dl_unref(b);
            } else {
                dl_tensor *next = sum ? must(dl_add(sum, few[2])) : dl_ref(few[2]);
                dl_unref(sum);
                sum = next;
            }
            for (int i = 0; i < 3; i++) dl_unref(few[i]);
            dl_unref(px), dl_unref(pg), dl_unref(pw), dl_unref(own);
        }
        dl_tensor *a = sum ? host(all[2]) : NULL, *b = sum ? host(sum) : NULL;
        if (sum) near(a, b, 1e-2, "a gradient of weights");
        dl_unref(a), dl_unref(b), dl_unref(sum), dl_unref(x), dl_unref(w), dl_unref(g);
        for (int i = 0; i < 3; i++) dl_unref(all[i]);
        ok(dl_device_empty_cache(GPU));
    }
    dl_grad_mode(1);
}

/* ---- choices outlive the process: a child prints the bits of its results */

static int child(void) {
    const geometry c = {8, 40, 20, 20, 56, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
    dl_tensor *out[RESULTS];
    uint64_t h = 1469598103934665603u;
    run(&c, DL_F32, DL_F32, GPU, false, out);
    for (int i = 0; i < RESULTS; i++)
        for (long k = 0; k < dl_numel(out[i]) * 4; k++)
            h = (h ^ ((const unsigned char *)dl_data(out[i]))[k]) * 1099511628211u;
    printf("%016lx\n", (unsigned long)h);
    drop(out);
    return 0;
}

static void run_child(const char *cache, char *line, size_t size) {
    char command[600];
    snprintf(command, sizeof command, "XDG_CACHE_HOME=%s %s child", cache, program);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(line, (int)size, p));
    assert_int_equal(pclose(p), 0);
}

static long lines(const char *command) {
    FILE *p = popen(command, "r");
    long n = -1;
    assert_non_null(p);
    assert_int_equal(fscanf(p, "%ld", &n), 1);
    pclose(p);
    return n;
}

static void choices_are_stored(void **state) {
    (void)state;
    NEEDS_GPU();
    char cache[] = "/tmp/dlsh-plans-XXXXXX", a[64], b[64], count[200], spoil[200], clean[200];
    assert_non_null(mkdtemp(cache));
    snprintf(count, sizeof count, "cat %s/dlsh/plans/* | wc -l", cache);
    run_child(cache, a, sizeof a);
    long n = lines(count);
    assert_true(n >= 3);
    run_child(cache, b, sizeof b);
    assert_string_equal(a, b);
    assert_int_equal(lines(count), n); /* nothing was measured again */
    snprintf(spoil, sizeof spoil, "for f in %s/dlsh/plans/*; do printf 'x\\0y\\t\\t' >$f; done", cache);
    assert_int_equal(system(spoil), 0);
    run_child(cache, b, sizeof b);
    assert_true(lines(count) >= n - 1); /* measured again */
    snprintf(clean, sizeof clean, "rm -r %s", cache);
    assert_int_equal(system(clean), 0);
}

/* ---- a choice made where there was no memory for some of the ways is not kept */

/* Takes the memory of the GPU but for about so many bytes; until the process ends. */
static void take_all_but(long left) {
    dl_device_memory m;
    for (long piece = 8L << 30; piece > left / 16; piece /= 2)
        while (dl_device_memory_get(GPU, &m) == DL_OK && m.available > left + piece)
            if (!dl_tensor_empty(1, &piece, DL_U8, GPU)) break;
    dl_error_clear();
}

/* The convolution runs, but not its check in f64. */
static int scarce(void) {
    dl_tensor *x = must(dl_tensor_full(4, SHAPE(64, 64, 112, 112), DL_F32, GPU, 1)), *y = NULL;
    dl_tensor *w = must(dl_tensor_full(4, SHAPE(64, 64, 3, 3), DL_F32, GPU, 0.5)), *s = NULL;
    double total = 0;
    take_all_but(700L << 20);
    y = dl_conv2d(x, w, NULL, NULL, 0, NULL, 0, NULL, 0, 1);
    s = y ? dl_sum(y, NULL, 0, 0) : NULL;
    if (!s || dl_item_f(s, &total) != DL_OK) fprintf(stderr, "%s\n", dl_errmsg());
    return total == 64.0 * 64 * 110 * 110 * 288 ? 0 : 1;
}

static void scarce_memory(void **state) {
    (void)state;
    NEEDS_GPU();
    char cache[] = "/tmp/dlsh-scarce-XXXXXX", command[600], count[200];
    assert_non_null(mkdtemp(cache));
    ok(dl_device_empty_cache(GPU));
    snprintf(command, sizeof command, "XDG_CACHE_HOME=%s %s scarce", cache, program);
    assert_int_equal(system(command), 0);
    snprintf(count, sizeof count, "cat %s/dlsh/plans/* 2>/dev/null | grep -c '^conv'", cache);
    assert_int_equal(lines(count), 0);
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(system(command), 0);
}

/* ---- plain sums for every shape that has them: the plan store records them as the fastest way */

static void summed(void **state) {
    (void)state;
    static const geometry cases[] = {
        {3, 1, 13, 11, 16, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, {2, 2, 9, 70, 17, {3, 3}, {1, 1}, {0, 2}, {1, 1}, 1},
        {2, 3, 17, 14, 33, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 1}, {3, 3, 32, 32, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        {5, 21, 8, 12, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, {40, 32, 16, 16, 64, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1},
        {2, 4, 11, 9, 7, {5, 5}, {1, 1}, {2, 2}, {1, 1}, 1},   {2, 3, 20, 15, 18, {5, 5}, {2, 2}, {0, 1}, {1, 1}, 1},
        {2, 3, 24, 23, 20, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 1}, {1, 2, 12, 10, 3, {7, 7}, {1, 1}, {3, 2}, {1, 1}, 1},
        {3, 9, 7, 5, 70, {3, 3}, {1, 1}, {2, 1}, {1, 1}, 1},   {2, 65, 8, 12, 33, {3, 3}, {1, 1}, {1, 0}, {1, 1}, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) agree(&cases[i], DL_F32, false, false);
    for (long channels = 3; channels < 9; channels += channels < 6 ? 3 : 2)
        agree(&(geometry){2, channels, 7, 10, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1}, DL_F32, false, false);
}

/* Result and gradients of image and weight, of what lies inside the image alone. */
static void direct(const geometry *c, const double *x, const double *w, const double *g, double *y, double *dx,
                   double *dw) {
    long rows = c->H + 2 * c->pad[0] - c->k[0] + 1, cols = c->W + 2 * c->pad[1] - c->k[1] + 1;
    for (long i = 0; i < c->N * c->O * rows * cols * c->C * c->k[0] * c->k[1]; i++) {
        long b = i % c->k[1], a = i / c->k[1] % c->k[0], in = i / c->k[1] / c->k[0] % c->C;
        long to = i / c->k[1] / c->k[0] / c->C, col = to % cols, row = to / cols % rows, o = to / cols / rows % c->O;
        long h = row + a - c->pad[0], v = col + b - c->pad[1], n = to / cols / rows / c->O;
        if (h < 0 || h >= c->H || v < 0 || v >= c->W) continue;
        long from = ((n * c->C + in) * c->H + h) * c->W + v, tap = ((o * c->C + in) * c->k[0] + a) * c->k[1] + b;
        y[to] += x[from] * w[tap], dx[from] += g[to] * w[tap], dw[tap] += g[to] * x[from];
    }
}

static void alike(const dl_tensor *got, const double *want, const char *what, int which) {
    double *v = values(got);
    for (long i = 0; i < dl_numel(got); i++) {
        bool good = isfinite(want[i]) ? fabs(v[i] - want[i]) < 1e-3 : isnan(want[i]) ? isnan(v[i]) : v[i] == want[i];
        if (!good) fail_msg("%s by sums %d: element %ld is %g, not %g", what, which, i, v[i], want[i]);
    }
    free(v);
}

/* The project's own kernels; bands compute gradients of weights alone. */
static const char *const ways[] = {"strips", "bands", "winograd"};
enum { STRIPS, BANDS, WINOGRAD, WAYS };

/* Infinities at the edge of image, weight and gradient, which meet zeros of the padding; `told`: by which way. */
static int told = -1;
static void odd_edges(void **state) {
    (void)state;
    for (int k = 0; k < 3 && told >= 0; k++) {
        static const long channels[WAYS] = {[STRIPS] = 3, [BANDS] = 6, [WINOGRAD] = 8};
        geometry c = {2, channels[told], 7, 10, 9, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 1};
        dl_tensor *t[3] = {drawn(1, 4, SHAPE(c.N, c.C, c.H, c.W), DL_F32), drawn(2, 4, SHAPE(c.O, c.C, 3, 3), DL_F32),
                           drawn(3, 4, SHAPE(c.N, c.O, c.H, c.W), DL_F32)};
        ((float *)dl_data(t[k]))[k == 1 ? 0 : c.H * c.W - 1] = INFINITY;
        ((float *)dl_data(t[k]))[dl_numel(t[k]) - 1] = -INFINITY;
        dl_tensor *x = leaf(must(dl_to_device(t[0], GPU))), *w = leaf(must(dl_to_device(t[1], GPU)));
        dl_tensor *seed = must(dl_to_device(t[2], GPU)),
                  *y = must(dl_conv2d(x, w, NULL, NULL, 0, c.pad, 2, NULL, 0, 1));
        dl_tensor *in[2] = {x, w}, *grad[2] = {0}, *out[3];
        gradients(y, seed, in, 2, 0, grad);
        out[0] = host(y), out[1] = host(grad[0]), out[2] = host(grad[1]);
        double *v[6];
        for (int i = 0; i < 3; i++)
            v[i] = values(t[i]), v[3 + i] = calloc((size_t)dl_numel(out[i]), sizeof(double)), assert_non_null(v[3 + i]);
        direct(&c, v[0], v[1], v[2], v[3], v[4], v[5]);
        if (told != BANDS) alike(out[0], v[3], "a result", told), alike(out[1], v[4], "a gradient of the image", told);
        alike(out[2], v[5], "a gradient of weights", told);
        for (int i = 0; i < 3; i++) dl_unref(t[i]), dl_unref(out[i]), free(v[i]), free(v[3 + i]);
        dl_unref(x), dl_unref(w), dl_unref(seed), dl_unref(y), dl_unref(grad[0]), dl_unref(grad[1]);
    }
}

/* A line of the store is key, value and the check sum of both, see libcore/cuda/runtime/plans.c. Returns how many were
 * told. */
static int tell_sums(const char *cache, int which) {
    char name[400], fresh[420], line[1000];
    int n = 0;
    snprintf(line, sizeof line, "ls %s/dlsh/plans/*", cache);
    FILE *list = popen(line, "r");
    assert_non_null(list);
    assert_non_null(fgets(name, sizeof name, list));
    assert_int_equal(pclose(list), 0);
    name[strcspn(name, "\n")] = 0;
    snprintf(fresh, sizeof fresh, "%s.new", name);
    FILE *from = fopen(name, "r"), *to = fopen(fresh, "w");
    assert_non_null(from), assert_non_null(to);
    while (fgets(line, sizeof line, from)) {
        char *value = strchr(line, '\t');
        if (strncmp(line, "conv ", 5) || !value) continue;
        snprintf(value, sizeof line - (size_t)(value - line), "\tsums %s", ways[which]);
        n += fprintf(to, "%s\t%08x\n", line, (unsigned)dl_hash(line, (long)strlen(line))) > 0;
    }
    fclose(from), fclose(to);
    assert_int_equal(rename(fresh, name), 0);
    return n;
}

static void sums_agree(void **state) {
    (void)state;
    NEEDS_GPU();
    char cache[] = "/tmp/dlsh-sums-XXXXXX", command[600];
    assert_non_null(mkdtemp(cache));
    for (int way = -1; way < WAYS; way++) {
        if (way >= 0) assert_true(tell_sums(cache, way) > 30);
        snprintf(command, sizeof command, "XDG_CACHE_HOME=%s %s sums %d", cache, program, way);
        assert_int_equal(system(command), 0);
    }
    snprintf(command, sizeof command, "rm -r %s", cache);
    assert_int_equal(system(command), 0);
}

int main(int argc, char **argv) {
    program = argv[0];
    if (argc > 1 && !strcmp(argv[1], "sums")) {
        const struct CMUnitTest each[] = {cmocka_unit_test(summed), cmocka_unit_test(odd_edges)};
        if (argc > 2) told = atoi(argv[2]);
        return cmocka_run_group_tests(each, NULL, NULL);
    }
    if (argc > 1 && !strcmp(argv[1], "child")) return child();
    if (argc > 1 && !strcmp(argv[1], "scarce")) return scarce();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_of_common_nets), cmocka_unit_test(random_shapes),      cmocka_unit_test(larger_shapes),
        cmocka_unit_test(empty_operands),     cmocka_unit_test(precision),          cmocka_unit_test(large_batches),
        cmocka_unit_test(large_images),       cmocka_unit_test(choices_are_stored), cmocka_unit_test(scarce_memory),
        cmocka_unit_test(sums_agree),
    };
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
