/* Tables in CSV files: read as a record of columns, written from one; words as categories. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lang/session.h"

/* ---------------------------------------------------------------- cells */

/* All cells by rows; texts stand one after the other. */
typedef struct cells {
    char *text;
    long used, cap;
    long *at; /* where cell i begins */
    long n, room, columns, rows;
} cells;

static void free_cells(cells *c) {
    free(c->text);
    free(c->at);
}

static dl_status take_cell(void *ctx, long row, long column, const char *text) {
    cells *c = ctx;
    long len = (long)strlen(text) + 1;
    if (c->n == c->room) {
        long room = c->room ? 2 * c->room : 256, *at = dl_memory_resize(c->at, c->room, room, sizeof *at);
        if (!at) return dl_failed();
        c->at = at, c->room = room;
    }
    if (c->used + len > c->cap) {
        long cap = 2 * (c->used + len);
        char *more = dl_memory_resize(c->text, c->cap, cap, 1);
        if (!more) return dl_failed();
        c->text = more, c->cap = cap;
    }
    memcpy(c->text + c->used, text, (size_t)len);
    c->at[c->n++] = c->used, c->used += len;
    if (column >= c->columns) c->columns = column + 1;
    c->rows = row + 1;
    return DL_OK;
}

static const char *cell_at(const cells *c, long row, long column) { return c->text + c->at[row * c->columns + column]; }

static int is_blank(const char *s) { return !s[strspn(s, " \t\r")]; }

/* Blank, or a word that stands for a missing number, as pandas takes it. */
static int is_missing(const char *s) {
    return is_blank(s) || dlsh_has_word("NA|N/A|n/a|#N/A|<NA>|NaN|nan|NULL|null|None|none", s, strlen(s));
}

/* ---------------------------------------------------------------- what a cell is */

static int as_int(const char *s, double *real, int64_t *v) {
    char *end;
    errno = 0;
    *v = strtoll(s, &end, 10);
    *real = (double)*v;
    return end != s && !errno && is_blank(end);
}

static int as_float(const char *s, double *real, int64_t *v) {
    char *end;
    *real = strtod(s, &end);
    *v = 0;
    return end != s && is_blank(end);
}

static int as_date(const char *s, double *real, int64_t *v) {
    long seconds = 0;
    if (!dl_csv_date(s, &seconds)) return 0;
    *v = seconds, *real = (double)seconds;
    return 1;
}

static int as_bool(const char *s, double *real, int64_t *v) {
    *v = dlsh_has_word("true|True|TRUE", s, strlen(s));
    *real = (double)*v;
    return *v || dlsh_has_word("false|False|FALSE", s, strlen(s));
}

/* From the narrowest; what none of them reads is a word. */
static int (*const readers[])(const char *s, double *real, int64_t *v) = {as_int, as_float, as_date, as_bool};
static const char *const singular[] = {"integer", "number", "date", "bool"};
enum { INTS, FLOATS, DATES, BOOLS, WORDS };

static int kind_of_cell(const char *s) {
    double real;
    int64_t whole;
    int k = INTS;
    while (k < WORDS && !readers[k](s, &real, &whole)) k++;
    return k;
}

/* What the cells of a column are. */
typedef struct contents {
    int kind;   /* that reads all that are not missing */
    int almost; /* WORDS: the kind that reads more than half of them; else WORDS */
    long missing;
    long stranger; /* WORDS: the row of the first that this kind does not read */
} contents;

static contents look_at(const cells *c, long from, long k) {
    contents found = {WORDS, WORDS, 0, -1};
    long n = c->rows - from;
    for (int kind = INTS; kind < WORDS; kind++) {
        long read = 0, stranger = -1;
        found.missing = 0;
        for (long i = from; i < c->rows; i++) {
            double real;
            int64_t whole;
            const char *s = cell_at(c, i, k);
            if (is_missing(s))
                found.missing++;
            else if (readers[kind](s, &real, &whole))
                read++;
            else if (stranger < 0)
                stranger = i;
        }
        if (read && read + found.missing == n) return found.kind = kind, found;
        if (2 * read > n) found.almost = kind, found.stranger = stranger;
    }
    return found;
}

