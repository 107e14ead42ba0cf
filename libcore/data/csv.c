/* CSV text: the scanner, and tables of numbers with a label column, see csv.h. */
#include "data/csv.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "data/data.h"

/* ---------------------------------------------------------------- fields */

/* A scanner over text[n]. `name` stands in messages. */
typedef struct scanner {
    const char *name, *text;
    size_t n, at;
    char sep;
    long line;      /* of the next field, from 1 */
    size_t line_at; /* where that line begins */
    char *field;    /* the last field, NUL-terminated, quotes resolved; owned by the scanner */
    size_t len, cap;
    long field_line, field_col; /* where it began, from 1; columns are bytes */
    bool last;                  /* it ends its record */
} scanner;

/* Skips a byte order mark. */
static void begin(scanner *c, const char *name, const char *text, size_t n, char sep) {
    *c = (scanner){.name = name, .text = text, .n = n, .sep = sep, .line = 1};
    if (n >= 3 && !memcmp(text, "\xef\xbb\xbf", 3)) c->at = c->line_at = 3;
}

static void end_scan(scanner *c) {
    free(c->field);
    c->field = NULL;
}

static dl_status put(scanner *c, char ch) {
    if (!ch)
        return dl_fail_hint(DL_ERR_FORMAT, "save it as UTF-8 text",
                            "'%s', line %ld, column %zu: a NUL byte; this is no text", c->name, c->line,
                            c->at - c->line_at + 1);
    if (c->len + 2 > c->cap) {
        size_t cap = c->cap ? 2 * c->cap : 64;
        char *more = dl_memory_resize(c->field, (long)c->cap, (long)cap, 1);
        if (!more) return dl_failed();
        c->field = more, c->cap = cap;
    }
    c->field[c->len++] = ch;
    c->field[c->len] = 0;
    return DL_OK;
}

/* At "\n" or "\r\n". */
static bool at_newline(const scanner *c) {
    return c->at < c->n &&
           (c->text[c->at] == '\n' || (c->text[c->at] == '\r' && c->at + 1 < c->n && c->text[c->at + 1] == '\n'));
}
static void skip_newline(scanner *c) {
    c->at += c->text[c->at] == '\r' ? 2 : 1;
    c->line++, c->line_at = c->at;
}

static dl_status quoted(scanner *c) {
    for (c->at++;; c->at++) {
        if (c->at >= c->n)
            return dl_fail_hint(DL_ERR_FORMAT, "close the quotes; quotes inside quotes are written twice",
                                "'%s', line %ld, column %ld: quotes are opened and never closed", c->name,
                                c->field_line, c->field_col);
        char ch = c->text[c->at];
        if (ch == '"') {
            if (c->at + 1 >= c->n || c->text[c->at + 1] != '"') break;
            c->at++;
        }
        DL_TRY(put(c, ch));
        if (ch == '\n') c->line++, c->line_at = c->at + 1;
    }
    c->at++;
    if (c->at < c->n && c->text[c->at] != c->sep && !at_newline(c))
        return dl_fail_hint(DL_ERR_FORMAT, "quotes inside quotes are written twice",
                            "'%s', line %ld, column %zu: text follows the closing quotes", c->name, c->line,
                            c->at - c->line_at + 1);
    return DL_OK;
}

/* The next field. Empty lines between records are skipped. *more is false, and there is no field, at the end. Errors:
 * DL_ERR_FORMAT with line and column (quotes that do not end, text after quotes, a NUL byte), DL_ERR_MEMORY. */
static dl_status next_field(scanner *c, bool *more) {
    bool inside = c->field && !c->last; /* after a separator an empty rest is a field */
    while (!inside && at_newline(c)) skip_newline(c);
    *more = inside || c->at < c->n;
    if (!*more) return DL_OK;
    c->field_line = c->line, c->field_col = (long)(c->at - c->line_at + 1);
    if (!c->field) DL_TRY(put(c, ' ')); /* allocates it */
    c->field[c->len = 0] = 0;
    if (c->at < c->n && c->text[c->at] == '"')
        DL_TRY(quoted(c));
    else
        for (; c->at < c->n && c->text[c->at] != c->sep && !at_newline(c); c->at++) DL_TRY(put(c, c->text[c->at]));
    c->last = c->at >= c->n || c->text[c->at] != c->sep;
    if (!c->last)
        c->at++;
    else if (c->at < c->n)
        skip_newline(c);
    return DL_OK;
}

