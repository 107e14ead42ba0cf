/* The inside of tokenizers: a vocabulary, and one way to split text for each kind. */
#pragma once

#include <stdbool.h>

#include "data/keys.h"
#include "dlcore.h"

typedef enum dl_token_kind { DL_TOKENS_CHARS, DL_TOKENS_WORDS, DL_TOKENS_BPE, DL_TOKEN_KINDS } dl_token_kind;
const char *dl_token_kind_name(dl_token_kind k);
/* DL_ERR_NAME: there is none of this name. */
dl_status dl_token_kind_of(const char *name, dl_token_kind *out);

typedef struct dl_merge {
    int32_t left, right, id; /* two tokens, and the one that they become */
} dl_merge;

struct dl_tokenizer {
    dl_token_kind kind;
    dl_keys tokens;    /* their bytes; the number is the id */
    long unknown;      /* the token of words that are not there; -1: those are errors */
    long byte_id[256]; /* of byte pairs: the token of each byte */
    dl_keys pairs;     /* of byte pairs: two ids of 4 bytes, in the order in which they merge */
    dl_merge *merge;   /* the same */
    long merges, merge_cap;
    long *special; /* tokens that stand for themselves where they occur in a text */
    long specials, special_cap;
};

/* An empty one. NULL with DL_ERR_MEMORY. */
dl_tokenizer *dl_tokenizer_new(dl_token_kind kind);
/* The token of a text, which is new: DL_ERR_FORMAT when it is there. */
dl_status dl_tokenizer_add(dl_tokenizer *t, const char *s, size_t n);
dl_status dl_tokenizer_add_special(dl_tokenizer *t, long id);

/* ---- files (data/text/tokenizer_file.c) */

typedef struct dl_token_file {
    const char *path; /* for messages */
    char *text;       /* is changed */
    size_t n;
} dl_token_file;
typedef struct dl_token_files {
    dl_token_file vocab, merges; /* merges: of byte pairs alone */
} dl_token_files;
/* A tokenizer of files in memory. NULL on failure. */
dl_tokenizer *dl_tokenizer_parse(dl_token_kind kind, const dl_token_files *f);

/* ---- byte pairs (data/text/bpe.c) */

/* The end of the word that begins at text[at]: as GPT-2's regular expression splits text,
 * 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
size_t dl_bpe_word(const char *text, size_t n, size_t at);
/* Adds the 256 bytes as tokens, in GPT-2's order. */
dl_status dl_bpe_add_bytes(dl_tokenizer *t);
/* The next merge; both parts and what they become are tokens. DL_ERR_FORMAT when they were merged before. */
dl_status dl_bpe_add_merge(dl_tokenizer *t, long left, long right, long id);
/* Byte b as GPT-2's files write it, a visible character. */
long dl_bpe_char(int b);
/* The byte that a character stands for; -1: none. */
int dl_bpe_byte(long c);
/* Merges until there are `vocab` tokens or no pair occurs `least` times. */
dl_status dl_bpe_train(dl_tokenizer *t, const char *text, size_t n, long vocab, long least);
/* The tokens of one word, appended to *ids. */
dl_status dl_bpe_encode(const dl_tokenizer *t, const char *word, size_t n, long **ids, long *count, long *cap);
