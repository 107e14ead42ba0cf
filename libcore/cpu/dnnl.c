/* oneDNN: loading, and making and running convolutions. Versions 2 and 3 differ in how descriptors are made: v2 has
 * structures and op descriptors, v3 opaque objects and one call; `desc`, desc_* and make_pd hide that. */
#include "cpu/dnnl.h"

#ifndef DL_HAVE_DNNL

dl_dnnl_conv *dl_dnnl_conv_new(dl_dnnl_kind kind, const dl_conv *g, bool bias) {
    (void)kind, (void)g, (void)bias;
    return NULL;
}
void dl_dnnl_conv_free(dl_dnnl_conv *c) { (void)c; }
bool dl_dnnl_conv_run(dl_dnnl_conv *c, void *image, void *weight, void *bias, void *result, bool fresh_weight) {
    (void)c, (void)image, (void)weight, (void)bias, (void)result, (void)fresh_weight;
    return false;
}

#else

#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdlib.h>

#define COMMON_FUNCTIONS(X)                                                                                            \
    X(dnnl_engine_create)                                                                                              \
    X(dnnl_stream_create)                                                                                              \
    X(dnnl_stream_wait)                                                                                                \
    X(dnnl_memory_create)                                                                                              \
    X(dnnl_memory_destroy)                                                                                             \
    X(dnnl_memory_set_data_handle)                                                                                     \
    X(dnnl_memory_desc_equal)                                                                                          \
    X(dnnl_memory_desc_get_size)                                                                                       \
    X(dnnl_primitive_create)                                                                                           \
    X(dnnl_primitive_execute)                                                                                          \
    X(dnnl_primitive_destroy)                                                                                          \
    X(dnnl_primitive_desc_query_md)                                                                                    \
    X(dnnl_primitive_desc_destroy)                                                                                     \
    X(dnnl_reorder_primitive_desc_create)

#if DNNL_VERSION_MAJOR >= 3
#define SONAME "libdnnl.so.3"
#define FUNCTIONS(X)                                                                                                   \
    COMMON_FUNCTIONS(X)                                                                                                \
    X(dnnl_memory_desc_create_with_strides)                                                                            \
    X(dnnl_memory_desc_create_with_tag)                                                                                \
    X(dnnl_memory_desc_destroy)                                                                                        \
    X(dnnl_convolution_forward_primitive_desc_create)                                                                  \
    X(dnnl_convolution_backward_data_primitive_desc_create)                                                            \
    X(dnnl_convolution_backward_weights_primitive_desc_create)
#else
#define SONAME "libdnnl.so.2"
#define FUNCTIONS(X)                                                                                                   \
    COMMON_FUNCTIONS(X)                                                                                                \
    X(dnnl_memory_desc_init_by_strides)                                                                                \
    X(dnnl_memory_desc_init_by_tag)                                                                                    \
    X(dnnl_primitive_desc_create)                                                                                      \
    X(dnnl_dilated_convolution_forward_desc_init)                                                                      \
    X(dnnl_dilated_convolution_backward_data_desc_init)                                                                \
    X(dnnl_dilated_convolution_backward_weights_desc_init)
#endif

/* The functions by name, without dnnl_: lib.engine_create is pasted from the list. */
static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    bool ready;
} lib;

static void load(void) {
    void *so = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!so) return;
    bool all = true;
#define X(name) all = (lib.name = (__typeof__(&name))dlsym(so, #name)) && all;
    FUNCTIONS(X)
#undef X
    lib.ready = all && lib.dnnl_engine_create(&lib.engine, dnnl_cpu, 0) == dnnl_success &&
                lib.dnnl_stream_create(&lib.stream, lib.engine, dnnl_stream_default_flags) == dnnl_success;
}

/* ---- descriptors of memory */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t desc; /* NULL: failed, or absent */
typedef const_dnnl_memory_desc_t desc_ref;
static desc_ref ref(const desc *d) { return *d; }
static void desc_free(desc *d) {
    if (*d) lib.dnnl_memory_desc_destroy(*d);
    *d = NULL;
}
#else
typedef dnnl_memory_desc_t desc;
typedef const dnnl_memory_desc_t *desc_ref;
static desc_ref ref(const desc *d) { return d->ndims ? d : NULL; }
static void desc_free(desc *d) { d->ndims = 0; }
#endif

/* strides NULL: any order, as the library likes it. */
static bool desc_make(desc *d, int n, const dnnl_dim_t *dims, const dnnl_dim_t *strides) {
    dnnl_dims_t size = {0}, step = {0};
    for (int i = 0; i < n; i++) size[i] = dims[i], step[i] = strides ? strides[i] : 0;
#if DNNL_VERSION_MAJOR >= 3
    if (strides) return lib.dnnl_memory_desc_create_with_strides(d, n, size, dnnl_f32, step) == dnnl_success;
    return lib.dnnl_memory_desc_create_with_tag(d, n, size, dnnl_f32, dnnl_format_tag_any) == dnnl_success;
#else
    if (strides) return lib.dnnl_memory_desc_init_by_strides(d, n, size, dnnl_f32, step) == dnnl_success;
    return lib.dnnl_memory_desc_init_by_tag(d, n, size, dnnl_f32, dnnl_format_tag_any) == dnnl_success;
#endif
}

