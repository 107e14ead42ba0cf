/* Running sums, sums by index, gather, pooling, norms of rows and drawn numbers on the GPU at sizes where their
 * kernels take other paths: packs and odd sizes, chains of tiles, runs of chunks, channels last. Against the CPU in f64
 * from the same, already rounded inputs; what sums keeps its bits. */
#include "cuda/gpu.h"
#include "dlcore/all.h"

enum { MOST_IN = 3 };
enum { PLAIN, SHIFTED, LAST };

typedef dl_tensor *function(dl_tensor **in, const long *a);

typedef struct trial {
    const char *name;
    function *f;
    const long *a;
    int nin, leaves; /* inputs, and how many of the first ones are floating */
    dl_tensor *in[MOST_IN];
} trial;

/* x on the GPU: off a boundary, or with channels last. */
static dl_tensor *laid_out(dl_tensor *x, int layout) {
    dl_tensor *there = must(dl_to_device(x, GPU)), *out = there;
    const long *s = dl_shape(x), one = 1, more = dl_numel(x) + 1;
    if (layout == LAST && dl_ndim(x) == 4) {
        out = must(dl_restride(there, SHAPE(s[1] * s[2] * s[3], 1, s[1] * s[3], s[1]), 4));
    } else if (layout == SHIFTED) {
        dl_tensor *flat = must(dl_tensor_zeros(1, &more, dl_dtype_of(x), GPU));
        dl_tensor *rest = must(dl_slice(flat, 0, &one, NULL, 1)), *v = must(dl_reshape(rest, s, dl_ndim(x)));
        ok(dl_assign(v, there));
        out = must(dl_detach(v));
        dl_unref(flat), dl_unref(rest), dl_unref(v);
    }
    if (out != there) dl_unref(there);
    return out;
}

static dl_tensor *host(dl_tensor *t) {
    dl_tensor *d = must(dl_detach(must(t))), *h = must(dl_to_device(d, 0));
    dl_unref(t), dl_unref(d);
    return h;
}

static void check(const trial *t, dl_tensor *got, dl_tensor *want, const char *what, dl_dtype dtype, int layout,
                  double tolerance) {
    double d = distance(got, want);
    if (d <= tolerance) return;
    const dl_tensor *x = t->in[0];
    fail_msg("%s, %s (%ld, %ld): %s of [%ld, %ld, ...] in %s, layout %d: off by %g, at most %g allowed", t->name,
             t->name, t->a ? t->a[0] : 0, t->a ? t->a[1] : 0, what, dl_shape(x)[0], dl_ndim(x) > 1 ? dl_shape(x)[1] : 1,
             dl_dtype_name(dtype), layout, d, tolerance);
}

/* Result and gradients of one call on both devices. */
static void one(const trial *t, dl_dtype dtype, int layout, double tolerance) {
    dl_tensor *cpu[MOST_IN], *gpu[MOST_IN], *dc[MOST_IN] = {0}, *dg[MOST_IN] = {0};
    for (int i = 0; i < t->nin; i++) {
        bool floating = dl_dtype_is_float(dl_dtype_of(t->in[i]));
        dl_tensor *x = must(floating ? dl_to_dtype(t->in[i], dtype) : dl_ref(t->in[i]));
        cpu[i] = must(floating ? dl_to_dtype(x, DL_F64) : dl_ref(x));
        if (dtype == DL_F64) dl_unref(cpu[i]), cpu[i] = must(dl_clone(x));
        gpu[i] = laid_out(x, floating ? layout : PLAIN);
        if (i < t->leaves) leaf(cpu[i]), leaf(gpu[i]);
        dl_unref(x);
    }
    dl_tensor *want = must(t->f(cpu, t->a)), *y = must(t->f(gpu, t->a)), *got = host(dl_ref(y));
    check(t, got, want, "result", dtype, layout, tolerance);
    if (t->leaves) {
        dl_tensor *seed = drawn(8, dl_ndim(want), dl_shape(want), dtype), *wide = must(dl_to_dtype(seed, DL_F64));
        dl_tensor *there = must(dl_to_device(seed, GPU));
        gradients(want, wide, cpu, t->leaves, 0, dc);
        gradients(y, there, gpu, t->leaves, 0, dg);
        for (int i = 0; i < t->leaves; i++) {
            dg[i] = host(dg[i]);
            check(t, dg[i], dc[i], i ? "a later gradient" : "gradient", dtype, layout, 3 * tolerance);
            dl_unref(dg[i]), dl_unref(dc[i]);
        }
        dl_unref(seed), dl_unref(wide), dl_unref(there);
    }
    for (int i = 0; i < t->nin; i++) dl_unref(cpu[i]), dl_unref(gpu[i]);
    dl_unref(want), dl_unref(y), dl_unref(got);
}

