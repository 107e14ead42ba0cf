/* NaN: the warning at the statement that first makes one, and `why nan`. */
#include "debug/debug.h"
#include "debug/doctor/doctor.h"
#include "debug/doctor/trace.h"
#include "debug/finding.h"
#include "view/elements.h"
#include "view/sink.h"

#include <stdio.h>
#include <string.h>

/* "log", or "the gradient of log", with the layer that ran it. */
static const char *maker(const dl_nan_event *e, char *buf, size_t size) {
    const char *of = *e->layer ? " of layer " : "";
    if (e->backward && strcmp(e->op, e->forward))
        snprintf(buf, size, "%s in the gradient of %s%s%s", e->op, e->forward, of, e->layer);
    else
        snprintf(buf, size, "%s%s%s%s", e->backward ? "the gradient of " : "", e->op, of, e->layer);
    return buf;
}

static const char *place(const char *file, int line, char *buf, size_t size) {
    snprintf(buf, size, "%s:%d", file, line);
    return buf;
}

static const char *index_text(const dl_nan_event *e, char *buf, size_t size) {
    size_t n = (size_t)snprintf(buf, size, "[");
    for (int i = 0; i < e->ndim && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%ld", i ? ", " : "", e->at[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

static const char *pass_of(const dl_nan_event *e) {
    return e->update ? "update" : e->backward ? "backward" : "forward";
}

/* What is told of it, and kept: a row for the run, a warning for the person. */
static void notice(void *ctx, const dl_nan_event *e) {
    static long noted; /* the run that was last told of one */
    char who[300], where[300] = "";
    dl_run *run = dl_run_active();
    if (e->again && dl_run_id(run) == noted) return;
    if (run) noted = dl_run_id(run);
    dlsh_finding f = {.by = "nan",
                      .op = *e->forward ? e->forward : e->op,
                      .layer = e->layer,
                      .pass = pass_of(e),
                      .file = e->file,
                      .line = e->line,
                      .remedy = *e->remedy ? e->remedy : "`why nan` tells more"};
    if (e->met) return dlsh_warn(ctx, e->remedy, "nan: the result of %s on the GPU", e->op);
    maker(e, who, sizeof who);
    if (e->backward) snprintf(where, sizeof where, ", which ran at %.250s:%d,", e->file, e->line);
    dlsh_cause(&f, "%s made nan%s%s", who, *e->reason ? ": " : "", e->reason);
    dlsh_evidence(&f, "%ld of %ld elements", e->count, e->numel);
    dlsh_finding_keep(ctx, &f);
    if (!e->again && dl_nan_policy_get() == DL_NAN_WARN)
        dlsh_warn(ctx, f.remedy, "%s%s made nan%s%s", who, where, *e->reason ? ": " : "", e->reason);
}

void dlsh_debug_serve(dlsh_session *s) { dl_nan_watch(notice, s); }

/* ---------------------------------------------------------------- why nan */

static dlsh_value operand_cell(const dl_nan_operand *o) {
    char value[48] = "", range[96] = "", holes[64] = "";
    if (o->has_value) snprintf(value, sizeof value, " = %.6g there", dlsh_plain_nan(o->value));
    if (o->low <= o->high) snprintf(range, sizeof range, ", %.4g to %.4g", o->low, o->high);
    if (o->nan || o->inf) snprintf(holes, sizeof holes, ", %ld nan, %ld infinite", o->nan, o->inf);
    return dlsh_stringf("%s%s%s%s%s%s", o->name, *o->name ? " " : "", o->kind, value, range, holes);
}

static dl_status add(dlsh_table *t, const char *key, dlsh_value v) { return DLSH_TABLE_ROW(t, dlsh_string(key), v); }

/* Rows of one event. */
static dl_status add_event(dlsh_table *t, const dl_nan_event *e, const char *head) {
    char who[300], index[200], where[300];
    DLSH_TRY(add(t, head,
                 dlsh_stringf("%s, %ld of %ld elements, the first at %s", maker(e, who, sizeof who), e->count, e->numel,
                              index_text(e, index, sizeof index))));
    if (*e->reason) DLSH_TRY(add(t, "reason", dlsh_string(e->reason)));
    DLSH_TRY(add(t, "line", dlsh_string(place(e->file, e->line, where, sizeof where))));
    if (*e->layer)
        DLSH_TRY(add(t, "layer",
                     dlsh_stringf("%s, %s", e->layer, place(e->layer_file, e->layer_line, where, sizeof where))));
    DLSH_TRY(add(t, "when",
                 dlsh_stringf("%s%s%s, after %ld step%s of optimizers", pass_of(e),
                              e->backward && !e->update ? ", run at " : "",
                              e->backward && !e->update ? place(e->seen_file, e->seen_line, where, sizeof where) : "",
                              e->updates, e->updates == 1 ? "" : "s")));
    for (int i = 0; i < e->noperands; i++) {
        char key[32];
        snprintf(key, sizeof key, "operand %d", i);
        DLSH_TRY(add(t, key, operand_cell(&e->operand[i])));
    }
    if (e->again) DLSH_TRY(add(t, "again", dlsh_stringf("%ld times later", e->again)));
    return *e->remedy ? add(t, "remedy", dlsh_string(e->remedy)) : DL_OK;
}

/* The infinity that an operand of the event holds: the newest one made before it. */
static dl_status add_infinity(dlsh_table *t, const dl_nan_event *e) {
    int infinite = 0;
    dl_nan_event from, last;
    int n = 0;
    for (int i = 0; i < e->noperands; i++) infinite |= e->operand[i].inf > 0;
    for (; infinite && dl_nan_event_at(1, n, &last) == DL_OK; n++) from = last;
    dl_error_clear();
    return n ? add_event(t, &from, "infinity by") : DL_OK;
}

/* What made a tensor of others, by its statement: "mean at a.dlsh:8"; "": it is not known. */
static const char *maker_of(const dl_tensor *t, char *buf, size_t size) {
    dl_source maker, writer;
    dlsh_tensor_places(t, &maker, &writer);
    const dlsh_node *n = writer.file ? dlsh_statement_at(writer.file, writer.line) : NULL;
    if (n && n->kind == DLSH_N_ASSIGN) n = n->kids[n->nkids - 1];
    const char *by = n && n->kind == DLSH_N_CALL ? n->kids[0]->text : NULL;
    *buf = 0;
    if (n) snprintf(buf, size, "%s at %s:%d", by ? by : "the statement", writer.file, writer.line);
    return buf;
}

/* Variables that hold NaN although no op made it of finite numbers: data that came in with it, and what is made of
 * these. */
static dl_status add_holders(dlsh_session *s, dlsh_table *t, int *n) {
    char from[200];
    dlsh_value text;
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        dlsh_stats st;
        if (!v || v->type != DLSH_TENSOR || !strcmp(name, "_") || !dl_dtype_is_float(dl_dtype_of(v->as.tensor)))
            continue;
        if (dlsh_stats_of(v->as.tensor, &st)) return dl_failed();
        if (!st.nans) continue;
        ++*n;
        const int unseen = dl_device_of(v->as.tensor) && dl_nan_policy_get() != DL_NAN_STOP;
        if (unseen)
            text = dlsh_stringf("holds %ld nan, on a GPU: run it again under `set nan stop`, which looks at each op "
                                "there",
                                st.nans);
        else if (*maker_of(v->as.tensor, from, sizeof from))
            text = dlsh_stringf("holds %ld nan, from %s: it was given them or reads them, no op made them from finite "
                                "numbers; look at its operands",
                                st.nans, from);
        else
            text = dlsh_stringf("holds %ld nan; no op made them from finite numbers: they came in with the data, or "
                                "before `set nan` was warn",
                                st.nans);
        DLSH_TRY(add(t, name, text));
    }
    return DL_OK;
}

/* Variables that hold infinities: the op that their history explains them by. */
static dl_status add_infinite(dlsh_session *s, dlsh_table *t, int *n) {
    for (int i = 0; i < dlsh_global_count(s); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(s, i, &v);
        dlsh_stats st;
        dl_nan_event e;
        if (!v || v->type != DLSH_TENSOR || !strcmp(name, "_") || !dl_dtype_is_float(dl_dtype_of(v->as.tensor)))
            continue;
        if (dlsh_stats_of(v->as.tensor, &st)) return dl_failed();
        if (!st.infs) continue;
        if (!*n && dl_nan_origin(v->as.tensor, &e)) DLSH_TRY(add_event(t, &e, "made by"));
        dl_source maker, writer;
        dl_tensor_places(v->as.tensor, &maker, &writer);
        DLSH_TRY(
            add(t, name,
                dlsh_stringf("holds %ld infinite, made at %s:%d", st.infs, maker.file ? maker.file : "", maker.line)));
        ++*n;
    }
    return DL_OK;
}

dl_status dlsh_why_inf(const dlsh_args *a) {
    dlsh_table t = DLSH_TABLE({"inf", 'l', ""}, {"because", 'l', ""});
    dl_nan_event e;
    int n = 0;
    dl_status st = DL_OK;
    for (; !st && n < 3 && dl_nan_event_at(1, n, &e) == DL_OK; n++) st = add_event(&t, &e, n ? "then by" : "made by");
    dl_error_clear();
    if (!n && !st) st = add_infinite(dlsh_arg_session(a), &t, &n);
    if (!st && !n) dlsh_put(dlsh_arg_sink(a), "no op has made an infinity, and no variable holds one\n");
    return n || st ? dlsh_table_show(dlsh_arg_sink(a), &t, st, NULL) : DL_OK;
}

dl_status dlsh_why_nan(const dlsh_args *a) {
    dlsh_table t = DLSH_TABLE({"nan", 'l', ""}, {"because", 'l', ""});
    dl_nan_event e;
    int n = 0;
    dl_status st = DL_OK;
    if (dl_nan_event_at(0, 0, &e) == DL_OK) {
        st = add_event(&t, &e, "made by");
        if (!st) st = add_infinity(&t, &e);
        n = 1;
    } else {
        dl_error_clear();
        st = add_holders(dlsh_arg_session(a), &t, &n);
    }
    if (!st && !n) dlsh_put(dlsh_arg_sink(a), "no op has made a nan, and no variable holds one\n");
    if (n || st) return dlsh_table_show(dlsh_arg_sink(a), &t, st, NULL);
    return DL_OK;
}
