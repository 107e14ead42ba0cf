/* Ops and how they are called. The table ops/ops.def says everything about an op: its number, C prototype, shell
 * function, help, manual and tests are made from its row. */
#pragma once

#include "core/tensor.h"

enum { DL_MAX_IN = 1024, DL_MAX_OUT = 8, DL_MAX_ATTR = 12, DL_MAX_NAMED_IN = 8 };
enum { DL_BACKEND_CPU, DL_BACKEND_CUDA, DL_NBACKEND };

/* ---- attributes */

typedef enum dl_attr_kind {
    DL_A_INT,   /* long */
    DL_A_FLOAT, /* double */
    DL_A_NUM,   /* int or float, kept apart: dl_aval.is_int */
    DL_A_BOOL,
    DL_A_DTYPE,  /* dl_dtype */
    DL_A_DEVICE, /* int */
    DL_A_INTS,   /* up to 8 longs; a single one counts as a list of one */
    DL_A_STR,
    DL_A_PADS, /* INTS, or a word that stands for a number, see dl_padding_word */
} dl_attr_kind;

static inline bool dl_attr_is_list(dl_attr_kind k) { return k == DL_A_INTS || k == DL_A_PADS; }

/* The number that a word stands for as padding; false: it is none of them. */
bool dl_padding_word(const char *text, long *out);

typedef struct dl_attr {
    const char *name;
    dl_attr_kind kind;
    const char *dflt; /* text of the default; "" required; "none" absent */
    const char *doc;
} dl_attr;

typedef struct dl_aval {
    bool given; /* false: absent, the default "none" */
    bool is_int;
    int8_t n;
    union {
        long i;
        double f;
        long v[DL_MAX_DIM];
        char s[64];
    } u;
} dl_aval;

/* The value of a number, whole or not. */
static inline double dl_aval_number(const dl_aval *a) { return a->is_int ? (double)a->u.i : a->u.f; }

/* Shape, dtype and place in memory of a tensor that may not exist yet. */
typedef struct dl_meta {
    int8_t ndim;
    int8_t dtype;
    bool strided; /* stride[] is meant; else contiguous */
    int8_t alias; /* infer only: -1 fresh, else the output shares the storage of that input, at `offset` */
    bool absent;  /* infer only: this output is not made */
    int device;
    int64_t offset;
    long shape[DL_MAX_DIM];
    long stride[DL_MAX_DIM];
} dl_meta;

typedef struct dl_op dl_op;

/* One call of an op. in[] are promoted already; an absent optional input is NULL. */
typedef struct dl_call {
    const dl_op *op;
    dl_tensor **in, **out;
    int nin, nout;
    const dl_aval *attr; /* one for each of op->attrs; by name: ops/names.h */
    int device;
    dl_dtype dtype; /* the promoted dtype of the inputs; without inputs the output's */
    uint64_t rng;   /* with DL_F_RNG: number of the call in its stream */
    dl_stream stream;
} dl_call;

/* The run of a gradient rule, which fills gin[i] for each i of `need` through dl_give; NULL counts as zero. */
typedef struct dl_back {
    dl_node *node;
    const dl_op *op;
    const dl_aval *attr;
    int nin, nout;
    dl_tensor **g;   /* gradient of each output; NULL: zero. At least one is there */
    dl_tensor **gin; /* owned by the pass */
    uint64_t need;   /* bit i: input i wants its gradient; inputs past 63 follow bit 63 */
    bool create_graph;
    bool retain;     /* the node may run again: what it saved stays as it is */
    bool wide;       /* saved tensors of 16 bits are read as f32 */
    dl_tensor **tmp; /* temporaries released after the rule */
    long ntmp, cap;
} dl_back;

/* A call of a row for many samples at once, see ops/batch/batch.h. A batch rule makes out[] of in[], changing attr[]
 * and in[] as it needs; what it gives is reshaped to [size, shape of one result]. */
typedef struct dl_batched {
    const dl_op *op;
    dl_aval attr[DL_MAX_ATTR];
    int nin;
    long size;                          /* how many samples */
    dl_tensor **in;                     /* owned; with `mapped` the samples lie along dimension 0 */
    bool *mapped;                       /* [nin]; else the operand is the same for all samples */
    dl_tensor *const *one, *const *was; /* operands and results of one sample */
    dl_tensor *out[DL_MAX_OUT];         /* owned, with the samples along dimension 0 */
    bool each;                          /* set by the rule: this call has no batched form, so one for each sample */
} dl_batched;

