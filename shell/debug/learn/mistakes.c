/* Mistakes of shape and of a factor: what people forget when they write down a gradient. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "debug/debug.h"
#include "debug/learn/mistakes.h"
#include "dlcore/reduce.h"
#include "dlcore/view.h"

enum { MOST_DIMS = 8 };

#define ROUNDING 1e-6 /* f32 has no exact zero after a sum */

void dlsh_guess_put_shape(dlsh_buf *b, const dl_tensor *t) {
    for (int i = 0; i < dl_ndim(t); i++) dlsh_buf_printf(b, "%s%ld", i ? ", " : "[", dl_shape(t)[i]);
    dlsh_buf_puts(b, dl_ndim(t) ? "]" : "[]");
}

static int same_shape(const long *a, int na, const long *b, int nb) {
    return na == nb && !memcmp(a, b, (size_t)na * sizeof *a);
}

/* ---------------------------------------------------------------- equal numbers */

static int close_to(double a, double t, double slack) {
    if (isnan(t) || isinf(t)) return isnan(t) ? isnan(a) : a == t;
    return fabs(a - t) <= 0.01 * fabs(t) + slack + ROUNDING;
}

int dlsh_guess_equal(const dl_tensor *truth, const dl_tensor *answer, double factor) {
    const double *t = dl_data(truth), *a = dl_data(answer);
    double largest = 0;
    if (!same_shape(dl_shape(truth), dl_ndim(truth), dl_shape(answer), dl_ndim(answer))) return 0;
    for (long i = 0; i < dl_numel(truth); i++)
        if (isfinite(t[i])) largest = fmax(largest, fabs(factor * t[i]));
    for (long i = 0; i < dl_numel(truth); i++)
        if (!close_to(a[i], factor * t[i], 1e-3 * largest)) return 0;
    return 1;
}

/* The whole number that a factor, or one over it, is; 0: neither. */
static long whole_of(double factor) {
    double by = fabs(factor) < 1 ? 1 / fabs(factor) : fabs(factor);
    return fabs(by - round(by)) <= 0.005 * by && by < 1e9 ? lround(by) : 0;
}

/* 0 but for the rounding of a sum: no factor leads there. */
static int is_zero(const dl_tensor *truth) {
    const double *t = dl_data(truth);
    for (long i = 0; i < dl_numel(truth); i++)
        if (!(fabs(t[i]) <= ROUNDING)) return 0;
    return 1;
}

int dlsh_guess_rounded(const dl_tensor *truth) {
    return dl_numel(truth) == 1 && *(const double *)dl_data(truth) != 0 && is_zero(truth);
}

/* The factor by which the answer is the truth; 0: there is none. One number is every number's multiple, so there only
 * whole factors count. */
static double factor_of(const dl_tensor *truth, const dl_tensor *answer) {
    const double *t = dl_data(truth), *a = dl_data(answer);
    double both = 0, square = 0;
    if (!same_shape(dl_shape(truth), dl_ndim(truth), dl_shape(answer), dl_ndim(answer))) return 0;
    if (dlsh_guess_equal(truth, answer, 1)) return 1;
    if (is_zero(truth)) return 0;
    for (long i = 0; i < dl_numel(truth); i++) both += a[i] * t[i], square += t[i] * t[i];
    double factor = square > 0 && isfinite(both / square) ? both / square : 0;
    if (factor == 0 || !dlsh_guess_equal(truth, answer, factor)) return 0;
    return dl_numel(truth) > 1 || whole_of(factor) ? factor : 0;
}

/* ---------------------------------------------------------------- changes of structure
 * Each gives what the answer would be without the mistake, in the shape of the truth, or NULL where it does not apply.
 * Failures are recorded. */

typedef dl_tensor *change(dl_tensor *answer, const dl_tensor *truth, int number);

/* A number also stands for a tensor of one element. */
static dl_tensor *as_it_is(dl_tensor *answer, const dl_tensor *truth, int number) {
    if (dl_numel(truth) == 1 && !dl_ndim(answer)) return dl_reshape(answer, dl_shape(truth), dl_ndim(truth));
    return number || !same_shape(dl_shape(answer), dl_ndim(answer), dl_shape(truth), dl_ndim(truth)) ? NULL
                                                                                                     : dl_ref(answer);
}

