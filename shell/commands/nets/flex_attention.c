/* flex_attention: attention whose scores a function of the language changes, and which a mask of one makes sparse. */
#include <math.h>
#include <string.h>

#include "lang/session.h"
#include "dlcore/arithmetic.h"
#include "dlcore/compare.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/loss.h"
#include "dlcore/matmul.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"
#include "dlcore/where.h"

enum { BATCH, HEADS, QUERIES, KEYS, DIMS }; /* of scores */

/* 0, 1, ... along a dimension of the scores, of which the others have size 1. */
static dl_tensor *numbers(int dim, long n, int device) {
    long shape[DIMS] = {1, 1, 1, 1};
    const double end = (double)n;
    DLSH_OWNED dl_tensor *all = dl_arange(0, &end, 1, DL_I64, device);
    shape[dim] = n;
    return all ? dl_reshape(all, shape, DIMS) : NULL;
}

/* What a function makes of the scores (NULL: it takes none) and the numbers of batch, head, query and key. */
static dl_tensor *by_function(dlsh_session *s, dlsh_value fn, dl_tensor *scores, const long *size, int device) {
    dlsh_value in[DIMS + 1];
    int n = 0, good = 1;
    if (scores) in[n++] = dlsh_tensor(dl_ref(scores));
    for (int i = 0; i < DIMS; i++) {
        dl_tensor *t = numbers(i, size[i], device);
        good = good && t;
        in[n++] = dlsh_tensor(t);
    }
    dlsh_value out = dlsh_void();
    dl_status st = good ? dlsh_call(s, fn, &(dlsh_callargs){n, in, NULL}, &out) : dl_failed();
    for (int i = 0; i < n; i++)
        if (in[i].as.tensor) dlsh_drop(in[i]);
    if (!st && out.type != DLSH_TENSOR)
        st = dlsh_fail(DL_ERR_TYPE, "return where(q >= k, score, -inf)",
                       "a function of scores works on all of them at once and returns a tensor, got %s", dlsh_a(out));
    if (!st) return out.as.tensor;
    dlsh_drop(out);
    return NULL;
}

/* Heads of keys and values, each as often as queries share it. */
static dl_tensor *shared(dl_tensor *t, long heads) {
    const long own = dl_shape(t)[HEADS], dim = HEADS;
    if (own == heads) return dl_ref(t);
    DLSH_OWNED dl_tensor *times = dl_scalar_i(heads / own);
    return times ? dl_repeat_interleave(t, times, &dim) : NULL;
}

static dl_status check_sizes(const dlsh_args *a, dl_tensor *q, dl_tensor *k, dl_tensor *v) {
    if (dl_ndim(q) != DIMS || dl_ndim(k) != DIMS || dl_ndim(v) != DIMS)
        return dlsh_arg_fail(a, "query", DL_ERR_SHAPE, NULL,
                             "query, key and value have the shape [batch,heads,length,size]");
    const long *s = dl_shape(q), *r = dl_shape(k), *w = dl_shape(v);
    if (s[3] != r[3] || r[2] != w[2] || r[1] != w[1] || s[0] != r[0] || s[0] != w[0])
        return dlsh_arg_fail(a, "key", DL_ERR_SHAPE, NULL, "keys fit neither queries nor values in their sizes");
    if (s[1] == r[1]) return DL_OK;
    if (!dlsh_arg_bool(a, "enable_gqa") || !r[1] || s[1] % r[1])
        return dlsh_arg_fail(a, "key", DL_ERR_SHAPE,
                             "enable_gqa=true, with a number of heads that divides that of the queries",
                             "queries have %ld heads, keys %ld", s[1], r[1]);
    return DL_OK;
}

