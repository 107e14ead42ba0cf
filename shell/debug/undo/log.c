/* Entries of the log: what they hold, whether it is still what the statement left, and taking it back. */
#include <stdio.h>
#include <stdlib.h>

#include "commands/nets/nets.h"
#include "debug/undo/undo.h"
#include "dlcore/copy.h"

size_t dlsh_undo_bytes(const dl_tensor *t) { return (size_t)dl_numel(t) * dl_dtype_size(dl_dtype_of(t)); }

dl_tensor *dlsh_undo_copy(dl_tensor *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    return dl_clone(t);
}

static const char *size_text(size_t bytes, char *buf, size_t size) {
    const int mb = bytes >= 1 << 20, shift = mb ? 20 : 10;
    snprintf(buf, size, "%zu%s", (bytes + ((size_t)1 << shift) - 1) >> shift, mb ? "MB" : "KB");
    return buf;
}

dlsh_undo_part *dlsh_undo_part_new(dlsh_undo_entry *e, dlsh_undo_kind kind, const char *name, size_t bytes) {
    char need[32], have[32];
    if (*e->missing) return NULL;
    if (e->bytes + bytes > dlsh_undo_budget_get()) {
        snprintf(e->missing, sizeof e->missing, "%.48s needs %s, and set undo %s allows less", name,
                 size_text(e->bytes + bytes, need, sizeof need), size_text(dlsh_undo_budget_get(), have, sizeof have));
        return NULL;
    }
    dlsh_undo_part *more = dlsh_grow(e->parts, e->n, &e->cap, sizeof *more);
    if (!more) {
        dl_error_clear();
        snprintf(e->missing, sizeof e->missing, "there was no memory to keep it");
        return NULL;
    }
    e->parts = more;
    more = &e->parts[e->n++];
    *more = (dlsh_undo_part){.kind = kind, .owner = dlsh_void(), .old = dlsh_void()};
    snprintf(more->name, sizeof more->name, "%s", name);
    e->bytes += bytes;
    return more;
}

void dlsh_undo_part_free(dlsh_undo_part *p) {
    dlsh_drop(p->owner);
    dlsh_drop(p->old);
    if (p->kind == DLSH_UNDO_STATE) dl_optimizer_unref(p->self);
    if (p->state) dl_tensor_file_free(p->state);
}

void dlsh_undo_entry_free(dlsh_undo_entry *e) {
    for (int i = 0; i < e->n; i++) dlsh_undo_part_free(&e->parts[i]);
    free(e->parts);
    *e = (dlsh_undo_entry){0};
}

/* ---------------------------------------------------------------- stamps */

/* Does a variable still hold the trainer? */
static int lives(dlsh_session *s, const void *trainer) {
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        dlsh_global_at(s, i, &v);
        if (v && dlsh_unwrap(*v, &dlsh_trainer_class) == trainer) return 1;
    }
    return 0;
}

static unsigned long mix(unsigned long h, unsigned long v) { return (h ^ v) * 0x100000001b3UL; }

static unsigned long value_stamp(const dlsh_value *v) {
    const unsigned long bits = v->type == DLSH_BOOL ? (unsigned long)v->as.b : (unsigned long)v->as.i;
    const int empty = v->type == DLSH_NONE || v->type == DLSH_VOID;
    return mix(mix(0xcbf29ce484222325UL, (unsigned long)v->type), empty ? 0 : bits);
}

static unsigned long items_stamp(const dlsh_value *v) {
    const int list = v->type == DLSH_LIST, n = list ? v->as.list->n : v->as.record->n;
    const dlsh_value *items = list ? v->as.list->items : v->as.record->values;
    unsigned long h = (unsigned long)n;
    for (int i = 0; i < n; i++) h = mix(h, value_stamp(&items[i]));
    return h;
}

/* Of a field with a string, which is made anew whenever it is asked for, the same always. */
static unsigned long field_stamp(dlsh_session *s, const dlsh_undo_part *p) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    if (dlsh_get_field(s, p->owner, p->name, &v)) return dl_error_clear(), 0;
    unsigned long h = v.type == DLSH_STR || v.type == DLSH_LIST || v.type == DLSH_RECORD ? 1 : value_stamp(&v);
    return h;
}

