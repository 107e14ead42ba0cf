/* The state of C in a session: libraries, functions as values, and the binding of names. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/block.h"
#include "ffi/call/guard.h"
#include "ffi/inside.h"
#include "ffi/compiler/shim.h"
#include "ffi/call/userop.h"

/* ---------------------------------------------------------------- libraries */

dlsh_clib *dlsh_clib_new(const char *name, void *handle, void (*release)(void *), void *data) {
    dlsh_clib *l = calloc(1, sizeof *l);
    char *copy = strdup(name);
    if (!l || !copy) return free(l), free(copy), dlsh_no_memory("a library"), NULL;
    *l = (dlsh_clib){.refs = 1, .name = copy, .handle = handle, .release = release, .data = data};
    return l;
}

dlsh_clib *dlsh_clib_ref(dlsh_clib *l) {
    if (l) l->refs++;
    return l;
}

void dlsh_clib_drop(dlsh_clib *l) {
    if (!l || --l->refs) return;
    if (l->release) l->release(l->data);
    free(l->name);
    free(l);
}

dl_status dlsh_c_hold_lib(dlsh_cstate *st, dlsh_clib *lib) {
    for (int i = 0; i < st->nlibs; i++)
        if (st->libs[i] == lib) return DL_OK;
    dlsh_clib **libs = dlsh_grow(st->libs, st->nlibs, &st->caplibs, sizeof *libs);
    if (!libs) return DL_ERR_MEMORY;
    st->libs = libs;
    libs[st->nlibs++] = dlsh_clib_ref(lib);
    return DL_OK;
}

/* ---------------------------------------------------------------- functions as values */

const dlsh_cproto *dlsh_cfunc_proto(const dlsh_cfunc *f) { return f->proto; }
dlsh_clib *dlsh_cfunc_lib(const dlsh_cfunc *f) { return f->lib; }
dlsh_cfunc *dlsh_cfunc_of(dlsh_value v) { return dlsh_unwrap(v, &dlsh_cfunc_class); }

static void function_free(void *self) {
    dlsh_cfunc *f = self;
    dlsh_clib_drop(f->lib);
    free(f);
}

static dl_status function_text(void *self, dlsh_buf *b) {
    const dlsh_cfunc *f = self;
    dlsh_buf_printf(b, "<C function %s>", f->proto->text);
    return DL_OK;
}

static dl_status function_call(dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    return dlsh_c_call(s, self, args, out);
}

DLSH_GETTER(get_name, dlsh_string(((dlsh_cfunc *)self)->proto->name))
DLSH_GETTER(get_prototype, dlsh_string(((dlsh_cfunc *)self)->proto->text))
static dl_status get_library(void *self, dlsh_value *out) {
    const dlsh_cfunc *f = self;
    return dlsh_give(dlsh_string(f->lib ? f->lib->name : ""), out);
}

static int function_equal(const void *a, const void *b) {
    return ((const dlsh_cfunc *)a)->addr == ((const dlsh_cfunc *)b)->addr;
}

static const dlsh_field function_fields[] = {
    {"name", "Its name in C.", get_name, NULL},
    {"prototype", "How it was declared.", get_prototype, NULL},
    {"library", "Where it comes from.", get_library, NULL},
    {0},
};

const dlsh_class dlsh_cfunc_class = {.name = "C function",
                                     .doc = "A function of a C library, or of a C block.",
                                     .destroy = function_free,
                                     .text = function_text,
                                     .fields = function_fields,
                                     .call = function_call,
                                     .equal = function_equal};

dlsh_value dlsh_cfunc_value(dlsh_session *s, const dlsh_cproto *proto, void *addr, dlsh_clib *lib) {
    dlsh_cfunc *f = calloc(1, sizeof *f);
    if (!f) return dlsh_no_memory("a C function"), dlsh_void();
    *f = (dlsh_cfunc){.s = s, .proto = proto, .addr = addr, .lib = dlsh_clib_ref(lib)};
    return dlsh_new_handle(&dlsh_cfunc_class, f);
}

