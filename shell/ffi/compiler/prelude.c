/* What C blocks see of each other: earlier declarations, names for the linker, redefinition. */
#include "ffi/compiler/prelude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffi/cparse/cwords.h"

void dlsh_prelude_tag(const char *key, char tag[24]) { snprintf(tag, 24, "__d%.16s", key); }

static int is_conditional(const dlsh_citem *it) {
    const char *p = it->head + strspn(it->head, "# \t");
    return it->kind == DLSH_CI_DIRECTIVE && (!strncmp(p, "if", 2) || !strncmp(p, "el", 2) || !strncmp(p, "endif", 5));
}

static int is_include(const dlsh_citem *it) {
    return it->kind == DLSH_CI_DIRECTIVE && !strncmp(it->head + strspn(it->head, "# \t"), "include", 7);
}

/* Flags of the names in a new block. HIDDEN: visible only there, such as static functions. */
enum { DEFINED = 1, HIDDEN = 2, TYPE = 4, HIDDEN_TYPE = 8, USED = 16 };

static dl_status defined(const dlsh_cblock *b, dlsh_cwords *out) {
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if (it->kind == DLSH_CI_PROTOTYPE) continue;
        int hidden = it->kind == DLSH_CI_OTHER, flags = (hidden ? HIDDEN : DEFINED) | (!it->is_type ? 0
                                                                                       : hidden     ? HIDDEN_TYPE
                                                                                                    : TYPE);
        for (int k = 0; k < it->nnames; k++) DLSH_TRY(dlsh_cwords_add(out, it->names[k], strlen(it->names[k]), flags));
    }
    return DL_OK;
}

static int has_name(const dlsh_cwords *w, const dlsh_citem *it, int flags) {
    for (int i = 0; i < it->nnames; i++)
        if (dlsh_cwords_flags(w, it->names[i], strlen(it->names[i])) & flags) return 1;
    return 0;
}

/* Does a block that defines these names replace an older item? With `hide`, names that are hidden in the new block
 * count, too. A new definition of a type also replaces what was declared with the old one. */
static int replaces(const dlsh_cwords *new, const dlsh_citem *old, int hide) {
    if (has_name(new, old, hide ? DEFINED | HIDDEN : DEFINED)) return 1;
    return old->kind != DLSH_CI_DIRECTIVE && old->head &&
           dlsh_cwords_in_text(new, old->head, hide ? TYPE | HIDDEN_TYPE : TYPE);
}

/* The index of the first name that is not a type: a in `struct s { int x; } a, b;`. */
static int first_variable(const dlsh_citem *it) {
    int variables = 0;
    for (const char *p = it->head; *p; p++) variables += *p == DLSH_CI_PLACEHOLDER[0];
    return it->nnames - variables;
}

static void put_declaration(const dlsh_cblock *b, const dlsh_citem *it, int cuda, dlsh_buf *out) {
    char tag[24];
    dlsh_prelude_tag(b->key, tag);
    if (cuda)
        dlsh_buf_puts(out, "extern \"C\" ");
    else if (strncmp(it->head, "extern", 6))
        dlsh_buf_puts(out, "extern ");
    int name = it->kind == DLSH_CI_VARIABLE ? first_variable(it) : 0;
    for (const char *p = it->head; *p; p++) {
        if (*p == DLSH_CI_PLACEHOLDER[0])
            dlsh_buf_printf(out, " __asm__(\"%s%s%s\")", it->names[name++], tag,
                            it->kind == DLSH_CI_FUNCTION ? "s" : "");
        else
            dlsh_buf_add(out, p, 1);
    }
    dlsh_buf_puts(out, "\n");
}

static void put_item(const dlsh_cblock *b, const dlsh_citem *it, int cuda, dlsh_buf *out) {
    switch (it->kind) {
    case DLSH_CI_DIRECTIVE:
    case DLSH_CI_TYPE:
    case DLSH_CI_PROTOTYPE: dlsh_buf_printf(out, "%s\n", it->head); break;
    case DLSH_CI_VARIABLE:
    case DLSH_CI_FUNCTION: put_declaration(b, it, cuda, out); break;
    case DLSH_CI_OTHER: break;
    }
}

static dl_status need(dlsh_cblock *new, dlsh_cblock *b) {
    dlsh_clib **grown = realloc(new->needs, (size_t)(new->nneeds + 1) * sizeof *grown);
    if (!grown) return dlsh_no_memory("a C block");
    new->needs = grown;
    new->needs[new->nneeds++] = dlsh_clib_ref(b->lib);
    return DL_OK;
}

static int is_needed(const dlsh_cblock *b, const dlsh_cwords *new) {
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if ((it->kind == DLSH_CI_FUNCTION || it->kind == DLSH_CI_VARIABLE) && !replaces(new, it, 1) &&
            has_name(new, it, USED))
            return 1;
    }
    return 0;
}

/* The bodies of all current macros, because a use of a macro uses the names in its body. */
static void put_macros(const dlsh_cblock *older, dlsh_buf *out) {
    for (; older; older = older->next)
        for (int i = 0; i < older->items.n; i++)
            if (older->items.items[i].kind == DLSH_CI_DIRECTIVE && older->items.items[i].nnames)
                dlsh_buf_printf(out, "%s\n", older->items.items[i].head + 1);
}

static void put_blocks(const dlsh_cblock *b, const dlsh_cwords *new, int cuda, dlsh_buf *out) {
    if (!b) return;
    put_blocks(b->next, new, cuda, out); /* oldest first */
    for (int i = 0; i < b->items.n; i++)
        if (!replaces(new, &b->items.items[i], 1)) put_item(b, &b->items.items[i], cuda, out);
}