/* In f32, f64 and bf16, in every layout. Takes the inputs over. */
static void all_ways(trial t, bool last, double f32) {
    for (int layout = PLAIN; layout <= (last ? LAST : SHIFTED); layout++) {
        one(&t, DL_F32, layout, f32);
        one(&t, DL_F64, layout, 1e-12);
        one(&t, DL_BF16, layout, 1e-2);
    }
    for (int i = 0; i < t.nin; i++) dl_unref(t.in[i]);
}

static void same_bits(dl_tensor *a, dl_tensor *b, const char *what) {
    a = host(a), b = host(b);
    if (memcmp(dl_data(a), dl_data(b), (size_t)dl_numel(a) * (size_t)dl_dtype_size(dl_dtype_of(a))))
        fail_msg("%s: other bits the second time", what);
    dl_unref(a), dl_unref(b);
}

/* ---- running sums */

static dl_tensor *running(dl_tensor **in, const long *a) { return dl_cumsum(in[0], a[0]); }

static void running_sums(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][2] = {{1, 5000}, {3, 2048},  {2, 2049},  {1, 300001}, {3, 70000}, {300, 4099},
                                     {5, 37},   {1000, 64}, {501, 129}, {4, 1},      {33, 1025}, {3000, 5}};
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (long dim = 0; dim < 2; dim++)
            all_ways((trial){"cumsum", running, SHAPE(dim, 0), 1, 1, {drawn(i, 2, shapes[i], DL_F64)}}, false, 4e-7);
    for (long dim = 0; dim < 3; dim++)
        all_ways((trial){"cumsum", running, SHAPE(dim, 0), 1, 1, {drawn(7, 3, SHAPE(9, 300, 11), DL_F64)}}, false,
                 4e-7);
}

/* Sums of sums of tiles: three levels. */
static void long_chains(void **state) {
    (void)state;
    NEEDS_GPU();
    const long n = 20000003;
    dl_tensor *x = must(dl_randint(-50, 50, &n, 1, DL_I64, GPU)), *h = host(dl_ref(x));
    dl_tensor *want = must(dl_cumsum(h, 0)), *got = host(dl_cumsum(x, 0));
    near(got, want, 0, "a long running sum of integers");
    dl_unref(x), dl_unref(h), dl_unref(want), dl_unref(got);
    x = must(dl_randn(&n, 1, DL_F32, GPU));
    for (int k = 0; k < 10; k++) same_bits(dl_cumsum(x, 0), dl_cumsum(x, 0), "a long running sum");
    dl_unref(x);
}

/* ---- sums by place */

static dl_tensor *picked(dl_tensor **in, const long *a) { return dl_index_select(in[0], in[1], a[0]); }
static dl_tensor *gathered(dl_tensor **in, const long *a) { return dl_gather(in[0], in[1], a[0]); }
static dl_tensor *rows_added(dl_tensor **in, const long *a) { return dl_index_add(in[0], in[2], in[1], a[0]); }
static dl_tensor *elements_added(dl_tensor **in, const long *a) { return dl_scatter_add(in[0], in[2], in[1], a[0]); }

