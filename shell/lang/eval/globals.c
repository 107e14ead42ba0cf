/* The session's tables of names: commands and global variables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/eval/interp.h"

/* ---------------------------------------------------------------- rows */

static const char *row_name(const void *s, int i) { return ((const dlsh_session *)s)->rows[i]->name; }

dl_status dlsh_add_commands(dlsh_session *s, const dlsh_command *table) {
    for (const dlsh_command *c = table; c->name; c++) {
        if (dlsh_find_command(s, c->name, strlen(c->name)))
            return dlsh_fail(DL_ERR_INTERNAL, NULL, "two rows of the command table are called '%s'", c->name);
        const dlsh_command **rows = dlsh_grow(s->rows, s->nrows, &s->caprows, sizeof *rows);
        if (!rows) return DL_ERR_MEMORY;
        s->rows = rows;
        s->rows[s->nrows] = c;
        DLSH_TRY(dl_names_add(&s->row_names, s->nrows, row_name, s));
        s->nrows++;
    }
    return DL_OK;
}

int dlsh_command_count(const dlsh_session *s) { return s->nrows; }
const dlsh_command *dlsh_command_at(const dlsh_session *s, int i) { return i >= 0 && i < s->nrows ? s->rows[i] : NULL; }

const dlsh_command *dlsh_find_command(const dlsh_session *s, const char *name, size_t len) {
    int i = dl_names_find(&s->row_names, name, len, row_name, s);
    return i < 0 ? NULL : s->rows[i];
}

/* ---------------------------------------------------------------- globals */

static const char *global_name(const void *s, int i) { return ((const dlsh_session *)s)->globals[i].name; }

static int global_find(const dlsh_session *s, const char *name) {
    return dl_names_find(&s->global_names, name, (long)strlen(name), global_name, s);
}

int dlsh_global_slot(dlsh_session *s, const char *name) {
    int i = global_find(s, name);
    if (i >= 0) return i;
    dlsh_global *grown = dlsh_grow(s->globals, s->nglobals, &s->capglobals, sizeof *grown);
    if (!grown) return -1;
    s->globals = grown;
    char *copy = strdup(name);
    if (!copy) return dlsh_no_memory("a variable"), -1;
    s->globals[s->nglobals] = (dlsh_global){.name = copy, .value = dlsh_void(), .builtin = dlsh_void()};
    if (!dl_names_add(&s->global_names, s->nglobals, global_name, s)) return s->nglobals++;
    free(copy);
    return -1;
}

/* Functions that are also written with the name of PyTorch's module before them: NAME, or NAME=FUNCTION. */
static const struct {
    const char *name, *functions;
} prefixes[] = {
    {"prune",
     "random_unstructured|l1_unstructured|random_structured|ln_structured|global_unstructured|custom_from_mask|"
     "is_pruned|identity=prune_identity|remove=prune_remove|L1Unstructured=l1_unstructured|"
     "RandomUnstructured=random_unstructured"},
    {"parametrize", "register_parametrization|remove_parametrizations|is_parametrized"},
};

static dl_status add_prefixed(dlsh_session *s, dlsh_value to, const char *at, size_t n) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    char *is = strchr(name, '='), *function = is ? is + 1 : name;
    const dlsh_command *row = dlsh_find_command(s, function, strlen(function));
    if (is) *is = 0;
    return row ? dlsh_record_add(to, name, (dlsh_value){DLSH_BUILTIN, {.builtin = row}}) : DL_OK;
}

/* A record of the functions; VOID: it is no such name, or a failure is recorded. */
static dlsh_value prefix_value(dlsh_session *s, const char *name) {
    const char *at = NULL;
    for (size_t i = 0; i < DLSH_COUNT(prefixes) && !at; i++)
        if (!strcmp(prefixes[i].name, name)) at = prefixes[i].functions;
    if (!at) return dlsh_void();
    DLSH_DROPPED dlsh_value all = dlsh_new_record();
    dlsh_value out = dlsh_void();
    for (size_t n; *at; at += n + (at[n] == '|')) {
        n = strcspn(at, "|");
        if (dlsh_failed(all) || add_prefixed(s, all, at, n)) return out;
    }
    return dlsh_hand_over(&all, &out) ? dlsh_void() : out;
}

