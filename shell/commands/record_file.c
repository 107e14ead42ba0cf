/* Records as files: tensors, states of nets, optimizers, loaders and random streams, numbers and strings. The tensors
 * are those of a file of tensors; what each field is, is JSON in its metadata. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/nets/nets.h"
#include "commands/record_file.h"
#include "commands/nets/scaler.h"
#include "lang/json.h"

#define KEY "dlsh.record"

/* ---------------------------------------------------------------- the state of random streams */

static dl_status rng_text(void *self, dlsh_buf *out) {
    const dlsh_rng *r = self;
    dlsh_buf_printf(out, "<random state: seed %lu>", r->state[0]);
    return DL_OK;
}

static int rng_equal(const void *a, const void *b) { return !memcmp(a, b, sizeof(dlsh_rng)); }

const dlsh_class dlsh_rng_class = {.name = "rng_state",
                                   .doc = "Seed and positions of the random streams, to resume exactly.",
                                   .destroy = free,
                                   .text = rng_text,
                                   .equal = rng_equal};

static dlsh_value rng_value(const unsigned long state[DL_RNG_STATE]) {
    dlsh_rng *r = malloc(sizeof *r);
    if (!r) return dlsh_no_memory("the state of random numbers"), dlsh_void();
    memcpy(r->state, state, sizeof r->state);
    return dlsh_new_handle(&dlsh_rng_class, r);
}

dl_status dlsh_rng_state_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    unsigned long state[DL_RNG_STATE];
    dl_rng_save(state);
    return dlsh_give(rng_value(state), result);
}

dl_status dlsh_set_rng_state_run(const dlsh_args *a) {
    const dlsh_rng *r = dlsh_arg_handle(a, "state", &dlsh_rng_class);
    dl_rng_restore(r->state);
    return DL_OK;
}

/* ---------------------------------------------------------------- writing */

enum { DEEPEST = 50 };

/* Tensors of the file so far. */
typedef struct parts {
    char **names;
    dl_tensor **tensors;
    int n, names_cap, tensors_cap;
    const char *prefix; /* of the object whose tensors are added */
    int plain;          /* nothing but tensors so far */
    int depth;          /* of the list or record that is described */
} parts;

static void free_parts(parts *p) {
    for (int i = 0; i < p->n; i++) {
        free(p->names[i]);
        dl_unref(p->tensors[i]);
    }
    free(p->names);
    free(p->tensors);
}

static dl_status add(void *ctx, const char *name, dl_tensor *t) {
    parts *p = ctx;
    char **names = dlsh_grow(p->names, p->n, &p->names_cap, sizeof *names);
    if (names) p->names = names;
    dl_tensor **tensors = names ? dlsh_grow(p->tensors, p->n, &p->tensors_cap, sizeof(dl_tensor *)) : NULL;
    if (!tensors) return DL_ERR_MEMORY;
    p->tensors = tensors;
    DLSH_SCOPED_BUF b = {0};
    dlsh_buf_printf(&b, "%s%s%s", p->prefix, *p->prefix && *name ? "." : "", name);
    if (!(p->names[p->n] = strdup(dlsh_buf_text(&b)))) return dlsh_no_memory("the names of a file");
    p->tensors[p->n++] = dl_ref(t);
    return DL_OK;
}

static dl_status add_net(parts *p, dl_module *m) {
    DLSH_TRY(dl_module_check_built(m));
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 3);
    if (!l) return dl_failed();
    for (long i = 0; i < l->n; i++) DLSH_TRY(add(p, l->entries[i].path, l->entries[i].tensor));
    return DL_OK;
}

/* Numbers as text keep all digits, NaN and infinities. */
static json_t *number(const char *kind, dlsh_value v) {
    char text[64];
    if (v.type == DLSH_FLOAT)
        snprintf(text, sizeof text, "%.17g", v.as.f);
    else
        snprintf(text, sizeof text, "%ld", v.as.i);
    return json_pack("{s:s, s:s}", "kind", kind, "is", text);
}

