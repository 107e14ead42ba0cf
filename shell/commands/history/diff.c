/* `run diff`: what differs between two runs: parameters, environment, lines of model and script. */
#include <stdlib.h>
#include <string.h>

#include "commands/history/redo.h"
#include "lang/json.h"

/* The differences, for programs as rows, for people as a table and lines below it. */
typedef struct difference {
    dlsh_table t; /* part, name, a, b */
    dlsh_buf lines;
    int people;
    int again; /* the second run is the first one again, in another folder */
} difference;

static dlsh_value cell(const char *text) { return text ? dlsh_string(text) : dlsh_none(); }

static dl_status add(difference *d, const char *part, const char *name, const char *a, const char *b) {
    return DLSH_TABLE_ROW(&d->t, dlsh_string(part), dlsh_string(name), cell(a), cell(b));
}

/* ---------------------------------------------------------------- lines of texts */

enum { MOST_CELLS = 1 << 22 }; /* of the table of common lines; above, all lines between the same ones differ */

typedef struct lines {
    char *text, **at;
    int n;
} lines;

static void lines_free(lines *l) {
    free(l->text);
    free(l->at);
}

static dl_status split(lines *l, const char *text) {
    size_t n = 1;
    for (const char *c = text; *c; c++) n += *c == '\n';
    l->text = strdup(text);
    l->at = calloc(n, sizeof *l->at);
    if (!l->text || !l->at) return dlsh_no_memory("a comparison");
    for (char *line = l->text, *end; line && *line; line = end) {
        if ((end = strchr(line, '\n'))) *end++ = 0;
        l->at[l->n++] = line;
    }
    return DL_OK;
}

static dl_status put_line(difference *d, const char *part, char sign, int number, const char *text) {
    char name[32];
    if (d->people) {
        dlsh_buf_printf(&d->lines, "%c %4d  %s\n", sign, number, text);
        return DL_OK;
    }
    snprintf(name, sizeof name, "line %d", number);
    return add(d, part, name, sign == '-' ? text : NULL, sign == '+' ? text : NULL);
}

/* Lines of x[from, i1) and y[from, j1) that are not in the longest common subsequence; common[i][j] is its length from
 * line i and j on, NULL where the table would be too large. */
static dl_status put_lines(difference *d, const char *part, const lines *x, const lines *y, int from, int i1, int j1,
                           const int *common) {
    int i = from, j = from, w = j1 - from + 1;
#define COMMON(i, j) common[(size_t)((i)-from) * (size_t)w + (size_t)((j)-from)]
    dl_status st = DL_OK;
    while (!st && (i < i1 || j < j1)) {
        if (common && i < i1 && j < j1 && !strcmp(x->at[i], y->at[j])) {
            i++, j++;
        } else if (i < i1 && (j == j1 || !common || COMMON(i + 1, j) >= COMMON(i, j + 1))) {
            st = put_line(d, part, '-', i + 1, x->at[i]);
            i++;
        } else {
            st = put_line(d, part, '+', j + 1, y->at[j]);
            j++;
        }
    }
    return st;
}

static int *common_lines(const lines *x, const lines *y, int from, int i1, int j1) {
    int w = j1 - from + 1;
    if ((double)w * (i1 - from + 1) > MOST_CELLS) return NULL;
    int *common = calloc((size_t)w * (size_t)(i1 - from + 1), sizeof *common);
    for (int i = i1 - 1; common && i >= from; i--)
        for (int j = j1 - 1; j >= from; j--)
            COMMON(i, j) = !strcmp(x->at[i], y->at[j])           ? COMMON(i + 1, j + 1) + 1
                           : COMMON(i + 1, j) > COMMON(i, j + 1) ? COMMON(i + 1, j)
                                                                 : COMMON(i, j + 1);
    return common;
}
#undef COMMON

