/* Shims: small pieces of compiled C through which inline functions and macros are called. */
#define _GNU_SOURCE
#include "ffi/compiler/shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/query.h"
#include "ffi/cparse/clex.h"
#include "ffi/compiler/compile.h"

/* A macro as a function of these parameter types, or its value for arguments that are part of its text. */
struct dlsh_cshim {
    struct dlsh_cshim *next;
    const dlsh_cname *of;
    int n;
    const dlsh_ctype **types;
    char *use; /* "INT64_C(-5)"; NULL: it takes arguments */
    dlsh_value function;
};

/* ---------------------------------------------------------------- compiling */

/* The first header of the includes: "zlib.h". */
static const char *header_name(const dlsh_cheader *h, char *text, size_t size) {
    const char *file = h->source + strcspn(h->source, "<\"");
    snprintf(text, size, "%.*s", *file ? (int)strcspn(file + 1, ">\"") : 0, *file ? file + 1 : "");
    return text;
}

static dlsh_clib *load(const dlsh_cheader *h, const char *path, const char *name) {
    char file[100];
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = handle ? NULL : dlerror(), *symbol = why ? strstr(why, "undefined symbol: ") : NULL;
    if (!handle && symbol)
        dlsh_fail(DL_ERR_NAME, "name the library that has it in extern", "%s needs '%.*s', which is not in its library",
                  name, (int)strcspn(symbol + 18, " (\n,"), symbol + 18);
    else if (!handle)
        dlsh_fail(DL_ERR_IO, NULL, "%s cannot be loaded: %s", name, why ? why : "no reason given");
    dlsh_clib *lib = handle ? dlsh_clib_new(header_name(h, file, sizeof file), handle, dlsh_c_close, handle) : NULL;
    if (handle && !lib) dlclose(handle);
    return lib;
}

/* Compiles text after the header and loads it; NULL: recorded. */
static dlsh_clib *build(const dlsh_cheader *h, const char *text, const char *name) {
    DLSH_SCOPED_BUF flags = {0};
    dlsh_cc_result r = {0};
    dlsh_clib *lib = NULL;
    char key[DLSH_CC_KEY];
    dlsh_buf_printf(&flags, "%s", h->flags);
    if (*h->library) dlsh_buf_printf(&flags, " '%s'", h->library);
    dlsh_cc_job job = {.compiler = dlsh_c_query_compiler(),
                       .flags = dlsh_buf_text(&flags),
                       .prelude = h->source,
                       .text = text,
                       .len = strlen(text),
                       .file = "header",
                       .line = 1,
                       .col = 1};
    dl_status st = flags.failed ? dlsh_no_memory("a function of a header") : dlsh_cc_key(&job, 0, key);
    if (!st && !(st = dlsh_cc_compile(&job, key, &r)) && !(lib = load(h, r.path, name)) && r.cached) {
        dlsh_cc_cache_remove(key); /* compiled once more, as a block is */
        dl_error_clear();
        dlsh_cc_result_free(&r);
        if (!(st = dlsh_cc_compile(&job, key, &r))) lib = load(h, r.path, name);
    }
    dlsh_cc_result_free(&r);
    return lib;
}

static void *shim_of(dlsh_clib *lib) { return dlsym(lib->handle, "dlsh_shim"); }

/* ---------------------------------------------------------------- functions without an address */

/* Records "WHAT 'NAME' cannot ...: the compiler's message"; VOID. */
static dlsh_value say(const char *hint, const char *what, const char *name, int types_matter) {
    dl_error e;
    if (dl_error_take(&e) == DL_ERR_INTERRUPT || e.code == DL_ERR_MEMORY) {
        dl_error_put(&e);
        return dlsh_void();
    }
    const char *why = !strncmp(e.message, "C: ", 3) ? e.message + 3 : e.message;
    dlsh_fail(e.code == DL_ERR_SYNTAX ? DL_ERR_TYPE : e.code, hint ? hint : e.hint, "%s '%s' %s: %.200s", what, name,
              types_matter ? "cannot take these arguments" : "cannot be compiled", why);
    return dlsh_void();
}

