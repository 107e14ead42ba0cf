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

/* ---------------------------------------------------------------- experiments: the run store
 * One SQLite file keeps every run with its parameters, metrics, events and artifacts; docs/experiments.md describes it.
 * Points are pushed into a ring in shared memory beside the file and committed by one writer thread, so that a push
 * costs nanoseconds, and a killed process loses none: the next one that opens the store commits what is left. Times are
 * microseconds since 1970, UTC. Any thread may call any of these functions; not across fork(). Strings in results
 * belong to the result. Errors not named: DL_ERR_STORE (locked, full disk, damaged file), DL_ERR_MEMORY. */
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
    double seconds;            /* from start to end, or to now */
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
 *   and metrics (their last value; min(K), max(K), first(K), mean(K), n(K) too); = != < <= > >= ~ (contains), and or
 * not. sort: one such name; "-NAME" is descending. Points are never read. Errors: DL_ERR_SYNTAX, DL_ERR_NAME. */
typedef struct dl_run_query {
    const char *where, *sort;
    long limit;  /* 0: all */
    int deleted; /* 1: the deleted ones only */
} dl_run_query;
typedef struct dl_run_list {
    long n;
    const dl_run_info *runs;
} dl_run_list;
dl_run_list *dl_run_query_list(dl_store *s, const dl_run_query *q);
/* One run in full, as a list of one. */
dl_run_list *dl_run_show(dl_store *s, long id);
void dl_run_list_free(dl_run_list *l);

/* n runs beside each other: parameters and facts (seed, device, dataset, model, commit) that differ or, with all, every
 * one; and every metric. values and cells have one entry a run, NULL where it has none. */
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

/* Rows of one read-only SQL statement; anything that would write is refused. See dl_rows_next for the use. */
typedef struct dl_rows dl_rows;
dl_rows *dl_store_sql(dl_store *s, const char *sql);
/* 1: at a row, 0: no more, -1: failed. */
int dl_rows_next(dl_rows *r);
/* Makes dl_rows_next of another thread, or the one running under a signal handler, fail with DL_ERR_INTERRUPT. */
void dl_rows_interrupt(dl_rows *r);
long dl_rows_width(const dl_rows *r);
const char *dl_rows_name(const dl_rows *r, long col);
/* 'n' null, 'i' integer, 'f' float, 't' text, 'b' blob. */
char dl_rows_type(const dl_rows *r, long col);
long dl_rows_int(const dl_rows *r, long col);
double dl_rows_float(const dl_rows *r, long col);
/* Valid until the next dl_rows_next. NULL for null. */
const char *dl_rows_text(const dl_rows *r, long col);
const void *dl_rows_blob(const dl_rows *r, long col, long *n);
void dl_rows_free(dl_rows *r);

/* Writes run,key,step,ts,value of n runs (ids NULL: all not deleted) as CSV; the file appears whole or not at all. */
dl_status dl_store_export(dl_store *s, const long *ids, long n, const char *path);