static dl_tensor *indices(long low, long high, int ndim, const long *shape) {
    return must(dl_randint(low, high, shape, ndim, DL_I64, 0));
}

static void sums_by_place(void **state) {
    (void)state;
    NEEDS_GPU();
    for (int on = 1; on >= 0; on--) {
        dl_deterministic_set(on);
        static const long lists[][3] = {{100, 3000, 48}, {5000, 700, 3}, {3, 4000, 20}, {60, 33, 1}, {1, 9000, 7}};
        for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++) {
            long rows = lists[i][0], n = lists[i][1], width = lists[i][2];
            all_ways((trial){"index_add",
                             rows_added,
                             SHAPE(0, 0),
                             3,
                             2,
                             {drawn(1, 2, SHAPE(rows, width), DL_F64), drawn(2, 2, SHAPE(n, width), DL_F64),
                              indices(-rows, rows, 1, &n)}},
                     false, on ? 1e-6 : 1e-5);
            all_ways((trial){"index_add",
                             rows_added,
                             SHAPE(1, 0),
                             3,
                             2,
                             {drawn(1, 2, SHAPE(width, rows), DL_F64), drawn(2, 2, SHAPE(width, n), DL_F64),
                              indices(-rows, rows, 1, &n)}},
                     false, on ? 1e-6 : 1e-5);
            all_ways((trial){"scatter_add",
                             elements_added,
                             SHAPE(0, 0),
                             3,
                             2,
                             {drawn(1, 2, SHAPE(rows, width), DL_F64), drawn(2, 2, SHAPE(n, width), DL_F64),
                              indices(-rows, rows, 2, SHAPE(n, width))}},
                     false, on ? 1e-6 : 1e-5);
            all_ways((trial){"index_select",
                             picked,
                             SHAPE(0, 0),
                             2,
                             1,
                             {drawn(1, 2, SHAPE(rows, width), DL_F64), indices(-rows, rows, 1, &n)}},
                     false, on ? 1e-6 : 1e-5);
            all_ways((trial){"gather",
                             gathered,
                             SHAPE(1, 0),
                             2,
                             1,
                             {drawn(1, 2, SHAPE(width, rows), DL_F64), indices(-rows, rows, 2, SHAPE(width, n))}},
                     false, on ? 1e-6 : 1e-5);
        }
    }
    dl_deterministic_set(1);
}

/* Sums within lines that a block holds: along the last dimension and across it, odd sizes, columns that do not fill a
 * block, an index for all lines, parts of one number. */
static void sums_in_lines(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][4] = {{150, 700, 1, 400}, {90, 70, 1, 333},  {3, 300, 512, 80}, {2, 100, 77, 130},
                                     {1, 3000, 9, 700},  {1, 20000, 3, 90}, {70, 25600, 1, 65}};
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const long *s = shapes[i], to[3] = {s[0], s[1], s[2]}, from[3] = {s[0], s[3], s[2]};
        all_ways((trial){"scatter_add",
                         elements_added,
                         SHAPE(1, 0),
                         3,
                         2,
                         {drawn(1, 3, to, DL_F64), drawn(2, 3, from, DL_F64), indices(-s[1], s[1], 3, from)}},
                 false, 1e-7);
        all_ways(
            (trial){"gather", gathered, SHAPE(1, 0), 2, 1, {drawn(1, 3, to, DL_F64), indices(-s[1], s[1], 3, from)}},
            false, 1e-7);
        all_ways(
            (trial){
                "index_select", picked, SHAPE(1, 0), 2, 1, {drawn(1, 3, to, DL_F64), indices(-s[1], s[1], 1, &s[3])}},
            false, 1e-7);
    }
}

