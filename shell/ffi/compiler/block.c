/* C blocks: compiles, loads and binds the text of a statement `C { ... }` or `CUDA { ... }`. */
#define _GNU_SOURCE
#include "ffi/compiler/block.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffi/compiler/query.h"
#include "ffi/cparse/cwords.h"
#include "ffi/inside.h"
#include "ffi/compiler/prelude.h"
#include "lang/eval/interp.h"

/* ---------------------------------------------------------------- life */

/* Called with the last reference to the block's library; unloads the code. */
static void block_free(void *data) {
    dlsh_cblock *b = data;
    dlsh_cstate *st = dlsh_c_state(b->s);
    for (dlsh_cblock **p = st ? &st->blocks : NULL; p && *p; p = &(*p)->next)
        if (*p == b) {
            *p = b->next;
            break;
        }
    if (b->handle) dlsh_c_close(b->handle);
    if (b->path[0]) unlink(b->path);
    dlsh_citems_free(&b->items);
    for (int i = 0; i < b->nexports; i++) {
        free((char *)b->exports[i].name);
        dlsh_clib_drop(b->exports[i].target);
    }
    free(b->exports);
    for (int i = 0; i < b->nneeds; i++) dlsh_clib_drop(b->needs[i]);
    free(b->needs);
    free(b->text);
    free(b->file);
    free(b->flags);
    free(b->compiler);
    free(b->prelude);
    free(b);
}

/* A block whose library is not loaded yet; the caller has the one reference. */
static dlsh_clib *block_new(dlsh_session *s, const char *name) {
    dlsh_cblock *b = calloc(1, sizeof *b);
    if (!b) return dlsh_no_memory("a C block"), NULL;
    b->s = s;
    dlsh_clib *lib = b->lib = dlsh_clib_new(name, NULL, block_free, b);
    if (!lib) free(b);
    return lib;
}

dlsh_cblock *dlsh_cblock_of(const dlsh_cfunc *f) {
    dlsh_clib *lib = dlsh_cfunc_lib(f);
    return lib && lib->release == block_free ? lib->data : NULL;
}

/* ---------------------------------------------------------------- options */

static const char *const option_names[] = {"flags", "lib", "include", "cc"};
enum { OPT_FLAGS, OPT_LIB, OPT_INCLUDE, OPT_CC, NOPTION };

static void put_quoted(dlsh_buf *b, const char *prefix, const char *s) {
    dlsh_buf_printf(b, " '%s", prefix);
    for (; *s; s++) dlsh_buf_printf(b, *s == '\'' ? "'\\''" : "%c", *s);
    dlsh_buf_puts(b, "'");
}

/* Writes the option that links with a library: its name, a file name, or a path. Of linker options only -lNAME and
 * -LFOLDER are taken as they are; others belong to flags=. */
static void put_lib(dlsh_buf *b, const char *s) {
    bool option = *s == '-';
    if (option ? s[1] == 'l' || s[1] == 'L' : strchr(s, '/') != NULL)
        put_quoted(b, "", s);
    else if (option)
        put_quoted(b, "-l", s);
    else
        put_quoted(b, strstr(s, ".so") || strstr(s, ".a") ? "-l:" : "-l", s);
}

static dl_status put_option(dlsh_session *s, const dlsh_node *k, int which, dlsh_value v, dlsh_buf *flags,
                            char **compiler) {
    const dlsh_value *items = v.type == DLSH_LIST ? v.as.list->items : &v;
    int n = v.type == DLSH_LIST ? v.as.list->n : 1;
    for (int i = 0; i < n; i++) {
        if (items[i].type != DLSH_STR)
            return dlsh_at(s, k,
                           dlsh_fail(DL_ERR_TYPE, NULL, "option %s= takes a string%s, not %s", option_names[which],
                                     which == OPT_CC || which == OPT_FLAGS ? "" : " or a list of them",
                                     dlsh_a(items[i])));
        const char *text = items[i].as.str->s;
        if (which == OPT_FLAGS) dlsh_buf_printf(flags, " %s", text);
        if (which == OPT_LIB) put_lib(flags, text);
        if (which == OPT_INCLUDE) put_quoted(flags, "-I", text);
        if (which == OPT_CC) {
            free(*compiler);
            *compiler = strdup(text);
            if (!*compiler) return dlsh_no_memory("a C block");
        }
    }
    return DL_OK;
}