/* ---------------------------------------------------------------- reading */

static dlsh_value words(const cells *c, long from, long column) {
    dlsh_value v = dlsh_new_list(c->rows - from);
    dl_status st = dlsh_failed(v) ? dl_failed() : DL_OK;
    for (long i = from; st == DL_OK && i < c->rows; i++) {
        const char *s = cell_at(c, i, column);
        st = dlsh_append(v, *s ? dlsh_string(s) : dlsh_none());
    }
    if (st == DL_OK) return v;
    dlsh_drop(v);
    return dlsh_void();
}

/* Integers are rounded where blanks, points or larger numbers among them make a column floating. */
static void warn_of_rounded(const dlsh_args *a, const cells *c, long from, const char *name, long k, dl_dtype t) {
    for (long i = from; i < c->rows; i++) {
        const char *s = cell_at(c, i, k), *digits = s + strspn(s, " \t+-");
        double real = 0;
        int64_t v = 0;
        if (is_blank(digits) || !is_blank(digits + strspn(digits, "0123456789"))) continue;
        int fits = as_int(s, &real, &v);
        if (t == DL_F32) real = (float)real;
        if (fits && fabs(real) < 9223372036854775808.0 && (int64_t)real == v) continue;
        char hint[160];
        snprintf(hint, sizeof hint, "words=[\"%.60s\"] keeps the digits", name);
        dlsh_warn(dlsh_arg_session(a), hint, "column '%.60s' is %s, which does not hold all digits of %.40s in row %ld",
                  name, dl_dtype_name(t), digits, i - from + 1);
        return;
    }
}

/* Integers and dates as i64, bools as bool; where some are missing, which are NaN, floating, as other numbers are: of
 * the dtype given, but dates f64. */
static dlsh_value column_value(const cells *c, long from, long k, const contents *is, dl_dtype floats) {
    const int kind = is->kind;
    long n = c->rows - from;
    if (kind == WORDS) return words(c, from, k);
    int whole = kind != FLOATS && !is->missing;
    DLSH_FREED int64_t *ints = dl_memory_alloc(n + 1, sizeof *ints);
    double *reals = (double *)ints; /* of the same size */
    if (!ints) return dlsh_void();
    for (long i = 0; i < n; i++) {
        double real = NAN;
        int64_t v = 0;
        const char *s = cell_at(c, from + i, k);
        if (!is_missing(s)) readers[kind](s, &real, &v);
        if (whole)
            ints[i] = v;
        else
            memcpy(&reals[i], &real, sizeof real);
    }
    dl_dtype made = whole ? DL_I64 : DL_F64, wanted = !whole && kind != DATES ? floats : made;
    if (whole && kind == BOOLS) wanted = DL_BOOL;
    dl_tensor *t = dl_tensor_from(1, &n, made, dlsh_default_device(), ints);
    if (!t || wanted == made) return dlsh_tensor(t);
    dl_tensor *converted = dl_to_dtype(t, wanted);
    dl_unref(t);
    return dlsh_tensor(converted);
}

/* Whether the first line names the columns: none of its fields is a number or a date. A blank field is none of its
 * names, such as that above the row numbers that pandas writes; then a column must tell by its other cells. */
static int has_header(const cells *c) {
    int blank = 0, told = 0;
    for (long k = 0; k < c->columns; k++) {
        const char *s = cell_at(c, 0, k);
        if (is_blank(s))
            blank = 1;
        else if (kind_of_cell(s) != WORDS)
            return 0;
    }
    for (long k = 0; blank && !told && k < c->columns; k++)
        told = !is_blank(cell_at(c, 0, k)) && look_at(c, 1, k).kind != WORDS;
    return !blank || told;
}

/* words= names the column. */
static int stays_words(const dlsh_args *a, const char *name) {
    const dlsh_value *v = dlsh_arg(a, "words");
    if (!v || v->type == DLSH_STR) return v && !strcmp(v->as.str->s, name);
    for (int i = 0; i < v->as.list->n; i++)
        if (v->as.list->items[i].type == DLSH_STR && !strcmp(v->as.list->items[i].as.str->s, name)) return 1;
    return 0;
}

