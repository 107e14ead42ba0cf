/* Changing a net that is there: another layer in the place of one, and calls with other tensors than its own. */
#include <stdio.h>
#include "core/scope.h"
#include <stdlib.h>
#include <string.h>

#include "nn/module.h"

/* ---------------------------------------------------------------- another layer */

static unsigned long changes;

unsigned long dl_module_changes(void) { return __atomic_load_n(&changes, __ATOMIC_RELAXED); }
void dl_module_changed(void) { __atomic_add_fetch(&changes, 1, __ATOMIC_RELAXED); }

/* A path of the new part: that of its place, then its own. */
typedef struct place {
    const char *path;
    size_t n;
} place;

static dl_status take_path(void *ctx, dl_module *m, const char *below) {
    const place *at = ctx;
    char *path = malloc(at->n + strlen(below) + 2);
    if (!path) return dl_fail(DL_ERR_MEMORY, "no memory for the name of a layer");
    sprintf(path, "%s%s%s", at->path, *below ? "." : "", below);
    DL_TRY(dl_module_set_path(m, path));
    for (int i = 0; i < DL_LAYER_TENSORS; i++) {
        char name[2 * DL_PATH_MAX];
        if (!m->tensor[i] || (i == 0 && m->tie_owner)) continue;
        const char *own = m->row->tensors[i];
        snprintf(name, sizeof name, "%s%s%s", path, *own ? "." : "", own);
        DL_TRY(dl_tensor_set_name(m->tensor[i], name));
    }
    return DL_OK;
}

dl_status dl_module_take_path(dl_module *part, const char *path) {
    return dl_module_visit(part, take_path, &(place){path, strlen(path)});
}

/* A layer below `net` that shares a tensor of the part that leaves keeps the tensor as its own. */
typedef struct leaving {
    dl_module *net, *part;
} leaving;

static dl_status release_tie(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    const leaving *l = ctx;
    char buf[DL_PATH_MAX];
    if (!m->tie_owner || !dl_module_path_of(l->part, m->tie_owner, buf) || dl_module_path_of(l->net, m->tie_owner, buf))
        return DL_OK;
    dl_module_unref(m->tie_owner);
    m->tie_owner = NULL;
    free(m->tie);
    m->tie = NULL;
    return DL_OK;
}

static dl_status check_part(const dl_module *net, const char *label, const dl_module *former, const dl_module *part) {
    char buf[DL_PATH_MAX];
    if (dl_module_holds_tensor(former))
        return dl_fail(DL_ERR_TYPE, "'%s' is a tensor of the net; no layer can take its place", label);
    if (dl_module_holds_tensor(part))
        return dl_fail(DL_ERR_TYPE, "a tensor of a net is not a layer and cannot become '%s'", label);
    if (dl_module_path_of(part, net, buf))
        return dl_fail_hint(DL_ERR_VALUE, "take a copy of it: m.copy()",
                            "a net cannot hold itself: '%s' would be the net that it is a part of", label);
    return DL_OK;
}

