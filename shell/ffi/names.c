/* The values `ops` and `C`: ops.NAME is a built-in function, C.NAME a name of C, also when another name hides it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/inside.h"

static void nothing(void *self) { (void)self; }

static dl_status ops_get(void *self, const char *name, dlsh_value *out) {
    *out = dlsh_builtin_value(((dlsh_cstate *)self)->s, name);
    return dlsh_failed(*out) ? DL_ERR_NAME : DL_OK;
}

static dl_status ops_text(DLSH_UNUSED void *self, dlsh_buf *b) {
    dlsh_buf_puts(b, "<ops: the built-in functions>");
    return DL_OK;
}

static const dlsh_class ops_class = {.name = "ops",
                                     .doc = "The built-in functions, also those whose name was given to a C function.",
                                     .destroy = nothing,
                                     .text = ops_text,
                                     .get = ops_get};

/* Can C.NAME mean it? Functions, variables, constants and macros. */
static int has_value(const dlsh_cname *n) {
    if (n->kind == DLSH_C_SYMBOL && n->how == DLSH_C_OWN && !n->addr) return 0; /* a variable of the session has it */
    return n->kind == DLSH_C_SYMBOL || n->kind == DLSH_C_CONSTANT || (n->kind == DLSH_C_MACRO && n->name[0] != '_');
}

static const char **all_names(const dlsh_cstate *st, int *n) {
    const dlsh_cname *k;
    int cap = 0;
    for (int next = 0; dlsh_c_next(st->space, &next);) cap++;
    const char **names = malloc(((size_t)cap + 1) * sizeof *names);
    *n = 0;
    for (int next = 0; names && (k = dlsh_c_next(st->space, &next));)
        if (has_value(k)) names[(*n)++] = k->name;
    return names;
}

static dl_status not_declared(const dlsh_cstate *st, const char *name) {
    char hint[160] = "extern \"library\" PROTOTYPE; declares it, extern \"library\" header <name.h>; all of a header";
    int n;
    const dlsh_cname *known = dlsh_c_find(st->space, name, strlen(name));
    if (known && known->how == DLSH_C_OWN)
        return dlsh_fail(DL_ERR_NAME, "run the block once more", "the '%s' of a C block went with the variable '%s'",
                         name, name);
    const char **names = all_names(st, &n), *near = names ? dlsh_nearest(name, names, n) : NULL;
    if (near) snprintf(hint, sizeof hint, "did you mean C.%.100s?", near);
    free(names);
    return dlsh_fail(DL_ERR_NAME, hint, "C has no '%s' that was declared", name);
}

static dl_status c_get(void *self, const char *name, dlsh_value *out) {
    int lasting, found = dlsh_c_name_value(self, name, out, &lasting);
    return found > 0 ? DL_OK : found < 0 ? dl_failed() : not_declared(self, name);
}

static dl_status c_set(DLSH_UNUSED void *self, const char *name, DLSH_UNUSED dlsh_value v) {
    return dlsh_fail(DL_ERR_TYPE, "a variable of C is set through its pointer: C.name[0] = 5", "C.%s cannot be set",
                     name);
}

static dl_status c_names(void *self, dlsh_value *out) {
    int n;
    DLSH_FREED const char **names = all_names(self, &n);
    DLSH_DROPPED dlsh_value list = dlsh_new_list(n);
    if (!names) return dlsh_no_memory("names");
    for (int i = 0; i < n; i++) DLSH_TRY(dlsh_append(list, dlsh_string(names[i])));
    return dlsh_hand_over(&list, out);
}

static dl_status c_text(DLSH_UNUSED void *self, dlsh_buf *b) {
    dlsh_buf_puts(b, "<C: the names that were declared with extern and in C blocks>");
    return DL_OK;
}

static const dlsh_class c_class = {.name = "C",
                                   .doc = "C's functions, variables, constants and macros, also those that a built-in "
                                          "name hides.",
                                   .destroy = nothing,
                                   .text = c_text,
                                   .get = c_get,
                                   .set = c_set,
                                   .names = c_names};

dlsh_value dlsh_c_spaces_value(dlsh_cstate *st, const char *name) {
    if (!strcmp(name, "ops")) return dlsh_new_handle(&ops_class, st);
    if (!strcmp(name, "C")) return dlsh_new_handle(&c_class, st);
    return dlsh_void();
}

int dlsh_c_is_hidden(dlsh_session *s, const char *name) {
    if (dlsh_find_command(s, name, strlen(name))) return 1;
    DLSH_DROPPED dlsh_value v = dlsh_builtin_value(s, name);
    return !dlsh_failed(v);
}

void dlsh_c_warn_hidden(dlsh_session *s, const char *const *names, int n) {
    enum { SHOWN = 3 };
    char built_in[200] = "", ours[200] = "", hint[240];
    size_t a = 0, b = 0;
    if (!n) return;
    for (int i = 0; i < n && i < SHOWN; i++) {
        const char *join = !i ? "" : i == n - 1 ? " and " : ", ";
        a += (size_t)snprintf(built_in + a, sizeof built_in - a, "%s%.40s", join, names[i]);
        b += (size_t)snprintf(ours + b, sizeof ours - b, "%sC.%.40s", join, names[i]);
    }
    if (n > SHOWN) {
        snprintf(built_in + a, sizeof built_in - a, " and %d more", n - SHOWN);
        snprintf(ours + b, sizeof ours - b, " and so on");
    }
    snprintf(hint, sizeof hint, n > 1 ? "the header's are %s" : "the header's is %s", ours);
    dlsh_warn(s, hint, "%s: the built-in name%s", built_in, n > 1 ? "s stay what they are" : " stays what it is");
}
