/* Byte pairs: GPT-2's split of text into words, training of merges, and merging. */
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "data/text/tokenizer.h"
#include "data/text/unicode.h"

/* ---------------------------------------------------------------- words */

static dl_char_class class_at(const char *text, size_t n, size_t at, int *length) {
    return dl_char_class_of(dl_utf8_next(text + at, n - at, length));
}

/* The end of the characters of one class from `at` on. */
static size_t run_of(dl_char_class class, const char *text, size_t n, size_t at) {
    int length;
    while (at < n && class_at(text, n, at, &length) == class) at += (size_t)length;
    return at;
}

static size_t contraction(const char *text, size_t n, size_t at) {
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    for (size_t i = 0; text[at] == '\'' && i < sizeof ends / sizeof *ends; i++) {
        size_t k = strlen(ends[i]);
        if (n - at - 1 >= k && !memcmp(text + at + 1, ends[i], k)) return at + 1 + k;
    }
    return at;
}

/* White space up to a word, but for its last character, which may belong to the word; all of it at the end. */
static size_t white(const char *text, size_t n, size_t at) {
    size_t end = run_of(DL_CHAR_SPACE, text, n, at), last = at;
    int length;
    for (size_t i = at; i < end; i += (size_t)length) {
        last = i;
        class_at(text, n, i, &length);
    }
    return end == n || last == at ? end : last;
}

size_t dl_bpe_word(const char *text, size_t n, size_t at) {
    size_t end = contraction(text, n, at);
    int length;
    if (end > at) return end;
    size_t from = at + (text[at] == ' ' && at + 1 < n);
    dl_char_class class = class_at(text, n, from, &length);
    if (class != DL_CHAR_SPACE) return run_of(class, text, n, from);
    return white(text, n, at);
}

/* ---------------------------------------------------------------- bytes and merges */

static bool is_visible(int b) { return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174; }

/* The others are 0 to 32, 127 to 160 and 173; they are numbered from 256 on. */
enum { BEFORE_DEL = 33, BEFORE_SOFT_HYPHEN = BEFORE_DEL + 34 };

long dl_bpe_char(int b) {
    return is_visible(b) ? b : 256 + (b < 127 ? b : b < 173 ? b - 127 + BEFORE_DEL : BEFORE_SOFT_HYPHEN);
}

int dl_bpe_byte(long c) {
    if (c < 256) return c >= 0 && is_visible((int)c) ? (int)c : -1;
    long i = c - 256;
    return i < BEFORE_DEL            ? (int)i
           : i < BEFORE_SOFT_HYPHEN  ? (int)i - BEFORE_DEL + 127
           : i == BEFORE_SOFT_HYPHEN ? 173
                                     : -1;
}

dl_status dl_bpe_add_bytes(dl_tokenizer *t) {
    for (int visible = 1; visible >= 0; visible--)
        for (int b = 0; b < 256; b++) {
            if (is_visible(b) != visible) continue;
            char byte = (char)b;
            t->byte_id[b] = t->tokens.n;
            DL_TRY(dl_tokenizer_add(t, &byte, 1));
        }
    return DL_OK;
}

dl_status dl_bpe_add_merge(dl_tokenizer *t, long left, long right, long id) {
    int32_t pair[2] = {(int32_t)left, (int32_t)right};
    DL_TRY(DL_LIST_ROOM(t->merge, t->merges, t->merge_cap));
    long rank = dl_keys_add(&t->pairs, pair, sizeof pair);
    if (rank < 0) return dl_failed();
    if (rank != t->merges) return dl_fail(DL_ERR_FORMAT, "merges %ld and %ld are the same", rank + 1, t->merges + 1);
    t->merge[t->merges++] = (dl_merge){(int32_t)left, (int32_t)right, (int32_t)id};
    return DL_OK;
}

/* ---------------------------------------------------------------- heaps
 * The smallest entry first: by key, then by place. */

typedef struct entry {
    long key, place;
    int32_t left, right; /* what stood there when it was put in */
} entry;

typedef struct heap {
    entry *at;
    long n, cap;
} heap;

