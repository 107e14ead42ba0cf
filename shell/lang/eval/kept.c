/* The variables of functions at the end of their last calls, for diagnoses: what a training used can be looked at
 * wherever its variables lived. They are given up when the function is called again, when memory runs out, and the
 * oldest ones when all of them hold too much. */
#include "lang/eval/collect.h"
#include "lang/eval/interp.h"

enum { FRAMES = 64, ITEMS = 16, DEEPEST = 3, WORDS = 256 };
static const size_t most = (size_t)512 << 20; /* bytes that they may hold: a data set of usual size */

struct dlsh_kept {
    dlsh_kept *next; /* the older one */
    dlsh_session *s;
    dlsh_unit *unit;
    dlsh_fninfo *info; /* in the unit's memory */
    const dlsh_node *fn;
    size_t bytes;
    dlsh_value value[]; /* one a slot; VOID: it is not kept */
};

static dlsh_kept *newest;
static size_t held;
static int holds; /* what is kept is being looked at: calls change nothing */

/* ---------------------------------------------------------------- what is kept */

static int may_stay(dlsh_value v, size_t *bytes, int depth);

static int tensor_may(dl_tensor *t, size_t *bytes) {
    if (dl_requires_grad(t) && !dl_is_leaf(t)) return 0; /* with it the tape and all results of the pass */
    *bytes += (size_t)dl_numel(t) * (size_t)dl_dtype_size(dl_dtype_of(t));
    return 1;
}

/* All of few items, the first and the last of many. */
static int items_may(const dlsh_value *items, int n, size_t *bytes, int depth) {
    int may = depth < DEEPEST;
    for (int i = 0; may && i < n; i++) {
        if (n > ITEMS && i == ITEMS / 2) i = n - ITEMS / 2;
        may = may_stay(items[i], bytes, depth + 1);
    }
    return may;
}

static int function_may(const dlsh_fn *f, size_t *bytes, int depth) {
    int may = depth < DEEPEST;
    for (int i = 0; may && i < f->info->ncaptures; i++) {
        const dlsh_value v = f->captured[i]->v;
        may = v.type == DLSH_FN || may_stay(v, bytes, depth + 1);
    }
    return may;
}

size_t dlsh_held_little(DLSH_UNUSED void *self) { return 0; }

/* An object that only its variable holds would end now: it stays if its class knows what it then holds. */
static int handle_may(const dlsh_handle *h, size_t *bytes, int depth) {
    if (!h->cls->held || (h->cls->rest && (depth || h->refs > 1))) return 0;
    if (h->refs == 1) *bytes += h->cls->held(h->self);
    return 1;
}

static int may_stay(dlsh_value v, size_t *bytes, int depth) {
    switch (v.type) {
    case DLSH_STR: return v.as.str->len <= WORDS;
    case DLSH_LIST: return items_may(v.as.list->items, v.as.list->n, bytes, depth);
    case DLSH_RECORD: return items_may(v.as.record->values, v.as.record->n, bytes, depth);
    case DLSH_TENSOR: return tensor_may(v.as.tensor, bytes);
    case DLSH_FN: return function_may(v.as.fn, bytes, depth);
    case DLSH_HANDLE: return handle_may(v.as.handle, bytes, depth);
    case DLSH_METHOD:
    case DLSH_CELL: return 0;
    default: return 1;
    }
}

/* ---------------------------------------------------------------- giving up */

static void drop(dlsh_kept *k) {
    held -= k->bytes;
    k->bytes = 0;
    for (int i = 0; i < k->info->nslots; i++) {
        DLSH_DROPPED dlsh_value v = k->value[i];
        k->value[i] = dlsh_void();
    }
}

void dlsh_kept_drop(dlsh_kept *k) {
    if (!holds) drop(k);
}

void dlsh_variables_hold(int on) { holds += on ? 1 : -1; }

static void unlink_kept(dlsh_kept *k) {
    dlsh_kept **at = &newest;
    while (*at != k) at = &(*at)->next;
    *at = k->next;
}

static void forget(dlsh_kept *k) {
    unlink_kept(k);
    k->info->kept = NULL;
    drop(k);
    dlsh_unit_drop(k->unit);
    free(k);
}