/* The value of an inline function, or of a macro that is another name of a function. */
static dlsh_value function_value(dlsh_cstate *st, dlsh_cname *n) {
    if (!n->addr) {
        DLSH_SCOPED_BUF text = {0};
        const dlsh_cproto *proto = n->proto ? n->proto : dlsh_c_proto_of(st->space, n->type, n->name, n->name);
        dlsh_buf_printf(&text, "__typeof__(%s) *const dlsh_shim = %s;\n", n->name, n->name);
        dlsh_clib *lib = proto ? build(n->header, dlsh_buf_text(&text), n->name) : NULL;
        if (!lib) return say(NULL, n->proto ? "the inline function" : "the macro", n->name, 0);
        dl_status failed = dlsh_c_hold_lib(st, lib);
        n->proto = proto;
        n->lib = lib;
        memcpy(&n->addr, shim_of(lib), sizeof n->addr);
        dlsh_clib_drop(lib);
        if (failed) return n->addr = NULL, dlsh_void();
    }
    return dlsh_cfunc_value(st->s, n->proto, n->addr, n->lib);
}

/* ---------------------------------------------------------------- macros as functions */

/* Finds a shim by the types of its arguments, or by the text of the use. */
static struct dlsh_cshim *find_shim(const dlsh_cstate *st, const dlsh_cname *of, const dlsh_ctype *const *types, int n,
                                    const char *use) {
    for (struct dlsh_cshim *k = st->shims; k; k = k->next)
        if (k->of == of && k->n == n && !k->use == !use &&
            (use ? !strcmp(k->use, use) : !n || !memcmp(k->types, types, (size_t)n * sizeof *types)))
            return k;
    return NULL;
}

void dlsh_c_shims_free(dlsh_cstate *st) {
    for (struct dlsh_cshim *k = st->shims, *next; k; k = next) {
        next = k->next;
        dlsh_drop(k->function);
        free(k->types);
        free(k->use);
        free(k);
    }
    st->shims = NULL;
}

/* "NAME(a, b)" as it was defined, or the name alone. */
static const char *as_written(const dlsh_cname *n, char *text, size_t size) {
    if (n->params)
        snprintf(text, size, "%s(%s)", n->name, n->params);
    else
        snprintf(text, size, "%s", n->name);
    return text;
}

/* Writes a use of the macro: NAME(A0, A1), where A is "*(T *)0" for a question, or a parameter. */
static void put_use(dlsh_buf *b, const dlsh_cname *n, const dlsh_ctype *const *types, int count, int question) {
    dlsh_buf_puts(b, n->name);
    if (!n->params) return;
    dlsh_buf_puts(b, "(");
    for (int i = 0; i < count; i++) {
        if (i) dlsh_buf_puts(b, ", ");
        if (question) {
            dlsh_buf_puts(b, "*(");
            dlsh_c_print(b, types[i], "(*)");
            dlsh_buf_puts(b, ")0");
        } else {
            dlsh_buf_printf(b, "x%d", i + 1);
        }
    }
    dlsh_buf_puts(b, ")");
}

/* Parameters of these types, called x1, x2, ...: "int x1, double x2)". */
static void put_params(dlsh_buf *b, const dlsh_ctype *const *types, int count) {
    for (int i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "x%d", i + 1);
        if (i) dlsh_buf_puts(b, ", ");
        dlsh_c_print(b, types[i], name);
    }
    dlsh_buf_puts(b, count ? ")" : "void)");
}

/* A line to paste as a hint: a block with a function that uses the macro. */
static void block_line(const dlsh_cname *n, const dlsh_ctype *const *types, int count, char *line, size_t size) {
    char header[100];
    dlsh_buf b = {0};
    dlsh_buf_printf(&b, "an int counts as int, a float as double; or C flags=\"-include %s\" { double my_%s(",
                    header_name(n->header, header, sizeof header), n->name);
    put_params(&b, types, count);
    dlsh_buf_puts(&b, " { return ");
    put_use(&b, n, types, count, 0);
    dlsh_buf_puts(&b, "; } }");
    snprintf(line, size, "%s", dlsh_buf_text(&b));
    dlsh_buf_free(&b);
}

