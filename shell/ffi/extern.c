/* The statement `extern "library" prototypes;`. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/compiler/query.h"
#include "ffi/compiler/block.h"
#include "lang/eval/interp.h"

/* Finds the file of a library: "libm.so.6" for "m", "libm" and "libm.so". 0: there is none. */
static int find_library(const char *name, char *found, size_t size) {
    static const char *const folders[] = {"/lib/*/", "/usr/lib/*/", "/usr/lib/", "/usr/local/lib/"};
    int n = (int)strlen(name);
    if (n > 3 && !strcmp(name + n - 3, ".so")) n -= 3;
    for (size_t i = 0; n && !strpbrk(name, "/*?[") && i < DLSH_COUNT(folders); i++) {
        char pattern[200];
        glob_t g;
        snprintf(pattern, sizeof pattern, "%s%s%.*s.so.[0-9]*", folders[i], strncmp(name, "lib", 3) ? "lib" : "", n,
                 name);
        int have = !glob(pattern, 0, NULL, &g) && g.gl_pathc;
        const char *best = NULL; /* the shortest is the one that programs ask for */
        for (size_t k = 0; have && k < g.gl_pathc; k++)
            if (!best || strlen(g.gl_pathv[k]) < strlen(best)) best = g.gl_pathv[k];
        if (best) snprintf(found, size, "%s", strrchr(best, '/') + 1);
        globfree(&g);
        if (best) return 1;
    }
    return 0;
}

/* Explains why a library was not loaded. "libc.so" of development packages, for example, is a linker script. */
static void hint_for(const char *name, const char *why, char *hint, size_t size) {
    char found[100];
    if (find_library(name, found, sizeof found))
        snprintf(hint, size, "did you mean \"%s\"?", found);
    else if (strstr(why, "invalid ELF header") || strstr(why, "file too short"))
        snprintf(hint, size, "that file is not a library; its name ends in a number: %s.6?", name);
    else if (!strchr(name, '/') && strncmp(name, "lib", 3))
        snprintf(hint, size, "libraries are called libNAME.so.N; a file in this folder is written ./%s", name);
    else if (!strchr(name, '/') && !strstr(name, ".so"))
        snprintf(hint, size, "libraries are called libNAME.so.N: \"%s.so\"?", name);
    else if (strchr(name, '/'))
        snprintf(hint, size, "is the path right?");
    else
        snprintf(hint, size, "is it installed? its package may be called %.*s", (int)strcspn(name, "."), name);
}

static dlsh_clib *open_lib(dlsh_session *s, const char *name) {
    dlsh_cstate *st = dlsh_c_state(s);
    char hint[160];
    for (int i = 0; i < st->nlibs; i++)
        if (st->libs[i]->handle && !strcmp(st->libs[i]->name, name)) return dlsh_clib_ref(st->libs[i]);
    void *handle = NULL;
    if (dlsh_c_open(*name ? name : NULL, RTLD_NOW | RTLD_LOCAL, &handle)) return NULL;
    if (!handle) {
        const char *why = dlerror();
        hint_for(name, why ? why : "", hint, sizeof hint);
        dlsh_fail(DL_ERR_IO, hint, "the library \"%s\" cannot be loaded: %s", name, why ? why : "unknown reason");
        return NULL;
    }
    dlsh_clib *lib = dlsh_clib_new(name, handle, dlsh_c_close, handle);
    if (!lib) dlclose(handle);
    return lib;
}

static dl_status fail_at_decl(dlsh_session *s, const dlsh_unit *u, int base, const dlsh_cdecl *d, dl_status st) {
    return dlsh_place_at(s, u, dlsh_span_in_text(u, base + d->offset, (int)strlen(d->name)), st);
}

static dl_status check_decl(const dlsh_cdecl *d) {
    if (d->has_body)
        return dlsh_fail(DL_ERR_SYNTAX, "C { ... } compiles functions", "extern takes declarations; '%s' has a body",
                         d->name);
    if (d->is_static) return dlsh_fail(DL_ERR_SYNTAX, NULL, "a static function is not visible outside its file");
    for (int i = 0; d->proto && i < d->proto->nparams; i++)
        if (d->proto->params[i].flags & DLSH_C_INOUT && d->proto->params[i].flags & DLSH_C_ARRAY_PARAM)
            return dlsh_fail(DL_ERR_SYNTAX, "an array that C changes is passed as a tensor",
                             "inout is for single values, not for arrays");
    return DL_OK;
}

static dl_status no_symbol(const dlsh_clib *lib, const char *name) {
    char hint[160] = "";
    void *other = dlsym(RTLD_DEFAULT, name);
    Dl_info info;
    if (other && dladdr(other, &info) && info.dli_fname) {
        const char *file = strrchr(info.dli_fname, '/');
        snprintf(hint, sizeof hint, "%s has it", file ? file + 1 : info.dli_fname);
    } else {
        snprintf(hint, sizeof hint,
                 "nm -D lists the functions of a library; static, inline and C++ functions are not among them");
    }
    return dlsh_fail(DL_ERR_NAME, hint, "the library \"%s\" has no function '%s'", lib->name, name);
}

