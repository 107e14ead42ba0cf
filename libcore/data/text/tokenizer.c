/* Tokenizers: text as integers and back. */
#include "data/text/tokenizer.h"
#include "core/scope.h"

#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "data/data.h"
#include "data/text/unicode.h"

static const char *const kind_names[DL_TOKEN_KINDS] = {"chars", "words", "bpe"};
enum { MOST_SPECIALS = 1000 };

const char *dl_token_kind_name(dl_token_kind k) { return kind_names[k]; }

dl_status dl_token_kind_of(const char *name, dl_token_kind *out) {
    for (int i = 0; i < DL_TOKEN_KINDS; i++)
        if (name && !strcmp(name, kind_names[i])) return *out = (dl_token_kind)i, DL_OK;
    return dl_fail_unknown(name ? name : "", kind_names, DL_TOKEN_KINDS, NULL, "there is no tokenizer '%s'",
                           name ? name : "");
}

/* ---------------------------------------------------------------- the vocabulary */

dl_tokenizer *dl_tokenizer_new(dl_token_kind kind) {
    dl_tokenizer *t = calloc(1, sizeof *t);
    if (!t) return dl_fail(DL_ERR_MEMORY, "no memory for a tokenizer"), NULL;
    t->kind = kind, t->unknown = -1;
    return t;
}

void dl_tokenizer_free(dl_tokenizer *t) {
    if (!t) return;
    dl_keys_free(&t->tokens);
    dl_keys_free(&t->pairs);
    free(t->merge);
    free(t->special);
    free(t);
}

dl_status dl_tokenizer_add(dl_tokenizer *t, const char *s, size_t n) {
    long before = t->tokens.n, id = dl_keys_add(&t->tokens, s, n);
    if (id < 0) return dl_failed();
    if (id == before) return DL_OK;
    return dl_fail(DL_ERR_FORMAT, "tokens %ld and %ld are the same, '%.40s'", id, before, t->tokens.at[id].s);
}

dl_status dl_tokenizer_add_special(dl_tokenizer *t, long id) {
    if (t->specials == MOST_SPECIALS)
        return dl_fail(DL_ERR_UNSUPPORTED, "more than %d tokens are neither bytes nor made by a merge", MOST_SPECIALS);
    DL_TRY(DL_LIST_ROOM(t->special, t->specials, t->special_cap));
    t->special[t->specials++] = id;
    return DL_OK;
}

const char *dl_tokenizer_kind(const dl_tokenizer *t) { return dl_token_kind_name(t->kind); }
long dl_tokenizer_size(const dl_tokenizer *t) { return t->tokens.n; }
long dl_tokenizer_id(const dl_tokenizer *t, const char *s, unsigned long n) { return dl_keys_find(&t->tokens, s, n); }

const char *dl_tokenizer_token(const dl_tokenizer *t, long id, unsigned long *n) {
    if (id < 0 || id >= t->tokens.n) return NULL;
    if (n) *n = t->tokens.at[id].n;
    return t->tokens.at[id].s;
}

/* ---------------------------------------------------------------- words */

/* The next word from *at on: a run of letters and digits, or one other character; white space parts them. Its end
 * becomes *at; false: there is none. */
static bool next_word(const char *text, size_t n, size_t *from, size_t *at) {
    int length;
    dl_char_class class = DL_CHAR_SPACE;
    for (*from = *at; *from < n; *from += (size_t)length)
        if ((class = dl_char_class_of(dl_utf8_next(text + *from, n - *from, &length))) != DL_CHAR_SPACE) break;
    if (*from >= n) return false;
    *at = *from + (size_t)length;
    if (class == DL_CHAR_OTHER) return true;
    while (*at < n) {
        class = dl_char_class_of(dl_utf8_next(text + *at, n - *at, &length));
        if (class != DL_CHAR_LETTER && class != DL_CHAR_NUMBER) break;
        *at += (size_t)length;
    }
    return true;
}

/* The next unit of a kind, text[*from, *at). */
static bool next_unit(dl_token_kind kind, const char *text, size_t n, size_t *from, size_t *at) {
    int length;
    if (kind == DL_TOKENS_WORDS) return next_word(text, n, from, at);
    *from = *at;
    if (*from >= n) return false;
    dl_utf8_next(text + *from, n - *from, &length);
    *at = kind == DL_TOKENS_BPE ? dl_bpe_word(text, n, *from) : *from + (size_t)length;
    return true;
}

typedef struct counted {
    dl_key key;
    long count;
} counted;