dlsh_cproto *dlsh_c_proto_of(dlsh_cspace *c, const dlsh_ctype *t, const char *name, const char *declarator) {
    dlsh_cproto *p = dlsh_c_alloc(c, sizeof *p);
    dlsh_cparam *params = dlsh_c_alloc(c, ((size_t)t->n + 1) * sizeof *params);
    DLSH_SCOPED_BUF b = {0};
    if (!p || !params) return NULL;
    for (long i = 0; i < t->n; i++) params[i].type = t->params[i];
    dlsh_c_print(&b, t, declarator);
    *p = (dlsh_cproto){.name = name,
                       .text = dlsh_c_copy(c, dlsh_buf_text(&b), b.n),
                       .type = t,
                       .nparams = (int)t->n,
                       .params = params,
                       .format = -1};
    return p->text ? p : NULL;
}

dlsh_value dlsh_c_unnamed_function(dlsh_session *s, const dlsh_ctype *t, void *addr) {
    if (!t->ffi) ((dlsh_ctype *)t)->ffi = dlsh_c_proto_of(dlsh_c_space(s), t, "a C function", "(*)"); /* one a type */
    return t->ffi ? dlsh_cfunc_value(s, t->ffi, addr, NULL) : dlsh_void();
}

void *dlsh_c_symbol(const dlsh_clib *lib, const char *name) {
    return dlsym(lib && lib->handle ? lib->handle : RTLD_DEFAULT, name);
}

/* ---------------------------------------------------------------- names */

dlsh_cstate *dlsh_c_state(dlsh_session *s) { return dlsh_get_c_state(s); }

dlsh_cspace *dlsh_c_space(dlsh_session *s) {
    dlsh_cstate *st = dlsh_c_state(s);
    return st ? st->space : NULL;
}

/* Is it a library's variable that is a pointer, such as stdout? Its name gives the pointer, read each time. */
static int is_read(const dlsh_cname *n) {
    return n->kind == DLSH_C_SYMBOL && !n->proto && n->type->kind == DLSH_C_POINTER && n->how != DLSH_C_OWN;
}

/* The value of a declared name that is bound or constant; VOID: none. */
static dlsh_value named_value(dlsh_cstate *st, const dlsh_cname *n) {
    if (n->kind == DLSH_C_CONSTANT) {
        dlsh_value v;
        if (n->s) return dlsh_string(n->s);
        if (dlsh_c_is_float(n->type)) return dlsh_float(n->f);
        return dlsh_c_load(st->s, n->type, &n->i, &v) ? dlsh_void() : v;
    }
    if (n->kind != DLSH_C_SYMBOL || !n->addr) return dlsh_void();
    if (n->proto) return dlsh_cfunc_value(st->s, n->proto, n->addr, n->lib);
    if (is_read(n)) {
        dlsh_value v;
        return dlsh_c_load(st->s, n->type, n->addr, &v) ? dlsh_void() : v;
    }
    const dlsh_ctype *t = n->type->kind == DLSH_C_ARRAY ? n->type->base : n->type;
    return dlsh_c_pointer_value(st->s, dlsh_c_pointer(st->space, t), n->addr, dlsh_void(),
                                n->type->kind == DLSH_C_ARRAY ? n->type->n : 1);
}

/* Fails for a name that is visible only within its block: static functions, kernels. 0: it is none. */
static int is_inner_name(const dlsh_cstate *st, const char *name) {
    for (const dlsh_cblock *b = st->blocks; b; b = b->next)
        for (int i = 0; i < b->items.n; i++) {
            const dlsh_citem *it = &b->items.items[i];
            if (it->kind != DLSH_CI_OTHER || !dlsh_citem_has(it, name, strlen(name))) continue;
            dlsh_fail(DL_ERR_NAME,
                      b->cuda ? "a function of the block launches kernels: void run(float *x) { kernel<<<1, 32>>>(x); }"
                      : it->old_style ? "its definition lacks the parameters' types: write them in the parentheses"
                                      : "without `static` and `inline` it can be called",
                      it->old_style ? "'%s' cannot be called from here" : "'%s' is seen only within its block", name);
            return 1;
        }
    return 0;
}

