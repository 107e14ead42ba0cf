/* Work that threads and lanes share: calls of odd sizes give the same bits for every number of threads, and are near
 * to f64 on one thread with gradients made of rows, at every level of the instruction set, in every floating dtype,
 * from tensors that are laid out in several ways. */
#include "support/calls.h"

#include "cpu/runtime/iter.h"
#include "cpu/runtime/simd.h"

#include <omp.h>

/* Written as SAMPLES of the op table are, after the name of the row. */
static const char calls[] =
    "fft c[37,16]; fft c[2,64]; fft c[19,263]; fft c[37,1000]; fft c[3,512]; fft c[5,33,7] dim=1; ifft c[37,96]; "
    "ifft c[3,1024]; ifft c[0,8]; rfft f[75,30]; rfft f[3,500]; rfft f[7,1025]; rfft f[5,1048]; rfft f[1,1]; "
    "irfft c[75,16]; irfft c[75,17] n=31; irfft c[5,513]; irfft c[7,521] n=1041; "
    "grid_sample f[3,19,9,13] u[3,7,17,2]; "
    "grid_sample f[2,3,41,40] f[2,50,51,2] padding_mode=border align_corners=true; "
    "grid_sample f[2,3,9,13] f[2,7,5,2] mode=bicubic padding_mode=reflection; "
    "grid_sample f[1,17,5,3] f[1,3,99,2] mode=nearest; grid_sample f[2,9,5,6,7] f[2,3,4,5,3]; "
    "grid_sample f[2,0,5,6] f[2,3,4,2]; grid_sample f[2,3,5,6] f[2,0,4,2]; "
    "pad f[3,5,9,11] pad=[3,2,1,4] mode=replicate; pad f[2,3,40,50] pad=[3,3,3,3] mode=circular; "
    "pad f[3,301] pad=[2,0] mode=reflect; pad f[2,3,4,5,6] pad=[0,3,1,1,2,0] mode=reflect; "
    "pad n:9[1,1,1] pad=[1,2] mode=replicate; pad f[0,2,5] pad=[1,1] mode=replicate; to f[37,100] dtype=bf16; "
    "to f[37,100] dtype=f16; roll f[40,50] shifts=3 dims=1; roll n:9[400,9] shifts=[2,5] dims=[0,1]; "
    "cat c[300,2] c[300,3] dim=1; sum f[100,49] dim=1; sum f[3,17] dim=1; mean f[7,9,7,7] dim=[2,3]; "
    "norm f[31,5,33] dim=2; var f[300,65] dim=1; dot p[20001] p[20001]; cartesian_prod f[70] f[80]; "
    "cartesian_prod f[3] f[50] f[40]; searchsorted r:100[30] f[7,50]; bucketize f[37,40] r:9[100] right=true; "
    "isin n:50[70,30] n:50[20]; cumsum f[37,41] dim=1; cumsum f[9,300,3] dim=1; cumsum n:9[30,50] dim=1; "
    "cumprod o[37,41] dim=1; layer_norm f[60,37] f[37] f[37] normalized_shape=37; "
    "cumulative_trapezoid f[20,60] dx=0.5; arange start=-3 end=9000 step=2";

static const struct {
    dl_dtype dtype;
    double tolerance;
} types[] = {{DL_F64, 1e-12}, {DL_F32, 3e-6}, {DL_F16, 3e-3}, {DL_BF16, 2e-2}};

static dl_tensor *given(void *arg, int i, const char *token) {
    (void)i;
    return sample_input(token, *(const dl_dtype *)arg);
}

/* A call with inputs that are the same for the same text. */
static call make(const char *text, dl_dtype dtype) {
    char name[64];
    call c = {0};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, " "), text);
    c.op = dl_op_find(name);
    assert_non_null(c.op);
    state_of_draws = 5;
    parse_call(&c, text + strlen(name), given, &dtype);
    return c;
}

/* The inputs of a call as leaves in a dtype, stretched or as they are. */
static call like(const call *from, dl_dtype dtype, bool stretch) {
    call c = *from;
    for (int i = 0; i < c.nin; i++) {
        if (!from->in[i] || from->in[i]->weak) {
            c.in[i] = from->in[i] ? dl_ref(from->in[i]) : NULL;
            continue;
        }
        dl_tensor *cast = in_dtype(from->in[i], dtype), *own = must(dl_detach(cast));
        c.in[i] = stretch ? stretched(own) : must(dl_invoke1(dl_op_find("clone"), &own, 1, NULL));
        dl_unref(cast), dl_unref(own);
        if (dl_requires_grad(from->in[i])) ok(dl_set_requires_grad(c.in[i], 1));
    }
    return c;
}

