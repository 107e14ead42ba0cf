/* The page of runs: its data as JSON, and the document that shows them. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "commands/history/history.h"

static const char document[] =
#include "report.html.inc"
    ;
static const char style[] =
#include "report.css.inc"
    ;
static const char *const scripts[] = {
#include "base.js.inc"
    ,
#include "filter.js.inc"
    ,
#include "charts.js.inc"
    ,
#include "views.js.inc"
    ,
#include "live.js.inc"
};

/* Bytes of a page, about: of its curves, of texts, of pictures. POINT_BYTES: one point in JSON. */
enum { CURVE_BYTES = 2500000, TEXT_BYTES = 600000, PICTURE_BYTES = 900000, LONGEST_TEXT = 20000, POINT_BYTES = 20 };
enum { FEWEST_POINTS = 8, MOST_POINTS = 400 };

/* The names of parameters or metrics, in the order of their numbers. */
typedef struct names {
    const char **at;
    int n, cap;
} names;

typedef struct page {
    dl_store *store;
    const dl_run_list *runs;
    names params, metrics;
    dlsh_buf *out;
} page;

/* ---------------------------------------------------------------- JSON */

/* Also without <, so that no text ends the element that the data stand in; bytes that are not UTF-8 become U+FFFD. */
static void put_text(dlsh_buf *b, const char *s) {
    dlsh_buf_puts(b, "\"");
    for (size_t n = strlen(s), k; n; s += k, n -= k) {
        unsigned char c = (unsigned char)*s;
        k = 1;
        if (c == '"' || c == '\\')
            dlsh_buf_printf(b, "\\%c", c);
        else if (c < 32 || c == '<' || c == 127)
            dlsh_buf_printf(b, "\\u%04x", c);
        else if (c < 128)
            dlsh_buf_add(b, s, 1);
        else if ((k = dlsh_utf8(s, n)))
            dlsh_buf_add(b, s, k);
        else
            dlsh_buf_puts(b, "\\ufffd"), k = 1;
    }
    dlsh_buf_puts(b, "\"");
}

static void put_number(dlsh_buf *b, double v, int digits) {
    if (isfinite(v))
        dlsh_buf_printf(b, "%.*g", digits, v);
    else
        dlsh_buf_puts(b, "null");
}

static void put_field(dlsh_buf *b, const char *key, const char *text) {
    if (!*text) return;
    dlsh_buf_printf(b, "\"%s\":", key);
    put_text(b, text);
    dlsh_buf_puts(b, ",");
}

static void put_names(dlsh_buf *b, const char *key, const names *l) {
    dlsh_buf_printf(b, ",\"%s\":[", key);
    for (int i = 0; i < l->n; i++) {
        if (i) dlsh_buf_puts(b, ",");
        put_text(b, l->at[i]);
    }
    dlsh_buf_puts(b, "]");
}

/* ---------------------------------------------------------------- names */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static int number_of(const names *l, const char *name) {
    const char **at = bsearch(&name, l->at, (size_t)l->n, sizeof *l->at, by_name);
    return at ? (int)(at - l->at) : -1;
}

static dl_status add_name(names *l, const char *name) {
    const char **grown = dlsh_grow(l->at, l->n, &l->cap, sizeof *grown);
    if (!grown) return dl_failed();
    l->at = grown;
    l->at[l->n++] = name;
    return DL_OK;
}

static void sort_names(names *l) {
    int kept = 0;
    if (l->n) qsort(l->at, (size_t)l->n, sizeof *l->at, by_name);
    for (int i = 0; i < l->n; i++)
        if (!kept || strcmp(l->at[kept - 1], l->at[i])) l->at[kept++] = l->at[i];
    l->n = kept;
}

static dl_status collect_names(page *p) {
    for (long i = 0; i < p->runs->n; i++) {
        const dl_run_info *r = &p->runs->runs[i];
        for (long k = 0; k < r->nparam; k++) DLSH_TRY(add_name(&p->params, r->params[k].key));
        for (long k = 0; k < r->nseries; k++) DLSH_TRY(add_name(&p->metrics, r->series[k].key));
    }
    sort_names(&p->params);
    sort_names(&p->metrics);
    return DL_OK;
}

/* ---------------------------------------------------------------- one run */

