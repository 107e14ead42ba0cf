/* Every row of the op table on the GPU, at random shapes (0 and 1 among them) and in random layouts, against the CPU in
 * f64 from the same, already rounded inputs: results and gradients. The shapes follow from the rows' samples, whose
 * sizes are replaced by drawn ones. DL_TEST_SEED chooses other draws, DL_TEST_ROW a single row. */
#include "cuda/calls.h"
#include "dlcore/copy.h"
#include "dlcore/view.h"

#include <ctype.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 3, MOST = 6000, MOVES = 3, EXTREME = 12 };

/* Of batch norm: in training many values a channel, since few make a gradient of next to nothing out of large parts. */
#define BATCHES                                                                                                        \
    "f[Y,A] f[A] p[A] f[A] f[A] training=true; f[Y,E,3,H] f[E] p[E] f[E] f[E] training=true; f[A,E,H] f[E] p[E] f[E] " \
    "f[E]; f[Z,B] - - - - training=true"

/* Templates in place of samples that only fit their own sizes; capitals are sizes to draw, from E on small ones, Y and
 * Z larger ones. */
static const struct {
    const char *op, *samples;
    int rounds;
} other[] = {
    {"reshape", "f[A,B,C] shape=[A,-1]; f[A,B] shape=[B,A]; f[A,1,B] shape=[A,B]", ROUNDS},
    {"expand", "f[A,1] size=[A,B]; f[B] size=[A,-1]", ROUNDS},
    {"prod", "p[G,H]; p[B,G] dim=1; p[H,A] dim=0 keepdim=true", ROUNDS},
    {"one_hot", "n:5[A,B] num_classes=5; n:2[A] num_classes=7", ROUNDS},
    {"restride", "", ROUNDS},
    /* few columns: with more than rows the result is a small difference of large sums, and f32 of the CPU is off by a
     * ten-thousandth, too */
    {"low_rank_multivariate_normal_kl", "f[C] f[C,2] p[C] f[C] f[C,2] p[C]; f[A,7] f[7,3] p[7] f[7] f[7,3] p[7]",
     ROUNDS},
    /* two shares: of more, the last may be a small difference, and a rounding decides how small */
    {"logistic_normal_log_prob", "q[A,2] f[1] p[A,1]; q[2] f[B,1] s:0.5", ROUNDS},
    {"batch_norm", BATCHES, ROUNDS},
    {"batch_norm_relu", BATCHES, ROUNDS},
    /* one round: plans are measured for each shape, and have a test of their own */
    {"conv2d", "f[G,E,H,K] f[F,E,3,3] f[F] padding=1; f[G,4,H,K] f[6,2,3,3] groups=2 dilation=2 padding=2", 1},
    {"conv2d_norm", "f[G,E,H,K] f[F,E,3,3] f[F] p[F] f[F] f[F] f[F] padding=1 relu=true", 1},
    {"conv2d_relu_max_pool2d",
     "f[G,E,6,8] f[F,E,3,3] f[F] padding=1 pool_size=2; f[G,1,9,H] f[F,1,3,3] f[F] padding=[2,1] pool_size=2; "
     "f[G,3,K,7] "
     "f[F,3,3,3] padding=1 pool_size=2; f[G,E,9,9] f[F,E,3,2] f[F] stride=2 padding=[1,0] pool_size=[2,1]",
     1},
    {"conv_transpose2d", "f[G,E,H,K] f[E,F,3,3] f[F] stride=2 padding=1", 1},
    {"conv2d_dx", "", ROUNDS},
    {"conv2d_dw", "", ROUNDS},
    {"conv_volume_dx",
     "f[G,F,4,3,5] f[F,E,3,3,3] size=[4,3,5] padding=1; f[G,F,2,3,2] f[F,E,1,1,1] size=[3,5,4] stride=2; f[G,6,4,4,4] "
     "f[6,2,3,2,3] size=[5,6,7] stride=[2,1,2] groups=2 dilation=[1,2,1] padding=[2,0,1]",
     ROUNDS},
    {"conv_volume_dw",
     "f[G,F,4,3,5] f[G,E,4,3,5] size=[3,3,3] padding=1; f[G,F,2,3,2] f[G,E,3,5,4] size=1 stride=2; f[G,6,4,4,4] "
     "f[G,4,5,6,7] size=[3,2,3] stride=[2,1,2] groups=2 dilation=[1,2,1] padding=[2,0,1]",
     ROUNDS},
    {"max_pool2d",
     "d[G,E,H,K] kernel_size=2; d[G,E,H,K] kernel_size=3 stride=2 padding=1; d[G,E,H,K] kernel_size=[2,3] "
     "stride=1; d[G,E,H,K] kernel_size=3 dilation=2 padding=1 ceil_mode=true; d[G,E,2,K] kernel_size=[2,1] "
     "padding=[1,0] "
     "dilation=[3,1]",
     ROUNDS},
    {"avg_pool2d",
     "f[G,E,H,K] kernel_size=2; f[G,E,H,K] kernel_size=3 stride=2 padding=1; f[G,E,H,K] kernel_size=[3,2] stride=1 "
     "padding=1 count_include_pad=false ceil_mode=true",
     ROUNDS},
    {"avg_pool2d_dx", "", ROUNDS},
    {"adaptive_avg_pool2d", "f[G,E,H,K] output_size=1; f[G,E,H,K] output_size=[2,3]; f[G,E,H,K] output_size=7", ROUNDS},
    {"adaptive_pool2d", "f[G,E,H,K] output_size=[2,3]", ROUNDS},
    {"adaptive_pool2d_dx", "f[G,E,3,4] size=[5,7]; f[G,E,4,2] size=[3,9]", ROUNDS},
    {"layer_norm",
     "f[A,Y] f[Y] f[Y] normalized_shape=[Y]; f[A,3,Z] normalized_shape=[3,Z]; f[B,Z] f[Z] normalized_shape=[Z]; "
     "f[5,2000] "
     "f[2000] f[2000] normalized_shape=[2000]",
     ROUNDS},
    {"group_norm", "f[G,6,Y] f[6] f[6] num_groups=3", ROUNDS},
    {"norm_groups", "f[G,6,Y] f[6] f[6] num_groups=3; f[A,4,H,K] num_groups=2", ROUNDS},
    /* without eps it is that of the dtype, which f64 has another of */
    {"rms_norm", "f[A,Y] f[Y] normalized_shape=[Y] eps=1e-5; f[G,3,B] normalized_shape=[3,B] eps=1e-5", ROUNDS},
    /* these without p=inf: roundings decide which difference is the largest */
    {"dist", "f[Y] f[Y]; f[A,4] f[4] p=1; f[A,Y] f[A,Y] p=3", ROUNDS},
    {"cdist", "f[A,4] f[B,4]; f[G,A,H] f[G,B,H] p=1; f[G,1,3,4] f[E,2,4] p=3", ROUNDS},
    {"row_distances", "f[G,A,4] f[G,B,4]; f[G,A,H] f[G,B,H] p=1; f[G,3,4] f[G,2,4] p=3", ROUNDS},
    {"fold", "f[A,12,12] kernel_size=2 output_size=[4,5]; f[G,8,9] kernel_size=2 output_size=[6,6] stride=2", ROUNDS},
    /* places in all of the tensor */
    {"take", "f[12] n:12[A,B]; f[3,4] n:12[G]; f[3,4] n:12[]", ROUNDS},
    /* a source that has enough */
    {"place_masked", "f[A,B] b[A,B] f[A,B]; n:9[Y] b[Y] n:9[Y]; f[2,Y] b[2,Y] f[3,Y]", ROUNDS},
    {"take_along_dim", "f[A,4] n:4[A,B] dim=1; f[1,4] n:4[A,G] dim=1; f[3,4] n:12[Y]", ROUNDS},
    {"fractional_max_pool3d",
     "d[1,E,5,6,7] q[1,E,3] kernel_size=2 output_size=[2,3,3]; d[F,9,8,7] q[1,F,3] kernel_size=2 output_size=2",
     ROUNDS},
    /* places within the dimension: a GPU reports others later than the call */
    {"max_unpool1d", "d[A,B,1] n:2[A,B,1] kernel_size=2; d[1,A,1] n:4[1,A,1] kernel_size=3 stride=2 output_size=4",
     ROUNDS},
    {"put", "f[12] n:12[A,B] f[A,B] accumulate=true; f[3,4] n:12[G] f[G]; n:9[12] n:12[A] n:9[A]", ROUNDS},
    {"put_last",
     "f[A,9] n:9[A,Y] f[A,Y] dim=1; f[7,A] n:7[Y,A] f[Y,A] dim=0; f[E,5,F] n:5[E,Y,F] f[E,Y,F] dim=1; f[99] n:99[A] "
     "f[A] dim=0",
     ROUNDS},
    {"put_best",
     "f[A,9] n:9[A,Y] f[A,Y] dim=1; f[7,A] n:7[Y,A] f[Y,A] dim=0 largest=false; f[E,5,F] n:5[E,Y,F] f[E,Y,F] dim=1; "
     "n:9[99] n:99[A] n:9[A] dim=0",
     ROUNDS},
    {"scatter_reduce",
     "f[A,9] n:9[A,Y] f[A,Y] dim=1 reduce=sum; f[7,A] n:7[Y,A] f[Y,A] dim=0 reduce=mean include_self=false; f[E,5,F] "
     "n:5[E,Y,F] f[E,Y,F] dim=1 reduce=amax include_self=false; p[7,4] n:7[3,4] p[3,4] dim=0 reduce=prod",
     ROUNDS},
    {"recurrence",
     "f[A,8] f[A,8] dim=1; f[8] f[8] dim=0 reverse=true; f[E,9,A] f[E,9,A] dim=1 reverse=true", /* long ones overflow */
     ROUNDS},
    /* of one sign: terms that cancel leave the rounding of 16 bits */
    {"dot", "p[Y] p[Y]; n:9[B] n:9[B]", ROUNDS}, /* of one sign, too */
    {"mv", "p[A,B] p[B]", ROUNDS},
    {"einsum",
     "p[E,A,B] p[E,B,C] equation=bij,bjk; p[A,B] equation=ij->ji; p[A,A] equation=ii->i; p[A,B] p[B,C] p[C] "
     "equation=ij,jk,k->i; p[G,E,A,F] p[G,H,A,F] equation=bqhd,bkhd->bhqk; n:9[A,B] n:9[B,C] equation=ij,jk",
     ROUNDS},
    {"tensorsolve", "w[3,3] f[3]; w[6,6] f[6]", ROUNDS},
    {"vander", "f[A] N=4; f[A] N=6 increasing=true; n:5[A] N=3", ROUNDS}, /* higher powers overflow */
    {"corrcoef", "f[E,Y]; f[Y]", ROUNDS}, /* of few columns all are 1 or -1, and gradients 0 */
    {"affine_grid", "f[E,2,3] size=[E,3,4,5]; f[E,3,4] size=[E,1,2,3,4] align_corners=true", ROUNDS},
    {"istft", "c[5,E] - n_fft=8; c[E,5,7] p[8] n_fft=8 hop_length=3; c[6,E] - n_fft=6 onesided=false hop_length=2",
     ROUNDS},
    {"cumprod", "f[A,8] dim=1; f[8] dim=0; f[E,9,A] dim=1; c[A,4] dim=1", ROUNDS}, /* long products overflow */
    {"cov", "f[E,Y]; f[Y] correction=0; f[E,Y] l:3[Y]; f[E,Y] - p[Y]", ROUNDS},    /* of one observation it is 0 / 0 */
    /* labels from 1 to 4, of 5 classes */
    {"ctc_loss", "f[9,E,5] l:4[E,3] l:9[E] l:3[E] zero_infinity=true; f[12,G,5] l:4[G,2] l:12[G] l:2[G] reduction=none",
     ROUNDS},
    /* of one element the cosine is 1 or -1, and gradients 0 */
    {"cosine_similarity", "f[A,Y] f[A,Y]; f[G,3,Y] f[3,Y] dim=-1; f[Y,B] f[Y,1] dim=0; f[Y] f[Y] dim=0", ROUNDS},
    {"normalize", "f[A,Y]; f[Y,B] p=1 dim=0; p[A,Y] p=3; d[A,Y] p=inf", ROUNDS},
    {"nll_loss", "p[Y,3] n:3[Y] p[3]; p[Y,4] n:4[Y] reduction=sum; p[B,5] n:5[B] p[5] reduction=none", ROUNDS},
    /* sizes that hold an entry: rows [E + 1], columns F */
    {"spmm", "f[A] r:A[Y] n:F[A] f[F,B]; f[9] r:9[3] n:2[9] f[2,A]; f[0] r:0[Y] n:1[0] f[A,B]", ROUNDS},
    {"sddmm", "f[4,A] f[A,9] r:Y[5] n:9[Y]; f[1,A] f[A,2] r:5[2] n:2[5]", ROUNDS},
    {"csr_transpose", "r:Y[5] n:9[Y] cols=9; r:A[4] n:1[A] cols=3", ROUNDS},
    /* small ones of complex numbers: those of larger random matrices overflow in f32 */
    {"det", "w[A,A]; w[E,A,A]; c[E,E]; c[F,E,E]", ROUNDS},
    {"ctc_paths", "f[9,E,5] l:4[E,3] l:9[E] l:3[E]; f[12,G,5] n:4[G,2] l:12[G] n:3[G] blank=4", ROUNDS},
    {"nll_picked", "p[Y,3] n:3[Y] p[3]; p[Y,4] n:4[Y] reduction=sum; p[B,5,H] n:5[B,H] p[5] reduction=none", ROUNDS},
    {"grid_read",
     "f[G,E,H,K] f[G,B,C,2]; f[G,E,H,K] f[G,B,C,2] mode=bicubic padding_mode=border; f[G,E,3,H,K] f[G,2,B,3,3] "
     "align_corners=true; f[G,E,H,K] f[G,B,C,2] mode=nearest padding_mode=reflection",
     ROUNDS},
    /* sizes that the rows above them allow: something to continue, and few terms */
    {"continued",
     "f[A,3,4] pad=[3,2] mode=reflect; f[A,G,4] pad=[2,5] mode=replicate; f[E,3,2] pad=[1,2,0,3] mode=circular",
     ROUNDS},
    {"resample_along", "f[A,5] n:5[2,B] f[2,B] dim=1; f[E,4,F] n:4[1,B] dim=1; f[9,C] n:9[4,B] f[4,B] dim=0", ROUNDS},
    {"volume_places", "n:9[G,E,4,5] n:20[G,E,H,K] pixels=9", ROUNDS},
    {"pool_gather", "f[G,E,4,6] n:24[G,E,H,K]", ROUNDS},
    {"volume_places", "n:9[G,E,4,6] n:24[G,E,H,K] pixels=9", ROUNDS},
    {"pool_scatter", "f[G,E,H,K] n:24[G,E,H,K] size=[4,6]", ROUNDS},
    /* few steps of few numbers: random weights make every error grow from step to step */
    {"rnn",
     "f[E,F,B] - - f[5,B] f[5,5] f[5] f[5]; f[G,E,4] f[2,E,3] - f[3,4] f[3,3] f[3] f[3] f[3,3] f[3,3] f[3] f[3] "
     "num_layers=2; f[A,G,B] f[2,A,5] - f[5,B] f[5,5] f[5,B] f[5,5] bidirectional=true batch_first=true "
     "nonlinearity=relu",
     ROUNDS},
    {"lstm",
     "f[E,F,B] - - - f[20,B] f[20,5] f[20] f[20]; f[G,E,4] f[2,E,3] f[2,E,3] - f[12,4] f[12,3] f[12] f[12] f[12,3] "
     "f[12,3] f[12] f[12] num_layers=2; f[A,G,B] f[2,A,5] f[2,A,5] - f[20,B] f[20,5] f[20,B] f[20,5] "
     "bidirectional=true batch_first=true",
     ROUNDS},
    {"gru",
     "f[E,F,B] - - f[15,B] f[15,5] f[15] f[15]; f[G,E,4] f[2,E,3] - f[9,4] f[9,3] f[9] f[9] f[9,3] f[9,3] f[9] f[9] "
     "num_layers=2; f[A,G,B] f[2,A,5] - f[15,B] f[15,5] f[15,B] f[15,5] bidirectional=true batch_first=true",
     ROUNDS},
    {"lstm_cell", "f[A,B] f[A,5] f[A,5] f[20,B] f[20,5] f[20] f[20]; f[A,4] f[A,3] f[A,3] f[12,4] f[12,3]", ROUNDS},
    {"gru_cell", "f[A,B] f[A,5] f[15,B] f[15,5] f[15] f[15]; f[A,4] f[A,3] f[9,4] f[9,3]", ROUNDS},
    {"relu_max_pool2d",
     "d[G,E,H,K] f[E] kernel_size=2; d[G,E,6,4] f[E] kernel_size=2; d[G,E,4,8] kernel_size=2; d[G,E,6,9] f[E] "
     "kernel_size=3; d[G,E,H,K] f[E] kernel_size=3 stride=2 padding=1; d[G,E,H,K] kernel_size=[2,3] stride=1; "
     "d[G,E,H,1] f[E] kernel_size=[1,2] padding=[0,1] dilation=2",
     ROUNDS},
};

