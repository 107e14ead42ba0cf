/* Mixtures of distributions of one kind: the logarithms of their densities, and draws. */
#include "commands/chance/mixture.h"
#include "dlcore/arithmetic.h"
#include "dlcore/index.h"
#include "dlcore/reduce.h"
#include "dlcore/loss.h"
#include "dlcore/view.h"

/* t with a dimension of size 1 before its last `event` ones. */
static dl_tensor *with_component(dl_tensor *t, int event) {
    long shape[DLSH_MIXTURE_DIM + 1];
    const int n = dl_ndim(t), at = n - event;
    if (at < 0 || n >= DLSH_MIXTURE_DIM) return dlsh_fail(DL_ERR_SHAPE, NULL, "the value has %d dimensions", n), NULL;
    for (int i = 0; i <= n; i++) shape[i] = i < at ? dl_shape(t)[i] : i == at ? 1 : dl_shape(t)[i - 1];
    return dl_reshape(t, shape, n + 1);
}

static dl_status check_components(long has, long wants) {
    if (has == wants) return DL_OK;
    return dlsh_fail(DL_ERR_SHAPE, "the last dimension of the components' parameters counts them",
                     "the mixture is of %ld components, not of %ld", wants, has);
}

/* logsumexp(log_softmax(logits) + log_prob of each component) */
dl_tensor *dlsh_mixture_log_prob(dl_tensor *logits, dl_tensor *each) {
    const long last = -1;
    if (!dl_ndim(each) || check_components(dl_shape(each)[dl_ndim(each) - 1], dl_shape(logits)[dl_ndim(logits) - 1]))
        return NULL;
    dl_tensor *share = dl_log_softmax(logits, -1), *sum = share ? dl_add(share, each) : NULL,
              *out = sum ? dl_logsumexp(sum, &last, 1, 0) : NULL;
    DLSH_UNREF(share, sum);
    return out;
}

dl_tensor *dlsh_mixture_value(dl_tensor *value, int event) { return with_component(value, event); }

/* Of draws of all components, [..., K, event], those that the indices [...] choose. */
dl_tensor *dlsh_mixture_chosen(dl_tensor *all, dl_tensor *index, long components, int event) {
    const int n = dl_ndim(all), dim = n - 1 - event;
    long shape[DLSH_MIXTURE_DIM], wide[DLSH_MIXTURE_DIM];
    if (dim < 0 || check_components(dl_shape(all)[dim], components)) return NULL;
    if (dl_ndim(index) != dim)
        return dlsh_fail(DL_ERR_SHAPE, NULL, "mixture and components have %d and %d dimensions of batches",
                         dl_ndim(index), dim),
               NULL;
    for (int i = 0; i < n; i++) {
        shape[i] = i < dim ? dl_shape(index)[i] : 1;
        wide[i] = i == dim ? 1 : dl_shape(all)[i];
    }
    dl_tensor *thin = dl_reshape(index, shape, n), *at = thin ? dl_expand(thin, wide, n) : NULL,
              *one = at ? dl_gather(all, at, dim) : NULL, *out = one ? dl_select(one, dim, 0) : NULL;
    DLSH_UNREF(thin, at, one);
    return out;
}
