/* Text as integers: tokenizer, read_tokenizer, and the handle they give. */
#include <stdlib.h>

#include "lang/session.h"

/* ---------------------------------------------------------------- the handle */

static void destroy_tokenizer(void *self) { dl_tokenizer_free(self); }

static dl_status text_tokenizer(void *self, struct dlsh_buf *out) {
    dlsh_buf_printf(out, "<tokenizer %s of %ld tokens>", dl_tokenizer_kind(self), dl_tokenizer_size(self));
    return DL_OK;
}

static dl_status len_tokenizer(void *self, long *out) { return *out = dl_tokenizer_size(self), DL_OK; }

static dlsh_value tokens_of(void *self) {
    dlsh_value list = dlsh_new_list(dl_tokenizer_size(self));
    for (long i = 0; !dlsh_failed(list) && i < dl_tokenizer_size(self); i++) {
        unsigned long n;
        const char *s = dl_tokenizer_token(self, i, &n);
        if (dlsh_append(list, dlsh_string_n(s, n)) == DL_OK) continue;
        dlsh_drop(list);
        return dlsh_void();
    }
    return list;
}

DLSH_GETTER(get_kind, dlsh_string(dl_tokenizer_kind(self)))
DLSH_GETTER(get_size, dlsh_int(dl_tokenizer_size(self)))
DLSH_GETTER(get_tokens, tokens_of(self))

static const dlsh_field tokenizer_fields[] = {{"kind", "chars, words or bpe", get_kind, NULL},
                                              {"size", "tokens in the vocabulary", get_size, NULL},
                                              {"tokens", "the text of each, by its id", get_tokens, NULL},
                                              {0}};

/* ---------------------------------------------------------------- methods */

static dl_status encode_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *text = dlsh_arg(a, "text")->as.str;
    return dlsh_give(dlsh_tensor(dl_tokenizer_encode(dlsh_arg_self(a), text->s, text->len, dlsh_default_device())),
                     result);
}

static dl_status encode_file_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(
        dlsh_tensor(dl_tokenizer_encode_file(dlsh_arg_self(a), dlsh_arg_str(a, "file"), dlsh_default_device())),
        result);
}

static dl_status decode_ids(const dlsh_args *a, const long *ids, long n, dlsh_value *result) {
    unsigned long length;
    DLSH_ENDED(dl_text_free) char *text = dl_tokenizer_decode(dlsh_arg_self(a), ids, n, &length);
    if (!text) return dl_failed();
    return dlsh_give(dlsh_string_n(text, length), result);
}

static dl_status decode_tensor(const dlsh_args *a, dl_tensor *t, dlsh_value *result) {
    dl_dtype dtype = dl_dtype_of(t);
    if (dtype != DL_I64 && dtype != DL_I32 && dtype != DL_U8)
        return dlsh_arg_fail(a, "ids", DL_ERR_DTYPE, "x.to(i64)", "tokens are integers, not %s", dl_dtype_name(dtype));
    DLSH_OWNED dl_tensor *wide = dl_to_dtype(t, DL_I64);
    DLSH_FREED long *ids = wide ? dl_memory_alloc(dl_numel(wide) + 1, sizeof *ids) : NULL;
    DLSH_TRY(ids ? dl_read(wide, ids) : dl_failed());
    return decode_ids(a, ids, dl_numel(wide), result);
}

static dl_status decode_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_value v = *dlsh_arg(a, "ids");
    if (v.type == DLSH_TENSOR) return decode_tensor(a, v.as.tensor, result);
    const dlsh_value *items = v.type == DLSH_LIST ? v.as.list->items : &v;
    long n = v.type == DLSH_LIST ? v.as.list->n : 1;
    DLSH_FREED long *ids = malloc((size_t)(n + 1) * sizeof *ids);
    if (!ids) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %ld tokens", n);
    for (long i = 0; i < n; i++) {
        ids[i] = items[i].type == DLSH_INT ? items[i].as.i : 0;
        if (items[i].type != DLSH_INT)
            return dlsh_arg_fail(a, "ids", DL_ERR_TYPE, NULL, "element %ld is not an integer but: %s", i,
                                 dlsh_type_name(items[i]));
    }
    return decode_ids(a, ids, n, result);
}

static dl_status token_run(const dlsh_args *a, dlsh_value *result) {
    unsigned long n;
    const char *s = dl_tokenizer_token(dlsh_arg_self(a), dlsh_arg_int(a, "id"), &n);
    if (s) return dlsh_give(dlsh_string_n(s, n), result);
    return dlsh_arg_fail(a, "id", DL_ERR_INDEX, NULL, "there is no token %ld; they are 0 to %ld", dlsh_arg_int(a, "id"),
                         dl_tokenizer_size(dlsh_arg_self(a)) - 1);
}

static dl_status id_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_str *s = dlsh_arg(a, "token")->as.str;
    long id = dl_tokenizer_id(dlsh_arg_self(a), s->s, s->len);
    return dlsh_give(id < 0 ? dlsh_none() : dlsh_int(id), result);
}

static dl_status save_tokenizer_run(const dlsh_args *a) {
    return dl_tokenizer_save(dlsh_arg_self(a), dlsh_arg_str(a, "folder"));
}

