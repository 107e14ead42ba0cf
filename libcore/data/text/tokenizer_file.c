/* Files of tokenizers: a folder with vocab.json, of byte pairs merges.txt as GPT-2's has, and dlsh_tokenizer.json,
 * which says what those two do not. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/text/tokenizer.h"
#include "data/text/unicode.h"
#include "io/input.h"
#include "io/nearest_file.h"

enum { MOST_BYTES = 1 << 28, MOST_TOKENS = 1 << 24 };

static dl_status no_memory(void) { return dl_fail(DL_ERR_MEMORY, "no memory for a tokenizer"); }

/* ---------------------------------------------------------------- bytes as GPT-2's files write them */

/* text[n] in visible characters, as the bytes that they stand for, in place. False: a character stands for none. */
static bool to_bytes(char *text, size_t *n) {
    int length;
    size_t out = 0;
    for (size_t i = 0; i < *n; i += (size_t)length) {
        int byte = dl_bpe_byte(dl_utf8_next(text + i, *n - i, &length));
        if (byte < 0) return false;
        text[out++] = (char)byte;
    }
    *n = out;
    return true;
}

/* The opposite, into out with room for 2 * n + 1. */
static size_t to_chars(const dl_key *key, char *out) {
    size_t at = 0;
    for (size_t i = 0; i < key->n; i++) at += (size_t)dl_utf8_put(dl_bpe_char((unsigned char)key->s[i]), out + at);
    out[at] = 0;
    return at;
}

/* ---------------------------------------------------------------- reading */

static dl_status read_text(const char *path, char **text, size_t *n) {
    dl_input in;
    DL_TRY(dl_input_open(&in, path));
    *n = (size_t)in.size;
    dl_status st = DL_OK;
    if (in.size > MOST_BYTES)
        st = dl_fail(DL_ERR_UNSUPPORTED, "'%s' has %llu bytes; vocabularies of more than %d are not read", path,
                     (unsigned long long)in.size, MOST_BYTES);
    else if (!(*text = malloc(*n + 1)))
        st = no_memory();
    else
        st = dl_input_read(&in, 0, *text, *n);
    dl_input_close(&in);
    if (st == DL_OK) return (*text)[*n] = 0, DL_OK;
    free(*text);
    *text = NULL;
    return st;
}

static json_t *parse_json(const char *path, const char *text, size_t n) {
    json_error_t e;
    json_t *j = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (j && json_is_object(j)) return j;
    if (j)
        dl_fail(DL_ERR_FORMAT, "'%s' holds no JSON object", path);
    else
        dl_fail(DL_ERR_FORMAT, "%s:%d:%d: this is not valid JSON: %.100s", path, e.line, e.column, e.text);
    json_decref(j);
    return NULL;
}

/* The tokens by their ids, which must be 0 to n - 1. */
static dl_status order_tokens(json_t *vocab, const char *path, const char **by_id, size_t n) {
    const char *key;
    json_t *v;
    json_object_foreach(vocab, key, v) {
        json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
        if (id < 0 || id >= (json_int_t)n || by_id[id])
            return dl_fail_hint(DL_ERR_FORMAT, "the ids of n tokens are 0 to n-1, each once",
                                "%s: token '%.40s' has an id that is wrong or taken", path, key);
        by_id[id] = key;
    }
    return DL_OK;
}

static dl_status add_token(dl_tokenizer *t, const char *path, const char *word) {
    size_t n = strlen(word);
    char *bytes = strdup(word);
    if (!bytes) return no_memory();
    dl_status st = t->kind != DL_TOKENS_BPE || to_bytes(bytes, &n)
                       ? dl_tokenizer_add(t, bytes, n)
                       : dl_fail(DL_ERR_FORMAT, "%s: token '%.40s' has characters that stand for no bytes", path, word);
    free(bytes);
    return st;
}

