/* Functions of formulas that are more than an expression, in the dialect of ops/formula.h. No guard: in C they are
 * defined once a type. Before it DL_HELPER(name) begins a definition, FAULT_AT is the type of `at`, and FAULT(kind,
 * value) reports an operand without a result; DL_REAL_HELPERS and DL_INT_HELPERS say which of them T can have. */
#ifdef DL_REAL_HELPERS
/* floor(a / b) */
DL_HELPER(floor_quotient)(T a, T b) {
    if (b == 0) return a / b;
    T r = FMOD(a, b), q = (a - r) / b; /* exact up to rounding, so FLOOR below cannot be one off */
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return COPYSIGN(NUM(0), a / b);
    T w = FLOOR(q);
    return q - w > NUM(0.5) ? w + 1 : w;
}
/* a - b floor(a / b) */
DL_HELPER(floor_rest)(T a, T b) {
    T r = FMOD(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
#endif

#ifdef DL_INT_HELPERS
#define SIGNED_T ((T)-1 < (T)0)
DL_HELPER(int_quotient)(T a, T b, FAULT_AT at) {
    if (b == 0) return FAULT(DIVISOR, 0), (T)0;
    if (SIGNED_T && b == (T)-1) return NEG(a);
    T q = (T)(a / b);
    return (T)(SIGNED_T && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q);
}
DL_HELPER(int_rest)(T a, T b, FAULT_AT at) {
    if (b == 0) return FAULT(DIVISOR, 0), (T)0;
    if (SIGNED_T && b == (T)-1) return 0;
    T r = (T)(a % b);
    return (T)(SIGNED_T && r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
DL_HELPER(int_power)(T a, T b, FAULT_AT at) {
    if (SIGNED_T && b < 0) return FAULT(EXPONENT, (long)b), (T)0;
    UNSIGNED_T r = 1, f = U(a);
    for (UNSIGNED_T e = U(b); e; e >>= 1, f = U(f * f))
        if (e & 1) r = U(r * f);
    return (T)r;
}
DL_HELPER(shift_left)(T a, T b, FAULT_AT at) {
    if (b < 0 || b >= (T)(8 * sizeof(T))) return FAULT(SHIFT, (long)b), (T)0;
    return (T)(U(a) << b);
}
DL_HELPER(shift_right)(T a, T b, FAULT_AT at) {
    if (b < 0 || b >= (T)(8 * sizeof(T))) return FAULT(SHIFT, (long)b), (T)0;
    return (T)(a >> b);
}
#undef SIGNED_T
#endif
