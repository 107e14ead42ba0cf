/* Rows of named fields read from text files: CSV, an object of JSON a line, TensorBoard's lists. */
#define _GNU_SOURCE /* asprintf */
#include "track/exchange/table.h"
#include "core/scope.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "io/nearest_file.h"
#include "track/filter/when.h"

/* ---------------------------------------------------------------- fields */

static struct dl_field *find(const dl_fields *f, const char *name) {
    for (long i = 0; i < f->n; i++)
        if (!strcmp(f->field[i].name, name)) return &f->field[i];
    return NULL;
}

const char *dl_field(const dl_fields *f, const char *name) {
    const struct dl_field *x = find(f, name);
    return x ? x->value : NULL;
}

int dl_field_has(const dl_fields *f, const char *name) { return find(f, name) != NULL; }

void dl_fields_clear(dl_fields *f) {
    for (long i = 0; i < f->n; i++) f->field[i].value = NULL;
}

static dl_status no_memory(const dl_fields *f) { return dl_fail(DL_ERR_MEMORY, "no memory for '%s'", f->path); }

static dl_status add(dl_fields *f, const char *name) {
    DL_TRY(DL_LIST_ROOM(f->field, f->n, f->cap));
    struct dl_field x = {.name = strdup(name)};
    if (!x.name) return no_memory(f);
    f->field[f->n++] = x;
    return DL_OK;
}

static dl_status set(dl_fields *f, struct dl_field *x, const char *value) {
    size_t n = strlen(value) + 1;
    if (n > x->room) {
        char *more = realloc(x->text, n + 32);
        if (!more) return no_memory(f);
        x->text = more;
        x->room = n + 32;
    }
    memcpy(x->text, value, n);
    x->value = n > 1 ? x->text : NULL;
    return DL_OK;
}

dl_status dl_fields_set(dl_fields *f, const char *name, const char *value) {
    struct dl_field *x = find(f, name);
    if (!x) {
        DL_TRY(add(f, name));
        x = &f->field[f->n - 1];
    }
    return set(f, x, value);
}

void dl_table_free(dl_table_taker *t) {
    for (long i = 0; i < t->fields.n; i++) {
        free(t->fields.field[i].name);
        free(t->fields.field[i].text);
    }
    free(t->fields.field);
    free(t->run_key);
    *t = (dl_table_taker){0};
}

/* ---------------------------------------------------------------- values of fields */

dl_status dl_field_wrong(const dl_fields *f, const char *name, const char *value, const char *want) {
    return dl_fail(DL_ERR_FORMAT, "'%s', row %ld: %s is '%.80s'; %s is wanted", f->path, f->row, name, value, want);
}

dl_status dl_field_number(const dl_fields *f, const char *name, double *out) {
    const char *text = dl_field(f, name);
    char *end;
    if (!text) return DL_OK;
    *out = strtod(text, &end);
    return end != text && !*end ? DL_OK : dl_field_wrong(f, name, text, "a number");
}

dl_status dl_field_whole(const dl_fields *f, const char *name, int64_t *out) {
    const char *text = dl_field(f, name);
    double v = 0;
    char *end;
    if (!text) return DL_OK;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end != text && !*end && !errno) return DL_OK;
    DL_TRY(dl_field_number(f, name, &v)); /* "3.0", as pandas writes a column with gaps */
    if (!(fabs(v) < 9e15) || v != floor(v)) return dl_field_wrong(f, name, text, "a whole number");
    *out = (int64_t)v;
    return DL_OK;
}

dl_status dl_field_when(const dl_fields *f, const char *name, int64_t *us) {
    const char *text = dl_field(f, name);
    double from, to;
    char *end;
    if (!text) return DL_OK;
    double v = strtod(text, &end);
    if (end != text && !*end)
        *us = (int64_t)(v * (fabs(v) > 1e11 ? 1e3 : 1e6)); /* seconds or milliseconds since 1970 */
    else if (dl_when_parse(text, (time_t)(dl_now_us() / 1000000), &from, &to))
        *us = (int64_t)llround(from * 1e6);
    else
        return dl_field_wrong(f, name, text, "a time");
    return DL_OK;
}

/* ---------------------------------------------------------------- CSV */

static dl_status take_cell(void *ctx, long row, long column, const char *text) {
    dl_table_taker *t = ctx;
    dl_fields *f = &t->fields;
    if (!row) return add(f, text); /* an index that pandas writes has no name */
    if (!column) dl_fields_clear(f);
    f->row = row;
    DL_TRY(set(f, &f->field[column], text));
    return column + 1 < f->n ? DL_OK : dl_table_take(t);
}

dl_status dl_table_read_csv(dl_table_taker *t, const char *path) {
    t->fields.path = path;
    return dl_csv_read(path, ',', take_cell, t);
}

/* ---------------------------------------------------------------- JSON */

/* As few digits as give the same number again. */
static void put_number(char *out, size_t size, double v) {
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, size, "%.*g", digits, v);
        if (strtod(out, NULL) == v) return;
    }
}

static dl_status flatten(dl_fields *f, const char *name, json_t *v);

/* {"params": {"lr": 0.1}} is the field "params.lr". */
static dl_status flatten_object(dl_fields *f, const char *name, json_t *object) {
    const char *key;
    json_t *v;
    json_object_foreach(object, key, v) {
        char *full = NULL;
        if (asprintf(&full, "%s%s%s", name, *name ? "." : "", key) < 0) return no_memory(f);
        dl_status st = flatten(f, full, v);
        free(full);
        DL_TRY(st);
    }
    return DL_OK;
}