/* Does words= name columns alone? */
static dl_status check_words(const dlsh_args *a, const dlsh_record *r) {
    const dlsh_value *v = dlsh_arg(a, "words");
    int n = !v ? 0 : v->type == DLSH_STR ? 1 : v->as.list->n;
    for (int i = 0; i < n; i++) {
        dlsh_value name = v->type == DLSH_STR ? *v : v->as.list->items[i];
        if (name.type != DLSH_STR)
            return dlsh_arg_fail(a, "words", DL_ERR_TYPE, "words=[\"zip\"]", "words has names of columns, not %s",
                                 dlsh_a(name));
        if (!dlsh_record_get(r, name.as.str->s))
            return dlsh_arg_fail(a, "words", DL_ERR_NAME, NULL, "there is no column '%.60s'", name.as.str->s);
    }
    return DL_OK;
}

/* A column of which most cells are numbers may have a mistake. */
static void warn_of_stranger(const dlsh_args *a, const cells *c, const char *name, long k, const contents *is) {
    if (is->kind != WORDS || is->almost == WORDS) return;
    char hint[160];
    snprintf(hint, sizeof hint, "words=[\"%.60s\"] if it is one of words", name);
    dlsh_warn(dlsh_arg_session(a), hint,
              "column '%.60s' is read as words: \"%.40s\" in row %ld is not a %s, as most are", name,
              cell_at(c, is->stranger, k), is->stranger + 1, singular[is->almost]);
}

/* dtype= of columns of floating numbers. */
static dl_status floats_of(const dlsh_args *a, dl_dtype *out) {
    DLSH_TRY(dl_dtype_parse(dlsh_arg_str(a, "dtype"), out));
    if (*out == DL_F32 || *out == DL_F64) return DL_OK;
    return dlsh_arg_fail(a, "dtype", DL_ERR_DTYPE, "t.x.to(i64) converts a column", "dtype is f32 or f64, not %.40s",
                         dlsh_arg_str(a, "dtype"));
}

static dl_status make_columns(const dlsh_args *a, const cells *c, int header, dlsh_value *result) {
    dl_dtype floats;
    DLSH_TRY(floats_of(a, &floats));
    dlsh_value r = dlsh_new_record();
    dl_status st = dlsh_failed(r) ? dl_failed() : DL_OK;
    for (long k = 0; st == DL_OK && k < c->columns; k++) {
        char number[32];
        snprintf(number, sizeof number, "c%ld", k);
        const char *name = header && !is_blank(cell_at(c, 0, k)) ? cell_at(c, 0, k) : number;
        if (dlsh_record_get(r.as.record, name))
            st = dlsh_arg_fail(a, "path", DL_ERR_FORMAT, "header=\"no\" numbers the columns: c0, c1, ...",
                               "two columns are called '%s'", name);
        contents is = {WORDS, WORDS, 0, -1};
        if (st == DL_OK && !stays_words(a, name)) is = look_at(c, header, k);
        dlsh_value v = st == DL_OK ? column_value(c, header, k, &is, floats) : dlsh_void();
        if (st == DL_OK) st = dlsh_failed(v) ? dl_failed() : dlsh_record_set(r.as.record, name, v);
        if (st == DL_OK && v.type == DLSH_TENSOR && (is.kind == INTS || is.kind == FLOATS) &&
            dl_dtype_is_float(dl_dtype_of(v.as.tensor)))
            warn_of_rounded(a, c, header, name, k, dl_dtype_of(v.as.tensor));
        if (st == DL_OK) warn_of_stranger(a, c, name, k, &is);
    }
    if (st == DL_OK) st = check_words(a, r.as.record);
    return dlsh_give_filled(st, r, result);
}