static const long wide[] = {1,  2,  3,  4,   5,   7,   8,   13,  16,  31,  32,  33,   63,
                            64, 65, 97, 100, 127, 128, 129, 255, 256, 257, 511, 1000, 1025};

static long drawn_size(long key, bool never_0) {
    if (key == 'Y' || key == 'Z') return wide[12 + draw(8)];
    if (!never_0 && !draw(14)) return 0;
    return wide[key >= 'E' ? draw(8) : draw(draw(2) ? 26 : 10)];
}

/* Dimensions of the input whose brackets p is in. */
static int dims_around(const char *p) {
    int dims = 1;
    while (p[-1] != '[') p--;
    for (; *p && *p != ']'; p++) dims += *p == ',';
    return dims;
}

/* The sample with other sizes: digits from 2 on, and capitals, inside an input's brackets; in the attributes of sizes
 * too. The number of values of an integer input follows when it is a size. */
static void resized(const char *sample, char *out, size_t size, bool keep_digits) {
    long map[128];
    bool bound[128] = {false};
    for (int i = 0; i < 128; i++) map[i] = -1;
    for (const char *p = sample; (p = strchr(p, ':')); p++)
        if (p > sample && strchr("nl", p[-1])) bound[atol(p + 1) % 128] = true;
    bool inside = false, attr = false;
    size_t n = 0;
    for (const char *p = sample; *p && n + 24 < size;) {
        if (*p == '[') inside = true;
        if (*p == ']') inside = false;
        if (*p == ' ') attr = false;
        if (*p == '=') {
            const char *word = p;
            while (word > sample && word[-1] != ' ') word--;
            attr = strncmp(word, "shape", 5) && strncmp(word, "size", 4) && strncmp(word, "num_classes", 11) &&
                   strncmp(word, "normalized_shape", 16);
        }
        bool digit = isdigit((unsigned char)*p) && !keep_digits, number = p > sample && (p[-1] == ':' || p[-1] == '=');
        bool part = p > sample && (isdigit((unsigned char)p[-1]) || p[-1] == '-' || p[-1] == '.');
        bool place = !part && !attr && (inside || (number && p[-1] == ':'));
        if (place && (digit || isupper((unsigned char)*p))) {
            char *end = (char *)p + 1;
            long key = digit ? strtol(p, &end, 10) : *p;
            if (key >= 2 && key < 128) {
                if (map[key] < 0)
                    map[key] = inside ? drawn_size(!digit ? key : dims_around(p) > 3 ? 'E' : 2, bound[key]) : key;
                n += (size_t)snprintf(out + n, size - n, "%ld", map[key]);
            } else {
                n += (size_t)snprintf(out + n, size - n, "%ld", key);
            }
            p = end;
        } else {
            out[n++] = *p++;
        }
    }
    out[n] = 0;
}