static json_t *words(const unsigned long *v, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "%lu", v[i]);
        json_array_append_new(list, json_string(text));
    }
    return list;
}

/* JSON holds no other bytes than UTF-8. NULL: a recorded failure. */
static json_t *words_of(const char *field, const char *s, size_t n) {
    json_t *j = json_stringn(s, n);
    if (!j)
        dlsh_fail(DL_ERR_VALUE, "write_text writes a string of any bytes to a file of its own",
                  "field '%s' cannot be saved: a string in it is not valid UTF-8", field);
    return j;
}

static json_t *describe(parts *p, const char *name, dlsh_value v);

/* The items of a list or record; NULL: a recorded failure. */
static json_t *describe_all(parts *p, const char *name, dlsh_value v) {
    int record = v.type == DLSH_RECORD, n = record ? v.as.record->n : v.as.list->n;
    if (p->depth == DEEPEST) {
        dlsh_fail(DL_ERR_VALUE, "does it contain itself?", "what is saved is nested more than %d levels deep", DEEPEST);
        return NULL;
    }
    p->depth++;
    json_t *keys = json_array(), *items = json_array();
    for (int i = 0; i < n; i++) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_buf_printf(&b, "%s%s", name, *name ? "." : "");
        const char *key = record ? v.as.record->keys[i] : NULL;
        json_t *word = key ? words_of(name, key, strlen(key)) : NULL;
        if (key && !word) return json_decref(keys), json_decref(items), NULL;
        if (key)
            dlsh_buf_puts(&b, key), json_array_append_new(keys, word);
        else
            dlsh_buf_printf(&b, "%d", i);
        json_t *item = describe(p, dlsh_buf_text(&b), record ? v.as.record->values[i] : v.as.list->items[i]);
        if (!item || json_array_append_new(items, item)) return json_decref(keys), json_decref(items), NULL;
    }
    p->depth--;
    return json_pack("{s:s, s:o, s:o}", "kind", record ? "record" : "list", "keys", keys, "items", items);
}

static json_t *describe_schedule(const dl_schedule *s) {
    double state[DL_SCHEDULE_STATE];
    json_t *list = json_array();
    dl_schedule_get_state(s, state);
    for (int i = 0; i < DL_SCHEDULE_STATE; i++) {
        char text[40];
        snprintf(text, sizeof text, "%.17g", state[i]);
        json_array_append_new(list, json_string(text));
    }
    return json_pack("{s:s, s:s, s:o}", "kind", "schedule", "is", dl_schedule_text(s), "state", list);
}

static json_t *describe_handle(parts *p, const char *name, dlsh_value v) {
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    dl_optimizer *o = dlsh_unwrap(v, &dlsh_optimizer_class);
    dl_loader *l = dlsh_unwrap(v, &dlsh_loader_class);
    const dlsh_rng *r = dlsh_unwrap(v, &dlsh_rng_class);
    p->prefix = name;
    if (m) return add_net(p, m) == DL_OK ? json_pack("{s:s}", "kind", "net") : NULL;
    if (o && dl_optimizer_state(o, add, p) != DL_OK) return NULL;
    if (o) return json_pack("{s:s, s:s}", "kind", "optimizer", "is", dl_optimizer_kind(o));
    if (r) return json_pack("{s:s, s:o}", "kind", "rng", "is", words(r->state, DL_RNG_STATE));
    if (l) {
        long epoch, batch;
        dl_loader_position(l, &epoch, &batch);
        return json_pack("{s:s, s:I, s:I}", "kind", "loader", "epoch", (json_int_t)epoch, "batch", (json_int_t)batch);
    }
    const dl_scaler *s = dlsh_unwrap(v, &dlsh_scaler_class);
    if (s) {
        char scale[40];
        snprintf(scale, sizeof scale, "%.17g", s->scale);
        return json_pack("{s:s, s:s, s:I}", "kind", "grad_scaler", "is", scale, "good", (json_int_t)s->good);
    }
    const dl_schedule *schedule = dlsh_unwrap(v, &dlsh_schedule_class);
    if (schedule) return describe_schedule(schedule);
    dlsh_fail(DL_ERR_TYPE,
              "tensors, nets, optimizers, schedules, loaders, rng_state(), numbers, strings, lists and records can be",
              "field '%s' cannot be saved: it is %s", name, dlsh_a(v));
    return NULL;
}