static const dlsh_command tokenizer_methods[] = {
    DLSH_FN_ROW("encode", encode_run, "t.encode(TEXT)", "The tokens of a text, an i64 tensor.",
                DLSH_PARAMS({"text", .want = "string", .flags = DLSH_BYTES, .doc = "the text"})),
    DLSH_FN_ROW("encode_file", encode_file_run, "t.encode_file(FILE)",
                "The tokens of a text file, gzip or not, an i64 tensor.",
                DLSH_PARAMS({"file", .want = "string", .doc = "the file", .complete = "file"})),
    DLSH_FN_ROW("decode", decode_run, "t.decode(IDS)", "The text that tokens stand for.",
                DLSH_PARAMS({"ids", .want = "tensor|list|int", .doc = "integers"})),
    DLSH_FN_ROW("token", token_run, "t.token(ID)", "The text of one token.",
                DLSH_PARAMS({"id", .want = "int", .doc = "its number"})),
    DLSH_FN_ROW("id", id_run, "t.id(TOKEN)", "The number of a token; none when it is not in the vocabulary.",
                DLSH_PARAMS({"token", .want = "string", .doc = "its text"})),
    DLSH_ROW("save", DLSH_ACTION | DLSH_ONLY_FUNCTION, save_tokenizer_run, "t.save(FOLDER)",
             "Writes the vocabulary to a folder: vocab.json and, of byte pairs, merges.txt, as GPT-2's files are.",
             DLSH_PARAMS({"folder", .want = "string", .doc = "made where it is missing", .complete = "file"})),
    {0}};

const dlsh_class dlsh_tokenizer_class = {.name = "tokenizer",
                                         .doc = "Text as integers and back, by characters, words or byte pairs.",
                                         .destroy = destroy_tokenizer,
                                         .held = dlsh_held_little,
                                         .text = text_tokenizer,
                                         .len = len_tokenizer,
                                         .fields = tokenizer_fields,
                                         .methods = tokenizer_methods};

/* ---------------------------------------------------------------- making one */

/* The option special as a list that ends with NULL; its strings are borrowed. NULL with the failure recorded. */
static const char **special_of(const dlsh_args *a) {
    const dlsh_value *v = dlsh_arg(a, "special");
    long n = v && v->type == DLSH_LIST ? v->as.list->n : 0;
    const char **words = calloc((size_t)n + 1, sizeof *words);
    if (!words) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %ld tokens", n), NULL;
    for (long i = 0; i < n; i++) {
        dlsh_value word = v->as.list->items[i];
        if (word.type == DLSH_STR && word.as.str->len && !words[i]) {
            words[i] = word.as.str->s;
            continue;
        }
        dlsh_arg_fail(a, "special", DL_ERR_TYPE, "special=[\"<unk>\"]",
                      "special tokens are strings that are not empty");
        free(words);
        return NULL;
    }
    return words;
}

static dl_status tokenizer_run(const dlsh_args *a, dlsh_value *result) {
    const char *kind = dlsh_arg_str(a, "kind"), *file = dlsh_arg_str(a, "file");
    const dlsh_value *text = dlsh_arg(a, "text");
    long vocab = dlsh_arg_int(a, "vocab"), least = dlsh_arg_int(a, "min_count");
    if (!text == !file)
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "tokenizer(\"bpe\", file=\"input.txt\", vocab=1000)",
                             "a text or a file is wanted, one of them");
    DLSH_FREED const char **special = special_of(a);
    if (!special) return dl_failed();
    dl_tokenizer *t = text ? dl_tokenizer_train(kind, text->as.str->s, text->as.str->len, vocab, least, special)
                           : dl_tokenizer_train_file(kind, file, vocab, least, special);
    return dlsh_give(dlsh_new_handle(&dlsh_tokenizer_class, t), result);
}

static dl_status read_tokenizer_run(const dlsh_args *a, dlsh_value *result) {
    return dlsh_give(dlsh_new_handle(&dlsh_tokenizer_class, dl_tokenizer_read(dlsh_arg_str(a, "folder"))), result);
}

const dlsh_command text_commands[] = {
    DLSH_FN_ROW(
        "tokenizer", tokenizer_run, "tokenizer(KIND, TEXT, [file=FILE, vocab=N, min_count=1, special=[...]])",
        "A vocabulary made from a text: chars, words, or bpe (byte pairs, split into words as GPT-2 does). "
        "t.encode gives the tokens of a text, t.decode the text of tokens, t.save writes the files.",
        DLSH_PARAMS({"kind", .want = "string", .doc = "\"chars\", \"words\" or \"bpe\""},
                    {"text", .want = "string", .flags = DLSH_OPTIONAL | DLSH_BYTES, .doc = "the text"}),
        DLSH_OPTIONS(
            {"file", DLSH_OPT_STRING, NULL, .doc = "a file in place of the text, gzip or not", .complete = "file"},
            {"vocab", DLSH_OPT_INT, "0", .doc = "tokens at most; 0: all that occur (bpe: must be given)"},
            {"min_count", DLSH_OPT_INT, "1", .doc = "how often a token or pair must occur"},
            {"special", DLSH_OPT_VALUE, NULL, .want = "list",
             .doc = "tokens that stand for themselves in texts; <unk> also for what is not in the "
                    "vocabulary"}),
        .examples = "t = tokenizer(\"chars\", \"hello world\")\n"
                    "t = tokenizer(\"bpe\", file=\"input.txt\", vocab=1000, special=[\"<|endoftext|>\"])"),
    DLSH_FN_ROW("read_tokenizer", read_tokenizer_run, "read_tokenizer(FOLDER)",
                "A tokenizer from the files in a folder: what t.save wrote, or GPT-2's vocab.json and merges.txt "
                "(encoder.json and vocab.bpe).",
                DLSH_PARAMS({"folder", .want = "string", .doc = "the folder", .complete = "file"}),
                .examples = "t = read_tokenizer(\"gpt2\")"),
    {0}};
