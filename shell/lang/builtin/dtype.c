/* Which dtypes results have, and which numbers a dtype holds. */
#include <math.h>

#include "lang/eval/args.h"
#include "lang/eval/interp.h"
#include "dlcore/arithmetic.h"
#include "dlcore/view.h"

static dl_status give_dtype(dl_dtype t, dlsh_value *result) { return dlsh_give(dlsh_string(dl_dtype_name(t)), result); }

static dl_status dtype_arg(const dlsh_args *a, const char *name, dl_dtype *out) {
    const dlsh_value v = *dlsh_arg(a, name);
    const char *text = dlsh_is_bool_type(v) ? "bool" : v.type == DLSH_STR ? v.as.str->s : NULL;
    if (text && dl_dtype_parse(text, out) == DL_OK) return DL_OK;
    return dlsh_arg_fail(a, name, DL_ERR_DTYPE, DLSH_DTYPE_HINT, "there is no dtype '%s'", text ? text : dlsh_a(v));
}

/* The operand without its elements: none along one dimension; a single number stays one. A new reference. */
static dl_tensor *emptied(dlsh_value v) {
    const long zero = 0;
    dl_tensor *t = dlsh_operand(v), *none = NULL;
    if (!t || !dl_ndim(t)) return t;
    DLSH_OWNED dl_tensor *part = dl_slice(t, 0, &zero, &zero, 1);
    if (part) none = dl_reshape(part, &zero, 1);
    dl_unref(t);
    return none;
}

static dl_status result_type_run(const dlsh_args *a, dlsh_value *result) {
    DLSH_SCOPED_GRAD_MODE(0);
    const dlsh_value v[2] = {*dlsh_arg(a, "tensor1"), *dlsh_arg(a, "tensor2")};
    DLSH_OWNED dl_tensor *x = emptied(v[0]), *y = x ? emptied(v[1]) : NULL, *sum = y ? dl_add(x, y) : NULL;
    dl_dtype t = sum ? dl_dtype_of(sum) : DL_F32;
    DLSH_TRY(sum ? DL_OK : dl_failed());
    const int plain = v[0].type != DLSH_TENSOR && v[1].type != DLSH_TENSOR;
    return give_dtype(plain && dl_dtype_is_float(t) ? dl_default_dtype_get() : t, result); /* as tensors of numbers */
}

static dl_status promote_types_run(const dlsh_args *a, dlsh_value *result) {
    dl_dtype x, y;
    DLSH_TRY(dtype_arg(a, "type1", &x));
    DLSH_TRY(dtype_arg(a, "type2", &y));
    return give_dtype(dl_dtype_promote(x, y), result);
}

static dl_status can_cast_run(const dlsh_args *a, dlsh_value *result) {
    dl_dtype from, to;
    DLSH_TRY(dtype_arg(a, "from", &from));
    DLSH_TRY(dtype_arg(a, "to", &to));
    return dlsh_give(dlsh_bool(dl_dtype_kind(from) <= dl_dtype_kind(to)), result);
}

/* Binary digits behind the point, and the largest exponent, of the floating dtypes. */
static const struct {
    int digits, most;
} floating[] = {[DL_F16] = {10, 15}, [DL_BF16] = {7, 127}, [DL_F32] = {23, 127}, [DL_F64] = {52, 1023}};

/* Of complex numbers their parts count. */
static dl_status finfo_run(const dlsh_args *a, dlsh_value *result) {
    dl_dtype t = dl_default_dtype_get();
    if (dlsh_given(a, "type")) DLSH_TRY(dtype_arg(a, "type", &t));
    if (t == DL_C64 || t == DL_C128) t = t == DL_C64 ? DL_F32 : DL_F64;
    if (!dl_dtype_is_float(t))
        return dlsh_arg_fail(a, "type", DL_ERR_DTYPE, "iinfo is for integers", "%s is not a floating dtype",
                             dl_dtype_name(t));
    const int digits = floating[t].digits, most = floating[t].most;
    const double eps = ldexp(1, -digits), large = ldexp(2 - eps, most), least = ldexp(1, 1 - most);
    return dlsh_give(DLSH_RECORD_OF({"bits", dlsh_int(8 * (long)dl_dtype_size(t))}, {"eps", dlsh_float(eps)},
                                    {"max", dlsh_float(large)}, {"min", dlsh_float(-large)},
                                    {"smallest_normal", dlsh_float(least)}, {"tiny", dlsh_float(least)},
                                    {"resolution", dlsh_float(pow(10, -floor(digits * M_LN2 / M_LN10)))},
                                    {"dtype", dlsh_string(dl_dtype_name(t))}),
                     result);
}