/* Characters by their code; words by how often they occur, the most frequent first. Bytes decide what is left. */
static int by_key(const void *a, const void *b) {
    const counted *x = a, *y = b;
    size_t n = x->key.n < y->key.n ? x->key.n : y->key.n;
    int order = memcmp(x->key.s, y->key.s, n);
    return order ? order : (x->key.n > y->key.n) - (x->key.n < y->key.n);
}

static int by_count(const void *a, const void *b) {
    const counted *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : by_key(a, b);
}

static dl_status count_units(dl_token_kind kind, const char *text, size_t n, dl_keys *units, counted **counts) {
    long cap = 0;
    for (size_t at = 0, from, turn = 0; next_unit(kind, text, n, &from, &at); turn++) {
        if (!(turn & 0xffff)) DL_TRY(dl_interrupt_check());
        long before = units->n, id = dl_keys_add(units, text + from, at - from);
        if (id < 0) return dl_failed();
        DL_TRY(DL_LIST_ROOM(*counts, id, cap));
        if (id == before) (*counts)[id] = (counted){units->at[id], 0};
        (*counts)[id].count++;
    }
    for (long i = 0; i < units->n; i++) (*counts)[i].key = units->at[i];
    return DL_OK;
}

static dl_status train_units(dl_tokenizer *t, const char *text, size_t n, long vocab, long least) {
    dl_keys units = {0};
    counted *counts = NULL;
    dl_status st = count_units(t->kind, text, n, &units, &counts);
    if (units.n) qsort(counts, (size_t)units.n, sizeof *counts, t->kind == DL_TOKENS_CHARS ? by_key : by_count);
    for (long i = 0; st == DL_OK && i < units.n && (!vocab || t->tokens.n < vocab); i++)
        if (counts[i].count >= least && dl_keys_add(&t->tokens, counts[i].key.s, counts[i].key.n) < 0) st = dl_failed();
    free(counts);
    dl_keys_free(&units);
    return st;
}

dl_tokenizer *dl_tokenizer_train(const char *kind, const char *text, unsigned long n, long vocab, long least,
                                 const char *const *special) {
    dl_token_kind k = DL_TOKENS_CHARS;
    if (!text) return dl_fail_null("the text"), NULL;
    if (dl_token_kind_of(kind, &k) != DL_OK) return NULL;
    if (vocab < 0 || least < 1) {
        dl_fail(DL_ERR_VALUE, "vocab=%ld, min_count=%ld; they are at least 0 and 1", vocab, least);
        return NULL;
    }
    dl_tokenizer *t = dl_tokenizer_new(k);
    if (!t) return NULL;
    dl_status st = k == DL_TOKENS_BPE ? dl_bpe_add_bytes(t) : DL_OK;
    for (; st == DL_OK && special && *special; special++) {
        st = dl_tokenizer_add(t, *special, strlen(*special));
        if (st == DL_OK) st = dl_tokenizer_add_special(t, t->tokens.n - 1);
        if (st == DL_OK && !strcmp(*special, "<unk>")) t->unknown = t->tokens.n - 1;
    }
    if (st == DL_OK)
        st = k == DL_TOKENS_BPE ? dl_bpe_train(t, text, n, vocab, least) : train_units(t, text, n, vocab, least);
    if (st == DL_OK) return t;
    dl_tokenizer_free(t);
    return NULL;
}

/* ---------------------------------------------------------------- encoding */

typedef struct encoding {
    const dl_tokenizer *t;
    const char *text;
    size_t n;
    long *ids, count, cap;
} encoding;

static dl_status push(encoding *e, long id) {
    DL_TRY(DL_LIST_ROOM(e->ids, e->count, e->cap));
    e->ids[e->count++] = id;
    return DL_OK;
}

static dl_status unknown_unit(const encoding *e, size_t from, size_t to) {
    return dl_fail_hint(
        DL_ERR_VALUE, "train it on text that has it, or with special=[\"<unk>\"], which then stands for it",
        "byte %zu of the text: '%.*s' is not a token", from, (int)(to - from < 40 ? to - from : 40), e->text + from);
}

