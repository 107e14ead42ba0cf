/* Nets as values: fields, calls, the table of layers; parameters. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "lang/eval/interp.h"
#include "view/table.h"
#include "view/text.h"

dlsh_value dlsh_known(double v) { return v == v ? dlsh_float(v) : dlsh_none(); }

dlsh_value dlsh_net_value(dl_module *m) { return dlsh_new_handle(&dlsh_net_class, dl_module_ref(m)); }

static void destroy(void *self) { dl_module_unref(self); }

int dlsh_net_device(dl_module *m) {
    DLSH_ENDED(dl_module_list_free) dl_module_list *l = dl_module_tensors(m, 3);
    return l && l->n ? dl_device_of(l->entries[0].tensor) : dlsh_default_device();
}

/* ---------------------------------------------------------------- text and table */

/* Is it made of layers? Tensors, and what they are computed from, make none. */
static int is_group(const dl_module *m) {
    if (!strcmp(dl_module_kind(m), "net")) return 1;
    for (int i = 0; i < dl_module_count(m); i++)
        if (!dlsh_is_net_tensor(dl_module_at(m, i)) && strcmp(dl_module_label(m, i), "parametrizations") != 0) return 1;
    return 0;
}

static dl_status text(void *self, dlsh_buf *out) {
    dl_module *m = self;
    if (!is_group(m)) {
        DLSH_ENDED(dl_text_free) char *words = dl_module_text(m);
        if (!words) return dl_failed();
        dlsh_buf_printf(out, "<layer %s>", words);
        return DL_OK;
    }
    dlsh_buf_printf(out, "<net %s: %d layers, ", dl_module_name(m), dl_module_count(m));
    if (dl_module_is_built(m)) {
        dlsh_grouped(out, dl_module_params(m));
        dlsh_buf_puts(out, " parameters>");
    } else
        dlsh_buf_puts(out, "input size not known yet>");
    return DL_OK;
}

/* The first dimension is the batch, N; further results may have another, or none. Of a layer that has states beside its
 * result, only the result. */
static dlsh_value shape_cell(const dl_layer_stat *l) {
    dlsh_buf b = {0};
    const long *shape = l->shape;
    for (int k = 0; k < (l->leaf ? 1 : l->outputs); shape += l->ndims[k++]) {
        dlsh_buf_puts(&b, k ? " [" : "[");
        for (int i = 0; i < l->ndims[k]; i++) {
            if (!i && !l->tensor && shape[0] == l->shape[0])
                dlsh_buf_puts(&b, "N");
            else
                dlsh_buf_printf(&b, i ? ",%ld" : "%ld", shape[i]);
        }
        dlsh_buf_puts(&b, "]");
    }
    return dlsh_buf_string(&b);
}

/* Below the layer that holds it, at a table's depth; elsewhere the whole path. */
static dlsh_value layer_cell(const dl_summary *s, long i, dlsh_mode mode) {
    const dl_layer_stat *l = &s->layers[i];
    if (mode != DLSH_MODE_TABLE) return dlsh_string(l->path);
    long up = i - 1;
    while (up > 0 && s->layers[up].depth >= l->depth) up--;
    size_t n = strlen(s->layers[up].path), below = n && !strncmp(l->path, s->layers[up].path, n) && l->path[n] == '.';
    return dlsh_stringf("%*s%s", 2 * (l->depth - 1), "", l->path + (below ? n + 1 : 0));
}

/* ", frozen": its parameters ask for no gradient. */
static const char *frozen(dl_module *m, const dl_layer_stat *l) {
    dl_module *part = l->params ? dl_module_find(m, l->path) : NULL;
    dl_module_list *list = part ? dl_module_tensors(part, 1) : NULL;
    long fixed = 0, n = list ? list->n : 0;
    for (long i = 0; i < n; i++) fixed += !dl_requires_grad(list->entries[i].tensor);
    dl_module_list_free(list);
    if (!part) dl_error_clear();
    return !fixed ? "" : fixed == n ? ", frozen" : ", partly frozen";
}

static dlsh_value what_cell(dl_module *m, const dl_layer_stat *l) {
    char times[40] = "";
    if (l->calls > 1) snprintf(times, sizeof times, ", %ld times", l->calls);
    return dlsh_stringf("%s%s%s", l->text, times, frozen(m, l));
}

static dl_status add_stat(dlsh_table *t, dl_module *m, const dl_summary *s, long i, const char *total, dlsh_mode mode) {
    const dl_layer_stat *l = &s->layers[i];
    return DLSH_TABLE_ROW(t, total ? dlsh_string(total) : layer_cell(s, i, mode),
                          total ? dlsh_string("") : what_cell(m, l), shape_cell(l), dlsh_int(l->params),
                          dlsh_amount(l->flops, 0, mode), dlsh_amount(l->bytes, 1, mode));
}