static json_t *describe(parts *p, const char *name, dlsh_value v) {
    if (v.type == DLSH_TENSOR) {
        p->prefix = "";
        return add(p, name, v.as.tensor) == DL_OK ? json_pack("{s:s}", "kind", "tensor") : NULL;
    }
    p->plain = 0;
    switch (v.type) {
    case DLSH_RECORD:
    case DLSH_LIST: return describe_all(p, name, v);
    case DLSH_INT: return number("int", v);
    case DLSH_FLOAT: return number("float", v);
    case DLSH_BOOL: return number("bool", v);
    case DLSH_NONE: return json_pack("{s:s}", "kind", "none");
    case DLSH_STR: {
        json_t *text = words_of(name, v.as.str->s, v.as.str->len);
        return text ? json_pack("{s:s, s:o}", "kind", "string", "is", text) : NULL;
    }
    default: return describe_handle(p, name, v);
    }
}

dl_status dlsh_record_save(const dlsh_record *r, const char *path) {
    DLSH_SCOPED(free_parts) parts p = {.prefix = "", .plain = 1};
    dl_error_clear();
    DLSH_ENDED(json_decref) json_t *j = describe_all(&p, "", (dlsh_value){DLSH_RECORD, {.record = (dlsh_record *)r}});
    DLSH_FREED char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    if (!text) return dl_error_last() ? dl_failed() : dlsh_no_memory("the description of a record");
    const char *meta[] = {"dlsh.version", dl_version(), p.plain ? NULL : KEY, text, NULL};
    return dl_tensors_write(path, p.plain ? DL_HOLDS_RECORD : DL_HOLDS_TRAINER, p.n, (const char *const *)p.names,
                            p.tensors, meta);
}

/* ---------------------------------------------------------------- reading */

static const char *kind_of(const json_t *j) {
    const char *s = json_string_value(json_object_get(j, "kind"));
    return s ? s : "";
}
static const char *text_of(const json_t *j) {
    const char *s = json_string_value(json_object_get(j, "is"));
    return s ? s : "";
}

static dl_status damaged(const char *name) {
    if (!*name) return dlsh_fail(DL_ERR_FORMAT, NULL, "the description of the record in the file is damaged");
    return dlsh_fail(DL_ERR_FORMAT, NULL, "the description of '%s' in the file is damaged", name);
}

static dl_status read_rng(const json_t *j, const char *name, unsigned long state[DL_RNG_STATE]) {
    const json_t *is = json_object_get(j, "is");
    if (json_array_size(is) != DL_RNG_STATE) return damaged(name);
    for (size_t i = 0; i < DL_RNG_STATE; i++) {
        const char *s = json_string_value(json_array_get(is, i));
        if (!s) return damaged(name);
        state[i] = strtoul(s, NULL, 10);
    }
    return DL_OK;
}

static dl_status read_schedule(const json_t *j, const char *name, double state[DL_SCHEDULE_STATE]) {
    const json_t *list = json_object_get(j, "state");
    if (json_array_size(list) != DL_SCHEDULE_STATE) return damaged(name);
    for (size_t i = 0; i < DL_SCHEDULE_STATE; i++) {
        const char *s = json_string_value(json_array_get(list, i));
        if (!s) return damaged(name);
        state[i] = strtod(s, NULL);
    }
    return DL_OK;
}

/* The tensors of the file behind a name, as a record. */
static dl_status state_of(const dl_tensor_file *f, const char *name, dlsh_value *out) {
    DLSH_DROPPED dlsh_value r = dlsh_new_record();
    size_t n = strlen(name);
    for (long i = 0; i < dl_tensor_file_count(f); i++) {
        const char *full = dl_tensor_file_name(f, i);
        if (strncmp(full, name, n) || full[n] != '.') continue;
        DLSH_TRY(dlsh_record_add(r, full + n + 1, dlsh_tensor(dl_ref(dl_tensor_file_at(f, i)))));
    }
    return dlsh_hand_over(&r, out);
}

