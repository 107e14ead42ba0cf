/* oneDNN: loading, and making and running convolutions, and products of matrices of bf16. Versions 2 and 3 differ in
 * how descriptors are made: v2 has structures and op descriptors, v3 opaque objects and one call; `desc`, desc_* and
 * make_pd hide that. */
#include "cpu/runtime/dnnl.h"

#ifndef DL_HAVE_DNNL

dl_status dl_dnnl_conv_new(dl_dnnl_kind kind DL_UNUSED, const dl_conv_nd *g DL_UNUSED, dl_dtype t DL_UNUSED,
                           bool bias DL_UNUSED, dl_dnnl_conv **out) {
    return *out = NULL, DL_OK;
}
void dl_dnnl_conv_free(dl_dnnl_conv *c) { (void)c; }
dl_status dl_dnnl_conv_run(dl_dnnl_conv *c DL_UNUSED, dl_tensor *image DL_UNUSED, dl_tensor *weight DL_UNUSED,
                           dl_tensor *bias DL_UNUSED, dl_tensor *result DL_UNUSED, bool fresh_weight DL_UNUSED) {
    return dl_fail(DL_ERR_INTERNAL, "this build has no oneDNN");
}
dl_status dl_dnnl_product(const dl_dnnl_matrices *p DL_UNUSED, bool *done) { return *done = false, DL_OK; }

#else

#include <dlfcn.h>
#include <dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define COMMON_FUNCTIONS(X)                                                                                            \
    X(dnnl_engine_create)                                                                                              \
    X(dnnl_stream_create)                                                                                              \
    X(dnnl_stream_wait)                                                                                                \
    X(dnnl_memory_create)                                                                                              \
    X(dnnl_memory_destroy)                                                                                             \
    X(dnnl_memory_set_data_handle)                                                                                     \
    X(dnnl_memory_desc_equal)                                                                                          \
    X(dnnl_memory_desc_get_size)                                                                                       \
    X(dnnl_primitive_attr_create)                                                                                      \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                                                         \
    X(dnnl_primitive_create)                                                                                           \
    X(dnnl_primitive_execute)                                                                                          \
    X(dnnl_primitive_destroy)                                                                                          \
    X(dnnl_primitive_desc_query)                                                                                       \
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
    X(dnnl_convolution_backward_weights_primitive_desc_create)                                                         \
    X(dnnl_matmul_primitive_desc_create)
#else
#define SONAME "libdnnl.so.2"
#define FUNCTIONS(X)                                                                                                   \
    COMMON_FUNCTIONS(X)                                                                                                \
    X(dnnl_memory_desc_init_by_strides)                                                                                \
    X(dnnl_memory_desc_init_by_tag)                                                                                    \
    X(dnnl_primitive_desc_create)                                                                                      \
    X(dnnl_dilated_convolution_forward_desc_init)                                                                      \
    X(dnnl_dilated_convolution_backward_data_desc_init)                                                                \
    X(dnnl_dilated_convolution_backward_weights_desc_init)                                                             \
    X(dnnl_matmul_desc_init)
#endif

/* The functions by name, without dnnl_: lib.engine_create is pasted from the list. */
static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratch memory comes from here, not from the library's own allocator */
    bool ready;
} lib;

static void load_once(void) {
    void *so = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!so) return;
    bool all = true;
#define X(name) all = (lib.name = (__typeof__(&name))dlsym(so, #name)) && all;
    FUNCTIONS(X)
#undef X
    lib.ready = all && lib.dnnl_engine_create(&lib.engine, dnnl_cpu, 0) == dnnl_success &&
                lib.dnnl_stream_create(&lib.stream, lib.engine, dnnl_stream_default_flags) == dnnl_success &&
                lib.dnnl_primitive_attr_create(&lib.attr) == dnnl_success &&
                lib.dnnl_primitive_attr_set_scratchpad_mode(lib.attr, dnnl_scratchpad_mode_user) == dnnl_success;
}

static bool load(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_once);
    return lib.ready;
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

/* strides NULL: the order that the library prefers. */
static bool desc_of(desc *d, int n, const dnnl_dim_t *dims, dnnl_data_type_t t, const dnnl_dim_t *strides) {
    dnnl_dims_t size = {0}, step = {0};
    for (int i = 0; i < n; i++) size[i] = dims[i], step[i] = strides ? strides[i] : 0;
#if DNNL_VERSION_MAJOR >= 3
    if (strides) return lib.dnnl_memory_desc_create_with_strides(d, n, size, t, step) == dnnl_success;
    return lib.dnnl_memory_desc_create_with_tag(d, n, size, t, dnnl_format_tag_any) == dnnl_success;
#else
    if (strides) return lib.dnnl_memory_desc_init_by_strides(d, n, size, t, step) == dnnl_success;
    return lib.dnnl_memory_desc_init_by_tag(d, n, size, t, dnnl_format_tag_any) == dnnl_success;
#endif
}