void dlsh_kept_forget(const dlsh_session *s) {
    for (dlsh_kept *k = newest, *next; k; k = next) {
        next = k->next;
        if (k->s == s) forget(k);
    }
}

int dlsh_kept_give_up(void) {
    int any = 0;
    for (dlsh_kept *k = newest; k && !holds; k = k->next) {
        any |= k->bytes > 0;
        drop(k);
    }
    return any;
}

/* The oldest ones make room. */
static void make_room(void) {
    int n = 0;
    dlsh_kept *oldest = newest;
    for (dlsh_kept *k = newest; k; k = k->next) n++, oldest = k;
    if (n >= FRAMES) forget(oldest);
    while (held > most && oldest) {
        oldest = NULL;
        for (dlsh_kept *k = newest; k; k = k->next)
            if (k->bytes) oldest = k;
        if (oldest) drop(oldest);
    }
}

/* ---------------------------------------------------------------- keeping */

static dlsh_kept *kept_of(dlsh_session *s, const dlsh_fn *f) {
    dlsh_fninfo *info = f->node->info;
    if (info->kept) return info->kept;
    make_room();
    dlsh_kept *k = malloc(sizeof *k + (size_t)info->nslots * sizeof *k->value);
    if (!k) return NULL; /* then nothing is kept */
    *k = (dlsh_kept){.next = newest, .s = s, .unit = dlsh_unit_ref(f->unit), .info = info, .fn = f->node};
    for (int i = 0; i < info->nslots; i++) k->value[i] = dlsh_void();
    dlsh_collect_reclaims();
    return newest = info->kept = k;
}

void dlsh_keep_variables(dlsh_session *s, const dlsh_fn *f, dlsh_value *slots) {
    dlsh_kept *k = holds ? NULL : kept_of(s, f);
    if (!k) return;
    drop(k); /* of a call within the call */
    for (int i = 0; i < k->info->nslots; i++) {
        const dlsh_value v = slots[i].type == DLSH_CELL ? slots[i].as.cell->v : slots[i];
        size_t bytes = 0;
        if (v.type == DLSH_VOID || !may_stay(v, &bytes, 0) || bytes > most) continue;
        if (v.type == DLSH_HANDLE && v.as.handle->cls->rest) v.as.handle->cls->rest(v.as.handle->self);
        k->bytes += bytes, held += bytes;
        k->value[i] = dlsh_ref(v);
    }
    if (k != newest) {
        unlink_kept(k);
        k->next = newest, newest = k;
    }
    if (held > most) make_room();
}

/* ---------------------------------------------------------------- looking */

/* Variable number *k of what runs, or of what is kept; counts *k down past those that there are. */
static int running_variable(const dlsh_session *s, int *k, dlsh_variable *out) {
    dlsh_running at;
    for (int i = 0; dlsh_running_at(s, i, &at); i++) {
        const dlsh_node *fn = dlsh_running_function(s, i);
        const int n = fn ? ((const dlsh_fninfo *)fn->info)->nslots : 0;
        if (*k < n) {
            out->unit = at.unit, out->fn = fn;
            out->value = dlsh_running_slot((dlsh_session *)s, i, *k, &out->name);
            return 1;
        }
        *k -= n;
    }
    return 0;
}

int dlsh_variable_at(const dlsh_session *s, int i, dlsh_variable *out) {
    *out = (dlsh_variable){0};
    if (i < s->nglobals) {
        out->name = dlsh_global_at(s, i, &out->value);
        if (!strcmp(out->name, "_")) out->value = NULL;
        return 1;
    }
    int k = i - s->nglobals;
    if (running_variable(s, &k, out)) {
        if (out->value && out->value->type == DLSH_VOID) out->value = NULL;
        return 1;
    }
    for (const dlsh_kept *f = newest; f; f = f->next) {
        if (f->s != s) continue;
        if (k < f->info->nslots) {
            *out = (dlsh_variable){f->info->names[k], f->unit->name, f->fn,
                                   f->value[k].type == DLSH_VOID ? NULL : &f->value[k]};
            return 1;
        }
        k -= f->info->nslots;
    }
    return 0;
}