dl_status dlsh_prelude(dlsh_cblock *older, dlsh_cblock *new, dlsh_buf *out) {
    DLSH_SCOPED_BUF macros = {0};
    DLSH_SCOPED(dlsh_cwords_free) dlsh_cwords words = {0};
    if (!older) return DL_OK;
    put_macros(older, &macros);
    DLSH_TRY(defined(new, &words));
    put_blocks(older, &words, new->cuda, out);
    DLSH_TRY(dlsh_cwords_add_text(&words, new->text, USED));
    DLSH_TRY(dlsh_cwords_add_text(&words, dlsh_buf_text(&macros), USED));
    for (dlsh_cblock *b = older; b; b = b->next)
        if (is_needed(b, &words)) DLSH_TRY(need(new, b));
    return DL_OK;
}

#if defined(__x86_64__)
#define JUMP "jmp *%1$s%2$sl(%%rip)"
#elif defined(__aarch64__)
#define JUMP "adrp x16, %1$s%2$sl\\n ldr x16, [x16, :lo12:%1$s%2$sl]\\n br x16"
#endif

static void put_function(const char *name, const char *tag, dlsh_buf *out) {
#ifdef JUMP
    dlsh_buf_printf(out,
                    "__asm__(\".text\\n.globl %1$s%2$ss\\n%1$s%2$ss: " JUMP "\\n"
                    ".data\\n.balign 8\\n%1$s%2$sl: .quad %1$s\\n.globl %1$s%2$sp\\n.set %1$s%2$sp, %1$s%2$sl\\n"
                    ".text\\n.globl %1$s%2$s\\n.set %1$s%2$s, %1$s\");\n",
                    name, tag);
#else
    dlsh_buf_printf(out,
                    "__asm__(\".globl %1$s%2$ss\\n.set %1$s%2$ss, %1$s\\n.globl %1$s%2$s\\n.set %1$s%2$s, %1$s\");\n",
                    name, tag);
#endif
}

/* Exports sizeof of an array `T x[] = {...}`, from which its length follows. */
static void put_size(const dlsh_citem *it, const char *name, const char *tag, dlsh_buf *out) {
    if (strstr(it->head, "[]")) dlsh_buf_printf(out, "const unsigned long %1$s%2$sz = sizeof(%1$s);\n", name, tag);
}

void dlsh_prelude_exports(const dlsh_cblock *b, dlsh_buf *out) {
    char tag[24];
    dlsh_prelude_tag(b->key, tag);
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        for (int k = 0; k < it->nnames; k++)
            if (it->kind == DLSH_CI_FUNCTION)
                put_function(it->names[k], tag, out);
            else if (it->kind == DLSH_CI_VARIABLE && k >= first_variable(it)) {
                put_size(it, it->names[k], tag, out);
                dlsh_buf_printf(out, "__asm__(\".globl %1$s%2$s\\n.set %1$s%2$s, %1$s\");\n", it->names[k], tag);
            }
    }
}

static void free_item(dlsh_citem *it) {
    for (int k = 0; k < it->nnames; k++) free(it->names[k]);
    free(it->head);
}

static int has_include(const dlsh_citems *c, const dlsh_citem *it) {
    for (int i = 0; i < c->n; i++)
        if (is_include(&c->items[i]) && !strcmp(c->items[i].head, it->head)) return 1;
    return 0;
}

static void drop_replaced(dlsh_citems *old, const dlsh_cwords *new) {
    int n = 0;
    for (int i = 0; i < old->n; i++)
        if (replaces(new, &old->items[i], 0))
            free_item(&old->items[i]);
        else
            old->items[n++] = old->items[i];
    old->n = n;
}

/* Removes the #include lines that an older block has already. */
static void drop_includes(dlsh_citems *new, const dlsh_citems *old) {
    int n = 0;
    for (int i = 0; i < new->n; i++)
        if (is_include(&new->items[i]) && has_include(old, &new->items[i]))
            free_item(&new->items[i]);
        else
            new->items[n++] = new->items[i];
    new->n = n;
}

/* Directs calls compiled against an older function of the same name and type to the new one. */
static void redirect(dlsh_cblock *old, const dlsh_cblock *new) {
    for (int i = 0; i < old->nexports; i++) {
        dlsh_cexport *e = &old->exports[i];
        for (int k = 0; e->slot && k < new->nexports; k++) {
            const dlsh_cexport *n = &new->exports[k];
            if (!n->slot || strcmp(e->name, n->name) || !dlsh_c_same(e->type, n->type, 0)) continue;
            dlsh_clib *former = e->target;
            *e->slot = *n->slot;
            e->target = dlsh_clib_ref(new->lib);
            dlsh_clib_drop(former);
        }
    }
}

int dlsh_prelude_current(const dlsh_cblock *b) {
    for (int i = 0; i < b->items.n; i++)
        if (b->items.items[i].kind != DLSH_CI_OTHER && !is_conditional(&b->items.items[i])) return 1;
    return 0;
}

dl_status dlsh_prelude_supersede(dlsh_cblock *older, dlsh_cblock *new) {
    DLSH_SCOPED(dlsh_cwords_free) dlsh_cwords words = {0};
    dl_status st = older ? defined(new, &words) : DL_OK;
    for (dlsh_cblock *b = st ? NULL : older, *next; b; b = next) {
        next = b->next;
        drop_replaced(&b->items, &words);
        drop_includes(&new->items, &b->items);
        redirect(b, new);
    }
    return st;
}