/* Is this made for processors that multiply bf16? What converts the operands is no faster than products of f32. */
static bool multiplies_bf16(dnnl_primitive_desc_t pd) {
    const char *name = NULL;
    dnnl_status_t e = lib.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return e == dnnl_success && name && (strstr(name, "core_bf16") || strstr(name, "amx"));
}

/* ---- convolutions */

/* PLAIN: weights as tensors hold them; WEIGHT: as oneDNN does; FORWARD_WEIGHT: those of the hint for a gradient. */
enum { IMAGE, WEIGHT, RESULT, BIAS, PLAIN, FORWARD_WEIGHT, NDESC };

/* A primitive, and the scratch memory that a run of it needs. */
typedef struct work {
    dnnl_primitive_t run;
    dnnl_memory_t scratch; /* NULL: it needs none */
    size_t bytes;
} work;

struct dl_dnnl_conv {
    dl_dnnl_kind kind;
    dnnl_data_type_t type;
    work conv, reorder; /* reorder of the weights, absent when both orders are one */
    dnnl_memory_t mem[NDESC];
    size_t bytes[NDESC]; /* of each memory, by its descriptor */
    void *weights;       /* in oneDNN's order */
};

typedef struct setup {
    desc d[NDESC];
    dnnl_dims_t stride, dilation, left, right;
} setup;

/* n sizes with the strides of a dense tensor; with channels_last the second is the innermost in memory. */
static bool describe_dense(desc *d, int n, const dnnl_dim_t *size, dnnl_data_type_t t, bool channels_last) {
    dnnl_dims_t step = {0};
    dnnl_dim_t next = channels_last ? size[1] : 1;
    for (int i = n - 1; i > channels_last; i--) step[i] = next, next *= size[i];
    if (channels_last) step[1] = 1;
    step[0] = next;
    return desc_of(d, n, size, t, step);
}

static bool describe(setup *s, const dl_dnnl_conv *c, const dl_conv_nd *g, bool bias) {
    const dnnl_data_type_t t = c->type, wt = c->kind == DL_DNNL_DW ? dnnl_f32 : t;
    const int dims = (int)g->dims, skip = g->groups == 1, n = dims + 3 - skip;
    dnnl_dims_t x = {g->N, g->C}, y = {g->N, g->O}, w = {g->groups, g->O / g->groups, g->C / g->groups};
    for (int i = 0; i < dims; i++) {
        x[2 + i] = g->in[i], y[2 + i] = g->out[i], w[3 + i] = g->k[i];
        s->stride[i] = g->stride[i], s->dilation[i] = g->dil[i] - 1, s->left[i] = s->right[i] = g->pad[i];
    }
    return describe_dense(&s->d[IMAGE], dims + 2, x, t, true) && describe_dense(&s->d[RESULT], dims + 2, y, t, true) &&
           describe_dense(&s->d[PLAIN], n, w + skip, wt, false) && desc_of(&s->d[WEIGHT], n, w + skip, wt, NULL) &&
           desc_of(&s->d[FORWARD_WEIGHT], n, w + skip, t, NULL) &&
           (!bias || desc_of(&s->d[BIAS], 1, &y[1], t, (dnnl_dim_t[]){1}));
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t make_pd(dl_dnnl_kind kind, const setup *s, dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd) {
    const desc *d = s->d;
    dnnl_status_t e;
    if (kind == DL_DNNL_FORWARD)
        e = lib.dnnl_convolution_forward_primitive_desc_create(
            pd, lib.engine, dnnl_forward_inference, dnnl_convolution_direct, d[IMAGE], d[FORWARD_WEIGHT], d[BIAS],
            d[RESULT], s->stride, s->dilation, s->left, s->right, lib.attr);
    else if (kind == DL_DNNL_DX)
        e = lib.dnnl_convolution_backward_data_primitive_desc_create(pd, lib.engine, dnnl_convolution_direct, d[IMAGE],
                                                                     d[WEIGHT], d[RESULT], s->stride, s->dilation,
                                                                     s->left, s->right, hint, lib.attr);
    else
        e = lib.dnnl_convolution_backward_weights_primitive_desc_create(pd, lib.engine, dnnl_convolution_direct,
                                                                        d[IMAGE], d[WEIGHT], NULL, d[RESULT], s->stride,
                                                                        s->dilation, s->left, s->right, hint, lib.attr);
    return e;
}
#else
static dnnl_status_t make_pd(dl_dnnl_kind kind, const setup *s, dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *pd) {
    const desc *d = s->d;
    dnnl_convolution_desc_t op;
    dnnl_status_t e;
    if (kind == DL_DNNL_FORWARD)
        e = lib.dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct,
                                                           &d[IMAGE], &d[FORWARD_WEIGHT], ref(&d[BIAS]), &d[RESULT],
                                                           s->stride, s->dilation, s->left, s->right);
    else if (kind == DL_DNNL_DX)
        e = lib.dnnl_dilated_convolution_backward_data_desc_init(&op, dnnl_convolution_direct, &d[IMAGE], &d[WEIGHT],
                                                                 &d[RESULT], s->stride, s->dilation, s->left, s->right);
    else
        e = lib.dnnl_dilated_convolution_backward_weights_desc_init(&op, dnnl_convolution_direct, &d[IMAGE], &d[WEIGHT],
                                                                    NULL, &d[RESULT], s->stride, s->dilation, s->left,
                                                                    s->right);
    return e == dnnl_success ? lib.dnnl_primitive_desc_create(pd, &op, lib.attr, lib.engine, hint) : e;
}
#endif