/* ---- inputs: values once, then in any dtype on any device */

typedef struct inputs {
    dl_tensor *base[MAX_INPUTS];
    int layout[MAX_INPUTS];
    dl_dtype dtype; /* of floating inputs */
    int device;
    double eps; /* of make_moved */
    int move;   /* likewise: which of MOVES */
} inputs;

/* One of: contiguous; with gaps and reversed; a slice of a larger tensor that begins at an odd offset. */
static dl_tensor *laid_out(dl_tensor *x, int layout) {
    if (!layout) return must(dl_clone(x));
    if (layout == 1) return stretched(x);
    long shape[DL_MAX_DIM], one = 1, stop;
    int n = dl_ndim(x);
    for (int i = 0; i < n; i++) shape[i] = dl_shape(x)[i] + 3;
    dl_tensor *v = must(dl_tensor_zeros(n, shape, dl_dtype_of(x), dl_device_of(x)));
    for (int i = 0; i < n; i++) {
        stop = 1 + dl_shape(x)[i];
        dl_tensor *next = must(dl_slice(v, i, &one, &stop, 1));
        dl_unref(v);
        v = next;
    }
    ok(dl_assign(v, x));
    dl_tensor *d = must(dl_detach(v));
    dl_unref(v);
    return d;
}

static dl_tensor *make_input(void *arg, int i, const char *token) {
    inputs *in = arg;
    (void)token;
    dl_tensor *x = in->base[i];
    dl_tensor *cast = in_dtype(x, in->dtype);
    dl_tensor *there = must(dl_to_device(cast, in->device)), *own = laid_out(there, in->layout[i]);
    dl_unref(cast), dl_unref(there);
    return own;
}