/* Parts of all magnitudes, infinities and NaN: each place by its own measure, of which `error` is allowed. */
static void sums_of_sizes(dl_dtype dtype, long exponents, long lowest, double error, double least) {
    static const double others[] = {INFINITY, -INFINITY, NAN, -0.0};
    const long places[2] = {120, 500}, parts[2] = {120, 900};
    dl_tensor *v = drawn(5, 2, parts, DL_F64), *first = drawn(6, 2, places, DL_F64), *at = indices(0, 500, 2, parts);
    double *p = dl_data(v);
    for (long i = 0; i < dl_numel(v); i++) p[i] = ldexp(p[i], (int)(i * 7919 % exponents + lowest));
    for (long i = 0; i < 100; i++) ((double *)dl_data(first))[i * 211] = 0;
    for (int odd = 0; odd < 2; odd++) {
        for (long i = 0; odd && i < 3000; i++) p[i * 31] = others[i % 4];
        dl_tensor *nv = must(dl_to_dtype(v, dtype)), *nx = must(dl_to_dtype(first, dtype));
        dl_tensor *gv = laid_out(nv, PLAIN), *gx = laid_out(nx, PLAIN), *gat = laid_out(at, PLAIN);
        dl_tensor *wv = must(dl_to_dtype(nv, DL_F64)), *wx = must(dl_to_dtype(nx, DL_F64)), *av = must(dl_abs(wv));
        dl_tensor *ax = must(dl_abs(wx)), *want = must(dl_scatter_add(wx, at, wv, 1));
        dl_tensor *size = must(dl_scatter_add(ax, at, av, 1)), *got = host(dl_scatter_add(gx, gat, gv, 1));
        double *w = values(want), *s = values(size), *g = values(got);
        for (long i = 0; i < dl_numel(want); i++) {
            bool good = isfinite(w[i]) ? fabs(g[i] - w[i]) <= error * s[i] + least : g[i] == w[i] || isnan(w[i]);
            if (!good || isnan(g[i]) != isnan(w[i]))
                fail_msg("place %ld: %g, not %g, of parts of %g", i, g[i], w[i], s[i]);
        }
        same_bits(dl_scatter_add(gx, gat, gv, 1), dl_scatter_add(gx, gat, gv, 1), "sums of all sizes");
        free(w), free(s), free(g);
        dl_tensor *all[] = {nv, nx, gv, gx, gat, wv, wx, av, ax, want, size, got};
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) dl_unref(all[i]);
    }
    dl_unref(v), dl_unref(first), dl_unref(at);
}

static void sums_of_all_sizes(void **state) {
    (void)state;
    NEEDS_GPU();
    sums_of_sizes(DL_F32, 250, -140, 1.3e-7, 1e-45);
    sums_of_sizes(DL_F64, 2040, -1060, 1e-15, 5e-324);
    sums_of_sizes(DL_F64, 3, -1, 1e-15, 0);
}

static dl_tensor *sorted(dl_tensor **in, const long *a) {
    dl_tensor *at, *v = a[1] ? dl_topk(in[0], a[1], a[0], true, &at) : dl_sort(in[0], a[0], false, &at);
    dl_unref(at);
    return v;
}
static dl_tensor *last_put(dl_tensor **in, const long *a) { return dl_scatter(in[0], in[2], in[1], a[0], NULL); }
static dl_tensor *best_put(dl_tensor **in, const long *a) {
    return dl_index_reduce(in[0], in[2], in[1], a[0], "amax", 1);
}