/* ---- convolutions */

enum { IMAGE, WEIGHT, RESULT, BIAS, PLAIN, NDESC }; /* PLAIN: weights as tensors hold them; WEIGHT: as oneDNN does */

struct dl_dnnl_conv {
    dl_dnnl_kind kind;
    dnnl_primitive_t conv, reorder; /* reorder of the weights, NULL when both orders are one */
    dnnl_memory_t mem[NDESC];
    void *weights; /* in oneDNN's order */
    size_t bytes;
};

typedef struct setup {
    desc d[NDESC];
    dnnl_dims_t stride, dilation, left, right;
} setup;

static bool describe(setup *s, const dl_conv *g, bool bias) {
    dnnl_dim_t H = g->in[0], W = g->in[1], P = g->out[0], Q = g->out[1], C = g->C, O = g->O, G = g->groups;
    dnnl_dim_t og = O / G, cg = C / G, kh = g->k[0], kw = g->k[1];
    for (int i = 0; i < 2; i++)
        s->stride[i] = g->stride[i], s->dilation[i] = g->dil[i] - 1, s->left[i] = s->right[i] = g->pad[i];
    dnnl_dim_t w[] = {G, og, cg, kh, kw}, ws[] = {og * cg * kh * kw, cg * kh * kw, kh * kw, kw, 1};
    int skip = G == 1, n = 5 - skip;
    return desc_make(&s->d[IMAGE], 4, (dnnl_dim_t[]){g->N, C, H, W}, (dnnl_dim_t[]){H * W * C, 1, W * C, C}) &&
           desc_make(&s->d[RESULT], 4, (dnnl_dim_t[]){g->N, O, P, Q}, (dnnl_dim_t[]){P * Q * O, 1, Q * O, O}) &&
           desc_make(&s->d[PLAIN], n, w + skip, ws + skip) && desc_make(&s->d[WEIGHT], n, w + skip, NULL) &&
           (!bias || desc_make(&s->d[BIAS], 1, &O, (dnnl_dim_t[]){1}));
}

#if DNNL_VERSION_MAJOR >= 3
static bool make_pd(dl_dnnl_kind kind, const setup *s, dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd) {
    const desc *d = s->d;
    dnnl_status_t e;
    if (kind == DL_DNNL_FORWARD)
        e = lib.dnnl_convolution_forward_primitive_desc_create(
            pd, lib.engine, dnnl_forward_inference, dnnl_convolution_direct, d[IMAGE], d[WEIGHT], d[BIAS], d[RESULT],
            s->stride, s->dilation, s->left, s->right, NULL);
    else if (kind == DL_DNNL_DX)
        e = lib.dnnl_convolution_backward_data_primitive_desc_create(pd, lib.engine, dnnl_convolution_direct, d[IMAGE],
                                                                     d[WEIGHT], d[RESULT], s->stride, s->dilation,
                                                                     s->left, s->right, hint, NULL);
    else
        e = lib.dnnl_convolution_backward_weights_primitive_desc_create(pd, lib.engine, dnnl_convolution_direct,
                                                                        d[IMAGE], d[WEIGHT], NULL, d[RESULT], s->stride,
                                                                        s->dilation, s->left, s->right, hint, NULL);
    return e == dnnl_success;
}
#else
static bool make_pd(dl_dnnl_kind kind, const setup *s, dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd) {
    const desc *d = s->d;
    dnnl_convolution_desc_t op;
    dnnl_status_t e;
    if (kind == DL_DNNL_FORWARD)
        e = lib.dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct,
                                                           &d[IMAGE], &d[WEIGHT], ref(&d[BIAS]), &d[RESULT], s->stride,
                                                           s->dilation, s->left, s->right);
    else if (kind == DL_DNNL_DX)
        e = lib.dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &d[IMAGE], &d[WEIGHT],
                                                                 &d[RESULT], s->stride, s->dilation, s->left, s->right);
    else
        e = lib.dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &d[IMAGE], &d[WEIGHT],
                                                                    NULL, &d[RESULT], s->stride, s->dilation, s->left,
                                                                    s->right);
    return e == dnnl_success && lib.dnnl_primitive_desc_create(pd, &op, NULL, lib.engine, hint) == dnnl_success;
}
#endif

