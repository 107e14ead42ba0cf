/* Texts of a table with a label each, for classification: tokens, filled up to the longest text of a batch. */
#include "data/text/texts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/scope.h"
#include "data/tables/classes.h"
#include "data/tables/csv.h"
#include "data/datasets.h"
#include "data/view.h"

/* Texts of a file, with their labels. */
typedef struct rows {
    const char *path, *columns[2]; /* of text and label, as the options name them */
    long column[2];
    char **cell[2];
    long n, cap;
    bool header, number[2]; /* the column is given by its number */
} rows;

/* What the dataset is made of; tokens of text i of a split are at[i]..at[i + 1]. */
typedef struct texts {
    int32_t *tokens[2];
    long *at[2], n[2];
    int64_t *label[2];
} texts;

static void close_texts(void *ctx) {
    texts *x = ctx;
    for (int s = 0; s < 2; s++) {
        free(x->tokens[s]);
        free(x->at[s]);
        free(x->label[s]);
    }
    free(x);
}

static dl_status give_text(void *ctx, dl_split split, long i, dl_tensor **x, dl_tensor **y) {
    const texts *from = ctx;
    long n = from->at[split][i + 1] - from->at[split][i];
    DL_OWNED dl_tensor *narrow = dl_tensor_from(1, &n, DL_I32, 0, from->tokens[split] + from->at[split][i]);
    if (!narrow || !(*x = dl_to_dtype(narrow, DL_I64))) return dl_failed();
    *y = dl_tensor_from(0, NULL, DL_I64, 0, &from->label[split][i]);
    return *y ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- the table */

static void free_rows(rows *r) {
    for (int k = 0; k < 2; k++) {
        for (long i = 0; r->cell[k] && i < r->n; i++) free(r->cell[k][i]);
        free(r->cell[k]);
    }
}

static dl_status add_row(rows *r) {
    long cap = r->cap ? 2 * r->cap : 256;
    for (int k = 0; r->n == r->cap && k < 2; k++) {
        char **more = dl_memory_resize(r->cell[k], r->cap, cap, sizeof *more);
        if (!more) return dl_failed();
        r->cell[k] = more;
    }
    if (r->n == r->cap) r->cap = cap;
    r->cell[0][r->n] = r->cell[1][r->n] = NULL;
    r->n++;
    return DL_OK;
}

/* The first record names the columns, where an option does. */
static void match_name(rows *r, long column, const char *field) {
    for (int k = 0; k < 2; k++)
        if (!r->number[k] && !strcmp(field, r->columns[k])) r->column[k] = column;
}

static dl_status take_cell(void *ctx, long row, long column, const char *field) {
    rows *r = ctx;
    if (r->header && !row) return match_name(r, column, field), DL_OK;
    for (int k = 0; k < 2; k++)
        if (r->column[k] < 0)
            return dl_fail_hint(DL_ERR_NAME, "columns are named by the first line, or numbered from 0",
                                "'%s' has no column '%s'", r->path, r->columns[k]);
    if (column == 0) DL_TRY(add_row(r));
    for (int k = 0; k < 2; k++)
        if (column == r->column[k] && !(r->cell[k][r->n - 1] = strdup(field)))
            return dl_fail(DL_ERR_MEMORY, "no memory for the texts of '%s'", r->path);
    return DL_OK;
}

static dl_status read_rows(const dl_data_args *a, const char *path, rows *r) {
    static const char *const options[] = {"text", "label"};
    *r = (rows){.path = path};
    for (int k = 0; k < 2; k++) {
        int64_t number;
        r->columns[k] = dl_data_str(a, options[k]);
        r->number[k] = dl_csv_whole(r->columns[k], &number);
        r->column[k] = r->number[k] ? number : -1;
        r->header = r->header || !r->number[k];
    }
    DL_TRY(dl_csv_read(path, *dl_data_str(a, "sep"), take_cell, r));
    if (!r->n) return dl_fail(DL_ERR_FORMAT, "'%s' has no lines of data", path);
    for (int k = 0; k < 2; k++)
        if (!r->cell[k][0]) return dl_fail(DL_ERR_NAME, "'%s' has no column %s", path, r->columns[k]);
    return DL_OK;
}

/* ---------------------------------------------------------------- labels and tokens */

static bool number(const char *s, double *v) {
    char *end;
    *v = strtod(s, &end);
    return end != s && !*end && isfinite(*v);
}

static dl_status find_classes(const rows *r, dl_classes *c) {
    double v;
    for (long i = 0; i < r->n; i++) c->words = c->words || !number(r->cell[1][i], &v);
    for (long i = 0; i < r->n; i++)
        DL_TRY(dl_classes_add(c, r->path, r->cell[1][i], number(r->cell[1][i], &v) ? v : NAN));
    return DL_OK;
}

/* At most `block` tokens of a text; of an empty one the token that pads. */
static dl_status add_tokens(texts *to, int s, long i, const char *text, const dl_tokenizer *t, long block, long pad,
                            long *cap) {
    DL_OWNED dl_tensor *ids = dl_tokenizer_encode(t, text, strlen(text), 0);
    if (!ids) return dl_failed();
    long n = dl_numel(ids) < block ? dl_numel(ids) : block, used = to->at[s][i], want = used + (n ? n : 1);
    if (want > *cap) {
        int32_t *more = dl_memory_resize(to->tokens[s], *cap, 2 * want, sizeof *more);
        if (!more) return dl_failed();
        to->tokens[s] = more, *cap = 2 * want;
    }
    const int64_t *from = dl_data(ids);
    for (long k = 0; k < n; k++) to->tokens[s][used + k] = (int32_t)from[k];
    if (!n) to->tokens[s][used] = (int32_t)pad;
    to->at[s][i + 1] = want;
    return DL_OK;
}

static dl_status take_rows(const dl_data_args *a, texts *to, int s, const rows *r, const dl_classes *c,
                           const dl_tokenizer *t) {
    long cap = 0;
    if (!(to->at[s] = dl_data_alloc(r->n + 1, sizeof(long))) || !(to->label[s] = dl_data_alloc(r->n, sizeof(int64_t))))
        return dl_failed();
    to->n[s] = r->n;
    for (long i = 0; i < r->n; i++) {
        double v = NAN;
        bool found;
        DL_TRY(dl_interrupt_check_at(16 * i));
        if (!number(r->cell[1][i], &v)) v = NAN;
        to->label[s][i] = dl_classes_find(c, r->cell[1][i], v, &found);
        if (!found)
            return dl_fail(DL_ERR_FORMAT, "'%s': label \"%.40s\" of text %ld does not occur in the training file",
                           r->path, r->cell[1][i], i);
        DL_TRY(add_tokens(to, s, i, r->cell[0][i], t, dl_data_int(a, "block"), dl_data_int(a, "pad"), &cap));
    }
    return DL_OK;
}

/* Makes of d a view of the texts, which it takes over. */
static dl_status become(const dl_data_args *a, dl_dataset *d, texts *x, const dl_classes *c) {
    dl_dataset_spec spec = {.name = d->name,
                            .n = {x->n[0], x->n[1]},
                            .give = give_text,
                            .release = close_texts,
                            .ctx = x,
                            .any_thread = 1,
                            .padded = 1,
                            .pad = (double)dl_data_int(a, "pad")};
    dl_dataset *made = dl_dataset_given(&spec);
    dl_status st = made ? dl_data_set_classes(made, c->n, c->name) : dl_failed();
    if (st == DL_OK)
        st = dl_data_become_view(d, &(dl_part){made, DL_TRAIN, NULL, 0},
                                 made->split[1].n ? &(dl_part){made, DL_TEST, NULL, 0} : NULL);
    dl_dataset_unref(made);
    return st;
}

static dl_status load(const dl_data_args *a, dl_dataset *d, const dl_tokenizer *t, rows r[2], dl_classes *c, texts *x) {
    const char *test = dl_data_str(a, "test_path");
    dl_status st = read_rows(a, dl_data_str(a, "path"), &r[0]);
    if (st == DL_OK) st = find_classes(&r[0], c);
    if (st == DL_OK) st = take_rows(a, x, 0, &r[0], c, t);
    if (st == DL_OK && *test) st = read_rows(a, test, &r[1]);
    if (st == DL_OK && *test) st = take_rows(a, x, 1, &r[1], c, t);
    if (st != DL_OK) return close_texts(x), st;
    DL_TRY(become(a, d, x, c));
    return *test ? DL_OK : dl_data_hold_out(d, dl_data_float(a, "holdout"), (uint64_t)dl_data_int(a, "seed"));
}

dl_status dl_text_labelled(const dl_data_args *a, dl_dataset *d, const dl_tokenizer *t) {
    rows r[2] = {{0}, {0}};
    dl_classes c = {0};
    const char *sep = dl_data_str(a, "sep");
    if (!t)
        return dl_fail_hint(DL_ERR_VALUE, "tokenizer=tokenizer(\"words\", file=...)",
                            "the texts of '%s' need a tokenizer", dl_data_str(a, "path"));
    if (strlen(sep) != 1)
        return dl_fail(DL_ERR_VALUE, "dataset 'text': sep=\"%s\"; it is one character, such as \",\" or a tab", sep);
    if (dl_data_int(a, "block") < 1) return dl_fail(DL_ERR_VALUE, "dataset 'text': block counts tokens, from 1");
    texts *x = dl_data_alloc(1, sizeof *x);
    dl_status st = x ? load(a, d, t, r, &c, x) : dl_failed();
    free_rows(&r[0]);
    free_rows(&r[1]);
    dl_classes_free(&c);
    return st;
}

dl_status dl_open_text(const dl_data_args *a, dl_dataset *d) {
    const char *dir = dl_data_str(a, "tokenizer");
    dl_tokenizer *read = a->tokenizer || !*dir ? NULL : dl_tokenizer_read(dir);
    if (*dir && !a->tokenizer && !read) return dl_failed();
    const dl_tokenizer *t = a->tokenizer ? a->tokenizer : read;
    dl_status st = (*dl_data_str(a, "label") ? dl_text_labelled : dl_text_windows)(a, d, t);
    dl_tokenizer_free(read);
    return st;
}
