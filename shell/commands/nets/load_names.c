/* Loading weights whose names in the file are not those of the net: by a map, or by order and shape; and the report of
 * what matched. */
#include <stdlib.h>
#include <string.h>

#include <fnmatch.h>

#include "commands/nets/load_names.h"
#include "dlcore/view.h"

/* What goes into the net: names as the net has them, tensors, and the names they had. */
typedef struct renamed {
    char **names, **former;
    dl_tensor **tensors;
    long n;
    dlsh_value missing, unexpected; /* lists of names */
} renamed;

static void release(renamed *r) {
    for (long i = 0; i < r->n; i++) {
        free(r->names[i]), free(r->former[i]);
        dl_unref(r->tensors[i]);
    }
    free(r->names), free(r->former), free(r->tensors);
    dlsh_drop(r->missing), dlsh_drop(r->unexpected);
}

static dl_status prepare(renamed *r, long most) {
    size_t n = (size_t)most + 1;
    r->names = calloc(n, sizeof *r->names), r->former = calloc(n, sizeof *r->former);
    r->tensors = calloc(n, sizeof(dl_tensor *));
    r->missing = dlsh_new_list(4), r->unexpected = dlsh_new_list(4);
    if (!r->names || !r->former || !r->tensors) return dlsh_no_memory("the names of a file");
    return dlsh_failed(r->missing) || dlsh_failed(r->unexpected) ? dl_failed() : DL_OK;
}

/* Takes the tensor. */
static dl_status add(renamed *r, const char *name, const char *former, dl_tensor *t) {
    if (!t) return dl_failed();
    r->tensors[r->n] = t;
    r->names[r->n] = strdup(name), r->former[r->n] = strdup(former);
    long at = r->n++;
    if (!r->names[at] || !r->former[at]) return dlsh_no_memory("the names of a file");
    for (long i = 0; i < at; i++)
        if (!strcmp(r->names[i], name))
            return dlsh_fail(DL_ERR_NAME, NULL, "'%s' and '%s' would both be loaded into %s", r->former[i], former,
                             name);
    return DL_OK;
}

static dl_tensor *turned(dl_tensor *t) {
    DLSH_SCOPED_GRAD_MODE(0);
    dl_tensor *v = dl_permute(t, (long[]){1, 0}, 2), *c = v ? dl_contiguous(v) : NULL;
    dl_unref(v);
    return c;
}

/* ---------------------------------------------------------------- by a map */

enum { STARS = 8 };
typedef struct star {
    const char *at;
    size_t n;
} star;

/* Does the pattern fit the whole name, or whole components at its beginning? A * stands for text without a point; what
 * the stars stood for, and the rest of the name. */
static int fits(const char *pattern, const char *name, star *stars, int nstars, const char **rest) {
    for (; *pattern && *pattern != '*'; pattern++, name++)
        if (*pattern != *name) return 0;
    if (!*pattern) return *rest = name, !*name || *name == '.';
    if (nstars == STARS) return 0;
    for (size_t n = strcspn(name, "."); n > 0; n--) {
        stars[nstars] = (star){name, n};
        if (fits(pattern + 1, name + n, stars, nstars + 1, rest)) return 1;
    }
    return 0;
}

/* The value of a map's entry, with what the stars stood for. */
static void substitute(dlsh_buf *b, const char *to, const star *stars, const char *rest) {
    int k = 0;
    for (; *to; to++) {
        if (*to == '*' && k < STARS && stars[k].n)
            dlsh_buf_add(b, stars[k].at, stars[k].n), k++;
        else
            dlsh_buf_add(b, to, 1);
    }
    dlsh_buf_puts(b, rest);
}

/* The entry of the longest pattern that fits, an exact name first; -1: none. */
static int find_entry(const dlsh_record *map, const char *name, star *stars, const char **rest) {
    int best = -1;
    for (int i = 0; i < map->n; i++) {
        star s[STARS] = {{0}};
        const char *r;
        if (!fits(map->keys[i], name, s, 0, &r)) continue;
        int better = best < 0 || (!*r && **rest) || (!*r == !**rest && strlen(map->keys[i]) > strlen(map->keys[best]));
        if (!better) continue;
        best = i, *rest = r;
        memcpy(stars, s, sizeof s);
    }
    return best;
}

/* What the map makes of a name; *out "": the tensor is left out. used[i]: entry i was of use. */
static dl_status new_name(dlsh_session *s, dlsh_value map, const char *name, char *used, dlsh_buf *out) {
    DLSH_DROPPED dlsh_value to = dlsh_void();
    star stars[STARS] = {{0}};
    const char *rest = "";
    if (map.type == DLSH_RECORD) {
        int i = find_entry(map.as.record, name, stars, &rest);
        if (i < 0) return dlsh_buf_puts(out, name), DL_OK;
        used[i] = 1;
        to = dlsh_ref(map.as.record->values[i]);
    } else {
        DLSH_DROPPED dlsh_value arg = dlsh_string(name);
        dl_status st = dlsh_failed(arg) ? dl_failed() : dlsh_call(s, map, &(dlsh_callargs){1, &arg, NULL}, &to);
        DLSH_TRY(st);
    }
    dl_status st = DL_OK;
    if (to.type == DLSH_STR)
        substitute(out, to.as.str->s, stars, rest);
    else if (to.type != DLSH_NONE)
        st = dlsh_fail(DL_ERR_TYPE, "map={\"0.weight\": \"conv0.weight\", \"unused\": none}",
                       "the map makes %s of '%s'; a name, or none to leave it out, is expected", dlsh_a(to), name);
    return st;
}