/* The type of a use of the macro; NULL in *type: it is not an expression. An array counts as a pointer. */
static dl_status type_of_use(dlsh_cstate *st, const dlsh_cname *n, const char *use, const dlsh_ctype **type) {
    DLSH_SCOPED_BUF both = {0};
    dlsh_buf_printf(&both, "1 ? %s : %s", use, use);
    DLSH_TRY(both.failed ? dlsh_no_memory("a function of a header")
                         : dlsh_c_query_type(st->space, n->header, dlsh_buf_text(&both), type));
    if (*type) *type = (*type)->plain;
    return DL_OK;
}

/* The same with arguments of these types. */
static dl_status result_type(dlsh_cstate *st, const dlsh_cname *n, const dlsh_ctype *const *types, int count,
                             const dlsh_ctype **type) {
    DLSH_SCOPED_BUF use = {0};
    put_use(&use, n, types, count, 1);
    return use.failed ? dlsh_no_memory("a function of a header") : type_of_use(st, n, dlsh_buf_text(&use), type);
}

/* The function: "T dlsh_shim(T1 x1, ...) { return NAME(x1, ...); }". */
static dlsh_clib *build_call(const dlsh_cname *n, const dlsh_ctype *type, const dlsh_ctype *const *types, int count) {
    dlsh_buf text = {0}, head = {0};
    dlsh_buf_puts(&head, "dlsh_shim(");
    put_params(&head, types, count);
    dlsh_c_print(&text, type ? type : dlsh_c_basic(DLSH_C_VOID), dlsh_buf_text(&head));
    dlsh_buf_puts(&text, type && type->kind != DLSH_C_VOID ? " { return " : " { ");
    put_use(&text, n, types, count, 0);
    dlsh_buf_puts(&text, "; }\n");
    dlsh_clib *lib = text.failed ? (dlsh_no_memory("a function of a header"), NULL)
                                 : build(n->header, dlsh_buf_text(&text), n->name);
    dlsh_buf_free(&text);
    dlsh_buf_free(&head);
    return lib;
}

static struct dlsh_cshim *keep_shim(dlsh_cstate *st, const dlsh_cname *n, const dlsh_ctype *result,
                                    const dlsh_ctype *const *types, int count, dlsh_clib *lib) {
    struct dlsh_cshim *k = calloc(1, sizeof *k);
    const dlsh_ctype **copy = calloc((size_t)count + 1, sizeof *copy),
                     *type = dlsh_c_function(st->space, result, types, count, 0);
    const dlsh_cproto *proto = type && k && copy ? dlsh_c_proto_of(st->space, type, n->name, n->name) : NULL;
    dlsh_value f = proto ? dlsh_cfunc_value(st->s, proto, shim_of(lib), lib) : dlsh_void();
    if (dlsh_failed(f)) {
        free(k);
        free(copy);
        dlsh_no_memory("a function of a header");
        return NULL;
    }
    if (count) memcpy(copy, types, (size_t)count * sizeof *copy);
    *k = (struct dlsh_cshim){.next = st->shims, .of = n, .n = count, .types = copy, .function = f};
    return st->shims = k;
}

/* The macro as a function of these types; NULL: recorded. */
static struct dlsh_cshim *shim_for(dlsh_cstate *st, const dlsh_cname *n, const dlsh_ctype *const *types, int count) {
    struct dlsh_cshim *k = find_shim(st, n, types, count, NULL);
    const dlsh_ctype *type = NULL;
    char text[160], line[256];
    if (k || result_type(st, n, types, count, &type)) return k;
    dlsh_clib *lib = build_call(n, type, types, count);
    if (!lib) {
        block_line(n, types, count, line, sizeof line);
        say(line, "the macro", as_written(n, text, sizeof text), count > 0);
        return NULL;
    }
    k = keep_shim(st, n, type ? type : dlsh_c_basic(DLSH_C_VOID), types, count, lib);
    dlsh_clib_drop(lib);
    return k;
}

/* ---------------------------------------------------------------- macros that need their arguments as text */

enum { KNOWN = 1, PLAIN = 2, PASTED = 4, QUOTED = 8 };
#define PROBE "dlsh_x"

/* How a token of the expansion uses a parameter. */
static int use_of(const dlsh_ctok *t) {
    const char *at = memmem(t->text, t->len, PROBE, sizeof PROBE - 1);
    if (!at) return 0;
    if (t->kind == DLSH_CT_STRING) return QUOTED;
    size_t digits = at == t->text && t->kind == DLSH_CT_IDENT ? strspn(at + sizeof PROBE - 1, "0123456789") : 0;
    return digits && sizeof PROBE - 1 + digits == t->len ? PLAIN : PASTED;
}

