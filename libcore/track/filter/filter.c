/* Translates the filter language of run lists to SQL with bound values.
 *
 *   filter    := both { or both }      both := term { and term }      term := [not] ( "(" filter ")" | condition )
 *   condition := name operator value | name [not] in "(" value {, value} ")" | name [not] like value
 *   name      := WORD | STRING | WORD "(" (WORD | STRING) ")"          value := STRING | WORD {WORD} */
#include <math.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "track/filter/filter_lex.h"
#include "track/filter/filter_names.h"
#include "track/filter/when.h"

enum { DEEPEST = 100, PATTERN_MAX = 256 };

typedef struct parser {
    const char *text;
    int at;                /* after the token */
    dl_filter_token token; /* the one looked at */
    sqlite3 *db;
    dl_clause *out;
    int depth;
    int inverted; /* after an odd number of "not" */
    const char
        *live; /* condition on the runs that count, as SQL; with `must_match` a condition that none meets fails */
    int must_match;
    char *units; /* of columns, filled in as they are read */
} parser;

static void advance(parser *p) { dl_filter_next(p->text, &p->at, &p->token); }

/* Puts the recorded failure at bytes of the text. */
static dl_status place(int at, int n) {
    dl_error e;
    dl_error_take(&e);
    e.at = at;
    e.length = n > 0 ? n : 1;
    return dl_error_put(&e);
}