/* {"s": steps, "v": values, "t": seconds since the run began}; thinned out to means. */
static dl_status put_curve(page *p, const dl_run_info *r, const dl_series_info *s, long most) {
    dlsh_buf *b = p->out;
    DLSH_ENDED(dl_points_free) dl_points *points = dl_series_points(p->store, r->id, s->key, -most);
    if (!points) return dl_failed();
    dlsh_buf_puts(b, "{\"s\":[");
    for (long i = 0; i < points->n; i++) dlsh_buf_printf(b, "%s%ld", i ? "," : "", lround(points->step[i]));
    dlsh_buf_puts(b, "],\"v\":[");
    for (long i = 0; i < points->n; i++) {
        if (i) dlsh_buf_puts(b, ",");
        put_number(b, points->value[i], 5);
    }
    dlsh_buf_puts(b, "],\"t\":[");
    for (long i = 0; i < points->n; i++)
        dlsh_buf_printf(b, "%s%.5g", i ? "," : "", (double)(points->time_us[i] - r->started_us) / 1e6);
    dlsh_buf_puts(b, "]}");
    return DL_OK;
}

static void put_facts(dlsh_buf *b, const dl_run_info *r) {
    dlsh_buf_printf(b, "{\"id\":%ld,\"started\":%ld,\"seconds\":%.6g,\"seed\":%lu,\"n_params\":%ld,", r->id,
                    r->started_us / 1000, r->seconds, r->seed, r->n_params);
    if (r->parent) dlsh_buf_printf(b, "\"parent\":%ld,", r->parent);
    if (r->sweep) dlsh_buf_printf(b, "\"sweep\":%ld,", r->sweep);
    const struct {
        const char *key, *text;
    } texts[] = {{"name", r->name},
                 {"status", dl_run_status_name(r->status)},
                 {"experiment", r->experiment},
                 {"group", r->group},
                 {"note", r->note},
                 {"error", r->error},
                 {"host", r->host},
                 {"device", r->device},
                 {"model", r->model_name},
                 {"dataset", r->dataset},
                 {"commit", r->git_commit}};
    for (size_t i = 0; i < DLSH_COUNT(texts); i++) put_field(b, texts[i].key, texts[i].text);
    dlsh_buf_puts(b, "\"tags\":[");
    for (long i = 0; i < r->ntag; i++) {
        if (i) dlsh_buf_puts(b, ",");
        put_text(b, r->tags[i]);
    }
    dlsh_buf_puts(b, "]");
}

/* Where the script and the texts stand: rows of run id, path of the script, hashes of script and model. */
typedef struct origin {
    long id;
    char *script, *text, *model;
} origin;

static dl_status put_run(page *p, const dl_run_info *r, long most, const origin *o) {
    dlsh_buf *b = p->out;
    dl_status st = DL_OK;
    put_facts(b, r);
    if (o) {
        dlsh_buf_puts(b, ",");
        put_field(b, "script", o->script);
        put_field(b, "scriptText", o->text);
        put_field(b, "modelText", o->model);
        b->n--; /* the last comma; without texts the one above */
    }
    dlsh_buf_puts(b, ",\"p\":{");
    for (long k = 0; k < r->nparam; k++) {
        dlsh_buf_printf(b, "%s\"%d\":", k ? "," : "", number_of(&p->params, r->params[k].key));
        put_text(b, r->params[k].value);
    }
    dlsh_buf_puts(b, "},\"m\":{");
    for (long k = 0; k < r->nseries; k++) {
        const dl_series_info *s = &r->series[k];
        dlsh_buf_printf(b, "%s\"%d\":[%ld,", k ? "," : "", number_of(&p->metrics, s->key), s->n);
        put_number(b, s->last, 6), dlsh_buf_puts(b, ",");
        put_number(b, s->min, 6), dlsh_buf_puts(b, ",");
        put_number(b, s->max, 6), dlsh_buf_puts(b, ",");
        put_number(b, s->first, 6), dlsh_buf_puts(b, ",");
        put_number(b, s->mean, 6), dlsh_buf_puts(b, "]");
    }
    dlsh_buf_puts(b, "},\"c\":{");
    for (long k = 0, some = 0; k < r->nseries && !st; k++) {
        if (!r->series[k].n) continue;
        dlsh_buf_printf(b, "%s\"%d\":", some++ ? "," : "", number_of(&p->metrics, r->series[k].key));
        st = put_curve(p, r, &r->series[k], most);
    }
    dlsh_buf_puts(b, "}}");
    return st;
}

/* ---------------------------------------------------------------- texts and pictures */