static dl_status read_value(const dl_tensor_file *f, const json_t *j, const char *name, dlsh_value *out);

static void name_item(dlsh_buf *b, const char *name, const json_t *j, size_t i) {
    const char *key = json_string_value(json_array_get(json_object_get(j, "keys"), i));
    dlsh_buf_printf(b, "%s%s", name, *name ? "." : "");
    if (key)
        dlsh_buf_puts(b, key);
    else
        dlsh_buf_printf(b, "%zu", i);
}

static dl_status read_all(const dl_tensor_file *f, const json_t *j, const char *name, dlsh_value *out) {
    const json_t *items = json_object_get(j, "items"), *keys = json_object_get(j, "keys");
    int record = !strcmp(kind_of(j), "record");
    if (!json_is_array(items) || (record && json_array_size(keys) != json_array_size(items))) return damaged(name);
    DLSH_DROPPED dlsh_value v = record ? dlsh_new_record() : dlsh_new_list((long)json_array_size(items));
    for (size_t i = 0; i < json_array_size(items); i++) {
        DLSH_SCOPED_BUF b = {0};
        dlsh_value item = dlsh_void();
        const char *key = json_string_value(json_array_get(keys, i));
        name_item(&b, name, j, i);
        DLSH_TRY(record && !key ? damaged(name) : read_value(f, json_array_get(items, i), dlsh_buf_text(&b), &item));
        DLSH_TRY(record ? dlsh_record_add(v, key, item) : dlsh_append(v, item));
    }
    return dlsh_hand_over(&v, out);
}

static dl_status read_value(const dl_tensor_file *f, const json_t *j, const char *name, dlsh_value *out) {
    const char *kind = kind_of(j), *is = text_of(j);
    if (!strcmp(kind, "record") || !strcmp(kind, "list")) return read_all(f, j, name, out);
    if (!strcmp(kind, "net") || !strcmp(kind, "optimizer")) return state_of(f, name, out);
    if (!strcmp(kind, "tensor")) {
        dl_tensor *t = dl_tensor_file_find(f, name);
        return t ? dlsh_give(dlsh_tensor(dl_ref(t)), out) : damaged(name);
    }
    if (!strcmp(kind, "rng")) {
        unsigned long state[DL_RNG_STATE];
        DLSH_TRY(read_rng(j, name, state));
        return dlsh_give(rng_value(state), out);
    }
    if (!strcmp(kind, "loader"))
        return dlsh_give(DLSH_RECORD_OF({"epoch", dlsh_int((long)json_integer_value(json_object_get(j, "epoch")))},
                                        {"batch", dlsh_int((long)json_integer_value(json_object_get(j, "batch")))}),
                         out);
    if (!strcmp(kind, "schedule")) {
        double state[DL_SCHEDULE_STATE];
        DLSH_TRY(read_schedule(j, name, state));
        return dlsh_give(DLSH_RECORD_OF({"text", dlsh_string(is)}, {"factor", dlsh_float(state[0])},
                                        {"best", dlsh_float(state[1])}, {"bad", dlsh_float(state[2])},
                                        {"cooling", dlsh_float(state[3])}),
                         out);
    }
    if (!strcmp(kind, "grad_scaler"))
        return dlsh_give(dlsh_scaler_value((dl_scaler){.scale = strtod(is, NULL), 2, 0.5, 2000, .good = 0}), out);
    if (!strcmp(kind, "string")) return dlsh_give(dlsh_string_n(is, json_string_length(json_object_get(j, "is"))), out);
    if (!strcmp(kind, "int")) return *out = dlsh_int(strtol(is, NULL, 10)), DL_OK;
    if (!strcmp(kind, "bool")) return *out = dlsh_bool(*is == '1'), DL_OK;
    if (!strcmp(kind, "float")) return *out = dlsh_float(strtod(is, NULL)), DL_OK;
    if (!strcmp(kind, "none")) return *out = dlsh_none(), DL_OK;
    return damaged(name);
}