/* What a name means that is not a variable: a constant, a function of the tables, an op, a dtype, a device. */
dlsh_value dlsh_builtin_value(dlsh_session *s, const char *name) {
    static const struct {
        const char *name;
        double value;
    } constants[] = {{"pi", 3.14159265358979323846}, {"inf", __builtin_inf()}, {"nan", __builtin_nan("")}};
    for (size_t i = 0; i < DLSH_COUNT(constants); i++)
        if (!strcmp(constants[i].name, name)) return dlsh_float(constants[i].value);
    if (!strcmp(name, "cpu") || !strcmp(name, "cuda")) return dlsh_string(name); /* x.cpu() stays a method */
    const dlsh_command *row = dlsh_find_command(s, name, strlen(name));
    dl_dtype dtype;
    if (row && row->function) row = dlsh_find_command(s, row->function, strlen(row->function));
    if (row && row->flags & DLSH_FUNCTION) return (dlsh_value){DLSH_BUILTIN, {.builtin = row}};
    dlsh_value op = dlsh_op_value(name);
    if (dlsh_failed(op)) op = prefix_value(s, name);
    if (!dlsh_failed(op)) return op;
    if (dl_dtype_parse(name, &dtype) == DL_OK) return dlsh_string(dl_dtype_name(dtype));
    dl_error_clear();
    return dlsh_void();
}

const char *dlsh_nearest_command(const dlsh_session *s, const char *word) {
    static const char *const statements[] = {"net", "extern", "if", "while", "for", "fn", "return", "try"};
    DLSH_FREED const char **names = malloc(sizeof *names * ((size_t)s->nrows + 8));
    int n = 0;
    for (size_t i = 0; names && i < DLSH_COUNT(statements); i++) names[n++] = statements[i];
    for (int i = 0; names && i < s->nrows; i++)
        if ((s->rows[i]->flags & DLSH_ONLY_FUNCTION) != DLSH_ONLY_FUNCTION) names[n++] = s->rows[i]->name;
    const char *nearest = names ? dlsh_nearest(word, names, n) : NULL;
    return nearest;
}

int dlsh_hidden_hint(const dlsh_session *s, const char *name, char *hint, size_t size) {
    const char *hidden = s->services.c_hidden ? s->services.c_hidden(s->c_state, name) : NULL;
    if (hidden) snprintf(hint, size, "it hides C's function, which is C.%s: %.80s", name, hidden);
    return hidden != NULL;
}

const dl_kind_row *dlsh_schedule_kind(const char *name) {
    const dl_kind_row *row;
    for (int i = 0; (row = dl_schedule_kind_at(i)); i++)
        if (!strcmp(row->name, name) && *row->example) return row;
    return NULL;
}

int dlsh_kind_hint(const char *name, char *hint, size_t size) {
    const dl_kind_row *layer = dl_layer_kind(name), *schedule = layer ? NULL : dlsh_schedule_kind(name);
    if (layer)
        snprintf(hint, size, "a layer stands in a net: net m { %.80s }; help %.40s",
                 *layer->example ? layer->example : name, name);
    else if (schedule)
        snprintf(hint, size, "a schedule of the learning rate: %.100s", schedule->example);
    return layer || schedule;
}

