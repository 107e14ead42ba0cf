/* Calls of layers that take several tensors and give several results: rnn(x, state, lengths=[5, 3]). */
#include <string.h>

#include "commands/nets/nets.h"
#include "lang/eval/interp.h"

/* The tensors of a call in the places of the layer's inputs. */
typedef struct places {
    dl_module *m;
    const char *const *names;
    int count; /* inputs that there are */
    dl_tensor *t[DL_NET_INPUTS];
    dlsh_value made[DL_NET_INPUTS]; /* of numbers, owned */
    int nmade, next;
} places;

static dl_status put(places *p, int at, dl_tensor *t) {
    if (at >= p->count)
        return dlsh_fail(DL_ERR_VALUE, NULL, "layer %s takes at most %d tensors", dl_module_kind(p->m), p->count);
    if (p->t[at])
        return dlsh_fail(DL_ERR_VALUE, NULL, "layer %s has two values for %s", dl_module_kind(p->m), p->names[at]);
    p->t[at] = t;
    return DL_OK;
}

/* Numbers become a tensor beside the first input. */
static dl_status put_numbers(places *p, int at, dlsh_value v) {
    dlsh_value made = dlsh_void();
    DLSH_TRY(dlsh_list_to_tensor(v, -1, p->t[0] ? dl_device_of(p->t[0]) : dlsh_default_device(), &made));
    p->made[p->nmade++] = made;
    return put(p, at, made.as.tensor);
}

/* true and false become a tensor of no dimensions, in host memory, where the layer reads it. */
static dl_status put_switch(places *p, int at, int on) {
    unsigned char byte = on != 0;
    dl_tensor *t = dl_tensor_from(0, NULL, DL_BOOL, 0, &byte);
    if (!t) return dl_failed();
    p->made[p->nmade++] = dlsh_tensor(t);
    return put(p, at, t);
}

/* One argument: a tensor, tensors in a list for this place and those after it, numbers, true or false, or none. *next
 * is the place after it. */
static dl_status put_value(places *p, int at, dlsh_value v, int *next) {
    *next = at + 1;
    if (v.type == DLSH_NONE) return DL_OK;
    if (v.type == DLSH_TENSOR) return put(p, at, v.as.tensor);
    if (v.type == DLSH_BOOL) return put_switch(p, at, (int)v.as.i);
    const dlsh_value *items = v.type == DLSH_LIST ? v.as.list->items : NULL;
    if (!items) return dlsh_fail(DL_ERR_TYPE, NULL, "layer %s takes tensors, got %s", dl_module_kind(p->m), dlsh_a(v));
    int n = v.as.list->n;
    if (n && items[0].type == DLSH_INT) return put_numbers(p, at, v);
    for (int i = 0; i < n; i++) {
        if (items[i].type != DLSH_TENSOR)
            return dlsh_fail(DL_ERR_TYPE, "y, s = rnn(x, [h, c])", "expected a list of tensors, got %s in it",
                             dlsh_a(items[i]));
        DLSH_TRY(put(p, at + i, items[i].as.tensor));
    }
    *next = at + n;
    return DL_OK;
}

static int named(const places *p, const char *name) {
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->names[i], name)) return i;
    return -1;
}

static dl_status fill(places *p, const dlsh_callargs *args) {
    int next;
    for (int i = 0; i < args->n; i++) {
        const char *name = args->names ? args->names[i] : NULL;
        int at = name ? named(p, name) : p->next;
        if (at < 0) {
            char hint[200] = "it takes ";
            for (int k = 0; k < p->count; k++)
                strncat(strncat(hint, k ? ", " : "", 4), p->names[k], sizeof hint - strlen(hint) - 4);
            return dlsh_fail(DL_ERR_NAME, hint, "layer %s has no input '%s'", dl_module_kind(p->m), name);
        }
        DLSH_TRY(put_value(p, at, args->values[i], &next));
        if (!name) p->next = next;
    }
    if (p->t[0]) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, "y, s = rnn(x)", "layer %s needs a tensor for '%s'", dl_module_kind(p->m),
                     p->names[0]);
}

/* One result as it is; several: the first, and the others, of which more than one are a list. */
static dlsh_value arranged(const dl_pack *p) {
    dl_tensor *t[DL_NET_INPUTS];
    int n = dl_pack_count(p);
    for (int i = 0; i < n; i++) t[i] = dl_pack_tensor(p, i);
    if (n < 3) return dlsh_tensors_value(t, n, NULL);
    dlsh_value two[2] = {dlsh_tensor(dl_ref(t[0])), dlsh_tensors_value(t + 1, n - 1, NULL)};
    return dlsh_list_of(two, 2);
}

dl_status dlsh_call_layer(dl_module *m, const dlsh_callargs *args, dlsh_value *out) {
    places p = {.m = m, .names = dl_module_arguments(m)};
    while (p.names[p.count]) p.count++;
    dl_status st = fill(&p, args);
    int n = p.count;
    while (n > 1 && !p.t[n - 1]) n--;
    DLSH_ENDED(dl_pack_unref)
    dl_pack *in = st == DL_OK ? dl_pack_new(p.t, n, NULL, NULL) : NULL, *result = in ? dl_module_call(m, in) : NULL;
    for (int i = 0; i < p.nmade; i++) dlsh_drop(p.made[i]);
    if (!result) return st == DL_OK ? dl_failed() : st;
    *out = arranged(result);
    return dlsh_failed(*out) ? dl_failed() : DL_OK;
}