static dl_status iinfo_run(const dlsh_args *a, dlsh_value *result) {
    dl_dtype t;
    DLSH_TRY(dtype_arg(a, "type", &t));
    if (dl_dtype_kind(t) != 1)
        return dlsh_arg_fail(a, "type", DL_ERR_DTYPE, "finfo is for floating dtypes", "%s is not a dtype of integers",
                             dl_dtype_name(t));
    const int bits = 8 * (int)dl_dtype_size(t);
    const long most = t == DL_U8 ? 255 : (long)(~0UL >> (65 - bits)), least = t == DL_U8 ? 0 : -most - 1;
    return dlsh_give(DLSH_RECORD_OF({"bits", dlsh_int(bits)}, {"max", dlsh_int(most)}, {"min", dlsh_int(least)},
                                    {"dtype", dlsh_string(dl_dtype_name(t))}),
                     result);
}

static dl_status set_default_run(const dlsh_args *a, dlsh_value *result) {
    dl_dtype t;
    *result = dlsh_none();
    DLSH_TRY(dtype_arg(a, "d", &t));
    dl_status st = dl_default_dtype_set(t);
    return st ? dlsh_arg_fail(a, "d", st, "f32, f64, f16 or bf16", "%s", dl_errmsg()) : DL_OK;
}

static dl_status get_default_run(DLSH_UNUSED const dlsh_args *a, dlsh_value *result) {
    return give_dtype(dl_default_dtype_get(), result);
}

const dlsh_command dlsh_dtype_rows[] = {
    DLSH_ACT_ROW(
        "set_default_dtype", set_default_run, "set_default_dtype(DTYPE)",
        "The dtype of floating tensors, and of weights of nets, that are made without one from now on: `set dtype "
        "f64` does the same.",
        DLSH_PARAMS({"d", .want = "string|function", .doc = "f32, f64, f16 or bf16", .complete = "dtype"}),
        .examples = "set_default_dtype(f64)\nzeros(2).dtype"),
    DLSH_FN_ROW("get_default_dtype", get_default_run, "get_default_dtype()", "The dtype that set_default_dtype set."),
    DLSH_FN_ROW("finfo", finfo_run, "finfo([DTYPE])",
                "What numbers a floating dtype holds: a record of bits, eps (from 1 to the next number), max, min, "
                "smallest_normal and resolution.",
                DLSH_PARAMS({"type", .want = "string|function", .flags = DLSH_OPTIONAL, .complete = "dtype",
                             .doc = "a floating dtype (the default one); of complex ones that of the parts"}),
                .examples = "finfo(bf16).eps\nx = rand(3) + finfo(f32).tiny"),
    DLSH_PURE_ROW("iinfo", iinfo_run, "iinfo(DTYPE)",
                  "What numbers an integer dtype holds: a record of bits, max and min.",
                  DLSH_PARAMS({"type", .want = "string|function", .complete = "dtype", .doc = "u8, i32 or i64"}),
                  .examples = "iinfo(i32).max"),
    DLSH_PURE_ROW("result_type", result_type_run, "result_type(A, B)", "The dtype of a result of two operands.",
                  DLSH_PARAMS({"tensor1", .want = "tensor|number|bool", .doc = "one operand"},
                              {"tensor2", .want = "tensor|number|bool", .doc = "the other"}),
                  .examples = "result_type(ones(2, dtype=i64), 0.5)"),
    DLSH_PURE_ROW("promote_types", promote_types_run, "promote_types(A, B)",
                  "The smallest dtype to which both can be converted.",
                  DLSH_PARAMS({"type1", .want = "string|function", .doc = "a dtype"},
                              {"type2", .want = "string|function", .doc = "another"}),
                  .examples = "promote_types(i64, f16)"),
    DLSH_PURE_ROW("can_cast", can_cast_run, "can_cast(FROM, TO)",
                  "May results of one dtype be written into tensors of another? Not into a lower kind: bool, integers, "
                  "floating, complex.",
                  DLSH_PARAMS({"from", .want = "string|function", .doc = "the dtype of the result"},
                              {"to", .want = "string|function", .doc = "that of the tensor"}),
                  .examples = "can_cast(f64, f32)\ncan_cast(f32, i64)"),
    {0}};
