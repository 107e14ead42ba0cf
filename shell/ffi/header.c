/* extern "lib" header <x.h>: every prototype, variable, type and constant of a header. */
#define _GNU_SOURCE /* dladdr, dlinfo */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/query.h"

/* Writes "<a.h> \"b.h\"" as #include lines. */
static dl_status includes(const char *text, dlsh_buf *out) {
    int n = 0;
    for (const char *s = text; *s;) {
        if (*s == ' ' || *s == '\t' || *s == '\n' || *s == ',') {
            s++;
            continue;
        }
        const char *end = *s == '<' ? strchr(s, '>') : *s == '"' ? strchr(s + 1, '"') : NULL;
        if (!end || memchr(s, '\n', (size_t)(end - s))) {
            char hint[80];
            int n = (int)strcspn(s, " \t\n,;");
            snprintf(hint, sizeof hint, "write header <%.*s>",
                     n < 50 ? (int)strcspn(s + (*s == '<' || *s == '"'), " \t\n,;>\"") : 8,
                     n < 50 ? s + (*s == '<' || *s == '"') : "name.h");
            return dlsh_fail(DL_ERR_SYNTAX, hint, "expected a header in < > or quotes, found '%.*s'", n < 50 ? n : 50,
                             s);
        }
        dlsh_buf_printf(out, "#include %.*s\n", (int)(end - s) + 1, s);
        s = end + 1;
        n++;
    }
    return n ? DL_OK
             : dlsh_fail(DL_ERR_SYNTAX, "extern \"libz.so.1\" header <zlib.h>;",
                         "expected a header after the word 'header'");
}

/* The text of the compiler's first error. */
static void first_error(const char *said, char *text, size_t size) {
    const char *e = strstr(said, "error: ");
    e = e ? e + 7 : said;
    snprintf(text, size, "%.*s", (int)strcspn(e, "\n"), e);
}

/* Is the function of this library or one it depends on? Not when it is the C library's, which most headers include. */
static int belongs(const dlsh_clib *lib, void *addr) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!lib->handle || dlinfo(lib->handle, RTLD_DI_LINKMAP, &map) || !map || !dladdr(addr, &info) || !info.dli_fname)
        return 1;
    if ((char *)info.dli_fbase == (char *)map->l_addr) return 1;
    const char *file = strrchr(info.dli_fname, '/'), *own = strrchr(map->l_name, '/');
    file = file ? file + 1 : info.dli_fname;
    if (!strncmp(file, "linux-vdso", 10)) return own && !strncmp(own + 1, "libc.so", 7); /* the kernel's part of it */
    return strncmp(file, "libc.so", 7) && strncmp(file, "libm.so", 7) && strncmp(file, "ld-linux", 8);
}

/* Enters a declared name that is not in the library. Inline functions, and variables defined in the header, are
 * compiled when they are used; the use of a function that is only declared is an error. */
static dl_status enter_late(dlsh_session *s, const dlsh_cdecl *d, const dlsh_cheader *from) {
    dlsh_cspace *c = dlsh_c_space(s);
    const dlsh_cname *old = dlsh_c_find(c, d->name, strlen(d->name));
    if (old && old->kind != DLSH_C_MACRO) return DL_OK;
    dlsh_cname_kind kind = d->proto ? DLSH_C_SYMBOL : DLSH_C_MACRO;
    dlsh_cname *n = dlsh_c_enter(c, kind, d->name, strlen(d->name), d->type);
    if (!n) return dl_failed();
    n->proto = d->proto;
    n->how = DLSH_C_IMPORTED;
    n->header = from;
    n->body = d->has_body || !d->proto ? n->name : NULL;
    return DL_OK;
}

/* Does the import give a function its address, while a built-in name hides it? */
static int newly_hidden(dlsh_session *s, const dlsh_cdecl *d) {
    const dlsh_cname *old = dlsh_c_find(dlsh_c_space(s), d->name, strlen(d->name));
    return d->proto && !(old && old->addr) && dlsh_c_is_hidden(s, d->name);
}

/* Binds the functions and variables of the library; *count is their number, and `hidden` gets the names that built-in
 * ones hide. */