/* A tab where the name says so and the caller nothing else. */
static char sep_of(const dlsh_args *a) {
    const char *sep = dlsh_arg_str(a, "sep"), *path = dlsh_arg_str(a, "path"), *dot = strrchr(path, '.');
    if (!dlsh_given(a, "sep") && dot && !strcasecmp(dot, ".tsv")) return '\t';
    return strlen(sep) == 1 ? *sep : 0;
}

static dl_status read_csv_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED(free_cells) cells c = {0};
    const char *header = dlsh_arg_str(a, "header");
    DLSH_TRY(dl_csv_read(dlsh_arg_str(a, "path"), sep_of(a), take_cell, &c));
    if (!c.rows) return dlsh_arg_fail(a, "path", DL_ERR_FORMAT, NULL, "'%s' has no lines", dlsh_arg_str(a, "path"));
    return make_columns(a, &c, !strcmp(header, "auto") ? has_header(&c) : *header == 'y', result);
}

/* ---------------------------------------------------------------- writing */

/* In quotes where the text holds what means something in CSV, or would be lost. */
static void put_word(dlsh_buf *b, const char *s, char sep) {
    size_t n = strlen(s);
    int plain = n && !strchr(s, sep) && !strpbrk(s, "\"\r\n") && *s != ' ' && s[n - 1] != ' ';
    if (!plain) dlsh_buf_puts(b, "\"");
    for (; *s; s++) dlsh_buf_add(b, *s == '"' ? "\"\"" : s, *s == '"' ? 2 : 1);
    if (!plain) dlsh_buf_puts(b, "\"");
}

/* Blanks for none and NaN; numbers so that they read back the same. */
static dl_status put_value(dlsh_buf *b, dlsh_value v, char sep) {
    if (v.type == DLSH_NONE || (v.type == DLSH_FLOAT && isnan(v.as.f))) return DL_OK;
    if (v.type == DLSH_FLOAT) return dlsh_buf_float(b, v.as.f), DL_OK;
    if (v.type == DLSH_INT) return dlsh_buf_printf(b, "%ld", v.as.i), DL_OK;
    if (v.type == DLSH_BOOL) return dlsh_buf_puts(b, v.as.b ? "true" : "false"), DL_OK;
    if (v.type == DLSH_STR && strlen(v.as.str->s) == v.as.str->len) return put_word(b, v.as.str->s, sep), DL_OK;
    return dlsh_fail(DL_ERR_TYPE, NULL, "a cell is a number, a string or none, not %s", dlsh_a(v));
}

/* A column as a list, which for a tensor is a new one. */
static dl_status column_list(const dlsh_args *a, const char *name, dlsh_value v, dlsh_value *out) {
    dlsh_value list = dlsh_void();
    if (v.type == DLSH_LIST) return *out = dlsh_ref(v), DL_OK;
    if (v.type != DLSH_TENSOR || dl_ndim(v.as.tensor) != 1)
        return dlsh_arg_fail(a, "columns", DL_ERR_TYPE, "x[:, 0] is a column of a tensor",
                             "column '%s' is a list or a tensor [n], not %s%s", name, dlsh_a(v),
                             v.type == DLSH_TENSOR ? " of other dimensions" : "");
    DLSH_DROPPED dlsh_value method = dlsh_void();
    DLSH_TRY(dlsh_get_field(dlsh_arg_session(a), v, "tolist", &method));
    dl_status st = dlsh_call(dlsh_arg_session(a), method, &(dlsh_callargs){0, NULL, NULL}, &list);
    *out = list;
    return st;
}

/* Words that all read as something else, and names that are none, come back changed unless the reader is told. */
static void warn_of_change(const dlsh_args *a, const dlsh_record *r, const dlsh_value *lists) {
    dlsh_session *s = dlsh_arg_session(a);
    int odd = -1;
    for (int k = 0; k < r->n; k++) {
        const dlsh_list *l = lists[k].as.list;
        int all = 1, kind = INTS, words = 0;
        char hint[160];
        if (odd < 0 && (is_blank(r->keys[k]) || kind_of_cell(r->keys[k]) != WORDS)) odd = k;
        for (int i = 0; all && i < l->n; i++) {
            if (l->items[i].type != DLSH_STR) continue;
            words = 1, kind = kind_of_cell(l->items[i].as.str->s);
            all = kind != WORDS || is_missing(l->items[i].as.str->s);
        }
        snprintf(hint, sizeof hint, "read_csv(PATH, words=[\"%.60s\"]) reads words", r->keys[k]);
        if (words && all)
            dlsh_warn(s, hint, "the words of column '%.60s' look like %ss, and will be read as such", r->keys[k],
                      singular[kind < WORDS ? kind : FLOATS]);
    }
    if (odd >= 0)
        dlsh_warn(s, "read_csv(PATH, header=\"yes\") takes the first line for names",
                  "the column name '%.60s' does not look like one", r->keys[odd]);
}