/* Reads the options between `C` and the brace. */
static dl_status read_options(dlsh_session *s, const dlsh_node *n, dlsh_cblock *b) {
    DLSH_SCOPED_BUF flags = {0};
    dl_status st = DL_OK;
    for (int i = 0; i < n->nkids && !st; i++) {
        const dlsh_node *k = n->kids[i];
        DLSH_DROPPED dlsh_value v = dlsh_void();
        int which = 0;
        while (which < NOPTION && strcmp(option_names[which], k->text)) which++;
        if (which == NOPTION) {
            const char *near = dlsh_nearest(k->text, option_names, NOPTION);
            char hint[64];
            snprintf(hint, sizeof hint, near ? "did you mean '%s'?" : "options are flags, lib, include and cc", near);
            st = dlsh_at(s, k, dlsh_fail(DL_ERR_NAME, hint, "a C block has no option '%s'", k->text));
            break;
        }
        if (!k->nkids)
            st = dlsh_at(s, k, dlsh_fail(DL_ERR_VALUE, NULL, "option %s= needs a value", k->text));
        else if (!(st = dlsh_eval(s, k->kids[0], &v)))
            st = put_option(s, k, which, v, &flags, &b->compiler);
    }
    if (!st && flags.n && (flags.failed || !(b->flags = strdup(dlsh_buf_text(&flags)))))
        st = dlsh_no_memory("a C block");
    return st;
}

/* ---------------------------------------------------------------- places */

static int offset_of(const dlsh_unit *u, int line, int col) {
    int i = 0;
    for (; line > 1 && i < (int)u->len; i++) line -= u->text[i] == '\n';
    i += col > 0 ? col - 1 : 0;
    return i < (int)u->len ? i : (int)u->len;
}

static dlsh_span span_of(const dlsh_unit *u, const dlsh_cc_message *m) {
    int from = offset_of(u, m->line, m->col);
    return (dlsh_span){.line = m->line, .col = m->col ? m->col : 1, .start = from, .end = from + m->width};
}

/* Gives the failure the place of the compiler's first error. */
static dl_status place_error(dlsh_session *s, const dlsh_unit *u, const dlsh_cc_result *r, dl_status st) {
    for (int i = 0; i < r->nmessages; i++)
        if (r->messages[i].error)
            return r->messages[i].line ? dlsh_place_at(s, u, span_of(u, &r->messages[i]), st) : st;
    return st;
}

static void show_warnings(dlsh_session *s, const dlsh_unit *u, const dlsh_cc_result *r) {
    dlsh_span last = {0};
    for (int i = 0; i < r->nmessages; i++) {
        const dlsh_cc_message *m = &r->messages[i];
        if (m->error || !m->line) continue;
        last = span_of(u, m);
        dlsh_warn_at(s, last, m->hint, "C: %s", m->text);
    }
    int more = r->left_out[0];
    if (r->unread && last.line)
        dlsh_warn_at(s, last, NULL, "C: %d more warning%s, and %zu KiB of messages that were not read", more,
                     more == 1 ? "" : "s", (r->unread + 1023) >> 10);
    else if (more && last.line)
        dlsh_warn_at(s, last, NULL, "C: %d more warning%s", more, more == 1 ? "" : "s");
}

/* ---------------------------------------------------------------- compiling and loading */

static int defines_real(const dlsh_cblock *b) {
    for (int i = 0; i < b->items.n; i++)
        if (dlsh_citem_has(&b->items.items[i], "real", 4)) return 1;
    return 0;
}