/* The description in a file; NULL: there is none, or a recorded failure. */
static json_t *description(const dl_tensor_file *f) {
    const char *text = dl_tensor_file_meta(f, KEY);
    json_error_t e;
    json_t *j = text ? json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e) : NULL;
    if (text && !j) dlsh_fail(DL_ERR_FORMAT, NULL, "the description of the record is not valid JSON: %.100s", e.text);
    return j;
}

dl_status dlsh_record_open(const dl_tensor_file *f, dlsh_value *out) {
    DLSH_ENDED(json_decref) json_t *j = description(f);
    return j ? read_all(f, j, "", out) : dl_failed();
}

/* ---------------------------------------------------------------- loading into objects */

/* What kind of description fits a value; NULL: any plain one. */
static const char *kind_for(dlsh_value v) {
    return dlsh_unwrap(v, &dlsh_net_class)         ? "net"
           : dlsh_unwrap(v, &dlsh_optimizer_class) ? "optimizer"
           : dlsh_unwrap(v, &dlsh_loader_class)    ? "loader"
           : dlsh_unwrap(v, &dlsh_rng_class)       ? "rng"
           : dlsh_unwrap(v, &dlsh_scaler_class)    ? "grad_scaler"
           : dlsh_unwrap(v, &dlsh_schedule_class)  ? "schedule"
           : v.type == DLSH_TENSOR                 ? "tensor"
                                                   : NULL;
}

static const json_t *find_item(const json_t *j, const char *key) {
    const json_t *keys = json_object_get(j, "keys");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *k = json_string_value(json_array_get(keys, i));
        if (k && !strcmp(k, key)) return json_array_get(json_object_get(j, "items"), i);
    }
    return NULL;
}

static int is_object(const char *kind) {
    return dlsh_has_word("net|optimizer|loader|rng|grad_scaler|schedule", kind, strlen(kind));
}

/* Lists and records have items of their own; number i of it, and its key, NULL in a list. */
static int is_group(dlsh_value v) { return v.type == DLSH_LIST || v.type == DLSH_RECORD; }
static int items_of(dlsh_value v) { return v.type == DLSH_LIST ? v.as.list->n : v.as.record->n; }
static dlsh_value item_of(dlsh_value v, int i) {
    return v.type == DLSH_LIST ? v.as.list->items[i] : v.as.record->values[i];
}

/* Does it hold what gets a saved state, at any depth? Other lists and records are replaced as wholes. */
static int holds_objects(dlsh_value v, int depth) {
    const char *kind = kind_for(v);
    int found = kind && is_object(kind);
    for (int i = 0; !found && is_group(v) && depth < DEEPEST && i < items_of(v); i++)
        found = holds_objects(item_of(v, i), depth + 1);
    return found;
}

/* A file that is loaded into a record: first all of it is checked, then all is written. */
typedef struct loading {
    const dl_tensor_file *f;
    const char *path;
    int write;
    int depth;
} loading;

static dl_status load_tensor(const loading *l, dl_tensor *to, const char *name) {
    dl_tensor *from = dl_tensor_file_find(l->f, name);
    if (!from) return damaged(name);
    int same = dl_ndim(to) == dl_ndim(from);
    for (int i = 0; same && i < dl_ndim(to); i++) same = dl_shape(to)[i] == dl_shape(from)[i];
    if (!same)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "tensor '%s' of the file has another shape than that of the record", name);
    if (!l->write) return DL_OK;
    DLSH_SCOPED_GRAD_MODE(0);
    DLSH_OWNED dl_tensor *here = dl_to_device(from, dl_device_of(to));
    return here ? dl_assign(to, here) : dl_failed();
}