static dl_status read_vocab(dl_tokenizer *t, const char *path, const char *text, size_t length) {
    json_t *vocab = parse_json(path, text, length);
    if (!vocab) return dl_failed();
    size_t n = json_object_size(vocab);
    const char **by_id = calloc(n + 1, sizeof *by_id);
    dl_status st = !by_id            ? no_memory()
                   : n > MOST_TOKENS ? dl_fail(DL_ERR_UNSUPPORTED, "%s: more than %d tokens", path, MOST_TOKENS)
                                     : order_tokens(vocab, path, by_id, n);
    for (size_t i = 0; st == DL_OK && i < n; i++) st = add_token(t, path, by_id[i]);
    free(by_id);
    json_decref(vocab);
    return st;
}

/* One half of a merge, text[n], which is changed. */
static dl_status find_part(const dl_tokenizer *t, const char *path, long line, char *text, size_t n, long *id) {
    char word[48];
    snprintf(word, sizeof word, "%.*s", n < 40 ? (int)n : 40, text);
    *id = to_bytes(text, &n) ? dl_keys_find(&t->tokens, text, n) : -1;
    return *id >= 0 ? DL_OK : dl_fail(DL_ERR_FORMAT, "%s:%ld: '%s' is not a token of the vocabulary", path, line, word);
}

static dl_status read_merge(dl_tokenizer *t, const char *path, long line, char *text, size_t n) {
    char *space = memchr(text, ' ', n);
    long left = 0, right = 0;
    if (!space || memchr(space + 1, ' ', n - (size_t)(space + 1 - text)))
        return dl_fail(DL_ERR_FORMAT, "%s:%ld: a merge is two tokens with a space between them", path, line);
    DL_TRY(find_part(t, path, line, text, (size_t)(space - text), &left));
    DL_TRY(find_part(t, path, line, space + 1, n - (size_t)(space + 1 - text), &right));
    dl_key a = t->tokens.at[left], b = t->tokens.at[right];
    char *joined = malloc((size_t)a.n + b.n + 1);
    if (!joined) return no_memory();
    memcpy(joined, a.s, a.n);
    memcpy(joined + a.n, b.s, b.n);
    long id = dl_keys_find(&t->tokens, joined, (size_t)a.n + b.n);
    free(joined);
    if (id < 0)
        return dl_fail(DL_ERR_FORMAT, "%s:%ld: what the merge makes is not a token of the vocabulary", path, line);
    int32_t pair[2] = {(int32_t)left, (int32_t)right};
    long before = dl_keys_find(&t->pairs, pair, sizeof pair);
    if (before >= 0) return dl_fail(DL_ERR_FORMAT, "%s:%ld: this is merge %ld once more", path, line, before + 1);
    return dl_bpe_add_merge(t, left, right, id);
}

static dl_status read_merges(dl_tokenizer *t, const char *path, char *text, size_t n) {
    dl_status st = DL_OK;
    char *p = text;
    for (long line = 1; st == DL_OK && p < text + n; line++) {
        char *end = memchr(p, '\n', (size_t)(text + n - p));
        if (!end) end = text + n;
        size_t length = (size_t)(end - p);
        if (length && p[length - 1] == '\r') length--;
        if (length && !(line == 1 && *p == '#')) st = read_merge(t, path, line, p, length);
        p = end + 1;
    }
    return st;
}

/* The tokens of single bytes; what is neither one nor made by a merge stands for itself in texts. */
static dl_status find_bytes(dl_tokenizer *t, const char *path) {
    char *made = calloc((size_t)t->tokens.n + 1, 1);
    dl_status st = made ? DL_OK : no_memory();
    for (int b = 0; st == DL_OK && b < 256; b++) {
        char byte = (char)b;
        if ((t->byte_id[b] = dl_keys_find(&t->tokens, &byte, 1)) >= 0)
            made[t->byte_id[b]] = 1;
        else
            st = dl_fail(DL_ERR_FORMAT, "%s: the vocabulary has no token for the byte 0x%02x", path, b);
    }
    for (long i = 0; st == DL_OK && i < t->merges; i++) made[t->merge[i].id] = 1;
    for (long i = 0; st == DL_OK && i < t->tokens.n; i++)
        if (!made[i]) st = dl_tokenizer_add_special(t, i);
    free(made);
    return st;
}