/* The function or variable of a block, taken from the session's variable of its name: that alone keeps the code loaded.
 * */
static int held_value(const dlsh_cstate *st, const dlsh_cname *n, dlsh_value *out) {
    const dlsh_value *v = n->how == DLSH_C_OWN ? dlsh_get(st->s, n->name) : NULL;
    const dlsh_cfunc *f = v ? dlsh_cfunc_of(*v) : NULL;
    if (v && (n->proto ? f && f->proto == n->proto : dlsh_unwrap(*v, &dlsh_cpointer_class) != NULL))
        *out = dlsh_ref(*v);
    return !dlsh_failed(*out);
}

int dlsh_c_name_value(dlsh_cstate *st, const char *name, dlsh_value *out, int *lasting) {
    const dlsh_cname *n = dlsh_c_find(st->space, name, strlen(name));
    *lasting = 1;
    *out = dlsh_void();
    if (!strcmp(name, "errno")) { /* a header's own would be that of the call which reads it */
        *out = dlsh_int(st->last_errno);
        *lasting = 0;
        return 1;
    }
    if (!n) return is_inner_name(st, name) ? -1 : 0;
    if (n->header && !n->addr) {
        *out = dlsh_c_late_value(st, (dlsh_cname *)n);
        *lasting = n->params != NULL;
        return dlsh_failed(*out) ? -1 : 1;
    }
    if (is_read(n)) *lasting = 0;
    *out = named_value(st, n);
    if (!dlsh_failed(*out) || held_value(st, n, out)) return 1;
    if (n->kind != DLSH_C_TYPEDEF) return 0;
    char hint[120];
    snprintf(hint, sizeof hint, "types are named in strings: new(\"%.30s\"), cast(\"%.30s *\", p)", name, name);
    dlsh_fail(DL_ERR_NAME, hint, "'%s' is a C type, not a value", name);
    return -1;
}

static int find_name(void *state, const char *name, dlsh_value *out, int *lasting) {
    dlsh_cstate *st = state;
    *lasting = 1;
    *out = dlsh_void();
    /* a header's function never replaces a built-in one, such as exit */
    int found = dlsh_find_command(st->s, name, strlen(name)) ? 0 : dlsh_c_name_value(st, name, out, lasting);
    if (found) return found;
    if (!strcmp(name, "NULL"))
        *out = dlsh_c_pointer_value(st->s, dlsh_c_pointer(st->space, dlsh_c_basic(DLSH_C_VOID)), NULL, dlsh_void(), -1);
    else
        *out = dlsh_c_spaces_value(st, name);
    return !dlsh_failed(*out);
}

static const char *hidden_name(void *state, const char *name) {
    const dlsh_cname *n = dlsh_c_find(((dlsh_cstate *)state)->space, name, strlen(name));
    return n && n->kind == DLSH_C_SYMBOL && n->proto && n->addr ? n->proto->text : NULL;
}

dl_status dlsh_c_check_conflict(dlsh_session *s, const dlsh_cdecl *d) {
    const dlsh_cname *old = dlsh_c_find(dlsh_c_space(s), d->name, strlen(d->name));
    if (!old || old->kind != DLSH_C_SYMBOL || old->how == DLSH_C_OWN) return DL_OK;
    if (dlsh_c_same(old->type, d->type, old->how == DLSH_C_IMPORTED)) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, "give both the same prototype; one name has one type as long as the session lasts",
                     "'%s' was declared before as %s", d->name, old->proto ? old->proto->text : dlsh_c_name(old->type));
}

/* Is it an op whose name is C's in the first place? */
static int yields(const char *name) {
    dl_op_info op;
    return dl_op_describe_name(name, &op) && op.yields;
}