/* Gradients that go to the places that elements came from or were put to. */
static void moved_elements(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][2] = {{1, 1}, {1, 5000}, {300, 401}, {2000, 37}, {7, 70001}};
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (long dim = 0; dim < 2; dim++) {
            const long *s = shapes[i], n = s[dim];
            all_ways((trial){"sort", sorted, SHAPE(dim, 0), 1, 1, {drawn(i, 2, s, DL_F64)}}, false, 0);
            all_ways((trial){"topk", sorted, SHAPE(dim, (n + 9) / 10), 1, 1, {drawn(i, 2, s, DL_F64)}}, false, 0);
            all_ways((trial){"scatter",
                             last_put,
                             SHAPE(dim, 0),
                             3,
                             2,
                             {drawn(1, 2, s, DL_F64), drawn(2, 2, s, DL_F64), indices(-n, n, 2, s)}},
                     false, 0);
            all_ways((trial){"index_reduce",
                             best_put,
                             SHAPE(dim, 0),
                             3,
                             2,
                             {drawn(1, 2, s, DL_F64), drawn(2, 2, s, DL_F64), indices(-n, n, 1, &n)}},
                     false, 1e-6);
        }
}

/* Values in sorted rows: one row that shared memory holds and one that it does not, and several; NaN at their ends. */
static void places_in_rows(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][3] = {{1, 0, 5}, {1, 1, 3}, {1, 1000, 70001}, {1, 20000, 999}, {6, 100, 333}};
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int k = 0; k < 4; k++) {
            const long *s = shapes[i];
            dl_tensor *raw = drawn(i, 2, s, DL_F32), *x = drawn(i + 9, 2, SHAPE(s[0], s[2]), DL_F32), *at;
            float *p = dl_data(raw);
            for (long j = 0; k > 1 && j < dl_numel(raw); j += 7) p[j] = NAN;
            ((float *)dl_data(x))[0] = NAN, ((float *)dl_data(x))[1] = INFINITY;
            dl_tensor *rows = must(dl_sort(raw, -1, false, &at));
            dl_tensor *there = must(dl_to_device(rows, GPU)), *gx = must(dl_to_device(x, GPU));
            dl_tensor *want = must(dl_searchsorted(rows, x, NULL, false, k & 1, NULL));
            dl_tensor *got = host(dl_searchsorted(there, gx, NULL, false, k & 1, NULL));
            near(got, want, 0, "places in sorted rows");
            dl_tensor *all[] = {raw, x, at, rows, there, gx, want, got};
            for (unsigned j = 0; j < sizeof all / sizeof *all; j++) dl_unref(all[j]);
        }
}

/* Many parts for a few places, whose runs go through all chunks; and integers. */
static void crowded_places(void **state) {
    (void)state;
    NEEDS_GPU();
    const long n = 300007, few = 3, many = 40000;
    static const dl_dtype types[] = {DL_F32, DL_F64, DL_BF16, DL_I32, DL_I64, DL_U8};
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
        for (int k = 0; k < 2; k++) {
            const long size = k ? many : few;
            dl_tensor *raw = must(dl_randint(0, 9, &n, 1, DL_I64, 0)), *v = must(dl_to_dtype(raw, types[t]));
            dl_tensor *x = must(dl_tensor_zeros(1, &size, types[t], 0)), *at = indices(0, size, 1, &n);
            dl_tensor *gv = laid_out(v, PLAIN), *gx = laid_out(x, PLAIN), *gat = laid_out(at, PLAIN);
            dl_tensor *want = must(dl_scatter_add(x, at, v, 0)), *got = host(dl_scatter_add(gx, gat, gv, 0));
            near(got, want, types[t] == DL_BF16 ? 1e-2 : 1e-7, "many parts for each place");
            for (int again = 0; again < 5; again++)
                same_bits(dl_scatter_add(gx, gat, gv, 0), dl_index_add(gx, gat, gv, 0), "sums by place");
            dl_tensor *all[] = {raw, v, x, at, gv, gx, gat, want, got};
            for (unsigned i = 0; i < sizeof all / sizeof *all; i++) dl_unref(all[i]);
        }
}

