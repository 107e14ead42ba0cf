#pragma once
/* dlcore.h - the public interface of libdlcore: tensors, autograd, layers, optimizers, data and the experiment store.
 *
 * Sizes, indices and counts are `long` (64 bits on every supported platform). Flags are `int`.
 *
 * A function that makes an object returns it with one reference owned by the caller, or NULL on failure. A function
 * that does something returns DL_OK (0) or an error code. In both cases dl_errmsg() has the detail; it is thread-local.
 * Memory running out is DL_ERR_MEMORY everywhere, and not named each time.
 *
 * To both kinds NULL may be given where an object is required: they fail with the error already recorded, if there is
 * one (else DL_ERR_VALUE), so that calls chain: dl_mul(dl_exp(x), y) - the caller still owns, and must release,
 * intermediate results. Functions that only tell something of an object (dl_ndim, dl_module_name, ...), and those that
 * return nothing, want one; _ref, _unref, _free and the like do nothing for NULL.
 *
 * Strings and arrays that are given are copied, unless it says otherwise; a const char * or const long * that is
 * returned belongs to the object it was asked of, and lives as long as that.
 *
 * The library never prints, aborts, exits or longjmps. There are no macros and no includes in this file: a C parser
 * without a preprocessor (ctypes and cffi bindings) can read it. From C++, include it inside extern "C" { }.
 */

/* ---------------------------------------------------------------- status and errors */

/* The rows of core/errors.def, which also holds their meaning. */
typedef enum dl_status {
    DL_OK = 0,
    DL_ERR_SHAPE,
    DL_ERR_DTYPE,
    DL_ERR_DEVICE,
    DL_ERR_VALUE,
    DL_ERR_INDEX,
    DL_ERR_TYPE,
    DL_ERR_NAME,
    DL_ERR_SYNTAX,
    DL_ERR_AUTOGRAD,
    DL_ERR_MEMORY,
    DL_ERR_IO,
    DL_ERR_FORMAT,
    DL_ERR_STORE,
    DL_ERR_STATE,
    DL_ERR_INTERRUPT,
    DL_ERR_UNSUPPORTED,
    DL_ERR_INTERNAL,
    DL_ERR_CRASH
} dl_status;

/* One failure in full. Strings belong to the record. `op`, `operands`, `hint` and `file` may be empty, never NULL. */
typedef struct dl_error {
    dl_status code;
    char op[48];        /* row of the op table that failed */
    char message[512];  /* what is wrong, one sentence */
    char operands[256]; /* shapes and dtypes of the operands: "f32[2,3], f32[4]" */
    char hint[256];     /* how to mend it, where that is known */
    char file[256];     /* source position of the statement that ran, as given to dl_source_set */
    int line;
    int at, length; /* of the text that was given (a filter), the bytes it is about; length 0: not known */
} dl_error;

/* The last failure of this thread as one line: "op: message (operands)". "" when there is none. Valid until the next
 * failure. */
const char *dl_errmsg(void);
/* The last failure of this thread in full; NULL when there is none. Valid until the next call into the library. */
const dl_error *dl_error_last(void);
/* The code of the last failure of this thread, for those who pass on that a call gave NULL. Never DL_OK: records
 * DL_ERR_INTERNAL when there is none. */
dl_status dl_failed(void);
/* Copies the last failure to *out and forgets it. Returns its code, DL_OK when there was none. */
dl_status dl_error_take(dl_error *out);
/* Puts a record back, or records one made by the caller. Returns its code. */
dl_status dl_error_put(const dl_error *err);
/* Forgets the last failure. */
void dl_error_clear(void);
/* Name of a status: "shape error". */
const char *dl_status_name(dl_status code);

/* Nearest of n names to `word` (edit distance at most a third of its length, or 1), or NULL: for "did you mean". */
const char *dl_nearest(const char *word, const char *const *names, int n);
/* The same among the files beside a path that does not exist: writes "did you mean 'FILE'?" and returns 1, or 0. */
int dl_nearest_file(const char *path, char *out, long size);

/* Names the source position that ops, nodes and errors of this thread are to carry. `file` must outlive its use. */
void dl_source_set(const char *file, int line);

/* A folder for what can be made again: $XDG_CACHE_HOME/dlsh/PART, else ~/.cache/dlsh/PART. It is made when it is
 * missing, for its owner alone, and written to path[size]. DL_ERR_IO: neither variable says a folder, it cannot be
 * made, it is another's or others can write to it, or its path is longer. */
dl_status dl_cache_folder(const char *part, char *path, int size);

/* Version as text, "0.1.0". */
const char *dl_version(void);

/* ---------------------------------------------------------------- dtypes and devices */

typedef enum dl_dtype { DL_BOOL = 0, DL_U8, DL_I32, DL_I64, DL_F16, DL_BF16, DL_F32, DL_F64 } dl_dtype;

/* Bytes of an element. */
long dl_dtype_size(dl_dtype t);
/* "f32"; lives as long as the library. */
const char *dl_dtype_name(dl_dtype t);
/* Reads "f32" and also PyTorch's "float32", "float", "int64", ...; fails with DL_ERR_DTYPE and names the valid ones. */
dl_status dl_dtype_parse(const char *name, dl_dtype *out);
/* Is it f16, bf16, f32 or f64? */
int dl_dtype_is_float(dl_dtype t);
/* 0 bool, 1 integers, 2 floating numbers: a result goes into a tensor of its own kind or a higher one. */
int dl_dtype_kind(dl_dtype t);
/* The dtype both operands are cast to, by PyTorch's rules for two tensors of at least one dimension. */
dl_dtype dl_dtype_promote(dl_dtype a, dl_dtype b);

/* A device is an int: 0 is the CPU, 1 + N is cuda:N. From "cpu", "cuda", "cuda:N"; DL_ERR_DEVICE: none such here. */
dl_status dl_device_parse(const char *name, int *out);
/* "cpu", "cuda:0"; valid until the thread's next call of this function. */
const char *dl_device_name(int device);

/* The CPU and the accelerators; the first call looks for the latter. */
int dl_device_count(void);
/* Why there is no accelerator; "" when there is one. */
const char *dl_device_missing(void);
/* "NVIDIA H200, 139.8 GiB, compute capability 9.0, CUDA 13.0" into text. DL_ERR_DEVICE: none such, or lost. */
dl_status dl_device_describe(int device, char *text, int size);
/* Bytes: held by tensors now and at most so far, kept for reuse beside that, and free on it (0 where the system does
 * not tell). DL_ERR_DEVICE. */
typedef struct dl_device_memory {
    long used, peak, cached, available;
} dl_device_memory;
dl_status dl_device_memory_get(int device, dl_device_memory *out);
/* Memory of tensors, and the statement that made it: file is NULL where none was set. */
typedef struct dl_memory_block {
    long bytes;
    const char *file;
    int line;
} dl_memory_block;
/* The largest blocks alive on a device, from 64 KiB on and largest first: at most max of them, returns how many. */
int dl_device_memory_largest(int device, dl_memory_block *out, int max);
/* Bytes that tensors hold, on all devices; cheap enough to be asked at every allocation. */
long dl_memory_held(void);
/* fn is called when memory for a tensor is refused, on the thread that asked: it frees what it can and returns nonzero
 * when that was something, and the allocation is tried again. One function; NULL: none. */
void dl_set_reclaim(int (*fn)(void));
/* Gives what is kept for reuse back to the driver or the system. DL_ERR_DEVICE. */
dl_status dl_device_empty_cache(int device);
/* The number of elements of a shape. -1, with DL_ERR_SHAPE: a size is negative, there are more than 8 of them, or more
 * than 2^53 elements. */
long dl_shape_count(int ndim, const long *shape);
/* malloc of n pieces of `size` bytes, for data that may grow large. Refused, with DL_ERR_MEMORY, before the machine,
 * the control group or a limit of the process is exhausted, however small the pieces are. To be freed with free(). */
void *dl_memory_alloc(long n, long size);
/* realloc of p from `old` to n pieces; NULL with DL_ERR_MEMORY, and p stays. */
void *dl_memory_resize(void *p, long old, long n, long size);
/* Waits for all work on the device, and reports its faults. DL_ERR_DEVICE: the device is lost, with its tensors. */
dl_status dl_device_synchronize(int device);
/* The stream that the library's own work on an accelerator goes through, a cudaStream_t: kernels launched on it run in
 * order with that work. NULL on the CPU. */
dl_status dl_device_stream(int device, void **stream);
/* on: every operation on an accelerator waits for its end, so that a fault is reported by the one that had it; at start
 * 0. Always DL_OK. */
dl_status dl_device_sync_every(int on);
int dl_device_sync_every_get(void);

/* Threads that kernels called from this thread may use: OMP_NUM_THREADS or the number of processors, until set. Results
 * do not depend on it, except those of BLAS and oneDNN in their last digits. DL_ERR_VALUE unless 1 to 1024. */
int dl_threads(void);
dl_status dl_threads_set(int n);
/* The device that creating functions use when none is named; at start the CPU. DL_ERR_DEVICE: none such here. */
int dl_device_default_get(void);
dl_status dl_device_default_set(int device);

/* How f32 arithmetic is done, for the whole process; at start f32. f32: every operation in f32. tf32: products and
 * convolutions on a GPU may round their operands to 11 significant bits; elsewhere as f32. bf16, f16: products and
 * convolutions take their operands in 16 bits and give 16 bits, losses and softmax compute in f32, everything else in
 * what it is given; parameters stay f32 and so do their gradients. f64 is never touched. DL_ERR_VALUE. */
typedef enum dl_precision { DL_PRECISION_F32 = 0, DL_PRECISION_TF32, DL_PRECISION_BF16, DL_PRECISION_F16 } dl_precision;
dl_precision dl_precision_get(void);
dl_status dl_precision_set(dl_precision p);
/* "f32", "tf32", "bf16", "f16". */
const char *dl_precision_name(dl_precision p);
/* Whether library algorithms are chosen only among those that give the same bits every time; at start 1. */
int dl_deterministic_get(void);
void dl_deterministic_set(int on);
/* On (as it starts): trainers on an accelerator run their steps from captured graphs, where nothing prevents it. */
int dl_capture_get(void);
void dl_capture_set(int on);

/* ---------------------------------------------------------------- tensors */

typedef struct dl_tensor dl_tensor;

/* A tensor of the given shape: uninitialised, zero, or every element `value` (converted as C converts).
 * ndim 0 to 8; shape may be NULL when ndim is 0. Errors: DL_ERR_SHAPE, DL_ERR_MEMORY, DL_ERR_DEVICE. */
dl_tensor *dl_tensor_empty(int ndim, const long *shape, dl_dtype dtype, int device);
dl_tensor *dl_tensor_zeros(int ndim, const long *shape, dl_dtype dtype, int device);
dl_tensor *dl_tensor_full(int ndim, const long *shape, dl_dtype dtype, int device, double value);
/* A contiguous tensor with a copy of `data`, elements of `dtype` in host memory, row-major. The same errors. */
dl_tensor *dl_tensor_from(int ndim, const long *shape, dl_dtype dtype, int device, const void *data);
/* A 0-d tensor on the CPU that takes part in promotion like a number of the language (PyTorch's wrapped number). */
dl_tensor *dl_scalar_f(double value);
dl_tensor *dl_scalar_i(long value);
dl_tensor *dl_scalar_b(int value);
/* A tensor on the CPU in the caller's memory, row-major, without copying; release(arg) runs when the last view is gone
 * (may be NULL), and not after a failure. DL_ERR_SHAPE, DL_ERR_DTYPE. */
dl_tensor *dl_tensor_wrap(int ndim, const long *shape, dl_dtype dtype, void *data, void (*release)(void *), void *arg);

/* Reference counts are atomic. dl_unref(NULL) does nothing. */
dl_tensor *dl_ref(dl_tensor *t);
void dl_unref(dl_tensor *t);

int dl_ndim(const dl_tensor *t);
const long *dl_shape(const dl_tensor *t);  /* [dl_ndim] */
const long *dl_stride(const dl_tensor *t); /* in elements */
long dl_numel(const dl_tensor *t);
dl_dtype dl_dtype_of(const dl_tensor *t);
int dl_device_of(const dl_tensor *t);
int dl_is_contiguous(const dl_tensor *t);
int dl_is_readonly(const dl_tensor *t); /* its memory was lent by another library for reading only */
/* First element. Host memory on the CPU, device memory otherwise. Writing through it must be announced with dl_touch().
 */