/* Finds out, from the preprocessor's output, whether the parameters are used as they are, within another word (##), or
 * in a string (#). */
static dl_status find_uses(dlsh_cname *n, int count) {
    static const char *const expand[] = {"-E", "-P", "-w", NULL};
    DLSH_SCOPED_BUF source = {0}, said = {0};
    int good = 0;
    dlsh_buf_printf(&source, "%s\ndlsh_expansion %s(", n->header->source, n->name);
    for (int i = 0; i < count; i++) dlsh_buf_printf(&source, i ? ", " PROBE "%d" : PROBE "%d", i);
    dlsh_buf_puts(&source, ")\n");
    dl_status st = source.failed ? dlsh_no_memory("a function of a header")
                                 : dlsh_c_query(dlsh_buf_text(&source), expand, n->header->flags, 0, &said, &good);
    const char *s = st || !good ? NULL : strstr(dlsh_buf_text(&said), "dlsh_expansion");
    dlsh_clexer lx;
    if (s) {
        dlsh_clex_begin(&lx, s, strlen(s));
        for (dlsh_ctok t; (t = dlsh_clex_next(&lx)).kind != DLSH_CT_END;) n->uses |= use_of(&t);
    }
    if (!st) n->uses |= KNOWN;
    return st;
}

/* Writes an argument as C text. raw: a string stands for its text, such as a type or the name of a field. 0: the value
 * has no such text. */
static int put_literal(dlsh_buf *b, dlsh_value v, int raw) {
    if (v.type == DLSH_STR && raw && v.as.str->len && !strpbrk(v.as.str->s, "\n\\\"'#"))
        dlsh_buf_puts(b, v.as.str->s);
    else if (v.type == DLSH_STR)
        dlsh_buf_quote(b, v.as.str->s, v.as.str->len);
    else if (v.type == DLSH_INT || v.type == DLSH_BOOL)
        dlsh_buf_printf(b, "%ld", v.as.i);
    else if (v.type == DLSH_FLOAT && v.as.f - v.as.f == 0)
        dlsh_buf_printf(b, v.as.f == (double)(long)v.as.f ? "%.1f" : "%.17g", v.as.f);
    else
        return 0;
    return 1;
}

/* The shim for arguments that are written into the use; NULL: recorded. */
static struct dlsh_cshim *written_shim(dlsh_cstate *st, const dlsh_cname *n, const dlsh_callargs *args, int raw) {
    dlsh_buf use = {0}, head = {0};
    DLSH_SCOPED_BUF text = {0};
    const dlsh_ctype *type = NULL;
    int good = 1;
    dlsh_buf_printf(&use, "%s(", n->name);
    for (int i = 0; i < args->n && good; i++) {
        if (i) dlsh_buf_puts(&use, ", ");
        if (!(good = put_literal(&use, args->values[i], raw)))
            dlsh_fail(DL_ERR_TYPE, NULL, "this macro takes numbers and strings as they are written, got %s",
                      dlsh_a(args->values[i]));
    }
    dlsh_buf_puts(&use, ")");
    struct dlsh_cshim *k = good && !use.failed ? find_shim(st, n, NULL, 0, dlsh_buf_text(&use)) : NULL;
    if (good && !k && !type_of_use(st, n, dlsh_buf_text(&use), &type)) {
        if (type && type->kind == DLSH_C_POINTER && type->base->kind == DLSH_C_CHAR) /* text, as other constants are */
            type = dlsh_c_pointer(st->space, dlsh_c_const(st->space, type->base));
        dlsh_c_print(&head, type ? type : dlsh_c_basic(DLSH_C_VOID), "dlsh_shim(void)");
        dlsh_buf_printf(&text, "%s { %s%s; }\n", dlsh_buf_text(&head),
                        type && type->kind != DLSH_C_VOID ? "return " : "", dlsh_buf_text(&use));
        dlsh_clib *lib = text.failed ? (dlsh_no_memory("a function of a header"), NULL)
                                     : build(n->header, dlsh_buf_text(&text), n->name);
        if (lib) k = keep_shim(st, n, type ? type : dlsh_c_basic(DLSH_C_VOID), NULL, 0, lib);
        if (k && !(k->use = strdup(dlsh_buf_text(&use))))
            k->of = NULL, k = NULL, dlsh_no_memory("a function of a header");
        if (lib) dlsh_clib_drop(lib);
    }
    dlsh_buf_free(&use);
    dlsh_buf_free(&head);
    return k;
}