static char *copy_of(const char *s) {
    char *copy = strdup(s ? s : "");
    if (!copy) dlsh_no_memory("a report");
    return copy;
}

static void origins_free(origin *o, int n) {
    for (int i = 0; i < n; i++) free(o[i].script), free(o[i].text), free(o[i].model);
    free(o);
}

/* By descending id. The caller frees *out. */
static dl_status read_origins(dl_store *store, origin **out, int *n) {
    int cap = 0, more = 0;
    DLSH_ENDED(dl_rows_free)
    dl_rows *rows = dl_store_sql(store, "select id, script_path, script_sha, model_sha from run order by id desc");
    *out = NULL;
    *n = 0;
    if (!rows) return dl_failed();
    while ((more = dl_rows_next(rows)) > 0) {
        origin *grown = dlsh_grow(*out, *n, &cap, sizeof *grown);
        if (!grown) break;
        *out = grown;
        grown[(*n)++] = (origin){dl_rows_int(rows, 0), copy_of(dl_rows_text(rows, 1)), copy_of(dl_rows_text(rows, 2)),
                                 copy_of(dl_rows_text(rows, 3))};
        if (!grown[*n - 1].script || !grown[*n - 1].text || !grown[*n - 1].model) break;
    }
    return more ? dl_failed() : DL_OK;
}

static int by_id(const void *a, const void *b) {
    long x = ((const origin *)a)->id, y = ((const origin *)b)->id;
    return (x < y) - (x > y);
}

/* Scripts and models by their hashes, until the page has enough of them. */
static dl_status put_texts(page *p, long oldest) {
    char sql[400];
    long left = TEXT_BYTES;
    snprintf(sql, sizeof sql,
             "select sha, cast(data as text) from blob where sha in (select script_sha from run where id >= %ld)"
             " union select model_sha, model_text from run where id >= %ld and model_sha is not null",
             oldest, oldest);
    DLSH_ENDED(dl_rows_free) dl_rows *rows = dl_store_sql(p->store, sql);
    int more = 0, some = 0;
    if (!rows) return dl_failed();
    dlsh_buf_puts(p->out, ",\"texts\":{");
    while ((more = dl_rows_next(rows)) > 0) {
        const char *text = dl_rows_text(rows, 1);
        long n = text ? (long)strlen(text) : 0;
        if (!n || n > LONGEST_TEXT || n > left) continue;
        left -= n;
        if (some++) dlsh_buf_puts(p->out, ",");
        put_text(p->out, dl_rows_text(rows, 0));
        dlsh_buf_puts(p->out, ":");
        put_text(p->out, text);
    }
    dlsh_buf_puts(p->out, "}");
    return more ? dl_failed() : DL_OK;
}

static const char *picture_type(const char *name) {
    static const char *const types[][2] = {{".png", "image/png"},
                                           {".jpg", "image/jpeg"},
                                           {".jpeg", "image/jpeg"},
                                           {".svg", "image/svg+xml"},
                                           {".gif", "image/gif"}};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < DLSH_COUNT(types); i++)
        if (!strcasecmp(dot, types[i][0])) return types[i][1];
    return NULL;
}

/* The contents of a file of at most `most` bytes, to be freed; NULL: it is larger, or not there. */
static char *read_file(const char *path, long most, long *n) {
    FILE *f = fopen(path, "rbe");
    char *data = f ? malloc((size_t)most + 1) : NULL;
    *n = data ? (long)fread(data, 1, (size_t)most + 1, f) : 0;
    if (f) fclose(f);
    if (data && *n <= most) return data;
    free(data);
    return NULL;
}

