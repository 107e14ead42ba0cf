/* Checks prototypes written by hand against the header of a known library. The compiler gets both; types that it calls
 * conflicting are compared again, because a pointer to a type may stand for the header's void *. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ffi/compiler/query.h"

static const struct {
    const char *lib, *headers;
} known[] = {
    {"libm.so", "math.h complex.h fenv.h"},
    {"libc.so",
     "stdio.h stdlib.h string.h time.h unistd.h ctype.h locale.h signal.h wchar.h fcntl.h sys/stat.h sys/time.h "
     "dirent.h inttypes.h"},
    {"libz.so", "zlib.h"},
    {"libsqlite3.so", "sqlite3.h"},
    {"libpng", "png.h"},
    {"libopenblas", "cblas.h"},
    {"libblas", "cblas.h"},
    {"libcblas", "cblas.h"},
    {"liblapacke", "lapacke.h"},
    {"libfftw3", "fftw3.h"},
    {"libjansson", "jansson.h"},
    {"libzmq", "zmq.h"},
    {"libcurl", "curl/curl.h"},
    {"libgsl.so", "gsl/gsl_sf.h gsl/gsl_integration.h gsl/gsl_odeiv2.h gsl/gsl_multimin.h gsl/gsl_rng.h"},
    {"libdl.so", "dlfcn.h"},
    {"libpthread.so", "pthread.h"},
};

static const char *headers_of(const char *lib) {
    const char *base = strrchr(lib, '/');
    base = base ? base + 1 : lib;
    for (size_t i = 0; i < DLSH_COUNT(known); i++)
        if (!strncmp(base, known[i].lib, strlen(known[i].lib))) return known[i].headers;
    return NULL;
}

/* Writes the includes. Missing headers are named in a comment, so that the cached answer is not used once they exist.
 * */
static void add_includes(dlsh_buf *b, const char *headers) {
    dlsh_buf_puts(b, "#define _GNU_SOURCE\n");
    for (const char *s = headers; *s;) {
        char path[200];
        int n = (int)strcspn(s, " ");
        snprintf(path, sizeof path, "/usr/include/%.*s", n, s);
        if (access(path, R_OK)) dlsh_buf_printf(b, "/* not in /usr/include: %.*s */\n", n, s);
        dlsh_buf_printf(b, "#if __has_include(<%.*s>)\n#include <%.*s>\n#endif\n", n, s, n, s);
        s += n + (s[n] == ' ');
    }
}

/* Asserts that structs written by hand have the layout of the header, on lines from 100000. */
static void add_structs(dlsh_buf *b, const dlsh_cspace *c, int savepoint) {
    const dlsh_cname *n;
    dlsh_buf_puts(b, "#line 100000\n");
    for (int next = savepoint; (n = dlsh_c_next(c, &next));) {
        const dlsh_ctype *t = n->type ? n->type->plain : NULL;
        if ((n->kind != DLSH_C_TAG && n->kind != DLSH_C_TYPEDEF) || !dlsh_c_is_struct(t) || !t->complete ||
            !t->laid_out)
            continue;
        dlsh_buf_printf(b, "_Static_assert(sizeof(%s) == %zu", n->name, t->size);
        for (long i = 0; i < t->n; i++)
            if (t->fields[i].name && !t->fields[i].bits)
                dlsh_buf_printf(b, " && __builtin_offsetof(%s, %s) == %zu", n->name, t->fields[i].name,
                                t->fields[i].offset);
        dlsh_buf_printf(b, ", \"dlsh:%s\");\n", n->name);
    }
}

/* Declares each function, on line 1 + i. */
static void add_functions(dlsh_buf *b, const dlsh_cdecls *d) {
    dlsh_buf_puts(b, "#line 1\n");
    for (int i = 0; i < d->n; i++) {
        DLSH_SCOPED_BUF line = {0};
        dlsh_c_print(&line, d->items[i].type, d->items[i].name);
        dlsh_buf_printf(b, "%s%s;\n", d->items[i].proto ? "" : "extern ", dlsh_buf_text(&line));
    }
}

/* Reads the type in the header, "with type 'double(double, double)'"; NULL: not understood. */
static const dlsh_ctype *header_type(dlsh_cspace *c, const char *said, const char *name, char *text, size_t size) {
    char want[200];
    dlsh_cerror e;
    snprintf(want, sizeof want, "declaration of '%s' with type '", name);
    const char *s = strstr(said, want);
    if (!s) return NULL;
    s += strlen(want);
    snprintf(text, size, "%.*s", (int)strcspn(s, "'\n"), s);
    return dlsh_c_parse_type(c, text, strlen(text), &e);
}