void *dl_data(const dl_tensor *t);
/* Bumps the version: tells autograd that the memory was changed from outside. */
void dl_touch(dl_tensor *t);
/* How often the tensor's memory was changed, by ops in place and dl_touch; views share it. */
long dl_tensor_version(const dl_tensor *t);
/* How often the tape holds the tensor's memory for gradients still to be computed; while it does, writing makes them
 * wrong. */
int dl_tensor_saved(const dl_tensor *t);
/* The name shown in graphs and errors; copied. "" when unnamed. */
const char *dl_tensor_name(const dl_tensor *t);
dl_status dl_tensor_set_name(dl_tensor *t, const char *name);

/* The value of a one-element tensor. Integers above 2^53 lose bits in the double form. Errors: DL_ERR_SHAPE. */
dl_status dl_item_f(const dl_tensor *t, double *out);
dl_status dl_item_i(const dl_tensor *t, long *out);
/* Copies all elements in logical order, converted to double, to out[dl_numel(t)]; from any device, whose work is waited
 * for. DL_ERR_DEVICE. */
dl_status dl_read_f64(const dl_tensor *t, double *out);
/* Copies all elements in logical order, unconverted, to `out` (dl_numel * element size bytes of host memory). */
dl_status dl_read(const dl_tensor *t, void *out);
/* The same values in dtype or on device; the tensor itself (a new reference) when nothing changes. Differentiable. */
dl_tensor *dl_to_dtype(dl_tensor *t, dl_dtype dtype);
dl_tensor *dl_to_device(dl_tensor *t, int device);
/* The tensor itself when it is contiguous, else a contiguous copy. Differentiable. */
dl_tensor *dl_contiguous(dl_tensor *t);
/* dst = value, broadcast and cast: the one way a tensor is changed in place. Autograd sees it: on a view the base is
 * rebased. Errors: DL_ERR_AUTOGRAD on a leaf that needs a gradient while recording, or on a tensor with overlapping
 * elements; DL_ERR_SHAPE when value does not broadcast to dst. */
dl_status dl_assign(dl_tensor *dst, dl_tensor *value);

/* ---------------------------------------------------------------- random numbers
 * Philox4x32-10: key = (seed, stream), counter = (call, element). The same numbers on every device, in logical order.
 */
/* Seeds all streams, for the whole process, and begins each anew; at start the seed is 0. */
void dl_seed(unsigned long seed);
unsigned long dl_seed_get(void);
typedef enum dl_stream {
    DL_STREAM_DEFAULT = 0,
    DL_STREAM_INIT,
    DL_STREAM_DATA,
    DL_STREAM_DROPOUT,
    DL_NSTREAM
} dl_stream;
/* Number of calls drawn so far from a stream; set it to resume exactly. */
unsigned long dl_rng_position(dl_stream s);
void dl_rng_seek(dl_stream s, unsigned long position);

/* ---------------------------------------------------------------- autograd */

/* Thread-local; returns the former setting. While off, ops leave no trace on the tape. */
int dl_grad_mode(int on);
int dl_grad_mode_get(void);
int dl_requires_grad(const dl_tensor *t); /* a leaf that asks for one, or a result that depends on such a leaf */
int dl_is_leaf(const dl_tensor *t);
/* Errors: DL_ERR_DTYPE unless floating, DL_ERR_AUTOGRAD on a result of ops. */
dl_status dl_set_requires_grad(dl_tensor *t, int on);
/* The accumulated gradient, owned by t; NULL when there is none. */
dl_tensor *dl_grad(const dl_tensor *t);
dl_status dl_set_grad(dl_tensor *t, dl_tensor *g); /* takes a new reference; NULL clears. DL_ERR_SHAPE */
/* A tensor of the same memory and version, without history. */
dl_tensor *dl_detach(dl_tensor *t);
/* Gradients of sum(t * seed) with respect to every leaf are accumulated into the leaves' .grad. seed NULL: t must hold
 * one element, and 1 is used. retain: keep saved tensors for another pass. create: record the pass itself, and
 * retain. Errors: DL_ERR_SHAPE (of t without a seed, or of the seed), DL_ERR_AUTOGRAD (no history, freed history, saved
 * tensor changed in place: both lines are named), DL_ERR_INTERRUPT. */
dl_status dl_backward(dl_tensor *t, dl_tensor *seed, int retain, int create);
/* Gradients with respect to inputs[n] without touching any .grad: out[n], owned by the caller; out[i] is NULL where t
 * does not depend on inputs[i]. The same errors; all of out is NULL then. */
dl_status dl_gradients(dl_tensor *t, dl_tensor *seed, dl_tensor **inputs, int n, int retain, int create,
                       dl_tensor **out);

/* Asks running work to stop at its next consistent point with DL_ERR_INTERRUPT: an op between two blocks of its work
 * (it has no result then; what it writes in place it finishes), backward with no gradient changed, training after the
 * step, files before they are replaced. Safe to call from a signal handler. While the flag is set no op begins; it
 * stays until it is set to 0. */
void dl_interrupt_set(int on);
int dl_interrupt_get(void);
/* From dl_idle(1) to dl_idle(0) the program waits for its user: the times of open runs and of training stand still. */
void dl_idle(int on);
/* What the library is at: the name of an op or of a longer work; NULL when it does nothing. Any thread, and signal
 * handlers. */
const char *dl_doing(void);

/* What dl_gradcheck found. Errors are |analytic - numeric| / max(1, |analytic|, |numeric|). */
typedef struct dl_gradcheck_report {
    int ok;
    long checked;            /* elements compared */
    double worst, tolerance; /* largest error, and what was allowed */
    int input;               /* where: input and index of its element in logical order */
    long element;
    double analytic, numeric;
} dl_gradcheck_report;

/* A function of n tensors with at most max_out results; returns how many it made (owned by the caller), -1 on failure.
 */
typedef int dl_tensor_fn(dl_tensor **in, int n, dl_tensor **out, int max_out, void *arg);

/* Compares the gradients of fn at in[n] with central differences, in f64: every element of every floating input that
 * needs a gradient, against a fixed random weighting of all results. second: checks gradients of the gradients too.
 * Random numbers are replayed, so that each evaluation draws the same. tolerance 0: 1e-6 (second: 1e-5). A failed
 * comparison is not an error: report->ok tells. Errors: those of fn; DL_ERR_DTYPE when an input that needs a gradient
 * is not f64. */
dl_status dl_gradcheck(dl_tensor_fn *fn, void *arg, dl_tensor **in, int n, int second, double tolerance,
                       dl_gradcheck_report *report);

/* A row of the tape: an op that was run while recording, or a leaf that one starts from. */
typedef struct dl_tape_node {
    const char *op;    /* its row; NULL: a leaf */
    unsigned long seq; /* number of the op, counted over the process; 0 for leaves */
    char attrs[96];    /* those that are not the defaults: "dim=[1] keepdim=true" */
    const char *file;  /* the statement that ran it, as given to dl_source_set */
    int line;
    int freed;       /* what its gradient needs was released by a backward pass */
    dl_tensor *leaf; /* borrowed */
    dl_dtype dtype;  /* of the leaf, or of the first result */
    int ndim;
    long shape[8];
    int nin;        /* operands of the op */
    const long *in; /* [nin] where each comes from, as an index of the list; -1: it needs no gradient */
} dl_tape_node;
/* The history of a tensor, first what made it: ops from the newest to the oldest, then leaves. */
typedef struct dl_tape {
    long n;
    const dl_tape_node *nodes;
} dl_tape;
/* Owned by the caller, until dl_tape_free. Holds the history alive, also through a backward pass. Errors:
 * DL_ERR_AUTOGRAD (no history). */
dl_tape *dl_tape_of(dl_tensor *t);
void dl_tape_free(dl_tape *tape);
/* The number `seq` of the op that a tensor is the first result of; 0 for leaves and other results. */
unsigned long dl_tape_number(const dl_tensor *t);

/* Calls a row of the op table by name. in[nin] may hold NULL for absent optional inputs; attrs is "dim=1 keepdim=true"
 * (NULL: all defaults), with quotation marks around a word that has blanks. Results, at most 8 with *nout set, are
 * owned by the caller. Errors: DL_ERR_NAME (no such op or attribute), DL_ERR_SYNTAX, and those of the op. */
dl_status dl_op_call(const char *op, dl_tensor **in, int nin, const char *attrs, dl_tensor **out, int *nout);

/* What the op table says of a row: for help, completion and bindings. Strings live as long as the library. */
typedef struct dl_op_arg {
    const char *name;
    const char *kind; /* tensor, tensors (a list), int, float, number, bool, dtype, device, ints, string */
    const char *dflt; /* NULL: must be given; "none": may be absent */
    const char *doc;  /* "" for tensors */
    int input;        /* number among the tensors; -1: an attribute */
} dl_op_arg;
typedef struct dl_op_info {
    const char *name, *doc, *formula;
    int nargs;       /* in the order in which they are given by position */
    int npositional; /* those from here on are given by name alone */
    dl_op_arg args[20];
    int nout; /* results that callers see */
    const char *out[8];
    int internal;       /* no function of the shell: gradients' and optimizers' rows */
    int differentiable; /* has a gradient rule, or is made of rows that have */
} dl_op_info;
/* Describes row i >= 0, registered ones after those of the table; returns 0 past the last. */
int dl_op_describe(int i, dl_op_info *out);
/* The same by name; returns 0 when there is none. */
int dl_op_describe_name(const char *name, dl_op_info *out);

/* ---------------------------------------------------------------- ops
 * One function a row of the op table. Results are owned by the caller; NULL on failure. An optional tensor may be NULL.
 * Lists come with their length n_NAME. Absent attributes: NULL; for dtype and device -1. For lists of sizes (stride,
 * padding, ...) NULL stands for the default. */