/* The function of a C block that extern "" declares again, to add out, owned or keep; NULL: it is none. */
static const dlsh_cfunc *of_block(dlsh_session *s, const dlsh_clib *lib, const char *name) {
    const dlsh_value *v = *lib->name ? NULL : dlsh_get(s, name);
    const dlsh_cfunc *f = v ? dlsh_cfunc_of(*v) : NULL;
    return f && dlsh_cblock_of(f) ? f : NULL;
}

static dl_status check_block_function(const dlsh_cfunc *f, const dlsh_cdecl *d) {
    if (d->proto && dlsh_c_same(f->proto->type, d->type, 1)) return DL_OK;
    return dlsh_fail(DL_ERR_TYPE, "its block says how it is declared", "'%s' is another function in its C block: %s",
                     d->name, f->proto->text);
}

static dl_status bind_one(dlsh_session *s, const dlsh_cdecl *d, dlsh_clib *lib) {
    const dlsh_cfunc *f = of_block(s, lib, d->name);
    if (f) return dlsh_c_bind(s, d, f->addr, f->lib, DLSH_C_OWN);
    return dlsh_c_bind(s, d, dlsh_c_symbol(lib, d->name), lib, DLSH_C_WRITTEN);
}

static dl_status bind_all(dlsh_session *s, const dlsh_unit *u, int base, const dlsh_cdecls *d, dlsh_clib *lib) {
    for (int i = 0; i < d->n; i++) { /* all or nothing */
        dl_status st = check_decl(&d->items[i]);
        const dlsh_cfunc *f = of_block(s, lib, d->items[i].name);
        if (!st) st = f ? check_block_function(f, &d->items[i]) : dlsh_c_check_conflict(s, &d->items[i]);
        if (!st && !f && !dlsh_c_symbol(lib, d->items[i].name)) st = no_symbol(lib, d->items[i].name);
        if (st) return fail_at_decl(s, u, base, &d->items[i], st);
    }
    for (int i = 0; i < d->n; i++) {
        dl_status st = bind_one(s, &d->items[i], lib);
        if (st) return fail_at_decl(s, u, base, &d->items[i], st);
    }
    return DL_OK;
}

/* Structs with attributes: the compiler gives the layout. It reads the declarations without the words that C lacks. */
static dl_status lay_out(dlsh_session *s, const char *text, int savepoint) {
    DLSH_SCOPED_BUF context = {0};
    if (!dlsh_c_has_layout_words(text) || !dlsh_c_can_query()) return DL_OK;
    dlsh_buf_printf(&context,
                    "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
                    "#include <sys/types.h>\ntypedef struct dl_tensor dl_tensor;\n"
                    "#define out\n#define inout\n#define keep\n#define owned\n%s;\n",
                    text);
    return context.failed ? dlsh_no_memory("layouts")
                          : dlsh_c_query_layouts(dlsh_c_space(s), savepoint, dlsh_buf_text(&context), NULL);
}

static dl_status run_prototypes(dlsh_session *s, const dlsh_unit *u, const dlsh_node *n, dlsh_clib *lib) {
    DLSH_SCOPED(dlsh_cdecls_free) dlsh_cdecls d = {0};
    dlsh_cerror e;
    int base = (int)n->num.i, savepoint = dlsh_c_savepoint(dlsh_c_space(s)), wrong;
    dl_status st = dlsh_c_parse(dlsh_c_space(s), n->label, strlen(n->label), 0, &d, &e);
    if (st == DL_ERR_SYNTAX) st = dlsh_fail_in_text(s, u, base + e.offset, e.width, st, e.hint, "%s", e.message);
    if (!st && (st = dlsh_c_verify(dlsh_c_space(s), lib->name, &d, savepoint, &wrong)) && wrong >= 0)
        fail_at_decl(s, u, base, &d.items[wrong], st);
    if (!st) st = lay_out(s, n->label, savepoint);
    if (!st) st = bind_all(s, u, base, &d, lib);
    if (st && d.n) dlsh_c_rollback(dlsh_c_space(s), savepoint);
    return st;
}

static dl_status read_options(dlsh_session *s, const dlsh_node *n, char **flags) {
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *o = n->kids[i];
        DLSH_DROPPED dlsh_value v = dlsh_none();
        if (strcmp(o->text, "flags"))
            return dlsh_at(s, o, dlsh_fail(DL_ERR_NAME, "flags=\"-I/folder\"", "extern has no option '%s'", o->text));
        if (o->nkids) DLSH_TRY(dlsh_eval(s, o->kids[0], &v));
        if (v.type == DLSH_STR && !*flags) *flags = strdup(v.as.str->s);
        if (!*flags) return dlsh_at(s, o, dlsh_fail(DL_ERR_TYPE, NULL, "flags is a string, given once"));
    }
    return DL_OK;
}

dl_status dlsh_c_run_extern(dlsh_session *s, const dlsh_unit *u, const dlsh_node *n) {
    dlsh_clib *lib = open_lib(s, n->text);
    if (!lib) return dl_failed();
    DLSH_FREED char *flags = NULL;
    const char *text = n->label + strspn(n->label, " \t\n");
    dl_status st = read_options(s, n, &flags);
    if (!st && !strncmp(text, "header", 6) && strchr(" \t<\"", text[6]))
        st = dlsh_c_import(s, lib, text + 6, flags);
    else if (!st)
        st = run_prototypes(s, u, n, lib);
    dlsh_clib_drop(lib);
    return st;
}