static dl_tensor *make_base(void *arg, int i, const char *token) {
    inputs *in = arg;
    in->base[i] = sample_input(token, in->dtype);
    in->layout[i] = (int)draw(3);
    return must(dl_clone(in->base[i]));
}

/* What rounds off, of a number: 16-bit kernels compute in f32, but a row made of others hands on 16 bits. */
static double rounding(const dl_op *op, dl_dtype dtype) {
    if (dtype == DL_F64) return 0x1p-53;
    return dtype == DL_BF16 && op->compose ? 0x1p-9 : 0x1p-24;
}

/* The same as f64 on the CPU, each floating value moved up or down by in->eps of it. */
static dl_tensor *make_moved(void *arg, int i, const char *token) {
    inputs *in = arg;
    inputs there = *in;
    there.dtype = DL_F64, there.device = 0;
    there.layout[i] = 0;
    dl_tensor *t = make_input(&there, i, token);
    const bool complex = dl_dtype_of(t) == DL_C128;
    double *x = dl_dtype_of(t) == DL_F64 || complex ? dl_data(t) : NULL;
    uint64_t bits = 88172645463325252u + (uint64_t)(i + in->move * MAX_INPUTS);
    for (long k = 0; x && k < dl_numel(t) * (1 + complex); k++) {
        bits ^= bits << 13, bits ^= bits >> 7, bits ^= bits << 17;
        x[k] *= 1 + (bits >> 40 & 1 ? in->eps : -in->eps);
    }
    return t;
}

