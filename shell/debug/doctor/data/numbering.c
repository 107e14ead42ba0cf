/* Words of two parts of the data that are numbered by themselves each, so that a number of one part means another word
 * than in the other: categories(train.kind) and categories(test.kind). */
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/samples.h"
#include "debug/doctor/syntax.h"

enum { WORDS = 64, CALLS = 16 };

/* The words of a list, each once, in the order in which they are numbered. */
typedef struct words {
    const char *at[WORDS];
    int n, all;
} words;

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int place_of(const words *w, const char *word) {
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->at[i], word)) return i;
    return -1;
}

/* 0: it is no list of a few words that come again. */
static int read_words(const dlsh_value *v, int sorted, words *out) {
    *out = (words){.n = 0};
    const dlsh_list *l = v && v->type == DLSH_LIST ? v->as.list : NULL;
    for (int i = 0; l && i < l->n; i++) {
        if (l->items[i].type != DLSH_STR) return 0;
        const char *word = l->items[i].as.str->s;
        if (place_of(out, word) >= 0) continue;
        if (out->n == WORDS) return 0;
        out->at[out->n++] = word;
    }
    out->all = l ? l->n : 0;
    if (sorted) qsort(out->at, (size_t)out->n, sizeof *out->at, by_text);
    return out->n > 1 && out->all >= 2 * out->n;
}

/* How a call numbers words, by what it gave at one place at least: the function, of the text or not. */
typedef struct numbering {
    const char *file;
    const dlsh_node *call, *fn;
    words of;
} numbering;

static int is_sorting(const dlsh_node *fn) {
    DLSH_EACH_BELOW (t, fn)
        if (dlsh_is_call_of(t.n, "sorted|sort")) return 1;
    return 0;
}

/* Does a function of the text give each word its number? It makes a record or a list of as many as there are. */
static int numbers_words(const dlsh_examination *e, const char *file, const dlsh_node *fn, const words *w) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file)) {
        const dlsh_node *to = t.n->kind == DLSH_N_ASSIGN && t.n->nkids == 2 ? t.n->kids[0] : NULL;
        if (!to || to->kind != DLSH_N_NAME || dlsh_function_called(file, t.n->kids[1]) != fn) continue;
        const dlsh_value *v = dlsh_value_at(e, file, t.n->span.end, to->text);
        const int n = !v ? 0 : v->type == DLSH_RECORD ? v->as.record->n : v->type == DLSH_LIST ? v->as.list->n : 0;
        if (n == w->n) return 1;
    }
    return 0;
}

static int read_numbering(const dlsh_examination *e, const char *file, const dlsh_node *call, numbering *out) {
    if (call->kind != DLSH_N_CALL || call->nkids < 2) return 0;
    const dlsh_node *fn = dlsh_function_called(file, call);
    const int known = dlsh_names(call->kids[0], "categories");
    if (!known && (!fn || call->nkids != 2)) return 0;
    *out = (numbering){.file = file, .call = call, .fn = fn};
    return read_words(dlsh_value_of(e, file, call->kids[1]), known || is_sorting(fn), &out->of);
}

/* Have both most of their words in common, and does one of these have two numbers? */
static const char *numbered_apart(const words *a, const words *b) {
    const char *other = NULL;
    int common = 0;
    for (int i = 0; i < b->n; i++) {
        const int at = place_of(a, b->at[i]);
        common += at >= 0;
        if (at >= 0 && at != i && !other) other = b->at[i];
    }
    return 2 * common > b->n && 2 * common > a->n ? other : NULL;
}

static void compare(dlsh_examination *e, const numbering *a, const numbering *b) {
    const char *word = a->fn == b->fn ? numbered_apart(&a->of, &b->of) : NULL;
    if (!word || (a->fn && !numbers_words(e, a->file, a->fn, &a->of))) return;
    dlsh_found(
        e, b->file, b->call->span.line,
        "the numbers that training has: tensor([names.index(w) for w in words]), names of the training part",
        "words of the second part are numbered by themselves: the same number means another word than in training\n"
        "'%s' is number %d here and %d in line %d, which numbers %d words of another part",
        word, place_of(&b->of, word), place_of(&a->of, word), a->call->span.line, a->of.n);
}

void dlsh_find_numbered_apart(dlsh_examination *e) {
    static numbering all[CALLS];
    int n = 0;
    DLSH_EACH_NODE (t)
        if (n < CALLS && read_numbering(e, t.file, t.n, &all[n])) n++;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++)
            if (!strcmp(all[i].file, all[k].file)) compare(e, &all[i], &all[k]);
}