/* >>> made from ops/ops.def */
/* clang-format off */
/* Sum, element by element.  a + b */
dl_tensor *dl_add(dl_tensor *input, dl_tensor *other);
/* Difference, element by element.  a - b */
dl_tensor *dl_sub(dl_tensor *input, dl_tensor *other);
/* Product, element by element.  a * b */
dl_tensor *dl_mul(dl_tensor *input, dl_tensor *other);
/* True quotient, element by element.  a / b */
dl_tensor *dl_div(dl_tensor *input, dl_tensor *other);
/* Quotient rounded down; an integer divided by 0 is an error.  floor(a / b) */
dl_tensor *dl_floor_divide(dl_tensor *input, dl_tensor *other);
/* Remainder with the sign of the divisor; of an integer by 0 an error.  a - b * floor(a / b) */
dl_tensor *dl_remainder(dl_tensor *input, dl_tensor *other);
/* Power, element by element; integers take no negative exponent.  a ** b */
dl_tensor *dl_pow(dl_tensor *input, dl_tensor *exponent);
/* The larger of two, NaN if either is.  max(a, b) */
dl_tensor *dl_maximum(dl_tensor *input, dl_tensor *other);
/* The smaller of two, NaN if either is.  min(a, b) */
dl_tensor *dl_minimum(dl_tensor *input, dl_tensor *other);
/* Equal.  a == b */
dl_tensor *dl_eq(dl_tensor *input, dl_tensor *other);
/* Not equal.  a != b */
dl_tensor *dl_ne(dl_tensor *input, dl_tensor *other);
/* Less.  a < b */
dl_tensor *dl_lt(dl_tensor *input, dl_tensor *other);
/* Less or equal.  a <= b */
dl_tensor *dl_le(dl_tensor *input, dl_tensor *other);
/* Greater.  a > b */
dl_tensor *dl_gt(dl_tensor *input, dl_tensor *other);
/* Greater or equal.  a >= b */
dl_tensor *dl_ge(dl_tensor *input, dl_tensor *other);
/* Both are non-zero.  a && b */
dl_tensor *dl_logical_and(dl_tensor *input, dl_tensor *other);
/* At least one is non-zero.  a || b */
dl_tensor *dl_logical_or(dl_tensor *input, dl_tensor *other);
/* Exactly one is non-zero.  a != b as truth values */
dl_tensor *dl_logical_xor(dl_tensor *input, dl_tensor *other);
/* Is zero.  !x */
dl_tensor *dl_logical_not(dl_tensor *input);
/* Bits set in both; of bools, both.  a & b */
dl_tensor *dl_bitwise_and(dl_tensor *input, dl_tensor *other);
/* Bits set in either; of bools, either.  a | b */
dl_tensor *dl_bitwise_or(dl_tensor *input, dl_tensor *other);
/* Bits set in one of the two.  a ^ b */
dl_tensor *dl_bitwise_xor(dl_tensor *input, dl_tensor *other);
/* All bits flipped; of bools, the opposite.  ~x */
dl_tensor *dl_bitwise_not(dl_tensor *input);
/* Bits moved up, by fewer than the dtype has.  a << b */
dl_tensor *dl_bitwise_left_shift(dl_tensor *input, dl_tensor *other);
/* Bits moved down, by fewer than the dtype has; the sign is kept.  a >> b */
dl_tensor *dl_bitwise_right_shift(dl_tensor *input, dl_tensor *other);
/* Is not a number.  x != x */
dl_tensor *dl_isnan(dl_tensor *input);
/* Is an infinity.  |x| == inf */
dl_tensor *dl_isinf(dl_tensor *input);
/* Is neither NaN nor an infinity.  |x| < inf */
dl_tensor *dl_isfinite(dl_tensor *input);
/* Negative.  -x */
dl_tensor *dl_neg(dl_tensor *input);
/* Magnitude.  |x| */
dl_tensor *dl_abs(dl_tensor *input);
/* -1, 0 or 1; NaN stays NaN.  sign(x) */
dl_tensor *dl_sign(dl_tensor *input);
/* Square.  x * x */
dl_tensor *dl_square(dl_tensor *input);
/* Exponential.  e ** x */
dl_tensor *dl_exp(dl_tensor *input);
/* Exponential less one, exact near 0.  e ** x - 1 */
dl_tensor *dl_expm1(dl_tensor *input);
/* Natural logarithm.  ln(x) */
dl_tensor *dl_log(dl_tensor *input);
/* Logarithm to base 2.  ln(x) / ln(2) */
dl_tensor *dl_log2(dl_tensor *input);
/* Logarithm to base 10.  ln(x) / ln(10) */
dl_tensor *dl_log10(dl_tensor *input);
/* Logarithm of one more, exact near 0.  ln(1 + x) */
dl_tensor *dl_log1p(dl_tensor *input);
/* Square root.  x ** 0.5 */
dl_tensor *dl_sqrt(dl_tensor *input);
/* Reciprocal square root.  x ** -0.5 */
dl_tensor *dl_rsqrt(dl_tensor *input);
/* Reciprocal.  1 / x */
dl_tensor *dl_reciprocal(dl_tensor *input);
/* Sine.  sin(x) */
dl_tensor *dl_sin(dl_tensor *input);
/* Cosine.  cos(x) */
dl_tensor *dl_cos(dl_tensor *input);
/* Tangent.  tan(x) */
dl_tensor *dl_tan(dl_tensor *input);
/* Arc tangent.  atan(x) */
dl_tensor *dl_atan(dl_tensor *input);
/* Hyperbolic tangent.  tanh(x) */
dl_tensor *dl_tanh(dl_tensor *input);
/* Logistic function.  1 / (1 + e ** -x) */
dl_tensor *dl_sigmoid(dl_tensor *input);
/* Error function.  2 / sqrt(pi) * integral of e ** -t**2 from 0 to x */
dl_tensor *dl_erf(dl_tensor *input);
/* Rectifier; NaN stays NaN.  max(x, 0) */
dl_tensor *dl_relu(dl_tensor *input);
/* Rectifier with a slope below 0.  x if x > 0 else slope * x */
dl_tensor *dl_leaky_relu(dl_tensor *input, double negative_slope);
/* Exponential linear unit.  x if x > 0 else alpha * (e ** x - 1) */
dl_tensor *dl_elu(dl_tensor *input, double alpha);
/* Gaussian error linear unit, by erf.  x * (1 + erf(x / sqrt(2))) / 2 */
dl_tensor *dl_gelu(dl_tensor *input);
/* Sigmoid linear unit.  x * sigmoid(x) */
dl_tensor *dl_silu(dl_tensor *input);
/* Smooth rectifier.  ln(1 + e ** x) */
dl_tensor *dl_softplus(dl_tensor *input);
/* Logarithm of the logistic function.  -ln(1 + e ** -x) */
dl_tensor *dl_logsigmoid(dl_tensor *input);
/* Self-regularised activation.  x * tanh(softplus(x)) */
dl_tensor *dl_mish(dl_tensor *input);
/* Rectifier up to 6.  min(max(x, 0), 6) */
dl_tensor *dl_relu6(dl_tensor *input);
/* Limited to a range, -1 to 1 by default.  min(max(x, min_val), max_val) */
dl_tensor *dl_hardtanh(dl_tensor *input, double min_val, double max_val);
/* Rounded down.  floor(x) */
dl_tensor *dl_floor(dl_tensor *input);
/* Rounded up.  ceil(x) */
dl_tensor *dl_ceil(dl_tensor *input);
/* Rounded to the nearest integer, ties to even.  round(x) */
dl_tensor *dl_round(dl_tensor *input);
/* Limited to a range; NaN stays NaN.  min(max(x, min), max) */
dl_tensor *dl_clamp(dl_tensor *input, const double *min, const double *max);
/* The second operand where the condition holds, else the third.  condition ? input : other */
dl_tensor *dl_where(dl_tensor *condition, dl_tensor *input, dl_tensor *other);
/* A copy with one value where the mask holds, in the dtype of the input.  mask ? value : input */
dl_tensor *dl_masked_fill(dl_tensor *input, dl_tensor *mask, dl_tensor *value);
/* The same values in another dtype.  dtype(x) */
dl_tensor *dl_to(dl_tensor *input, int dtype);
/* A fresh copy.  x */
dl_tensor *dl_clone(dl_tensor *input);
/* The same values on another device.  x */
dl_tensor *dl_transfer(dl_tensor *input, int device);
/* A copy with given strides in memory.  x */
dl_tensor *dl_restride(dl_tensor *input, const long *stride, int n_stride);
/* The same elements in another shape; one size may be -1. A copy where strides do not allow a view.  x */
dl_tensor *dl_reshape(dl_tensor *input, const long *shape, int n_shape);
/* Dimensions in another order.  x */
dl_tensor *dl_permute(dl_tensor *input, const long *dims, int n_dims);
/* Dimensions of size 1 repeated without copying; -1 keeps a size.  x */
dl_tensor *dl_expand(dl_tensor *input, const long *size, int n_size);
/* Every step-th index of a dimension, from start up to end.  x[start:end:step] */
dl_tensor *dl_slice(dl_tensor *input, long dim, const long *start, const long *end, long step);
/* One index of a dimension, which disappears.  x[index] */
dl_tensor *dl_select(dl_tensor *input, long dim, long index);
/* The diagonal of two dimensions, as the last dimension.  x[i, i + offset] */
dl_tensor *dl_diagonal(dl_tensor *input, long offset, long dim1, long dim2);
/* Sizes and strides laid over the memory as given.  x */
dl_tensor *dl_as_strided(dl_tensor *input, const long *size, int n_size, const long *stride, int n_stride, long offset);
/* Writes a value into a region of the memory.  x[region] = value */
dl_tensor *dl_as_strided_set(dl_tensor *input, dl_tensor *value, const long *size, int n_size, const long *stride, int n_stride, long offset);
/* Tensors joined along a dimension that exists.  [a, b, ...] */
dl_tensor *dl_cat(dl_tensor **tensors, int n_tensors, long dim);
/* Tensors of one shape joined along a new dimension.  [a, b, ...] */
dl_tensor *dl_stack(dl_tensor **tensors, int n_tensors, long dim);
/* A tensor with elements of one value around it; negative widths cut off. Widths come in pairs, those of the last dimension first.  value, ..., x, ..., value */
dl_tensor *dl_pad(dl_tensor *input, const long *pad, int n_pad, double value, const char *mode);
/* Indices of the given dimensions in reverse.  x[::-1] */
dl_tensor *dl_flip(dl_tensor *input, const long *dims, int n_dims);
/* Elements moved along dimensions; what leaves at the end comes back at the start. Without dims all elements in a row.  out[(i + shift) % n] = x[i] */
dl_tensor *dl_roll(dl_tensor *input, const long *shifts, int n_shifts, const long *dims, int n_dims);
/* Copies of the whole, side by side in each dimension; those of the last dimension stand last.  x, x, ... */
dl_tensor *dl_tile(dl_tensor *input, const long *dims, int n_dims);
/* Elements on and below a diagonal of the last two dimensions; 0 elsewhere.  x[i, j] if j - i <= diagonal else 0 */
dl_tensor *dl_tril(dl_tensor *input, long diagonal);
/* Elements on and above a diagonal of the last two dimensions; 0 elsewhere.  x[i, j] if j - i >= diagonal else 0 */
dl_tensor *dl_triu(dl_tensor *input, long diagonal);
/* Rows of a dimension picked by a list of indices; negative ones count from the end.  x[index] */
dl_tensor *dl_index_select(dl_tensor *input, dl_tensor *index, long dim);
/* A copy with rows of a source added at a list of indices, in order; negative ones count from the end.  y = x; y[index[i]] += source[i] */
dl_tensor *dl_index_add(dl_tensor *input, dl_tensor *index, dl_tensor *source, long dim);
/* Elements picked along a dimension; negative indices count from the end.  out[i,j] = x[index[i,j], j] for dim 0 */
dl_tensor *dl_gather(dl_tensor *input, dl_tensor *index, long dim);
/* A copy with elements of a source added along a dimension, in order; negative indices count from the end.  y = x; y[index[i,j], j] += source[i,j] for dim 0 */
dl_tensor *dl_scatter_add(dl_tensor *input, dl_tensor *index, dl_tensor *src, long dim);
/* Rows of a table picked by indices of any shape; rows of padding_idx get no gradient.  weight[input] */
dl_tensor *dl_embedding(dl_tensor *input, dl_tensor *weight, const long *padding_idx);
/* Indices of the non-zero elements, one row each.  [[i, j], ...] */
dl_tensor *dl_nonzero(dl_tensor *input);
/* Labels as rows with a single 1.  out[i, k] = label[i] == k */
dl_tensor *dl_one_hot(dl_tensor *input, long num_classes);
/* Elements of a dimension in order, and where they were.  values[i] <= values[i + 1], values = x[indices] */
dl_tensor *dl_sort(dl_tensor *input, long dim, int descending, dl_tensor **out_indices);
/* Indices that put a dimension in order.  sort(x) = x[argsort(x)] */
dl_tensor *dl_argsort(dl_tensor *input, long dim, int descending);
/* The k largest elements of a dimension, the largest first, and where they were; or the smallest ones.  sort(x, descending=largest)[:k] */
dl_tensor *dl_topk(dl_tensor *input, long k, long dim, int largest, dl_tensor **out_indices);
/* Sum.  x[0] + x[1] + ... */
dl_tensor *dl_sum(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Mean.  sum(x) / n */
dl_tensor *dl_mean(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Product.  x[0] * x[1] * ... */
dl_tensor *dl_prod(dl_tensor *input, const long *dim, int keepdim);
/* Largest value; NaN if there is one. Equal largest values share the gradient.  max(x) */
dl_tensor *dl_amax(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Smallest value; NaN if there is one. Equal smallest values share the gradient.  min(x) */
dl_tensor *dl_amin(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Largest value of a dimension and its first index.  max(x), argmax(x) */
dl_tensor *dl_max_dim(dl_tensor *input, long dim, int keepdim, dl_tensor **out_indices);
/* Smallest value of a dimension and its first index.  min(x), argmin(x) */
dl_tensor *dl_min_dim(dl_tensor *input, long dim, int keepdim, dl_tensor **out_indices);
/* First index of the largest value; of all elements when dim is none.  argmax(x) */
dl_tensor *dl_argmax(dl_tensor *input, const long *dim, int keepdim);
/* First index of the smallest value; of all elements when dim is none.  argmin(x) */
dl_tensor *dl_argmin(dl_tensor *input, const long *dim, int keepdim);
/* At least one element is non-zero.  x[0] || x[1] || ... */
dl_tensor *dl_any(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* No element is zero.  x[0] && x[1] && ... */
dl_tensor *dl_all(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Logarithm of the sum of exponentials, without overflow.  ln(sum(e ** x)) */
dl_tensor *dl_logsumexp(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Running sum along a dimension.  out[i] = x[0] + ... + x[i] */
dl_tensor *dl_cumsum(dl_tensor *input, long dim);
/* Variance, with Bessel's correction by default.  sum((x - mean)**2) / (n - correction) */
dl_tensor *dl_var(dl_tensor *input, const long *dim, int n_dim, long correction, int keepdim);
/* Standard deviation, with Bessel's correction by default.  sqrt(var(x)) */
dl_tensor *dl_std(dl_tensor *input, const long *dim, int n_dim, long correction, int keepdim);
/* Sum of squares.  sum(x**2) */
dl_tensor *dl_square_sum(dl_tensor *input, const long *dim, int n_dim, int keepdim);
/* Norm of the elements as one vector; the gradient at 0 is 0. p=0 counts those that are not 0.  sum(|x|**p)**(1/p) */
dl_tensor *dl_norm(dl_tensor *input, const long *dim, int n_dim, int keepdim, double p);
/* Vectors along a dimension divided by their norm, but at least by eps.  x / max(norm(x), eps) */
dl_tensor *dl_normalize(dl_tensor *input, double p, long dim, double eps);
/* Cosine of the angle between vectors along a dimension.  sum(x1 * x2) / (max(norm(x1), eps) * max(norm(x2), eps)) */
dl_tensor *dl_cosine_similarity(dl_tensor *x1, dl_tensor *x2, long dim, double eps);
/* Matrix product; leading dimensions are batches and broadcast; 1-d operands are vectors.  out[i,k] = sum over j of a[i,j] * b[j,k] */
dl_tensor *dl_matmul(dl_tensor *input, dl_tensor *other);
/* A layer's product: rows times the transposed weight, plus bias.  x @ weight.T + bias */
dl_tensor *dl_linear(dl_tensor *input, dl_tensor *weight, dl_tensor *bias);
/* Product of two matrices.  a @ b */
dl_tensor *dl_mm(dl_tensor *input, dl_tensor *mat2);
/* Product of a matrix and a vector.  a @ v */
dl_tensor *dl_mv(dl_tensor *input, dl_tensor *vec);
/* Products of the matrices of two batches, one by one.  a[i] @ b[i] */
dl_tensor *dl_bmm(dl_tensor *input, dl_tensor *mat2);
/* Inner product of two vectors.  sum(a * b) */
dl_tensor *dl_dot(dl_tensor *input, dl_tensor *tensor);
/* Products of each element of a vector with each of another.  out[i,j] = a[i] * b[j] */
dl_tensor *dl_outer(dl_tensor *input, dl_tensor *vec2);
/* Product of two matrices, added to a tensor that broadcasts.  beta * input + alpha * (mat1 @ mat2) */
dl_tensor *dl_addmm(dl_tensor *input, dl_tensor *mat1, dl_tensor *mat2, double beta, double alpha);
/* Products of operands summed over dimensions, by Einstein's notation: einsum("ij,jk->ik", a, b). A letter names a dimension; one that the result lacks is summed over; ... stands for any others. Without an arrow the result has the letters that stand once, in the order of the alphabet.  out[i,k] = sum over j of a[i,j] * b[j,k] */
dl_tensor *dl_einsum(dl_tensor **operands, int n_operands, const char *equation);
/* Attention of queries [..., L, E] to keys [..., S, E] and their values [..., S, Ev]. A mask that broadcasts to [..., L, S] is true where attention is allowed, or is added; a query that it lets see nothing gets 0.  softmax(query @ key.T * scale + mask) @ value */
dl_tensor *dl_scaled_dot_product_attention(dl_tensor *query, dl_tensor *key, dl_tensor *value, dl_tensor *attn_mask, double dropout_p, int is_causal, const double *scale);
/* Two-dimensional convolution (cross-correlation).  out[n,o,y,x] = bias[o] + sum over c,i,j of x[n,c,y*s+i*d-p,x*s+j*d-p] * weight[o,c,i,j] */
dl_tensor *dl_conv2d(dl_tensor *input, dl_tensor *weight, dl_tensor *bias, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, long groups);
/* Gradient of conv2d with respect to its input.  transposed convolution of the gradient with the weight */
dl_tensor *dl_conv2d_dx(dl_tensor *grad, dl_tensor *weight, const long *size, int n_size, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, long groups);
/* Gradient of conv2d with respect to its weight.  correlation of the input with the gradient */
dl_tensor *dl_conv2d_dw(dl_tensor *grad, dl_tensor *input, const long *size, int n_size, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, long groups);
/* Transposed two-dimensional convolution, the gradient of conv2d with respect to its input.  out[n,o,y*s+i*d-p,x*s+j*d-p] = bias[o] + sum of x[n,c,y,x] * weight[c,o,i,j] */
dl_tensor *dl_conv_transpose2d(dl_tensor *input, dl_tensor *weight, dl_tensor *bias, const long *stride, int n_stride, const long *padding, int n_padding, const long *output_padding, int n_output_padding, long groups, const long *dilation, int n_dilation, const long *output_size, int n_output_size);
/* Convolution normalised by running statistics, then rectified if asked: a layer in evaluation. It has no gradient.  (conv2d(x) - mean) / sqrt(var + eps) * norm_weight + norm_bias */
dl_tensor *dl_conv2d_norm(dl_tensor *input, dl_tensor *weight, dl_tensor *running_mean, dl_tensor *running_var, dl_tensor *bias, dl_tensor *norm_weight, dl_tensor *norm_bias, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, long groups, double eps, int relu);
/* Largest value of each window, NaN if there is one; and its place. A window that sees no pixel, dilated over padding, has -inf and the place -1.  max over the window */
dl_tensor *dl_max_pool2d(dl_tensor *input, const long *kernel_size, int n_kernel_size, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, int ceil_mode);
/* Bias added, rectified and max_pool2d in one pass over memory.  max over the window of max(x + bias, 0) */
dl_tensor *dl_relu_max_pool2d(dl_tensor *input, dl_tensor *bias, const long *kernel_size, int n_kernel_size, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, int ceil_mode);
/* conv2d, then relu_max_pool2d by windows that tile the results, which need not be in memory in between.  relu_max_pool2d(conv2d(x, weight), bias, pool_size) */
dl_tensor *dl_conv2d_relu_max_pool2d(dl_tensor *input, dl_tensor *weight, dl_tensor *bias, const long *stride, int n_stride, const long *padding, int n_padding, const long *dilation, int n_dilation, long groups, const long *pool_size, int n_pool_size);
/* Puts values at the places max_pool2d found, adding up; those of place -1 nowhere.  out[index] += x */
dl_tensor *dl_pool_scatter(dl_tensor *input, dl_tensor *indices, const long *size, int n_size);
/* Reads values from the places max_pool2d found; 0 from place -1.  x[index] */
dl_tensor *dl_pool_gather(dl_tensor *input, dl_tensor *indices);
/* Mean of each window.  sum over the window / its pixels */
dl_tensor *dl_avg_pool2d(dl_tensor *input, const long *kernel_size, int n_kernel_size, const long *stride, int n_stride, const long *padding, int n_padding, int ceil_mode, int count_include_pad);
/* Gradient of avg_pool2d.  each pixel's share of the windows that hold it */
dl_tensor *dl_avg_pool2d_dx(dl_tensor *grad, const long *size, int n_size, const long *kernel_size, int n_kernel_size, const long *stride, int n_stride, const long *padding, int n_padding, int ceil_mode, int count_include_pad);
/* Means of windows that divide each image into output_size parts, of one size or nearly so.  mean of x[floor(i * H / h) : ceil((i + 1) * H / h), ...] */
dl_tensor *dl_adaptive_avg_pool2d(dl_tensor *input, const long *output_size, int n_output_size);
/* adaptive_avg_pool2d with windows of any size.  see adaptive_avg_pool2d */
dl_tensor *dl_adaptive_pool2d(dl_tensor *input, const long *output_size, int n_output_size);
/* Gradient of adaptive_pool2d.  each pixel's share of the windows that hold it */
dl_tensor *dl_adaptive_pool2d_dx(dl_tensor *grad, const long *size, int n_size);
/* Exponentials scaled to sum 1 along a dimension.  e ** x / sum(e ** x) */
dl_tensor *dl_softmax(dl_tensor *input, long dim);
/* Logarithm of softmax.  x - ln(sum(e ** x)) */
dl_tensor *dl_log_softmax(dl_tensor *input, long dim);
/* Classification loss of logits [N,C,...] against labels [N,...]; fused with log-softmax.  mean over n of -weight[y] * log_softmax(x)[y] */
dl_tensor *dl_cross_entropy(dl_tensor *input, dl_tensor *target, dl_tensor *weight, const char *reduction, long ignore_index, double label_smoothing);
/* Loss of log-probabilities [N,C,...] against labels [N,...].  sum over n of -weight[y] * x[n, y] / sum over n of weight[y] */
dl_tensor *dl_nll_loss(dl_tensor *input, dl_tensor *target, dl_tensor *weight, const char *reduction, long ignore_index);
/* Mean squared error.  mean((x - target)**2) */
dl_tensor *dl_mse_loss(dl_tensor *input, dl_tensor *target, const char *reduction);
/* Mean absolute error.  mean(|x - target|) */
dl_tensor *dl_l1_loss(dl_tensor *input, dl_tensor *target, const char *reduction);
/* Squared error where that is below beta, absolute error elsewhere.  mean(d**2 / (2 beta) if d < beta else d - beta / 2), d = |x - target| */
dl_tensor *dl_smooth_l1_loss(dl_tensor *input, dl_tensor *target, const char *reduction, double beta);
/* Squared error where that is below delta, absolute error elsewhere, scaled to go on smoothly.  mean(d**2 / 2 if d < delta else delta * (d - delta / 2)), d = |x - target| */
dl_tensor *dl_huber_loss(dl_tensor *input, dl_tensor *target, const char *reduction, double delta);
/* Kullback-Leibler divergence of log-probabilities from probabilities, or from the logarithms of these.  mean(target * (ln(target) - x)) */
dl_tensor *dl_kl_div(dl_tensor *input, dl_tensor *target, const char *reduction, int log_target);
/* Loss of each logit against its probability.  max(x, 0) - x * target + ln(1 + e ** -|x|) */
dl_tensor *dl_logit_loss(dl_tensor *input, dl_tensor *target);
/* Loss of logits against probabilities.  mean(max(x, 0) - x * target + ln(1 + e ** -|x|)) */
dl_tensor *dl_binary_cross_entropy_with_logits(dl_tensor *input, dl_tensor *target, const char *reduction);
/* Zeroes elements with probability p and scales the others; the identity when not training.  x * mask / (1 - p) */
dl_tensor *dl_dropout(dl_tensor *input, double p, int training);
/* Normalises each channel (dimension 1) over the batch, or by the running statistics when not training; updates these in training.  (x - mean) / sqrt(var + eps) * weight + bias */
dl_tensor *dl_batch_norm(dl_tensor *input, dl_tensor *running_mean, dl_tensor *running_var, dl_tensor *weight, dl_tensor *bias, int training, double momentum, double eps);
/* batch_norm and relu in one pass over memory.  max(batch_norm(x), 0) */
dl_tensor *dl_batch_norm_relu(dl_tensor *input, dl_tensor *running_mean, dl_tensor *running_var, dl_tensor *weight, dl_tensor *bias, int training, double momentum, double eps);
/* Normalises the last dimensions of each row, then scales and shifts.  (x - mean) / sqrt(var + eps) * weight + bias, mean and var over the last dimensions */
dl_tensor *dl_layer_norm(dl_tensor *input, dl_tensor *weight, dl_tensor *bias, const long *normalized_shape, int n_normalized_shape, double eps);
/* Divides the last dimensions of each row by the root of their mean square, then scales.  x / sqrt(mean(x**2) + eps) * weight, mean over the last dimensions */
dl_tensor *dl_rms_norm(dl_tensor *input, dl_tensor *weight, const long *normalized_shape, int n_normalized_shape, const double *eps);
/* Normalises groups of channels (dimension 1) of each example, then scales and shifts each channel.  (x - mean) / sqrt(var + eps) * weight + bias, mean and var over a group */
dl_tensor *dl_group_norm(dl_tensor *input, dl_tensor *weight, dl_tensor *bias, long num_groups, double eps);
/* group_norm in one pass, and with the statistics of each group.  (x - mean) / sqrt(var + eps) * weight + bias, mean and var over a group */
dl_tensor *dl_norm_groups(dl_tensor *input, dl_tensor *weight, dl_tensor *bias, long num_groups, double eps);
/* One step of stochastic gradient descent. The list is n parameters, their n gradients and, with momentum, their n buffers; lr is a single number, or three in f64: the rate, a factor for all gradients, and one that is not 0 where nothing is to change.  g += wd * p; v = mu * v + (1 - damp) * g; p -= lr * (nesterov ? g + mu * v : v) */
dl_status dl_sgd_step(dl_tensor *lr, dl_tensor **tensors, int n_tensors, double momentum, double dampening, double weight_decay, int nesterov, int maximize, int first);
/* One step of Adam. The list is n parameters, their n gradients, n first moments, n second moments and, with amsgrad, n largest second moments; lr and step (1 at the first step) are single numbers, lr also three as in sgd_step.  m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g**2; p -= lr / (1 - b1**t) * m / (sqrt(v) / sqrt(1 - b2**t) + eps) */
dl_status dl_adam_step(dl_tensor *lr, dl_tensor *step, dl_tensor **tensors, int n_tensors, double beta1, double beta2, double eps, double weight_decay, int decoupled, int amsgrad, int maximize);
/* Every element one value.  value */
dl_tensor *dl_full(const long *size, int n_size, double fill_value, int dtype, int device);
/* Zeros.  0 */
dl_tensor *dl_zeros(const long *size, int n_size, int dtype, int device);
/* Ones.  1 */
dl_tensor *dl_ones(const long *size, int n_size, int dtype, int device);
/* Numbers from start up to end, step apart. Integers give i64, else f32.  start + i * step */
dl_tensor *dl_arange(double start, const double *end, double step, int dtype, int device);
/* Ones on the diagonal.  i == j */
dl_tensor *dl_eye(long n, const long *m, int dtype, int device);
/* Evenly spaced numbers, both ends included.  start + i * (end - start) / (steps - 1) */
dl_tensor *dl_linspace(double start, double end, long steps, int dtype, int device);
/* Uniform numbers in [0, 1).  U(0, 1) */
dl_tensor *dl_rand(const long *size, int n_size, int dtype, int device);
/* Standard normal numbers.  N(0, 1) */
dl_tensor *dl_randn(const long *size, int n_size, int dtype, int device);
/* Uniform integers, low included, high not; unbiased.  low + U{0 .. high - low - 1} */
dl_tensor *dl_randint(long low, long high, const long *size, int n_size, int dtype, int device);
/* The numbers below n in random order.  a permutation of 0 .. n - 1 */
dl_tensor *dl_randperm(long n, int dtype, int device);
/* 1 with the probability that the input gives, else 0.  U(0, 1) < p */
dl_tensor *dl_bernoulli(dl_tensor *input);
/* clang-format on */
/* <<< */

/* ---------------------------------------------------------------- data: datasets and loaders
 * A dataset has two splits, of samples x with targets y. Bytes stay bytes in memory and become f32 batch by batch, by
 * the dataset's normalisation; integers stay integers. y is a class number (i64, 0-d) or, where dl_dataset_classes is
 * 0, f32 or i64 of the target's shape. A dataset does not change after it is made; any thread may read it. docs/data.md
 * has the formats. */
typedef struct dl_dataset dl_dataset;
typedef enum dl_split { DL_TRAIN = 0, DL_TEST } dl_split;

/* The rows of data/datasets.def: kinds of datasets, and their options. */
typedef struct dl_data_option {
    const char *name;  /* NULL ends a list */
    const char *type;  /* "int", "float", "bool", "string", "tensor" */
    const char *dflt;  /* as text; NULL: must be given */
    const char *doc;   /* one sentence */
    int positional;    /* may also be given by position; these come first */
    const char *words; /* the valid values, "unit|standard|none"; NULL: any */
} dl_data_option;
typedef struct dl_data_kind {
    const char *name, *doc;
    const dl_data_option *options;
} dl_data_kind;
/* Kind number i in table order; NULL past the end. */
const dl_data_kind *dl_data_kind_at(int i);

/* Opens or generates a dataset: kind "mnist", "digits", ...; options is name, value, ..., NULL, or NULL for none.
 * Errors: DL_ERR_NAME (kind or option unknown, the nearest is named), DL_ERR_VALUE, DL_ERR_IO (file missing or
 * unreadable), DL_ERR_FORMAT (contents; with the place), DL_ERR_MEMORY. */
dl_dataset *dl_dataset_open(const char *kind, const char *const *options);
/* A dataset of tensors: x [n, ...] and y [n, ...]. Floating samples and targets are kept as f32, integers and bools as
 * i64; u8 samples of two dimensions or more are pictures: kept as they are and scaled to [0, 1]. Integers y [n] are
 * class numbers when those of the training split lie in 0 to 99999. test_x and test_y may both be NULL: an empty test
 * split. Contents are copied. name NULL: "tensor". Errors: DL_ERR_SHAPE, DL_ERR_DTYPE, DL_ERR_VALUE. */
dl_dataset *dl_dataset_from(dl_tensor *x, dl_tensor *y, dl_tensor *test_x, dl_tensor *test_y, const char *name);
dl_dataset *dl_dataset_ref(dl_dataset *d);
void dl_dataset_unref(dl_dataset *d);

const char *dl_dataset_name(const dl_dataset *d); /* "mnist" */
/* Everything that made it, "path=data/mnist normalize=unit". */
const char *dl_dataset_options(const dl_dataset *d);
/* SHA-256 of the contents as 64 hex digits; for generators of kind, options and the generator's version. */
const char *dl_dataset_fingerprint(const dl_dataset *d);
long dl_dataset_len(const dl_dataset *d, dl_split split);
int dl_dataset_ndim(const dl_dataset *d);                       /* of one sample: 3 for images */
const long *dl_dataset_shape(const dl_dataset *d);              /* of one sample: [channels, height, width] */
dl_dtype dl_dataset_dtype(const dl_dataset *d);                 /* of samples in memory: u8, f32 or i64 */
dl_dtype dl_dataset_batch_dtype(const dl_dataset *d);           /* of samples in batches: f32 of u8, else the same */
long dl_dataset_classes(const dl_dataset *d);                   /* 0: targets are no class numbers */
const char *dl_dataset_class_name(const dl_dataset *d, long i); /* "7", "ankle boot"; NULL past the end */
dl_dtype dl_dataset_target_dtype(const dl_dataset *d);          /* of y: i64 of classes and integers, else f32 */
int dl_dataset_target_ndim(const dl_dataset *d);                /* of one y: 0 for classes */
const long *dl_dataset_target_shape(const dl_dataset *d);
/* Samples of each class of a split to counts[classes]. Errors: DL_ERR_TYPE where there are no classes. */
dl_status dl_dataset_counts(dl_dataset *d, dl_split split, long *counts);
/* Smallest and largest element of a split as batches have them; both 0 when it is empty. Reads the whole split. NaN
 * elements are left out. */
dl_status dl_dataset_range(dl_dataset *d, dl_split split, double *lo, double *hi);
/* x [n, ...] and y [n, ...] of the samples index[n] (negative ones count from the end), without transforms.
 * Errors: DL_ERR_INDEX, DL_ERR_MEMORY. */
dl_status dl_dataset_gather(dl_dataset *d, dl_split split, const long *index, long n, dl_tensor **x, dl_tensor **y);

/* The rows of data/transforms.def: changes made to samples as they are loaded. */
typedef struct dl_transform_param {
    const char *name; /* NULL ends a list */
    const char *dflt, *doc;
    double least, most; /* the valid range */
} dl_transform_param;
typedef struct dl_transform_kind {
    const char *name, *doc;
    const dl_transform_param *params; /* the first one may be given bare: "crop 4" */
} dl_transform_kind;
/* Transform number i in table order; NULL past the end. */
const dl_transform_kind *dl_transform_at(int i);

/* A loader deals a split out in batches. The order of an epoch depends on seed and epoch alone, and what a transform
 * draws on seed, epoch and sample alone: neither on threads nor on batch size. Background threads keep batches ready.
 */
typedef struct dl_loader dl_loader;
typedef struct dl_loader_spec { /* zeroed: the defaults */
    long batch;                 /* 0: 64 */
    int shuffle;                /* a new order every epoch; else the order of the dataset */
    int drop_last;              /* leave out a last batch that is not full */
    const unsigned long *seed;  /* NULL: dl_seed_get() */
    const char *transforms;     /* "crop 4, flip p=0.5": in this order; NULL: none */
    int workers;                /* threads, at most 16; 0: one; -1: none, the caller's thread does the work */
    int prefetch;               /* batches kept ready; 0: 4 */
} dl_loader_spec;
/* Keeps a reference to d. Errors: DL_ERR_VALUE (also for an empty split, and drop_last without a full batch),
 * DL_ERR_NAME (transform unknown), DL_ERR_MEMORY. */
dl_loader *dl_loader_new(dl_dataset *d, dl_split split, const dl_loader_spec *spec);
dl_loader *dl_loader_ref(dl_loader *l);
/* Drops a reference; the last one stops the threads and releases all. NULL does nothing. */
void dl_loader_free(dl_loader *l);
/* The next batch: x [n, ...] and y [n, ...] of the data set's dtypes, both owned by the caller. After an epoch's last
 * batch one call gives DL_OK with both NULL; the call after it begins the next epoch. A failure in the background
 * surfaces here. One thread at a time. */
dl_status dl_loader_next(dl_loader *l, dl_tensor **x, dl_tensor **y);
/* Batches in an epoch. */
long dl_loader_len(const dl_loader *l);
/* What the next batch is: epoch from 0, and batch within it; batch == dl_loader_len: the end of that epoch. */
void dl_loader_position(const dl_loader *l, long *epoch, long *batch);
/* Goes on from there, exactly as if it had been reached. Errors: DL_ERR_INDEX. */
dl_status dl_loader_seek(dl_loader *l, long epoch, long batch);
dl_dataset *dl_loader_dataset(const dl_loader *l); /* borrowed */
dl_split dl_loader_split(const dl_loader *l);
long dl_loader_batch(const dl_loader *l); /* samples in a full batch */
unsigned long dl_loader_seed(const dl_loader *l);

/* ---------------------------------------------------------------- arguments of layers, optimizers and schedules
 * Their kinds are rows of tables (nn/layers.def, nn/inits.def, optim/optimizers.def, optim/schedules.def). */
typedef enum dl_arg_kind {
    DL_ARG_INT = 0,
    DL_ARG_FLOAT,
    DL_ARG_BOOL,
    DL_ARG_STR,
    DL_ARG_INTS,
    DL_ARG_FLOATS
} dl_arg_kind;

/* One argument as given. A whole number is taken where a float, a list or a pair is wanted. */
typedef struct dl_arg {
    const char *name; /* NULL: by position */
    dl_arg_kind kind;
    long i;        /* INT, BOOL */
    double f;      /* FLOAT */
    const char *s; /* STR */
    int n;         /* INTS, FLOATS: at most 16 */
    const long *v;
    const double *fv;
} dl_arg;

/* What a row takes. */
typedef struct dl_option_row {
    const char *name;  /* PyTorch's name; NULL ends a list */
    const char *alias; /* short names, separated by blanks; may be "" */
    dl_arg_kind kind;
    const char *dflt; /* as text; "" must be given; "none" absent */
    const char *doc;
} dl_option_row;
typedef struct dl_kind_row {
    const char *name;
    const char *alias; /* other names, separated by blanks; may be "" */
    const char *doc;
    const char *example;
    const dl_option_row *options;
    int positional; /* so many of the options may be given by position */
} dl_kind_row;

/* ---------------------------------------------------------------- nets
 * A net is a tree of layers, run in order. Sizes of inputs are inferred from the first input, so weights come into
 * being then, or with dl_module_build. Layers are named conv0, relu0, ... in each level of the tree unless they have a
 * label; tensors have paths, "block0.conv0.weight". References are counted; a module in two nets is shared by them. */
typedef struct dl_module dl_module;

/* Kinds of layers and of initialisations in table order; NULL past the end. */
const dl_kind_row *dl_layer_kind_at(int i);
const dl_kind_row *dl_init_kind_at(int i);
/* The row of a name or alias; NULL, nothing recorded, when there is none. */
const dl_kind_row *dl_layer_kind(const char *name);

/* One layer to be made. Zero what is not needed. */
typedef struct dl_layer_spec {
    const char *kind;  /* name or alias of a row; or any name for a group of layers: a nested net */
    const char *label; /* NULL: named after its kind */
    const dl_arg *args;
    int nargs;
    int group; /* the kind is no row but the name of a nested net made of `body` */
    const struct dl_layer_spec *body;
    int nbody;
    const struct dl_layer_spec *shortcut; /* of a residual; nshortcut 0: the identity */
    int nshortcut;
    dl_module *module; /* this module itself (a reference is taken) instead of a new one; kind is its default name */
} dl_layer_spec;

/* Makes a net. On failure *at and *arg (both may be NULL) tell which layer and which of its arguments (-1: the layer
 * itself) was at fault. Errors: DL_ERR_NAME (unknown layer or option, label used twice; the nearest is named),
 * DL_ERR_VALUE, DL_ERR_TYPE, DL_ERR_MEMORY. */
dl_module *dl_net_build(const char *name, const dl_layer_spec *layers, int n, const dl_layer_spec **at, int *arg);
/* The same from text, in the syntax of the language's net blocks: "conv 16 k=3 pad=1 -> relu -> flatten -> linear 10",
 * with labels "head: linear 10" and blocks "repeat 2 { residual { ... } shortcut { ... } }". DL_ERR_SYNTAX too. */
dl_module *dl_net_parse(const char *text);
/* A layer computed by a function of the caller, which returns an owned tensor, or NULL with an error recorded.
 * release(ctx) runs with the last copy, and when this fails; it may be NULL. name NULL: "function". */
typedef dl_tensor *dl_layer_fn(void *ctx, dl_tensor *x);
dl_module *dl_module_function(const char *name, dl_layer_fn *fn, void *ctx, void (*release)(void *));
dl_module *dl_module_ref(dl_module *m);
void dl_module_unref(dl_module *m);
/* A net of its own with copies of the weights, the same names and mode. */
dl_module *dl_module_copy(dl_module *m);

/* The result of the net for a batch x. Weights not there yet are made for the dtype chosen with dl_module_to (f32) and
 * the device of x. A failure names the layer by its path. */
dl_tensor *dl_module_forward(dl_module *m, dl_tensor *x);
/* Makes all weights for inputs of this shape (batch dimension included), without leaving other traces; does nothing
 * when they are there. DL_ERR_SHAPE: the layers do not take it. */
dl_status dl_module_build(dl_module *m, int ndim, const long *shape, dl_dtype dtype, int device);
int dl_module_is_built(const dl_module *m); /* all weights are there */
/* Shape (room for 8; as for a batch of one) and dtype of the input the net is known to take, from the first it got.
 * Returns the number of dimensions, 0 when none has come yet. */
int dl_module_input(const dl_module *m, long *shape, dl_dtype *dtype);
/* Training mode (as made) or evaluation: dropout and batchnorm differ. */
void dl_module_train(dl_module *m, int on);
int dl_module_training(const dl_module *m);
/* Weights and buffers to another dtype (-1: as they are; integers stay) and device (-1), in place. Errors: DL_ERR_DTYPE
 * unless floating, DL_ERR_DEVICE. */
dl_status dl_module_to(dl_module *m, int dtype, int device);
/* Forgets the gradients of all parameters. */
void dl_module_zero_grad(dl_module *m);

/* Of a net, as given; of a layer, its kind. */
const char *dl_module_name(const dl_module *m);
dl_status dl_module_set_name(dl_module *m, const char *name);
/* "conv", "sequential", ... */
const char *dl_module_kind(const dl_module *m);
/* The layer in words, "conv 16 kernel_size=3"; of a net all layers, as dl_net_parse reads them. NULL on failure; free
 * it with dl_text_free. */
char *dl_module_text(const dl_module *m);
void dl_text_free(char *text);
int dl_module_count(const dl_module *m);                /* layers directly inside */
dl_module *dl_module_at(const dl_module *m, int i);     /* borrowed; NULL past the end */
const char *dl_module_label(const dl_module *m, int i); /* its name there, "conv0"; NULL past the end */
/* The layer at a path, "block0.conv0"; borrowed; NULL, nothing recorded, when there is none. */
dl_module *dl_module_find(dl_module *m, const char *path);
/* The tensor at a path, "conv0.weight" or "conv0.w", also buffers; borrowed; NULL, nothing recorded. */
dl_tensor *dl_module_tensor(dl_module *m, const char *path);
/* Puts value into the tensor at a path, cast to its dtype. Errors: DL_ERR_NAME, DL_ERR_SHAPE. */
dl_status dl_module_set_tensor(dl_module *m, const char *path, dl_tensor *value);
/* Elements of all parameters that exist. */
long dl_module_params(const dl_module *m);

/* Parameters (what & 1) and buffers (what & 2) that exist, each once, in the order of the layers. The list is the
 * caller's, until dl_module_list_free. */
typedef struct dl_module_entry {
    const char *path;
    dl_tensor *tensor; /* borrowed from the net */
    int buffer;
} dl_module_entry;
typedef struct dl_module_list {
    long n;
    const dl_module_entry *entries;
} dl_module_list;
dl_module_list *dl_module_tensors(dl_module *m, int what);
void dl_module_list_free(dl_module_list *l);

/* What each layer makes of an input of this shape (batch dimension included), found by running zeros through; a
 * floating dtype stands for that of the weights. Weights are made if need be. The summary is the caller's, until
 * dl_summary_free. */
typedef struct dl_layer_stat {
    const char *path, *text;
    int depth; /* 0: the net itself */
    int leaf;  /* not made of other layers */
    int ndim;
    const long *shape; /* of its output */
    long params;       /* elements of its parameters, inner layers included */
    double flops;      /* of the forward pass */
    double bytes;      /* results made in the forward pass, and parameters */
} dl_layer_stat;
typedef struct dl_summary {
    long n;
    const dl_layer_stat *layers; /* in running order; entry 0 is the net */
} dl_summary;
dl_summary *dl_module_summary(dl_module *m, int ndim, const long *shape, dl_dtype dtype, int device);
void dl_summary_free(dl_summary *s);

/* Saves parameters and buffers as safetensors, with the net as text; meta (key, value, ..., NULL) may be NULL. A name
 * whose ending stands for another format is DL_ERR_UNSUPPORTED. */
dl_status dl_module_save(dl_module *m, const char *path, const char *const *meta);
/* Reads a file into a net; names and shapes must agree, and weights not there yet are made by the file. Nothing is
 * changed on failure. Errors: DL_ERR_NAME (tensors missing or left over), DL_ERR_SHAPE, and those of
 * dl_safetensors_read. */
dl_status dl_module_load(dl_module *m, const char *path);
/* A net made from the text in the file, with its weights. DL_ERR_FORMAT when the file has none. */
dl_module *dl_module_open(const char *path, int device);

/* ---------------------------------------------------------------- optimizers and schedules */
typedef struct dl_optimizer dl_optimizer;
/* Kinds of optimizers and of schedules in table order; NULL past the end. */
const dl_kind_row *dl_optimizer_kind_at(int i);
const dl_kind_row *dl_schedule_kind_at(int i);

/* An optimizer without parameters yet: "sgd", "adam", "adamw". *bad (may be NULL): the argument at fault, or -1.
 * Errors: DL_ERR_NAME, DL_ERR_TYPE, DL_ERR_VALUE. */
dl_optimizer *dl_optimizer_new(const char *kind, const dl_arg *args, int nargs, int *bad);
/* The same from text: "adam lr=1e-3 weight_decay=0.01". */
dl_optimizer *dl_optimizer_parse(const char *text);
dl_optimizer *dl_optimizer_ref(dl_optimizer *o);
void dl_optimizer_unref(dl_optimizer *o);
/* Other options for the parameters whose path matches a pattern ("*.bias"; the first matching group counts). Before
 * parameters are added. A group's lr keeps its ratio to the optimizer's when that changes. DL_ERR_STATE:
 * it has parameters. */
dl_status dl_optimizer_group(dl_optimizer *o, const char *pattern, const dl_arg *args, int nargs, int *bad);
/* Takes on a parameter (a reference), or all of a net; frozen ones (dl_set_requires_grad off) are left alone until they
 * have gradients again. Errors: DL_ERR_NAME: taken on already; DL_ERR_AUTOGRAD: no leaf that needs a gradient;
 * DL_ERR_STATE: the net has no weights yet. */
dl_status dl_optimizer_add(dl_optimizer *o, const char *name, dl_tensor *param);
dl_status dl_optimizer_add_module(dl_optimizer *o, dl_module *m);
/* One update from the gradients; parameters without one are left alone. Errors: DL_ERR_STATE: it has no parameters. */
dl_status dl_optimizer_step(dl_optimizer *o);
/* Forgets the gradients of its parameters. */
void dl_optimizer_zero_grad(dl_optimizer *o);
double dl_optimizer_lr(const dl_optimizer *o);
dl_status dl_optimizer_set_lr(dl_optimizer *o, double lr); /* DL_ERR_VALUE unless at least 0 and finite */
long dl_optimizer_steps(const dl_optimizer *o);            /* updates done */
const char *dl_optimizer_kind(const dl_optimizer *o);      /* "adam" */
/* "adam(lr=0.001, weight_decay=0.01)"; valid as long as the optimizer. */
const char *dl_optimizer_text(const dl_optimizer *o);
/* Euclidean norm of all gradients together; with max > 0 they are then scaled down to it. norm may be NULL. */
dl_status dl_clip_grad_norm(dl_tensor *const *params, long n, double max, double *norm);
/* Limits each element of the gradients to [-max, max]. DL_ERR_VALUE unless max > 0. */
dl_status dl_clip_grad_value(dl_tensor *const *params, long n, double max);

/* A learning rate as a function of the step (from 0) and the epoch, made of a base rate. */
typedef struct dl_schedule dl_schedule;
/* As dl_optimizer_new; from text, "cosine steps=1000 warmup=10". */
dl_schedule *dl_schedule_new(const char *kind, const dl_arg *args, int nargs, int *bad);
dl_schedule *dl_schedule_parse(const char *text);
/* The caller's function gives the rate itself; it returns DL_OK or records a failure. release(ctx) runs with the last
 * reference, and when this fails; it may be NULL. */
typedef dl_status dl_schedule_fn(void *ctx, long step, double *lr);
dl_schedule *dl_schedule_function(dl_schedule_fn *fn, void *ctx, void (*release)(void *));
dl_schedule *dl_schedule_ref(dl_schedule *s);
void dl_schedule_unref(dl_schedule *s);
/* The rate at a step and epoch, both from 0. DL_ERR_VALUE: the function's is negative or not finite. */
dl_status dl_schedule_lr(dl_schedule *s, double base, long step, long epoch, double *lr);
/* Tells a plateau schedule a value of the metric it watches; others ignore it. */
void dl_schedule_report(dl_schedule *s, double metric);
/* "cosine(steps=1000)"; valid as long as the schedule. */
const char *dl_schedule_text(const dl_schedule *s);

/* ---------------------------------------------------------------- files of tensors
 * Files are written beside their place, synced and renamed: after a crash there is the old file or the new one, and
 * what a killed process left of one is removed by the next that is written in its folder. Errors not named: DL_ERR_IO,
 * DL_ERR_MEMORY. */

/* Safetensors: named tensors and text metadata. Writes n tensors of any dtype and device under distinct names; meta is
 * key, value, key, value, ..., NULL, or NULL. DL_ERR_NAME: a name occurs twice. */
dl_status dl_safetensors_write(const char *path, long n, const char *const *names, dl_tensor *const *tensors,
                               const char *const *meta);
/* Reads a whole file; every rule of the format is checked. Errors: DL_ERR_FORMAT, DL_ERR_DEVICE. Tensors carry their
 * names, and belong to the file's handle. Elements that tensors do not have are read as the smallest dtype that holds
 * all of them: I8, I16 and U16 as i32, U32 and U64 as i64, F8_E4M3 as f32, F8_E5M2 as f16. A tensor of any other dtype,
 * or of U64 with a number above 2**63 - 1, is left out: see dl_tensor_file_skipped. */
typedef struct dl_tensor_file dl_tensor_file;
dl_tensor_file *dl_safetensors_read(const char *path, int device);
long dl_tensor_file_count(const dl_tensor_file *f);
const char *dl_tensor_file_name(const dl_tensor_file *f, long i);          /* in the order of their bytes in the file */
dl_tensor *dl_tensor_file_at(const dl_tensor_file *f, long i);             /* borrowed; NULL past the end */
dl_tensor *dl_tensor_file_find(const dl_tensor_file *f, const char *name); /* borrowed; NULL: there is none */
const char *dl_tensor_file_meta(const dl_tensor_file *f, const char *key); /* NULL: there is none */
/* The name of the i-th tensor that was left out, *why (or NULL) the reason; NULL past the last. */
const char *dl_tensor_file_skipped(const dl_tensor_file *f, long i, const char **why);
void dl_tensor_file_free(dl_tensor_file *f);

/* What a file is to hold. */
typedef enum dl_content {
    DL_HOLDS_NET = 1,
    DL_HOLDS_TRAINER = 2,
    DL_HOLDS_TENSOR = 4,
    DL_HOLDS_RECORD = 8, /* named tensors */
    DL_HOLDS_ROWS = 16,  /* a table */
    DL_HOLDS_PLOT = 32,
    DL_HOLDS_GRAPH = 64
} dl_content;
/* The format that a name's ending asks for: "safetensors", "npy", "npz", "csv", "jsonl", "png", "svg", "txt". A name
 * without an ending stands for the usual one, of pictures for none. NULL with DL_ERR_UNSUPPORTED: that format cannot
 * hold this, or the ending is not known. */
const char *dl_format_for(const char *path, dl_content content);
/* Writes tensors in the format of the name: .safetensors, .npz, or .npy, one of them. bf16 fits the first only
 * (DL_ERR_DTYPE); only there meta is kept. Errors: those of dl_format_for. */
dl_status dl_tensors_write(const char *path, dl_content content, long n, const char *const *names,
                           dl_tensor *const *tensors, const char *const *meta);
/* Reads a file of any of these formats. It is known by its first bytes, and a name that says otherwise is
 * DL_ERR_FORMAT. The one array of a .npy file has the name "". Errors: DL_ERR_UNSUPPORTED (a format that is not read),
 * and those of dl_safetensors_read. */
dl_tensor_file *dl_tensors_read(const char *path, int device);
const char *dl_tensor_file_format(const dl_tensor_file *f); /* "safetensors", "npy", "npz" */
/* Any bytes as a file, written as all files here are. A device or a FIFO is written to as it stands. */
dl_status dl_file_write(const char *path, const void *data, unsigned long n);

/* NumPy's .npy: one array. bf16 has no counterpart there (DL_ERR_DTYPE). Column-major and
 * big-endian files are read too, elements that tensors do not have as in dl_safetensors_read. Reading: DL_ERR_FORMAT,
 * DL_ERR_DTYPE, DL_ERR_DEVICE. */
dl_status dl_npy_write(const char *path, dl_tensor *t);
dl_tensor *dl_npy_read(const char *path, int device);

/* ---------------------------------------------------------------- ops of one's own
 * An op made of functions, with a place in the table: callable by name, recorded by autograd, checked by dl_gradcheck.
 * Its tensors arrive contiguous and on one device; floating inputs are cast to the dtype of the first. */
typedef struct dl_op_spec { /* zeroed: what is not needed */
    const char *name, *doc;
    int nin, nout;              /* 1 to 8 each */
    int visible;                /* so many results callers see, the rest serve backward; 0: all */
    const char *const *in_name; /* [nin], [nout] */
    const char *const *out_name;
    unsigned nondiff_in, nondiff_out; /* bits: labels, indices, masks, and results that nothing is learnt through */
    unsigned save_out;                /* bits: results that backward reads */
    int nattr;                        /* numbers beside the tensors, at most 8 */
    const char *const *attr_name;
    const char *const *attr_default; /* "3" an integer, "3.0" floating, "true"; NULL entry: must be given */
    unsigned dtypes[2];              /* bits, 1 << DL_F32: of the first input, on the CPU and on CUDA; 0: none there */
    /* Dtype and shape (room for 8) of result k. NULL: those of the first input. */
    dl_status (*shape)(void *ctx, int k, dl_tensor *const *in, const double *attr, dl_dtype *dtype, int *ndim,
                       long *shape);
    /* Fills out[nout], which it must not replace. Like all of these: DL_OK, or a recorded failure. */
    dl_status (*forward)(void *ctx, dl_tensor *const *in, dl_tensor **out, const double *attr);
    /* Fills gin[i], a gradient for in[i], where it is not NULL, from gout[k], those of the results. out[k] is NULL
     * unless saved. NULL: the op has no gradient. */
    dl_status (*backward)(void *ctx, dl_tensor *const *in, dl_tensor *const *out, dl_tensor *const *gout,
                          dl_tensor **gin, const double *attr);
    void *ctx;
    void (*release)(void *ctx); /* when the op was replaced and no result of it is left; may be NULL */
} dl_op_spec;

/* Makes the op, in the place of an earlier one made so under its name; the spec is copied. On failure the context stays
 * the caller's. Errors: DL_ERR_NAME (the library's own op has the name), DL_ERR_VALUE. */
dl_status dl_op_define(const dl_op_spec *spec);

/* ---------------------------------------------------------------- sharing memory: DLPack
 * Tensors lent to other array libraries, and theirs taken on, without a copy; the structures are those of DLPack's own
 * header (versions before 1.0 without the suffix). Who writes to shared memory announces it with dl_touch(). */
typedef struct DLManagedTensor DLManagedTensor;
typedef struct DLManagedTensorVersioned DLManagedTensorVersioned;

/* Lends t, with its strides; the structure is released by its own `deleter`, and keeps t's memory alive until then.
 * Work on an accelerator is waited for. readonly: the borrower must not write. Errors: DL_ERR_AUTOGRAD when t needs a
 * gradient (lend dl_detach() of it), DL_ERR_STATE: read-only memory in the old form, which cannot say so. */
DLManagedTensor *dl_to_dlpack(dl_tensor *t);
DLManagedTensorVersioned *dl_to_dlpack_versioned(dl_tensor *t, int readonly);
/* A tensor in the memory of m, which it takes on: m's deleter is called when the tensor and its views are gone. After a
 * failure m is still the caller's. Ops that would write to read-only memory fail with DL_ERR_STATE. Errors:
 * DL_ERR_DTYPE, DL_ERR_DEVICE (no counterpart here), DL_ERR_SHAPE (more than 8 dimensions, negative strides),
 * DL_ERR_VALUE (memory not aligned), DL_ERR_UNSUPPORTED (another major version). */
dl_tensor *dl_from_dlpack(DLManagedTensor *m);
dl_tensor *dl_from_dlpack_versioned(DLManagedTensorVersioned *m);

/* ---------------------------------------------------------------- experiments: the run store
 * One SQLite file keeps every run with its parameters, metrics, events and artifacts; docs/experiments.md describes it.
 * Points are pushed into a ring in shared memory beside the file and committed by one writer thread, so that a push
 * costs nanoseconds, and a killed process loses none: the next one that opens the store commits what is left. Times are
 * microseconds since 1970, UTC. Any thread may call any of these functions; in a child of fork() the stores that were
 * open keep nothing. Strings in results belong to the result. Errors not named: DL_ERR_STORE (locked, full disk,
 * damaged file), DL_ERR_MEMORY. */
typedef struct dl_store dl_store;
typedef struct dl_run dl_run;

typedef enum dl_run_status {
    DL_RUN_RUNNING = 0,
    DL_RUN_PAUSED,
    DL_RUN_FINISHED,
    DL_RUN_FAILED,
    DL_RUN_KILLED,
    DL_RUN_DIVERGED
} dl_run_status;
/* "running", "finished", ... */
const char *dl_run_status_name(dl_run_status s);

/* Opens, and makes at the first run, the store at `path`; "none" or NULL: a store that takes everything and keeps
 * nothing. Finishes what killed processes left behind. A file already open in this process is shared: each open needs
 * its close. Errors: DL_ERR_STORE (not a store, damaged, of a newer version), DL_ERR_IO. */
dl_store *dl_store_open(const char *path);
/* Ends runs still open as finished, commits, closes. What cannot be committed stays in the ring file for the next open,
 * and the failure is returned. `s` is gone in any case. */
dl_status dl_store_close(dl_store *s);
/* "" for a store that keeps nothing. */
const char *dl_store_path(const dl_store *s);
/* Returns 1 and the oldest warning not yet read (full ring, failing commit, network file system), else 0. */
int dl_store_warning(dl_store *s, char *text, long size);
/* Waits until all that was pushed before the call is committed. Errors: what keeps the writer from committing; nothing
 * is lost by that, and it goes on trying. */
dl_status dl_store_flush(dl_store *s);

typedef struct dl_store_stats {
    long pushed, committed; /* points of this process */
    long dropped;           /* points refused because the ring stayed full */
    long waits, wait_us;    /* pushes that had to wait for room, and their time in all */
    long ring_capacity;     /* points */
    long recovered;         /* points of killed processes committed by this open store */
    int killed;             /* runs found dead by this open store */
    int schema;             /* version of the schema */
    int readonly, network, wal;
    int wal_reset_fixed; /* SQLite is 3.51.3 or newer */
    char sqlite[16];     /* version of SQLite in use */
} dl_store_stats;
void dl_store_stats_get(dl_store *s, dl_store_stats *out);

/* What is recorded of a run at its start. All may be 0 or NULL. Host, boot, process, working directory, git commit and
 * hash of the uncommitted diff, command line and library versions are found by the library itself. */
typedef struct dl_run_spec {
    const char *name;       /* NULL: "run-ID" */
    const char *experiment; /* NULL: "default" */
    const char *group;
    const char *script_path;
    const char *script_text;
    const char *script_args; /* "epochs=5 seed=0" */
    const char *cmdline;     /* NULL: the command line of this process */
    const char *device;      /* "cpu", "cuda:0 NVIDIA H200" */
    unsigned long seed;
    const char *model_name;
    const char *model_text;
    long n_params;
    const char *dataset;
    const char *data_fingerprint;
    const char *const *params; /* key, value, key, value, ..., NULL */
    const char *const *env;    /* further versions and facts: key, value, ..., NULL */
    const char *note;
    long parent, sweep; /* ids */
} dl_run_spec;

/* Begins a run; it is on disk when this returns. The handle lives until dl_run_end or until the store is closed. */
dl_run *dl_run_begin(dl_store *s, const dl_run_spec *spec);
/* Takes up a run that is not running at step `step`: points from that step on are deleted, an event tells of it. */
dl_run *dl_run_resume(dl_store *s, long id, long step);
/* The same for a run that is open. */
dl_status dl_run_rewind(dl_run *r, long step);
/* Commits all points, records how the run ended (`error` may be NULL) and releases `r`, even on failure. */
dl_status dl_run_end(dl_run *r, dl_run_status status, const char *error);
/* 0 in a store that keeps nothing. */
long dl_run_id(const dl_run *r);
/* Between DL_RUN_RUNNING and DL_RUN_PAUSED. */
dl_status dl_run_pause(dl_run *r, int on);

/* Records one point; the latest value of a step counts. Names are "train/loss", "test/acc"; "loss" is "train/loss".
 * Takes some tens of nanoseconds. Waits only while the ring is full, at most two seconds, with a warning; then the
 * point is dropped and counted, and DL_ERR_STORE returned. */
dl_status dl_metric(dl_run *r, const char *key, long step, double value);
/* Handle of a metric, valid while the run is open, and a push without the look-up of the name. NULL on failure. */
typedef struct dl_series dl_series;
dl_series *dl_series_of(dl_run *r, const char *key);
dl_status dl_series_push(dl_series *s, long step, double value);

/* Records a parameter beside those of the spec; a later value takes the place of an earlier one. */
dl_status dl_run_param(dl_run *r, const char *key, const char *value);
/* Something that happened at a step: kind is "checkpoint", "lr", "nan", ...; json may be NULL. */
dl_status dl_run_event(dl_run *r, long step, const char *kind, const char *text, const char *json);
/* Keeps n bytes under their SHA-256, once however often they occur. */
dl_status dl_run_artifact(dl_run *r, const char *name, long step, const char *kind, const void *data, long n);
/* Notes path, size and SHA-256 of a file, which stays where it is. */
dl_status dl_run_artifact_file(dl_run *r, const char *name, long step, const char *kind, const char *path);

/* Finds a run by id ("12"), "last", start of its uuid (8 or more letters), or name (the newest). DL_ERR_NAME if none.
 */
dl_status dl_run_find(dl_store *s, const char *ref, long *id);
/* The same among deleted runs: "last" is the one deleted last. */
dl_status dl_run_find_deleted(dl_store *s, const char *ref, long *id);
/* Changes of any run, open or not. DL_ERR_NAME: there is none with this id. A tag is set, or (on 0) taken away. */
dl_status dl_run_tag(dl_store *s, long id, const char *tag, int on);
dl_status dl_run_note(dl_store *s, long id, const char *text);
dl_status dl_run_rename(dl_store *s, long id, const char *name);
/* Hides a run from all lists, or shows it again. Nothing is erased. */
dl_status dl_run_delete(dl_store *s, long id, int on);
/* A search over hyperparameters that runs may belong to. Returns its id, 0 on failure. */
long dl_sweep_begin(dl_store *s, const char *spec_json, const char *method, const char *goal);

typedef struct dl_param_info {
    const char *key, *value;
    double num; /* NaN when the value is no number */
} dl_param_info;

/* One metric of one run. A value that was NaN is NaN; the statistics leave NaN out, unless all are. */
typedef struct dl_series_info {
    const char *key;
    long n, n_nan; /* points, and how many of them are NaN */
    double first, last, min, max, mean;
    long first_step, last_step, min_step, max_step;
} dl_series_info;

typedef struct dl_event_info {
    long step, time_us;
    const char *kind, *text, *json;
} dl_event_info;

typedef struct dl_artifact_info {
    const char *name, *kind, *sha, *path; /* path "" when the store has the contents */
    long step, bytes;
} dl_artifact_info;

/* One run. Absent text is "". The members after `series` are filled in by dl_run_show alone. */
typedef struct dl_run_info {
    long id;
    const char *uuid, *name, *experiment, *group, *note, *error;
    dl_run_status status;
    long started_us, ended_us; /* ended_us 0: still open */
    double seconds;            /* of work while it was open, without what dl_idle tells of */
    const char *host, *device, *model_name, *dataset, *git_commit;
    unsigned long seed;
    long n_params, parent, sweep;
    int deleted;
    long nparam, ntag, nseries;
    const dl_param_info *params; /* by key */
    const char *const *tags;
    const dl_series_info *series; /* by key */
    const char *cmdline, *cwd, *script_path, *script_text, *script_args, *git_diff_sha, *env_json, *model_text,
        *model_sha;
    const char *data_fingerprint;
    long pid, heartbeat_us, nevent, nartifact;
    const dl_event_info *events;
    const dl_artifact_info *artifacts;
} dl_run_info;

/* Which runs, and in what order. Zeroed: all that are not deleted, newest first.
 * where: "status = finished and lr >= 1e-3 and (test/acc > 0.9 or tag = good)": columns of the run, tags, parameters
 *   and metrics (their last value; min(K), max(K), best(K), first(K), mean(K), n(K) too); = != < <= > >= in, ~
 * (contains),
 *   ~~ (regular expression), like; and or not, parentheses; dates and durations as docs/history.md has them. sort: one
 * such name; "-NAME" is descending. Points are never read. Errors: DL_ERR_SYNTAX, DL_ERR_NAME, DL_ERR_VALUE,
 * DL_ERR_TYPE, with their place in the text. */
typedef struct dl_run_query {
    const char *where, *sort;
    long limit;  /* 0: all */
    int deleted; /* 1: the deleted ones only */
} dl_run_query;
typedef struct dl_run_list {
    long n;
    const dl_run_info *runs;
} dl_run_list;
/* q may be NULL. Lists are the caller's, until dl_run_list_free. */
dl_run_list *dl_run_query_list(dl_store *s, const dl_run_query *q);
/* Is this a filter that fits the store? Errors as above. */
dl_status dl_run_filter_check(dl_store *s, const char *where);
/* One run in full, as a list of one. DL_ERR_NAME: there is none with this id. */
dl_run_list *dl_run_show(dl_store *s, long id);
void dl_run_list_free(dl_run_list *l);

/* n runs beside each other (DL_ERR_NAME: one does not exist): parameters and facts (seed, device, dataset, model,
 * commit) that differ or, with all, every one; and every metric. values and cells have one entry a run, NULL where it
 * has none. */
typedef struct dl_compare_param {
    const char *key;
    const char *const *values;
    int differs;
} dl_compare_param;
typedef struct dl_compare_series {
    const char *key;
    const dl_series_info *const *cells;
} dl_compare_series;
typedef struct dl_comparison {
    long n, nparam, nseries;
    const dl_run_info *runs;
    const dl_compare_param *params;
    const dl_compare_series *series;
} dl_comparison;
dl_comparison *dl_run_compare(dl_store *s, const long *ids, long n, int all);
void dl_comparison_free(dl_comparison *c);

/* The name under which a metric is stored: "loss" is "train/loss"; another bare name is itself, or else train/NAME or
 * test/NAME, whichever occurs. Writes it to out[size]. DL_ERR_NAME when no run has it. */
dl_status dl_metric_resolve(dl_store *s, const char *name, char *out, long size);
/* 1 when more is better (acc, f1, auc, ...), -1 when less is. */
int dl_metric_direction(const char *name);
/* Runs by their best value of a metric. direction: 1 max, -1 min, 0 by name. limit 0: all. DL_ERR_NAME when none has
 * it. */
typedef struct dl_best_entry {
    const dl_run_info *run;
    double value;
    long step;
} dl_best_entry;
typedef struct dl_ranking {
    const char *metric;
    int direction;
    long n;
    const dl_best_entry *entries;
} dl_ranking;
dl_ranking *dl_run_best(dl_store *s, const char *metric, int direction, const char *where, long limit);
void dl_ranking_free(dl_ranking *r);

/* Points of one metric by step. max_points 0 or at least their number: as they are. Else equal intervals of steps, of
 * which each gives the mean of values and steps, and lowest and highest value. NaN counts as absent in a mean. */
typedef struct dl_points {
    long n;
    const double *step, *value, *low, *high;
    const long *count;   /* points in the interval */
    const long *time_us; /* of the interval's last point */
    long total;
} dl_points;
dl_points *dl_series_points(dl_store *s, long id, const char *key, long max_points);
void dl_points_free(dl_points *p);

/* Rows of one read-only SQL statement, until dl_rows_free. Errors: DL_ERR_SYNTAX; DL_ERR_STORE: it would write. */
typedef struct dl_rows dl_rows;
dl_rows *dl_store_sql(dl_store *s, const char *sql);
/* 1: at a row, 0: no more, -1: failed; dl_interrupt_set makes it fail with DL_ERR_INTERRUPT. */
int dl_rows_next(dl_rows *r);
long dl_rows_width(const dl_rows *r);                 /* columns */
const char *dl_rows_name(const dl_rows *r, long col); /* of a column, counted from 0 */
/* 'n' null, 'i' integer, 'f' float, 't' text, 'b' blob. */
char dl_rows_type(const dl_rows *r, long col);
long dl_rows_int(const dl_rows *r, long col);
double dl_rows_float(const dl_rows *r, long col);
/* Valid until the next dl_rows_next. NULL for null. */
const char *dl_rows_text(const dl_rows *r, long col);
const void *dl_rows_blob(const dl_rows *r, long col, long *n);
void dl_rows_free(dl_rows *r);

/* Writes run, key, step, ts, value of n runs (ids NULL: all not deleted): NAME.csv a table, NAME.jsonl an object a
 * line. The file appears whole or not at all. Errors: those of dl_format_for. */
dl_status dl_store_export(dl_store *s, const long *ids, long n, const char *path);

/* ---------------------------------------------------------------- training
 * A trainer joins a net, a dataset, an optimizer and a loss. A step is forward (next batch, gradients zeroed), backward
 * and update; each part may be called alone and its results looked at. The first step opens a run in the store, in
 * which every step's train/loss, train/acc, lr and grad_norm are recorded. */
typedef struct dl_trainer dl_trainer;
/* A loss computed by the caller: a one-element tensor, owned by the library; NULL with an error recorded. */
typedef dl_tensor *dl_loss_fn(void *ctx, dl_tensor *output, dl_tensor *target);

typedef struct dl_trainer_spec { /* zeroed: the defaults. Objects are referenced, text is copied */
    dl_module *model;
    dl_dataset *data;
    dl_optimizer *opt; /* without parameters: it takes on those of the net */
    const char
        *loss; /* a row of the op table that takes (output, target); NULL: cross_entropy for classes, else mse_loss */
    dl_loss_fn *loss_fn; /* instead of `loss`, which then is its name */
    void *loss_ctx;
    void (*loss_release)(void *);
    dl_schedule *schedule; /* NULL: the rate stays as it is */
    dl_loader_spec loader; /* of the training split; shuffle is meant unless `in_order` */
    int in_order;
    long accumulate;              /* batches to a step; 0: 1 */
    double clip_norm, clip_value; /* limits on gradients; 0: none. On an accelerator .grad stays without the first */
    double ema;                   /* decay of averaged weights, which eval then uses; 0: none */
    int allow_nan;                /* go on when loss or gradient are not finite */
    long eval_every;              /* epochs of training between evaluations; 0: 1; -1: none */
    int device;
    dl_store *store; /* NULL: nothing is recorded */
    const dl_run_spec
        *run; /* name, experiment, group, script, note, parent, sweep; NULL: none. Not read after the call */
} dl_trainer_spec;

/* Makes the weights of the net, if it has none, for the dataset's samples. loss_release runs in the end, and when this
 * fails. Errors: DL_ERR_VALUE, DL_ERR_SHAPE (the net does not fit the samples), DL_ERR_NAME (no such loss). */
dl_trainer *dl_trainer_new(const dl_trainer_spec *spec);
/* Ends the run: finished, diverged, or failed when the last step failed. NULL does nothing. */
void dl_trainer_free(dl_trainer *t);
/* Lets the run end as failed although its steps went well: an error elsewhere ends the program. Copies the text. */
void dl_trainer_fail(dl_trainer *t, const char *error);

/* The parts of a step. DL_ERR_STATE: backward without forward, update without backward. DL_ERR_VALUE: loss or gradient
 * are not finite; weights are then as before, and the run counts as diverged. */
dl_status dl_trainer_forward(dl_trainer *t);
dl_status dl_trainer_backward(dl_trainer *t);
dl_status dl_trainer_update(dl_trainer *t);
/* All three, over the batches of one step. */
dl_status dl_trainer_step(dl_trainer *t);

typedef struct dl_train_progress {
    long step;                       /* steps done by this trainer */
    long done, total;                /* of this call; total 0: unknown */
    long epoch, epochs;              /* from 1, and of how many in this call (0: counted in steps) */
    long batch, batches;             /* within the epoch */
    double loss, acc, lr, grad_norm; /* of the last step; acc NaN without classes */
    double test_loss, test_acc;      /* of the last evaluation; NaN before it */
    double samples_per_s, seconds;
    int epoch_end, last; /* an epoch was completed; the call is about to return */
} dl_train_progress;
/* Called after each step; a return other than 0 ends the training with DL_ERR_INTERRUPT. */
typedef int dl_train_fn(void *ctx, const dl_train_progress *p);
/* Trains until `epochs` epochs have ended or `steps` steps are done; one of them is 0. The test split is evaluated at
 * the end of epochs. dl_interrupt_set ends it after the step with DL_ERR_INTERRUPT; training can go on from there. */
dl_status dl_trainer_train(dl_trainer *t, long epochs, long steps, dl_train_fn *fn, void *ctx);

typedef struct dl_eval_result {
    double loss, acc; /* over all samples; acc NaN without classes */
    long n;           /* samples */
    double seconds;
} dl_eval_result;
/* Loss and accuracy over a split, in evaluation mode; recorded as test/loss, test/acc (or train/eval_loss, ...) if a
 * run is open. Errors: DL_ERR_VALUE: the split is empty. */
dl_status dl_trainer_eval(dl_trainer *t, dl_split split, dl_eval_result *out);

/* What is known after the last part of a step. NaN where there is nothing yet. */
typedef struct dl_trainer_state {
    long step, epoch, batch, batches; /* steps done; epoch from 0; batches dealt out in it, and how many it has */
    double loss, acc, lr, grad_norm;
    int phase; /* 0 between steps, 1 after forward, 2 after backward */
    int diverged;
    long run;          /* id; 0: none */
    const char *error; /* of the last step; "" when it succeeded */
} dl_trainer_state;
void dl_trainer_get(const dl_trainer *t, dl_trainer_state *out);
/* Borrowed; NULL where there is nothing (yet). */
dl_module *dl_trainer_model(const dl_trainer *t);
dl_optimizer *dl_trainer_optimizer(const dl_trainer *t);
dl_schedule *dl_trainer_schedule(const dl_trainer *t);
dl_dataset *dl_trainer_dataset(const dl_trainer *t);
dl_loader *dl_trainer_loader(const dl_trainer *t);
dl_run *dl_trainer_run(const dl_trainer *t);
dl_tensor *dl_trainer_x(const dl_trainer *t); /* of the last forward */
dl_tensor *dl_trainer_y(const dl_trainer *t);
dl_tensor *dl_trainer_output(const dl_trainer *t);
dl_tensor *dl_trainer_loss(const dl_trainer *t);
const char *dl_trainer_loss_name(const dl_trainer *t);
/* How steps run on an accelerator: "captured", or why some run op by op; "" before it is decided, and on the CPU.
 * Borrowed. */
const char *dl_trainer_capture(const dl_trainer *t);
/* The same where steps run op by op although capture is on: to be told to the user, once; then NULL. */
const char *dl_trainer_notice(dl_trainer *t);
/* The base rate from now on; without a schedule the rate itself. */
dl_status dl_trainer_set_lr(dl_trainer *t, double lr);

/* Everything needed to go on exactly: weights, buffers, averaged weights, state of optimizer and schedule, positions of
 * random streams and data. Between steps only (DL_ERR_STATE). Noted in the run. */
dl_status dl_trainer_save(dl_trainer *t, const char *path);
/* Goes on from such a file; the trainer must be made like the one that saved it (DL_ERR_VALUE, DL_ERR_NAME,
 * DL_ERR_SHAPE). Seed and random streams of the process are set. The run that saved it is taken up again where the
 * store has it. */
dl_status dl_trainer_load(dl_trainer *t, const char *path);