/* Permutation `number` of n things, by its digits in the factorial system. False: there are fewer. */
static int permutation(int number, int n, long *out) {
    long left[MOST_DIMS];
    for (int i = 0; i < n; i++) left[i] = i;
    for (int i = 0; i < n; i++) {
        int of = n - i, k = number % of;
        number /= of;
        out[i] = left[k];
        memmove(left + k, left + k + 1, (size_t)(of - k - 1) * sizeof *left);
    }
    return !number;
}

static dl_tensor *transposed(dl_tensor *answer, const dl_tensor *truth, int number) {
    long order[MOST_DIMS];
    int n = dl_ndim(answer);
    if (n < 2 || n > 4 || n != dl_ndim(truth) || !number || !permutation(number, n, order)) return NULL;
    for (int i = 0; i < n; i++)
        if (dl_shape(answer)[order[i]] != dl_shape(truth)[i]) return NULL;
    return dl_permute(answer, order, n);
}

/* Summed over the dimensions along which the truth has size 1 or none. */
static dl_tensor *summed(dl_tensor *answer, const dl_tensor *truth, int number) {
    long dims[MOST_DIMS];
    int n = 0, extra = dl_ndim(answer) - dl_ndim(truth);
    if (number || extra < 0 || dl_numel(answer) <= dl_numel(truth)) return NULL;
    for (int i = 0; i < dl_ndim(answer); i++) {
        long have = dl_shape(answer)[i], want = i < extra ? 0 : dl_shape(truth)[i - extra];
        if (have != want && want > 1) return NULL;
        if (have != want) dims[n++] = i;
    }
    DLSH_OWNED dl_tensor *sum = n ? dl_sum(answer, dims, n, 1) : NULL;
    return sum ? dl_reshape(sum, dl_shape(truth), dl_ndim(truth)) : NULL;
}

/* One number, or a row, for all. */
static dl_tensor *repeated(dl_tensor *answer, const dl_tensor *truth, int number) {
    int extra = dl_ndim(truth) - dl_ndim(answer), differs = extra > 0;
    if (number || extra < 0) return NULL;
    for (int i = 0; i < dl_ndim(answer); i++) {
        long have = dl_shape(answer)[i], want = dl_shape(truth)[i + extra];
        if (have != want && have != 1) return NULL;
        differs |= have != want;
    }
    return differs ? dl_expand(answer, dl_shape(truth), dl_ndim(truth)) : NULL;
}

static dl_tensor *reshaped(dl_tensor *answer, const dl_tensor *truth, int number) {
    int same = same_shape(dl_shape(answer), dl_ndim(answer), dl_shape(truth), dl_ndim(truth));
    if (number || same || dl_numel(answer) != dl_numel(truth)) return NULL;
    return dl_reshape(answer, dl_shape(truth), dl_ndim(truth));
}

/* In the order in which they are tried: the likelier ones first. */
static const struct {
    change *undo;
    int ways;
    const char *says;
} changes[] = {
    {as_it_is, 1, ""},
    {transposed, 24, "it is transposed"},
    {summed, 1,
     "the sum over what was broadcast is missing: what served several elements gets the sum of their gradients"},
    {repeated, 1, "the numbers are right, but each element has one of its own"},
    {reshaped, 1, "the numbers are right in their order, but not the shape"},
};

/* ---------------------------------------------------------------- factors */

/* A variable with a dimension of that size: "the size of dimension 0 of x". */
static const char *named_size(const dlsh_guess *g, long n, char *buf, size_t size) {
    for (int i = 0; i < dlsh_global_count(g->session); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(g->session, i, &v);
        if (!v || v->type != DLSH_TENSOR || !strcmp(name, "_")) continue;
        for (int d = 0; d < dl_ndim(v->as.tensor); d++)
            if (dl_shape(v->as.tensor)[d] == n)
                return snprintf(buf, size, "the size of dimension %d of %.40s", d, name), buf;
        if (dl_numel(v->as.tensor) == n) return snprintf(buf, size, "the number of elements of %.40s", name), buf;
    }
    return NULL;
}