/* Scores as the function and the mask leave them, in f32 at least. */
static dl_tensor *scores_of(const dlsh_args *a, dl_tensor *q, dl_tensor *k) {
    const long size[DIMS] = {dl_shape(q)[0], dl_shape(q)[1], dl_shape(q)[2], dl_shape(k)[2]};
    const dlsh_value scale = *dlsh_arg(a, "scale"), mod = *dlsh_arg(a, "score_mod"), mask = *dlsh_arg(a, "block_mask");
    const double by = dlsh_is_number(scale) ? dlsh_number(scale) : 1 / sqrt((double)dl_shape(q)[3]);
    DLSH_OWNED dl_tensor *factor = dl_scalar_f(by), *turned = dl_permute(k, (const long[]){0, 1, 3, 2}, DIMS),
                         *product = turned ? dl_matmul(q, turned) : NULL;
    if (!product || !factor) return NULL;
    const int narrow = dl_dtype_of(product) == DL_F16 || dl_dtype_of(product) == DL_BF16;
    DLSH_OWNED dl_tensor *wide = dl_to_dtype(product, narrow ? DL_F32 : dl_dtype_of(product)),
                         *s = wide ? dl_mul(wide, factor) : NULL,
                         *changed = !s || mod.type == DLSH_NONE
                                        ? dl_ref(s)
                                        : by_function(dlsh_arg_session(a), mod, s, size, dl_device_of(q));
    if (!changed || mask.type == DLSH_NONE) return dl_ref(changed);
    DLSH_OWNED dl_tensor *none = dl_scalar_f(-INFINITY);
    return none ? dl_where(mask.as.tensor, changed, none) : NULL;
}

/* Values by the weights of their scores: 0 for a query that sees no key. */
static dl_tensor *attend(dl_tensor *s, dl_tensor *v) {
    const long last = KEYS;
    DLSH_OWNED dl_tensor *none = dl_scalar_f(-INFINITY), *zero = dl_scalar_f(0), *fixed = dl_detach(s),
                         *most = fixed ? dl_amax(fixed, &last, 1, 1) : NULL,
                         *blind = most && none ? dl_eq(most, none) : NULL,
                         *known = blind ? dl_where(blind, zero, s) : NULL, *p = known ? dl_softmax(known, -1) : NULL,
                         *seen = p ? dl_where(blind, zero, p) : NULL,
                         *weights = seen ? dl_to_dtype(seen, dl_dtype_of(v)) : NULL;
    return weights ? dl_matmul(weights, v) : NULL;
}

static dl_status flex_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *q = dlsh_arg_tensor(a, "query");
    const long last = KEYS;
    DLSH_TRY(check_sizes(a, q, dlsh_arg_tensor(a, "key"), dlsh_arg_tensor(a, "value")));
    if (!dl_shape(dlsh_arg_tensor(a, "key"))[2])
        return dlsh_arg_fail(a, "key", DL_ERR_SHAPE, NULL, "there are no keys to attend to");
    DLSH_OWNED dl_tensor *k = shared(dlsh_arg_tensor(a, "key"), dl_shape(q)[1]),
                         *v = k ? shared(dlsh_arg_tensor(a, "value"), dl_shape(q)[1]) : NULL,
                         *s = v ? scores_of(a, q, k) : NULL, *y = s ? attend(s, v) : NULL;
    if (!y) return dl_failed();
    if (!dlsh_arg_bool(a, "return_lse")) return dlsh_give(dlsh_tensor(dl_ref(y)), result);
    DLSH_OWNED dl_tensor *lse = dl_logsumexp(s, &last, 1, 0);
    if (!lse) return dl_failed();
    return dlsh_give(DLSH_LIST_OF(dlsh_tensor(dl_ref(y)), dlsh_tensor(dl_ref(lse))), result);
}

/* none: the mask is the same for all. */
static long size_arg(const dlsh_args *a, const char *name) {
    const dlsh_value *v = dlsh_arg(a, name);
    return v && v->type == DLSH_INT ? v->as.i : 1;
}