static int has_string(const dlsh_callargs *args) {
    for (int i = 0; i < args->n; i++)
        if (args->values[i].type == DLSH_STR) return 1;
    return 0;
}

/* Tries strings as C strings first, then as plain text: GLUE("ab", "cd"). */
static struct dlsh_cshim *textual_shim(dlsh_cstate *st, const dlsh_cname *n, const dlsh_callargs *args) {
    char text[160];
    for (int raw = 0; raw <= has_string(args); raw++) {
        struct dlsh_cshim *k = written_shim(st, n, args, raw);
        dl_error e;
        if (k) return k;
        if (dl_error_take(&e) == DL_ERR_INTERRUPT || e.code == DL_ERR_MEMORY) return dl_error_put(&e), NULL;
    }
    dlsh_fail(DL_ERR_TYPE, "write out what it makes of them, or use it in a block, C { ... }",
              "the macro '%s' needs its arguments as text: %.100s", as_written(n, text, sizeof text), n->body);
    return NULL;
}

/* The shim for a call. A macro that accepts its arguments only as text gets them so: offsetof("struct s", "x"). */
static struct dlsh_cshim *shim_of_call(dlsh_cstate *st, dlsh_cname *n, const dlsh_callargs *args,
                                       const dlsh_ctype *const *types) {
    dl_error e;
    if (!(n->uses & KNOWN) && args->n && find_uses(n, args->n)) return NULL;
    if (n->uses & PASTED || (n->uses & QUOTED && !(n->uses & PLAIN))) return textual_shim(st, n, args);
    struct dlsh_cshim *k = shim_for(st, n, types, args->n);
    if (k || !has_string(args) || dl_error_take(&e) == DL_ERR_INTERRUPT) return k;
    if (!(k = written_shim(st, n, args, 1))) dl_error_put(&e);
    return k;
}

/* ---------------------------------------------------------------- calls */

typedef struct macro_value {
    dlsh_session *s;
    const dlsh_cname *name;
} macro_value;

static int param_count(const char *params, int *varargs) {
    int n = params[strspn(params, " \t")] != 0;
    for (const char *p = params; *p; p++) n += *p == ',';
    *varargs = strstr(params, "...") != NULL;
    return n - *varargs;
}

/* The C type a value has as an argument of a macro; NULL: recorded. */
static const dlsh_ctype *type_of(dlsh_cstate *st, dlsh_value v, const char *what) {
    const dlsh_cpointer *p = dlsh_unwrap(v, &dlsh_cpointer_class);
    const dlsh_cstruct *x = dlsh_unwrap(v, &dlsh_cstruct_class);
    const dlsh_cfunc *f = dlsh_cfunc_of(v);
    if (p) return p->type->plain;
    if (x) return x->type->plain;
    if (f) return dlsh_c_pointer(st->space, f->proto->type);
    if (v.type == DLSH_TENSOR) {
        static const dlsh_ckind kinds[] = {
            [DL_BOOL] = DLSH_C_BOOL,  [DL_U8] = DLSH_C_UCHAR,    [DL_I32] = DLSH_C_INT,   [DL_I64] = DLSH_C_LONG,
            [DL_F16] = DLSH_C_USHORT, [DL_BF16] = DLSH_C_USHORT, [DL_F32] = DLSH_C_FLOAT, [DL_F64] = DLSH_C_DOUBLE,
            [DL_C64] = DLSH_C_FLOAT,  [DL_C128] = DLSH_C_DOUBLE};
        return dlsh_c_pointer(st->space, dlsh_c_basic(kinds[dl_dtype_of(v.as.tensor)]));
    }
    return dlsh_c_promoted(st->space, v, what);
}

