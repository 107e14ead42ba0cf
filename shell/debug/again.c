/* Dropout with the mask that was drawn, batch norm with the figures of the batch and without its averages. */
#include "debug/again.h"

#include <stdlib.h>
#include <string.h>

#include "dlcore/arithmetic.h"
#include "dlcore/copy.h"

static int is_dropout(const dl_recorded *c) { return !strcmp(c->op, "dropout") && c->nout > 1 && c->out[1]; }
static int is_batch_norm(const dl_recorded *c) { return !strncmp(c->op, "batch_norm", 10); }
static int trains(const dl_recorded *c) { return strstr(c->attrs, "training=true") != NULL; }

int dlsh_again_is_known(const dl_recorded *c) { return is_dropout(c) || is_batch_norm(c); }

/* x * mask / (1 - p) */
static dl_status drop(const dl_recorded *c, dl_tensor *x, dl_tensor **out) {
    const char *p = strstr(c->attrs, "p=");
    double keeps = 1 - (p ? strtod(p + 2, NULL) : 0.5);
    dl_tensor *scale = dl_scalar_f(keeps > 0 ? 1 / keeps : 0);
    dl_tensor *drawn = dl_to_device(c->out[1], dl_device_of(x));
    dl_tensor *mask = drawn ? dl_to(drawn, (int)dl_dtype_of(x)) : NULL;
    dl_tensor *kept = scale && mask ? dl_mul(x, mask) : NULL;
    *out = kept ? dl_mul(kept, scale) : NULL;
    dl_unref(scale);
    dl_unref(drawn);
    dl_unref(mask);
    dl_unref(kept);
    return *out ? DL_OK : dl_failed();
}

enum { INPUTS = 8, RUNNING_MEAN = 1, RUNNING_VAR = 2 };

dl_status dlsh_again(const dl_recorded *c, dl_tensor *const *in, dl_tensor **out, int *n) {
    dl_tensor *to[INPUTS] = {NULL};
    *n = 1;
    if (is_dropout(c)) return drop(c, in[0], out);
    for (int i = 0; i < c->nin && i < INPUTS; i++)
        to[i] = trains(c) && (i == RUNNING_MEAN || i == RUNNING_VAR) ? NULL : in[i];
    return dl_op_call(c->op, to, c->nin, c->attrs, out, n);
}