static bool add_memory(dl_dnnl_conv *c, int which, desc_ref d, void *data) {
    return lib.dnnl_memory_create(&c->mem[which], d, lib.engine, data) == dnnl_success;
}

/* Memories, and for weights in another order the buffer and the primitive that fills or reads it. */
static bool add_memories(dl_dnnl_conv *c, const setup *s, dnnl_primitive_desc_t pd) {
    desc_ref own = lib.dnnl_primitive_desc_query_md(
        pd, c->kind == DL_DNNL_DW ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    desc_ref plain = ref(&s->d[PLAIN]);
    if (!own || !add_memory(c, IMAGE, ref(&s->d[IMAGE]), NULL) || !add_memory(c, RESULT, ref(&s->d[RESULT]), NULL) ||
        !add_memory(c, PLAIN, plain, NULL))
        return false;
    if (ref(&s->d[BIAS]) && !add_memory(c, BIAS, ref(&s->d[BIAS]), NULL)) return false;
    if (lib.dnnl_memory_desc_equal(own, plain)) return true;
    c->bytes = lib.dnnl_memory_desc_get_size(own);
    c->weights = dl_host_alloc(c->bytes);
    if (!c->weights || !add_memory(c, WEIGHT, own, c->weights)) return false;
    bool out = c->kind == DL_DNNL_DW;
    dnnl_primitive_desc_t rd;
    if (lib.dnnl_reorder_primitive_desc_create(&rd, out ? own : plain, lib.engine, out ? plain : own, lib.engine,
                                               NULL) != dnnl_success)
        return false;
    bool good = lib.dnnl_primitive_create(&c->reorder, rd) == dnnl_success;
    lib.dnnl_primitive_desc_destroy(rd);
    return good;
}

static bool build(dl_dnnl_conv *c, const setup *s) {
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    bool good = c->kind == DL_DNNL_FORWARD || make_pd(DL_DNNL_FORWARD, s, NULL, &hint);
    good = good && make_pd(c->kind, s, hint, &pd) && lib.dnnl_primitive_create(&c->conv, pd) == dnnl_success;
    good = good && add_memories(c, s, pd);
    if (pd) lib.dnnl_primitive_desc_destroy(pd);
    if (hint) lib.dnnl_primitive_desc_destroy(hint);
    return good;
}

dl_dnnl_conv *dl_dnnl_conv_new(dl_dnnl_kind kind, const dl_conv *g, bool bias) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load);
    if (!lib.ready) return NULL;
    dl_dnnl_conv *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->kind = kind;
    setup s = {0};
    bool good = describe(&s, g, bias) && build(c, &s);
    for (int i = 0; i < NDESC; i++) desc_free(&s.d[i]);
    if (good) return c;
    dl_dnnl_conv_free(c);
    return NULL;
}

void dl_dnnl_conv_free(dl_dnnl_conv *c) {
    if (!c) return;
    for (int i = 0; i < NDESC; i++)
        if (c->mem[i]) lib.dnnl_memory_destroy(c->mem[i]);
    if (c->conv) lib.dnnl_primitive_destroy(c->conv);
    if (c->reorder) lib.dnnl_primitive_destroy(c->reorder);
    if (c->weights) dl_host_free(c->weights, c->bytes);
    free(c);
}

static bool reorder(dl_dnnl_conv *c, int from, int to) {
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, c->mem[from]}, {DNNL_ARG_TO, c->mem[to]}};
    return lib.dnnl_primitive_execute(c->reorder, lib.stream, 2, args) == dnnl_success;
}

bool dl_dnnl_conv_run(dl_dnnl_conv *c, void *image, void *weight, void *bias, void *result, bool fresh_weight) {
    static const int names[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                    {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                    {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    const int *name = names[c->kind];
    void *data[NDESC] = {[IMAGE] = image, [RESULT] = result, [BIAS] = bias, [PLAIN] = weight};
    for (int i = 0; i < NDESC; i++)
        if (c->mem[i] && data[i] && lib.dnnl_memory_set_data_handle(c->mem[i], data[i]) != dnnl_success) return false;
    int w = c->reorder ? WEIGHT : PLAIN;
    if (c->reorder && c->kind != DL_DNNL_DW && fresh_weight && !reorder(c, PLAIN, WEIGHT)) return false;
    dnnl_exec_arg_t args[] = {
        {name[0], c->mem[IMAGE]}, {name[1], c->mem[w]}, {name[2], c->mem[RESULT]}, {DNNL_ARG_BIAS, c->mem[BIAS]}};
    if (lib.dnnl_primitive_execute(c->conv, lib.stream, c->mem[BIAS] ? 4 : 3, args) != dnnl_success) return false;
    if (c->reorder && c->kind == DL_DNNL_DW && !reorder(c, WEIGHT, PLAIN)) return false;
    return lib.dnnl_stream_wait(lib.stream) == dnnl_success;
}
#endif
