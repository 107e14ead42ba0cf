/* Calls from the typed functions into the dispatcher. */
#include "ops/api.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void dl_api_int(dl_aval *a, long v) { *a = (dl_aval){.given = true, .is_int = true, .u.i = v}; }

void dl_api_float(dl_aval *a, double v) { *a = (dl_aval){.given = true, .u.f = v}; }

void dl_api_num(dl_aval *a, double v) {
    if (v == floor(v) && fabs(v) < 9007199254740992.0)
        dl_api_int(a, (long)v);
    else
        dl_api_float(a, v);
}

void dl_api_ints(dl_aval *a, const long *v, int n) {
    *a = (dl_aval){.given = true, .is_int = true, .n = (int8_t)(n > DL_MAX_DIM ? DL_MAX_DIM + 1 : n)};
    for (int i = 0; i < n && i < DL_MAX_DIM; i++) a->u.v[i] = v[i];
}

void dl_api_str(dl_aval *a, const char *s) {
    *a = (dl_aval){.given = true};
    snprintf(a->u.s, sizeof a->u.s, "%s", s);
}

/* The first output; the others where `more` asks for them. */
static dl_tensor *hand_out(const dl_op *op, dl_tensor **out, dl_tensor ***more) {
    for (int i = 1; i < op->out; i++) {
        dl_tensor **dst = *more ? *more++ : NULL;
        if (dst)
            *dst = out[i];
        else
            dl_unref(out[i]);
    }
    return out[0];
}

dl_tensor *dl_api_run(const dl_op *op, dl_tensor **in, int nin, const dl_aval *attr, dl_tensor ***more) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    while (nin > op->in_min && !in[nin - 1]) nin--; /* absent optional inputs at the end */
    return dl_invoke(op, in, nin, attr, out) == DL_OK ? hand_out(op, out, more) : NULL;
}

static dl_status run_list(const dl_op *op, dl_tensor **head, int nhead, dl_tensor **list, int nlist,
                          const dl_aval *attr, dl_tensor **out) {
    dl_tensor *in[DL_MAX_IN];
    if (nhead + nlist > DL_MAX_IN)
        return dl_fail(DL_ERR_VALUE, "%s takes at most %d tensors, not %d", op->name, DL_MAX_IN, nhead + nlist);
    memcpy(in, head, (size_t)nhead * sizeof *in);
    memcpy(in + nhead, list, (size_t)nlist * sizeof *in);
    return dl_invoke(op, in, nhead + nlist, attr, out);
}

dl_tensor *dl_api_list(const dl_op *op, dl_tensor **head, int nhead, dl_tensor **list, int nlist, const dl_aval *attr,
                       dl_tensor ***more) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    return run_list(op, head, nhead, list, nlist, attr, out) == DL_OK ? hand_out(op, out, more) : NULL;
}

dl_status dl_api_list_status(const dl_op *op, dl_tensor **head, int nhead, dl_tensor **list, int nlist,
                             const dl_aval *attr) {
    dl_tensor *out[DL_MAX_OUT] = {0};
    return run_list(op, head, nhead, list, nlist, attr, out);
}
