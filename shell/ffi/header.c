/* extern "lib" header <x.h>: every prototype, variable, type and constant of a header. */
#define _GNU_SOURCE /* dladdr, dlinfo */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/ask.h"

/* "<a.h> \"b.h\"" as lines of includes. */
static dl_status includes(const char *text, dlsh_buf *out) {
    int n = 0;
    for (const char *s = text; *s;) {
        if (*s == ' ' || *s == '\t' || *s == '\n' || *s == ',') {
            s++;
            continue;
        }
        const char *end = *s == '<' ? strchr(s, '>') : *s == '"' ? strchr(s + 1, '"') : NULL;
        if (!end || memchr(s, '\n', (size_t)(end - s)))
            return dlsh_fail(DL_ERR_SYNTAX, "extern \"libz.so.1\" header <zlib.h>;",
                             "expected a header in < > or quotes, found '%.20s'", s);
        dlsh_buf_printf(out, "#include %.*s\n", (int)(end - s) + 1, s);
        s = end + 1;
        n++;
    }
    return n ? DL_OK
             : dlsh_fail(DL_ERR_SYNTAX, "extern \"libz.so.1\" header <zlib.h>;",
                         "expected a header after the word 'header'");
}

/* The compiler's first message, without its file. */
static void first_error(const char *said, char *text, size_t size) {
    const char *e = strstr(said, "error: ");
    e = e ? e + 7 : said;
    snprintf(text, size, "%.*s", (int)strcspn(e, "\n"), e);
}

/* Functions of the library itself, and of those it brings along, but not C's own that every header drags in. */
static int belongs(const dlsh_clib *lib, void *addr) {
    Dl_info info;
    struct link_map *map = NULL;
    if (!lib->handle || dlinfo(lib->handle, RTLD_DI_LINKMAP, &map) || !map || !dladdr(addr, &info) || !info.dli_fname)
        return 1;
    if ((char *)info.dli_fbase == (char *)map->l_addr) return 1;
    const char *file = strrchr(info.dli_fname, '/');
    file = file ? file + 1 : info.dli_fname;
    return strncmp(file, "libc.so", 7) && strncmp(file, "libm.so", 7) && strncmp(file, "ld-linux", 8);
}

static dl_status bind_found(dlsh_session *s, dlsh_clib *lib, const dlsh_cdecls *d, int *count) {
    for (int i = 0; i < d->n; i++) {
        const dlsh_cdecl *item = &d->items[i];
        if (item->is_static || (!item->proto && !item->is_extern)) continue;
        void *addr = dlsh_c_symbol(lib, item->name);
        if (!addr || !belongs(lib, addr)) continue;
        DLSH_TRY(dlsh_c_bind(s, item, addr, lib, DLSH_C_IMPORTED));
        ++*count;
    }
    return DL_OK;
}

static dl_status read_header(dlsh_session *s, dlsh_clib *lib, const char *source, const char *flags) {
    static const char *const preprocess[] = {"-E", "-dD", "-w", NULL};
    dlsh_cspace *c = dlsh_c_space(s);
    dlsh_buf text = {0};
    dlsh_cdecls d = {0};
    dlsh_cerror e;
    char why[200];
    int good, count = 0, mark = dlsh_c_mark(c);
    dl_status st = dlsh_c_ask(source, preprocess, flags, 1, &text, &good);
    if (!st && !good) {
        first_error(dlsh_buf_text(&text), why, sizeof why);
        st = dlsh_fail(DL_ERR_IO,
                       "headers come with the -dev package of a library; flags=\"-I/folder\" says where to look",
                       "the header cannot be read: %s", why);
    }
    if (!st) st = dlsh_c_parse(c, dlsh_buf_text(&text), text.n, DLSH_C_LENIENT | DLSH_C_MACROS, &d, &e);
    if (st == DL_ERR_SYNTAX) st = dlsh_fail(st, e.hint, "line %d of the header: %s", e.line, e.message);
    if (!st) st = dlsh_c_enter_macros(c, &d);
    if (!st) st = dlsh_c_ask_layouts(c, mark, source, flags);
    if (!st) st = bind_found(s, lib, &d, &count);
    if (!st && !count)
        dlsh_warn(s, "is it the header of this library?", "none of the header's %d functions is in \"%s\"", d.n,
                  lib->name);
    if (st) dlsh_c_undo(c, mark);
    dlsh_cdecls_free(&d);
    dlsh_buf_free(&text);
    dlsh_forget_names(s);
    return st;
}

dl_status dlsh_c_import(dlsh_session *s, dlsh_clib *lib, const char *text, const char *flags) {
    dlsh_buf source = {0};
    dl_status st = includes(text, &source);
    if (!st) st = read_header(s, lib, dlsh_buf_text(&source), flags);
    dlsh_buf_free(&source);
    return st;
}
