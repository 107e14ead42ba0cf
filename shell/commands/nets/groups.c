/* o.param_groups: the parameters of an optimizer that have options of their own, which may be changed. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"

/* Group `number` of an optimizer. */
typedef struct group {
    dl_optimizer *o; /* a reference */
    const dl_kind_row *kind;
    int number;
} group;

static void destroy(void *self) {
    group *g = self;
    dl_optimizer_unref(g->o);
    free(g);
}

const dl_kind_row *dlsh_optimizer_kind(const dl_optimizer *o) {
    const dl_kind_row *k;
    for (int i = 0; (k = dl_optimizer_kind_at(i)); i++)
        if (!strcmp(k->name, dl_optimizer_kind(o))) return k;
    return NULL;
}

static dlsh_value value_of(const dl_arg *a) {
    dlsh_value v[8];
    switch (a->kind) {
    case DL_ARG_BOOL: return dlsh_bool(a->i != 0);
    case DL_ARG_INT: return dlsh_int(a->i);
    case DL_ARG_FLOAT: return dlsh_float(a->f);
    case DL_ARG_STR: return dlsh_string(a->s);
    default:
        for (int i = 0; i < a->n; i++) v[i] = a->kind == DL_ARG_FLOATS ? dlsh_float(a->fv[i]) : dlsh_int(a->v[i]);
        return dlsh_list_of(v, a->n);
    }
}

/* The number of an option; -1: the kind has none of that name. */
static int option_of(const group *g, const char *name) {
    for (int i = 0; g->kind->options[i].name; i++)
        if (!strcmp(g->kind->options[i].name, name)) return i;
    return -1;
}

static dl_status get(void *self, const char *name, dlsh_value *out) {
    const group *g = self;
    int option = option_of(g, name);
    dl_arg a;
    if (option < 0) return DL_ERR_NAME;
    DLSH_TRY(dl_optimizer_group_get(g->o, g->number, option, &a));
    return dlsh_give(value_of(&a), out);
}

static dl_status set(void *self, const char *name, dlsh_value v) {
    const group *g = self;
    dlsh_arg_room room;
    dl_arg a;
    if (option_of(g, name) < 0) return DL_ERR_NAME;
    DLSH_TRY(dlsh_to_arg(name, v, &room, &a));
    return dl_optimizer_group_set(g->o, g->number, &a);
}

static dl_status names(void *self, dlsh_value *out) {
    const group *g = self;
    DLSH_DROPPED dlsh_value l = dlsh_new_list(8);
    for (int i = 0; g->kind->options[i].name; i++) DLSH_TRY(dlsh_append(l, dlsh_string(g->kind->options[i].name)));
    return dlsh_hand_over(&l, out);
}

static dlsh_value parameters_of(const group *g) {
    dlsh_value l = dlsh_new_list(0);
    dl_status st = dlsh_failed(l) ? dl_failed() : DL_OK;
    dl_tensor *p;
    for (long i = 0; st == DL_OK && (p = dl_optimizer_param(g->o, i, NULL)); i++)
        if (dl_optimizer_group_of(g->o, i) == g->number) st = dlsh_list_push(l.as.list, dlsh_tensor(dl_ref(p)));
    if (st == DL_OK) return l;
    dlsh_drop(l);
    return dlsh_void();
}

DLSH_GETTER(get_params, parameters_of(self))
static const dlsh_field fields[] = {{"params", "its parameters", get_params, NULL}, {NULL, NULL, NULL, NULL}};

/* g["lr"], as PyTorch writes it. */
static dl_status name_of(const dlsh_value key, const char **name) {
    *name = key.type == DLSH_STR ? key.as.str->s : NULL;
    if (*name) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, "g.lr or g[\"lr\"]", "an option of a group is found by its name, got %s",
                     dlsh_a(key));
}

static dl_status unknown(const group *g, const char *name) {
    return dlsh_fail(DL_ERR_NAME, "show the group: it lists its options", "%s has no option '%s'", g->kind->name, name);
}

static dl_status index_of(DLSH_UNUSED dlsh_session *s, void *self, dlsh_value key, dlsh_value *out) {
    const char *name;
    DLSH_TRY(name_of(key, &name));
    if (!strcmp(name, "params")) return dlsh_give(parameters_of(self), out);
    dl_status st = get(self, name, out);
    return st == DL_ERR_NAME ? unknown(self, name) : st;
}

static dl_status set_index(DLSH_UNUSED dlsh_session *s, void *self, dlsh_value key, dlsh_value v) {
    const char *name;
    DLSH_TRY(name_of(key, &name));
    return option_of(self, name) < 0 ? unknown(self, name) : set(self, name, v);
}

static dl_status text(void *self, dlsh_buf *out) {
    const group *g = self;
    long n = 0;
    for (long i = 0; dl_optimizer_param(g->o, i, NULL); i++) n += dl_optimizer_group_of(g->o, i) == g->number;
    dlsh_buf_printf(out, "<group of %ld parameter%s:", n, n == 1 ? "" : "s");
    for (int i = 0; g->kind->options[i].name; i++) {
        DLSH_DROPPED dlsh_value v = dlsh_void();
        DLSH_TRY(get(self, g->kind->options[i].name, &v));
        dlsh_buf_printf(out, "%s %s=", i ? "," : "", g->kind->options[i].name);
        dl_status st = dlsh_repr(out, v);
        DLSH_TRY(st);
    }
    dlsh_buf_puts(out, ">");
    return DL_OK;
}

const dlsh_class dlsh_group_class = {
    .name = "group",
    .doc = "Parameters of an optimizer and their options, which can be read and set: g.lr = 0.1, or g[\"lr\"] = 0.1.",
    .destroy = destroy,
    .text = text,
    .fields = fields,
    .get = get,
    .set = set,
    .names = names,
    .index = index_of,
    .set_index = set_index};

/* Groups that have parameters; before there are any, all of them. */
dlsh_value dlsh_param_groups(dl_optimizer *o) {
    dlsh_value l = dlsh_new_list(2);
    dl_status st = dlsh_failed(l) ? dl_failed() : DL_OK;
    int empty = !dl_optimizer_param(o, 0, NULL);
    for (int number = 0; st == DL_OK && number < dl_optimizer_groups(o); number++) {
        int used = empty;
        for (long i = 0; !used && dl_optimizer_param(o, i, NULL); i++) used = dl_optimizer_group_of(o, i) == number;
        group *g = used ? malloc(sizeof *g) : NULL;
        if (g) *g = (group){dl_optimizer_ref(o), dlsh_optimizer_kind(o), number};
        if (used) st = g ? dlsh_list_push(l.as.list, dlsh_new_handle(&dlsh_group_class, g)) : dlsh_no_memory("a group");
    }
    if (st == DL_OK) return l;
    dlsh_drop(l);
    return dlsh_void();
}