static bool before(const entry *a, const entry *b) {
    if (a->key != b->key) return a->key < b->key;
    if (a->place != b->place) return a->place < b->place;
    return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static dl_status heap_push(heap *h, entry e) {
    DL_TRY(DL_LIST_ROOM(h->at, h->n, h->cap));
    long i = h->n++;
    for (; i && before(&e, &h->at[(i - 1) / 2]); i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = e;
    return DL_OK;
}

static entry heap_pop(heap *h) {
    entry top = h->at[0], last = h->at[--h->n];
    long i = 0;
    for (long child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && before(&h->at[child + 1], &h->at[child])) child++;
        if (!before(&h->at[child], &last)) break;
        h->at[i] = h->at[child];
    }
    if (h->n) h->at[i] = last;
    return top;
}

/* ---------------------------------------------------------------- encoding */

/* A word as a chain of tokens; those that were merged into their left neighbour are taken out of it. */
typedef struct link {
    int32_t id;         /* -1: taken out */
    int32_t prev, next; /* -1: none */
} link;

static dl_status offer(const dl_tokenizer *t, heap *h, const link *w, int32_t i) {
    if (i < 0 || w[i].next < 0) return DL_OK;
    int32_t pair[2] = {w[i].id, w[w[i].next].id};
    long rank = dl_keys_find(&t->pairs, pair, sizeof pair);
    return rank < 0 ? DL_OK : heap_push(h, (entry){rank, i, pair[0], pair[1]});
}

static dl_status merge_word(const dl_tokenizer *t, heap *h, link *w) {
    while (h->n) {
        entry e = heap_pop(h);
        int32_t i = (int32_t)e.place, j = w[i].next;
        if (w[i].id != e.left || j < 0 || w[j].id != e.right) continue; /* merged otherwise meanwhile */
        w[i].id = t->merge[e.key].id;
        w[i].next = w[j].next;
        if (w[j].next >= 0) w[w[j].next].prev = i;
        w[j].id = -1;
        DL_TRY(offer(t, h, w, w[i].prev));
        DL_TRY(offer(t, h, w, i));
    }
    return DL_OK;
}

dl_status dl_bpe_encode(const dl_tokenizer *t, const char *word, size_t n, long **ids, long *count, long *cap) {
    heap h = {0};
    link some[64], *w = n <= 64 ? some : malloc(n * sizeof *w);
    if (n >= INT32_MAX) return dl_fail(DL_ERR_VALUE, "a word of %zu bytes is too long", n);
    if (!w) return dl_fail(DL_ERR_MEMORY, "no memory for a word of %zu bytes", n);
    for (size_t i = 0; i < n; i++)
        w[i] = (link){(int32_t)t->byte_id[(unsigned char)word[i]], (int32_t)i - 1, i + 1 < n ? (int32_t)i + 1 : -1};
    dl_status st = DL_OK;
    for (size_t i = 0; st == DL_OK && i < n; i++) st = offer(t, &h, w, (int32_t)i);
    if (st == DL_OK) st = merge_word(t, &h, w);
    for (int32_t i = 0; st == DL_OK && n && i >= 0; i = w[i].next)
        if ((st = dl_list_room(ids, *count, cap, sizeof **ids)) == DL_OK) (*ids)[(*count)++] = w[i].id;
    free(h.at);
    if (w != some) free(w);
    return st;
}

/* ---------------------------------------------------------------- training */

/* A different word of the text, as tokens, and how often it occurs. */
typedef struct word {
    int32_t *id;
    long n, count;
} word;

typedef struct pair_count {
    long count;
    long *in; /* words in which it occurs or occurred; some of them twice */
    long n, cap;
} pair_count;

typedef struct training {
    dl_tokenizer *t;
    dl_keys seen; /* words */
    word *words;
    long words_cap;
    dl_keys pairs; /* two ids of 4 bytes */
    pair_count *pair;
    long pair_cap;
    heap queue; /* by the count, negative; it may have changed since */
} training;

static dl_status count_words(training *r, const char *text, size_t n) {
    for (size_t at = 0, end, turn = 0; at < n; at = end, turn++) {
        if (!(turn & 0xffff)) DL_TRY(dl_interrupt_check());
        end = dl_bpe_word(text, n, at);
        long before_n = r->seen.n, id = dl_keys_add(&r->seen, text + at, end - at);
        if (id < 0) return dl_failed();
        DL_TRY(DL_LIST_ROOM(r->words, id, r->words_cap));
        if (id == before_n) {
            word *w = &r->words[id];
            *w = (word){.id = malloc((end - at) * sizeof *w->id), .n = (long)(end - at)};
            if (!w->id) return dl_fail(DL_ERR_MEMORY, "no memory for the words of the text");
            for (long i = 0; i < w->n; i++) w->id[i] = (int32_t)r->t->byte_id[(unsigned char)text[at + (size_t)i]];
        }
        r->words[id].count++;
    }
    return DL_OK;
}

/* Adds `by` to the count of a pair that word `in` has, or had. */
static dl_status change(training *r, int32_t left, int32_t right, long by, long in) {
    int32_t ids[2] = {left, right};
    long before_n = r->pairs.n, k = dl_keys_add(&r->pairs, ids, sizeof ids);
    if (k < 0) return dl_failed();
    DL_TRY(DL_LIST_ROOM(r->pair, k, r->pair_cap));
    if (k == before_n) r->pair[k] = (pair_count){0};
    pair_count *p = &r->pair[k];
    p->count += by;
    if (by < 0) return DL_OK;
    if (!p->n || p->in[p->n - 1] != in) {
        DL_TRY(DL_LIST_ROOM(p->in, p->n, p->cap));
        p->in[p->n++] = in;
    }
    return DL_OK;
}

static dl_status enqueue(training *r, long k) {
    const int32_t *ids = (const int32_t *)r->pairs.at[k].s;
    return heap_push(&r->queue, (entry){-r->pair[k].count, 0, ids[0], ids[1]});
}

/* Joins every (left, right) of a word, and counts the pairs that come and go. */
static dl_status join(training *r, long in, int32_t left, int32_t right, int32_t id) {
    word *w = &r->words[in];
    long out = 0, found = 0;
    for (long i = 0; i + 1 < w->n; i++) found += w->id[i] == left && w->id[i + 1] == right;
    if (!found) return DL_OK;
    for (long i = 0; i + 1 < w->n; i++) DL_TRY(change(r, w->id[i], w->id[i + 1], -w->count, in));
    for (long i = 0; i < w->n; i++) {
        bool joins = i + 1 < w->n && w->id[i] == left && w->id[i + 1] == right;
        w->id[out++] = joins ? id : w->id[i];
        i += joins;
    }
    w->n = out;
    for (long i = 0; i + 1 < w->n; i++) {
        DL_TRY(change(r, w->id[i], w->id[i + 1], w->count, in));
        if (w->id[i] != id && w->id[i + 1] != id) continue;
        int32_t ids[2] = {w->id[i], w->id[i + 1]};
        DL_TRY(enqueue(r, dl_keys_find(&r->pairs, ids, sizeof ids)));
    }
    return DL_OK;
}

/* The pair that occurs most often, of several the one of the lowest tokens; *k is -1 where none occurs `least` times.
 */
static dl_status most_frequent(training *r, long least, entry *e, long *k) {
    for (*k = -1; r->queue.n && *k < 0;) {
        *e = heap_pop(&r->queue);
        long number = dl_keys_find(&r->pairs, (int32_t[]){e->left, e->right}, 2 * sizeof(int32_t));
        long now = r->pair[number].count;
        if (now >= least && now == -e->key) *k = number;
        while (r->queue.n && !before(e, &r->queue.at[0])) heap_pop(&r->queue); /* the same once more */
        if (now >= least && *k < 0) DL_TRY(enqueue(r, number));
    }
    return DL_OK;
}

static dl_status merge_once(training *r, const entry *e, long k) {
    dl_tokenizer *t = r->t;
    dl_key a = t->tokens.at[e->left], b = t->tokens.at[e->right];
    char *joined = malloc((size_t)a.n + b.n + 1);
    if (!joined) return dl_fail(DL_ERR_MEMORY, "no memory for a token");
    memcpy(joined, a.s, a.n);
    memcpy(joined + a.n, b.s, b.n);
    long id = dl_keys_add(&t->tokens, joined, (size_t)a.n + b.n);
    free(joined);
    if (id < 0) return dl_failed();
    DL_TRY(dl_bpe_add_merge(t, e->left, e->right, id));
    pair_count p = r->pair[k];
    r->pair[k].in = NULL, r->pair[k].n = r->pair[k].cap = 0;
    dl_status st = DL_OK;
    for (long i = 0; i < p.n && st == DL_OK; i++) st = join(r, p.in[i], e->left, e->right, (int32_t)id);
    free(p.in);
    return st;
}

static dl_status merge_all(training *r, long vocab, long least) {
    entry e;
    long k;
    for (long i = 0; i < r->seen.n; i++)
        for (long j = 0; j + 1 < r->words[i].n; j++)
            DL_TRY(change(r, r->words[i].id[j], r->words[i].id[j + 1], r->words[i].count, i));
    for (long i = 0; i < r->pairs.n; i++) DL_TRY(enqueue(r, i));
    while (r->t->tokens.n < vocab) {
        DL_TRY(dl_interrupt_check());
        DL_TRY(most_frequent(r, least, &e, &k));
        if (k < 0) break;
        DL_TRY(merge_once(r, &e, k));
    }
    return DL_OK;
}

dl_status dl_bpe_train(dl_tokenizer *t, const char *text, size_t n, long vocab, long least) {
    training r = {.t = t};
    if (vocab < t->tokens.n || vocab > 1 << 24)
        return dl_fail_hint(
            DL_ERR_VALUE, "vocab=1000, for instance; GPT-2 has 50257",
            "vocab=%ld; byte pairs need %ld tokens for the bytes and special tokens, and at most %d are made", vocab,
            t->tokens.n, 1 << 24);
    dl_status st = count_words(&r, text, n);
    if (st == DL_OK) st = merge_all(&r, vocab, least < 2 ? 2 : least);
    for (long i = 0; i < r.seen.n && i < r.words_cap; i++) free(r.words[i].id);
    for (long i = 0; i < r.pairs.n && i < r.pair_cap; i++) free(r.pair[i].in);
    free(r.words);
    free(r.pair);
    free(r.queue.at);
    dl_keys_free(&r.seen);
    dl_keys_free(&r.pairs);
    return st;
}