typedef struct dl_kernel {
    dl_status (*run)(dl_call *);
    /* Optional: the gradients of all inputs at once, faster than the gradient rule and equal to it. Not used under
     * create_graph. */
    dl_status (*fused_grad)(dl_back *);
    unsigned dtypes;  /* bits of dl_call.dtype it takes */
    const char *none; /* why the device has no kernel */
    unsigned flags;
} dl_kernel;

enum dl_kernel_flags {
    DL_K_NUMBERS = 1, /* reads numbers of the language in host memory; else they are moved to the device first */
    /* The fused gradient is of operands or results that are complex, or of real and complex ones; else of real ones
     * alone. */
    DL_K_GRAD_COMPLEX = 2,
    DL_K_GRAD_BOTH = 4,
};

enum dl_op_flags {
    DL_F_VIEW = 1,      /* no kernel: infer places the output over input 0 */
    DL_F_COMPOSITE = 2, /* no kernel, no node of its own: made of other ops */
    DL_F_NODIFF = 4,    /* no gradient, by nature (comparisons, argmax, random numbers) */
    DL_F_RNG = 8,
    DL_F_INTERNAL = 16,    /* no function of the shell: ops of gradients and optimizers */
    DL_F_CREATE = 32,      /* no tensor inputs: device from the attribute `device` */
    DL_F_DROPOUT = 64,     /* draws from the dropout stream */
    DL_F_WIDE = 128,       /* composite whose parts would round or overflow 16 bits: runs in f32, rounded at the end */
    DL_F_YIELDS = 512,     /* a C function of this name, once declared, takes it without a warning */
    DL_F_SYMMETRIC = 1024, /* reads input 0 as symmetric: one element does not change alone */
    DL_F_SIGNS = 2048,     /* results are vectors of either sign */
    DL_F_COMPLEX = 4096,   /* takes complex numbers; views do in any case */
    DL_F_METRIC = 8192,    /* a figure of predictions beside true values, which a trainer may report */
    DL_F_PROBABILITY = 16384,  /* a loss whose input is probabilities of class 1, not scores around 0 */
    DL_F_GRADCHECK_ONLY = 256, /* no PyTorch goldens yet: tests check only its gradient, by differences */
};

typedef enum dl_promote {
    DL_P_COMMON, /* all inputs to the common dtype */
    DL_P_FLOAT,  /* the same, and integers and bool to f32 */
    DL_P_NONE,   /* inputs as they are (indices, masks) */
    DL_P_REST,   /* all inputs but the first, a mask, to their common dtype */
    DL_P_FIRST,  /* input 0 decides; floating inputs are cast to it, others stay (labels, indices) */
    DL_P_PARAMS, /* the same, but f32 stays beside a 16-bit input 0: parameters and statistics of normalisation */
} dl_promote_rule;

/* Mixed precision: the precision of an op under `precision bf16|f16`. */
typedef enum dl_amp { DL_AMP_KEEP, DL_AMP_LOW, DL_AMP_FULL } dl_amp;

struct dl_op {
    const char *name, *doc, *formula;
    int id;             /* DL_OP_name, or dl_id_name (ops/names.h); -1 for ops registered at run time */
    int in_min, in_max; /* in_max DL_MAX_IN: variadic, the list takes the place of the last named input */
    const char *in_name[DL_MAX_NAMED_IN + 1];
    int out, visible; /* outputs in all, and how many of them callers see */
    const char *out_name[DL_MAX_OUT + 1];
    const char *const *order; /* positional arguments, ending in NULL; NULL: inputs, then attributes */
    const dl_attr *attrs;     /* [nattr], in the order of the values of a call; read them by name (ops/names.h) */
    int nattr;
    const int8_t *listed;       /* the attributes in the order of the manual; NULL: that of attrs */
    const dl_aval *defaults;    /* the attributes' defaults, parsed; filled in by the table */
    uint32_t save_in, save_out; /* bits: tensors the gradient rule reads */
    uint32_t mutates;           /* bits: inputs it writes to; with an attribute `training` in training alone */
    uint32_t nondiff_in;        /* bits: inputs without a gradient (labels, indices, masks) */
    uint32_t nondiff_out;       /* bits: outputs without a gradient */
    uint32_t flags;
    dl_promote_rule promote;
    dl_amp amp;
    dl_status (*infer)(const dl_call *, dl_meta *out);
    dl_status (*compose)(dl_call *);
    bool (*composed)(const dl_call *); /* the calls that `compose` is for, of a row with a kernel; NULL: all */
    dl_status (*grad)(dl_back *);
    dl_status (*batch)(dl_batched *); /* the call for many samples; NULL: one call for each */
    double (*flops)(const dl_call *); /* NULL: one for each output element */
    const char *samples;              /* inputs for the generated tests, see ops/ops.def */
    const dl_kernel *kernel[DL_NBACKEND];
    /* Of ops made at run time: references of the table and of nodes, and what the last one calls. */
    int *uses;
    void (*release)(const dl_op *);
};