dl_status dl_module_replace(dl_module *m, const char *label, dl_module *part) {
    if (!m || !label || !part) return dl_fail_null(!m ? "the net" : !label ? "the name of a layer" : "the layer");
    dl_module *former = dl_module_find(m, label);
    int at = 0;
    while (at < m->nchild && (m->child[at].m != former || strcmp(m->child[at].name, label))) at++;
    if (!former || at == m->nchild)
        return dl_fail(DL_ERR_NAME, "net %s has no layer '%s' to be replaced", dl_module_name(m), label);
    if (former == part) return DL_OK;
    DL_TRY(check_part(m, label, former, part));
    char path[2 * DL_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s%s%s", m->path ? m->path : "", m->path ? "." : "", label);
    if (n >= DL_PATH_MAX) return dl_fail(DL_ERR_VALUE, "the name of the layer is too long: '%.60s...'", path);
    DL_TRY(dl_module_take_path(part, path));
    m->child[at].m = dl_module_ref(part);
    m->has_code |= part->code || part->has_code;
    dl_module_parts_changed();
    dl_module_visit(m, release_tie, &(leaving){m, former});
    dl_module_unref(former);
    dl_module_changed();
    return DL_OK;
}

/* ---------------------------------------------------------------- other tensors */

/* A tensor of the net, and the one that stands in its place. */
typedef struct stand_in {
    dl_tensor *own, *other;
} stand_in;

typedef struct swap {
    const stand_in *s;
    long n;
} swap;

/* Each slot that has a tensor's own gets the other: shared ones as well. */
static dl_status swap_in(void *ctx, dl_module *m, const char *path DL_UNUSED) {
    const swap *w = ctx;
    for (int i = 0; i < DL_LAYER_TENSORS; i++)
        for (long k = 0; m->tensor[i] && k < w->n; k++) {
            if (m->tensor[i] != w->s[k].own) continue;
            dl_unref(m->tensor[i]);
            m->tensor[i] = dl_ref(w->s[k].other);
            break;
        }
    return DL_OK;
}

/* Runs the net while others stand in. */
static dl_pack *call_with(dl_module *m, stand_in *s, long n, dl_pack *in) {
    for (long i = 0; i < n; i++) dl_ref(s[i].own), dl_ref(s[i].other);
    dl_module_visit(m, swap_in, &(swap){s, n});
    dl_module_parts_changed();
    dl_pack *out = dl_module_call(m, in);
    for (long i = 0; i < n; i++) s[i] = (stand_in){s[i].other, s[i].own};
    dl_module_visit(m, swap_in, &(swap){s, n});
    dl_module_parts_changed();
    for (long i = 0; i < n; i++) dl_unref(s[i].own), dl_unref(s[i].other);
    return out;
}

static dl_status find_stand_in(dl_module *m, const char *path, dl_tensor *t, stand_in *out) {
    dl_tensor *own = dl_module_tensor(m, path);
    if (!own) {
        dl_module_list *l = dl_module_tensors(m, 3);
        if (!l) return dl_failed();
        const char *names[256];
        int n = 0;
        for (; n < l->n && n < 256; n++) names[n] = l->entries[n].path;
        const char *near = dl_nearest(path, names, n);
        dl_status st =
            dl_fail_hint(DL_ERR_NAME, near ? near : "", "net %s has no tensor '%s'", dl_module_name(m), path);
        dl_module_list_free(l);
        return st;
    }
    *out = (stand_in){own, t};
    if (dl_shape_eq(own, t)) return DL_OK;
    return dl_fail(DL_ERR_SHAPE, "%s has shape %s; a tensor of shape %s cannot stand in its place", path,
                   dl_shape_of(own), dl_shape_of(t));
}

dl_pack *dl_module_call_with(dl_module *m, const char *const *paths, dl_tensor *const *tensors, long n, dl_pack *in) {
    if (!m) return dl_fail_null("the net"), NULL;
    if (dl_module_check_built(m)) return NULL;
    DL_FREED stand_in *s = malloc((size_t)(n + 1) * sizeof *s);
    if (!s) return dl_fail(DL_ERR_MEMORY, "no memory for the tensors of a call"), NULL;
    dl_status st = DL_OK;
    long used = 0;
    for (long i = 0; i < n && st == DL_OK; i++) {
        st = find_stand_in(m, paths[i], tensors[i], &s[used]);
        bool own = st == DL_OK && s[used].own == s[used].other;
        for (long k = 0; k < used && st == DL_OK && !own; k++)
            if (s[k].own == s[used].own)
                st = dl_fail(DL_ERR_NAME, "two tensors are given for %s, which shares its values", paths[i]);
        used += !own;
    }
    return st == DL_OK ? call_with(m, s, used, in) : NULL;
}