static dl_status bind_variable(dlsh_session *s, const dlsh_cname *n) {
    dlsh_cstate *st = dlsh_c_state(s);
    if (!dlsh_get(s, n->name)) {
        DLSH_DROPPED dlsh_value hidden = dlsh_builtin_value(s, n->name);
        if (!dlsh_failed(hidden) && !yields(n->name))
            dlsh_warn(s, NULL, "'%s' is now the C %s; the built-in one can still be called as ops.%s", n->name,
                      n->proto ? "function" : "variable", n->name);
    }
    if (is_read(n)) return DL_OK; /* found by its name, not as a variable of the language */
    dlsh_value v = named_value(st, n);
    return dlsh_failed(v) ? dl_failed() : dlsh_set(s, n->name, v);
}

dl_status dlsh_c_bind(dlsh_session *s, const dlsh_cdecl *d, void *addr, dlsh_clib *lib, dlsh_cbinding how) {
    dlsh_cstate *st = dlsh_c_state(s);
    const dlsh_cname *old = dlsh_c_find(st->space, d->name, strlen(d->name));
    if (how == DLSH_C_IMPORTED && old && old->kind == DLSH_C_SYMBOL && old->how != DLSH_C_IMPORTED) return DL_OK;
    if (how == DLSH_C_WRITTEN) DLSH_TRY(dlsh_c_check_conflict(s, d));
    if (how != DLSH_C_OWN) DLSH_TRY(dlsh_c_hold_lib(st, lib));
    dlsh_cname *n = old && old->kind == DLSH_C_SYMBOL
                        ? (dlsh_cname *)old
                        : dlsh_c_enter(st->space, DLSH_C_SYMBOL, d->name, strlen(d->name), d->type);
    if (!n) return DL_ERR_MEMORY;
    n->type = d->type;
    n->proto = d->proto;
    n->addr = addr;
    n->lib = lib;
    n->how = how;
    dlsh_forget_names(s);
    dl_status result = how == DLSH_C_IMPORTED ? DL_OK : bind_variable(s, n);
    if (how == DLSH_C_OWN) { /* only the session's variable keeps the code loaded */
        n->addr = NULL;
        n->lib = NULL;
    }
    return result;
}

/* ---------------------------------------------------------------- telling about names */

int dlsh_c_is_seen(const dlsh_cname *n) {
    return n->kind == DLSH_C_CONSTANT || (n->kind == DLSH_C_MACRO && (n->params || n->type) && n->name[0] != '_') ||
           (n->kind == DLSH_C_SYMBOL && (n->addr || (n->header && n->body)) &&
            (n->how == DLSH_C_IMPORTED || is_read(n)));
}

static void describe_struct(dlsh_buf *to, const dlsh_ctype *t) {
    dlsh_buf_printf(to, "%s, %zu bytes\n", dlsh_c_name(t), t->size);
    for (long i = 0; i < t->n; i++) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_c_print(&b, t->fields[i].type, t->fields[i].name);
        dlsh_buf_printf(to, t->fields[i].bits ? "    %s : %d;\n" : "    %s;\n", dlsh_buf_text(&b), t->fields[i].bits);
    }
}

static int describe_function(dlsh_buf *to, const dlsh_cproto *p, const dlsh_clib *lib) {
    dlsh_buf_printf(to, "%s\n    C function%s%s\n", p->text, lib ? " of " : "", lib ? lib->name : "");
    return 1;
}

