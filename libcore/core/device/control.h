/* The control block of a trainer: the state of a training between steps, in the memory of the device; and the arguments
 * of the backend's services that work on it (core/device/device.h). The host issues steps and reads their reports
 * later, without waiting for the device. Plain C and C++17. */
#ifndef DL_CORE_CONTROL_H
#define DL_CORE_CONTROL_H

#include "core/random/rng.h"
#include "core/tensor.h"

/* DL_REPORTS: capacity for reports; DL_LATE: how many steps the host may issue before it reads a report. */
enum { DL_REPORTS = 32, DL_LATE = 8 };
/* The most breakpoints of a trainer: bits of a number. */
enum { DL_BREAKS = 32 };
/* The scale of the loss under f16 at first, and the good steps after which it is doubled. */
enum { DL_SCALE_FIRST = 65536, DL_SCALE_GROWTH = 2000 };

/* How a step ended. */
typedef enum dl_step_end {
    DL_END_NONE,
    DL_END_DONE,
    DL_END_SKIPPED, /* loss scaling: gradients too large; the scale was lowered */
    DL_END_LOSS,    /* not finite: training has halted, nothing changed */
    DL_END_NORM,
    DL_END_VOID,  /* issued before the halt was seen: nothing changed */
    DL_END_BREAK, /* a breakpoint holds: training has halted before the update */
} dl_step_end;

/* What an optimizer's op reads in place of a learning rate alone; `step` is Adam's. */
typedef struct dl_rates {
    double rate, halt, step;
} dl_rates;

/* A breakpoint: did it hold after the last step; how often it has begun to. */
typedef struct dl_break_state {
    double held, hits;
} dl_break_state;

/* accumulate changes the sums, decide the breakpoints, finish_step the rest; the host changes epoch, from and rng
 * between steps. */
typedef struct dl_control {
    dl_rates *group; /* in the same memory: of the optimizer's own options, then of each group */
    double halt;     /* a dl_step_end; not 0: nothing changes any more */
    double reported; /* the halt has been reported */
    double loss, weight, correct, counted, bad;   /* sums since the last report; the loss that was not finite */
    double last_loss, last_correct, last_counted; /* of the last batch */
    double scale, good;                           /* of the loss; steps since it was last changed */
    long index;                                   /* number of the step, from 0 */
    long epoch, from;                             /* of the next batch */
    dl_rng_at rng;                                /* numbers of the next calls of the random streams */
    unsigned hits, ticket;                        /* within a launch */
    double seed;                                  /* what backward starts from: scale / batches of the step */
    float seed_f32;
    unsigned fired; /* bits of the breakpoints that halted */
    dl_break_state at[DL_BREAKS];
} dl_control;

typedef struct dl_report {
    double loss, acc, norm, scale; /* acc NaN without classes */
    long time;                     /* nanoseconds of the device's clock; 0: it has none */
    int end;
    unsigned fired; /* bits of breakpoints */
    long number;    /* index + 1, written last */
} dl_report;

/* How a batch counts in its step. */
typedef struct dl_batch_rule {
    double weight;  /* of the loss in the sum */
    double batches; /* of the step */
    long advance;   /* samples */
    bool first;     /* sums begin again */
    bool lenient;   /* losses that are not finite do not halt */
    bool scaled;    /* loss scaling decides about them */
} dl_batch_rule;

/* After the forward pass of a batch: adds up loss and right answers, advances the position, halts. */
typedef struct dl_accumulate {
    const dl_tensor *loss;            /* one number */
    const dl_tensor *output, *target; /* contiguous; scores [N,C,...] and labels [N,...]; output NULL: no classes */
    dl_batch_rule rule;
} dl_accumulate;

typedef struct dl_break_rule {
    dl_break_test test;
    double limit;
    int number;  /* below DL_BREAKS */
    bool each;   /* it need not begin to hold */
    long ignore; /* how often it is passed over first */
} dl_break_rule;

/* After the backward passes, before finish_step: halts where NaN or infinities in tensors begin. */
typedef struct dl_decide {
    dl_tensor *const *t; /* f32 or f64, contiguous */
    int n;
    dl_break_rule rule;
} dl_decide;

/* The units of a result: channels of [N, C, ...], features of [N, F], or the elements of a vector; the strides of
 * samples, units, and the places of a unit. */
typedef struct dl_units {
    long n, units, places, sample_step, unit_step, place_step;
} dl_units;

/* Breakpoints about one number, which finish_step decides. */
typedef struct dl_decide_one {
    const dl_tensor *is; /* NULL: the norm of all gradients. A VALUE is of any dtype; else real floating numbers, DEAD
                          * of regular units, the others dense */
    dl_break_measure of;
    dl_break_rule rule;
} dl_decide_one;

/* Memory of the device that a step changes before it is known whether the step counts. What it held before step i is
 * in to[i % 2]. */
typedef struct dl_span {
    void *to[2];
    const void *from;
    size_t bytes;
} dl_span;

typedef struct dl_step_rule {
    double clip_norm, clip_value, batches;
    dl_rng_at draws; /* calls of the random streams in this step */
    int groups;
    bool lenient, scaled;
    /* Memory that host and device share: entry i is for steps with index % DL_REPORTS == i. */
    const double *rate; /* [DL_REPORTS][groups]: from the host before the step is issued */
    dl_report *report;  /* [DL_REPORTS] */
} dl_step_rule;

/* After the backward passes: norm and limits of the gradients, the rates that the optimizer reads, and the report. */
typedef struct dl_finish_step {
    dl_tensor *const *grad; /* without gaps; limited in place */
    int n;
    const dl_decide_one *decide;
    int ndecide;
    const dl_span *keep; /* copied for the next step, unless training had halted before this one */
    int nkeep;
    dl_step_rule rule;
} dl_finish_step;

/* A resident split, from which a device makes batches. */
typedef struct dl_batch_source {
    const void *x, *y;
    const float *lut;  /* x is u8: what byte b of channel c becomes, f32, is lut[c * 256 + b]; NULL: as it is */
    const int *order;  /* NULL: as they lie */
    long numel, plane; /* of a sample; of a channel */
    long size, target; /* bytes of an element of x, of a target; without lut both are multiples of 4 */
    long c, h, w;      /* of images, else 1, 1, numel */
    uint64_t seed;
    const struct dl_transforms *transforms; /* of f32 */
} dl_batch_source;

#endif