static dl_status add_text(difference *d, const char *part, const char *a, const char *b) {
    DLSH_SCOPED(lines_free) lines x = {0}, y = {0};
    if (!strcmp(a, b)) return DL_OK;
    DLSH_TRY(split(&x, a));
    DLSH_TRY(split(&y, b));
    int from = 0, i1 = x.n, j1 = y.n;
    while (from < i1 && from < j1 && !strcmp(x.at[from], y.at[from])) from++;
    while (i1 > from && j1 > from && !strcmp(x.at[i1 - 1], y.at[j1 - 1])) i1--, j1--;
    DLSH_FREED int *common = common_lines(&x, &y, from, i1, j1);
    if (d->people) dlsh_buf_printf(&d->lines, "\n%s\n", part);
    return put_lines(d, part, &x, &y, from, i1, j1, common);
}

/* ---------------------------------------------------------------- environments */

static dl_status add_fact(difference *d, const char *key, const json_t *a, const json_t *b) {
    if (json_equal((json_t *)a, (json_t *)b)) return DL_OK;
    DLSH_FREED char *x = a ? json_dumps(a, JSON_ENCODE_ANY) : NULL, *y = b ? json_dumps(b, JSON_ENCODE_ANY) : NULL;
    return add(d, "environment", key, json_is_string(a) ? json_string_value(a) : x,
               json_is_string(b) ? json_string_value(b) : y);
}

static dl_status add_environment(difference *d, const char *a, const char *b) {
    json_t *v;
    DLSH_ENDED(json_decref) json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL);
    const char *key;
    dl_status st = DL_OK;
    json_object_foreach(x, key, v) if (!st) st = add_fact(d, key, v, json_object_get(y, key));
    json_object_foreach(y, key, v) if (!st && !json_object_get(x, key)) st = add_fact(d, key, NULL, v);
    return st;
}

/* ---------------------------------------------------------------- the command */

static dl_status collect(difference *d, const dl_comparison *c) {
    const dl_run_info *a = &c->runs[0], *b = &c->runs[1];
    for (long k = 0; k < c->nparam; k++)
        if (!d->again || (strcmp(c->params[k].key, "commit") && strcmp(c->params[k].key, "script")))
            DLSH_TRY(add(d, "parameter", c->params[k].key, c->params[k].values[0], c->params[k].values[1]));
    if (strcmp(dlsh_arguments_of(a), dlsh_arguments_of(b)))
        DLSH_TRY(add(d, "parameter", "script arguments", dlsh_arguments_of(a), dlsh_arguments_of(b)));
    DLSH_TRY(add_environment(d, a->env_json, b->env_json));
    DLSH_TRY(add_text(d, "model", a->model_text, b->model_text));
    return add_text(d, "script", a->script_text, b->script_text);
}

static dl_status show(const dlsh_args *a, const dl_comparison *c, int again) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    char heads[2][128];
    difference d = {.people = dlsh_sink_look(sink).mode == DLSH_MODE_TABLE, .again = again};
    for (int i = 0; i < 2; i++) {
        snprintf(heads[i], sizeof heads[i], "%ld %.100s", c->runs[i].id, c->runs[i].name);
        dlsh_one_line(heads[i], strlen(heads[i]));
    }
    d.t = (dlsh_table)DLSH_TABLE({"part", 'l', ""}, {"name", 'l', ""}, {d.people ? heads[0] : "a", 'l', ""},
                                 {d.people ? heads[1] : "b", 'l', ""});
    dl_status st = collect(&d, c);
    int none = !d.t.nrows && !d.lines.n;
    if (none || d.t.nrows)
        st = dlsh_table_show(sink, &d.t, st, none ? "nothing that is recorded differs, but perhaps the metrics\n" : "");
    if (!st && d.lines.n) dlsh_put(sink, "%s", dlsh_buf_text(&d.lines));
    dlsh_buf_free(&d.lines);
    return st;
}

dl_status dlsh_diff_show(const dlsh_args *a, dl_store *store, long before, long after, int again) {
    DLSH_ENDED(dl_comparison_free) dl_comparison *c = dl_run_compare(store, (long[]){before, after}, 2, 0);
    if (!c) return dl_failed();
    return show(a, c, again);
}

dl_status dlsh_diff_run(const dlsh_args *a) {
    dl_store *store;
    DLSH_FREED long *ids = NULL;
    int n;
    DLSH_TRY(dlsh_run_ids(a, &store, &ids, &n));
    return n == 2 ? dlsh_diff_show(a, store, ids[0], ids[1], 0)
                  : dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "run diff 3 5", "two runs are wanted, got %d", n);
}