/* ---------------------------------------------------------------- cells */

static dl_status wrong_count(const scanner *c, long line, long fields, long first) {
    return dl_fail_hint(DL_ERR_FORMAT, "every line has as many fields as the first",
                        "'%s', line %ld: %ld fields; the first line has %ld", c->name, line, fields, first);
}

static dl_status read_cells(scanner *c, dl_csv_cell *cell, void *ctx) {
    long row = 0, column = 0, columns = 0, line = 1;
    for (;;) {
        bool more;
        DL_TRY(next_field(c, &more));
        if (!more) return DL_OK;
        DL_TRY(dl_interrupt_check_at(row));
        if (!column) line = c->field_line;
        if (!row || column < columns) DL_TRY(cell(ctx, row, column, c->field));
        column++;
        if (!c->last) continue;
        if (!row) columns = column;
        if (column != columns) return wrong_count(c, line, column, columns);
        row++, column = 0;
    }
}

dl_status dl_csv_read(const char *path, char sep, dl_csv_cell *cell, void *ctx) {
    uint8_t *bytes;
    size_t n;
    scanner c;
    if (!path || !cell) return dl_fail_null(path ? "what takes the cells" : "the name of a file");
    if (!sep || strchr("\"\r\n", sep))
        return dl_fail(DL_ERR_VALUE, "sep is one character, such as \",\", \";\" or a tab, and no quote or line's end");
    DL_TRY(dl_file_read(path, 0, &bytes, &n));
    begin(&c, path, (const char *)bytes, n, sep);
    dl_status st = read_cells(&c, cell, ctx);
    end_scan(&c);
    free(bytes);
    return st;
}

/* ---------------------------------------------------------------- tables */

static bool is_blank(const char *s) { return !s[strspn(s, " \t\r")]; }

/* Reads a field that is a finite number, blanks around it allowed; NaN marks a missing value. */
static bool number(const char *s, double *v) {
    char *end;
    *v = strtod(s, &end);
    return end != s && is_blank(end) && isfinite(*v);
}

bool dl_csv_whole(const char *s, int64_t *v) {
    char *end;
    errno = 0;
    *v = strtoll(s, &end, 10);
    return end != s && !errno && is_blank(end);
}

/* What is known of the table while it is read. */
typedef struct reader {
    scanner csv;
    const dl_csv_spec *spec;
    dl_csv_table *t;
    char **first; /* fields of the first record */
    long columns, label, cap;
} reader;

static dl_status no_memory(const reader *r) {
    return dl_fail(DL_ERR_MEMORY, "no memory for the table '%s'", r->csv.name);
}

static dl_status read_first(reader *r) {
    bool more = true;
    long cap = 0;
    for (;;) {
        DL_TRY(next_field(&r->csv, &more));
        if (!more) return DL_OK;
        DL_TRY(DL_LIST_ROOM(r->first, r->columns, cap));
        if (!(r->first[r->columns] = strdup(r->csv.field))) return no_memory(r);
        r->columns++;
        if (r->csv.last) return DL_OK;
    }
}

/* Finds the label column, by the names of the first record or by number, from the end when negative. */
static dl_status find_label(reader *r) {
    const char *want = r->spec->label;
    double v;
    r->label = r->columns - 1;
    if (!*want) return DL_OK;
    if (number(want, &v) && v == floor(v) && v >= (double)-r->columns && v < (double)r->columns) {
        r->label = (long)v < 0 ? (long)v + r->columns : (long)v;
        return DL_OK;
    }
    for (long i = 0; i < r->columns; i++)
        if (!strcmp(r->first[i], want) && strcmp(r->spec->header, "no")) {
            r->label = i;
            return DL_OK;
        }
    return dl_fail_unknown(want, (const char *const *)r->first, (int)(r->columns < 1000 ? r->columns : 1000),
                           "columns are named by the first line, or numbered from 0",
                           "'%s' has no column '%s' among its %ld", r->csv.name, want, r->columns);
}

static bool has_header(const reader *r) {
    double v;
    if (strcmp(r->spec->header, "auto")) return !strcmp(r->spec->header, "yes");
    for (long i = 0; i < r->columns; i++)
        if ((i != r->label || r->columns == 1) && !number(r->first[i], &v)) return true;
    return false;
}