static dl_status mask_run(const dlsh_args *a, dlsh_value *result) {
    const long size[DIMS] = {size_arg(a, "B"), size_arg(a, "H"), size_arg(a, "Q_LEN"), size_arg(a, "KV_LEN")};
    for (int i = 0; i < DIMS; i++)
        if (size[i] < 1) return dlsh_arg_fail(a, "mask_mod", DL_ERR_VALUE, NULL, "sizes of a mask are at least 1");
    DLSH_OWNED dl_tensor *m = by_function(dlsh_arg_session(a), *dlsh_arg(a, "mask_mod"), NULL, size,
                                          dlsh_default_device()),
                         *bools = m ? dl_to_dtype(m, DL_BOOL) : NULL,
                         *whole = bools ? dl_expand(bools, size, DIMS) : NULL;
    return whole ? dlsh_give(dlsh_tensor(dl_ref(whole)), result) : dl_failed();
}

const dlsh_command flex_attention_commands[] = {
    DLSH_FN_ROW(
        "flex_attention", flex_run, "flex_attention(QUERY, KEY, VALUE, score_mod=, block_mask=)",
        "Attention of queries to keys, [batch,heads,length,size], whose scores a function changes: score_mod(score, b, "
        "h, "
        "q, k) gets all scores at once, with the numbers of batch, head, query and key in shapes that broadcast with "
        "them. "
        "It is made of products and a softmax, and so keeps the scores of all pairs in memory, batch * heads * length "
        "squared; scaled_dot_product_attention keeps none, and is the one to take where a mask says all.",
        DLSH_PARAMS({"query", .want = "tensor", .doc = "[batch,heads,length,size]"},
                    {"key", .want = "tensor", .doc = "the same, of as many keys as there are values"},
                    {"value", .want = "tensor", .doc = "what is summed by the weights"}),
        DLSH_OPTIONS(
            {"score_mod", DLSH_OPT_VALUE, "none", .doc = "fn (score, b, h, q, k) { ... }"},
            {"block_mask", DLSH_OPT_VALUE, "none", .want = "tensor|none",
             .doc = "from create_block_mask: where scores count; broadcasts with them"},
            {"scale", DLSH_OPT_VALUE, "none", .want = "float|none",
             .doc = "factor of the products; 1 / sqrt(size) when absent"},
            {"enable_gqa", DLSH_OPT_BOOL, "false", .doc = "several heads of queries share one of keys and values"},
            {"return_lse", DLSH_OPT_BOOL, "false", .doc = "also ln of the sum of exp of the scores of each query"}),
        .examples =
            "x = randn(1, 2, 5, 4)\n"
            "flex_attention(x, x, x, score_mod=fn (s, b, h, q, k) { return s - 0.5 * (h + 1) * abs(q - k) }).shape\n"
            "m = create_block_mask(fn (b, h, q, k) { return q >= k }, none, none, 5, 5)\n"
            "allclose(flex_attention(x, x, x, block_mask=m), "
            "scaled_dot_product_attention(x, x, x, is_causal=true), atol=1e-5)"),
    DLSH_FN_ROW(
        "create_block_mask", mask_run, "create_block_mask(MASK_MOD, B, H, Q_LEN, KV_LEN)",
        "A mask for flex_attention: a bool tensor [B,H,Q_LEN,KV_LEN] of what a function of the numbers of batch, head, "
        "query and key says.",
        DLSH_PARAMS({"mask_mod", .doc = "fn (b, h, q, k) { ... }"},
                    {"B", .want = "int|none", .doc = "batches; none: the same for all"},
                    {"H", .want = "int|none", .doc = "heads; none: the same for all"},
                    {"Q_LEN", .want = "int", .doc = "queries"}, {"KV_LEN", .want = "int", .doc = "keys"}),
        .examples = "create_block_mask(fn (b, h, q, k) { return abs(q - k) < 2 }, none, none, 4, 4)"),
    {0}};