/* Pictures among the artifacts, the newest first, until the page has enough of them. */
static dl_status put_pictures(page *p, long oldest) {
    char sql[320];
    long left = PICTURE_BYTES;
    snprintf(
        sql, sizeof sql,
        "select a.run_id, a.name, a.step, a.path, b.data from artifact as a left join blob as b on b.sha = a.sha and"
        " a.path is null where a.run_id >= %ld and a.kind not in ('script', 'source', 'diff') order by 1 desc, 3 desc",
        oldest);
    DLSH_ENDED(dl_rows_free) dl_rows *rows = dl_store_sql(p->store, sql);
    int more = 0, some = 0;
    if (!rows) return dl_failed();
    dlsh_buf_puts(p->out, ",\"pictures\":[");
    while ((more = dl_rows_next(rows)) > 0) {
        const char *name = dl_rows_text(rows, 1), *type = picture_type(name);
        const char *path = dl_rows_type(rows, 3) == 'n' ? NULL : dl_rows_text(rows, 3);
        if (!type && path) type = picture_type(path);
        long n = 0;
        DLSH_FREED char *file = type && path ? read_file(path, left, &n) : NULL;
        const void *data = file ? file : type && !path ? dl_rows_blob(rows, 4, &n) : NULL;
        if (data && n && n <= left) {
            left -= n;
            dlsh_buf_printf(p->out, "%s{\"run\":%ld,\"step\":%ld,\"name\":", some++ ? "," : "", dl_rows_int(rows, 0),
                            dl_rows_int(rows, 2));
            put_text(p->out, name);
            dlsh_buf_printf(p->out, ",\"src\":\"data:%s;base64,", type);
            dlsh_base64(p->out, data, (size_t)n);
            dlsh_buf_puts(p->out, "\"}");
        }
    }
    dlsh_buf_puts(p->out, "]");
    return more ? dl_failed() : DL_OK;
}

/* ---------------------------------------------------------------- the whole */

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* So many points a curve that all of them fit. */
static long points_each(const dl_run_list *runs) {
    long curves = 0;
    for (long i = 0; i < runs->n; i++) curves += runs->runs[i].nseries;
    long most = curves ? CURVE_BYTES / POINT_BYTES / curves : MOST_POINTS;
    return most < FEWEST_POINTS ? FEWEST_POINTS : most > MOST_POINTS ? MOST_POINTS : most;
}

static dl_status put_all(page *p, const dlsh_run_page *what) {
    dlsh_buf *b = p->out;
    origin *origins = NULL;
    int n = 0;
    long most = points_each(p->runs), oldest = LONG_MAX;
    dlsh_buf_printf(b, "{\"made\":%ld,\"live\":%s,\"title\":", now_ms(), what->live ? "true" : "false");
    put_text(b, what->title);
    put_names(b, "params", &p->params);
    put_names(b, "metrics", &p->metrics);
    dl_status st = read_origins(p->store, &origins, &n);
    dlsh_buf_puts(b, ",\"runs\":[");
    for (long i = 0; i < p->runs->n && !st; i++) {
        const dl_run_info *r = &p->runs->runs[i];
        if (r->id < oldest) oldest = r->id;
        if (i) dlsh_buf_puts(b, ",\n");
        st = put_run(p, r, most, bsearch(&(origin){.id = r->id}, origins, (size_t)n, sizeof *origins, by_id));
        if (!st && dlsh_interrupted()) st = dlsh_fail(DL_ERR_INTERRUPT, NULL, "interrupted");
    }
    dlsh_buf_puts(b, "]");
    origins_free(origins, n);
    if (!st) st = put_texts(p, oldest);
    if (!st) st = put_pictures(p, oldest);
    dlsh_buf_puts(b, "}");
    return st;
}

dl_status dlsh_run_page_data(dl_store *store, const dlsh_run_page *what, dlsh_buf *out) {
    dl_run_query q = {.where = what->where, .limit = what->limit};
    DLSH_ENDED(dl_run_list_free) dl_run_list *runs = dl_run_query_list(store, &q);
    if (!runs) return dl_failed();
    page p = {.store = store, .runs = runs, .out = out};
    dl_status st = collect_names(&p);
    if (!st) st = put_all(&p, what);
    free(p.params.at);
    free(p.metrics.at);
    return st;
}

/* Adds the document up to a mark, and goes behind it. */
static const char *up_to(dlsh_buf *out, const char *from, const char *mark) {
    const char *at = strstr(from, mark);
    dlsh_buf_add(out, from, (size_t)(at - from));
    return at + strlen(mark);
}

dl_status dlsh_run_page_html(dl_store *store, const dlsh_run_page *p, dlsh_buf *out) {
    const char *rest = up_to(out, document, "/*CSS*/");
    dlsh_buf_puts(out, style);
    rest = up_to(out, rest, "/*DATA*/");
    DLSH_TRY(dlsh_run_page_data(store, p, out));
    rest = up_to(out, rest, "/*JS*/");
    for (size_t i = 0; i < DLSH_COUNT(scripts); i++) dlsh_buf_puts(out, scripts[i]);
    dlsh_buf_puts(out, rest);
    return DL_OK;
}