/* ---- comparison */

static int failures, compared, refused, holes;
static double closest; /* the largest error seen, as a fraction of the allowed one */

static long most_elements(const call *c) {
    long most = 1;
    for (int i = 0; i < c->nin; i++)
        if (c->in[i] && dl_numel(c->in[i]) > most) most = dl_numel(c->in[i]);
    for (int i = 0; i < MAX_RESULTS; i++)
        if (c->result[i] && dl_numel(c->result[i]) > most) most = dl_numel(c->result[i]);
    return most;
}

/* Relative to the size of the expected value; k: how many numbers went into one. */
static double allowed(dl_dtype dtype, double k) {
    switch (dtype) {
    case DL_F64: return 1e-13 * fmax(1, sqrt(k) / 10);
    case DL_F32: return fmax(3e-7, 3e-8 * sqrt(k));
    case DL_BF16: return 1e-2;
    default: return 0;
    }
}

/* How far results are off. `least`: the size of an element that counts as nothing; `sway`: what an element moves by
 * when operands move by a rounding. Where few terms nearly cancel that is more than is allowed otherwise, and no kernel
 * can do better: four times that is taken off the element's own error, but never more than a part of its size. */
typedef struct gap {
    double all; /* relative to the size of all, as vectors */
    double one; /* of the worst element, relative to its size or the elements' root mean square */
} gap;