/* Does the text use `real` when neither it nor an older block defines it? */
static int uses_real(const dlsh_cblock *b, const char *before) {
    if (defines_real(b)) return 0;
    for (const dlsh_cblock *o = dlsh_c_state(b->s)->blocks; o; o = o->next)
        if (o != b && defines_real(o)) return 0;
    return dlsh_c_mentions(b->text, "real") || dlsh_c_mentions(before, "real");
}

/* Defines the names that a block may use without an include: `real`, dlcore.h, and current_stream() in CUDA. `before`:
 * the declarations of older blocks. */
static void put_builtin_names(const dlsh_cblock *b, const char *before, dlsh_buf *out) {
    if (b->cuda)
        dlsh_buf_puts(out, "#define restrict __restrict__\nextern \"C\" {\n#include \"dlcore.h\"\n}\n"
                           "static inline cudaStream_t current_stream(void) {\n"
                           "    void *s = 0;\n"
                           "    dl_device_stream(dl_device_default_get() > 0 ? dl_device_default_get() : 1, &s);\n"
                           "    return (cudaStream_t)s;\n"
                           "}\n");
    if (uses_real(b, before))
        dlsh_buf_puts(out, "#ifndef DLSH_REAL\n#define DLSH_REAL float\n#endif\ntypedef DLSH_REAL real;\n");
    if (!b->cuda &&
        (strstr(b->text, "dl_") || strstr(b->text, "DL_") || strstr(before, "dl_") || strstr(before, "DL_")))
        dlsh_buf_puts(out, "#include \"dlcore.h\"\n");
}

/* Declares the functions that the shell calls as extern "C", because nvcc compiles C++; #line keeps their place. */
static dl_status cuda_text(const dlsh_cblock *b, dlsh_buf *out) {
    int line = 1, col = 1, at = 0;
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if (it->kind != DLSH_CI_FUNCTION && it->kind != DLSH_CI_VARIABLE) continue;
        for (int k = at; k < it->begin; k++) {
            col = b->text[k] == '\n' ? 1 : col + 1;
            line += b->text[k] == '\n';
        }
        dlsh_buf_add(out, b->text + at, (size_t)(it->begin - at));
        at = it->begin;
        if (it->kind == DLSH_CI_VARIABLE) continue;
        dlsh_buf_printf(out, "\nextern \"C\"\n#line %d \"" DLSH_CC_FILE "\"\n%*s", line, col - 1, "");
    }
    dlsh_buf_puts(out, b->text + at);
    return out->failed ? dlsh_no_memory("a C block") : DL_OK;
}

static dlsh_cc_job job_of(const dlsh_cblock *b, const char *text, const char *flags) {
    return (dlsh_cc_job){.cuda = b->cuda,
                         .compiler = b->compiler,
                         .flags = flags,
                         .prelude = b->prelude,
                         .text = text,
                         .len = strlen(text),
                         .file = b->file,
                         .line = b->line,
                         .col = b->col};
}

static int key_in_use(const dlsh_cstate *st, const char *key) {
    for (const dlsh_cblock *b = st->blocks; b; b = b->next)
        if (!strcmp(b->key, key)) return 1;
    return 0;
}

/* Compiles the text with these flags; sets key and path, and the messages in *r. */
static dl_status compile(dlsh_cblock *b, const char *flags, dlsh_cc_result *r) {
    DLSH_SCOPED_BUF text = {0}, suffix = {0};
    char tag[24], exports[40];
    dl_status st = DL_OK;
    if (b->cuda) st = cuda_text(b, &text);
    dlsh_cc_job job = job_of(b, b->cuda ? dlsh_buf_text(&text) : b->text, flags);
    for (int copy = 0; !st; copy++) {
        st = dlsh_cc_key(&job, copy, b->key);
        if (!key_in_use(dlsh_c_state(b->s), b->key)) break;
    }
    if (!st && !b->cuda) {
        dlsh_prelude_exports(b, &suffix);
        dlsh_prelude_tag(b->key, tag);
        snprintf(exports, sizeof exports, "*%s*", tag);
        job.suffix = dlsh_buf_text(&suffix);
        job.exports = exports;
        if (suffix.failed) st = dlsh_no_memory("a C block");
    }
    if (!st) st = dlsh_cc_compile(&job, b->key, r);
    if (!st) snprintf(b->path, sizeof b->path, "%s", r->path);
    return st;
}

