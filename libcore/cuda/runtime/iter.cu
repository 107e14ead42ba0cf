/* The host's part of the iterator: ordering, merging and splitting dimensions. */
#include "cuda/runtime/iter.cuh"

void dl_it_begin(dl_it *it, int ndim, const long *shape) {
    memset(it, 0, sizeof *it);
    it->ndim = ndim;
    for (int d = 0; d < ndim; d++) it->shape[ndim - 1 - d] = shape[d];
}

void dl_it_operand(dl_it *it, void *ptr, size_t esize, int ndim, const long *shape, const long *stride) {
    int k = it->nop++;
    it->ptr[k] = (char *)ptr;
    for (int d = 0; d < ndim; d++) {
        int to = ndim - 1 - d; /* dimensions are aligned at the innermost */
        bool repeated = shape[d] == 1 && it->shape[to] != 1;
        it->stride[to][k] = repeated ? 0 : stride[d] * (long)esize;
    }
}

void dl_it_tensor(dl_it *it, const dl_tensor *t) {
    if (!t->st->device) {
        memcpy(&it->number[it->nop], dl_ptr(t), dl_esize(t));
        it->numbers |= 1u << it->nop++;
        return;
    }
    dl_it_operand(it, dl_ptr(t), dl_esize(t), t->ndim, t->shape, t->stride);
}

static void swap_dims(dl_it *it, int a, int b) {
    long t = it->shape[a];
    it->shape[a] = it->shape[b], it->shape[b] = t;
    for (int k = 0; k < it->nop; k++) {
        t = it->stride[a][k];
        it->stride[a][k] = it->stride[b][k], it->stride[b][k] = t;
    }
}

/* Smaller steps of the first operand inside, and where these are equal of the next one; repeated dimensions outside. */
static bool before(const dl_it *it, int a, int b) {
    for (int k = 0; k < it->nop; k++) {
        long x = labs(it->stride[a][k]), y = labs(it->stride[b][k]);
        if (x != y) return x && (!y || x < y);
    }
    return false;
}

static bool mergeable(const dl_it *it, int inner, int outer) {
    for (int k = 0; k < it->nop; k++)
        if (it->stride[outer][k] != it->stride[inner][k] * it->shape[inner]) return false;
    return true;
}

void dl_it_end(dl_it *it) {
    int n = 0;
    for (int d = 0; d < it->ndim; d++)
        if (it->shape[d] != 1) {
            if (n != d) swap_dims(it, n, d);
            n++;
        }
    it->ndim = n;
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && before(it, j, j - 1); j--) swap_dims(it, j, j - 1);
    int m = 0;
    for (int d = 1; d < n; d++) {
        if (mergeable(it, m, d))
            it->shape[m] *= it->shape[d];
        else if (++m != d)
            swap_dims(it, m, d);
    }
    if (n) it->ndim = m + 1;
}

void dl_it_strips(dl_it *it, long width) {
    if (it->ndim < 2 || it->ndim == DL_MAX_DIM || it->shape[0] % width || it->shape[0] == width) return;
    for (int d = it->ndim++; d > 2; d--) swap_dims(it, d, d - 1);
    it->shape[2] = it->shape[0] / width;
    for (int k = 0; k < it->nop; k++) it->stride[2][k] = it->stride[0][k] * width;
    it->shape[0] = width;
}

dl_it dl_it_of(std::initializer_list<const dl_tensor *> op) {
    dl_it it;
    const dl_tensor *first = *op.begin();
    dl_it_begin(&it, first->ndim, first->shape);
    for (const dl_tensor *t : op) dl_it_tensor(&it, t);
    dl_it_end(&it);
    return it;
}

long dl_it_numel(const dl_it *it) {
    long n = 1;
    for (int d = 0; d < it->ndim; d++) n *= it->shape[d];
    return n;
}

bool dl_it_vectors(const dl_it *it, const size_t *size, int each) {
    if (!it->ndim || (it->ndim > 1 && it->shape[0] % each)) return false;
    for (int k = 0; k < it->nop; k++) {
        const long step = it->stride[0][k];
        if (it->numbers >> k & 1 || (k && !step)) continue;
        const size_t bytes = size[k] * (size_t)each, align = bytes < 16 ? bytes : 16;
        size_t all = (size_t)it->ptr[k];
        for (int d = 1; d < it->ndim; d++) all |= (size_t)it->stride[d][k];
        if (step != (long)size[k] || all % align) return false;
    }
    return true;
}

bool dl_it_split(dl_it *it, dl_it *rest) {
    const long most = 0x7fffffff;
    bool fits = dl_it_numel(it) <= most - DL_BLOCK * DL_EACH;
    int widest = 0;
    long widest_span = -1;
    for (int k = 0; k < it->nop; k++) {
        long low = 0, high = 0;
        for (int d = 0; d < it->ndim; d++) {
            long span = it->stride[d][k] * (it->shape[d] - 1);
            (span < 0 ? low : high) += span;
            if (it->shape[d] > 1 && labs(span) > widest_span) widest_span = labs(span), widest = d;
        }
        fits = fits && high <= most && low >= -most;
    }
    if (fits) return false;
    long half = it->shape[widest] / 2;
    *rest = *it;
    rest->shape[widest] -= half;
    it->shape[widest] = half;
    for (int k = 0; k < it->nop; k++) rest->ptr[k] += half * it->stride[widest][k];
    return true;
}