dl_status dlsh_show_summary(dlsh_sink *sink, dl_module *m, const dl_summary *s) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"layer", 'l', ""}, {"what", 'l', ""}, {"output", 'l', ""},
                                     {"parameters", 'r', ""}, {"flops", 'r', ""}, {"memory", 'r', ""});
    dlsh_mode mode = dlsh_sink_look(sink).mode;
    char title[160];
    const char *mode_text = dl_module_training(m) ? "" : ", in evaluation mode";
    snprintf(title, sizeof title, "net %s, for one sample%s", dl_module_name(m), mode_text);
    if (mode == DLSH_MODE_TABLE) t.title = title;
    for (long i = 1; i < s->n; i++) DLSH_TRY(add_stat(&t, m, s, i, NULL, mode));
    if (s->n) DLSH_TRY(add_stat(&t, m, s, 0, is_group(m) ? "total" : dl_module_name(m), mode));
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

/* Before the input's size is known there are only names. */
static dl_status add_names(dlsh_table *t, dl_module *m, int depth) {
    for (int i = 0; i < dl_module_count(m); i++) {
        dl_module *c = dl_module_at(m, i);
        DLSH_ENDED(dl_text_free) char *words = is_group(c) ? NULL : dl_module_text(c);
        DLSH_TRY(DLSH_TABLE_ROW(t, dlsh_stringf("%*s%s", 2 * depth, "", dl_module_label(m, i)),
                                dlsh_string(words ? words : dl_module_kind(c)),
                                dl_module_is_built(c) ? dlsh_int(dl_module_params(c)) : dlsh_none()));
        DLSH_TRY(add_names(t, c, depth + 1));
    }
    return DL_OK;
}

static dl_status show_names(dlsh_sink *sink, dl_module *m) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"layer", 'l', ""}, {"what", 'l', ""}, {"parameters", 'r', ""});
    DLSH_TRY(add_names(&t, m, 0));
    DLSH_TRY(dlsh_table_show(sink, &t, DL_OK, NULL));
    if (dlsh_sink_look(sink).mode == DLSH_MODE_TABLE)
        dlsh_put(sink,
                 "The size of the input is not known yet: make a trainer, run a batch through, or m.summary([1, 28, "
                 "28]).\n");
    return DL_OK;
}

/* A single layer is a line. */
static dl_status show_layer(dlsh_sink *sink, void *self) {
    DLSH_SCOPED_BUF line = {0};
    DLSH_TRY(text(self, &line));
    dlsh_put(sink, "%s\n", dlsh_buf_text(&line));
    return DL_OK;
}

static dl_status show(void *self, dlsh_sink *sink) {
    if (!is_group(self)) return show_layer(sink, self);
    dl_net_input in[DL_NET_INPUTS];
    int n = dl_module_inputs(self, in);
    if (!n) return show_names(sink, self);
    DLSH_ENDED(dl_summary_free) dl_summary *sum = dl_module_summary(self, in, n, dlsh_net_device(self));
    if (!sum) return dl_failed();
    return dlsh_show_summary(sink, self, sum);
}

/* ---------------------------------------------------------------- fields */

DLSH_GETTER(get_name, dlsh_string(dl_module_name(self)))
DLSH_GETTER(get_kind, dlsh_string(dl_module_kind(self)))
static dl_status get_size(void *self, dlsh_value *out) {
    *out = dl_module_is_built(self) ? dlsh_int(dl_module_params(self)) : dlsh_none();
    return DL_OK;
}
DLSH_GETTER(get_training, dlsh_bool(dl_module_training(self)))
static dl_status get_text(void *self, dlsh_value *out) {
    DLSH_ENDED(dl_text_free) char *words = dl_module_text(self);
    if (!words) return dl_failed();
    return dlsh_give(dlsh_string(words), out);
}

static const dlsh_field fields[] = {
    {"name", "name of the net", get_name, NULL},
    {"kind", "kind of the layer: conv, sequential, ...", get_kind, NULL},
    {"size", "number of parameters; none before the input's size is known", get_size, NULL},
    {"training", "training mode, as opposed to evaluation", get_training, NULL},
    {"text", "the text of the layers", get_text, NULL},
    {NULL, NULL, NULL, NULL}};

/* A part may be called like a field, `kind: linear 3`. */
static int hides(void *self, const char *field) { return dl_module_find(self, field) != NULL; }