static dl_status put_rows(const dlsh_args *a, const dlsh_record *r, const dlsh_value *lists, dlsh_buf *b) {
    char sep = sep_of(a), text[2] = {sep, 0};
    if (!sep || strchr("\"\r\n", sep)) return dlsh_arg_fail(a, "sep", DL_ERR_VALUE, NULL, "sep is one character");
    long n = lists[0].as.list->n;
    for (int k = 0; k < r->n; k++) {
        if (lists[k].as.list->n != n)
            return dlsh_arg_fail(a, "columns", DL_ERR_SHAPE, NULL, "column '%s' has %d cells, and '%s' %ld", r->keys[k],
                                 lists[k].as.list->n, r->keys[0], n);
        if (k) dlsh_buf_puts(b, text);
        put_word(b, r->keys[k], sep);
    }
    for (long i = 0; i < n; i++) {
        size_t start = b->n + 1;
        DLSH_TRY(dlsh_interrupted_at(i) ? dlsh_check_interrupt() : DL_OK);
        dlsh_buf_puts(b, "\n");
        for (int k = 0; k < r->n; k++) {
            if (k) dlsh_buf_puts(b, text);
            DLSH_TRY(put_value(b, lists[k].as.list->items[i], sep));
        }
        if (b->n == start) dlsh_buf_puts(b, "\"\""); /* an empty line is not a record */
    }
    dlsh_buf_puts(b, "\n");
    return DL_OK;
}

static dl_status write_csv_run(const dlsh_args *a) {
    const dlsh_record *r = dlsh_arg(a, "columns")->as.record;
    DLSH_SCOPED_BUF b = {0};
    if (!r->n) return dlsh_arg_fail(a, "columns", DL_ERR_VALUE, "{a: [1, 2], b: x}", "a table needs a column");
    if (!dl_format_for(dlsh_arg_str(a, "path"), DL_HOLDS_CELLS)) return dl_failed();
    DLSH_FREED dlsh_value *lists = dl_memory_alloc(r->n, sizeof *lists);
    dl_status st = lists ? DL_OK : dl_failed();
    for (int k = 0; lists && k < r->n; k++) lists[k] = dlsh_none();
    for (int k = 0; st == DL_OK && k < r->n; k++) st = column_list(a, r->keys[k], r->values[k], &lists[k]);
    if (st == DL_OK) st = put_rows(a, r, lists, &b);
    if (st == DL_OK) warn_of_change(a, r, lists);
    for (int k = 0; lists && k < r->n; k++) dlsh_drop(lists[k]);
    return st == DL_OK ? dlsh_buf_write(&b, dlsh_arg_str(a, "path")) : st;
}

/* ---------------------------------------------------------------- categories */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Different words in order; *n becomes their number. */
static dl_status distinct(const dlsh_args *a, const dlsh_list *l, const char **names, long *n) {
    *n = 0;
    for (int i = 0; i < l->n; i++) {
        if (l->items[i].type == DLSH_NONE) continue;
        if (l->items[i].type != DLSH_STR)
            return dlsh_arg_fail(a, "words", DL_ERR_TYPE, NULL, "item %d is %s; words are strings or none", i,
                                 dlsh_a(l->items[i]));
        names[(*n)++] = l->items[i].as.str->s;
    }
    qsort(names, (size_t)*n, sizeof *names, by_text);
    long kept = 0;
    for (long i = 0; i < *n; i++)
        if (!i || strcmp(names[i], names[kept - 1]) != 0) names[kept++] = names[i];
    *n = kept;
    return DL_OK;
}

