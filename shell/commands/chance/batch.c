/* The sizes of a distribution: of its batch, which its parameters have in common, and of one value; and the same
 * distribution for a larger batch. */
#include "commands/chance/kind.h"
#include "dlcore/create.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

typedef dlsh_sizes sizes;

enum { WHOLE = -1 }; /* a parameter that does not belong to a batch */

/* Parameters that have other dimensions of their own than a value has: logits of classes have one for these. */
static const struct {
    const char *kept;
    int dims;
} own[] = {{"temperature", WHOLE}, {"df", 0}, {"total_count", 0}, {"scale_tril", 2}, {"cov_factor", 2}};

/* How many of the last dimensions of a parameter belong to one distribution. */
static int dims_of(const kind *is, int i) {
    const char *name = is->params[i].kept ? is->params[i].kept : is->params[i].name;
    const int classes = !strcmp(name, "logits") && (is->values == INDICES || is->values == VECTORS);
    for (size_t k = 0; k < DLSH_COUNT(own); k++)
        if (!strcmp(own[k].kept, name)) return own[k].dims;
    return classes || is->values == VECTORS;
}

static dl_status widen(sizes *to, const long *size, int n) {
    for (; to->n < n; to->n++) {
        memmove(to->size + 1, to->size, (size_t)to->n * sizeof *to->size);
        to->size[0] = 1;
    }
    for (int i = 0; i < n; i++) {
        long *at = &to->size[to->n - n + i];
        if (*at != 1 && size[i] != 1 && *at != size[i])
            return dlsh_fail(DL_ERR_SHAPE, NULL, "parameters of sizes %ld and %ld do not go together", *at, size[i]);
        if (*at == 1) *at = size[i];
    }
    return DL_OK;
}

static dl_status plain_shapes(const distribution *d, sizes *batch, sizes *event) {
    for (int i = 0; i < d->is->nparams; i++) {
        const dl_tensor *t = d->param[i];
        const int dims = dims_of(d->is, i), n = dl_ndim(t) - dims;
        if (dims == WHOLE) continue;
        if (n < 0) return dlsh_fail(DL_ERR_SHAPE, NULL, "%s has too few dimensions", d->is->params[i].name);
        DLSH_TRY(widen(batch, dl_shape(t), n));
        if (d->is->values == VECTORS && dims == 1) DLSH_TRY(widen(event, dl_shape(t) + n, 1));
        if (d->is->values == MATRICES && dims == 2) DLSH_TRY(widen(event, dl_shape(t) + n, 2));
    }
    if (event->n) event->size[event->n - 1] += d->is->more;
    if (d->is->values == MATRICES && !event->n) *event = (sizes){2, {d->whole, d->whole}};
    return DL_OK;
}

/* Of the batch and of one value, after the bijectors. */
static dl_status transform_sizes(const distribution *d, sizes *batch, sizes *event) {
    sizes all = *batch;
    if (batch->n + event->n > DLSH_MAX_SIZES)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor of more than %d dimensions", DLSH_MAX_SIZES);
    memcpy(all.size + all.n, event->size, (size_t)event->n * sizeof *event->size);
    all.n += event->n;
    DLSH_TRY(dlsh_bijectors_sizes(d->part[1].as.list, &all, 0));
    event->n = event_of(d), batch->n = all.n - event->n;
    if (batch->n < 0) return dlsh_fail(DL_ERR_SHAPE, NULL, "the bijectors take values of more dimensions");
    memcpy(batch->size, all.size, (size_t)batch->n * sizeof *all.size);
    memcpy(event->size, all.size + batch->n, (size_t)event->n * sizeof *all.size);
    return DL_OK;
}

static dl_status shapes(const distribution *d, sizes *batch, sizes *event) {
    *batch = *event = (sizes){0};
    if (!d->is->form) return plain_shapes(d, batch, event);
    DLSH_TRY(shapes(part_of(d, is_mixture(d)), batch, event));
    const int more = d->is->form == INDEPENDENT   ? (int)d->whole
                     : d->is->form == TRANSFORMED ? taken_of(d)
                                                  : 0,
              fewer = is_mixture(d) ? 1 : more;
    if (fewer > batch->n)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "%d dimensions of a batch cannot become one value of %d", batch->n, fewer);
    batch->n -= fewer;
    memmove(event->size + more, event->size, (size_t)event->n * sizeof *event->size);
    memcpy(event->size, batch->size + batch->n, (size_t)more * sizeof *event->size);
    event->n += more;
    return d->is->form == TRANSFORMED ? transform_sizes(d, batch, event) : DL_OK;
}

static dl_status give_sizes(const sizes *s, dlsh_value *out) {
    DLSH_DROPPED dlsh_value list = dlsh_new_list(s->n);
    for (int i = 0; i < s->n && !dlsh_failed(list); i++) DLSH_TRY(dlsh_append(list, dlsh_int(s->size[i])));
    return dlsh_hand_over(&list, out);
}

dl_status dlsh_distribution_shapes(const distribution *d, dlsh_value *batch, dlsh_value *event) {
    sizes of[2];
    DLSH_TRY(shapes(d, &of[0], &of[1]));
    if (batch) DLSH_TRY(give_sizes(&of[0], batch));
    return event ? give_sizes(&of[1], event) : DL_OK;
}

/* ---- larger batches */

