#pragma once
/* dlcore.h - the public interface of libdlcore: tensors, autograd, layers, optimizers, data and the experiment store.
 *
 * Conventions
 *   Sizes, indices and counts are `long` (64 bits on every supported platform). Flags are `int`.
 *   A function that makes an object returns it with one reference owned by the caller, or NULL on failure. A function
 *   that does something returns DL_OK (0) or an error code. In both cases dl_errmsg() has the detail; it is
 * thread-local. NULL given where an object is required fails with the error already recorded, if there is one, so that
 * calls chain: dl_mul(dl_exp(x), y) - the caller still owns, and must release, intermediate results. The library never
 * prints, aborts, exits or longjmps. There are no macros and no includes in this file: a C parser without a
 * preprocessor (ctypes and cffi bindings) can read it. From C++, include it inside extern "C" { }.
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
    DL_ERR_INTERNAL
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
} dl_error;

/* The last failure of this thread as one line: "op: message (operands)". "" when there is none. Valid until the next
 * failure. */
const char *dl_errmsg(void);
/* The last failure of this thread in full; NULL when there is none. Valid until the next call into the library. */
const dl_error *dl_error_last(void);
/* Copies the last failure to *out and forgets it. Returns its code, DL_OK when there was none. */
dl_status dl_error_take(dl_error *out);
/* Puts a record back, or records one made by the caller. Returns its code. */
dl_status dl_error_put(const dl_error *err);
void dl_error_clear(void);
/* Name of a status: "shape error". */
const char *dl_status_name(dl_status code);

/* Names the source position that ops, nodes and errors of this thread are to carry. `file` must outlive its use. */
void dl_source_set(const char *file, int line);

/* Version as text, "0.1.0". */
const char *dl_version(void);

/* ---------------------------------------------------------------- dtypes and devices */

typedef enum dl_dtype { DL_BOOL = 0, DL_U8, DL_I32, DL_I64, DL_F16, DL_BF16, DL_F32, DL_F64 } dl_dtype;

long dl_dtype_size(dl_dtype t);
const char *dl_dtype_name(dl_dtype t);
/* Reads "f32" and also PyTorch's "float32", "float", "int64", ...; fails with DL_ERR_DTYPE and names the valid ones. */
dl_status dl_dtype_parse(const char *name, dl_dtype *out);
int dl_dtype_is_float(dl_dtype t);
/* The dtype both operands are cast to, by PyTorch's rules for two tensors of at least one dimension. */
dl_dtype dl_dtype_promote(dl_dtype a, dl_dtype b);

/* A device is an int: 0 is the CPU, 1 + N is cuda:N. */
dl_status dl_device_parse(const char *name, int *out);
/* "cpu", "cuda:0"; valid until the thread's next call of this function. */
const char *dl_device_name(int device);

/* ---------------------------------------------------------------- tensors */

typedef struct dl_tensor dl_tensor;

/* A tensor of the given shape: uninitialised, zero, or every element `value` (converted as C converts).
 * ndim 0 to 8; shape may be NULL when ndim is 0. Errors: DL_ERR_SHAPE, DL_ERR_MEMORY, DL_ERR_DEVICE. */
dl_tensor *dl_tensor_empty(int ndim, const long *shape, dl_dtype dtype, int device);
dl_tensor *dl_tensor_zeros(int ndim, const long *shape, dl_dtype dtype, int device);
dl_tensor *dl_tensor_full(int ndim, const long *shape, dl_dtype dtype, int device, double value);
/* A contiguous tensor with a copy of `data`, elements of `dtype` in host memory, row-major. */
dl_tensor *dl_tensor_from(int ndim, const long *shape, dl_dtype dtype, int device, const void *data);
/* A 0-d tensor on the CPU that takes part in promotion like a number of the language (PyTorch's wrapped number). */
dl_tensor *dl_scalar_f(double value);
dl_tensor *dl_scalar_i(long value);
dl_tensor *dl_scalar_b(int value);
/* Wraps host memory without copying; release(arg) runs when the last view is gone (may be NULL). */
dl_tensor *dl_tensor_wrap(int ndim, const long *shape, dl_dtype dtype, void *data, void (*release)(void *), void *arg);