static dl_status categories_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_list *l = dlsh_arg(a, "words")->as.list;
    long n = 0, count = l->n;
    const char **names = dl_memory_alloc(count + 1, sizeof *names);
    int64_t *codes = names ? dl_memory_alloc(count + 1, sizeof *codes) : NULL;
    dlsh_value list = dlsh_new_list(0);
    dl_status st = codes && !dlsh_failed(list) ? distinct(a, l, names, &n) : dl_failed();
    for (int i = 0; st == DL_OK && i < l->n; i++) {
        const char *word = l->items[i].type == DLSH_STR ? l->items[i].as.str->s : NULL;
        const char **at = word ? bsearch(&word, names, (size_t)n, sizeof *names, by_text) : NULL;
        codes[i] = at ? at - names : -1;
    }
    for (long i = 0; st == DL_OK && i < n; i++) st = dlsh_append(list, dlsh_string(names[i]));
    dl_tensor *t = st == DL_OK ? dl_tensor_from(1, &count, DL_I64, dlsh_default_device(), codes) : NULL;
    free(names);
    free(codes);
    if (st == DL_OK) return dlsh_give(DLSH_RECORD_OF({"codes", dlsh_tensor(t)}, {"names", list}), result);
    dlsh_drop(list);
    return st;
}

#define SEP_OPTION                                                                                                     \
    { "sep", DLSH_OPT_STRING, ",", .doc = "separator, one character" }

const dlsh_command tables_commands[] = {
    DLSH_FN_ROW(
        "read_csv", read_csv_run, "read_csv(PATH, sep=\",\", header=\"auto\", words=none, dtype=f64)",
        "A table as a record of its columns: integers and dates (seconds from 1970) as i64 tensors, true and "
        "false as bool, numbers with a point or where some are missing (NaN) as dtype, words as lists of strings "
        "(blanks: none). Blank cells, NA, NaN, null and None are missing.",
        DLSH_PARAMS({"path", .want = "string", .doc = "file, gzip or not", .complete = "file"}),
        DLSH_OPTIONS(SEP_OPTION,
                     {"header", DLSH_OPT_STRING, "auto", .complete = "auto|yes|no",
                      .doc = "whether the first line names the columns, else c0, c1, ...; auto: "
                             "when its fields are words; columns with a blank name are c0, c1, ..., too"},
                     {"words", DLSH_OPT_VALUE, NULL, .want = "list|string",
                      .doc = "columns that are words even if they look like numbers"},
                     {"dtype", DLSH_OPT_WORD, "f64", .complete = "dtype",
                      .doc = "f32 or f64: that of columns of floating numbers"}),
        .examples = "t = read_csv(\"pets.csv\", dtype=f32)\nd = dataset({x: stack([t.width, t.height], 1), y: "
                    "categories(t.kind).codes})"),
    DLSH_FN_ROW(
        "write_csv", write_csv_run, "write_csv(PATH, COLUMNS, sep=\",\")",
        "Writes a record of columns, tensors [n] or lists, as a table; NaN and none are blank. read_csv reads "
        "it back, numbers as f64 or i64 (f32 with dtype=f32); what would change otherwise is warned of. In files "
        "whose names end in .tsv, tabs separate the columns.",
        DLSH_PARAMS({"path", .want = "string", .doc = "file", .complete = "file"},
                    {"columns", .want = "record", .doc = "the columns by name"}),
        DLSH_OPTIONS(SEP_OPTION), .examples = "write_csv(\"out.csv\", {loss: losses, name: names})"),
    DLSH_FN_ROW("categories", categories_run, "categories(WORDS)",
                "Numbers words: names lists the different words in order, codes has the index of each word in names, "
                "or -1 for none.",
                DLSH_PARAMS({"words", .want = "list", .doc = "strings; none is missing"}),
                .examples = "c = categories([\"cat\", \"dog\", \"cat\"])\nc.codes; c.names"),
    {0}};