/* Not an error of the call: another path computes what the library does not offer. */
static bool refused(dnnl_status_t s) { return s == dnnl_unimplemented || s == dnnl_invalid_arguments; }

static dl_status failed(const char *what, dnnl_status_t s) {
    if (s == dnnl_out_of_memory) return dl_fail(DL_ERR_MEMORY, "oneDNN has no memory for %s", what);
    return dl_fail(DL_ERR_INTERNAL, "oneDNN failed in %s, with its status %d", what, (int)s);
}

static dnnl_status_t add_memory(dl_dnnl_conv *c, int which, desc_ref d, void *data) {
    c->bytes[which] = lib.dnnl_memory_desc_get_size(d);
    return lib.dnnl_memory_create(&c->mem[which], d, lib.engine, data);
}

static dnnl_status_t add_work(work *w, dnnl_primitive_desc_t pd) {
    desc_ref scratch = lib.dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    w->bytes = scratch ? lib.dnnl_memory_desc_get_size(scratch) : 0;
    dnnl_status_t e = lib.dnnl_primitive_create(&w->run, pd);
    if (e != dnnl_success || !w->bytes) return e;
    return lib.dnnl_memory_create(&w->scratch, scratch, lib.engine, NULL);
}

static void free_work(work *w) {
    if (w->run) lib.dnnl_primitive_destroy(w->run);
    if (w->scratch) lib.dnnl_memory_destroy(w->scratch);
}

/* For weights in an order of oneDNN's own: the buffer and the primitive that fills or reads it. */
static dl_status add_reorder(dl_dnnl_conv *c, desc_ref plain, desc_ref own) {
    bool out = c->kind == DL_DNNL_DW;
    c->bytes[WEIGHT] = lib.dnnl_memory_desc_get_size(own);
    c->weights = dl_host_alloc(c->bytes[WEIGHT]);
    if (!c->weights) return dl_failed();
    dnnl_status_t e = add_memory(c, WEIGHT, own, c->weights);
    dnnl_primitive_desc_t rd = NULL;
    if (e == dnnl_success)
        e = lib.dnnl_reorder_primitive_desc_create(&rd, out ? own : plain, lib.engine, out ? plain : own, lib.engine,
                                                   lib.attr);
    if (e == dnnl_success) e = add_work(&c->reorder, rd);
    if (rd) lib.dnnl_primitive_desc_destroy(rd);
    return e == dnnl_success ? DL_OK : failed("a reorder of weights", e);
}