/* NAME of `NAME: linear 8 -> relu` is the layer linear in a chain, and the chain linear0 -> relu0 beside a forward. */
static void elsewhere(void *self, const char *name, char *hint, size_t size) {
    size_t kind = strlen(dl_module_kind(self));
    if (!is_group(self) && !strncmp(name, dl_module_kind(self), kind) && isdigit((unsigned char)name[kind]))
        snprintf(hint, size,
                 "this is the layer %s itself; a name before a chain is that of the whole chain only in a net "
                 "with a forward",
                 dl_module_kind(self));
    for (int i = 0; !*hint && is_group(self) && i < dl_module_count(self); i++)
        if (dl_module_find(dl_module_at(self, i), name) || dl_module_tensor(dl_module_at(self, i), name))
            snprintf(hint, size, "its part %s has it: .%s.%s", dl_module_label(self, i), dl_module_label(self, i),
                     name);
}

int dlsh_is_net_tensor(const dl_module *m) {
    return !strcmp(dl_module_kind(m), "param") || !strcmp(dl_module_kind(m), "buffer");
}

/* The tensor of that name, owned. *t NULL: there is none, in a layer that has its weights. */
static dl_status tensor_of(dl_module *m, const char *name, dl_tensor **t) {
    dl_error_clear();
    if ((*t = dl_module_value(m, name))) return DL_OK;
    if (dl_error_last()) return dl_failed();
    dl_module *c = *name ? dl_module_find(m, name) : NULL, *holder = c ? c : m;
    if (c ? !dlsh_is_net_tensor(c) : is_group(m)) return DL_OK;
    DLSH_TRY(dl_module_check_built(holder));
    *t = dl_module_value(m, name);
    return DL_OK;
}

/* Tensors, layers and methods by name. */
static dl_status get(void *self, const char *name, dlsh_value *out) {
    dl_module *m = self, *c = dl_module_find(m, name);
    dl_tensor *t;
    DLSH_TRY(tensor_of(m, name, &t));
    if (t) return dlsh_give(dlsh_tensor(t), out);
    return c && *name ? dlsh_give(dlsh_net_value(c), out) : dlsh_net_function(m, name, out);
}

/* A tensor gets values; a layer is replaced. */
static dl_status set(void *self, const char *name, dlsh_value v) {
    dl_tensor *found;
    DLSH_TRY(tensor_of(self, name, &found));
    DLSH_OWNED dl_tensor *t = found;
    if (!t && *name && dl_module_find(self, name)) return dlsh_replace_part(self, name, v);
    if (!t && !dlsh_foreign_method(name) && !strchr(name, '.'))
        return dlsh_fail(DL_ERR_NAME,
                         "layers and tensors stand in the braces of the net; other values are kept in variables, or "
                         "are arguments of the net: net m(c=8) { ... }",
                         "a net has no layer or tensor '%s' to set", name);
    if (!t) return DL_ERR_NAME;
    if (v.type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_TYPE, NULL, "a parameter is set to a tensor, got %s", dlsh_type_name(v));
    if (dl_requires_grad(v.as.tensor)) {
        char hint[160];
        snprintf(hint, sizeof hint, "to copy its values: no_grad { m.%s.copy_(value) }, m being the layer", name);
        return dlsh_fail(DL_ERR_AUTOGRAD, hint, "%s cannot become %s: a net's parameters stay its own tensors", name,
                         dl_is_leaf(v.as.tensor) ? "another parameter" : "a computed tensor that has a history");
    }
    return dl_module_set_value(self, name, v.as.tensor);
}

static dl_status names(void *self, dlsh_value *out) {
    dl_module *m = self;
    DLSH_DROPPED dlsh_value l = dlsh_new_list(8);
    for (int i = 0; i < dl_module_count(m); i++) DLSH_TRY(dlsh_append(l, dlsh_string(dl_module_label(m, i))));
    static const char *const tensors[] = {"weight", "bias", "running_mean", "running_var"};
    for (int i = 0; i < 4; i++)
        if (dl_module_tensor(m, tensors[i]) || dl_module_is_parametrized(m, tensors[i], NULL))
            DLSH_TRY(dlsh_append(l, dlsh_string(tensors[i])));
    DLSH_TRY(dlsh_net_function_names(m, l));
    return dlsh_hand_over(&l, out);
}

/* Which layer a key stands for. */
static dl_status layer_at(dl_module *m, dlsh_value key, int *at) {
    int n = dl_module_count(m);
    if (key.type != DLSH_INT)
        return dlsh_fail(DL_ERR_TYPE, NULL,
                         "a layer is found by its number, m[0], or path, m[\"body.linear0\"], got %s", dlsh_a(key));
    long i = key.as.i < 0 ? key.as.i + n : key.as.i;
    if (i < 0 || i >= n)
        return dlsh_fail(DL_ERR_INDEX, "show m lists them", "there is no layer %ld: the net has %d", key.as.i, n);
    *at = (int)i;
    return DL_OK;
}