/* A failure at bytes of the text. */
static dl_status fail_at(int at, int n, dl_status code, const char *hint, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static dl_status fail_at(int at, int n, dl_status code, const char *hint, const char *fmt, ...) {
    char said[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(said, sizeof said, fmt, ap);
    va_end(ap);
    dl_fail_hint(code, hint, "filter: %s", said);
    return place(at, n);
}

static dl_status expected_hint(parser *p, const char *what, const char *hint) {
    const dl_filter_token *t = &p->token;
    if (t->kind == DL_FT_BAD && t->why) return fail_at(t->at, t->n, DL_ERR_SYNTAX, hint, "%s", t->why);
    if (t->kind == DL_FT_END) return fail_at(t->at, 1, DL_ERR_SYNTAX, hint, "%s expected at its end", what);
    return fail_at(t->at, t->n, DL_ERR_SYNTAX, hint, "%s expected at '%.36s'", what, p->text + t->at);
}

static const char an_example[] = "for example: status = finished and lr >= 1e-3";
static dl_status expected(parser *p, const char *what) { return expected_hint(p, what, an_example); }

/* ---------------------------------------------------------------- regular expressions */

/* Repetitions make the C library copy what they repeat: their product is bounded. Back references are refused, since
 * matching them takes exponential time. */
static const char *pattern_trouble(const char *text) {
    double copies = 1;
    if (strlen(text) > PATTERN_MAX) return "is longer than 256 bytes";
    for (const char *c = text; *c; c++) {
        if (*c == '\\' && c[1] >= '1' && c[1] <= '9') return "has a back reference, which is not supported";
        if (*c == '\\' && c[1]) {
            c++;
        } else if (*c == '{') {
            const char *comma = strpbrk(c, ",}");
            copies *= fmax(1, fmax(atof(c + 1), comma && *comma == ',' ? atof(comma + 1) : 0));
        }
    }
    return copies > 1000 ? "repeats too often: at most 1000 times in all" : NULL;
}

static void free_pattern(void *re) {
    regfree(re);
    free(re);
}

/* dl_matches(pattern, text); the compiled pattern stays with the statement. */
static void matches(sqlite3_context *cx, int n DL_UNUSED, sqlite3_value **arg) {
    regex_t *known = sqlite3_get_auxdata(cx, 0), *re = known ? known : malloc(sizeof *re);
    const char *pattern = (const char *)sqlite3_value_text(arg[0]), *text = (const char *)sqlite3_value_text(arg[1]);
    if (!known && (!re || !pattern || regcomp(re, pattern, REG_EXTENDED | REG_NOSUB))) {
        free(re);
        return sqlite3_result_error(cx, "the regular expression cannot be used", -1);
    }
    sqlite3_result_int(cx, text && !regexec(re, text, 0, NULL, 0));
    if (!known) sqlite3_set_auxdata(cx, 0, re, free_pattern); /* last: it may free the pattern at once */
}

/* Compiles a pattern before the query runs, so that the message can point at it. */
static dl_status check_pattern(parser *p, const dl_filter_token *t) {
    regex_t re;
    char why[100] = "";
    const char *trouble = pattern_trouble(t->text);
    if (trouble)
        return fail_at(t->at, t->n, DL_ERR_VALUE, "~ looks for a part, literally", "the regular expression %s",
                       trouble);
    int code = regcomp(&re, t->text, REG_EXTENDED | REG_NOSUB);
    if (code) {
        regerror(code, &re, why, sizeof why);
        return fail_at(t->at, t->n, DL_ERR_VALUE, "~ looks for a part, literally",
                       "'%.100s' is not a regular expression: %s", t->text, why);
    }
    regfree(&re);
    int rc =
        sqlite3_create_function(p->db, "dl_matches", 2, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, matches, NULL, NULL);
    return rc == SQLITE_OK ? DL_OK : dl_db_fail(p->db, "prepare a filter");
}

/* ---------------------------------------------------------------- values */

typedef struct value {
    dl_filter_token token;
    int text;        /* compared as text; else as a number, `from` */
    double from, to; /* a date's span */
} value;

/* A WORD or STRING; with `many` further words belong to it, as in 2 days ago. */
static dl_status read_value(parser *p, value *v, int many) {
    if (p->token.kind != DL_FT_WORD && p->token.kind != DL_FT_STRING)
        return expected_hint(p, "a value",
                             p->token.kind == DL_FT_END
                                 ? an_example
                                 : "a value with signs like ^ or ( stands in quotes: name ~~ '^a.*z$'");
    *v = (value){.token = p->token};
    advance(p);
    while (many && v->token.kind == DL_FT_WORD && p->token.kind == DL_FT_WORD) {
        size_t n = strlen(v->token.text);
        snprintf(v->token.text + n, sizeof v->token.text - n, " %s", p->token.text);
        v->token.n = p->token.at + p->token.n - v->token.at;
        advance(p);
    }
    return DL_OK;
}

static int read_number(const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    return *text && !*end && !isnan(*out);
}

/* The value cannot be compared with what the name stands for. */
static dl_status wrong_value(parser *p, const dl_filter_name *o, const value *v, const char *what) {
    char hint[240];
    if (o->kind == DL_FK_METRIC)
        dl_filter_range(p->db, o, p->live, hint, sizeof hint);
    else
        dl_filter_values(p->db, o, p->live, NULL, hint, sizeof hint);
    return fail_at(v->token.at, v->token.n, DL_ERR_TYPE, hint, "%.200s is %s, '%.100s' is not a number", o->key, what,
                   v->token.text);
}

static dl_status check_status(const value *v) {
    const char *names[16];
    int n = 0;
    for (; n < 16 && strcmp(dl_run_status_name((dl_run_status)n), "unknown"); n++) {
        names[n] = dl_run_status_name((dl_run_status)n);
        if (!strcmp(names[n], v->token.text)) return DL_OK;
    }
    char hint[160];
    int used = 0;
    const char *near = dl_nearest(v->token.text, names, n);
    if (near) used = snprintf(hint, sizeof hint, "did you mean '%s'? ", near);
    for (int i = 0; i < n && used < (int)sizeof hint; i++)
        used += snprintf(hint + used, sizeof hint - (size_t)used, "%s%s", i ? ", " : "there are ", names[i]);
    return fail_at(v->token.at, v->token.n, DL_ERR_VALUE, hint, "no status is called '%.100s'", v->token.text);
}

/* A metric has no text to compare with: "loss = mse" means the parameter, if there is one. */
static int metric_is_param(parser *p, dl_filter_name *o) {
    const char *name = strcmp(o->key, "train/loss") ? o->key : "loss";
    if (!dl_filter_param(p->db, name, &o->type)) return 0;
    memmove(o->key, name, strlen(name) + 1);
    o->kind = DL_FK_PARAM;
    return 1;
}

/* How a value is compared with a parameter, which may have numbers in some runs and text in others: as a number unless
 * it is none, is in quotes, or the parameter has only text. */
static dl_status check_param_value(parser *p, const dl_filter_name *o, const dl_filter_token *op, value *v) {
    int number = read_number(v->token.text, &v->from);
    v->text = !number || (v->token.kind == DL_FT_STRING && op->how != DL_FH_ORDER) || o->type == DL_FY_TEXT;
    if (o->type == DL_FY_TEXT && number && v->token.kind == DL_FT_WORD) {
        char hint[240];
        dl_filter_values(p->db, o, p->live, NULL, hint, sizeof hint);
        return fail_at(v->token.at, v->token.n, DL_ERR_TYPE, hint, "%.200s has no numbers to compare %.100s with",
                       o->key, v->token.text);
    }
    if (o->type == DL_FY_NUMBER && !number) return wrong_value(p, o, v, "a number");
    return DL_OK;
}

/* Reads the value as the type of the name. */
static dl_status check_value(parser *p, dl_filter_name *o, const dl_filter_token *op, value *v) {
    const dl_filter_token *t = &v->token;
    if (o->kind == DL_FK_METRIC && !read_number(t->text, &v->from) && !metric_is_param(p, o))
        return wrong_value(p, o, v, "a metric");
    if (o->kind == DL_FK_PARAM) return check_param_value(p, o, op, v);
    switch (o->type) {
    case DL_FY_STATUS:
        v->text = 1;
        if (op->how == DL_FH_ORDER)
            return fail_at(op->at, op->n, DL_ERR_TYPE, "status = finished, status in (failed, killed)",
                           "statuses have no order");
        return check_status(v);
    case DL_FY_DATE:
        if (dl_when_parse(t->text, time(NULL), &v->from, &v->to)) return DL_OK;
        return fail_at(
            t->at, t->n, DL_ERR_VALUE,
            "write 2026-11-22, \"2026-11-22 10:30\", \"2026-11-22T10:30Z\", 22.11.2026, today, 10:30 or 2d ago",
            "%s is a date, '%.100s' is none", o->key, t->text);
    case DL_FY_DURATION:
        if (dl_duration_parse(t->text, &v->from)) return DL_OK;
        return fail_at(t->at, t->n, DL_ERR_VALUE, "write 90, 90s, 5min, 1h30m or 2d",
                       "%s is a duration, '%.100s' is none", o->key, t->text);
    case DL_FY_TEXT: v->text = 1; return DL_OK;
    default: return read_number(t->text, &v->from) ? DL_OK : wrong_value(p, o, v, "a number");
    }
}

/* ---------------------------------------------------------------- conditions */

/* ?N of a value; 0 on failure. */
static int bind(parser *p, const value *v, double number) {
    return v->text ? dl_clause_text(p->out, v->token.text) : dl_clause_number(p->out, number);
}

/* The test of one value on an expression. */
static dl_status emit_test(parser *p, const dl_filter_name *o, const char *expr, const dl_filter_token *op,
                           const value *v) {
    sqlite3_str *sql = p->out->sql;
    static const char *const forms[] = {
        [DL_FH_PART] = "instr(lower(%s), lower(?%d)) > 0", [DL_FH_LIKE] = "%s like ?%d"};
    int span = o->type == DL_FY_DATE && v->to > v->from, equal = op->how == DL_FH_EQUAL || op->how == DL_FH_IN;
    /* a day is equal to all that lies in it, and up to it means up to its end */
    int end = span && op->how == DL_FH_ORDER && !strcmp(op->sql, "<=");
    int a = bind(p, v, end ? v->to : v->from), b = span && equal ? bind(p, v, v->to) : 1;
    if (!a || !b) return dl_failed();
    if (op->how == DL_FH_PATTERN)
        sqlite3_str_appendf(sql, "dl_matches(?%d, %s)", a, expr);
    else if (op->how == DL_FH_PART || op->how == DL_FH_LIKE)
        sqlite3_str_appendf(sql, forms[op->how], expr, a);
    else if (span && equal)
        sqlite3_str_appendf(sql, "%s(%s >= ?%d and %s < ?%d)", op->negated && !(op->how == DL_FH_IN) ? "not " : "",
                            expr, a, expr, b);
    else
        sqlite3_str_appendf(sql, "%s %s ?%d", expr, op->how == DL_FH_IN ? "=" : end ? "<" : op->sql, a);
    return DL_OK;
}

/* The SQL expression that a test compares. */
static const char *expression(const dl_filter_name *o, int text) {
    if (o->kind == DL_FK_TAG) return "t.tag";
    if (o->kind == DL_FK_PARAM) return text ? "p.value" : "p.num";
    return o->sql;
}

/* The SQL before a test: that the run has such a row, found by one walk of an index for all runs. *close: the SQL that
 * ends it. */
static dl_status emit_scope(parser *p, const dl_filter_name *o, const char **close) {
    static const char *const scopes[] = {[DL_FK_TAG] = "r.id in (select t.run_id from tag t where true",
                                         [DL_FK_PARAM] = "r.id in (select p.run_id from param p where p.key = ?%d",
                                         [DL_FK_METRIC] =
                                             "r.id in (select s.run_id from series s where s.n > 0 and s.key = ?%d"};
    *close = o->kind == DL_FK_COLUMN ? "" : ")";
    if (o->kind == DL_FK_COLUMN) return DL_OK;
    int key = o->kind == DL_FK_TAG ? 1 : dl_clause_text(p->out, o->key);
    if (!key) return dl_failed();
    sqlite3_str_appendf(p->out->sql, scopes[o->kind], key);
    return DL_OK;
}

/* name = none, name is not none: whether the run has a value. */
static dl_status emit_none(parser *p, const dl_filter_name *o, int negated) {
    sqlite3_str *sql = p->out->sql;
    const char *close;
    sqlite3_str_appendall(sql, negated ? "(" : "not (");
    DL_TRY(emit_scope(p, o, &close));
    if (o->kind == DL_FK_COLUMN)
        sqlite3_str_appendf(sql, "%s is not null and %s != ''", o->sql, o->sql);
    else if (o->kind == DL_FK_PARAM)
        sqlite3_str_appendall(sql, " and p.value != 'none'");
    sqlite3_str_appendf(sql, "%s)", close);
    return DL_OK;
}

/* none, or null as in SQL. */
static int is_none(const value *v, const dl_filter_token *op) {
    return op->how == DL_FH_EQUAL && v->token.kind == DL_FT_WORD &&
           (!strcmp(v->token.text, "none") || !strcasecmp(v->token.text, "null"));
}

/* A column as text; a date as lists show it. */
static char *column_text(const dl_filter_name *o) {
    if (o->type != DL_FY_DATE) return sqlite3_mprintf("coalesce(%s, '')", o->sql);
    return sqlite3_mprintf("coalesce(strftime('%%Y-%%m-%%d %%H:%%M:%%S', %s, 'unixepoch', 'localtime'), '')", o->sql);
}

/* Tests of all values, joined by "or"; "not" stands before them, for a tag before the whole. */
static dl_status emit(parser *p, dl_filter_name *o, const dl_filter_token *op, value *v, int n) {
    sqlite3_str *sql = p->out->sql;
    const char *close, *expr;
    int equal = op->how == DL_FH_EQUAL, tag = o->kind == DL_FK_TAG, outside = op->negated && tag;
    dl_filter_token test = *op;
    if (tag && equal && op->negated) test.sql = "=", test.negated = 0;
    sqlite3_str_appendall(sql, outside ? "not " : "");
    DL_TRY(emit_scope(p, o, &close));
    sqlite3_str_appendf(sql, "%s%s(", o->kind == DL_FK_COLUMN ? "" : " and ",
                        op->negated && !outside && !equal ? "not " : "");
    for (int i = 0; i < n; i++) {
        char *whole = NULL;
        expr = expression(o, v[i].text);
        if (o->kind == DL_FK_COLUMN && v[i].text) expr = whole = column_text(o);
        sqlite3_str_appendall(sql, i ? " or " : "");
        dl_status st = expr ? emit_test(p, o, expr, &test, &v[i]) : dl_fail(DL_ERR_MEMORY, "no memory for a query");
        sqlite3_free(whole);
        if (st != DL_OK) return st;
    }
    sqlite3_str_appendf(sql, ")%s", close);
    return DL_OK;
}

static dl_status read_name(parser *p, dl_filter_name *o) {
    dl_filter_token first = p->token;
    if (first.kind != DL_FT_WORD && first.kind != DL_FT_STRING) return expected(p, "a name");
    advance(p);
    if (first.kind == DL_FT_STRING || p->token.kind != DL_FT_OPEN)
        return dl_filter_find(p->db, NULL, first.text, o) == DL_OK ? DL_OK : place(first.at, first.n);
    advance(p);
    dl_filter_token key = p->token;
    if (key.kind != DL_FT_WORD && key.kind != DL_FT_STRING) return expected(p, "the name of a metric");
    advance(p);
    if (p->token.kind != DL_FT_CLOSE) return expected(p, "')'");
    advance(p);
    return dl_filter_find(p->db, first.text, key.text, o) == DL_OK ? DL_OK : place(first.at, key.at + key.n - first.at);
}

/* The operator, "not" before it included. */
static dl_status read_operator(parser *p, dl_filter_token *op) {
    int not_first = p->token.kind == DL_FT_NOT, at = p->token.at;
    if (not_first) advance(p);
    if (p->token.kind != DL_FT_COMPARE || (not_first && p->token.how != DL_FH_IN && p->token.how != DL_FH_LIKE))
        return expected(p, not_first ? "in or like" : "one of = != < <= > >= ~ ~~ in like");
    *op = p->token;
    op->n = op->at + op->n - at, op->at = at;
    op->negated |= not_first;
    advance(p);
    if (op->how == DL_FH_EQUAL && !strcmp(op->text, "is") && p->token.kind == DL_FT_NOT) {
        op->sql = "!=", op->negated = 1;
        advance(p);
    }
    return DL_OK;
}

/* Reads a value and checks it against the name. Part, pattern and like compare text, whatever the type; dates and
 * durations may have several words. */
static dl_status read_checked(parser *p, dl_filter_name *o, const dl_filter_token *op, value *v) {
    int words = op->how == DL_FH_PART || op->how == DL_FH_LIKE || op->how == DL_FH_PATTERN;
    DL_TRY(read_value(p, v, !words && (o->type == DL_FY_DATE || o->type == DL_FY_DURATION)));
    if (is_none(v, op)) return DL_OK;
    if (!words) return check_value(p, o, op, v);
    if (o->kind == DL_FK_METRIC && !metric_is_param(p, o))
        return fail_at(op->at, op->n, DL_ERR_TYPE,
                       "compare its numbers: = != < <= > >=", "%.200s is a metric, not text", o->key);
    v->text = 1;
    return op->how == DL_FH_PATTERN ? check_pattern(p, &v->token) : DL_OK;
}

/* Fails when no run meets the condition whose SQL begins at byte `sql`; the hint names values that exist. */
static dl_status check_met(parser *p, const dl_filter_name *o, const dl_filter_token *op, const value *v, int sql,
                           int at) {
    char hint[240];
    DL_DB_STATEMENT(q);
    if (!p->must_match || p->inverted || op->negated) return DL_OK;
    if (sqlite3_str_errcode(p->out->sql)) return dl_fail(DL_ERR_MEMORY, "no memory for a query");
    char *text = sqlite3_mprintf("select 1 from run as r where %s and (%s) limit 1", p->live,
                                 sqlite3_str_value(p->out->sql) + sql);
    dl_status st = text ? dl_db_prepare(p->db, &q, text) : dl_fail(DL_ERR_MEMORY, "no memory for a query");
    if (st == DL_OK) st = dl_clause_bind(p->out, p->db, q);
    int found = st == DL_OK && sqlite3_step(q) == SQLITE_ROW;
    sqlite3_free(text);
    if (st != DL_OK || found) return st;
    if (is_none(v, op))
        snprintf(hint, sizeof hint, "every run has one");
    else if (op->how == DL_FH_ORDER || o->kind == DL_FK_METRIC)
        dl_filter_range(p->db, o, p->live, hint, sizeof hint);
    else
        dl_filter_values(p->db, o, p->live, v->token.text, hint, sizeof hint);
    int end = p->token.at;
    while (end > at && p->text[end - 1] == ' ') end--;
    return fail_at(v->token.at, v->token.n, DL_ERR_NAME, *hint ? hint : "no run has one", "no run has %.*s", end - at,
                   p->text + at);
}

static dl_status condition(parser *p) {
    dl_filter_name o;
    dl_filter_token op = {.kind = DL_FT_END};
    value *v = NULL;
    int n = 0, list = 0, at = p->token.at, sql = sqlite3_str_length(p->out->sql);
    dl_status st = read_name(p, &o);
    if (st == DL_OK) st = read_operator(p, &op);
    if (st == DL_OK) list = op.how == DL_FH_IN;
    if (list && p->token.kind != DL_FT_OPEN) st = expected(p, "'(' and values");
    for (; st == DL_OK && (!n || (list && p->token.kind == DL_FT_COMMA)); n++) {
        value *more = realloc(v, (size_t)(n + 1) * sizeof *v);
        if (list) advance(p);
        if (more) v = more;
        st = more ? read_checked(p, &o, &op, &v[n]) : dl_fail(DL_ERR_MEMORY, "no memory for a filter");
    }
    if (st == DL_OK && list && p->token.kind != DL_FT_CLOSE) st = expected(p, "',' or ')'");
    if (st == DL_OK && list) advance(p);
    if (st == DL_OK) st = is_none(v, &op) ? emit_none(p, &o, op.negated) : emit(p, &o, &op, v, n);
    if (st == DL_OK) st = check_met(p, &o, &op, v, sql, at);
    free(v);
    return st;
}

/* ---------------------------------------------------------------- and, or, not */

static dl_status either(parser *p);

static dl_status term(parser *p) {
    int open = p->token.at;
    if (++p->depth > DEEPEST)
        return fail_at(open, 1, DL_ERR_SYNTAX, "", "it is nested too deeply: more than %d levels", DEEPEST);
    dl_status st;
    if (p->token.kind == DL_FT_NOT) {
        advance(p);
        sqlite3_str_appendall(p->out->sql, "not ");
        p->inverted ^= 1;
        st = term(p);
        p->inverted ^= 1;
    } else {
        int group = p->token.kind == DL_FT_OPEN;
        if (group) advance(p);
        sqlite3_str_appendall(p->out->sql, "(");
        st = group ? either(p) : condition(p);
        if (st == DL_OK && group && p->token.kind != DL_FT_CLOSE) st = expected(p, "')'");
        if (st == DL_OK && group) advance(p);
        sqlite3_str_appendall(p->out->sql, ")");
    }
    p->depth--;
    return st;
}

/* Parts with the same word between them. */
static dl_status chain(parser *p, dl_status (*part)(parser *p), dl_filter_token_kind between, const char *sql) {
    for (;; advance(p)) {
        DL_TRY(part(p));
        if (p->token.kind != between) return DL_OK;
        sqlite3_str_appendall(p->out->sql, sql);
    }
}

static dl_status both(parser *p) { return chain(p, term, DL_FT_AND, " and "); }
static dl_status either(parser *p) { return chain(p, both, DL_FT_OR, " or "); }

static dl_status start(parser *p, dl_clause *c, sqlite3 *db, const char *text) {
    *p = (parser){.text = text, .db = db, .out = c, .live = "r.deleted_us is null"};
    if (strlen(text) > 1 << 16) return dl_fail(DL_ERR_VALUE, "the filter is longer than 65,536 bytes");
    advance(p);
    return DL_OK;
}

static dl_status whole(parser *p) {
    dl_clause *c = p->out;
    if (p->token.kind == DL_FT_END) return DL_OK;
    sqlite3_str_appendall(c->sql, " and (");
    DL_TRY(either(p));
    if (p->token.kind == DL_FT_CLOSE)
        return fail_at(p->token.at, 1, DL_ERR_SYNTAX, "leave it out, or open it before", "this ')' was never opened");
    if (p->token.kind != DL_FT_END) {
        int several = p->token.kind == DL_FT_WORD || p->token.kind == DL_FT_STRING || p->token.kind == DL_FT_OPEN;
        DL_TRY(expected(p, several ? "'and', 'or' or the end (a value with blanks or parentheses stands in quotes)"
                                   : "'and', 'or' or the end"));
    }
    sqlite3_str_appendall(c->sql, ")");
    return DL_OK;
}

dl_status dl_filter_where(dl_clause *c, sqlite3 *db, const char *text) {
    parser p;
    DL_TRY(start(&p, c, db, text));
    return whole(&p);
}

/* Reads a filter for its failures alone. live: see `must_match`; NULL where only the text is checked. */
static dl_status check_filter(dl_store *s, const char *where, const char *live) {
    dl_clause c DL_SCOPE(dl_clause_free) = {0};
    parser p;
    if (!where) return dl_fail_null("the filter");
    DL_TRY(dl_store_read_lock(s));
    dl_status st = dl_clause_init(&c);
    if (st == DL_OK) {
        st = start(&p, &c, s->r, where);
        if (live) p.live = live, p.must_match = 1;
        if (st == DL_OK) st = whole(&p);
    }
    return dl_store_read_unlock(s, st);
}

dl_status dl_run_filter_check(dl_store *s, const char *where) { return check_filter(s, where, NULL); }

dl_status dl_run_filter_met(dl_store *s, const char *where, int deleted) {
    return check_filter(s, where, deleted ? "r.deleted_us is not null" : "r.deleted_us is null");
}

/* ---------------------------------------------------------------- order and columns */

/* The SQL expression of what a name means for a run; NULL on failure. */
static char *value_of(parser *p, const dl_filter_name *o) {
    static const char *const forms[] = {
        [DL_FK_TAG] = "(select group_concat(t.tag, ', ') from tag t where t.run_id = r.id)",
        /* whole numbers are shown without a point */
        [DL_FK_PARAM] =
            "(select case when p.num is null then p.value when p.num = cast(p.num as integer)"
            " then cast(p.num as integer) else p.num end from param p where p.run_id = r.id and p.key = ?%d)"};
    int key = o->kind == DL_FK_PARAM || o->kind == DL_FK_METRIC ? dl_clause_text(p->out, o->key) : 1;
    char *e = !key                      ? NULL
              : o->kind == DL_FK_COLUMN ? sqlite3_mprintf("%s", o->sql)
              : o->kind == DL_FK_METRIC ? sqlite3_mprintf("(select %s from series s where s.run_id = r.id and s.key"
                                                          " = ?%d and s.n > 0)",
                                                          o->sql, key)
                                        : sqlite3_mprintf(forms[o->kind], key);
    if (key && !e) dl_fail(DL_ERR_MEMORY, "no memory for a query");
    return e;
}

/* Takes a '-' before a name: 1 when there was one. */
static int take_minus(parser *p) {
    if (p->token.kind != DL_FT_WORD || *p->token.text != '-') return 0;
    p->at = p->token.at + 1;
    advance(p);
    return 1;
}

/* Reads names between commas. */
static dl_status each_name(parser *p, dl_status (*take)(parser *p, int i)) {
    for (int i = 0;; i++) {
        DL_TRY(take(p, i));
        if (p->token.kind == DL_FT_END) return DL_OK;
        if (p->token.kind != DL_FT_COMMA) return expected(p, "',' or the end");
        advance(p);
    }
}

static dl_status take_order(parser *p, int i) {
    dl_filter_name o;
    int down = take_minus(p);
    DL_TRY(read_name(p, &o));
    char *e = value_of(p, &o);
    if (!e) return dl_failed();
    /* runs without the value come last in either direction */
    sqlite3_str_appendf(p->out->sql, "%s%s %s nulls last", i ? ", " : " order by ", e, down ? "desc" : "asc");
    sqlite3_free(e);
    return DL_OK;
}

dl_status dl_filter_sort(dl_clause *c, sqlite3 *db, const char *text) {
    parser p;
    DL_TRY(start(&p, c, db, text));
    DL_TRY(each_name(&p, take_order));
    sqlite3_str_appendall(c->sql, ", r.id desc");
    return DL_OK;
}

static dl_status take_column(parser *p, int i) {
    dl_filter_name o;
    int from = p->token.at;
    DL_TRY(read_name(p, &o));
    int to = p->token.at;
    while (to > from && strchr(" \t\n", p->text[to - 1])) to--;
    if (p->text[from] == '"' || p->text[from] == '\'') from++, to--;
    char *e = value_of(p, &o), *name = e ? sqlite3_mprintf("%.*s", to - from, p->text + from) : NULL;
    dl_status st = !e      ? dl_failed()
                   : !name ? dl_fail(DL_ERR_MEMORY, "no memory for a query")
                   : i >= DL_TABLE_WIDEST
                       ? fail_at(from, to - from, DL_ERR_VALUE, NULL, "at most %d columns are shown", DL_TABLE_WIDEST)
                       : DL_OK;
    if (st == DL_OK) {
        sqlite3_str_appendf(p->out->sql, "%s%s as \"%w\"", i ? ", " : "", e, name);
        p->units[i] = o.type == DL_FY_DATE ? 'd' : o.type == DL_FY_DURATION ? 's' : ' ';
    }
    sqlite3_free(e);
    sqlite3_free(name);
    return st;
}

dl_status dl_filter_columns(dl_clause *c, sqlite3 *db, const char *text, char units[DL_TABLE_WIDEST]) {
    parser p;
    DL_TRY(start(&p, c, db, text));
    p.units = units;
    return each_name(&p, take_column);
}