/* What dlsh_tokenizer.json says of a vocabulary without merges. */
static dl_status read_special(dl_tokenizer *t, const char *path, const json_t *j) {
    const json_t *list = json_object_get(j, "special");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *word = json_string_value(json_array_get(list, i));
        long id = word ? dl_keys_find(&t->tokens, word, strlen(word)) : -1;
        if (id < 0) return dl_fail(DL_ERR_FORMAT, "%s: a special token is none of the vocabulary", path);
        DL_TRY(dl_tokenizer_add_special(t, id));
        if (!strcmp(word, "<unk>")) t->unknown = id;
    }
    return DL_OK;
}

static dl_status parse(dl_tokenizer *t, const dl_token_files *f) {
    DL_TRY(read_vocab(t, f->vocab.path, f->vocab.text, f->vocab.n));
    if (t->kind != DL_TOKENS_BPE) return DL_OK;
    DL_TRY(read_merges(t, f->merges.path, f->merges.text, f->merges.n));
    return find_bytes(t, f->vocab.path);
}

dl_tokenizer *dl_tokenizer_parse(dl_token_kind kind, const dl_token_files *f) {
    dl_tokenizer *t = dl_tokenizer_new(kind);
    if (!t || parse(t, f) == DL_OK) return t;
    dl_tokenizer_free(t);
    return NULL;
}

/* dir/name, or dir/other, whichever there is; false: none. */
static bool find_file(const char *dir, const char *name, const char *other, char *path, size_t size) {
    struct stat info;
    for (int i = 0; i < 2; i++) {
        const char *as = i ? other : name;
        if (as && (size_t)snprintf(path, size, "%s/%s", dir, as) < size && !stat(path, &info)) return true;
    }
    return false;
}

enum { MOST_PATH = 4096 };

/* The text of dir/name or dir/other; path[MOST_PATH] is where it was. */
static dl_status find_text(const char *dir, const char *name, const char *other, char *path, dl_token_file *f) {
    if (!find_file(dir, name, other, path, MOST_PATH))
        return dl_fail_hint(DL_ERR_IO, "it is the folder that t.save wrote, or one with GPT-2's files",
                            "'%s' has neither %s nor %s", dir, name, other);
    f->path = path;
    return read_text(path, &f->text, &f->n);
}

static dl_status read_own(const char *dir, json_t **j, dl_token_kind *kind, char *path) {
    char *text = NULL;
    size_t n = 0;
    *kind = DL_TOKENS_BPE;
    if (!find_file(dir, "dlsh_tokenizer.json", NULL, path, MOST_PATH)) return DL_OK;
    DL_TRY(read_text(path, &text, &n));
    *j = parse_json(path, text, n);
    free(text);
    return *j ? dl_token_kind_of(json_string_value(json_object_get(*j, "kind")), kind) : dl_failed();
}

static dl_tokenizer *read_folder(const char *dir) {
    char vocab[MOST_PATH], merges[MOST_PATH], own[MOST_PATH];
    dl_token_kind kind;
    dl_token_files f = {0};
    json_t *j = NULL;
    dl_tokenizer *t = NULL;
    dl_status st = read_own(dir, &j, &kind, own);
    if (st == DL_OK) st = find_text(dir, "vocab.json", "encoder.json", vocab, &f.vocab);
    if (st == DL_OK && kind == DL_TOKENS_BPE) st = find_text(dir, "merges.txt", "vocab.bpe", merges, &f.merges);
    if (st == DL_OK && (t = dl_tokenizer_parse(kind, &f)) && kind != DL_TOKENS_BPE) st = read_special(t, own, j);
    free(f.vocab.text);
    free(f.merges.text);
    json_decref(j);
    if (st == DL_OK) return t;
    dl_tokenizer_free(t);
    return NULL;
}