/* m["body.linear0.weight"]: what get or set does with a path, with a failure of its own. */
static dl_status at_path(void *self, dlsh_value key, dl_status st) {
    if (st != DL_ERR_NAME || dl_error_last()) return st;
    return dlsh_fail(DL_ERR_NAME, "m.named_modules() and m.state() have the paths", "net %s has no part '%.200s'",
                     dl_module_name(self), key.as.str->s);
}

/* m[1:]: a list of layers. */
static dl_status slice_of(dl_module *m, dlsh_value range, dlsh_value *out) {
    const dlsh_range *r = range.as.range;
    long n;
    DLSH_TRY(dlsh_length(range, &n));
    DLSH_DROPPED dlsh_value l = dlsh_new_list(n);
    for (long i = 0; i < n; i++)
        DLSH_TRY(dlsh_append(l, dlsh_net_value(dl_module_at(m, (int)(r->from + i * r->step)))));
    return dlsh_hand_over(&l, out);
}

static dl_status index_of(DLSH_UNUSED dlsh_session *s, void *self, dlsh_value key, dlsh_value *out) {
    int i = 0;
    if (key.type == DLSH_STR) {
        dl_error_clear();
        return at_path(self, key, get(self, key.as.str->s, out));
    }
    if (key.type == DLSH_RANGE) return slice_of(self, key, out);
    DLSH_TRY(layer_at(self, key, &i));
    return dlsh_give(dlsh_net_value(dl_module_at(self, i)), out);
}

static dl_status set_index(DLSH_UNUSED dlsh_session *s, void *self, dlsh_value key, dlsh_value v) {
    int i = 0;
    if (key.type == DLSH_STR) {
        dl_error_clear();
        return at_path(self, key, set(self, key.as.str->s, v));
    }
    DLSH_TRY(layer_at(self, key, &i));
    return dlsh_replace_part(self, dl_module_label(self, i), v);
}

static dl_status iterate(DLSH_UNUSED dlsh_session *s, void *self, dlsh_value *out) {
    DLSH_DROPPED dlsh_value l = dlsh_new_list(dl_module_count(self));
    for (int i = 0; i < dl_module_count(self); i++) DLSH_TRY(dlsh_append(l, dlsh_net_value(dl_module_at(self, i))));
    return dlsh_hand_over(&l, out);
}

static dl_status len(void *self, long *out) {
    *out = dl_module_count(self);
    return DL_OK;
}

/* A net that is called without arguments in vain: as the class of PyTorch that makes it is called. */
static dl_status called_to_make(dl_status st) {
    dl_error e;
    if (!dl_error_take(&e)) return st;
    if (!*e.hint)
        snprintf(e.hint, sizeof e.hint,
                 "net m { ... } makes one net, m, and m.copy() another; net m() { ... } makes one at each call of m()");
    return dl_error_put(&e);
}

static dl_status call(dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    (void)s;
    if (!strcmp(dl_module_kind(self), "net")) {
        const dl_status st = dlsh_call_net(self, args, NULL, out);
        return st && !args->n ? called_to_make(st) : st;
    }
    if (dl_module_arguments(self)) return dlsh_call_layer(self, args, out);
    if (args->n != 1 || (args->names && args->names[0]))
        return dlsh_fail(DL_ERR_VALUE, "m(x)", "a net takes one tensor, not %d arguments", args->n);
    if (args->values[0].type != DLSH_TENSOR)
        return dlsh_fail(DL_ERR_TYPE, "m(x)", "a net takes a tensor, got %s", dlsh_type_name(args->values[0]));
    return dlsh_give(dlsh_tensor(dl_module_forward(self, args->values[0].as.tensor)), out);
}

static dl_status key(void *self, unsigned long *out) { return dl_module_key(self, out); }

size_t dlsh_net_held(void *net) { return 2 * sizeof(float) * (size_t)dl_module_params(net); }

const dlsh_class dlsh_net_class = {.name = "net",
                                   .doc = "A net, or a layer of one; called with a batch it returns the output.",
                                   .destroy = destroy,
                                   .key = key,
                                   .values = dlsh_net_values,
                                   .held = dlsh_net_held,
                                   .text = text,
                                   .show = show,
                                   .fields = fields,
                                   .methods = dlsh_net_methods,
                                   .get = get,
                                   .hides = hides,
                                   .elsewhere = elsewhere,
                                   .set = set,
                                   .names = names,
                                   .call = call,
                                   .index = index_of,
                                   .set_index = set_index,
                                   .iterate = iterate,
                                   .len = len};