/* The error for a library that was not loaded, without the path of the temporary file. */
static dl_status load_failure(const dlsh_cblock *b, const char *why) {
    const char *name = why ? strstr(why, "undefined symbol: ") : NULL;
    if (name) {
        name += strlen("undefined symbol: ");
        return dlsh_fail(DL_ERR_NAME, "name the library that has it: C lib=\"NAME\" { ... }",
                         "'%.*s' is declared, but defined nowhere", (int)strcspn(name, " (\n"), name);
    }
    return dlsh_fail(DL_ERR_IO, NULL, "%s cannot be loaded: %s", b->lib->name, why ? why : "no reason given");
}

static dl_status load(dlsh_cblock *b, int apart) {
    DLSH_TRY(dlsh_c_open(b->path, RTLD_NOW | (b->cuda || apart ? RTLD_LOCAL : RTLD_GLOBAL), &b->handle));
    if (!b->handle) return load_failure(b, dlerror());
    b->lib->handle = b->handle;
    b->lib->device = b->cuda;
    return DL_OK;
}

/* Compiles and loads. A cached library may fail to load, as when a library that it needs is gone: it is then compiled
 * again. */
static dl_status make(dlsh_cblock *b, const char *flags, int apart, dlsh_cc_result *r) {
    dl_status st = compile(b, flags, r);
    if (!st) st = load(b, apart);
    if (!st || !r->cached) return st;
    dlsh_cc_cache_remove(b->key);
    unlink(b->path);
    dlsh_cc_result_free(r);
    dl_error_clear();
    DLSH_TRY(compile(b, flags, r));
    return load(b, apart);
}

static void *symbol(const dlsh_cblock *b, const char *name, const char *ending) {
    char tag[24], full[256];
    dlsh_prelude_tag(b->key, tag);
    snprintf(full, sizeof full, "%.200s%s%s", name, tag, ending);
    return dlsym(b->handle, b->cuda ? name : full);
}

/* ---------------------------------------------------------------- names */

void dlsh_cblock_declarations(const dlsh_cblock *b, dlsh_buf *out) {
    if (uses_real(b, "")) dlsh_buf_puts(out, "typedef float real;\n");
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if (it->kind == DLSH_CI_OTHER || it->kind == DLSH_CI_PROTOTYPE) continue;
        for (const char *p = it->head; *p; p++)
            if (*p != DLSH_CI_PLACEHOLDER[0]) dlsh_buf_add(out, p, 1);
        dlsh_buf_puts(out, "\n");
    }
}

static int declared(const dlsh_cdecls *d, const char *name) {
    for (int i = 0; i < d->n; i++)
        if (!strcmp(d->items[i].name, name)) return 1;
    return 0;
}

/* The type of `T x[] = {...}` with the length that the compiled code has. */
static const dlsh_ctype *whole_type(const dlsh_cblock *b, const dlsh_cdecl *d) {
    const unsigned long *bytes = d->type->kind == DLSH_C_ARRAY && d->type->n < 0 ? symbol(b, d->name, "z") : NULL;
    size_t size = bytes ? dlsh_c_size(d->type->base) : 0;
    return size ? dlsh_c_array(dlsh_c_space(b->s), d->type->base, (long)(*bytes / size)) : d->type;
}