static int find_decl(const dlsh_cdecls *d, const char *name, size_t len) {
    for (int i = 0; i < d->n; i++)
        if (!strncmp(d->items[i].name, name, len) && !d->items[i].name[len]) return i;
    return -1;
}

/* The headers read by the own parser, for compilers (clang) whose message lacks the header's type. */
typedef struct reading {
    dlsh_cspace *c;
    dlsh_cdecls d;
} reading;

static dl_status read_headers(const char *headers, reading *r) {
    static const char *const args[] = {"-E", "-P", "-w", NULL};
    DLSH_SCOPED_BUF source = {0}, text = {0};
    dlsh_cerror e;
    int good;
    if (!(r->c = dlsh_cspace_new())) return DL_ERR_MEMORY;
    add_includes(&source, headers);
    dl_status st = dlsh_c_query(dlsh_buf_text(&source), args, NULL, 0, &text, &good);
    if (!st && good) st = dlsh_c_parse(r->c, dlsh_buf_text(&text), text.n, DLSH_C_LENIENT, &r->d, &e);
    return st == DL_ERR_SYNTAX ? DL_OK : st;
}

/* Fails for a conflict that is a real difference. */
static dl_status check_conflict(const dlsh_ctype *t, const dlsh_cdecl *d) {
    if (!t || dlsh_c_same(t, d->type, 1)) return DL_OK;
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_puts(&b, "the header says: ");
    dlsh_c_print(&b, t, d->name);
    return dlsh_fail(DL_ERR_TYPE, dlsh_buf_text(&b), "this prototype of '%s' is not that of its header", d->name);
}

static dl_status check_structs(const char *said) {
    for (const char *s = said; (s = strstr(s, "error: static"));) {
        size_t line = strcspn(s, "\n");
        const char *name = strstr(s, "dlsh:");
        s += line;
        if (!name || name > s) continue;
        name += 5;
        return dlsh_fail(DL_ERR_TYPE,
                         "the library works with the layout of its header: extern \"LIB\" header <...>; takes it over",
                         "the fields of '%.*s' are not those of its header", (int)strcspn(name, "\"\n"), name);
    }
    return DL_OK;
}

/* Reads the messages; the first real conflict fails. */
static dl_status check_messages(dlsh_cspace *c, const char *said, const dlsh_cdecls *d, const char *headers, int *at) {
    static const char conflict[] = "error: conflicting types for '";
    char text[300];
    reading r = {0};
    dl_status st = DL_OK;
    for (const char *s = said; !st && (s = strstr(s, conflict));) {
        s += sizeof conflict - 1;
        int i = find_decl(d, s, strcspn(s, "'")), other;
        if (i < 0) continue;
        *at = i;
        const dlsh_ctype *t = header_type(c, s, d->items[i].name, text, sizeof text);
        if (!t && !r.c) st = read_headers(headers, &r);
        if (!t && !st && (other = find_decl(&r.d, d->items[i].name, strlen(d->items[i].name))) >= 0)
            t = r.d.items[other].type;
        if (!st) st = check_conflict(t, &d->items[i]);
    }
    dlsh_cdecls_free(&r.d);
    dlsh_cspace_free(r.c);
    if (st) return st;
    *at = -1;
    return check_structs(said);
}

dl_status dlsh_c_verify(dlsh_cspace *c, const char *lib, const dlsh_cdecls *d, int savepoint, int *at) {
    static const char *const args[] = {"-fsyntax-only", "-w", NULL};
    const char *headers = headers_of(lib);
    DLSH_SCOPED_BUF source = {0}, said = {0};
    int good;
    *at = -1;
    if (!headers || !d->n || !dlsh_c_can_query()) return DL_OK;
    add_includes(&source, headers);
    add_structs(&source, c, savepoint);
    add_functions(&source, d);
    DLSH_TRY(source.failed ? DL_ERR_MEMORY : dlsh_c_query(dlsh_buf_text(&source), args, NULL, 1, &said, &good));
    if (!good) DLSH_TRY(check_messages(c, dlsh_buf_text(&said), d, headers, at));
    return DL_OK;
}
