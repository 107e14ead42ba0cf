/* Values, tensors and tables as JSON, for programs that read a notebook. */
#include "lang/session.h"
#include "view/elements.h"
#include "view/rich/rich.h"
#include "view/table.h"
#include "view/tensor.h"

/* SMALL: elements of a tensor that come all; notebook files have a line for each. */
enum { MOST = 100000, SMALL = 256, ROWS = 1000, STRING = 1 << 16 };

/* Roughly how many numbers and strings of STRING bytes v holds; counting ends above MOST. */
static long weight(dlsh_value v, int depth) {
    long n = 1;
    if (v.type == DLSH_TENSOR) return dl_numel(v.as.tensor) + 1;
    if (v.type == DLSH_STR) return v.as.str->len > STRING ? MOST + 1 : 1;
    if (v.type != DLSH_LIST && v.type != DLSH_RECORD) return 1;
    if (depth > 20) return MOST + 1; /* what holds itself, too */
    int kids = v.type == DLSH_LIST ? v.as.list->n : v.as.record->n;
    const dlsh_value *at = v.type == DLSH_LIST ? v.as.list->items : v.as.record->values;
    for (int i = 0; i < kids && n <= MOST; i++) n += weight(at[i], depth + 1);
    return n;
}

static int is_data(dlsh_value v) {
    return v.type <= DLSH_TENSOR && v.type != DLSH_VOID && v.type != DLSH_BUILTIN && v.type != DLSH_OP;
}

/* {"shape": [...], "dtype": ..., "device": ..., "numel": ..., "figures": {...}} */
static dl_status large_tensor(dlsh_buf *b, const dl_tensor *t, const dlsh_stats *s) {
    dlsh_tensor_json_head(b, t);
    dlsh_buf_printf(b, ",\"numel\":%ld", dl_numel(t));
    if (s) {
        const struct {
            const char *name;
            double value;
        } figures[] = {{"mean", s->mean}, {"std", s->std}, {"min", s->min}, {"max", s->max}, {"norm", s->norm}};
        dlsh_buf_puts(b, ",\"figures\":{");
        for (size_t i = 0; i < DLSH_COUNT(figures); i++) {
            dlsh_buf_printf(b, "\"%s\":", figures[i].name);
            dlsh_json_float(b, figures[i].value);
            dlsh_buf_puts(b, ",");
        }
        dlsh_buf_printf(b, "\"zeros\":%ld,\"nan\":%ld,\"inf\":%ld}", s->zeros, s->nans, s->infs);
    }
    dlsh_buf_puts(b, "}");
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}

dl_status dlsh_rich_json(dlsh_buf *b, dlsh_value v, const dlsh_stats *s) {
    if (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) > SMALL) return large_tensor(b, v.as.tensor, s);
    return is_data(v) && weight(v, 0) <= MOST ? dlsh_json(b, v) : DL_OK;
}

dl_status dlsh_rich_json_table(dlsh_buf *b, const dlsh_table *t) {
    dlsh_buf_puts(b, "{");
    if (t->title) {
        DLSH_DROPPED dlsh_value title = dlsh_string(t->title);
        dlsh_buf_puts(b, "\"title\":");
        DLSH_TRY(dlsh_json(b, title));
        dlsh_buf_puts(b, ",");
    }
    dlsh_buf_printf(b, "\"total\":%d,\"rows\":[", t->nrows);
    for (int i = 0; i < t->nrows && i < ROWS; i++) {
        if (i) dlsh_buf_puts(b, ",");
        DLSH_TRY(dlsh_table_object(b, t, i));
    }
    dlsh_buf_puts(b, "]}");
    return b->failed ? DL_ERR_MEMORY : DL_OK;
}