/* Words are joined by commas, as cells of CSV have them; other lists stay JSON. */
static dl_status flatten_list(dl_fields *f, const char *name, json_t *list) {
    size_t i;
    json_t *v;
    int words = 1;
    DL_FREED char *text = NULL;
    size_t n = 0;
    json_array_foreach(list, i, v) words &= json_is_string(v);
    if (words) {
        FILE *out = open_memstream(&text, &n);
        if (!out) return no_memory(f);
        json_array_foreach(list, i, v) fprintf(out, "%s%s", i ? "," : "", json_string_value(v));
        if (fclose(out)) return no_memory(f);
    } else {
        text = json_dumps(list, JSON_COMPACT | JSON_ENCODE_ANY);
    }
    return text ? dl_fields_set(f, name, text) : no_memory(f);
}

static dl_status flatten(dl_fields *f, const char *name, json_t *v) {
    char text[64];
    if (json_is_object(v)) return flatten_object(f, name, v);
    if (json_is_array(v)) return flatten_list(f, name, v);
    if (json_is_string(v)) return dl_fields_set(f, name, json_string_value(v));
    if (json_is_integer(v))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        put_number(text, sizeof text, json_real_value(v));
    else
        snprintf(text, sizeof text, "%s", json_is_true(v) ? "true" : json_is_false(v) ? "false" : "");
    return dl_fields_set(f, name, text);
}

/* Python writes NaN and Infinity, which are not JSON. Outside of strings they become what this project writes. */
static char *mend(const char *line) {
    static const char *const words[] = {"-Infinity", "Infinity", "NaN"};
    char *text = malloc(3 * strlen(line) + 1), *to = text;
    int quoted = 0;
    for (const char *p = line; text && *p;) {
        size_t n = 0;
        for (size_t i = 0; !quoted && !n && i < sizeof words / sizeof *words; i++)
            if (!strncmp(p, words[i], strlen(words[i]))) n = strlen(words[i]);
        if (n) {
            to += sprintf(to, "\"%.*s\"", (int)n, p);
            p += n;
            continue;
        }
        if (quoted && *p == '\\' && p[1]) *to++ = *p++;
        quoted ^= *p == '"';
        *to++ = *p++;
    }
    if (text) *to = 0;
    return text;
}

static dl_status take_line(dl_table_taker *t, const char *line) {
    json_error_t e;
    char *mended = strstr(line, "NaN") || strstr(line, "Infinity") ? mend(line) : NULL;
    json_t *object = json_loads(mended ? mended : line, 0, &e);
    free(mended);
    if (!json_is_object(object)) {
        json_decref(object);
        return dl_fail_hint(DL_ERR_FORMAT, "each line is one object", "'%s', line %ld: %s", t->fields.path,
                            t->fields.row, object ? "this is not an object of JSON" : e.text);
    }
    dl_fields_clear(&t->fields);
    dl_status st = flatten_object(&t->fields, "", object);
    json_decref(object);
    return st == DL_OK ? dl_table_take(t) : st;
}

dl_status dl_table_read_jsonl(dl_table_taker *t, const char *path) {
    FILE *f = fopen(path, "re");
    if (!f) return dl_fail_file("read", path);
    char *line = NULL;
    size_t room = 0;
    dl_status st = DL_OK;
    t->fields.path = path;
    for (t->fields.row = 1; st == DL_OK && getline(&line, &room, f) >= 0; t->fields.row++) {
        st = dl_interrupt_check_at(t->fields.row);
        if (st == DL_OK && line[strspn(line, " \t\r\n")]) st = take_line(t, line);
    }
    if (st == DL_OK && ferror(f)) st = dl_fail_file("read", path);
    free(line);
    fclose(f);
    return st;
}

static dl_status take_triple(dl_table_taker *t, json_t *triple) {
    static const char *const names[] = {"Wall time", "Step", "Value"};
    t->fields.row++;
    if (json_array_size(triple) != 3)
        return dl_fail(DL_ERR_FORMAT, "'%s', entry %ld: [wall time, step, value] is wanted", t->fields.path,
                       t->fields.row);
    for (size_t i = 0; i < 3; i++) DL_TRY(flatten(&t->fields, names[i], json_array_get(triple, i)));
    return dl_table_take(t);
}

dl_status dl_table_read_json(dl_table_taker *t, const char *path) {
    char *text = NULL;
    size_t n = 0, i;
    json_t *list = NULL, *v;
    json_error_t e = {0};
    FILE *f = fopen(path, "re");
    if (!f) return dl_fail_file("read", path);
    t->fields.path = path;
    ssize_t got = getdelim(&text, &n, 0, f);
    fclose(f);
    char *mended = got > 0 ? mend(text) : NULL;
    if (mended) list = json_loads(mended, 0, &e);
    free(mended);
    free(text);
    dl_status st = DL_OK;
    if (!json_is_array(list))
        st = dl_fail_hint(DL_ERR_FORMAT, "TensorBoard downloads lists of [wall time, step, value]", "'%s', line %d: %s",
                          path, e.line, list ? "this is not a list" : e.text);
    else
        json_array_foreach(list, i, v) if (st == DL_OK) st = take_triple(t, v);
    json_decref(list);
    return st;
}