static dl_status load_net(const loading *l, dl_module *m, const char *name) {
    DLSH_DROPPED dlsh_value r = dlsh_void();
    DLSH_TRY(state_of(l->f, name, &r));
    DLSH_FREED dl_tensor **t = calloc((size_t)r.as.record->n + 1, sizeof(dl_tensor *));
    for (int i = 0; t && i < r.as.record->n; i++) t[i] = r.as.record->values[i].as.tensor;
    DLSH_ENDED(dl_tensor_file_free)
    dl_tensor_file *own = t ? dl_tensor_file_of(r.as.record->n, (const char *const *)r.as.record->keys, t) : NULL;
    return !t         ? dlsh_no_memory("the tensors of a net")
           : !own     ? dl_failed()
           : l->write ? dl_module_load_tensors(m, own, l->path, NULL, NULL)
                      : dl_module_check_tensors(m, own, l->path);
}

static dl_status load_optimizer(const loading *l, const json_t *j, dl_optimizer *o, const char *name) {
    DLSH_SCOPED_BUF prefix = {0};
    dlsh_buf_printf(&prefix, "%s.", name);
    if (strcmp(text_of(j), dl_optimizer_kind(o)))
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s: '%s' is the state of the optimizer %s, not of %s", l->path, name,
                         text_of(j), dl_optimizer_kind(o));
    return l->write ? dl_optimizer_load_state(o, l->f, dlsh_buf_text(&prefix))
                    : dl_optimizer_check_state(o, l->f, dlsh_buf_text(&prefix));
}

static dl_status load_loader(const loading *l, const json_t *j, dl_loader *to) {
    long epoch = (long)json_integer_value(json_object_get(j, "epoch"));
    long batch = (long)json_integer_value(json_object_get(j, "batch"));
    return l->write ? dl_loader_seek(to, epoch, batch) : dl_loader_check_position(to, epoch, batch);
}

static dl_status load_scaler(const loading *l, const json_t *j, dl_scaler *s) {
    dl_scaler then = *s;
    then.scale = strtod(text_of(j), NULL), then.good = (long)json_integer_value(json_object_get(j, "good"));
    DLSH_TRY(dl_scaler_check(&then));
    if (l->write) *s = then;
    return DL_OK;
}

static dl_status load_schedule(const loading *l, const json_t *j, dl_schedule *s, const char *name) {
    double state[DL_SCHEDULE_STATE];
    DLSH_TRY(read_schedule(j, name, state));
    if (strcmp(text_of(j), dl_schedule_text(s)))
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s: '%s' is the state of the schedule %s, not of %s", l->path, name,
                         text_of(j), dl_schedule_text(s));
    if (l->write) dl_schedule_set_state(s, state);
    return DL_OK;
}

static dl_status load_items(loading *l, const json_t *j, dlsh_value v, const char *name);

/* Into an object, which stays the same one; or *instead becomes the value that replaces v. */
static dl_status load_value(loading *l, const json_t *j, dlsh_value v, const char *name, dlsh_value *instead) {
    dl_module *m = dlsh_unwrap(v, &dlsh_net_class);
    dl_optimizer *o = dlsh_unwrap(v, &dlsh_optimizer_class);
    dl_loader *loader = dlsh_unwrap(v, &dlsh_loader_class);
    dl_scaler *s = dlsh_unwrap(v, &dlsh_scaler_class);
    dl_schedule *schedule = dlsh_unwrap(v, &dlsh_schedule_class);
    const char *want = holds_objects(v, 0) && is_group(v) ? dlsh_type_name(v) : kind_for(v), *kind = kind_of(j);
    if (want ? strcmp(kind, want) : is_object(kind))
        return dlsh_fail(DL_ERR_TYPE, NULL, "%s: field '%s' is the state of %s, not of %s", l->path, name, kind,
                         want ? want : dlsh_a(v));
    if (m) return load_net(l, m, name);
    if (o) return load_optimizer(l, j, o, name);
    if (loader) return load_loader(l, j, loader);
    if (s) return load_scaler(l, j, s);
    if (schedule) return load_schedule(l, j, schedule, name);
    if (v.type == DLSH_TENSOR) return load_tensor(l, v.as.tensor, name);
    if (want && is_group(v)) return load_items(l, j, v, name);
    unsigned long state[DL_RNG_STATE];
    if (want) DLSH_TRY(read_rng(j, name, state));
    if (want && l->write) dl_rng_restore(state);
    return read_value(l->f, j, name, instead);
}