/* What is left out may be absent: files of one layout differ in the buffers that they hold. */
static dl_status check_used(const dlsh_record *map, const char *used, const dl_tensor_file *f) {
    for (int i = 0; i < map->n; i++) {
        if (used[i] || map->values[i].type == DLSH_NONE) continue;
        const char *names[256];
        int n = 0;
        for (; n < 256 && n < dl_tensor_file_count(f); n++) names[n] = dl_tensor_file_name(f, n);
        const char *near = dlsh_nearest(map->keys[i], names, n);
        return dlsh_fail(DL_ERR_NAME, near ? near : "the names on the left are those of the file",
                         "map: no tensor of the file is called '%s'", map->keys[i]);
    }
    return DL_OK;
}

/* Is the tensor of this name one that `transpose` names: a pattern, or a list of them? */
static dl_status is_turned(dlsh_value patterns, const char *name, int *yes) {
    *yes = 0;
    if (patterns.type == DLSH_STR) *yes = !fnmatch(patterns.as.str->s, name, 0);
    for (int i = 0; patterns.type == DLSH_LIST && i < patterns.as.list->n && !*yes; i++) {
        dlsh_value v = patterns.as.list->items[i];
        if (v.type != DLSH_STR)
            return dlsh_fail(DL_ERR_TYPE, "transpose=[\"*.c_attn.weight\"]", "transpose takes names, got %s",
                             dlsh_a(v));
        *yes = !fnmatch(v.as.str->s, name, 0);
    }
    return DL_OK;
}

static dl_status rename_one(const dlsh_load_names *how, const dl_tensor_file *f, long i, char *used, renamed *r) {
    const char *name = dl_tensor_file_name(f, i);
    dl_tensor *t = dl_tensor_file_at(f, i);
    DLSH_SCOPED_BUF b = {0};
    int turn;
    if (how->map.type == DLSH_VOID || how->map.type == DLSH_NONE)
        dlsh_buf_puts(&b, name);
    else
        DLSH_TRY(new_name(how->session, how->map, name, used, &b));
    DLSH_TRY(is_turned(how->transpose, name, &turn));
    if (turn && dl_ndim(t) != 2)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "'%s' cannot be transposed: it has %d dimensions", name, dl_ndim(t));
    if (!*dlsh_buf_text(&b)) return dlsh_list_push(r->unexpected.as.list, dlsh_string(name));
    return add(r, dlsh_buf_text(&b), name, turn ? turned(t) : dl_ref(t));
}

static dl_status rename_all(const dlsh_load_names *how, const dl_tensor_file *f, renamed *r) {
    int entries = how->map.type == DLSH_RECORD ? how->map.as.record->n : 0;
    DLSH_FREED char *used = calloc((size_t)entries + 1, 1);
    if (!used) return dlsh_no_memory("a map of names");
    for (long i = 0; i < dl_tensor_file_count(f); i++) DLSH_TRY(rename_one(how, f, i, used, r));
    if (entries) DLSH_TRY(check_used(how->map.as.record, used, f));
    return DL_OK;
}

/* ---------------------------------------------------------------- by order and shape */

static dl_status pair(dl_module *m, const dl_tensor_file *f, renamed *r) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 3);
    long files = dl_tensor_file_count(f);
    DLSH_FREED dl_match *match = l ? calloc((size_t)l->n + 1, sizeof *match) : NULL;
    DLSH_FREED char *used = calloc((size_t)files + 1, 1);
    DLSH_TRY(match && used ? dl_module_match(m, f, match) : dlsh_no_memory("the names of a net"));
    for (long i = 0; i < l->n; i++) {
        if (match[i].at < 0) continue;
        dl_tensor *t = dl_tensor_file_at(f, match[i].at);
        used[match[i].at] = 1;
        DLSH_TRY(add(r, l->entries[i].path, dl_tensor_file_name(f, match[i].at),
                     match[i].transposed ? turned(t) : dl_ref(t)));
    }
    for (long i = 0; i < files; i++)
        if (!used[i] && fnmatch("*num_batches_tracked", dl_tensor_file_name(f, i), 0))
            DLSH_TRY(dlsh_list_push(r->unexpected.as.list, dlsh_string(dl_tensor_file_name(f, i))));
    return DL_OK;
}

/* ---------------------------------------------------------------- loading and the report */

