/* Training that does not wait for its device: what the device itself keeps of a trainer, what the host tells it step by
 * step, and what it reports. A backend's functions for it are in core/device.h; train/ahead.c uses them. Plain C and
 * C++17. */
#ifndef DL_CORE_CONTROL_H
#define DL_CORE_CONTROL_H

#include "core/tensor.h"

/* DL_RING: steps that the ring has room for; DL_LATE: how many steps the host may be behind with reading. */
enum { DL_PACE_GROUPS = 16, DL_RING = 32, DL_LATE = 8 };
/* Of the loss under f16: the scale to begin with, and the good steps after which it is doubled. */
enum { DL_SCALE_FIRST = 65536, DL_SCALE_GROWTH = 2000 };

/* How a step ended. */
typedef enum dl_step_end {
    DL_END_NONE,
    DL_END_DONE,
    DL_END_SKIPPED, /* loss scaling: gradients too large; the scale was lowered */
    DL_END_LOSS,    /* not finite: the device has halted, nothing changed */
    DL_END_NORM,
    DL_END_VOID, /* came after the halt: nothing changed */
} dl_step_end;

/* What the row of an optimizer reads in place of a bare learning rate; `step` is Adam's. */
typedef struct dl_rates {
    double rate, halt, step;
} dl_rates;

/* In device memory. Who changes what: tally the sums, judge the rest, the host epoch, from and rng between steps. */
typedef struct dl_control {
    dl_rates group[DL_PACE_GROUPS];
    double halt;                                  /* a dl_step_end; not 0: nothing changes any more */
    double told;                                  /* the halt has been reported */
    double loss, weight, correct, counted, bad;   /* sums since the last report; the loss that was not finite */
    double last_loss, last_correct, last_counted; /* of the last batch */
    double scale, good;                           /* of the loss; steps since it was last changed */
    long index;                                   /* of the step: its place in the ring */
    long epoch, from;                             /* of the next batch */
    uint64_t rng;                                 /* number of the next call of the dropout stream */
    unsigned hits, ticket;                        /* within a launch */
    float seed;                                   /* what backward starts from: scale / batches of the step */
} dl_control;

/* Pinned memory that both sides see. */
typedef struct dl_slip { /* from the host, before the step is issued */
    double rate[DL_PACE_GROUPS];
} dl_slip;
typedef struct dl_report {
    double loss, acc, norm, scale; /* acc NaN without classes */
    long time;                     /* nanoseconds of the device's clock */
    int end;
    long number; /* index + 1, written last */
} dl_report;
typedef struct dl_ring {
    dl_slip slip[DL_RING];
    dl_report report[DL_RING];
} dl_ring;

/* After the forward pass of a batch: sums up loss and correct answers, moves on by `advance` samples, halts. */
typedef struct dl_tally {
    const dl_tensor *loss; /* one number */
    const dl_tensor *output,
        *target;   /* contiguous; scores [N,C,...] and labels [N,...]; output NULL: nothing to count */
    double weight; /* of the loss in the sum */
    double micros; /* batches of the step */
    long advance;
    bool first;   /* sums begin anew */
    bool lenient; /* losses that are not finite do not halt */
    bool scaled;  /* loss scaling judges them */
} dl_tally;

/* After the backward passes: norm of the gradients, limits, what the optimizers are told, and the report. */
typedef struct dl_judge {
    dl_tensor *const *grad; /* without gaps; limited in place when clip_value is above 0 */
    int n, groups;
    double clip_norm, clip_value, micros;
    long draws; /* calls of the dropout stream in this step */
    dl_ring *ring;
    bool lenient, scaled;
} dl_judge;

/* A resident split, from which the device makes batches. */
typedef struct dl_feed {
    const void *x, *y;
    const float *lut;  /* x is u8: what byte b of channel c becomes, f32, is lut[c * 256 + b]; NULL: as it is */
    const int *order;  /* NULL: as they lie */
    long numel, plane; /* of a sample; of a channel */
    long size, target; /* bytes of an element of x, of a target; without lut both are multiples of 4 */
    long c, h, w;      /* of images, else 1, 1, numel */
    uint64_t seed;
    const struct dl_transforms *transforms; /* of f32 */
} dl_feed;

#endif
