/* Blocks of transformers and stacks of them, with the parts, names and order of computation of PyTorch's. */
#include <stdio.h>
#include <string.h>

#include "nn/layers.h"
#include "ops/compose/compose.h"
#include "dlcore/arithmetic.h"
#include "dlcore/norm.h"
#include "dlcore/unary.h"

/* ---------------------------------------------------------------- parts */

static dl_status check_block(const dl_module *m) {
    const char *kind = m->row->kind.name, *activation = dl_m_opt(m, "activation")->u.s;
    long size = dl_m_int(m, "d_model"), heads = dl_m_int(m, "nhead"), inner = dl_m_int(m, "dim_feedforward");
    double p = dl_m_float(m, "dropout");
    if (size < 1 || heads < 1 || inner < 1)
        return dl_fail(DL_ERR_VALUE, "layer %s: d_model, nhead and dim_feedforward must be at least 1", kind);
    if (size % heads)
        return dl_fail(DL_ERR_VALUE, "layer %s: d_model must be divisible by nhead, %ld is not by %ld", kind, size,
                       heads);
    if (strcmp(activation, "relu") && strcmp(activation, "gelu"))
        return dl_fail(DL_ERR_VALUE, "layer %s: activation is relu or gelu, not '%s'", kind, activation);
    if (p >= 0 && p <= 1) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: dropout is a probability, between 0 and 1, not %g", kind, p);
}

dl_status dl_layer_transformer_layer_check(dl_module *m) { return check_block(m); }

static dl_status check_count(const dl_module *m, const char *option) {
    long n = dl_m_int(m, option);
    if (n >= 1 && n <= 1000) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "layer %s: %s must be 1 to 1000, not %ld", m->row->kind.name, option, n);
}

dl_status dl_layer_transformer_stack_check(dl_module *m) {
    DL_TRY(check_count(m, "num_layers"));
    return check_block(m);
}
dl_status dl_layer_transformer_check(dl_module *m) {
    DL_TRY(check_count(m, "num_encoder_layers"));
    DL_TRY(check_count(m, "num_decoder_layers"));
    return check_block(m);
}

static dl_arg of_int(const char *name, long v) { return (dl_arg){.name = name, .kind = DL_ARG_INT, .i = v}; }
static dl_arg of_bool(const char *name, long v) { return (dl_arg){.name = name, .kind = DL_ARG_BOOL, .i = v}; }
static dl_arg of_float(const char *name, double v) { return (dl_arg){.name = name, .kind = DL_ARG_FLOAT, .f = v}; }

static dl_status add_attention(dl_module *m, const char *name) {
    const dl_arg args[] = {of_int("embed_dim", dl_m_int(m, "d_model")), of_int("num_heads", dl_m_int(m, "nhead")),
                           of_float("dropout", dl_m_float(m, "dropout")), of_bool("bias", dl_m_int(m, "bias")),
                           of_bool("batch_first", dl_m_int(m, "batch_first"))};
    return dl_part_layer(m, name, "multiheadattention", args, 5);
}
static dl_status add_linear(dl_module *m, const char *name, long out) {
    const dl_arg args[] = {of_int("out_features", out), of_bool("bias", dl_m_int(m, "bias"))};
    return dl_part_layer(m, name, "linear", args, 2);
}
static dl_status add_norm(dl_module *m, const char *name, bool bias) {
    const dl_arg args[] = {of_float("eps", dl_m_float(m, "layer_norm_eps")), of_bool("bias", bias)};
    return dl_part_layer(m, name, "layernorm", args, 2);
}

static dl_status add_rest(dl_module *m, int norms) {
    char name[16];
    DL_TRY(add_linear(m, "linear1", dl_m_int(m, "dim_feedforward")));
    DL_TRY(add_linear(m, "linear2", dl_m_int(m, "d_model")));
    for (int i = 1; i <= norms; i++) {
        snprintf(name, sizeof name, "norm%d", i);
        DL_TRY(add_norm(m, name, dl_m_int(m, "bias")));
    }
    return DL_OK;
}

dl_status dl_layer_encoder_layer_parts(dl_module *m) {
    DL_TRY(add_attention(m, "self_attn"));
    return add_rest(m, 2);
}
dl_status dl_layer_decoder_layer_parts(dl_module *m) {
    DL_TRY(add_attention(m, "self_attn"));
    DL_TRY(add_attention(m, "multihead_attn"));
    return add_rest(m, 3);
}

/* The options that blocks and stacks of them share, as arguments; how many they are. */
enum { SHARED = 9 };
static void shared(const dl_module *m, dl_arg args[SHARED]) {
    static const char *const names[SHARED] = {"d_model",     "nhead",      "dim_feedforward",
                                              "dropout",     "activation", "layer_norm_eps",
                                              "batch_first", "norm_first", "bias"};
    for (int i = 0; i < SHARED; i++) {
        const dl_optval *v = dl_m_opt(m, names[i]);
        const dl_option_row *o = &m->row->kind.options[dl_option_find(&m->row->kind, names[i])];
        args[i] = (dl_arg){.name = names[i], .kind = o->kind};
        if (o->kind == DL_ARG_STR)
            args[i].s = v->u.s;
        else if (o->kind == DL_ARG_FLOAT)
            args[i].f = v->u.f;
        else
            args[i].i = v->u.i;
    }
}

