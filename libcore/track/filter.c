/* The filter language of run lists, "status = finished and (lr >= 1e-3 or tag = good)", as SQL with bound values. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "track/query.h"

/* ---------------------------------------------------------------- clauses */

dl_status dl_clause_init(dl_clause *c) {
    *c = (dl_clause){.sql = sqlite3_str_new(NULL)};
    return c->sql ? DL_OK : dl_fail(DL_ERR_MEMORY, "no memory for a query");
}

void dl_clause_free(dl_clause *c) {
    sqlite3_free(sqlite3_str_finish(c->sql));
    for (int i = 0; i < c->nvalue; i++) free(c->values[i].text);
    *c = (dl_clause){0};
}

static int add_number(dl_clause *c, double number) {
    if (c->nvalue == (int)(sizeof c->values / sizeof *c->values)) {
        dl_fail_hint(DL_ERR_VALUE, "filter in two steps, or ask with sql", "the filter has more than %d conditions",
                     (int)(sizeof c->values / sizeof *c->values));
        return 0;
    }
    c->values[c->nvalue].number = number;
    return ++c->nvalue;
}

int dl_clause_text(dl_clause *c, const char *text) {
    char *copy = strdup(text);
    int at = copy ? add_number(c, 0) : 0;
    if (!copy)
        dl_fail(DL_ERR_MEMORY, "no memory for a query");
    else if (at)
        c->values[at - 1].text = copy;
    else
        free(copy);
    return at;
}

