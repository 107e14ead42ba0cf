/* What blocks of C see of each other: declarations handed on, names for the linker, redefinition. */
#include "ffi/prelude.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void dlsh_prelude_tag(const char *key, char tag[24]) { snprintf(tag, 24, "__d%.16s", key); }

static int is_conditional(const dlsh_citem *it) {
    const char *p = it->head + strspn(it->head, "# \t");
    return it->kind == DLSH_CI_DIRECTIVE && (!strncmp(p, "if", 2) || !strncmp(p, "el", 2) || !strncmp(p, "endif", 5));
}

static int is_include(const dlsh_citem *it) {
    return it->kind == DLSH_CI_DIRECTIVE && !strncmp(it->head + strspn(it->head, "# \t"), "include", 7);
}

/* Does C text mention one of the names? */
static int mentions_any(const char *text, const dlsh_citem *it) {
    for (int i = 0; i < it->nnames; i++)
        if (strstr(text, it->names[i]) && dlsh_c_mentions(text, strlen(text), it->names[i])) return 1;
    return 0;
}

static int share_name(const dlsh_citem *a, const dlsh_citem *b) {
    for (int i = 0; i < a->nnames; i++)
        if (dlsh_citem_has(b, a->names[i], strlen(a->names[i]))) return 1;
    return 0;
}

/* Does the new block put something else in the place of an older item? With `hide`, what is only hidden within the new
 * block counts too: its static functions and variables. A type that is defined anew takes all with it that was
 * declared with the old one. */
static int replaces(const dlsh_cblock *new, const dlsh_citem *old, int hide) {
    for (int i = 0; i < new->items.n; i++) {
        const dlsh_citem *it = &new->items.items[i];
        if (it->kind == DLSH_CI_PROTOTYPE || (it->kind == DLSH_CI_OTHER && !hide)) continue;
        if (share_name(it, old)) return 1;
        if (it->is_type && old->kind != DLSH_CI_DIRECTIVE && mentions_any(old->head, it)) return 1;
    }
    return 0;
}

/* ---------------------------------------------------------------- declarations */

/* The first of the names that is no type's: struct s { int x; } a, b; */
static int first_variable(const dlsh_citem *it) {
    int variables = 0;
    for (const char *p = it->head; *p; p++) variables += *p == DLSH_CI_MARK[0];
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
        if (*p == DLSH_CI_MARK[0])
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
    if (!grown) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a C block");
    new->needs = grown;
    new->needs[new->nneeds++] = dlsh_clib_ref(b->lib);
    return DL_OK;
}

static int is_needed(const dlsh_cblock *b, const dlsh_cblock *new, const char *macros) {
    for (int i = 0; i < b->items.n; i++) {
        const dlsh_citem *it = &b->items.items[i];
        if ((it->kind != DLSH_CI_FUNCTION && it->kind != DLSH_CI_VARIABLE) || replaces(new, it, 1)) continue;
        if (mentions_any(new->text, it) || mentions_any(macros, it)) return 1;
    }
    return 0;
}

/* The text of all macros that are current: names in them are used where a macro is. */
static void put_macros(const dlsh_cblock *older, dlsh_buf *out) {
    for (; older; older = older->next)
        for (int i = 0; i < older->items.n; i++)
            if (older->items.items[i].kind == DLSH_CI_DIRECTIVE && older->items.items[i].nnames)
                dlsh_buf_printf(out, "%s\n", older->items.items[i].head + 1);
}

static void put_blocks(const dlsh_cblock *b, const dlsh_cblock *new, dlsh_buf *out) {
    if (!b) return;
    put_blocks(b->next, new, out); /* oldest first */
    for (int i = 0; i < b->items.n; i++)
        if (!replaces(new, &b->items.items[i], 1)) put_item(b, &b->items.items[i], new->cuda, out);
}

dl_status dlsh_prelude(dlsh_cblock *older, dlsh_cblock *new, dlsh_buf *out) {
    dlsh_buf macros = {0};
    dl_status st = DL_OK;
    put_blocks(older, new, out);
    put_macros(older, &macros);
    for (dlsh_cblock *b = older; b && !st; b = b->next)
        if (is_needed(b, new, dlsh_buf_text(&macros))) st = need(new, b);
    dlsh_buf_free(&macros);
    return st;
}

/* ---------------------------------------------------------------- names for the linker */

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

/* `T x[] = {...}`: how many elements there are, the compiler says in a variable beside it. */
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

/* ---------------------------------------------------------------- redefinition */

static void drop_item(dlsh_citems *c, int i) {
    dlsh_citem *it = &c->items[i];
    for (int k = 0; k < it->nnames; k++) free(it->names[k]);
    free(it->head);
    memmove(it, it + 1, (size_t)(--c->n - i) * sizeof *it);
}

/* Calls compiled against an older function of this name and type go to the new one from now on. */
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

void dlsh_prelude_supersede(dlsh_cblock *older, dlsh_cblock *new) {
    for (dlsh_cblock *b = older, *next; b; b = next) {
        next = b->next;
        for (int i = b->items.n; i-- > 0;)
            if (replaces(new, &b->items.items[i], 0)) drop_item(&b->items, i);
        for (int i = new->items.n; i-- > 0;) /* an #include that stands already stays where it is */
            for (int k = 0; is_include(&new->items.items[i]) && k < b->items.n; k++)
                if (is_include(&b->items.items[k]) && !strcmp(b->items.items[k].head, new->items.items[i].head)) {
                    drop_item(&new->items, i);
                    break;
                }
        redirect(b, new);
    }
}