static dl_status add_stack(dl_module *m, const char *kind, long n, bool norm) {
    dl_arg args[SHARED];
    char name[24];
    shared(m, args);
    DL_TRY(dl_part_layer(m, "layers", "list", NULL, 0));
    for (long i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%ld", i);
        DL_TRY(dl_part_layer(dl_part_of(m, "layers"), name, kind, args, SHARED));
    }
    return norm ? add_norm(m, "norm", dl_m_int(m, "bias")) : DL_OK;
}

dl_status dl_layer_encoder_parts(dl_module *m) {
    return add_stack(m, "transformerencoderlayer", dl_m_int(m, "num_layers"), dl_m_int(m, "norm"));
}
dl_status dl_layer_decoder_parts(dl_module *m) {
    return add_stack(m, "transformerdecoderlayer", dl_m_int(m, "num_layers"), dl_m_int(m, "norm"));
}

/* All matrices of a whole transformer start so. */
static dl_status start_matrix(void *ctx DL_UNUSED, dl_module *m, const char *path DL_UNUSED) {
    if (strcmp(m->row->kind.name, "linear")) return DL_OK;
    dl_optval *init = &m->opt[dl_option_find(&m->row->kind, "init")];
    strcpy(init->u.s, "xavier_uniform");
    return DL_OK;
}

dl_status dl_layer_transformer_parts(dl_module *m) {
    dl_arg args[SHARED + 2];
    shared(m, args);
    args[SHARED] = of_int("num_layers", dl_m_int(m, "num_encoder_layers")), args[SHARED + 1] = of_bool("norm", 1);
    DL_TRY(dl_part_layer(m, "encoder", "transformerencoder", args, SHARED + 2));
    args[SHARED].i = dl_m_int(m, "num_decoder_layers");
    DL_TRY(dl_part_layer(m, "decoder", "transformerdecoder", args, SHARED + 2));
    return dl_module_visit(m, start_matrix, NULL);
}

/* ---------------------------------------------------------------- blocks */

/* One run of a block, whose tensors are released with the pool. */
typedef struct block {
    dl_module *m;
    dl_pool *p;
} block;
#define B(expr) dl_keep(b->p, (expr))

static dl_tensor *dropped(const block *b, dl_tensor *x) {
    double p = dl_m_training(b->m) ? dl_m_float(b->m, "dropout") : 0;
    return x && p > 0 ? B(dl_dropout(x, p, 1)) : x;
}
static dl_tensor *run(const block *b, const char *name, dl_tensor *x) {
    return x ? B(dl_part_run(b->m, name, x)) : NULL;
}

/* What a sublayer adds to x: `masks` are its mask and padding mask. */
typedef struct masks {
    dl_tensor *mask, *padding, *causal;
} masks;

static dl_tensor *attend(const block *b, const char *name, dl_tensor *x, dl_tensor *keys, masks k) {
    dl_tensor *no = B(dl_scalar_i(0));
    dl_tensor *in[] = {x, keys, keys, k.padding, no, k.mask, no, k.causal};
    dl_pack *out = x && keys && no ? dl_part_call(b->m, name, in, 8) : NULL;
    dl_tensor *y = out ? B(dl_ref(dl_pack_tensor(out, 0))) : NULL;
    dl_pack_unref(out);
    return dropped(b, y);
}

static dl_tensor *feed(const block *b, dl_tensor *x) {
    bool relu = !strcmp(dl_m_opt(b->m, "activation")->u.s, "relu");
    dl_tensor *h = run(b, "linear1", x);
    dl_tensor *a = h ? B(relu ? dl_relu(h) : dl_gelu(h, "none")) : NULL;
    return dropped(b, run(b, "linear2", dropped(b, a)));
}

static dl_tensor *sum(const block *b, dl_tensor *x, dl_tensor *y) { return x && y ? B(dl_add(x, y)) : NULL; }

/* x plus a sublayer of it: with norm_first of the normalised x, else the sum is normalised. */
#define SUBLAYER(x, norm, expr)                                                                                        \
    do {                                                                                                               \
        dl_tensor *of = first ? run(b, norm, x) : (x);                                                                 \
        dl_tensor *y = of ? (expr) : NULL;                                                                             \
        x = sum(b, x, y);                                                                                              \
        if (!first) x = run(b, norm, x);                                                                               \
    } while (0)

static dl_pack *given(dl_tensor *x) { return x ? dl_pack_new(&x, 1, NULL, NULL) : NULL; }

