/* Fuzz target: tokenizers. The first byte chooses the kind, and what comes then: a text to train on, or up to the first
 * NUL a vocabulary, up to the second the merges, then a text. What is made encodes the text, and the tokens of byte
 * pairs decode to the same text. Vocabularies and texts to train on are small, so that thousands of inputs run in a
 * second. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz.h"
#include "data/text/tokenizer.h"

static void round_trip(dl_tokenizer *t, const char *text, size_t n) {
    dl_tensor *ids = t ? dl_tokenizer_encode(t, text, n, 0) : NULL;
    long count = ids ? dl_numel(ids) : 0, *copy = malloc((size_t)(count + 1) * sizeof *copy);
    unsigned long length = 0;
    if (ids && copy && dl_read(ids, copy) == DL_OK) {
        char *back = dl_tokenizer_decode(t, copy, count, &length);
        if (!back || (t->kind != DL_TOKENS_WORDS && t->unknown < 0 && (length != n || memcmp(back, text, n)))) abort();
        dl_text_free(back);
    }
    free(copy);
    dl_unref(ids);
    dl_tokenizer_free(t);
}

static char *part_of(const uint8_t **data, size_t *size, size_t *n) {
    const uint8_t *end = memchr(*data, 0, *size);
    *n = end ? (size_t)(end - *data) : *size;
    char *part = malloc(*n + 1);
    if (part) memcpy(part, *data, *n);
    size_t used = end ? *n + 1 : *n;
    *data += used, *size -= used;
    return part;
}

enum { TRAINED_ON = 256, VOCABULARY = 272 };

static void train(dl_token_kind kind, const char *text, size_t n) {
    if (n > TRAINED_ON) n = TRAINED_ON;
    round_trip(dl_tokenizer_train(dl_token_kind_name(kind), text, n, VOCABULARY, 1, NULL), text, n);
}

static void parse(dl_token_kind kind, const uint8_t *data, size_t size) {
    dl_token_files f = {{.path = "vocab.json"}, {.path = "merges.txt"}};
    f.vocab.text = part_of(&data, &size, &f.vocab.n);
    f.merges.text = part_of(&data, &size, &f.merges.n);
    if (f.vocab.text && f.merges.text) round_trip(dl_tokenizer_parse(kind, &f), (const char *)data, size);
    free(f.vocab.text);
    free(f.merges.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    dl_token_kind kind = (dl_token_kind)(*data % DL_TOKEN_KINDS);
    if (*data / DL_TOKEN_KINDS % 2)
        train(kind, (const char *)data + 1, size - 1);
    else
        parse(kind, data + 1, size - 1);
    return 0;
}