static dl_status macro_call(dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    const dlsh_cname *n = ((macro_value *)self)->name;
    const dlsh_ctype *types[DLSH_C_MAX_ARGS];
    char text[160], what[200];
    int varargs, want = param_count(n->params, &varargs);
    as_written(n, text, sizeof text);
    if (args->names) return dlsh_fail(DL_ERR_NAME, NULL, "the macro %s takes its arguments in order", text);
    if (args->n < want || (args->n > want && !varargs) || args->n > DLSH_C_MAX_ARGS)
        return dlsh_fail(DL_ERR_TYPE, NULL, "the macro %s takes %s%d argument%s, got %d", text,
                         varargs ? "at least " : "", want, want == 1 ? "" : "s", args->n);
    for (int i = 0; i < args->n; i++) {
        snprintf(what, sizeof what, "argument %d of the macro %s", i + 1, n->name);
        if (!(types[i] = type_of(dlsh_c_state(s), args->values[i], what))) {
            dlsh_set_failed_arg(s, i);
            return dl_failed();
        }
    }
    struct dlsh_cshim *k = shim_of_call(dlsh_c_state(s), (dlsh_cname *)n, args, types);
    dlsh_callargs none = {0};
    if (!k) return dl_failed();
    DLSH_DROPPED dlsh_value f = dlsh_ref(k->function);
    return dlsh_c_call(s, dlsh_cfunc_of(f), k->use ? &none : args, out);
}

static dl_status macro_text(void *self, dlsh_buf *b) {
    char text[160];
    const dlsh_cname *n = ((macro_value *)self)->name;
    dlsh_buf_printf(b, "<C macro %s: %s>", as_written(n, text, sizeof text), n->body);
    return DL_OK;
}

static const dlsh_class macro_class = {.name = "C macro",
                                       .doc = "A macro with parameters, of a header. It is compiled for the types of "
                                              "the arguments it is called with.",
                                       .destroy = free,
                                       .text = macro_text,
                                       .call = macro_call};

/* ---------------------------------------------------------------- by name */

static dlsh_value callable_macro(dlsh_cstate *st, const dlsh_cname *n) {
    macro_value *m = malloc(sizeof *m);
    if (!m) return dlsh_no_memory("a function of a header"), dlsh_void();
    *m = (macro_value){st->s, n};
    return dlsh_new_handle(&macro_class, m);
}

/* The present value of a macro without parameters. */
static dlsh_value evaluated(dlsh_cstate *st, const dlsh_cname *n) {
    dlsh_callargs none = {0};
    dlsh_value out = dlsh_void();
    struct dlsh_cshim *k = shim_for(st, n, NULL, 0);
    if (!k || dlsh_c_call(st->s, dlsh_cfunc_of(k->function), &none, &out)) return dlsh_void();
    return dlsh_failed(out) ? dlsh_none() : out;
}

/* Follows a macro that is another name of a macro with parameters. */
static dlsh_cname *meant(const dlsh_cstate *st, dlsh_cname *n) {
    for (int i = 0; i < 8 && n->kind == DLSH_C_MACRO && !n->params && !n->type; i++) {
        size_t len = strlen(n->body);
        while (len && n->body[len - 1] == ' ') len--;
        dlsh_cname *next = dlsh_c_find(st->space, n->body, len);
        if (!next || next->kind != DLSH_C_MACRO || next == n) break;
        n = next;
    }
    return n;
}

dlsh_value dlsh_c_late_value(dlsh_cstate *st, dlsh_cname *n) {
    dlsh_cname *other = meant(st, n);
    if (other->params) return callable_macro(st, other);
    if (n->kind == DLSH_C_SYMBOL && !n->body) {
        const char *file = strrchr(n->header->library, '/');
        dlsh_fail(DL_ERR_NAME, "another library may have it, or the header is of another version",
                  "the header declares '%s', but %s does not have it", n->name, file ? file + 1 : "the program");
        return dlsh_void();
    }
    if (n->proto || (n->type && n->type->kind == DLSH_C_FUNCTION)) return function_value(st, n);
    if (n->type) return evaluated(st, n);
    dlsh_fail(DL_ERR_NAME, NULL, "'%s' is a macro without a value: %.200s", n->name,
              *n->body ? n->body : "nothing at all");
    return dlsh_void();
}