static void places_of_true(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][3] = {{1, 1, 1}, {1, 1, 4095}, {1, 1, 4097}, {3, 50, 700}, {1000, 1, 101}, {0, 2, 3}};
    static const dl_dtype types[] = {DL_BOOL, DL_F32, DL_I64, DL_BF16, DL_U8};
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
            for (int ndim = 1; ndim <= 3; ndim++) {
                long flat = shapes[s][0] * shapes[s][1] * shapes[s][2], two[2] = {shapes[s][0], flat};
                if (shapes[s][0]) two[1] = flat / two[0];
                const long *shape = ndim == 1 ? &flat : ndim == 2 ? two : shapes[s];
                dl_tensor *raw = must(dl_randint(0, 3, shape, ndim, DL_I64, 0)), *x = must(dl_to_dtype(raw, types[t]));
                dl_tensor *there = laid_out(x, PLAIN), *want = must(dl_nonzero(x)), *got = host(dl_nonzero(there));
                near(got, want, 0, "nonzero");
                dl_unref(raw), dl_unref(x), dl_unref(there), dl_unref(want), dl_unref(got);
            }
}

/* ---- elements where a mask holds; a: for how many of 8 elements it does */

static dl_tensor *placed(dl_tensor **in, const long *a) { return (void)a, dl_masked_scatter(in[0], in[2], in[1]); }
static dl_tensor *selected(dl_tensor **in, const long *a) { return (void)a, dl_masked_select(in[0], in[1]); }

static void masks(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][2] = {{1, 1}, {1, 4095}, {1, 4097}, {3, 35000}, {1001, 101}, {2900, 3001}};
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (long part = 0; part <= 8; part += 4) {
            dl_tensor *raw = must(dl_randint(0, 8, shapes[s], 2, DL_I64, 0)), *limit = must(dl_scalar_i(part));
            dl_tensor *mask = must(dl_lt(raw, limit)), *x = drawn(3, 2, shapes[s], DL_F64);
            trial t = {"masked_select", selected, &part, 2, 1, {dl_ref(x), dl_ref(mask)}};
            trial u = {"masked_scatter", placed, &part, 3, 2, {x, drawn(4, 2, shapes[s], DL_F64), mask}};
            all_ways(t, false, 1e-7);
            all_ways(u, false, 1e-7);
            dl_unref(raw), dl_unref(limit);
        }
}

/* ---- sums of blocks: a: rows and columns of one */

static dl_tensor *of_blocks(dl_tensor **in, const long *a) {
    const long *s = dl_shape(in[0]), shape[5] = {s[0], s[1] / a[0], a[0], s[2] / a[1], a[1]}, dims[2] = {2, 4};
    dl_tensor *parts = must(dl_reshape(in[0], shape, 5)),
              *y = must(a[2] ? dl_mean(parts, dims, 2, 0) : dl_sum(parts, dims, 2, 0));
    dl_unref(parts);
    return y;
}

static void blocks(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long sizes[][3] = {{2, 2, 0}, {2, 2, 1}, {1, 2, 0}, {5, 2, 1}, {3, 4, 0}, {2, 4, 1}, {40, 2, 0}};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const long shape[3] = {11, sizes[i][0] * 100, sizes[i][1] * 64};
        trial t = {"blocks", of_blocks, sizes[i], 1, 1, {drawn(3, 3, shape, DL_F64)}};
        all_ways(t, false, 1e-5);
    }
}

/* ---- pooling; a: window, stride, padding, dilation or whether padding counts, ceil_mode */

static dl_tensor *largest(dl_tensor **in, const long *a) {
    return dl_max_pool2d(in[0], &a[0], 1, &a[1], 1, &a[2], 1, &a[3], 1, (int)a[4]);
}
static dl_tensor *average(dl_tensor **in, const long *a) {
    return dl_avg_pool2d(in[0], &a[0], 1, &a[1], 1, &a[2], 1, (int)a[4], a[3] == 1);
}
static dl_tensor *adaptive(dl_tensor **in, const long *a) { return dl_adaptive_avg_pool2d(in[0], a, 2); }