int dlsh_c_help(dlsh_session *s, const char *name, dlsh_buf *to) {
    dlsh_cspace *c = dlsh_c_space(s);
    if (!strcmp(name, "C")) {
        dlsh_buf_puts(to,
                      "C.NAME is a function, variable, constant or macro of C that was declared with extern or in a "
                      "C block,\n    also where a built-in name or a variable hides it. C { ... } compiles C: help "
                      "extern.\n");
        return 1;
    }
    if (!strncmp(name, "C.", 2)) name += 2;
    const dlsh_value *v = dlsh_get(s, name);
    const dlsh_cfunc *f = v ? dlsh_cfunc_of(*v) : NULL;
    if (f) return describe_function(to, f->proto, f->lib);
    const dlsh_cname *n = c ? dlsh_c_find(c, name, strlen(name)) : NULL;
    if (!n && c) {
        const dlsh_ctype *t = dlsh_c_find_tag(c, DLSH_C_STRUCT, name, strlen(name));
        if (t && t->complete) describe_struct(to, t);
        return t && t->complete;
    }
    if (!n) return 0;
    if (n->kind == DLSH_C_TYPEDEF) {
        const dlsh_ctype *t = n->type->plain;
        if (dlsh_c_is_struct(t) && t->complete)
            describe_struct(to, t);
        else
            dlsh_buf_printf(to, "%s is the C type %s\n", name, dlsh_c_name(n->type));
        return 1;
    }
    if (n->kind == DLSH_C_SYMBOL && n->proto && n->addr) return describe_function(to, n->proto, n->lib);
    if (n->kind == DLSH_C_SYMBOL && n->proto && n->header && n->body) {
        dlsh_buf_printf(to, "%s\n    inline function of a header\n", n->proto->text);
        return 1;
    }
    if (n->kind == DLSH_C_MACRO) {
        dlsh_buf_printf(to, n->params ? "#define %s(%s) %s\n    C macro\n" : "#define %s%.0s %s\n    C macro\n",
                        n->name, n->params ? n->params : "", n->body);
        return 1;
    }
    if (n->kind != DLSH_C_CONSTANT) return 0;
    DLSH_SCOPED_BUF b = {0};
    DLSH_DROPPED dlsh_value k = named_value(dlsh_c_state(s), n);
    dlsh_repr(&b, k);
    dlsh_buf_printf(to, "%s = %s, a C constant\n", name, dlsh_buf_text(&b));
    return 1;
}

/* ---------------------------------------------------------------- life */

static int ending;

typedef struct opening {
    const char *path;
    int flags;
    void *handle;
} opening;

static void open_it(void *arg) {
    opening *o = arg;
    o->handle = dlopen(o->path, o->flags);
}

dl_status dlsh_c_open(const char *path, int flags, void **handle) {
    opening o = {path, flags, NULL};
    const char *file = path ? strrchr(path, '/') : NULL;
    char what[160];
    int own =
        path && dlsh_cc_origin(path, &(int){0}) != NULL; /* a block's file has a name that tells nobody anything */
    snprintf(what, sizeof what, "loading %.120s", own ? "the block" : file ? file + 1 : path ? path : "the program");
    dl_status st = dlsh_guard_load(what, open_it, &o);
    *handle = o.handle;
    return st;
}

void dlsh_c_close(void *handle) {
    if (!ending) dlclose(handle); /* threads that C has started may run there until the process ends */
}

static void state_free(void *state) {
    static dlsh_cspace *volatile left; /* while the process ends */
    dlsh_cstate *st = state;
    int in_use = dlsh_c_closures_free(st);
    ending = 1;
    dlsh_userops_end(st->s);
    dlsh_c_shims_free(st);
    dlsh_c_blocks_free(st);
    for (int i = st->nlibs; i-- > 0;) dlsh_clib_drop(st->libs[i]);
    free(st->libs);
    if (in_use)
        left = st->space;
    else
        dlsh_cspace_free(st->space);
    (void)left;
    ending = 0;
    free(st);
}

static void *state_new(dlsh_session *s) {
    dlsh_cstate *st = calloc(1, sizeof *st);
    if (st && (st->space = dlsh_cspace_new())) {
        st->s = s;
        return st;
    }
    free(st);
    return dlsh_no_memory("a session"), NULL;
}

static dl_status run(dlsh_session *s, const dlsh_unit *unit, const dlsh_node *node) {
    return (node->kind == DLSH_N_EXTERN ? dlsh_c_run_extern : dlsh_c_run_block)(s, unit, node);
}

void dlsh_ffi_serve(dlsh_services *to) {
    to->c_open = state_new;
    to->c_close = state_free;
    to->c_run = run;
    to->c_find = find_name;
    to->c_hidden = hidden_name;
    to->c_check = dlsh_guard_check;
}