unsigned long dlsh_undo_stamp(dlsh_session *s, const dlsh_undo_part *p) {
    const dlsh_value nothing = dlsh_void(), *v;
    dl_trainer_state now;
    switch (p->kind) {
    case DLSH_UNDO_VARIABLE: return value_stamp((v = dlsh_get(s, p->name)) ? v : &nothing);
    case DLSH_UNDO_FIELD: return field_stamp(s, p);
    case DLSH_UNDO_ITEMS: return items_stamp(&p->owner);
    case DLSH_UNDO_CONTENTS: return (unsigned long)dl_tensor_version(p->owner.as.tensor);
    case DLSH_UNDO_STATE: return (unsigned long)dl_optimizer_steps(p->self);
    case DLSH_UNDO_TRAINER:
        if (!lives(s, p->self)) return 0;
        dl_trainer_get(p->self, &now);
        return (unsigned long)now.step + 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- taking back */

static dl_status check(dlsh_session *s, const dlsh_undo_entry *e) {
    for (int i = 0; i < e->n; i++) {
        const dlsh_undo_part *p = &e->parts[i];
        if (p->kind == DLSH_UNDO_TRAINER && !lives(s, p->self))
            return dlsh_fail(DL_ERR_STATE, NULL, "\"%s\" cannot be taken back: its trainer is gone", e->text);
        if (dlsh_undo_stamp(s, p) != p->after)
            return dlsh_fail(DL_ERR_STATE, "changes in place within functions are not kept; undo again goes on before",
                             "\"%s\" cannot be taken back: %s has changed since", e->text, p->name);
    }
    return DL_OK;
}

static dl_status put_items(dlsh_value to, dlsh_value from) {
    if (to.type == DLSH_LIST) {
        dlsh_list_remove(to.as.list, 0, to.as.list->n);
        for (int i = 0; i < from.as.list->n; i++)
            DLSH_TRY(dlsh_list_push(to.as.list, dlsh_ref(from.as.list->items[i])));
        return DL_OK;
    }
    dlsh_record_clear(to.as.record);
    for (int i = 0; i < from.as.record->n; i++)
        DLSH_TRY(dlsh_record_set(to.as.record, from.as.record->keys[i], dlsh_ref(from.as.record->values[i])));
    return DL_OK;
}

static dl_status take_back(dlsh_session *s, dlsh_undo_part *p) {
    DLSH_SCOPED_GRAD_MODE(0);
    long from;
    switch (p->kind) {
    case DLSH_UNDO_VARIABLE:
        if (p->without_history)
            dlsh_put(dlsh_session_sink(s), "%s is back without its history: compute it again for backward\n", p->name);
        if (p->old.type == DLSH_VOID) return dlsh_unset(s, p->name);
        return dlsh_set(s, p->name, dlsh_ref(p->old));
    case DLSH_UNDO_FIELD: return dlsh_set_field(s, p->owner, p->name, p->old);
    case DLSH_UNDO_ITEMS: return put_items(p->owner, p->old);
    case DLSH_UNDO_CONTENTS: return dl_assign(p->owner.as.tensor, p->old.as.tensor);
    case DLSH_UNDO_STATE: return dl_optimizer_load_state(p->self, p->state, "");
    case DLSH_UNDO_TRAINER: return dl_trainer_rewind(p->self, (long)p->before - 1, &from, NULL, NULL);
    }
    return DL_OK;
}

dl_status dlsh_undo_apply(dlsh_session *s, dlsh_undo_entry *e) {
    if (*e->missing)
        return dlsh_fail(DL_ERR_STATE, "undo again goes on before it", "\"%s\" cannot be taken back: %s", e->text,
                         e->missing);
    DLSH_TRY(check(s, e));
    for (int i = e->n - 1; i >= 0; i--) DLSH_TRY(take_back(s, &e->parts[i]));
    return DL_OK;
}