/* text[at, end), in which no special token occurs. */
static dl_status encode_plain(encoding *e, size_t at, size_t end) {
    for (size_t from, turn = 0; next_unit(e->t->kind, e->text, end, &from, &at); turn++) {
        if (!(turn & 0xffff)) DL_TRY(dl_interrupt_check());
        if (e->t->kind == DL_TOKENS_BPE) {
            DL_TRY(dl_bpe_encode(e->t, e->text + from, at - from, &e->ids, &e->count, &e->cap));
            continue;
        }
        long id = dl_keys_find(&e->t->tokens, e->text + from, at - from);
        if (id < 0) id = e->t->unknown;
        if (id < 0) return unknown_unit(e, from, at);
        DL_TRY(push(e, id));
    }
    return DL_OK;
}

/* Where word[k], k > 0, first occurs in text[n]; NULL: nowhere. */
static const char *find(const char *text, size_t n, const char *word, size_t k) {
    for (const char *p = text, *end = text + n; (size_t)(end - p) >= k; p++) {
        p = memchr(p, *word, (size_t)(end - p) - k + 1);
        if (!p || !memcmp(p, word, k)) return p;
    }
    return NULL;
}

/* The first special token from `at` on, of several at one place the longest; -1: none. */
static long find_special(const encoding *e, size_t at, size_t *where) {
    long found = -1;
    *where = e->n;
    for (long i = 0; i < e->t->specials; i++) {
        const dl_key *s = &e->t->tokens.at[e->t->special[i]];
        const char *p = s->n ? find(e->text + at, e->n - at, s->s, s->n) : NULL;
        if (!p) continue;
        size_t place = (size_t)(p - e->text);
        bool longer = place == *where && found >= 0 && s->n > e->t->tokens.at[found].n;
        if (place < *where || longer) *where = place, found = e->t->special[i];
    }
    return found;
}

static dl_status encode_all(encoding *e) {
    for (size_t at = 0, where; at < e->n;) {
        long id = find_special(e, at, &where);
        DL_TRY(encode_plain(e, at, where));
        if (id < 0) return DL_OK;
        DL_TRY(push(e, id));
        at = where + e->t->tokens.at[id].n;
    }
    return DL_OK;
}

dl_tensor *dl_tokenizer_encode(const dl_tokenizer *t, const char *text, unsigned long n, int device) {
    if (!t || !text) return dl_fail_null(t ? "the text" : "the tokenizer"), NULL;
    encoding e = {.t = t, .text = text, .n = n};
    dl_tensor *out =
        encode_all(&e) == DL_OK ? dl_tensor_from(1, &e.count, DL_I64, device, e.ids ? e.ids : (long[]){0}) : NULL;
    free(e.ids);
    return out;
}

/* ---------------------------------------------------------------- files */

dl_tokenizer *dl_tokenizer_train_file(const char *kind, const char *path, long vocab, long least,
                                      const char *const *special) {
    DL_FREED uint8_t *text = NULL;
    size_t n;
    if (dl_file_read(path, 0, &text, &n) != DL_OK) return NULL;
    return dl_tokenizer_train(kind, (const char *)text, n, vocab, least, special);
}

dl_tensor *dl_tokenizer_encode_file(const dl_tokenizer *t, const char *path, int device) {
    uint8_t *text;
    size_t n;
    if (dl_file_read(path, 0, &text, &n) != DL_OK) return NULL;
    dl_tensor *ids = dl_tokenizer_encode(t, (const char *)text, n, device);
    if (!ids) dl_error_context(NULL, path);
    free(text);
    return ids;
}

/* ---------------------------------------------------------------- decoding */

static dl_status check_ids(const dl_tokenizer *t, const long *ids, long n, size_t *bytes) {
    for (long i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->tokens.n)
            return dl_fail(DL_ERR_INDEX, "element %ld is %ld; tokens are 0 to %ld", i, ids[i], t->tokens.n - 1);
        *bytes += t->tokens.at[ids[i]].n + (t->kind == DL_TOKENS_WORDS && i);
    }
    return DL_OK;
}

char *dl_tokenizer_decode(const dl_tokenizer *t, const long *ids, long n, unsigned long *length) {
    size_t bytes = 0;
    if (!t || (!ids && n)) return dl_fail_null(t ? "the tokens" : "the tokenizer"), NULL;
    if (check_ids(t, ids, n, &bytes) != DL_OK) return NULL;
    char *text = dl_memory_alloc((long)bytes + 1, 1), *p = text;
    if (!text) return NULL;
    for (long i = 0; i < n; i++) {
        const dl_key *key = &t->tokens.at[ids[i]];
        if (t->kind == DL_TOKENS_WORDS && i) *p++ = ' ';
        memcpy(p, key->s, key->n);
        p += key->n;
    }
    *p = 0;
    *length = bytes;
    return text;
}
