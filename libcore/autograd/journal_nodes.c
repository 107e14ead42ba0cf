/* Figures of the nodes of a backward pass, from some of the elements that they saved and were given. */
#include "autograd/journal.h"
#include "autograd/tape.h"
#include "core/list.h"
#include "core/scope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NODES = 1024, ELEMENTS = 4096, UNITS = 65536 };

static double element(const dl_tensor *t, long at) {
    const void *p = t->st->data;
    switch (t->dtype) {
    case DL_F32: return ((const float *)p)[at];
    case DL_F64: return ((const double *)p)[at];
    case DL_I64: return (double)((const int64_t *)p)[at];
    case DL_I32: return ((const int32_t *)p)[at];
    case DL_U8:
    case DL_BOOL: return ((const uint8_t *)p)[at];
    default: return NAN;
    }
}

static bool is_readable(const dl_tensor *t) {
    return t && t->numel &&
           (t->dtype == DL_F32 || t->dtype == DL_F64 || t->dtype == DL_I64 || t->dtype == DL_I32 || t->dtype == DL_U8);
}

/* Where element i in logical order lies. */
static long place_of(const dl_tensor *t, long i, bool contiguous) {
    long at = (long)t->offset;
    if (contiguous) return at + i;
    for (int d = t->ndim - 1; d >= 0; d--) at += i % t->shape[d] * t->stride[d], i /= t->shape[d];
    return at;
}

static unsigned long mix(unsigned long h, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (h ^ bits) * 0x9E3779B97F4A7C15u ^ (h >> 29);
}

static void add_figures_of(const dl_tensor *t, dl_journal_value *v) {
    bool contiguous = dl_is_contiguous(t);
    long most = contiguous ? ELEMENTS : ELEMENTS / 4, n = t->numel < most ? t->numel : most, finite = 0, far = 0;
    double sum = 0, squares = 0;
    v->n = n, v->low = INFINITY, v->high = -INFINITY;
    for (long i = 0; i < n; i++) {
        double x =
            element(t, place_of(t, n == t->numel ? i : (long)((double)i / (double)n * (double)t->numel), contiguous));
        v->nans += isnan(x);
        v->zeros += x == 0;
        v->hash = mix(v->hash, x);
        if (!isfinite(x)) continue;
        finite++, sum += x, squares += x * x;
        far += fabs(x) > 0.97;
        v->low = fmin(v->low, x), v->high = fmax(v->high, x);
    }
    v->mean = finite ? sum / (double)finite : NAN;
    v->std = finite ? sqrt(fmax(squares / (double)finite - v->mean * v->mean, 0)) : NAN;
    v->far = (double)far / (double)n;
}

static void add_figures(const dl_tensor *t, dl_journal_value *v) {
    DL_OWNED dl_tensor *near = dl_journal_sample(t, ELEMENTS);
    if (near) add_figures_of(near, v);
}

void dl_journal_figures(const dl_tensor *t, dl_journal_value *v) {
    if (is_readable(t)) add_figures(t, v);
}

/* Row i of `rows` that are spread over n. */
static long row_number(long i, long rows, long n) { return rows == n ? i : i * (n - 1) / (rows - 1); }

/* An element for each sample, [n] or [n, 1], as labels are. */
static void note_few(const dl_tensor *t, dl_journal_value *v) {
    enum { FEW = sizeof v->few / sizeof *v->few };
    const long n = t->ndim && t->numel == t->shape[0] ? t->numel : 0;
    if (!is_readable(t) || !dl_in_host_memory(t) || n < 2) return;
    v->nfew = n < FEW ? n : FEW;
    for (long i = 0; i < v->nfew; i++)
        v->few[i] = element(t, place_of(t, row_number(i, v->nfew, n), dl_is_contiguous(t)));
}

long dl_journal_row_hashes(const dl_tensor *t, unsigned long *out, long most) {
    const long n = t->ndim && is_readable(t) && dl_in_host_memory(t) ? t->shape[0] : 0, each = n ? t->numel / n : 0;
    const bool contiguous = dl_is_contiguous(t);
    double row[ELEMENTS];
    const long rows = n < most ? n : most;
    if (each < 2 || each > ELEMENTS) return 0;
    for (long i = 0; i < rows; i++) {
        const long first = row_number(i, rows, n) * each;
        for (long k = 0; k < each; k++) row[k] = element(t, place_of(t, first + k, contiguous));
        out[i] = dl_hash(row, each * (long)sizeof *row);
    }
    return rows;
}