static void pools(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long shapes[][4] = {{2, 8, 12, 16}, {3, 6, 9, 11}, {2, 4, 7, 8}, {1, 16, 33, 20}, {2, 1, 8, 8}};
    static const long how[][5] = {{2, 2, 0, 1, 0}, {3, 2, 1, 1, 0}, {3, 1, 1, 1, 0}, {3, 2, 1, 2, 1},
                                  {2, 3, 0, 1, 1}, {3, 3, 0, 1, 0}, {4, 4, 0, 1, 0}, {5, 2, 2, 2, 0}};
    static const long sizes[][2] = {{1, 1}, {2, 3}, {7, 7}, {5, 20}};
    for (unsigned s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        for (unsigned h = 0; h < sizeof how / sizeof *how; h++) {
            /* windows of a dilated 5 are wider than some images */
            if (how[h][0] < 5 || shapes[s][2] > 8)
                all_ways((trial){"max_pool2d", largest, how[h], 1, 1, {drawn(s, 4, shapes[s], DL_F64)}}, true, 1e-6);
            all_ways((trial){"avg_pool2d", average, how[h], 1, 1, {drawn(s, 4, shapes[s], DL_F64)}}, true, 1e-6);
        }
        for (unsigned k = 0; k < sizeof sizes / sizeof *sizes; k++)
            all_ways((trial){"adaptive_avg_pool2d", adaptive, sizes[k], 1, 1, {drawn(s, 4, shapes[s], DL_F64)}}, true,
                     1e-6);
    }
}

static dl_tensor *padded(dl_tensor **in, const long *a) { return dl_pad(in[0], a, 4, 1.5, "constant"); }

static void pads(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long widths[][4] = {{1, 1, 1, 1}, {0, 3, -2, 5}, {-1, -2, 4, 0}, {0, 0, 0, 0}, {4, -13, 0, 1}};
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++)
        all_ways((trial){"pad", padded, widths[i], 1, 1, {drawn(i, 4, SHAPE(2, 4, 9, 11), DL_F64)}}, true, 0);
}

/* ---- norms of rows */

static dl_tensor *normed(dl_tensor **in, const long *a) { return dl_layer_norm(in[0], in[1], in[2], a, 1, 1e-5); }
static dl_tensor *by_root(dl_tensor **in, const long *a) { return dl_rms_norm(in[0], in[1], a, 1, (double[]){0.1}); }
static dl_tensor *grouped(dl_tensor **in, const long *a) { return dl_group_norm(in[0], in[1], in[2], a[0], 1e-5); }

static void row_norms(void **state) {
    (void)state;
    NEEDS_GPU();
    static const long widths[] = {1, 3, 8, 30, 64, 100, 256, 768, 1000, 1024, 2048, 4100, 8192, 8200, 16384, 20001};
    for (unsigned i = 0; i < sizeof widths / sizeof *widths; i++) {
        const long d = widths[i];
        double near_one = d == 1 ? 1e-3 : 2e-6; /* of 1: the difference of equal numbers */
        for (long rows = 5; rows <= (d < 1100 ? 605 : 5); rows += 600) {
            dl_tensor *w = drawn(1, 1, &d, DL_F64), *b = drawn(2, 1, &d, DL_F64),
                      *x = drawn(i, 2, SHAPE(rows, d), DL_F64);
            all_ways((trial){"rms_norm", by_root, &d, 2, 2, {dl_ref(x), dl_ref(w)}}, false, near_one);
            all_ways((trial){"layer_norm", normed, &d, 3, 3, {x, w, b}}, false, near_one);
        }
    }
    const long groups[2] = {3, 0}, channels = 12;
    all_ways((trial){"group_norm",
                     grouped,
                     groups,
                     3,
                     3,
                     {drawn(3, 4, SHAPE(4, 12, 10, 12), DL_F64), drawn(1, 1, &channels, DL_F64),
                      drawn(2, 1, &channels, DL_F64)}},
             true, 2e-6);
}