dl_tokenizer *dl_tokenizer_read(const char *dir) {
    struct stat info;
    if (!dir || !*dir) return dl_fail(DL_ERR_VALUE, "a folder needs a name"), NULL;
    if (stat(dir, &info)) return dl_fail_file("open", dir), NULL;
    if (S_ISDIR(info.st_mode)) return read_folder(dir);
    dl_fail(DL_ERR_IO, "'%s' is a file; the folder with vocab.json and merges.txt is wanted", dir);
    return NULL;
}

/* ---------------------------------------------------------------- writing */

static dl_status write_json(json_t *j, int failed, const char *dir, const char *name) {
    char path[4096];
    char *text = j && !failed ? json_dumps(j, JSON_COMPACT) : NULL;
    json_decref(j);
    if (!text) return dl_fail(DL_ERR_FORMAT, "%s cannot be written: a token is not UTF-8, or memory is short", name);
    dl_status st = (size_t)snprintf(path, sizeof path, "%s/%s", dir, name) < sizeof path
                       ? dl_file_write(path, text, strlen(text))
                       : dl_fail(DL_ERR_IO, "the path '%.80s...' is too long", dir);
    free(text);
    return st;
}

static char *visible_token(const dl_tokenizer *t, long id) {
    const dl_key *key = &t->tokens.at[id];
    char *out = malloc(2 * (size_t)key->n + 1);
    if (!out) return NULL;
    if (t->kind == DL_TOKENS_BPE)
        to_chars(key, out);
    else
        memcpy(out, key->s, (size_t)key->n + 1);
    return out;
}

static dl_status write_vocab(const dl_tokenizer *t, const char *dir) {
    json_t *j = json_object();
    int failed = 0;
    for (long i = 0; j && i < t->tokens.n; i++) {
        char *word = visible_token(t, i);
        failed |= !word || (t->kind != DL_TOKENS_BPE && strlen(word) != t->tokens.at[i].n) ||
                  json_object_set_new(j, word, json_integer(i));
        free(word);
    }
    return write_json(j, failed, dir, "vocab.json");
}

static dl_status write_own(const dl_tokenizer *t, const char *dir) {
    json_t *j = json_pack("{s:s, s:[]}", "kind", dl_token_kind_name(t->kind), "special");
    int failed = 0;
    for (long i = 0; j && i < t->specials; i++)
        failed |= json_array_append_new(json_object_get(j, "special"), json_string(t->tokens.at[t->special[i]].s));
    return write_json(j, failed, dir, "dlsh_tokenizer.json");
}

static dl_status write_merges(const dl_tokenizer *t, const char *dir) {
    char path[4096];
    size_t room = 32, n;
    for (long i = 0; i < t->merges; i++)
        room += 2 * ((size_t)t->tokens.at[t->merge[i].left].n + t->tokens.at[t->merge[i].right].n) + 2;
    char *text = malloc(room);
    if (!text) return no_memory();
    n = (size_t)sprintf(text, "#version: 0.2\n");
    for (long i = 0; i < t->merges; i++) {
        n += to_chars(&t->tokens.at[t->merge[i].left], text + n);
        text[n++] = ' ';
        n += to_chars(&t->tokens.at[t->merge[i].right], text + n);
        text[n++] = '\n';
    }
    dl_status st = (size_t)snprintf(path, sizeof path, "%s/merges.txt", dir) < sizeof path
                       ? dl_file_write(path, text, n)
                       : dl_fail(DL_ERR_IO, "the path '%.80s...' is too long", dir);
    free(text);
    return st;
}

dl_status dl_tokenizer_save(const dl_tokenizer *t, const char *dir) {
    if (!t || !dir || !*dir) return t ? dl_fail(DL_ERR_VALUE, "a folder needs a name") : dl_fail_null("the tokenizer");
    if (mkdir(dir, 0777) && errno != EEXIST) return dl_fail_file("make", dir);
    DL_TRY(write_vocab(t, dir));
    if (t->kind == DL_TOKENS_BPE) DL_TRY(write_merges(t, dir));
    return write_own(t, dir);
}
