/* Shape rules of ops that make tensors from attributes. */
#include "ops/infer/corner.h"
#include "ops/infer.h"
#include "ops/rules/create.h"

#include <math.h>

/* A result of the given shape, in the dtype that the attribute asks for, else in `dflt`. */
static dl_status made(const dl_call *c, const dl_aval *dtype, dl_dtype dflt, int ndim, const long *shape,
                      dl_meta *out) {
    int64_t numel;
    DL_TRY(dl_shape_check(ndim, shape, &numel));
    *out = dl_meta_fresh(c, dtype->given ? (dl_dtype)dtype->u.i : dflt, ndim, shape);
    return DL_OK;
}

INFER_RULE(full) {
    return made(c, ATTR(c, FULL_DTYPE), ATTR(c, FULL_FILL_VALUE)->is_int ? DL_I64 : dl_default_dtype_get(),
                ATTR(c, FULL_SIZE)->n, ATTR(c, FULL_SIZE)->u.v, out);
}

/* How many steps fit between two numbers, the end not included. */
static dl_status count_steps(const dl_call *c, long *n) {
    const dl_aval *a = ATTR(c, ARANGE_START), *stop = ATTR(c, ARANGE_END), *step = ATTR(c, ARANGE_STEP);
    dl_aval zero = {.given = true, .is_int = true};
    if (!stop->given) stop = a, a = &zero;
    double from = dl_aval_number(a), to = dl_aval_number(stop), by = dl_aval_number(step);
    if (by == 0 || !isfinite(from) || !isfinite(to) || !isfinite(by))
        return dl_fail(DL_ERR_VALUE, "start, stop and step must be finite numbers, and step not 0");
    if ((to - from) * by < 0) return dl_fail(DL_ERR_VALUE, "a step of %g never leads from %g to %g", by, from, to);
    double steps = ceil((to - from) / by);
    if (a->is_int && stop->is_int && step->is_int) { /* exact beyond 2^53 */
        __int128 d = (__int128)stop->u.i - a->u.i, s = step->u.i;
        steps = (double)(d / s + (d % s != 0));
    }
    if (steps > (double)DL_MAX_COUNT)
        return dl_fail(DL_ERR_VALUE, "from %g to %g by %g are too many steps", from, to, by);
    *n = (long)steps;
    return DL_OK;
}

INFER_RULE(arange) {
    long n;
    DL_TRY(count_steps(c, &n));
    bool whole = ATTR(c, ARANGE_START)->is_int && ATTR(c, ARANGE_STEP)->is_int &&
                 (!ATTR(c, ARANGE_END)->given || ATTR(c, ARANGE_END)->is_int);
    return made(c, ATTR(c, ARANGE_DTYPE), whole ? DL_I64 : dl_default_dtype_get(), 1, &n, out);
}

INFER_RULE(triangle_places) {
    const long rows = ATTR_I(c, TRIANGLE_PLACES_ROW), columns = ATTR_I(c, TRIANGLE_PLACES_COL),
               offset = ATTR_I(c, TRIANGLE_PLACES_OFFSET);
    if (rows < 0 || columns < 0) return dl_fail(DL_ERR_VALUE, "row and col must be 0 or more");
    if (rows > INT32_MAX || columns > INT32_MAX)
        return dl_fail(DL_ERR_SHAPE, "a matrix of %ld rows and %ld columns has too many places", rows, columns);
    if (offset <= -DL_MAX_COUNT || offset >= DL_MAX_COUNT)
        return dl_fail(DL_ERR_VALUE, "diagonal %ld is too far off", offset);
    const dl_corner t = {rows, columns, offset, ATTR_I(c, TRIANGLE_PLACES_LOWER) != 0};
    const long shape[2] = {2, dl_corner_before(&t, rows)};
    return made(c, &(dl_aval){.given = false}, DL_I64, 2, shape, out);
}

INFER_RULE(eye) {
    long shape[2] = {ATTR_I(c, EYE_N), ATTR(c, EYE_M)->given ? ATTR_I(c, EYE_M) : ATTR_I(c, EYE_N)};
    return made(c, ATTR(c, EYE_DTYPE), dl_default_dtype_get(), 2, shape, out);
}

INFER_RULE(linspace) {
    return made(c, ATTR(c, LINSPACE_DTYPE), dl_default_dtype_get(), 1, &ATTR_I(c, LINSPACE_STEPS), out);
}

INFER_RULE(logspace) {
    return made(c, ATTR(c, LOGSPACE_DTYPE), dl_default_dtype_get(), 1, &ATTR_I(c, LOGSPACE_STEPS), out);
}

INFER_RULE(random) {
    return made(c, ATTR(c, FILL_DTYPE), dl_default_dtype_get(), ATTR(c, FILL_SIZE)->n, ATTR(c, FILL_SIZE)->u.v, out);
}

/* Do the integers from lo to hi fit the dtype? Floats may round them. */
static dl_status check_range(long lo, long hi, dl_dtype dt) {
    static const struct {
        long lo, hi;
    } range[DL_NDTYPE] = {[DL_BOOL] = {0, 1}, [DL_U8] = {0, 255}, [DL_I32] = {-2147483647L - 1, 2147483647L}};
    if (dl_dtype_is_float(dt) || dt == DL_I64 || (lo >= range[dt].lo && hi <= range[dt].hi)) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "numbers from %ld to %ld do not fit dtype %s", lo, hi, dl_dtype_name(dt));
}

INFER_RULE(randint) {
    long lo = ATTR_I(c, RANDINT_LOW), hi = ATTR_I(c, RANDINT_HIGH);
    if (hi <= lo) return dl_fail(DL_ERR_VALUE, "high (%ld) must be above low (%ld)", hi, lo);
    DL_TRY(made(c, ATTR(c, RANDINT_DTYPE), DL_I64, ATTR(c, RANDINT_SIZE)->n, ATTR(c, RANDINT_SIZE)->u.v, out));
    return check_range(lo, hi - 1, out->dtype);
}

INFER_RULE(randperm) {
    DL_TRY(made(c, ATTR(c, RANDPERM_DTYPE), DL_I64, 1, &ATTR_I(c, RANDPERM_N), out));
    return check_range(0, ATTR_I(c, RANDPERM_N) - 1, out->dtype);
}