static dl_status room(reader *r) {
    dl_csv_table *t = r->t;
    if (t->n < r->cap) return DL_OK;
    long cap = r->cap ? 2 * r->cap : 64;
    double *y = NULL;
    char **label = NULL;
    void **rows = r->spec->whole ? (void **)&t->whole : (void **)&t->x;
    long width = t->features * (long)(r->spec->whole ? sizeof *t->whole : sizeof *t->x);
    void *x = dl_memory_resize(*rows, r->cap, cap, width);
    if (x) *rows = x;
    if (x && (y = dl_memory_resize(t->y, r->cap, cap, sizeof *y))) t->y = y;
    if (y && (label = dl_memory_resize(t->label, r->cap, cap, sizeof *label))) t->label = label;
    if (!label) return dl_failed();
    r->cap = cap;
    return DL_OK;
}

static dl_status not_a_number(const reader *r, long column) {
    const scanner *c = &r->csv;
    double v;
    if (r->spec->whole && number(c->field, &v))
        return dl_fail_hint(DL_ERR_FORMAT, "dtype=f32 reads floating numbers",
                            "'%s', line %ld, column %ld: \"%.40s\" is no integer of 64 bits (field %ld)", c->name,
                            c->field_line, c->field_col, c->field, column);
    return dl_fail_hint(DL_ERR_FORMAT,
                        *c->field ? "features are numbers; words may stand in the label column alone"
                                  : "a value is missing; fill it in or drop the line",
                        "'%s', line %ld, column %ld: \"%.40s\" is no number (field %ld)", c->name, c->field_line,
                        c->field_col, c->field, column);
}

/* Stores the field as a column of record `n`. */
static dl_status take_field(reader *r, long n, long column) {
    dl_csv_table *t = r->t;
    long at = n * t->features + column - (column > r->label);
    double v;
    if (column != r->label && r->spec->whole)
        return dl_csv_whole(r->csv.field, &t->whole[at]) ? DL_OK : not_a_number(r, column);
    bool is_number = number(r->csv.field, &v);
    if (column != r->label) {
        if (!is_number) return not_a_number(r, column);
        t->x[at] = (float)v;
        return DL_OK;
    }
    if (!*r->csv.field) return not_a_number(r, column);
    if (!is_number) t->words = true;
    if (!is_number || v != floor(v) || fabs(v) > 9007199254740992.0) t->integers = false;
    t->y[n] = is_number ? v : NAN;
    return (t->label[n] = strdup(r->csv.field)) ? DL_OK : no_memory(r);
}

static dl_status read_records(reader *r) {
    bool more;
    for (;;) {
        DL_TRY(next_field(&r->csv, &more));
        if (!more) return DL_OK;
        DL_TRY(dl_interrupt_check_at(r->t->n));
        DL_TRY(room(r));
        r->t->label[r->t->n++] = NULL; /* counted at once, so that a failure releases its label */
        long line = r->csv.field_line, column = 0;
        for (;; column++) {
            if (column < r->columns) DL_TRY(take_field(r, r->t->n - 1, column));
            if (r->csv.last) break;
            DL_TRY(next_field(&r->csv, &more));
        }
        if (column + 1 != r->columns) return wrong_count(&r->csv, line, column + 1, r->columns);
    }
}

dl_status dl_csv_table_read(const char *name, const char *text, size_t n, const dl_csv_spec *spec, dl_csv_table *t) {
    reader r = {.spec = spec, .t = t};
    *t = (dl_csv_table){.integers = true};
    begin(&r.csv, name, text, n, spec->sep);
    dl_status st = read_first(&r);
    if (st == DL_OK && r.columns < 2)
        st = dl_fail_hint(DL_ERR_FORMAT, "is the separator another one? option sep",
                          "'%s' has %ld columns on its first line; "
                          "at least one feature and a label are wanted",
                          name, r.columns);
    if (st == DL_OK) st = find_label(&r);
    if (st == DL_OK) {
        t->features = r.columns - 1;
        if (!has_header(&r)) {
            end_scan(&r.csv);
            begin(&r.csv, name, text, n, spec->sep);
        }
        st = read_records(&r);
    }
    if (st == DL_OK && !t->n) st = dl_fail(DL_ERR_FORMAT, "'%s' has no lines of data", name);
    for (long i = 0; i < r.columns; i++) free(r.first[i]);
    free(r.first);
    end_scan(&r.csv);
    return st;
}

void dl_csv_table_free(dl_csv_table *t) {
    for (long i = 0; i < t->n; i++) free(t->label[i]);
    free(t->label);
    free(t->x);
    free(t->whole);
    free(t->y);
    *t = (dl_csv_table){0};
}