enum { SRC, SRC_MASK, SRC_PADDING, SRC_CAUSAL };
dl_pack *dl_layer_encoder_layer_call(dl_module *m, dl_pack *in) {
    POOL;
    const block it = {m, p}, *b = &it;
    bool first = dl_m_int(m, "norm_first");
    masks k = {dl_pack_tensor(in, SRC_MASK), dl_pack_tensor(in, SRC_PADDING), dl_pack_tensor(in, SRC_CAUSAL)};
    dl_tensor *x = dl_pack_tensor(in, SRC);
    SUBLAYER(x, "norm1", attend(b, "self_attn", of, of, k));
    SUBLAYER(x, "norm2", feed(b, of));
    return given(x);
}

enum { TGT, MEMORY, TGT_MASK, MEMORY_MASK, TGT_PADDING, MEMORY_PADDING, TGT_CAUSAL, MEMORY_CAUSAL };
dl_pack *dl_layer_decoder_layer_call(dl_module *m, dl_pack *in) {
    POOL;
    const block it = {m, p}, *b = &it;
    bool first = dl_m_int(m, "norm_first");
    masks own = {dl_pack_tensor(in, TGT_MASK), dl_pack_tensor(in, TGT_PADDING), dl_pack_tensor(in, TGT_CAUSAL)};
    masks other = {dl_pack_tensor(in, MEMORY_MASK), dl_pack_tensor(in, MEMORY_PADDING),
                   dl_pack_tensor(in, MEMORY_CAUSAL)};
    dl_tensor *x = dl_pack_tensor(in, TGT), *memory = dl_pack_tensor(in, MEMORY);
    if (!memory)
        return dl_fail_hint(DL_ERR_VALUE, "y = decoder(x, memory)", "layer %s takes the memory of an encoder",
                            m->row->kind.name),
               NULL;
    SUBLAYER(x, "norm1", attend(b, "self_attn", of, of, own));
    SUBLAYER(x, "norm2", attend(b, "multihead_attn", of, memory, other));
    SUBLAYER(x, "norm3", feed(b, of));
    return given(x);
}

/* ---------------------------------------------------------------- stacks */

/* The layers one after another, each with the other inputs of the stack, then the norm if there is one. */
static dl_pack *stacked(dl_module *m, const dl_pack *in, int inputs) {
    POOL;
    const block it = {m, p}, *b = &it;
    dl_tensor *all[8] = {NULL}, *x = dl_pack_tensor(in, 0);
    for (int i = 1; i < inputs; i++) all[i] = dl_pack_tensor(in, i);
    for (long i = 0; i < dl_m_int(m, "num_layers") && x; i++) {
        char path[40];
        snprintf(path, sizeof path, "layers.%ld", i);
        all[0] = x;
        dl_pack *out = dl_part_call(m, path, all, inputs);
        dl_tensor *next = out ? dl_ref(dl_pack_tensor(out, 0)) : NULL;
        dl_pack_unref(out);
        dl_release(p); /* one layer's result is held at a time */
        x = next ? B(next) : NULL;
    }
    if (dl_m_int(m, "norm")) x = run(b, "norm", x);
    return given(x);
}

dl_pack *dl_layer_encoder_call(dl_module *m, dl_pack *in) { return stacked(m, in, 4); }
dl_pack *dl_layer_decoder_call(dl_module *m, dl_pack *in) {
    if (dl_pack_tensor(in, MEMORY)) return stacked(m, in, 8);
    return dl_fail_hint(DL_ERR_VALUE, "y = decoder(x, memory)", "layer %s takes the memory of an encoder",
                        m->row->kind.name),
           NULL;
}

static dl_tensor *whole(dl_module *m, const dl_pack *in) {
    enum { WHOLE_TGT = 1, MASK_SRC, MASK_TGT, MASK_MEMORY, PAD_SRC, PAD_TGT, PAD_MEMORY };
    dl_tensor *src[] = {dl_pack_tensor(in, 0), dl_pack_tensor(in, MASK_SRC), dl_pack_tensor(in, PAD_SRC)};
    dl_pack *memory = dl_part_call(m, "encoder", src, 3), *out = NULL;
    if (!memory) return NULL;
    dl_tensor *tgt[] = {dl_pack_tensor(in, WHOLE_TGT),   dl_pack_tensor(memory, 0),   dl_pack_tensor(in, MASK_TGT),
                        dl_pack_tensor(in, MASK_MEMORY), dl_pack_tensor(in, PAD_TGT), dl_pack_tensor(in, PAD_MEMORY)};
    out = dl_part_call(m, "decoder", tgt, 6);
    dl_tensor *y = out ? dl_ref(dl_pack_tensor(out, 0)) : NULL;
    dl_pack_unref(memory), dl_pack_unref(out);
    return y;
}

/* The source alone, as in a chain, is the target too. */
dl_pack *dl_layer_transformer_call(dl_module *m, dl_pack *in) {
    dl_tensor *src = dl_pack_tensor(in, 0);
    dl_pack *both = dl_pack_tensor(in, 1) ? dl_pack_ref(in) : dl_pack_new((dl_tensor *[]){src, src}, 2, NULL, NULL);
    DL_OWNED dl_tensor *y = both ? whole(m, both) : NULL;
    dl_pack_unref(both);
    return given(y);
}