dl_status dl_clause_prepare(dl_clause *c, sqlite3 *db, sqlite3_stmt **st) {
    *st = NULL;
    if (sqlite3_str_errcode(c->sql)) return dl_fail(DL_ERR_MEMORY, "no memory for a query");
    DL_TRY(dl_db_prepare(db, st, sqlite3_str_value(c->sql)));
    for (int i = 0; i < c->nvalue; i++) {
        int rc = c->values[i].text ? sqlite3_bind_text(*st, i + 1, c->values[i].text, -1, SQLITE_STATIC)
                                   : sqlite3_bind_double(*st, i + 1, c->values[i].number);
        if (rc != SQLITE_OK) return dl_db_fail(db, "bind a value");
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- names */

/* What may be asked of a run itself. Times are seconds since 1970. */
static const struct {
    const char *name, *sql;
    int numeric;
} columns[] = {
    {"id", "r.id", 1},
    {"name", "r.name", 0},
    {"status", "r.status", 0},
    {"experiment", "r.experiment", 0},
    {"group", "r.grp", 0},
    {"device", "r.device", 0},
    {"seed", "r.seed", 1},
    {"model", "r.model_name", 0},
    {"n_params", "r.n_params", 1},
    {"dataset", "r.dataset", 0},
    {"host", "r.host", 0},
    {"commit", "r.git_commit", 0},
    {"script", "r.script_path", 0},
    {"note", "r.note", 0},
    {"error", "r.error", 0},
    {"parent", "r.parent_id", 1},
    {"sweep", "r.sweep_id", 1},
    {"started", "(r.started_us / 1e6)", 1},
    {"ended", "(r.ended_us / 1e6)", 1},
    {"seconds", "((coalesce(r.ended_us, strftime('%s', 'now') * 1000000) - r.started_us) / 1e6)", 1},
};
enum { NCOLUMN = sizeof columns / sizeof *columns };

/* Statistics of a metric: min(test/loss). */
static const struct {
    const char *name, *sql;
} statistics[] = {
    {"last", "s.last"}, {"first", "s.first"}, {"min", "s.min"},
    {"max", "s.max"},   {"n", "s.n"},         {"mean", "(s.sum / (s.n - s.n_nan))"},
};
enum { NSTATISTIC = sizeof statistics / sizeof *statistics };

typedef enum kind { K_COLUMN, K_TAG, K_PARAM, K_METRIC } kind;

typedef struct operand {
    kind kind;
    const char *sql; /* column or statistic */
    int numeric;     /* a column of numbers */
    char key[DL_RING_KEY_MAX + 1];
} operand;

static int exists(sqlite3 *db, const char *sql, const char *key) {
    int64_t found = 0;
    return dl_db_int(db, &found, sql, "t", key) == DL_OK && found;
}

static dl_status unknown(const char *name) {
    const char *names[NCOLUMN + 1] = {"tag"};
    for (int i = 0; i < NCOLUMN; i++) names[i + 1] = columns[i].name;
    return dl_fail_unknown(name, names, NCOLUMN + 1,
                           "columns of a run are name, status, seed, ...; metrics are written train/loss",
                           "no run has a parameter or metric '%.200s'", name);
}

static dl_status resolve(sqlite3 *db, const char *statistic, const char *name, operand *o) {
    *o = (operand){.sql = "s.last"};
    snprintf(o->key, sizeof o->key, "%s", name);
    if (statistic) {
        int i = 0;
        while (i < NSTATISTIC && strcmp(statistics[i].name, statistic)) i++;
        if (i == NSTATISTIC)
            return dl_fail_hint(DL_ERR_NAME, "there are last, first, min, max, mean and n", "no statistic '%s'",
                                statistic);
        o->sql = statistics[i].sql;
    } else {
        for (int i = 0; i < NCOLUMN; i++)
            if (!strcmp(columns[i].name, name)) {
                o->sql = columns[i].sql;
                o->numeric = columns[i].numeric;
                return DL_OK;
            }
        o->kind = K_TAG;
        if (!strcmp(name, "tag")) return DL_OK;
        /* the loss function is a parameter, too: see condition() */
        o->kind = K_PARAM;
        if (strcmp(name, "loss") && exists(db, "select 1 from param where key = ?1 limit 1", name)) return DL_OK;
    }
    o->kind = K_METRIC;
    if (dl_metric_key(db, name, o->key, sizeof o->key) == DL_OK) return DL_OK;
    if (!statistic && exists(db, "select 1 from param where key = ?1 limit 1", name)) {
        o->kind = K_PARAM;
        return DL_OK;
    }
    if (dl_error_last()->code != DL_ERR_NAME || statistic || strchr(name, '/')) return dl_error_last()->code;
    return unknown(name);
}

/* ---------------------------------------------------------------- parser */

typedef struct parser {
    const char *text, *at;
    sqlite3 *db;
    dl_clause *out;
    int depth;
    char word[DL_RING_KEY_MAX + 1]; /* the latest word or value read */
    int quoted;
} parser;

static dl_status syntax(parser *p, const char *want) {
    char rest[40];
    snprintf(rest, sizeof rest, "%.36s", p->at);
    return dl_fail_hint(DL_ERR_SYNTAX, "for example: status = finished and lr >= 1e-3", "filter: %s expected at '%s'",
                        want, *p->at ? rest : "its end");
}

static void skip_space(parser *p) {
    while (isspace((unsigned char)*p->at)) p->at++;
}

static int is_word(char c) { return isalnum((unsigned char)c) || (c && strchr("_./-+:@%", c)); }

/* A bare word, number, or quoted text into p->word. Returns 0 when there is none. */
static int read_word(parser *p) {
    size_t n = 0;
    skip_space(p);
    char quote = *p->at == '"' || *p->at == '\'' ? *p->at : 0;
    const char *c = p->at + (quote != 0);
    p->quoted = quote != 0;
    while (quote ? *c && *c != quote : is_word(*c)) {
        if (n == DL_RING_KEY_MAX) return 0;
        p->word[n++] = *c++;
    }
    p->word[n] = 0;
    if (quote && *c != quote) return 0;
    if (!quote && !n) return 0;
    p->at = c + (quote != 0);
    return 1;
}

static int take(parser *p, const char *token) {
    size_t n = strlen(token);
    skip_space(p);
    if (strncmp(p->at, token, n)) return 0;
    if (isalpha((unsigned char)*token) && is_word(p->at[n])) return 0;
    p->at += n;
    return 1;
}

/* Longer ones first. */
static const struct {
    const char *text, *sql;
} operators[] = {
    {"==", "="}, {"!=", "!="}, {"<=", "<="}, {">=", ">="}, {"<", "<"}, {">", ">"}, {"=", "="}, {"~", "like"},
};
enum { NOPERATOR = sizeof operators / sizeof *operators };

static dl_status read_operand(parser *p, operand *o) {
    char first[DL_RING_KEY_MAX + 1];
    if (!read_word(p)) return syntax(p, "a name");
    strcpy(first, p->word);
    if (*p->at != '(') return resolve(p->db, NULL, first, o);
    p->at++;
    if (!read_word(p)) return syntax(p, "the name of a metric");
    if (!take(p, ")")) return syntax(p, "')'");
    return resolve(p->db, first, p->word, o);
}

static int is_number(const parser *p) {
    char *end;
    strtod(p->word, &end);
    return !p->quoted && *p->word && !*end;
}

/* Numbers compare as numbers, except with columns of text, other values as text; ~ looks for a part. */
static int bind_value(parser *p, const operand *o, const char *op, int *numeric) {
    char part[DL_RING_KEY_MAX + 3];
    int text = o->kind == K_TAG || (o->kind == K_COLUMN && !o->numeric);
    *numeric = !text && is_number(p) && strcmp(op, "like");
    if (*numeric) return add_number(p->out, strtod(p->word, NULL));
    snprintf(part, sizeof part, "%%%s%%", p->word);
    return dl_clause_text(p->out, strcmp(op, "like") ? p->word : part);
}

/* A metric has no text to compare with: "loss = mse" means the parameter. */
static dl_status text_of(const parser *p, operand *o) {
    const char *name = strcmp(o->key, "train/loss") ? o->key : "loss";
    if (!exists(p->db, "select 1 from param where key = ?1 limit 1", name))
        return dl_fail(DL_ERR_TYPE, "filter: %.200s is a metric, '%.100s' is no number", o->key, p->word);
    snprintf(o->key, sizeof o->key, "%s", name);
    o->kind = K_PARAM;
    return DL_OK;
}

static dl_status condition(parser *p) {
    operand o;
    DL_TRY(read_operand(p, &o));
    int i = 0, numeric;
    while (i < NOPERATOR && !take(p, operators[i].text)) i++;
    if (i == NOPERATOR) return syntax(p, "one of = != < <= > >= ~");
    const char *op = operators[i].sql;
    if (!read_word(p)) return syntax(p, "a value");
    if (o.kind == K_METRIC && !is_number(p)) DL_TRY(text_of(p, &o));
    int value = bind_value(p, &o, op, &numeric), key = 0;
    if (value && (o.kind == K_PARAM || o.kind == K_METRIC)) key = dl_clause_text(p->out, o.key);
    if (!value || (!key && (o.kind == K_PARAM || o.kind == K_METRIC))) return dl_error_last()->code;
    sqlite3_str *sql = p->out->sql;
    switch (o.kind) {
    case K_COLUMN:
        sqlite3_str_appendf(sql, o.numeric ? "%s %s ?%d" : "coalesce(%s, '') %s ?%d", o.sql, op, value);
        break;
    case K_TAG: /* != means: has no such tag */
        sqlite3_str_appendf(sql, "%s exists(select 1 from tag t where t.run_id = r.id and t.tag %s ?%d)",
                            strcmp(op, "!=") ? "" : "not", strcmp(op, "!=") ? op : "=", value);
        break;
    case K_PARAM:
        sqlite3_str_appendf(sql, "exists(select 1 from param p where p.run_id = r.id and p.key = ?%d and p.%s %s ?%d)",
                            key, numeric ? "num" : "value", op, value);
        break;
    case K_METRIC:
        sqlite3_str_appendf(sql, "exists(select 1 from series s where s.run_id = r.id and s.key = ?%d and %s %s ?%d)",
                            key, o.sql, op, value);
        break;
    }
    return DL_OK;
}

static dl_status either(parser *p);

static dl_status term(parser *p) {
    if (++p->depth > 100) return dl_fail(DL_ERR_SYNTAX, "the filter is nested too deeply: more than 100 levels");
    dl_status st;
    if (take(p, "not") || (*p->at == '!' && p->at[1] != '=' && take(p, "!"))) {
        sqlite3_str_appendall(p->out->sql, "not ");
        st = term(p);
    } else if (take(p, "(")) {
        sqlite3_str_appendall(p->out->sql, "(");
        st = either(p);
        if (st == DL_OK && !take(p, ")")) st = syntax(p, "')'");
        sqlite3_str_appendall(p->out->sql, ")");
    } else {
        st = condition(p);
    }
    p->depth--;
    return st;
}

static dl_status both(parser *p) {
    DL_TRY(term(p));
    while (take(p, "and") || take(p, "&&")) {
        sqlite3_str_appendall(p->out->sql, " and ");
        DL_TRY(term(p));
    }
    return DL_OK;
}

static dl_status either(parser *p) {
    DL_TRY(both(p));
    while (take(p, "or") || take(p, "||")) {
        sqlite3_str_appendall(p->out->sql, " or ");
        DL_TRY(both(p));
    }
    return DL_OK;
}

dl_status dl_filter_where(dl_clause *c, sqlite3 *db, const char *text) {
    parser p = {.text = text, .at = text, .db = db, .out = c};
    skip_space(&p);
    if (!*p.at) return DL_OK;
    sqlite3_str_appendall(c->sql, " and (");
    DL_TRY(either(&p));
    skip_space(&p);
    if (*p.at) return syntax(&p, "'and', 'or' or the end");
    sqlite3_str_appendall(c->sql, ")");
    return DL_OK;
}

dl_status dl_filter_sort(dl_clause *c, sqlite3 *db, const char *text) {
    parser p = {.text = text, .at = text, .db = db, .out = c};
    skip_space(&p);
    int down = *p.at == '-', key = 0;
    p.at += down;
    operand o;
    DL_TRY(read_operand(&p, &o));
    skip_space(&p);
    if (*p.at) return syntax(&p, "the end");
    char *e = NULL;
    if (o.kind == K_PARAM || o.kind == K_METRIC) key = dl_clause_text(c, o.key);
    if (!key && (o.kind == K_PARAM || o.kind == K_METRIC)) return dl_error_last()->code;
    if (o.kind == K_COLUMN) e = sqlite3_mprintf("%s", o.sql);
    if (o.kind == K_TAG) e = sqlite3_mprintf("(select min(t.tag) from tag t where t.run_id = r.id)");
    if (o.kind == K_PARAM)
        e = sqlite3_mprintf("(select coalesce(p.num, p.value) from param p where p.run_id = r.id and p.key = ?%d)",
                            key);
    if (o.kind == K_METRIC)
        e = sqlite3_mprintf("(select %s from series s where s.run_id = r.id and s.key = ?%d)", o.sql, key);
    if (!e) return dl_fail(DL_ERR_MEMORY, "no memory for a query");
    /* runs without the value come last in either direction */
    sqlite3_str_appendf(c->sql, " order by %s is null, %s %s, r.id desc", e, e, down ? "desc" : "asc");
    sqlite3_free(e);
    return DL_OK;
}