/* Writes the length into the declaration that later blocks see. DL_ERR_MEMORY. */
static dl_status write_length(dlsh_cblock *b, const char *name, long n) {
    for (int i = 0; i < b->items.n; i++) {
        dlsh_citem *it = &b->items.items[i];
        const char *at = it->kind == DLSH_CI_VARIABLE && dlsh_citem_has(it, name, strlen(name)) ? it->head : NULL;
        for (; at && (at = strstr(at, name)); at++) {
            const char *open = at + strlen(name);
            if (strncmp(open, "[]", 2) || (at > it->head && (isalnum((unsigned char)at[-1]) || at[-1] == '_')))
                continue;
            dlsh_buf head = {0};
            dlsh_buf_printf(&head, "%.*s[%ld]%s", (int)(open - it->head), it->head, n, open + 2);
            if (head.failed) return dlsh_no_memory("a C block");
            free(it->head);
            it->head = head.s;
            return DL_OK;
        }
    }
    return DL_OK;
}

/* Binds a function or variable, and adds it to the exports. */
static dl_status bind(dlsh_cblock *b, dlsh_cdecl *d) {
    void *addr = symbol(b, d->name, "");
    if (!addr) return DL_OK; /* static, or only declared */
    const dlsh_ctype *declared = d->type;
    if (!(d->type = whole_type(b, d))) return dl_failed();
    if (d->type != declared) DLSH_TRY(write_length(b, d->name, d->type->n));
    dlsh_cexport *grown = realloc(b->exports, (size_t)(b->nexports + 1) * sizeof *grown);
    if (!grown) return dlsh_no_memory("a C block");
    b->exports = grown;
    grown[b->nexports] = (dlsh_cexport){
        .name = strdup(d->name), .type = d->type, .slot = d->proto && !b->cuda ? symbol(b, d->name, "p") : NULL};
    if (!grown[b->nexports++].name) return dlsh_no_memory("a C block");
    return dlsh_c_bind(b->s, d, addr, b->lib, DLSH_C_OWN);
}

static void warn_unreadable(dlsh_cblock *b, const dlsh_cdecls *d) {
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if (it->old_style && it->nnames)
            dlsh_warn(b->s, "write the parameters' types in the parentheses: int f(int a)",
                      "%s cannot be called from here: its definition lacks the parameters' types", it->names[0]);
        if (it->kind == DLSH_CI_FUNCTION && it->nnames && !declared(d, it->names[0]))
            dlsh_warn(b->s, "C itself can call it",
                      "%s cannot be called from here: a type in its prototype is not known", it->names[0]);
    }
}

/* Warns of a block of static functions only, which nothing can use. */
static void warn_hidden(dlsh_cblock *b) {
    const char *name = NULL;
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if (it->kind != DLSH_CI_OTHER && it->kind != DLSH_CI_DIRECTIVE) return;
        if (it->kind == DLSH_CI_OTHER && it->nnames && !it->old_style && !name) name = it->names[0];
    }
    if (name && !b->cuda)
        dlsh_warn(b->s, "without `static` it can be called", "'%s' is static: nothing outside of this block sees it",
                  name);
}

/* Lets the compiler give the layouts of structs when attributes or pragmas may change them. */
static dl_status ask_layouts(const dlsh_cblock *b, int savepoint) {
    DLSH_SCOPED_BUF context = {0}, flags = {0};
    if (!dlsh_c_has_layout_words(b->text) || b->cuda || !dlsh_c_can_query()) return DL_OK;
    dlsh_buf_printf(&context, "%s\n%s\n", b->prelude ? b->prelude : "", b->text);
    dlsh_buf_printf(&flags, "%s -I'%s'", b->flags ? b->flags : "", dlsh_cc_folder());
    return context.failed || flags.failed
               ? dlsh_no_memory("a C block")
               : dlsh_c_query_layouts(dlsh_c_space(b->s), savepoint, dlsh_buf_text(&context), dlsh_buf_text(&flags));
}