/* Fields that the file has and the record lacks. */
static dl_status check_rest(const loading *l, const json_t *j, const dlsh_record *r, const char *name) {
    const json_t *keys = json_object_get(j, "keys");
    DLSH_SCOPED_BUF more = {0};
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i)), *dot = *name ? "." : "";
        if (key && !dlsh_record_get(r, key)) dlsh_buf_printf(&more, "%s'%s%s%s'", more.n ? ", " : "", name, dot, key);
    }
    if (!more.n) return DL_OK;
    return dlsh_fail(DL_ERR_NAME, "give the record these fields; or load(FILE), and m.load_state(r.m) for a part of it",
                     "%s also has %s, which the record has not", l->path, dlsh_buf_text(&more));
}

static dl_status load_item(loading *l, const json_t *j, dlsh_value group, int i, const char *name) {
    DLSH_SCOPED_BUF b = {0};
    dlsh_value instead = dlsh_void();
    const json_t *item = group.type == DLSH_LIST ? json_array_get(json_object_get(j, "items"), (size_t)i)
                                                 : find_item(j, group.as.record->keys[i]);
    dlsh_buf_printf(&b, "%s%s", name, *name ? "." : "");
    if (group.type == DLSH_LIST)
        dlsh_buf_printf(&b, "%d", i);
    else
        dlsh_buf_puts(&b, group.as.record->keys[i]);
    if (!item) return dlsh_fail(DL_ERR_NAME, NULL, "%s has no field '%s'", l->path, dlsh_buf_text(&b));
    DLSH_TRY(load_value(l, item, item_of(group, i), dlsh_buf_text(&b), &instead));
    if (dlsh_failed(instead)) return DL_OK;
    if (!l->write) return dlsh_drop(instead), DL_OK;
    if (group.type == DLSH_RECORD) return dlsh_record_set(group.as.record, group.as.record->keys[i], instead);
    dlsh_drop(group.as.list->items[i]);
    group.as.list->items[i] = instead;
    dlsh_hold(group, instead);
    return DL_OK;
}

static dl_status load_items(loading *l, const json_t *j, dlsh_value v, const char *name) {
    size_t stored = json_array_size(json_object_get(j, "items"));
    if (l->depth == DEEPEST)
        return dlsh_fail(DL_ERR_VALUE, "does it contain itself?", "the record is nested more than %d levels deep",
                         DEEPEST);
    if (v.type == DLSH_LIST && (size_t)v.as.list->n != stored)
        return dlsh_fail(DL_ERR_VALUE, NULL, "%s: list '%s' has %zu items, that of the record %d", l->path, name,
                         stored, v.as.list->n);
    l->depth++;
    dl_status st = DL_OK;
    for (int i = 0; i < items_of(v) && st == DL_OK; i++) st = load_item(l, j, v, i, name);
    l->depth--;
    return st == DL_OK && v.type == DLSH_RECORD ? check_rest(l, j, v.as.record, name) : st;
}

dl_status dlsh_record_load(dlsh_record *r, const char *path) {
    DLSH_ENDED(dl_tensor_file_free) dl_tensor_file *f = dl_tensors_read(path, 0);
    if (!f) return dl_failed();
    dl_error_clear();
    DLSH_ENDED(json_decref) json_t *j = description(f);
    dl_status st = DL_OK;
    if (!j)
        st = dl_error_last() ? dl_failed()
                             : dlsh_fail(DL_ERR_FORMAT, "load(FILE) gives its tensors",
                                         "%s was not saved from a record with nets, optimizers or numbers", path);
    for (int write = 0; write < 2 && st == DL_OK; write++) {
        loading l = {.f = f, .path = path, .write = write};
        st = load_items(&l, j, (dlsh_value){DLSH_RECORD, {.record = r}}, "");
    }
    return st ? dl_error_of_file(path) : st;
}