static gap gap_of(const dl_tensor *got, const dl_tensor *want, const double *sway, double least, double limit) {
    double most = fmax(0.05, 10 * limit);
    double *x = values(got), *y = values(want), num = 0, den = 0, n = (double)dl_numel(got);
    gap g = {0, 0};
    for (long i = 0; i < dl_numel(got); i++)
        if (isfinite(x[i]) && isfinite(y[i])) den += y[i] * y[i];
    double usual = n > 0 ? fmax(sqrt(den / n), least) : 0;
    for (long i = 0; i < dl_numel(got); i++) {
        if (isfinite(x[i]) && isfinite(y[i])) {
            double size = fmax(usual, fabs(y[i])), off = fabs(x[i] - y[i]);
            if (sway) off = fmax(0, off - fmin(4 * sway[i], most * size));
            num += off * off;
            if (off > g.one * size) g.one = off / size;
        } else if (!(x[i] == y[i] || (isnan(x[i]) && isnan(y[i])))) {
            num = g.one = INFINITY;
        }
    }
    free(x), free(y);
    if (num > 0) g.all = sqrt(num / n) / usual;
    return g;
}

/* By how much the results move at most; NULL where they have none, or are not floating numbers. */
typedef struct sways {
    double *of[MAX_RESULTS];
} sways;

static void add_sways(sways *s, const call *moved, const call *cpu) {
    for (int i = 0; i < MAX_RESULTS; i++) {
        const dl_tensor *a = moved->result[i], *b = cpu->result[i];
        if (!a || !b || !dl_dtype_is_float(dl_dtype_of(b))) continue;
        double *x = values(a), *y = values(b);
        if (!s->of[i]) s->of[i] = calloc((size_t)dl_numel(b) + 1, sizeof(double));
        assert_non_null(s->of[i]);
        for (long k = 0; k < dl_numel(b); k++)
            if (isfinite(x[k] - y[k])) s->of[i][k] = fmax(s->of[i][k], fabs(x[k] - y[k]));
        free(x), free(y);
    }
}

static void complain(const call *c, const char *text, const char *what, double error, double limit) {
    print_error("%s (%s): %s: off by %.3g, allowed %.3g %s\n", c->op->name, text, what, error, limit,
                error > 0 ? "" : dl_errmsg());
    failures++;
}

/* How much more than the rounding of f32 and 16 bits these rows make of an error: factors by the number of rows,
 * inverses by the condition of the matrices, gradients through them by its square, vectors and their gradients by the
 * distance of neighbouring values, the place of a quantile between two elements, sums whose terms nearly cancel. */
static double amplified(const call *c, int result) {
    static const struct {
        const char *op;
        bool gradient_only;
        double by;
    } rows[] = {{"factor_lu", false, 4},
                {"factor_cholesky", true, 4},
                {"solve_square", false, 8},
                {"solve_triangle", true, 4},
                {"cholesky", true, 4},
                {"solve", true, 4},
                {"solve_ex", false, 4},
                {"inv", true, 4},
                {"cond", true, 4},
                {"pinv", false, 200},
                {"matrix_norm", true, 50},
                {"sinc", true, 50},
                {"beta_entropy", false, 2},
                {"bernoulli_kl", false, 2},
                {"half_normal_kl", false, 2},
                {"i1", true, 2},
                {"student_t_log_prob", true, 2},
                {"matrix_exp", true, 2},
                {"rsqrt", true, 2},
                {"cholesky_solve", true, 4},
                {"slogdet", true, 4},
                {"lu_diagonal", true, 2}, /* solutions with two triangles */
                {"factor_qr", true, 500},
                {"qr", true, 500},
                {"lstsq", true, 500},
                {"eigvalsh", true, 50},
                {"svdvals", true, 50},
                {"quantile", true, 50},
                {"nanquantile", true, 50},
                {"dirichlet_kl", false, 8},
                {"cauchy_kl", true, 2},
                {"cosine_embedding_loss", true, 4},
                {"exponential_kl", false, 8},
                {"multivariate_normal_kl", false, 8},
                {"attention", true, 4},
                {"ctc_paths", true, 2}, /* sums of logarithms, over all steps */
                {"norm_groups", true, 2},
                {"instance_norm", true, 100}, /* of two elements only eps is left of the gradient */
                {"geometric_kl", false, 8},
                {"inverse_gamma_kl", true, 2},
                {"binomial_kl", false, 8},
                {"i1e", true, 2},
                {"batch_norm", false, 2},
                {"batch_norm_relu", false, 2}};
    if (c->op->flags & DL_F_SIGNS) return 500;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(c->op->name, rows[i].op)) return rows[i].gradient_only && result < DL_MAX_OUT ? 1 : rows[i].by;
    return 1;
}

