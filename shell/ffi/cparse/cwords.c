/* Words of C text. */
#include "ffi/cparse/cwords.h"

#include <stdlib.h>
#include <string.h>

#include "ffi/cparse/clex.h"
#include "lang/session.h"

static const char *word_at(const void *ctx, int i) { return ((const dlsh_cwords *)ctx)->words[i].text; }

int dlsh_cwords_flags(const dlsh_cwords *w, const char *word, size_t len) {
    int i = dl_names_find(&w->table, word, len, word_at, w);
    return i < 0 ? 0 : w->words[i].flags;
}

dl_status dlsh_cwords_add(dlsh_cwords *w, const char *word, size_t len, int flags) {
    int i = dl_names_find(&w->table, word, len, word_at, w);
    if (i >= 0) {
        w->words[i].flags |= flags;
        return DL_OK;
    }
    dlsh_cword *grown = dlsh_grow(w->words, w->n, &w->cap, sizeof *grown);
    if (!grown) return DL_ERR_MEMORY;
    w->words = grown;
    char *copy = strndup(word, len);
    if (!copy) return dlsh_no_memory("the names of a C block");
    w->words[w->n] = (dlsh_cword){copy, flags};
    dl_status st = dl_names_add(&w->table, w->n, word_at, w);
    if (st)
        free(copy);
    else
        w->n++;
    return st;
}

void dlsh_cwords_free(dlsh_cwords *w) {
    for (int i = 0; i < w->n; i++) free(w->words[i].text);
    free(w->words);
    dl_names_free(&w->table);
    *w = (dlsh_cwords){0};
}

typedef int on_word(void *ctx, const dlsh_ctok *t);

/* Calls fn for each word until it returns other than 0, which is returned. */
static int each_word(const char *text, size_t len, on_word *fn, void *ctx) {
    dlsh_clexer lx;
    int end = 0;
    dlsh_clex_begin(&lx, text, len);
    for (dlsh_ctok t = dlsh_clex_next(&lx); t.kind != DLSH_CT_END && !end; t = dlsh_clex_next(&lx))
        if (t.kind == DLSH_CT_IDENT)
            end = fn(ctx, &t);
        else if (t.kind == DLSH_CT_DIRECTIVE)
            end = each_word(t.text, t.len, fn, ctx);
    return end;
}

typedef struct asked {
    dlsh_cwords *words;
    int flags;
} asked;

static int add_word(void *ctx, const dlsh_ctok *t) {
    asked *a = ctx;
    return dlsh_cwords_add(a->words, t->text, t->len, a->flags) != DL_OK;
}

dl_status dlsh_cwords_add_text(dlsh_cwords *w, const char *text, int flags) {
    asked a = {w, flags};
    return each_word(text, strlen(text), add_word, &a) ? DL_ERR_MEMORY : DL_OK;
}

static int has_flags(void *ctx, const dlsh_ctok *t) {
    const asked *a = ctx;
    return (dlsh_cwords_flags(a->words, t->text, t->len) & a->flags) != 0;
}

int dlsh_cwords_in_text(const dlsh_cwords *w, const char *text, int flags) {
    asked a = {(dlsh_cwords *)w, flags};
    return w->n && each_word(text, strlen(text), has_flags, &a);
}

static int is_name(void *name, const dlsh_ctok *t) { return dlsh_clex_is(t, name); }

int dlsh_c_mentions(const char *text, const char *name) { return each_word(text, strlen(text), is_name, (void *)name); }