typedef struct notes {
    renamed *r;
    dl_status st;
} notes;

static void note(void *ctx, const char *name, int in_net) {
    notes *n = ctx;
    if (n->st != DL_OK) return;
    const char *shown = name;
    for (long i = 0; !in_net && i < n->r->n; i++)
        if (!strcmp(n->r->names[i], name)) shown = n->r->former[i];
    n->st = dlsh_list_push((in_net ? n->r->missing : n->r->unexpected).as.list, dlsh_string(shown));
}

/* Which tensor of the file each of the net's is, by path; those that the net has not are left out. */
static dlsh_value matched(dl_module *m, const renamed *r) {
    dlsh_value v = dlsh_new_record();
    dl_status st = dlsh_failed(v) ? dl_failed() : DL_OK;
    for (long i = 0; i < r->n && st == DL_OK; i++)
        if (dl_module_tensor(m, r->names[i])) st = dlsh_record_set(v.as.record, r->names[i], dlsh_string(r->former[i]));
    if (st == DL_OK) return v;
    dlsh_drop(v);
    return dlsh_void();
}

static void put_names(dlsh_sink *sink, const char *what, dlsh_value names) {
    const dlsh_list *l = names.as.list;
    for (int i = 0; i < l->n; i++) dlsh_put(sink, "%s%s", i ? ", " : what, l->items[i].as.str->s);
    if (l->n) dlsh_put(sink, "\n");
}

static dl_status show_pairs(const dlsh_load_names *how, dl_module *m, const dlsh_record *pairs) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"net", 'l', ""}, {"file", 'l', ""}, {"shape", 'l', ""});
    for (int i = 0; i < pairs->n; i++) {
        const dl_tensor *own = dl_module_tensor(m, pairs->keys[i]);
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(pairs->keys[i]), dlsh_ref(pairs->values[i]),
                                dlsh_new_ints(dl_shape(own), dl_ndim(own))));
    }
    return dlsh_table_show(how->sink, &t, DL_OK, NULL);
}

static dl_status report(const dlsh_load_names *how, dl_module *m, const char *what, renamed *r, dlsh_value *out) {
    dlsh_value pairs = matched(m, r);
    if (dlsh_failed(pairs)) return dl_failed();
    dl_status st = how->by_order ? show_pairs(how, m, pairs.as.record) : DL_OK;
    dlsh_put(how->sink, "%s: %d tensors loaded\n", what, pairs.as.record->n);
    put_names(how->sink, "only in the net: ", r->missing);
    put_names(how->sink, "only in the file: ", r->unexpected);
    dlsh_value v =
        DLSH_RECORD_OF({"matched", pairs}, {"missing", dlsh_ref(r->missing)}, {"unexpected", dlsh_ref(r->unexpected)});
    return dlsh_give_filled(st, v, out);
}

/* Loads what was renamed. By order the report tells what is left; else strict=false is needed for it. */
static dl_status load(const dlsh_load_names *how, dl_module *m, const char *what, renamed *r) {
    DLSH_ENDED(dl_tensor_file_free)
    dl_tensor_file *f = dl_tensor_file_of(r->n, (const char *const *)r->names, r->tensors);
    notes n = {r, DL_OK};
    int lenient = !how->strict || how->by_order;
    DLSH_TRY(f ? dl_module_load_tensors(m, f, what, lenient ? note : NULL, &n) : dl_failed());
    return n.st;
}

dl_status dlsh_load_named(const dlsh_load_names *how, dl_module *m, const dl_tensor_file *f, const char *what,
                          dlsh_value *out) {
    renamed r = {.missing = dlsh_void(), .unexpected = dlsh_void()};
    dl_status st = prepare(&r, dl_tensor_file_count(f));
    if (st == DL_OK) st = how->by_order ? pair(m, f, &r) : rename_all(how, f, &r);
    if (st == DL_OK && how->by_order && !r.n)
        st = dlsh_fail(DL_ERR_SHAPE, NULL, "%s: no tensor has the shape of one of the net", what);
    if (st == DL_OK) st = load(how, m, what, &r);
    if (st == DL_OK) st = report(how, m, what, &r, out);
    release(&r);
    return st;
}

/* ---------------------------------------------------------------- options */

dlsh_load_names dlsh_load_names_of(const dlsh_args *a) {
    const dlsh_value *map = dlsh_arg(a, "map"), *transpose = dlsh_arg(a, "transpose");
    return (dlsh_load_names){.session = dlsh_arg_session(a),
                             .sink = dlsh_arg_sink(a),
                             .strict = dlsh_arg_bool(a, "strict"),
                             .by_order = !strcmp(dlsh_arg_str(a, "by"), "order"),
                             .map = map ? *map : dlsh_none(),
                             .transpose = transpose ? *transpose : dlsh_none()};
}

int dlsh_load_names_given(const dlsh_args *a) {
    return !dlsh_arg_bool(a, "strict") || dlsh_given(a, "map") || dlsh_given(a, "by") || dlsh_given(a, "transpose");
}
