/* Methods of nets: functions beside the forward, which see the parts of the net as the forward does. */
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "lang/eval/interp.h"

/* The code of the net itself, borrowed. */
static void keep_code(void *ctx, dl_code *code) { *(dl_code **)ctx = code; }

static void skip_part(void *ctx, dl_module *part) { (void)ctx, (void)part; }

static dl_code *code_of(dl_module *m) {
    dl_code *code = NULL;
    dl_module_references(m, skip_part, keep_code, &code);
    return code;
}

/* The first method; NULL: none. */
static dlsh_callback *first_method(dl_code *code) {
    dlsh_callback *forward = code ? dl_code_context(code, dlsh_callback_free) : NULL;
    return forward ? forward->next : NULL;
}

/* ---------------------------------------------------------------- bound to a net */

typedef struct bound {
    dl_module *net;
    dl_code *code; /* holds fn */
    dlsh_callback *fn;
} bound;

static void destroy(void *self) {
    bound *b = self;
    dl_module_unref(b->net);
    dl_code_unref(b->code);
    free(b);
}

static dl_status text(void *self, dlsh_buf *out) {
    const bound *b = self;
    dlsh_buf_printf(out, "<method %s of net %s>", dlsh_function_name(b->fn->fn), dl_module_name(b->net));
    return DL_OK;
}

static dl_status key(void *self, unsigned long *out) { return dl_module_key(((bound *)self)->net, out); }

static void values(void *self, const dlsh_visitor *to) {
    const bound *b = self;
    dlsh_net_values(b->net, to);
    to->shared((dlsh_shared){(int *)b->code, dlsh_code_values}, to->ctx);
}

static dl_status call(dlsh_session *s, void *self, const dlsh_callargs *args, dlsh_value *out) {
    bound *b = self;
    int n;
    DLSH_FREED dlsh_value *parts = dlsh_net_parts(b->fn, b->net, 1, &n);
    if (!parts) return dl_failed();
    dl_status st = dlsh_call_forward(s, b->fn->fn, parts, args, out);
    for (int i = 0; i < n; i++) dlsh_drop(parts[i]);
    return st;
}

static const dlsh_class method_class = {.name = "method",
                                        .doc = "A function of a net, which is called as its forward is.",
                                        .destroy = destroy,
                                        .key = key,
                                        .values = values,
                                        .text = text,
                                        .call = call};

/* ---------------------------------------------------------------- by name */

dl_status dlsh_net_function(dl_module *m, const char *name, dlsh_value *out) {
    if (!strcmp(name, "forward")) return dlsh_give(dlsh_net_value(m), out);
    dl_code *code = code_of(m);
    dlsh_callback *cb = first_method(code);
    while (cb && strcmp(dlsh_function_name(cb->fn), name) != 0) cb = cb->next;
    if (!cb) return DL_ERR_NAME;
    bound *b = malloc(sizeof *b);
    if (!b) return dlsh_no_memory("a method");
    *b = (bound){dl_module_ref(m), dl_code_ref(code), cb};
    return dlsh_give(dlsh_new_handle(&method_class, b), out);
}

dl_status dlsh_net_function_names(dl_module *m, dlsh_value list) {
    for (const dlsh_callback *cb = first_method(code_of(m)); cb; cb = cb->next)
        DLSH_TRY(dlsh_append(list, dlsh_string(dlsh_function_name(cb->fn))));
    return DL_OK;
}
