/* CSV text: the scanner, and tables of numbers with a label column, see csv.h. */
#include "data/tables/csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "data/data.h"

/* ---------------------------------------------------------------- fields */

/* A scanner over text[n]. `name` is used in messages. */
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
                            "'%s', line %ld, column %zu: a NUL byte; this is not text", c->name, c->line,
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

/* At "\n", "\r\n" or "\r". */
static bool at_newline(const scanner *c) { return c->at < c->n && (c->text[c->at] == '\n' || c->text[c->at] == '\r'); }
static void skip_newline(scanner *c) {
    c->at += c->text[c->at] == '\r' && c->at + 1 < c->n && c->text[c->at + 1] == '\n' ? 2 : 1;
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
    long *place;  /* of each column: the number of the feature, or -1 - that of the label */
    long columns, cap;
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

/* The column of that name, or of that number, from the end when negative; -1: there is none. */
static long column_of(const reader *r, const char *want) {
    double v;
    if (number(want, &v) && v == floor(v) && v >= (double)-r->columns && v < (double)r->columns)
        return (long)v < 0 ? (long)v + r->columns : (long)v;
    for (long i = 0; i < r->columns; i++)
        if (!strcmp(r->first[i], want) && strcmp(r->spec->header, "no")) return i;
    return -1;
}

static dl_status no_column(const reader *r, const char *want) {
    return dl_fail_unknown(want, (const char *const *)r->first, (int)(r->columns < 1000 ? r->columns : 1000),
                           "columns are named by the first line, or numbered from 0",
                           "'%s' has no column '%s' among its %ld", r->csv.name, want, r->columns);
}

static dl_status add_label(reader *r, const char *want) {
    long column = *want ? column_of(r, want) : r->columns - 1;
    if (column < 0) return no_column(r, want);
    if (r->place[column] < 0) return dl_fail(DL_ERR_VALUE, "'%s': column '%s' is a label twice", r->csv.name, want);
    r->place[column] = -1 - r->t->labels++;
    return DL_OK;
}

/* Finds the label columns. A name may hold commas: then it is looked for as a whole first. */
static dl_status find_labels(reader *r) {
    if (!(r->place = dl_data_alloc(r->columns + 1, sizeof *r->place))) return dl_failed();
    const char *want = r->spec->label;
    if (!strchr(want, ',') || column_of(r, want) >= 0) {
        DL_TRY(add_label(r, want));
    } else {
        char *text = strdup(want), *rest = NULL;
        if (!text) return no_memory(r);
        dl_status st = DL_OK;
        for (char *w = strtok_r(text, ",", &rest); w && st == DL_OK; w = strtok_r(NULL, ",", &rest))
            st = add_label(r, w + strspn(w, " "));
        free(text);
        DL_TRY(st);
    }
    for (long i = 0; i < r->columns; i++)
        if (r->place[i] >= 0) r->place[i] = r->t->features++;
    if (!r->t->features)
        return dl_fail(DL_ERR_VALUE, "'%s': all of its %ld columns are labels", r->csv.name, r->columns);
    return DL_OK;
}

/* Names of the label columns; the first record has them. */
static dl_status name_labels(reader *r, bool header) {
    dl_csv_table *t = r->t;
    if (!(t->names = dl_data_alloc(t->labels, sizeof *t->names))) return dl_failed();
    for (long i = 0; i < r->columns; i++)
        if (r->place[i] < 0 && !(t->names[-1 - r->place[i]] = strdup(header ? r->first[i] : ""))) return no_memory(r);
    return DL_OK;
}

static bool has_header(const reader *r) {
    double v;
    if (strcmp(r->spec->header, "auto")) return !strcmp(r->spec->header, "yes");
    for (long i = 0; i < r->columns; i++)
        if ((r->place[i] >= 0 || r->columns == 1) && !number(r->first[i], &v)) return true;
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
    if (x && (y = dl_memory_resize(t->y, r->cap, cap, t->labels * (long)sizeof *y))) t->y = y;
    if (y && (label = dl_memory_resize(t->label, r->cap, cap, t->labels * (long)sizeof *label))) t->label = label;
    if (!label) return dl_failed();
    r->cap = cap;
    return DL_OK;
}

static dl_status not_a_number(const reader *r, long column) {
    const scanner *c = &r->csv;
    double v;
    if (r->spec->whole && number(c->field, &v))
        return dl_fail_hint(DL_ERR_FORMAT, "dtype=f32 reads floating numbers",
                            "'%s', line %ld, column %ld: \"%.40s\" is not an integer of 64 bits (field %ld)", c->name,
                            c->field_line, c->field_col, c->field, column);
    return dl_fail_hint(DL_ERR_FORMAT,
                        *c->field ? "features are numbers; read_csv reads words and dates, categories numbers words"
                                  : "a value is missing; fill it in or drop the line",
                        "'%s', line %ld, column %ld: \"%.40s\" is not a number (field %ld)", c->name, c->field_line,
                        c->field_col, c->field, column);
}

static dl_status take_label(reader *r, long at, long column) {
    dl_csv_table *t = r->t;
    double v;
    if (!*r->csv.field)
        return dl_fail_hint(DL_ERR_FORMAT, "fill it in or drop the line",
                            "'%s', line %ld, column %ld: the label is blank (field %ld)", r->csv.name,
                            r->csv.field_line, r->csv.field_col, column);
    bool is_number = number(r->csv.field, &v);
    if (!is_number) t->words = true;
    if (!is_number || v != floor(v) || fabs(v) > 9007199254740992.0) t->integers = false;
    t->y[at] = is_number ? v : NAN;
    return (t->label[at] = strdup(r->csv.field)) ? DL_OK : no_memory(r);
}

/* Stores the field as a column of record `n`. */
static dl_status take_field(reader *r, long n, long column) {
    dl_csv_table *t = r->t;
    long place = r->place[column], at = n * t->features + place;
    double v;
    if (place < 0) return take_label(r, n * t->labels - 1 - place, column);
    if (r->spec->whole) return dl_csv_whole(r->csv.field, &t->whole[at]) ? DL_OK : not_a_number(r, column);
    if (!number(r->csv.field, &v)) return not_a_number(r, column);
    t->x[at] = (float)v;
    return DL_OK;
}

static dl_status read_records(reader *r) {
    bool more;
    for (;;) {
        DL_TRY(next_field(&r->csv, &more));
        if (!more) return DL_OK;
        DL_TRY(dl_interrupt_check_at(r->t->n));
        DL_TRY(room(r));
        for (long i = 0; i < r->t->labels; i++) r->t->label[r->t->n * r->t->labels + i] = NULL;
        r->t->n++; /* counted at once, so that a failure releases its labels */
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
    if (st == DL_OK) st = find_labels(&r);
    bool header = st == DL_OK && has_header(&r);
    if (st == DL_OK) st = name_labels(&r, header);
    if (st == DL_OK) {
        if (!header) {
            end_scan(&r.csv);
            begin(&r.csv, name, text, n, spec->sep);
        }
        st = read_records(&r);
    }
    if (st == DL_OK && !t->n) st = dl_fail(DL_ERR_FORMAT, "'%s' has no lines of data", name);
    for (long i = 0; i < r.columns; i++) free(r.first[i]);
    free(r.first);
    free(r.place);
    end_scan(&r.csv);
    return st;
}

void dl_csv_table_free(dl_csv_table *t) {
    for (long i = 0; i < t->n * t->labels; i++) free(t->label[i]);
    for (long i = 0; t->names && i < t->labels; i++) free(t->names[i]);
    free(t->names);
    free(t->label);
    free(t->x);
    free(t->whole);
    free(t->y);
    *t = (dl_csv_table){0};
}

/* ---------------------------------------------------------------- dates */

/* Days from 1970-01-01 of the proleptic Gregorian calendar (Hinnant, chrono-compatible low-level date algorithms). */
static int64_t days_from(int64_t y, int m, int d) {
    y -= m <= 2;
    int64_t era = (y >= 0 ? y : y - 399) / 400, year = y - era * 400;
    int64_t day = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    return era * 146097 + year * 365 + year / 4 - year / 100 + day - 719468;
}

/* ISO 8601: 2024-02-29, 2024-02-29 12:30, 2024-02-29T12:30:15Z. */
int dl_csv_date(const char *s, long *seconds) {
    static const int lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y, m, d, h = 0, min = 0, sec = 0, n = 0, more = 0;
    if (sscanf(s, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || n != 10 || m < 1 || m > 12) return 0;
    int leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    if (d < 1 || d > lengths[m - 1] + (m == 2 && leap)) return 0;
    s += n;
    if ((*s == 'T' || *s == ' ') && sscanf(s + 1, "%2d:%2d%n", &h, &min, &more) == 2 && more == 5) {
        s += 6;
        if (*s == ':' && sscanf(s + 1, "%2d%n", &sec, &more) == 1 && more == 2) s += 3;
    }
    if (*s == 'Z') s++;
    if (!is_blank(s) || h > 23 || min > 59 || sec > 59) return 0;
    *seconds = days_from(y, m, d) * 86400 + h * 3600 + min * 60 + sec;
    return 1;
}
