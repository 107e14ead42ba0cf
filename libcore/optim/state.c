/* The state of an optimizer as named tensors. */
#include <stdio.h>
#include <string.h>

#include "core/scope.h"
#include "optim/algorithm.h"

enum { NAME_MAX_ = 1024 };

static dl_status give(dl_state_fn *fn, void *ctx, const char *name, dl_tensor *t) {
    DL_OWNED dl_tensor *owned = t;
    return owned ? fn(ctx, name, owned) : dl_failed();
}

/* Steps of the optimizer, then of each parameter. */
static dl_tensor *steps_of(const dl_optimizer *o) {
    dl_tensor *t = dl_tensor_empty(1, (long[]){o->n + 1}, DL_I64, 0);
    int64_t *v = t ? dl_ptr(t) : NULL;
    if (v) v[0] = o->steps;
    for (long i = 0; v && i < o->n; i++) v[i + 1] = o->param[i].steps;
    return t;
}

dl_status dl_optimizer_state(dl_optimizer *o, dl_state_fn *fn, void *ctx) {
    if (!o || !fn) return dl_fail_null(!o ? "the optimizer" : "the function that takes its state");
    DL_TRY(give(fn, ctx, "lr", dl_tensor_from(1, (long[]){1}, DL_F64, 0, &o->lr)));
    DL_TRY(give(fn, ctx, "steps", steps_of(o)));
    if (o->row->algorithm) return o->row->algorithm->state(o->algorithm, fn, ctx);
    if (o->edits) DL_TRY(give(fn, ctx, "groups", dl_optimizer_groups_tensor(o)));
    for (long i = 0; i < o->n; i++)
        for (int s = 0; s < DL_OPTIM_STATES; s++) {
            char name[NAME_MAX_];
            if (!o->param[i].state[s]) continue;
            dl_optimizer_state_name(o, i, s, name, sizeof name);
            DL_TRY(fn(ctx, name, o->param[i].state[s]));
        }
    return DL_OK;
}

static dl_tensor *find(const dl_tensor_file *f, const char *prefix, const char *name) {
    char full[2 * NAME_MAX_];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return dl_tensor_file_find(f, full);
}

typedef struct search {
    const dl_tensor_file *f;
    const char *prefix;
} search;

static dl_tensor *find_in(const void *ctx, const char *name) {
    const search *s = ctx;
    return find(s->f, s->prefix, name);
}

static dl_tensor *find_state(const dl_optimizer *o, const dl_tensor_file *f, const char *prefix, long i, int s) {
    char name[NAME_MAX_];
    dl_optimizer_state_name(o, i, s, name, sizeof name);
    return find(f, prefix, name);
}

/* Does every state that the file has fit, and does a parameter that made steps have its own? */
static dl_status check_states(const dl_optimizer *o, const dl_tensor_file *f, const char *prefix,
                              const int64_t *steps) {
    for (long i = 0; i < o->n; i++)
        for (int s = 0; s < DL_OPTIM_STATES && o->row->state[s]; s++) {
            const dl_tensor *t = find_state(o, f, prefix, i, s);
            if (!t && dl_optimizer_state_needed(o, s) && steps[i + 1])
                return dl_fail(DL_ERR_NAME, "there is no %s of '%s' in the state of the optimizer", o->row->state[s],
                               o->param[i].name);
            if (t) DL_TRY(dl_optimizer_check_restore(o, i, s, t));
        }
    return DL_OK;
}

/* The part of a tensor's name behind the prefix; NULL: it has another. */
static const char *behind(const dl_tensor_file *f, long k, const char *prefix) {
    const char *name = dl_tensor_file_name(f, k);
    return strncmp(name, prefix, strlen(prefix)) ? NULL : name + strlen(prefix);
}

static bool keeps(const dl_optimizer *o, const char *name) {
    char own[NAME_MAX_];
    bool known = !strcmp(name, "lr") || !strcmp(name, "steps") || !strcmp(name, "groups");
    for (long i = 0; i < o->n && !known; i++)
        for (int s = 0; s < DL_OPTIM_STATES && o->row->state[s] && !known; s++) {
            dl_optimizer_state_name(o, i, s, own, sizeof own);
            known = !strcmp(own, name);
        }
    return known;
}