/* The share of channels or features that are 0 or less, `above`: above 0, in all samples that fit. */
static double dead_units_of(const dl_tensor *t, bool above) {
    long units = t->shape[1], inner = t->numel / (t->shape[0] * units), samples = t->shape[0], dead = 0;
    if (units > UNITS) return -1;
    while (inner * units * samples > UNITS && samples > 2) samples /= 2;
    bool contiguous = dl_is_contiguous(t);
    for (long u = 0; u < units; u++) {
        bool alive = false;
        for (long i = 0; i < samples * inner && !alive; i++)
            alive = (element(t, place_of(t, (i / inner * units + u) * inner + i % inner, contiguous)) <= 0) == above;
        dead += !alive;
    }
    return (double)dead / (double)units;
}

/* Of a tensor on a device as many samples as are looked at. */
static double dead_units(const dl_tensor *t, bool above) {
    if (!t || t->ndim < 2 || t->shape[0] < 2 || !t->numel) return -1;
    if (dl_in_host_memory(t)) return dead_units_of(t, above);
    const long each = t->numel / t->shape[0];
    if (!each || each > UNITS) return -1;
    DL_OWNED dl_tensor *near = dl_journal_rows(t, each > UNITS / 2 ? 2 : UNITS / each);
    return near ? dead_units_of(near, above) : -1;
}

static double root_mean_square(const dl_tensor *t) {
    dl_journal_value v = {0};
    if (!is_readable(t)) return -1;
    add_figures(t, &v);
    if (!v.n) return -1;
    return v.nans ? NAN : sqrt(v.mean * v.mean + v.std * v.std);
}

static void set_value(dl_journal_value *v, const dl_meta *m, const dl_tensor *t, const dl_tensor *gradient) {
    *v = (dl_journal_value){.there = 1, .dead = -1, .gradient = -1, .ndim = m->ndim};
    memcpy(v->shape, m->shape, sizeof m->shape);
    if (is_readable(t)) add_figures(t, v);
    v->gradient = root_mean_square(gradient);
}

/* ---------------------------------------------------------------- units that are alike */

enum { TWIN_UNITS = 256, TWIN_ELEMENTS = 1 << 16 };

/* Units run along dimension `unit`; element i of the n elements of unit u. */
static double element_of(const dl_tensor *t, int unit, long u, long i) {
    const long units = t->shape[unit];
    return element(t, place_of(t, unit ? i * units + u : u * (t->numel / units) + i, dl_is_contiguous(t)));
}

static bool is_like(const dl_tensor *t, int unit, long a, long b, double slack) {
    const long each = t->numel / t->shape[unit];
    double size = 0, apart = 0;
    for (long i = 0; i < each; i++) {
        const double x = element_of(t, unit, a, i), y = element_of(t, unit, b, i);
        size = fmax(size, fmax(fabs(x), fabs(y))), apart = fmax(apart, fabs(x - y));
        if (!(fabs(x - y) <= slack)) return false;
    }
    return apart <= 1e-5 * size || !apart;
}

static bool is_zero(const dl_tensor *t, int unit, long u) {
    for (long i = 0; i < t->numel / t->shape[unit]; i++)
        if (element_of(t, unit, u, i) != 0) return false;
    return true;
}

/* Units of a leaf that have the numbers of another one and its gradient, which is not 0: they stay alike. */
static void count_twins(const dl_tensor *w, const dl_tensor *gradient, int unit, dl_journal_value *v) {
    const long units = w->ndim ? w->shape[unit] : 0;
    if (units < 2 || units > TWIN_UNITS || w->numel > TWIN_ELEMENTS || gradient->numel != w->numel) return;
    if (!dl_in_host_memory(w) || !dl_in_host_memory(gradient) || !is_readable(w) || !is_readable(gradient)) return;
    double largest = 0;
    for (long u = 0; u < units; u++)
        for (long i = 0; i < w->numel / units; i++) largest = fmax(largest, fabs(element_of(w, unit, u, i)));
    v->units = units;
    for (long a = 0; a < units; a++) {
        bool twin = false;
        for (long b = 0; b < units && !twin; b++)
            twin = a != b && is_like(w, unit, a, b, 1e-5 * largest) && is_like(gradient, unit, a, b, INFINITY) &&
                   !is_zero(gradient, unit, a);
        v->twins += twin;
    }
}