static dl_status add_memories(dl_dnnl_conv *c, const setup *s, dnnl_primitive_desc_t pd) {
    desc_ref own = lib.dnnl_primitive_desc_query_md(
        pd, c->kind == DL_DNNL_DW ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    desc_ref plain = ref(&s->d[PLAIN]);
    static const int given[] = {IMAGE, RESULT, PLAIN, BIAS};
    dnnl_status_t e = own ? dnnl_success : dnnl_runtime_error;
    for (int i = 0; i < 4 && e == dnnl_success; i++)
        if (ref(&s->d[given[i]])) e = add_memory(c, given[i], ref(&s->d[given[i]]), NULL);
    if (e == dnnl_success) e = add_work(&c->conv, pd);
    if (e != dnnl_success) return failed("the making of a convolution", e);
    return lib.dnnl_memory_desc_equal(own, plain) ? DL_OK : add_reorder(c, plain, own);
}

/* The reference kernels of the library are plain loops, some hundred times slower than products of patches. */
static bool is_reference(dnnl_primitive_desc_t pd) {
    const char *name = NULL;
    dnnl_status_t e = lib.dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return e == dnnl_success && name && !strncmp(name, "ref", 3);
}

/* *offered: the library has this convolution. */
static dl_status build(dl_dnnl_conv *c, const setup *s, bool *offered) {
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    dnnl_status_t e = c->kind == DL_DNNL_FORWARD ? dnnl_success : make_pd(DL_DNNL_FORWARD, s, NULL, &hint);
    if (e == dnnl_success) e = make_pd(c->kind, s, hint, &pd);
    *offered = !refused(e);
    if (e == dnnl_success) *offered = c->type == dnnl_bf16 ? multiplies_bf16(pd) : !is_reference(pd);
    dl_status st = DL_OK;
    if (*offered) st = e == dnnl_success ? add_memories(c, s, pd) : failed("the description of a convolution", e);
    if (pd) lib.dnnl_primitive_desc_destroy(pd);
    if (hint) lib.dnnl_primitive_desc_destroy(hint);
    return st;
}

dl_status dl_dnnl_conv_new(dl_dnnl_kind kind, const dl_conv_nd *g, dl_dtype t, bool bias, dl_dnnl_conv **out) {
    *out = NULL;
    if (!load()) return DL_OK;
    dl_dnnl_conv *c = calloc(1, sizeof *c);
    if (!c) return dl_fail(DL_ERR_MEMORY, "no memory for a convolution by oneDNN");
    c->kind = kind, c->type = t == DL_BF16 ? dnnl_bf16 : dnnl_f32;
    setup s = {0};
    bool offered = describe(&s, c, g, bias);
    dl_status st = offered ? build(c, &s, &offered) : DL_OK;
    for (int i = 0; i < NDESC; i++) desc_free(&s.d[i]);
    if (st == DL_OK && offered) return *out = c, DL_OK;
    dl_dnnl_conv_free(c);
    return st;
}

void dl_dnnl_conv_free(dl_dnnl_conv *c) {
    if (!c) return;
    for (int i = 0; i < NDESC; i++)
        if (c->mem[i]) lib.dnnl_memory_destroy(c->mem[i]);
    free_work(&c->conv);
    free_work(&c->reorder);
    if (c->weights) dl_host_free(c->weights, c->bytes[WEIGHT]);
    free(c);
}

/* One run of a primitive, to its end. args has room for the scratch memory at [n]. */
static dl_status execute(const work *w, const char *what, dnnl_exec_arg_t *args, int n) {
    void *scratch = w->bytes ? dl_host_alloc(w->bytes) : NULL;
    if (w->bytes && !scratch) return dl_failed();
    dnnl_status_t e = dnnl_success;
    if (scratch) {
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, w->scratch};
        e = lib.dnnl_memory_set_data_handle(w->scratch, scratch);
    }
    if (e == dnnl_success) e = lib.dnnl_primitive_execute(w->run, lib.stream, n, args);
    if (e == dnnl_success) e = lib.dnnl_stream_wait(lib.stream);
    if (scratch) dl_host_free(scratch, w->bytes);
    return e == dnnl_success ? DL_OK : failed(what, e);
}

static dl_status reorder(dl_dnnl_conv *c, int from, int to) {
    dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, c->mem[from]}, {DNNL_ARG_TO, c->mem[to]}};
    return execute(&c->reorder, "a reorder of weights", args, 2);
}

/* Makes a tensor one of the memories: it must be as large as the library takes it to be. */
static dl_status bind_operand(dl_dnnl_conv *c, int which, dl_tensor *t) {
    if (!t) return DL_OK;
    size_t has = t->st->bytes - (size_t)t->offset * dl_esize(t);
    if (has < c->bytes[which])
        return dl_fail(DL_ERR_INTERNAL, "oneDNN takes %zu bytes where a tensor has %zu", c->bytes[which], has);
    dnnl_status_t e = lib.dnnl_memory_set_data_handle(c->mem[which], dl_ptr(t));
    return e == dnnl_success ? DL_OK : failed("the setting of an operand", e);
}