/* A state that this kind of optimizer does not keep belongs to another kind. */
static dl_status check_others(const dl_optimizer *o, const dl_tensor_file *f, const char *prefix) {
    long have = 0, known = 2 + (find(f, prefix, "groups") != NULL);
    if (o->row->algorithm) return DL_OK;
    for (long k = 0; k < dl_tensor_file_count(f); k++) have += behind(f, k, prefix) != NULL;
    for (long i = 0; i < o->n; i++)
        for (int s = 0; s < DL_OPTIM_STATES && o->row->state[s]; s++) known += find_state(o, f, prefix, i, s) != NULL;
    for (long k = 0; have > known && k < dl_tensor_file_count(f); k++) {
        const char *name = behind(f, k, prefix);
        if (name && !keeps(o, name))
            return dl_fail_hint(DL_ERR_VALUE, "make an optimizer of the kind that it was saved from",
                                "the state has '%s', which %s does not keep", name, dl_optimizer_kind(o));
    }
    return DL_OK;
}

static dl_status restore(dl_optimizer *o, const dl_tensor_file *f, const char *prefix, const int64_t *steps) {
    if (o->row->algorithm) DL_TRY(o->row->algorithm->restore(o, find_in, &(search){f, prefix}, true));
    for (long i = 0; i < o->n; i++) {
        for (int s = 0; s < DL_OPTIM_STATES && o->row->state[s]; s++) {
            dl_tensor *t = find_state(o, f, prefix, i, s);
            if (t) DL_TRY(dl_optimizer_restore(o, i, s, t));
            if (t) continue;
            dl_unref(o->param[i].state[s]);
            o->param[i].state[s] = NULL;
        }
        o->param[i].steps = steps[i + 1];
    }
    o->steps = steps[0];
    return DL_OK;
}

/* Nothing is changed where the state does not fit, or `write` is off. */
static dl_status load_state(dl_optimizer *o, const dl_tensor_file *f, const char *prefix, bool write) {
    if (!o || !f) return dl_fail_null(!o ? "the optimizer" : "the file");
    const dl_tensor *lr = find(f, prefix, "lr"), *steps = find(f, prefix, "steps");
    if (!lr || !steps || lr->dtype != DL_F64 || lr->numel != 1 || steps->dtype != DL_I64 || steps->ndim != 1)
        return dl_fail_hint(DL_ERR_NAME, "save record(m=m, o=o) FILE writes one",
                            "'lr' and 'steps' of an optimizer are not among the tensors");
    if (steps->numel != o->n + 1)
        return dl_fail_hint(DL_ERR_VALUE, "make it with the net or parameters that it was saved with",
                            "the state is that of %ld parameters, the optimizer has %ld", (long)steps->numel - 1, o->n);
    DL_SCOPED_GRAD_MODE(0);
    DL_OWNED dl_tensor *rate = dl_to_device((dl_tensor *)lr, 0), *counts = dl_to_device((dl_tensor *)steps, 0);
    dl_tensor *kept = find(f, prefix, "groups");
    DL_OWNED dl_tensor *groups = kept ? dl_to_device(kept, 0) : NULL;
    if (!rate || !counts || (kept && !groups)) return dl_failed();
    if (groups) DL_TRY(dl_optimizer_check_groups_tensor(o, groups));
    const int64_t *n = dl_ptr(counts);
    for (long i = 0; i <= o->n; i++)
        if (n[i] < 0) return dl_fail(DL_ERR_VALUE, "an optimizer cannot have made %ld steps", (long)n[i]);
    DL_TRY(check_states(o, f, prefix, n));
    DL_TRY(check_others(o, f, prefix));
    const double to = *(const double *)dl_ptr(rate);
    DL_TRY(dl_optimizer_check_lr(to));
    if (!write) return o->row->algorithm ? o->row->algorithm->restore(o, find_in, &(search){f, prefix}, false) : DL_OK;
    DL_TRY(restore(o, f, prefix, n));
    DL_TRY(dl_optimizer_put_lr(o, to));
    if (groups) dl_optimizer_restore_groups(o, groups);
    return DL_OK;
}

dl_status dl_optimizer_load_state(dl_optimizer *o, const dl_tensor_file *f, const char *prefix) {
    return load_state(o, f, prefix, true);
}

dl_status dl_optimizer_check_state(dl_optimizer *o, const dl_tensor_file *f, const char *prefix) {
    return load_state(o, f, prefix, false);
}