static void compare(call *gpu, call *cpu, const sways *sway, const char *text) {
    long most = most_elements(gpu), widest = 1;
    char what[32];
    for (int i = 0; i < gpu->nin; i++)
        for (int d = 0; gpu->in[i] && d < dl_ndim(gpu->in[i]); d++)
            if (dl_shape(gpu->in[i])[d] > widest) widest = dl_shape(gpu->in[i])[d];
    if (gpu->op->flops) widest = most; /* sums over several dimensions */
    for (int i = 0; i < MAX_RESULTS; i++) {
        dl_tensor *got = gpu->result[i], *want = cpu->result[i];
        snprintf(what, sizeof what, i < DL_MAX_OUT ? "result %d" : "gradient %d", i % DL_MAX_OUT);
        if (!got && !want) continue;
        bool alike = got && want && dl_ndim(got) == dl_ndim(want);
        for (int d = 0; alike && d < dl_ndim(got); d++) alike = dl_shape(got)[d] == dl_shape(want)[d];
        double k = alike && dl_numel(got) ? (double)most / (double)dl_numel(got) : 1;
        /* a gradient may be the small sum of k large parts */
        double least = i < DL_MAX_OUT ? 1e-4 : 0.1 * k;
        double limit = alike ? allowed(dl_dtype_of(got), fmax(k, (double)widest)) : 0;
        /* made from the logarithms kept, whose last of 8 bits is a percent of what they stand for */
        if (i >= DL_MAX_OUT && !strcmp(gpu->op->name, "log_softmax") && limit >= 1e-2) limit *= 2;
        /* y (g - sum of g y): few terms may nearly cancel */
        if (i >= DL_MAX_OUT && !strcmp(gpu->op->name, "softmax")) limit *= 2;
        if (alike && dl_dtype_of(got) != DL_F64) limit *= amplified(gpu, i);
        /* made of other rows, each of which rounds what it hands on */
        if (gpu->op->compose) limit *= 4;
        gap error = alike ? gap_of(got, want, sway->of[i], least, limit) : (gap){INFINITY, INFINITY};
        /* a single one stands out among thousands, whose size says little about it */
        double worst = fmax(error.all, error.one / EXTREME);
        if (!(worst <= limit)) complain(gpu, text, what, worst, limit);
        if (limit > 0 && worst <= limit && worst / limit > closest) closest = worst / limit;
        compared++;
    }
}

/* What is joined rounds between its parts, as if they had been stored, and that decides which of two is the largest. */
static bool rounds_between(const dl_op *op) { return !strcmp(op->name, "relu_max_pool2d"); }

/* Does the CPU refuse the dtype of the call, too? */
static bool is_refused_on_cpu(const dl_op *op, const char *text, dl_dtype dtype, inputs *in) {
    call c = {.op = op};
    in->dtype = dtype, in->device = 0;
    parse_call(&c, text, make_input, in);
    bool refused = !run(&c) && dl_failed() == DL_ERR_DTYPE;
    unload(&c);
    return refused;
}

/* Elements of the largest input, whose values are not made when there are too many. */
static double largest_input(const char *text) {
    double largest = 0;
    for (const char *p = text; (p = strchr(p, '[')); p++) {
        double n = 1;
        const char *at = p;
        do n *= (double)strtol(at + 1, (char **)&at, 10);
        while (*at == ',');
        largest = fmax(largest, n);
    }
    return largest;
}

