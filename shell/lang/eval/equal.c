/* Equality of values: lists and records are walked without recursion, at any depth. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "lang/command.h"
#include "lang/session.h"
#include "dlcore/compare.h"
#include "dlcore/reduce.h"

/* Comparisons after which pairs are remembered: values that share parts or contain themselves need more. */
enum { FREE_PAIRS = 4096 };

/* Two lists or two records, and the item at which their comparison continues. */
typedef struct frame {
    dlsh_value a, b;
    int at;
} frame;

typedef struct pair {
    const void *a, *b;
} pair;

/* The state of a comparison. */
typedef struct walk {
    frame *frames;
    int n, cap;
    long begun;  /* pairs */
    pair *known; /* open addressing; an entry without a is free */
    size_t nknown, capknown;
} walk;

static int scalars_equal(dlsh_value a, dlsh_value b) {
    if (a.type == DLSH_INT && b.type == DLSH_FLOAT) return (double)a.as.i == b.as.f;
    if (a.type == DLSH_FLOAT && b.type == DLSH_INT) return a.as.f == (double)b.as.i;
    if (a.type == DLSH_VOID) a.type = DLSH_NONE;
    if (b.type == DLSH_VOID) b.type = DLSH_NONE;
    if (a.type != b.type) return 0;
    switch (a.type) {
    case DLSH_NONE: return 1;
    case DLSH_BOOL:
    case DLSH_INT: return a.as.i == b.as.i;
    case DLSH_FLOAT: return a.as.f == b.as.f;
    case DLSH_STR: return a.as.str->len == b.as.str->len && !memcmp(a.as.str->s, b.as.str->s, a.as.str->len);
    case DLSH_RANGE:
        return a.as.range->from == b.as.range->from && a.as.range->to == b.as.range->to &&
               a.as.range->step == b.as.range->step;
    case DLSH_HANDLE:
        if (a.as.handle->cls->equal && a.as.handle->cls == b.as.handle->cls)
            return a.as.handle->cls->equal(a.as.handle->self, b.as.handle->self);
        return a.as.handle == b.as.handle || a.as.handle->self == b.as.handle->self;
    default: return a.as.refs == b.as.refs;
    }
}

dl_status dlsh_tensors_equal(dl_tensor *a, dl_tensor *b, int *out) {
    long yes = 0;
    *out = 0;
    if (dl_ndim(a) != dl_ndim(b)) return DL_OK;
    for (int i = 0; i < dl_ndim(a); i++)
        if (dl_shape(a)[i] != dl_shape(b)[i]) return DL_OK;
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *same = dl_eq(a, b), *all = same ? dl_all(same, NULL, 0, 0) : NULL;
    dl_status st = all ? dl_item_i(all, &yes) : dl_failed();
    *out = yes != 0;
    return st;
}

static int is_collection(dlsh_value v) { return v.type == DLSH_LIST || v.type == DLSH_RECORD; }
static int size_of(dlsh_value v) { return v.type == DLSH_LIST ? v.as.list->n : v.as.record->n; }

static size_t slot_of(const walk *w, const void *a, const void *b) {
    uint64_t h = ((uint64_t)(uintptr_t)a * 0x9E3779B97F4A7C15u) ^ ((uint64_t)(uintptr_t)b * 0xC2B2AE3D27D4EB4Fu);
    size_t i = (size_t)(h ^ h >> 29) & (w->capknown - 1);
    while (w->known[i].a && (w->known[i].a != a || w->known[i].b != b)) i = (i + 1) & (w->capknown - 1);
    return i;
}

static int grow_known(walk *w) {
    walk more = {.capknown = w->capknown ? 2 * w->capknown : FREE_PAIRS};
    more.known = calloc(more.capknown, sizeof *more.known);
    if (!more.known) return 0;
    for (size_t i = 0; i < w->capknown; i++)
        if (w->known[i].a) more.known[slot_of(&more, w->known[i].a, w->known[i].b)] = w->known[i];
    free(w->known);
    w->known = more.known;
    w->capknown = more.capknown;
    return 1;
}

/* Begins to compare two collections of one type and size, unless that was done or is under way. 0: no memory. */
static int enter(walk *w, dlsh_value a, dlsh_value b) {
    if (++w->begun > FREE_PAIRS) {
        if (2 * w->nknown >= w->capknown && !grow_known(w)) return 0;
        pair *p = &w->known[slot_of(w, a.as.refs, b.as.refs)];
        if (p->a) return 1;
        *p = (pair){a.as.refs, b.as.refs};
        w->nknown++;
    }
    frame *frames = dlsh_grow(w->frames, w->n, &w->cap, sizeof *frames);
    if (!frames) return 0;
    w->frames = frames;
    w->frames[w->n++] = (frame){a, b, 0};
    return 1;
}

/* The next pair of items of the innermost collections; 0: the other record has no such key. */
static int next_pair(frame *f, dlsh_value *a, dlsh_value *b) {
    int i = f->at++;
    if (f->a.type == DLSH_LIST) {
        *a = f->a.as.list->items[i];
        *b = f->b.as.list->items[i];
        return 1;
    }
    const dlsh_value *partner = dlsh_record_get(f->b.as.record, f->a.as.record->keys[i]);
    *a = f->a.as.record->values[i];
    if (partner) *b = *partner;
    return partner != NULL;
}

enum { NO_MEMORY = -1, FAILED = -2 /* recorded */ };

/* 1, 0, or one of these. A tensor alone is the same or another one, as a list is searched for it; tensors within lists
 * and records are compared by their contents. */
static int compare(walk *w, dlsh_value a, dlsh_value b) {
    int same = 0;
    if (w->n && a.type == DLSH_TENSOR && b.type == DLSH_TENSOR && a.as.tensor != b.as.tensor)
        return dlsh_tensors_equal(a.as.tensor, b.as.tensor, &same) == DL_OK ? same : FAILED;
    if (!is_collection(a) || a.type != b.type) return scalars_equal(a, b);
    if (a.as.refs == b.as.refs) return 1;
    if (size_of(a) != size_of(b)) return 0;
    return enter(w, a, b) ? 1 : NO_MEMORY;
}

dl_status dlsh_equal(dlsh_value a, dlsh_value b, int *out) {
    walk w = {.n = 0};
    int same = compare(&w, a, b), stopped = 0;
    for (long turn = 1; same > 0 && w.n && !stopped; turn++) {
        stopped = dlsh_interrupted_at(turn);
        frame *f = &w.frames[w.n - 1];
        if (f->at == size_of(f->a))
            w.n--;
        else
            same = next_pair(f, &a, &b) ? compare(&w, a, b) : 0;
    }
    free(w.frames);
    free(w.known);
    if (stopped) return dlsh_check_interrupt();
    if (same == FAILED) return dl_failed();
    if (same == NO_MEMORY) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory to compare two values");
    *out = same;
    return DL_OK;
}