static dl_status declare(dlsh_cblock *b) {
    dlsh_cspace *space = dlsh_c_space(b->s);
    int savepoint = dlsh_c_savepoint(space);
    DLSH_SCOPED_BUF text = {0};
    DLSH_SCOPED(dlsh_cdecls_free) dlsh_cdecls d = {0};
    dlsh_cerror e;
    dlsh_cblock_declarations(b, &text);
    dl_status st =
        dlsh_c_parse(space, dlsh_buf_text(&text), text.n, DLSH_C_LENIENT | DLSH_C_REPLACE | DLSH_C_MACROS, &d, &e);
    if (st == DL_ERR_SYNTAX) st = dlsh_fail(st, e.hint, "%s", e.message);
    if (!st) st = dlsh_c_enter_macros(space, &d);
    if (!st) st = ask_layouts(b, savepoint);
    for (int i = 0; i < d.n && !st; i++) st = bind(b, &d.items[i]);
    if (!st) warn_unreadable(b, &d);
    if (!st) warn_hidden(b);
    return st;
}

/* ---------------------------------------------------------------- the statement */

static dl_status fill(dlsh_cblock *b, const dlsh_unit *u, const dlsh_node *n) {
    DLSH_SCOPED_BUF before = {0}, prelude = {0};
    b->cuda = !strcmp(n->text, "CUDA");
    b->text = strdup(n->label);
    b->file = strdup(u->name);
    dlsh_span begin = dlsh_span_in_text(u, (int)n->num.i, 0);
    b->line = begin.line, b->col = begin.col;
    if (!b->text || !b->file) return dlsh_no_memory("a C block");
    DLSH_TRY(read_options(b->s, n, b));
    DLSH_TRY(dlsh_c_scan(b->text, strlen(b->text), &b->items));
    dl_status st = dlsh_prelude(dlsh_c_state(b->s)->blocks, b, &before);
    put_builtin_names(b, dlsh_buf_text(&before), &prelude);
    dlsh_buf_add(&prelude, before.s ? before.s : "", before.n);
    if (!st && (prelude.failed || !(b->prelude = strdup(dlsh_buf_text(&prelude))))) st = dlsh_no_memory("a C block");
    return st;
}

/* References to the libraries of all blocks, which keep the list stable while it is walked. NULL without memory. */
static dlsh_clib **hold_all(const dlsh_cstate *st, int *n) {
    int k = 0;
    for (const dlsh_cblock *b = st->blocks; b; b = b->next) k++;
    dlsh_clib **libs = malloc(((size_t)k + 1) * sizeof *libs);
    *n = 0;
    for (const dlsh_cblock *b = libs ? st->blocks : NULL; b; b = b->next) libs[(*n)++] = dlsh_clib_ref(b->lib);
    return libs;
}

static void drop_all(dlsh_clib **libs, int n) {
    for (int i = 0; i < n; i++) dlsh_clib_drop(libs[i]);
    free(libs);
}

static void let_go(dlsh_cblock *b) {
    if (!b->held) return;
    b->held = 0;
    dlsh_clib_drop(b->lib);
}

/* Adds the block to the session's list, which keeps a reference as long as one of its names is current. */
static dl_status enter(dlsh_cstate *st, dlsh_cblock *b) {
    int n;
    dlsh_clib **libs = hold_all(st, &n);
    if (!libs) return dlsh_no_memory("a C block");
    dl_status status = dlsh_prelude_supersede(st->blocks, b);
    if (status) {
        drop_all(libs, n);
        return status;
    }
    b->next = st->blocks;
    st->blocks = b;
    b->held = dlsh_prelude_current(b);
    if (b->held) dlsh_clib_ref(b->lib);
    for (int i = 0; i < n; i++)
        if (!dlsh_prelude_current(libs[i]->data)) let_go(libs[i]->data);
    drop_all(libs, n);
    return DL_OK;
}