static inline void dl_op_ref(const dl_op *op) {
    if (op->uses) __atomic_add_fetch(op->uses, 1, __ATOMIC_RELAXED);
}
static inline void dl_op_unref(const dl_op *op) {
    if (op->uses && !__atomic_sub_fetch(op->uses, 1, __ATOMIC_ACQ_REL)) op->release(op);
}

/* ---- the table (ops/table.c); numbers of ops: dlcore_ops.h */

const dl_op *dl_op_row(int id);
/* By name, built-in or registered; NULL without an error when there is none. */
const dl_op *dl_op_find(const char *name);
/* All ops in the order of the table, then registered ones; NULL past the end. */
const dl_op *dl_op_at(int i);
/* Adds an op made at run time, in place of a registered one of its name. Takes over the caller's reference, where ops
 * are counted; the op must outlive every node that uses it. DL_ERR_NAME: the op table has the name. */
dl_status dl_op_register(const dl_op *op);

/* ---- calling (core/dispatch.c) */

/* Runs an op: promotes, infers, allocates, runs the kernel, records. attr: op->nattr values. out[op->out] receives
 * owned tensors (NULL for absent ones). */
dl_status dl_invoke(const dl_op *op, dl_tensor *const *in, int nin, const dl_aval *attr, dl_tensor **out);
/* The first output of an op; the others are released. */
dl_tensor *dl_invoke1(const dl_op *op, dl_tensor *const *in, int nin, const dl_aval *attr);
/* Fills attr[op->nattr] with the defaults; required ones are absent. */
void dl_attr_defaults(const dl_op *op, dl_aval *attr);
/* The same from the text of the row, for the table itself. */
dl_status dl_attr_parse_defaults(const dl_op *op, dl_aval *attr);
/* DL_ERR_VALUE naming a required attribute that is absent, or a list with a number beyond DL_MAX_COUNT. */
dl_status dl_attr_check(const dl_op *op, const dl_aval *attr);
/* Parses "value" into attribute a of op. */
dl_status dl_attr_parse(const dl_op *op, int a, const char *value, dl_aval *out);
/* The value as dl_attr_parse reads it: "0.5", "[1, 2]", "none"; cut to fit. */
void dl_attr_text(const dl_op *op, int a, const dl_aval *value, char *out, size_t size);
int dl_attr_index(const dl_op *op, const char *name); /* -1: no such attribute */
/* The attribute at place i of the manual. */
static inline int dl_attr_listed(const dl_op *op, int i) { return op->listed ? op->listed[i] : i; }

/* ---- for infer rules */

dl_meta dl_meta_of(const dl_tensor *t);
/* A fresh contiguous output like t in dtype and device, with another shape. */
dl_meta dl_meta_like(const dl_tensor *t, int ndim, const long *shape);

/* ---- for gradient rules (autograd/rule.c) */

/* A saved tensor, borrowed until the rule ends; history attached. NULL, error recorded, when it was changed or freed.
 */
dl_tensor *dl_saved_in(dl_back *b, int i);
dl_tensor *dl_saved_out(dl_back *b, int i);
/* Shape and dtype of the operands, saved or not. */
const dl_meta *dl_in_meta(const dl_back *b, int i);
/* Where the rule runs: the device of the gradients. An operand can be a number in host memory. */
int dl_back_device(const dl_back *b);
const dl_meta *dl_out_meta(const dl_back *b, int i);
/* Gives a temporary to the pool of the rule, which releases it. Returns it; NULL passes through. */
dl_tensor *dl_tmp(dl_back *b, dl_tensor *t);
/* gin[i] = t, taking ownership; sums broadcast dimensions and casts to the input's dtype. NULL t: the error recorded.
 */
dl_status dl_give(dl_back *b, int i, dl_tensor *t);

#define DL_NEED(i) (b->need >> ((i) < 63 ? (i) : 63) & 1)
#define DL_GIVE(i, expr)                                                                                               \
    do {                                                                                                               \
        if (DL_NEED(i)) DL_TRY(dl_give(b, (i), (expr)));                                                               \
    } while (0)