static void drop_call(call *c) {
    for (int i = 0; i < c->nin; i++) dl_unref(c->in[i]);
}

/* Results, then gradients by the inputs; `composed`: by rules made of rows. Their number. */
static int compute(call *c, bool composed, dl_tensor **out) {
    dl_tensor *leaves[MAX_INPUTS];
    int n = 0;
    ok(dl_invoke(c->op, c->in, c->nin, c->attr, out));
    for (int i = c->op->visible; i < c->op->out; i++) dl_unref(out[i]), out[i] = NULL;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && dl_requires_grad(c->in[i])) leaves[n++] = c->in[i];
    if (!n || !dl_requires_grad(out[0])) return c->op->visible;
    const dl_dtype own = dl_dtype_of(out[0]);
    dl_tensor *drawn_seed = drawn(3, dl_ndim(out[0]), dl_shape(out[0]), dl_dtype_is_complex(own) ? DL_F64 : own);
    dl_tensor *seed = must(dl_to_dtype(drawn_seed, own));
    ok(dl_gradients(out[0], seed, leaves, n, 0, composed, out + c->op->visible));
    dl_unref(drawn_seed), dl_unref(seed);
    return c->op->visible + n;
}

static void release(dl_tensor **t, int n) {
    for (int i = 0; i < n; i++) dl_unref(t[i]), t[i] = NULL;
}

static bool same_bits(dl_tensor *a, dl_tensor *b) {
    dl_tensor *x = must(dl_invoke1(dl_op_find("clone"), &a, 1, NULL)),
              *y = dl_invoke1(dl_op_find("clone"), &b, 1, NULL);
    bool same = !memcmp(dl_data(x), dl_data(must(y)), (size_t)(dl_numel(x) * dl_dtype_size(dl_dtype_of(x))));
    dl_unref(x), dl_unref(y);
    return same;
}

/* One dtype and layout at a level: with 1, 2 and 3 threads. */
static void at_level(const call *from, int type, bool stretch, dl_tensor **want, int count, const char *text) {
    dl_tensor *first[MAX_RESULTS] = {0}, *got[MAX_RESULTS] = {0};
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        call c = like(from, types[type].dtype, stretch);
        assert_int_equal(compute(&c, false, threads == 1 ? first : got), count);
        for (int i = 0; i < count && threads == 1; i++) {
            dl_tensor *a = parts_of(first[i]), *b = parts_of(want[i]);
            double off = distance(a, b);
            if (!(off <= types[type].tolerance))
                fail_msg("%s, %s, level %d, layout %d: result %d is off by %g", text, dl_dtype_name(types[type].dtype),
                         dl_simd_level(), stretch, i, off);
            dl_unref(a), dl_unref(b);
        }
        for (int i = 0; i < count && threads > 1; i++)
            if (!same_bits(first[i], got[i]))
                fail_msg("%s, %s, level %d, layout %d: result %d differs between 1 and %d threads", text,
                         dl_dtype_name(types[type].dtype), dl_simd_level(), stretch, i, threads);
        if (threads > 1) release(got, count);
        drop_call(&c);
    }
    release(first, count);
}

static void shared_work(void **state) {
    (void)state;
    static const int levels[] = {1, 3, 4};
    const int had = omp_get_max_threads();
    const long grain = dl_cpu_grain(1);
    char list[sizeof calls], *save = NULL;
    memcpy(list, calls, sizeof list);
    for (char *text = strtok_r(list, ";", &save); text; text = strtok_r(NULL, ";", &save)) {
        text += *text == ' ';
        dl_tensor *want[MAX_RESULTS] = {0};
        omp_set_num_threads(1), dl_simd_limit(1);
        call exact = make(text, DL_F64);
        const int count = compute(&exact, true, want);
        for (unsigned t = 0; t < sizeof types / sizeof *types; t++) {
            call rounded = like(&exact, types[t].dtype, false), c = like(&rounded, DL_F64, false);
            dl_tensor *near_to[MAX_RESULTS] = {0};
            dl_simd_limit(1);
            assert_int_equal(compute(&c, true, near_to), count);
            for (int l = 0; l < 6; l++) {
                dl_simd_limit(levels[l / 2]);
                at_level(&rounded, (int)t, l % 2, near_to, count, text);
            }
            release(near_to, count);
            drop_call(&rounded), drop_call(&c);
        }
        release(want, count);
        drop_call(&exact);
    }
    dl_simd_limit(4);
    omp_set_num_threads(had);
    dl_cpu_grain(grain);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shared_work)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