/* Reference counts are atomic. dl_unref(NULL) does nothing. */
dl_tensor *dl_ref(dl_tensor *t);
void dl_unref(dl_tensor *t);

int dl_ndim(const dl_tensor *t);
const long *dl_shape(const dl_tensor *t);
const long *dl_stride(const dl_tensor *t); /* in elements */
long dl_numel(const dl_tensor *t);
dl_dtype dl_dtype_of(const dl_tensor *t);
int dl_device_of(const dl_tensor *t);
int dl_is_contiguous(const dl_tensor *t);
/* First element. Host memory on the CPU, device memory otherwise. Writing through it must be announced with dl_touch().
 */
void *dl_data(const dl_tensor *t);
/* Bumps the version: tells autograd that the memory was changed from outside. */
void dl_touch(dl_tensor *t);
long dl_tensor_version(const dl_tensor *t);
/* The name shown in graphs and errors; copied. "" when unnamed. */
const char *dl_tensor_name(const dl_tensor *t);
dl_status dl_tensor_set_name(dl_tensor *t, const char *name);

/* The value of a one-element tensor. Integers above 2^53 lose bits in the double form. Errors: DL_ERR_SHAPE. */
dl_status dl_item_f(const dl_tensor *t, double *out);
dl_status dl_item_i(const dl_tensor *t, long *out);
/* Copies all elements in logical order, converted to double, to out[dl_numel(t)]. */
dl_status dl_read_f64(const dl_tensor *t, double *out);
/* Copies all elements in logical order, unconverted, to `out` (dl_numel * element size bytes of host memory). */
dl_status dl_read(const dl_tensor *t, void *out);
/* The same values in dtype or on device; the tensor itself (a new reference) when nothing changes. Differentiable. */
dl_tensor *dl_to_dtype(dl_tensor *t, dl_dtype dtype);
dl_tensor *dl_to_device(dl_tensor *t, int device);
/* The tensor itself when it is contiguous, else a contiguous copy. Differentiable. */
dl_tensor *dl_contiguous(dl_tensor *t);
/* A fresh copy. Differentiable. */
dl_tensor *dl_clone(dl_tensor *t);
/* dst = value, broadcast and cast: the one way a tensor is changed in place. Autograd sees it: on a view the base is
 * rebased. Errors: DL_ERR_AUTOGRAD on a leaf that needs a gradient while recording, or on a tensor with overlapping
 * elements; DL_ERR_SHAPE when value does not broadcast to dst. */
dl_status dl_assign(dl_tensor *dst, dl_tensor *value);

/* ---------------------------------------------------------------- random numbers
 * Philox4x32-10: key = (seed, stream), counter = (call, element). The same numbers on every device, in logical order.
 */
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
dl_status dl_set_grad(dl_tensor *t, dl_tensor *g); /* takes a new reference; NULL clears */
/* Shares storage and version, without history. */
dl_tensor *dl_detach(dl_tensor *t);
/* Gradients of sum(t * seed) with respect to every leaf are accumulated into the leaves' .grad. seed NULL: t must hold
 * one element, and 1 is used. retain: keep saved tensors for another pass. create: record the pass itself. Errors:
 * DL_ERR_AUTOGRAD (no history, freed history, saved tensor changed in place: both lines are named). */
dl_status dl_backward(dl_tensor *t, dl_tensor *seed, int retain, int create);
/* Gradients with respect to inputs[n] without touching any .grad; out[i] is NULL where t does not depend on inputs[i].
 */
dl_status dl_gradients(dl_tensor *t, dl_tensor *seed, dl_tensor **inputs, int n, int retain, int create,
                       dl_tensor **out);

/* Calls a row of the op table by name. in[nin] may hold NULL for absent optional inputs; attrs is "dim=1 keepdim=true"
 * (NULL: all defaults). Results, at most 8 with *nout set, are owned by the caller. */
dl_status dl_op_call(const char *op, dl_tensor **in, int nin, const char *attrs, dl_tensor **out, int *nout);