static void put_factor(const dlsh_guess *g, double factor, dlsh_buf *out) {
    char size[120];
    const char *join = out->n ? ", and " : "";
    int large = fabs(factor) > 1;
    long n = whole_of(factor);
    if (factor < 0) {
        dlsh_buf_printf(out, "%sthe sign is wrong", join);
        join = ", and ";
    }
    if (n == 1) return;
    double by = n ? (double)n : large ? fabs(factor) : 1 / fabs(factor);
    dlsh_buf_printf(out, "%sit is %.4g times too %s", join, by, large ? "large" : "small");
    if (n && !large && n == dlsh_guess_contributions(g)) {
        dlsh_buf_printf(out, ": the gradient is the sum of %ld contributions, none was zeroed between", n);
        return;
    }
    if (n && named_size(g, n, size, sizeof size))
        dlsh_buf_printf(out, "; %ld is %s: %s", n, size,
                        large ? "a mean divides by the count of what it is taken over"
                              : "a sum does not divide by the count, and a mean does so once");
    if (n == 2)
        dlsh_buf_puts(out, large ? "; or a square was counted that is not there" : "; the derivative of x ** 2 is 2 x");
}

/* ---------------------------------------------------------------- the whole */

void dlsh_mistake_in_shape(const dlsh_guess *g, const long *shape, int ndim, dlsh_buf *out) {
    const long *right = dl_shape(g->truth);
    int n = dl_ndim(g->truth), used[MOST_DIMS] = {0}, permuted = ndim == n, covers = ndim >= n;
    if (same_shape(shape, ndim, right, n)) return;
    for (int i = 0; permuted && i < ndim; i++) {
        int at = 0;
        while (at < n && (used[at] || right[at] != shape[i])) at++;
        permuted = at < n;
        if (permuted) used[at] = 1;
    }
    for (int i = 0; covers && i < n; i++) covers = right[n - 1 - i] == shape[ndim - 1 - i] || right[n - 1 - i] == 1;
    if (permuted)
        dlsh_buf_puts(out, "the sizes are right, but not their order: it is transposed");
    else if (!n)
        dlsh_buf_puts(out, "it is one number, and has no dimensions");
    else if (covers && g->gradient)
        dlsh_buf_puts(out, "that is the shape of what was broadcast: the gradient is summed over those dimensions");
    else if (ndim == n)
        dlsh_buf_puts(out, "the number of dimensions is right, a size is not");
    else
        dlsh_buf_printf(out, "it has %d dimension%s", n, n == 1 ? "" : "s");
    if (g->gradient) dlsh_buf_puts(out, "; a gradient has the shape of its tensor");
}

/* Which elements are right, when some are. */
static void put_count(const dlsh_guess *g, dlsh_buf *out) {
    const double *t = dl_data(g->truth), *a = dl_data(g->answer);
    char index[200];
    long right = 0, first = -1, n = dl_numel(g->truth);
    double largest = 0;
    for (long i = 0; i < n; i++)
        if (isfinite(t[i])) largest = fmax(largest, fabs(t[i]));
    for (long i = 0; i < n; i++) {
        int ok = close_to(a[i], t[i], 1e-3 * largest);
        right += ok;
        if (!ok && first < 0) first = i;
    }
    if (n == 1)
        dlsh_buf_puts(out, "it is another number");
    else
        dlsh_buf_printf(out, "%ld of %ld elements are right, the first that is not is at %s", right, n,
                        dlsh_debug_index(g->truth, first, index, sizeof index));
}

dl_status dlsh_mistake_in_values(const dlsh_guess *g, dlsh_buf *out) {
    DLSH_SCOPED_GRAD_MODE(0);
    for (size_t c = 0; c < DLSH_COUNT(changes); c++)
        for (int k = 0; k < changes[c].ways; k++) {
            dl_tensor *without = changes[c].undo(g->answer, g->truth, k),
                      *plain = without ? dl_contiguous(without) : NULL;
            double factor = plain ? factor_of(g->truth, plain) : 0;
            dl_unref(without);
            dl_unref(plain);
            if (without && !plain) return dl_failed();
            if (factor == 0 || (c && dl_numel(g->truth) == 1 && factor != 1)) continue; /* one number is any multiple */
            dlsh_buf_puts(out, changes[c].says);
            if (factor != 1) put_factor(g, factor, out);
            return DL_OK;
        }
    if (!same_shape(dl_shape(g->answer), dl_ndim(g->answer), dl_shape(g->truth), dl_ndim(g->truth))) {
        dlsh_buf_puts(out, "your shape is ");
        dlsh_guess_put_shape(out, g->answer);
        dlsh_buf_puts(out, "; ");
        dlsh_mistake_in_shape(g, dl_shape(g->answer), dl_ndim(g->answer), out);
        return DL_OK;
    }
    DLSH_TRY(dlsh_mistake_of_place(g, out));
    if (!out->n) DLSH_TRY(dlsh_mistake_of_mask(g, out));
    if (!out->n) put_count(g, out);
    return DL_OK;
}