/* So many rows that sums are handed on while blocks go through theirs; against the other rule in f64. */
static void many_rows(void **state) {
    (void)state;
    NEEDS_GPU();
    const long d = 64, shape[2] = {1 << 21, 64};
    dl_tensor *in[3] = {leaf(must(dl_randn(shape, 2, DL_F32, GPU))), leaf(must(dl_randn(&d, 1, DL_F32, GPU))),
                        leaf(must(dl_randn(&d, 1, DL_F32, GPU)))},
              *wide[3], *got[3] = {0}, *want[3] = {0};
    for (int i = 0; i < 3; i++) {
        dl_tensor *bare = must(dl_detach(in[i]));
        wide[i] = leaf(must(dl_to_dtype(bare, DL_F64)));
        dl_unref(bare);
    }
    dl_tensor *y = must(normed(in, &d)), *z = must(normed(wide, &d)), *seed = must(dl_randn(shape, 2, DL_F32, GPU));
    gradients(y, seed, in, 3, 0, got);
    dl_tensor *wide_seed = must(dl_to_dtype(seed, DL_F64));
    gradients(z, wide_seed, wide, 3, 1, want);
    for (int i = 0; i < 3; i++) {
        got[i] = host(got[i]), want[i] = host(want[i]);
        near(got[i], want[i], i ? 3e-6 : 1e-6, i ? "gradient of weight or bias of many rows" : "gradient of many rows");
        dl_unref(in[i]), dl_unref(wide[i]), dl_unref(got[i]), dl_unref(want[i]);
    }
    dl_unref(y), dl_unref(z), dl_unref(seed), dl_unref(wide_seed);
}

/* ---- made and drawn on both devices */

static void made(void **state) {
    (void)state;
    NEEDS_GPU();
    static const dl_dtype types[] = {DL_F32, DL_F64, DL_BF16, DL_F16, DL_I64, DL_I32, DL_U8};
    static const long sizes[] = {1, 2, 3, 5, 31, 1000, 100003};
    for (unsigned t = 0; t < sizeof types / sizeof *types; t++)
        for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            dl_tensor *both[2][6] = {{0}};
            for (int device = 0; device < 2; device++) {
                const long n = sizes[s], five = 5;
                dl_dtype dtype = types[t];
                dl_seed(11);
                dl_tensor **v = both[device];
                bool floating = dl_dtype_is_float(dtype);
                v[0] = must(dl_full(&n, 1, 3, dtype, device)),
                v[1] = must(dl_eye(n < 1000 ? n : 7, &five, dtype, device));
                v[2] = must(dl_randint(0, dtype == DL_I64 ? 1L << 40 : 200, &n, 1, dtype, device));
                v[3] = must(dl_arange(0, &(double){(double)n}, 1, dtype, device));
                if (floating) v[4] = must(dl_rand(&n, 1, dtype, device)), v[5] = must(dl_bernoulli(v[4]));
            }
            for (int k = 0; k < 6; k++) {
                if (!both[0][k]) continue;
                same_bits(both[0][k], both[1][k], "what is made");
            }
        }
}

/* Given the name of a test, that one alone. */
int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(running_sums),   cmocka_unit_test(long_chains),    cmocka_unit_test(sums_by_place),
        cmocka_unit_test(crowded_places), cmocka_unit_test(places_of_true), cmocka_unit_test(pools),
        cmocka_unit_test(pads),           cmocka_unit_test(row_norms),      cmocka_unit_test(many_rows),
        cmocka_unit_test(made),           cmocka_unit_test(sums_in_lines),  cmocka_unit_test(sums_of_all_sizes),
        cmocka_unit_test(moved_elements), cmocka_unit_test(places_in_rows), cmocka_unit_test(masks),
        cmocka_unit_test(blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