void dlsh_c_blocks_free(dlsh_cstate *st) {
    int n;
    dlsh_clib **libs = hold_all(st, &n);
    for (int i = 0; libs && i < n; i++) {
        dlsh_cblock *b = libs[i]->data;
        for (int k = 0; k < b->nexports; k++) { /* exports of blocks may refer to each other in a cycle */
            dlsh_clib_drop(b->exports[k].target);
            b->exports[k].target = NULL;
        }
        let_go(b);
    }
    if (libs) drop_all(libs, n);
}

/* Adds a hint when the compiler misses a type that extern has declared, which blocks do not see. */
static dl_status hint_extern(const dlsh_cblock *b, dl_status st) {
    const dlsh_cspace *c = dlsh_c_space(b->s);
    const dlsh_cname *n;
    char hint[160];
    dl_error e;
    if (st != DL_ERR_SYNTAX || !dl_error_last()) return st;
    int incomplete =
        strstr(dl_error_last()->message, "incomplete type") || strstr(dl_error_last()->message, "unknown type");
    for (int next = 0; incomplete && (n = dlsh_c_next(c, &next));) {
        const char *tag = n->kind == DLSH_C_TAG ? strchr(n->name, ' ') : NULL, *word = tag ? tag + 1 : n->name;
        if ((!tag && n->kind != DLSH_C_TYPEDEF) || !dlsh_c_is_struct(n->type) || !n->type->plain->complete ||
            !dlsh_c_mentions(b->text, word))
            continue;
        snprintf(hint, sizeof hint, "C blocks do not see what extern declares: define %.60s in the block", n->name);
        dl_error_take(&e);
        return dlsh_fail(e.code, hint, "%s", e.message);
    }
    return st;
}

dl_status dlsh_c_run_block(dlsh_session *s, const dlsh_unit *u, const dlsh_node *n) {
    char name[96];
    snprintf(name, sizeof name, "%s block of %.60s:%d", n->text, u->name, n->span.line);
    dlsh_clib *lib = block_new(s, name);
    if (!lib) return dl_failed();
    dlsh_cblock *b = lib->data;
    dlsh_cc_result r = {0};
    dl_status st = fill(b, u, n);
    if (!st) {
        st = make(b, b->flags, 0, &r);
        if (st) st = place_error(s, u, &r, hint_extern(b, st));
        if (!st) show_warnings(s, u, &r);
        dlsh_cc_result_free(&r);
    }
    if (!st) st = declare(b);
    if (!st) st = enter(dlsh_c_state(s), b);
    dlsh_clib_drop(lib);
    return st;
}

/* ---------------------------------------------------------------- the same text, compiled otherwise */

dl_status dlsh_cblock_variant(dlsh_cblock *of, const char *more, const char *name, void **addr, dlsh_clib **lib) {
    DLSH_SCOPED_BUF flags = {0};
    dlsh_cc_result r = {0};
    *lib = block_new(of->s, of->lib->name);
    if (!*lib) return dl_failed();
    dlsh_cblock *b = (*lib)->data;
    b->cuda = of->cuda, b->line = of->line, b->col = of->col;
    b->text = strdup(of->text), b->file = strdup(of->file), b->prelude = strdup(of->prelude);
    b->compiler = of->compiler ? strdup(of->compiler) : NULL;
    dlsh_buf_printf(&flags, "%s %s", of->flags ? of->flags : "", more);
    dl_status st = b->text && b->file && b->prelude ? DL_OK : dlsh_no_memory("a C block");
    if (!st) st = dlsh_c_scan(b->text, strlen(b->text), &b->items);
    if (!st) st = make(b, dlsh_buf_text(&flags), 1, &r);
    if (!st && !(*addr = symbol(b, name, "")))
        st = dlsh_fail(DL_ERR_NAME, NULL, "%s has no function '%s'", of->lib->name, name);
    dlsh_cc_result_free(&r);
    if (st) {
        dlsh_clib_drop(*lib);
        *lib = NULL;
    }
    return st;
}