static const dl_tensor *saved(const dl_node *n, int which) {
    for (int k = 0; k < n->nsaved; k++)
        if (n->saved[k].out == which) return n->saved[k].t;
    return NULL;
}

/* The dimension of units of a leaf: of columns where it is multiplied with, else of rows. */
static int units_of(const dl_node *n, int operand, const dl_tensor *leaf) {
    return operand == 1 && !strcmp(n->op->name, "matmul") ? leaf->ndim - 1 : 0;
}

static bool is_one_of(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* The leaf that a product takes as its weight in another form, as transposed; NULL: it takes none. */
static const dl_tensor *leaf_behind(const dl_node *n, int operand) {
    static const char *const products[] = {"matmul", "linear", "conv1d", "conv2d", "conv2d_norm", "conv3d"};
    static const char *const forms[] = {"permute", "transpose", "reshape", "view", "restride", "unsqueeze", "squeeze"};
    if (operand != 1 || !is_one_of(n->op->name, products, 6)) return NULL;
    const dl_edge *at = &n->edge[1];
    while (!at->leaf && at->node && is_one_of(at->node->op->name, forms, 7)) at = &at->node->edge[0];
    return at->leaf;
}

static void set_operand(dl_journal_value *v, const dl_back *b, int i) {
    const dl_node *n = b->node;
    const dl_tensor *own = n->edge[i].leaf, *t = saved(n, -1 - i), *leaf = own ? own : leaf_behind(n, i);
    if (n->meta[i].absent) return;
    set_value(v, &n->meta[i], t ? t : own, b->gin[i]);
    v->leaf = leaf, v->turned = leaf != own;
    v->from = n->edge[i].node ? (unsigned long)n->edge[i].node->seq : 0;
    v->constant = !leaf && !n->edge[i].node;
    v->data = v->constant && t ? dl_ptr(t) : NULL;
    if (t) note_few(t, v);
    const dl_tensor *made = leaf ? leaf : v->constant ? t : NULL;
    if (made) v->made = made->st->maker, v->fresh = dl_journal_is_fresh(made->st->serial);
    if (made) v->written = made->st->writer;
    if (own && b->gin[i]) count_twins(own, b->gin[i], units_of(n, i, own), v);
    if (leaf && leaf->name) snprintf(v->name, sizeof v->name, "%s", leaf->name);
}

/* The share of units that an op leaves at a limit for all samples: relu, and what people write for it, clamp(x, min=0),
 * maximum(x, 0), where(x > 0, x, 0). -1: it is none, or not known. */
static double dead_share(const dl_node *n, const dl_tensor *out) {
    const char *op = n->op->name;
    const dl_tensor *units = strstr(op, "relu") && out ? out : NULL;
    const int computed = n->nin > 1 && !n->edge[0].node ? 1 : 0;
    if (!units && (strstr(op, "relu") || !strcmp(op, "clamp"))) units = saved(n, -1);
    if (!strcmp(op, "maximum") && !n->edge[!computed].node) units = saved(n, -1 - computed);
    if (!strcmp(op, "where") && !n->edge[1].node != !n->edge[2].node && n->meta[3].ndim == n->meta[0].ndim)
        return dead_units(saved(n, -1), n->edge[2].node != NULL);
    return is_readable(units) ? dead_units(units, false) : -1;
}

void dl_journal_node_add(const dl_back *b) {
    DL_SCOPED_ERROR;
    dl_journal_pass *p = dl_journal_looking;
    const dl_node *n = b->node;
    if (p->n == NODES || DL_LIST_ROOM(p->nodes, p->n, p->cap) != DL_OK) return;
    dl_journal_node *r = &p->nodes[p->n++];
    *r = (dl_journal_node){.op = n->op->name,
                           .file = n->src.file,
                           .line = n->src.line,
                           .layer = n->layer ? n->layer->path : "",
                           .layer_file = n->layer ? n->layer->src.file : "",
                           .layer_line = n->layer ? n->layer->src.line : 0,
                           .seq = (unsigned long)n->seq,
                           .nin = n->nin};
    dl_attrs_text(r->attrs, sizeof r->attrs, n->op, n->attr);
    for (int i = 0; i < n->nin && i < 8; i++) set_operand(&r->in[i], b, i);
    const dl_tensor *out = saved(n, 0);
    set_value(&r->out, &n->meta[n->nin], out, b->g[0]);
    r->out.dead = dead_share(n, out);
}