static dl_status bind_found(dlsh_session *s, dlsh_clib *lib, const dlsh_cdecls *d, const dlsh_cheader *from, int *count,
                            const char **hidden, int *nhidden) {
    for (int i = 0; i < d->n; i++) {
        const dlsh_cdecl *item = &d->items[i];
        if (!item->is_static && !item->proto && !item->is_extern) continue;
        void *addr = item->is_static ? NULL : dlsh_c_symbol(lib, item->name);
        if (!addr) {
            DLSH_TRY(enter_late(s, item, from));
        } else if (belongs(lib, addr)) {
            if (newly_hidden(s, item)) hidden[(*nhidden)++] = item->name;
            DLSH_TRY(dlsh_c_bind(s, item, addr, lib, DLSH_C_IMPORTED));
            ++*count;
        }
    }
    return DL_OK;
}

/* The header in the space; NULL without memory. */
static const dlsh_cheader *header_of(dlsh_cspace *c, const dlsh_clib *lib, const char *source, const char *flags) {
    struct link_map *map = NULL;
    dlsh_cheader *h = dlsh_c_alloc(c, sizeof *h);
    if (!h) return NULL;
    if (!lib->handle || dlinfo(lib->handle, RTLD_DI_LINKMAP, &map)) map = NULL;
    const char *file = map && map->l_name ? map->l_name : "";
    h->source = dlsh_c_copy(c, source, strlen(source));
    h->flags = dlsh_c_copy(c, flags ? flags : "", flags ? strlen(flags) : 0);
    h->library = dlsh_c_copy(c, file, strlen(file));
    return h->source && h->flags && h->library ? h : NULL;
}

static dl_status read_header(dlsh_session *s, dlsh_clib *lib, const dlsh_cheader *from) {
    static const char *const preprocess[] = {"-E", "-dD", "-w", NULL};
    dlsh_cspace *c = dlsh_c_space(s);
    DLSH_SCOPED_BUF text = {0};
    dlsh_cdecls d = {0};
    dlsh_cerror e;
    char why[200];
    int good, count = 0, nhidden = 0, savepoint = dlsh_c_savepoint(c);
    dl_status st = dlsh_c_query(from->source, preprocess, from->flags, 1, &text, &good);
    if (!st && !good) {
        first_error(dlsh_buf_text(&text), why, sizeof why);
        st = dlsh_fail(DL_ERR_IO,
                       "headers come with the -dev package of a library; flags=\"-I/folder\" says where to look",
                       "the header cannot be read: %s", why);
    }
    if (!st) st = dlsh_c_parse(c, dlsh_buf_text(&text), text.n, DLSH_C_LENIENT | DLSH_C_MACROS, &d, &e);
    if (st == DL_ERR_SYNTAX) st = dlsh_fail(st, e.hint, "line %d of the header: %s", e.line, e.message);
    if (!st) st = dlsh_c_query_macros(c, &d, from);
    if (!st) st = dlsh_c_query_layouts(c, savepoint, from->source, from->flags);
    DLSH_FREED const char **hidden = st ? NULL : malloc(((size_t)d.n + 1) * sizeof *hidden);
    if (!st && !hidden) st = dlsh_no_memory("the names of a header");
    if (!st) st = bind_found(s, lib, &d, from, &count, hidden, &nhidden);
    int declared = 0; /* what a library is to bring */
    for (int i = 0; i < d.n; i++) declared += d.items[i].proto && !d.items[i].is_static && !d.items[i].has_body;
    if (!st && !count && declared)
        dlsh_warn(s, "is it the header of this library?", "none of the header's %d functions is in \"%s\"", declared,
                  lib->name);
    if (st)
        dlsh_c_rollback(c, savepoint);
    else
        dlsh_c_warn_hidden(s, hidden, nhidden);
    dlsh_cdecls_free(&d);
    dlsh_forget_names(s);
    return st;
}

dl_status dlsh_c_import(dlsh_session *s, dlsh_clib *lib, const char *text, const char *flags) {
    DLSH_SCOPED_BUF source = {0};
    const dlsh_cheader *from = NULL;
    DLSH_TRY(includes(text, &source));
    if (!(from = header_of(dlsh_c_space(s), lib, dlsh_buf_text(&source), flags))) return dl_failed();
    return read_header(s, lib, from);
}