/* The error for an unknown name. */
static dl_status unknown_name(dlsh_session *s, const char *name) {
    char hint[160] = "";
    const dlsh_command *row = dlsh_find_command(s, name, strlen(name));
    const char *known = dlsh_foreign_name(name), *nearest;
    if (row) {
        if (!dlsh_hidden_hint(s, name, hint, sizeof hint))
            snprintf(hint, sizeof hint, "%s%s", known ? "" : "a command is written without parentheses: ",
                     known        ? known
                     : row->usage ? row->usage
                                  : name);
        return dlsh_fail(DL_ERR_NAME, hint, "'%s' is a command without a result, it cannot be used as a value", name);
    }
    if (!row && !known && dlsh_kind_hint(name, hint, sizeof hint)) known = hint;
    if (known) return dlsh_fail(DL_ERR_NAME, known, "no variable or function is called '%s'", name);
    int n = 0;
    const char **names = malloc((size_t)(s->nglobals + s->nrows + DL_C128 + 2) * sizeof *names);
    if (!names) return dlsh_no_memory("names");
    for (int i = 0; i < s->nglobals; i++)
        if (s->globals[i].value.type != DLSH_VOID) names[n++] = s->globals[i].name;
    for (int i = 0; i < s->nrows; i++) names[n++] = s->rows[i]->name;
    for (int t = DL_BOOL; t <= DL_C128; t++) names[n++] = dl_dtype_name((dl_dtype)t);
    nearest = dlsh_nearest(name, names, n);
    free(names);
    if (!nearest) nearest = dlsh_nearest_op(name);
    if (nearest) snprintf(hint, sizeof hint, "did you mean %s?", nearest);
    return dlsh_fail(DL_ERR_NAME, hint, "no variable or function is called '%s'", name);
}

const dlsh_value *dlsh_global_value(dlsh_session *s, int slot) {
    dlsh_global *g = &s->globals[slot];
    if (g->value.type != DLSH_VOID) return &g->value;
    if (g->looked_up != 1 && g->looked_up != s->names_epoch) {
        dlsh_value v = dlsh_builtin_value(s, g->name);
        int lasting = 1, foreign = 0;
        if (dlsh_failed(v) && s->services.c_find) foreign = s->services.c_find(s->c_state, g->name, &v, &lasting);
        if (foreign < 0) return NULL;
        g = &s->globals[slot];
        dlsh_drop(g->builtin);
        g->builtin = v;
        g->looked_up = dlsh_failed(v) || !lasting ? 0 : foreign ? s->names_epoch : 1; /* rows and ops may come later */
    }
    if (g->builtin.type != DLSH_VOID) return &g->builtin;
    unknown_name(s, g->name);
    return NULL;
}

const dlsh_value *dlsh_get(const dlsh_session *s, const char *name) {
    int i = global_find(s, name);
    return i < 0 || s->globals[i].value.type == DLSH_VOID ? NULL : &s->globals[i].value;
}

dl_status dlsh_set(dlsh_session *s, const char *name, dlsh_value v) {
    int i = dlsh_global_slot(s, name);
    if (i < 0) {
        dlsh_drop(v);
        return DL_ERR_MEMORY;
    }
    DLSH_DROPPED dlsh_value old = s->globals[i].value;
    s->globals[i].value = v.type == DLSH_VOID ? dlsh_none() : v;
    return DL_OK;
}

dl_status dlsh_unset(dlsh_session *s, const char *name) {
    int i = global_find(s, name);
    if (i < 0 || s->globals[i].value.type == DLSH_VOID)
        return dlsh_fail(DL_ERR_NAME, NULL, "no variable is called '%s'", name);
    DLSH_DROPPED dlsh_value old = s->globals[i].value;
    s->globals[i].value = dlsh_void();
    return DL_OK;
}

int dlsh_global_count(const dlsh_session *s) { return s->nglobals; }

const char *dlsh_global_at(const dlsh_session *s, int i, const dlsh_value **value) {
    if (i < 0 || i >= s->nglobals) return NULL;
    if (value) *value = s->globals[i].value.type == DLSH_VOID ? NULL : &s->globals[i].value;
    return s->globals[i].name;
}

void dlsh_globals_free(dlsh_session *s) {
    /* newest first: a destructor may use variables that are older */
    for (int i = s->nglobals - 1; i >= 0; i--) {
        DLSH_DROPPED dlsh_value v = s->globals[i].value;
        s->globals[i].value = dlsh_void();
    }
    for (int i = 0; i < s->nglobals; i++) {
        dlsh_drop(s->globals[i].builtin);
        free(s->globals[i].name);
    }
    free(s->globals);
    dl_names_free(&s->global_names);
    free(s->rows);
    dl_names_free(&s->row_names);
}