dl_status dl_dnnl_conv_run(dl_dnnl_conv *c, dl_tensor *image, dl_tensor *weight, dl_tensor *bias, dl_tensor *result,
                           bool fresh_weight) {
    static const int names[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                    {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                    {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
    const int *name = names[c->kind];
    dl_tensor *operand[NDESC] = {[IMAGE] = image, [RESULT] = result, [BIAS] = bias, [PLAIN] = weight};
    for (int i = 0; i < NDESC; i++) DL_TRY(bind_operand(c, i, operand[i]));
    bool own = c->reorder.run, dw = c->kind == DL_DNNL_DW;
    if (own && !dw && fresh_weight) DL_TRY(reorder(c, PLAIN, WEIGHT));
    dnnl_exec_arg_t args[5] = {{name[0], c->mem[IMAGE]},
                               {name[1], c->mem[own ? WEIGHT : PLAIN]},
                               {name[2], c->mem[RESULT]},
                               {DNNL_ARG_BIAS, c->mem[BIAS]}};
    DL_TRY(execute(&c->conv, "a convolution", args, c->mem[BIAS] ? 4 : 3));
    return own && dw ? reorder(c, WEIGHT, PLAIN) : DL_OK;
}

/* ---- products of bf16 */

enum { LEFT, RIGHT, SUM, ADDEND, NPART };

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t product_pd(const desc *d, dnnl_primitive_desc_t *pd) {
    return lib.dnnl_matmul_primitive_desc_create(pd, lib.engine, d[LEFT], d[RIGHT], d[ADDEND], d[SUM], lib.attr);
}
#else
static dnnl_status_t product_pd(const desc *d, dnnl_primitive_desc_t *pd) {
    dnnl_matmul_desc_t op;
    dnnl_status_t e = lib.dnnl_matmul_desc_init(&op, &d[LEFT], &d[RIGHT], ref(&d[ADDEND]), &d[SUM]);
    return e == dnnl_success ? lib.dnnl_primitive_desc_create(pd, &op, lib.attr, lib.engine, NULL) : e;
}
#endif

static dl_status run_product(dnnl_primitive_desc_t pd, const desc *d, void *const *data) {
    static const int name[NPART] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS};
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the stream */
    const int n = data[ADDEND] ? NPART : ADDEND;
    dnnl_exec_arg_t args[NPART + 1] = {0};
    work w = {0};
    dnnl_status_t e = add_work(&w, pd);
    for (int i = 0; i < n && e == dnnl_success; i++) {
        args[i].arg = name[i];
        e = lib.dnnl_memory_create(&args[i].memory, ref(&d[i]), lib.engine, data[i]);
    }
    dl_status s = e == dnnl_success ? DL_OK : failed("the making of a product", e);
    if (s == DL_OK) {
        pthread_mutex_lock(&lock);
        s = execute(&w, "a product", args, n);
        pthread_mutex_unlock(&lock);
    }
    for (int i = 0; i < n; i++)
        if (args[i].memory) lib.dnnl_memory_destroy(args[i].memory);
    free_work(&w);
    return s;
}

/* Strides that oneDNN takes: one is 1; that of a single row or column does not matter. */
static bool describe_matrix(desc *d, long rows, long cols, const dl_mat *m) {
    dnnl_dims_t size = {rows, cols}, step = {m->rs, m->cs};
    if (cols == 1) step[1] = 1;
    if (rows == 1) step[0] = step[1] == 1 ? cols : 1;
    const bool by_rows = step[1] == 1 && step[0] >= cols, by_cols = step[0] == 1 && step[1] >= rows;
    return (by_rows || by_cols) && desc_of(d, 2, size, dnnl_bf16, step);
}

dl_status dl_dnnl_product(const dl_dnnl_matrices *p, bool *done) {
    *done = false;
    if (!load()) return DL_OK;
    desc d[NPART] = {0};
    dnnl_dims_t size = {1, p->n}, step = {p->n, 1};
    dnnl_primitive_desc_t pd = NULL;
    void *data[NPART] = {p->a.p, p->b.p, p->y.p, (void *)(uintptr_t)p->bias};
    dl_status s = DL_OK;
    if (describe_matrix(&d[LEFT], p->m, p->k, &p->a) && describe_matrix(&d[RIGHT], p->k, p->n, &p->b) &&
        describe_matrix(&d[SUM], p->m, p->n, &p->y) && (!p->bias || desc_of(&d[ADDEND], 2, size, dnnl_bf16, step))) {
        const dnnl_status_t e = product_pd(d, &pd);
        if (e == dnnl_success && multiplies_bf16(pd))
            *done = true, s = run_product(pd, d, data);
        else if (e != dnnl_success && !refused(e))
            s = failed("the description of a product", e);
    }
    if (pd) lib.dnnl_primitive_desc_destroy(pd);
    for (int i = 0; i < NPART; i++) desc_free(&d[i]);
    return s;
}
#endif