static dl_status expand_plain(const distribution *d, const sizes *to, distribution *out) {
    for (int i = 0; i < d->is->nparams; i++) {
        const int dims = dims_of(d->is, i), n = dl_ndim(d->param[i]);
        sizes wide = *to;
        if (dims == WHOLE) {
            out->param[i] = dl_ref(d->param[i]);
            continue;
        }
        if (to->n + dims > DLSH_MAX_SIZES)
            return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor of more than %d dimensions", DLSH_MAX_SIZES);
        for (int k = 0; k < dims; k++) wide.size[wide.n++] = dl_shape(d->param[i])[n - dims + k];
        if (!(out->param[i] = dl_expand(d->param[i], wide.size, wide.n))) return dl_failed();
    }
    return DL_OK;
}

/* Part i, of batches [to, more], where `more` are the last `own` sizes of its present one. */
static dl_status expand_part(const distribution *d, int i, const sizes *to, int own_sizes, distribution *out) {
    sizes batch, event, wide = *to;
    DLSH_TRY(shapes(part_of(d, i), &batch, &event));
    if (to->n + own_sizes > DLSH_MAX_SIZES)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor of more than %d dimensions", DLSH_MAX_SIZES);
    for (int k = 0; k < own_sizes; k++) wide.size[wide.n++] = batch.size[batch.n - own_sizes + k];
    return dlsh_distribution_expand(part_of(d, i), wide.size, wide.n, &out->part[i]);
}

static dl_status expand_parts(const distribution *d, const sizes *to, distribution *out) {
    const int more = d->is->form == INDEPENDENT ? (int)d->whole : d->is->form == TRANSFORMED ? taken_of(d) : 0;
    DLSH_TRY(expand_part(d, 0, to, more, out));
    if (is_mixture(d)) return expand_part(d, 1, to, 1, out);
    out->part[1] = dlsh_ref(d->part[1]);
    return DL_OK;
}

dl_status dlsh_distribution_expand(const distribution *d, const long *size, int n, dlsh_value *result) {
    sizes batch, event, to = {n, {0}};
    DLSH_TRY(shapes(d, &batch, &event));
    for (int i = 0; i < n; i++) {
        const int at = i - (n - batch.n);
        if (size[i] < 0 && at < 0)
            return dlsh_fail(DL_ERR_SHAPE, NULL, "-1 stands for a size of the batch, which has %d dimensions", batch.n);
        to.size[i] = size[i] < 0 ? batch.size[at] : size[i];
    }
    distribution *out = dlsh_distribution_new(d->is);
    if (!out) return dl_failed();
    out->whole = d->whole;
    dlsh_value made = dlsh_distribution_value(out);
    if (dlsh_failed(made)) return dl_failed();
    return dlsh_give_filled(d->is->form ? expand_parts(d, &to, out) : expand_plain(d, &to, out), made, result);
}

/* ---- all values */

static dl_status count_values(const distribution *d, long *n) {
    const char *name = ops_of(d->is);
    const dl_tensor *last = d->param[d->is->nparams - 1];
    if (!strcmp(name, "bernoulli")) return *n = 2, DL_OK;
    if (!strcmp(name, "categorical") || !strcmp(name, "one_hot_categorical"))
        return *n = dl_shape(last)[dl_ndim(last) - 1], DL_OK;
    if (strcmp(name, "binomial") != 0)
        return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "the values of a %s distribution cannot be listed", d->is->name);
    DLSH_OWNED dl_tensor *most = dl_amax(d->param[0], NULL, 0, 0), *least = dl_amin(d->param[0], NULL, 0, 0);
    double high = 0, low = 0;
    DLSH_TRY(most && least ? dl_item_f(most, &high) : dl_failed());
    DLSH_TRY(dl_item_f(least, &low));
    if (high != low)
        return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "total_count differs: %g to %g, and so do the values", low, high);
    return *n = (long)high + 1, DL_OK;
}

dl_status dlsh_distribution_support(const distribution *d, int expand, dlsh_value *result) {
    sizes batch, event, thin = {1, {0}}, wide = {1, {0}};
    long n = 0;
    if (d->is->form)
        return dlsh_fail(DL_ERR_UNSUPPORTED, NULL, "the values of a %s distribution cannot be listed", d->is->name);
    DLSH_TRY(shapes(d, &batch, &event));
    DLSH_TRY(count_values(d, &n));
    if (1 + batch.n + event.n > DLSH_MAX_SIZES)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "a tensor of more than %d dimensions", DLSH_MAX_SIZES);
    thin.size[0] = wide.size[0] = n;
    for (int i = 0; i < batch.n; i++) thin.size[thin.n++] = 1, wide.size[wide.n++] = batch.size[i];
    if (event.n) thin.size[thin.n++] = n, wide.size[wide.n++] = n;
    const dl_tensor *like = d->param[0];
    const dl_dtype dtype = d->is->values == INDICES ? DL_I64 : dl_dtype_of(like);
    const double end = (double)n;
    DLSH_OWNED dl_tensor *numbers = dl_arange(0, &end, 1, DL_I64, dl_device_of(like)),
                         *values = numbers && event.n ? dl_one_hot(numbers, n)
                                   : numbers          ? dl_ref(numbers)
                                                      : NULL,
                         *typed = values ? dl_to_dtype(values, dtype) : NULL,
                         *shaped = typed ? dl_reshape(typed, thin.size, thin.n) : NULL;
    if (!shaped) return dl_failed();
    return dlsh_give(dlsh_tensor(expand ? dl_expand(shaped, wide.size, wide.n) : dl_ref(shaped)), result);
}