/* True: there was something to compare, or the row has no kernel there. */
static bool one_call(const dl_op *op, const char *text, dl_dtype dtype) {
    call plan = {.op = op}, cpu = {.op = op}, gpu = {.op = op};
    sways sway = {{0}};
    inputs in = {.dtype = dtype};
    bool met = false;
    if (largest_input(text) > MOST) return false;
    parse_call(&plan, text, make_base, &in);
    for (int i = 0; i < plan.nin; i++)
        if (op->mutates >> i & 1) in.layout[i] = 0;
    if (most_elements(&plan) <= MOST) {
        in.dtype = rounds_between(op) ? dtype : DL_F64, in.device = 0;
        parse_call(&cpu, text, make_input, &in);
        in.dtype = dtype, in.device = GPU;
        parse_call(&gpu, text, make_input, &in);
        bool there = run(&cpu);
        dl_status code = there ? DL_OK : dl_failed();
        bool here = run(&gpu), steps = op->mutates || rounds_between(op);
        /* of an index outside a GPU tells at the next synchronisation, and once more of the one in the gradient */
        if (!there) here = dl_device_synchronize(GPU) == DL_OK && here;
        in.dtype = dtype, in.eps = rounding(op, dtype);
        for (in.move = 0; here && there && !steps && in.move < MOVES; in.move++) {
            call moved = {.op = op};
            parse_call(&moved, text, make_moved, &in);
            if (run(&moved)) add_sways(&sway, &moved, &cpu);
            unload(&moved);
        }
        if (!here && (dl_failed() == DL_ERR_UNSUPPORTED ||
                      (dl_failed() == DL_ERR_DTYPE && is_refused_on_cpu(op, text, dtype, &in))))
            holes++, met = true;
        else if (here && there)
            compare(&gpu, &cpu, &sway, text), met = true;
        else if (here != there || dl_failed() != code)
            complain(&gpu, text, here ? "fails on the CPU only" : "fails", 0, 0);
        else
            refused++;
        unload(&cpu), unload(&gpu);
        for (int i = 0; i < MAX_RESULTS; i++) free(sway.of[i]);
    }
    unload(&plan);
    for (int i = 0; i < MAX_INPUTS; i++) dl_unref(in.base[i]);
    return met;
}

/* Steps of these fall elsewhere when an operand is rounded to 16 bits; random recurrent weights make every error grow
 * from step to step, and cuDNN's tanh is an approximation. */
static bool too_coarse(const dl_op *op, dl_dtype dtype) {
    static const char *const rows[] = {
        "remainder",       "floor_divide",           "fmod",    "quantile", "nanquantile", "histc",
        "interval_counts", "conv2d_relu_max_pool2d", "isclose", "hardtanh", "threshold",   "gumbel_softmax"};
    bool listed = false;
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) listed = listed || !strcmp(op->name, rows[i]);
    if (dtype != DL_F64 && !strcmp(op->name, "matrix_rank")) return true; /* singular values lie beside a threshold */
    return (dtype == DL_BF16 && listed) || (dtype != DL_F64 && is_recurrent(op));
}

static void one_row(const dl_op *op, const char *samples, bool keep_digits, int rounds, dl_dtype dtype) {
    bool met = false;
    for (int round = 0; round < (met || !round ? rounds : 4 * ROUNDS); round++)
        for (const char *p = samples; *p;) {
            char text[400];
            size_t n = strcspn(p, ";");
            snprintf(text, sizeof text, "%.*s", (int)n, p);
            p += n, p += strspn(p, "; ");
            char sized[512];
            resized(text, sized, sizeof sized, keep_digits);
            met = one_call(op, sized, dtype) || met;
        }
    if (!met) print_error("%s: no drawn call was possible\n", op->name), failures++;
}

static void rows(dl_dtype dtype) {
    NEEDS_GPU();
    const char *chosen = getenv("DL_TEST_SEED"), *row = getenv("DL_TEST_ROW");
    unsigned long seed = chosen ? strtoul(chosen, NULL, 10) : 20240607;
    failures = compared = refused = holes = 0, closest = 0;
    const dl_op *op;
    for (int i = 0; (op = dl_op_at(i)); i++) {
        const char *samples = op->samples;
        bool own = false;
        int rounds = ROUNDS;
        for (unsigned k = 0; k < sizeof other / sizeof *other; k++)
            if (!strcmp(other[k].op, op->name)) samples = other[k].samples, rounds = other[k].rounds, own = true;
        if (!samples || !*samples || !op->in_max || too_coarse(op, dtype)) continue;
        if (row && strcmp(row, op->name)) continue;
        state_of_draws = seed * 2 + 1; /* each row has draws of its own, whichever rows there are */
        for (const char *c = op->name; *c; c++) state_of_draws = state_of_draws * 31 + (unsigned char)*c;
        struct timespec start, end;
        clock_gettime(CLOCK_MONOTONIC, &start);
        one_row(op, samples, own, rounds, dtype);
        clock_gettime(CLOCK_MONOTONIC, &end);
        if (end.tv_sec - start.tv_sec > 1)
            print_message("%s took %ld s\n", op->name, (long)(end.tv_sec - start.tv_sec));
    }
    print_message("seed %lu: %d results compared, the closest at %.0f%% of what is allowed; %d calls refused alike, %d "
                  "without a kernel\n",
                  seed, compared, 100 * closest, refused, holes);
    assert_int_equal(failures, 0);
}

static void in_f64(void **state) { (void)state, rows(DL_F64); }
static void in_f32(void **state) { (void)state, rows(DL_F32); }
static void in_bf16(void **state) { (void)state, rows(DL_BF16); }

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_f64), cmocka_unit_test(in_f32), cmocka_unit_test(in_bf16)};
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
