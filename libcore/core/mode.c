/* Precision, determinism and capture: switches of the process. */
#include "core/mode.h"
#include "core/error.h"

static int precision = DL_PRECISION_F32, deterministic = 1, capture = 1;

static const struct {
    const char *name;
    dl_dtype low; /* of ops with AMP(LOW) */
} precisions[] = {{"f32", DL_F32}, {"tf32", DL_F32}, {"bf16", DL_BF16}, {"f16", DL_F16}};

dl_precision dl_precision_get(void) { return (dl_precision)__atomic_load_n(&precision, __ATOMIC_RELAXED); }

dl_status dl_precision_set(dl_precision p) {
    if (p < DL_PRECISION_F32 || p > DL_PRECISION_F16)
        return dl_fail(DL_ERR_VALUE, "%d is not a precision: f32, tf32, bf16 and f16 are 0 to 3", (int)p);
    __atomic_store_n(&precision, (int)p, __ATOMIC_RELAXED);
    return DL_OK;
}

const char *dl_precision_name(dl_precision p) {
    return p >= DL_PRECISION_F32 && p <= DL_PRECISION_F16 ? precisions[p].name : "?";
}

static int default_dtype = DL_F32;

dl_dtype dl_default_dtype_get(void) { return (dl_dtype)__atomic_load_n(&default_dtype, __ATOMIC_RELAXED); }

dl_status dl_default_dtype_set(dl_dtype t) {
    if (!dl_dtype_is_float(t))
        return dl_fail(DL_ERR_DTYPE, "the default dtype is a floating one, not %s", dl_dtype_name(t));
    __atomic_store_n(&default_dtype, (int)t, __ATOMIC_RELAXED);
    return DL_OK;
}

int dl_deterministic_get(void) { return __atomic_load_n(&deterministic, __ATOMIC_RELAXED); }
void dl_deterministic_set(int on) { __atomic_store_n(&deterministic, !!on, __ATOMIC_RELAXED); }

int dl_capture_get(void) { return __atomic_load_n(&capture, __ATOMIC_RELAXED); }
void dl_capture_set(int on) { __atomic_store_n(&capture, !!on, __ATOMIC_RELAXED); }

bool dl_tf32_allowed(void) { return dl_precision_get() == DL_PRECISION_TF32; }
bool dl_deterministic(void) { return dl_deterministic_get(); }

dl_dtype dl_mixed_dtype(const dl_op *op, dl_dtype t) {
    dl_dtype low = precisions[dl_precision_get()].low;
    if (low == DL_F32) return t;
    if (op->amp == DL_AMP_LOW && (t == DL_F32 || t == DL_F16 || t == DL_BF16)) return low;
    if (op->amp == DL_AMP_FULL && (t == DL_F16 || t == DL_BF16)) return DL_F32;
    return t;
}

static __thread bool deferred;

void dl_deferred_set(bool on) { deferred = on; }
bool dl_deferred_get(void) { return deferred; }
