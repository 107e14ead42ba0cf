/* Convolutions through cuDNN's graph interface: engines, and plans that run one. */
#pragma once

#include "cuda/runtime/base.h"

DL_C_BEGIN

enum { DL_DNN_KNOBS = 24 };

typedef enum dl_conv_kind { DL_CONV_FORWARD, DL_CONV_DX, DL_CONV_DW } dl_conv_kind;

/* A convolution over dense operands: images [N,C,H,W], weights [O,C/groups,kh,kw], results [N,O,P,Q], or volumes with a
 * depth before the height, all of one dtype, all with the channels innermost or none; addresses are multiples of 16. */
typedef struct dl_dnn_problem {
    dl_conv_kind kind;
    dl_dtype t;
    dl_conv_nd g;
    bool last;          /* channels last */
    bool tf32;          /* f32 operands may be rounded */
    bool deterministic; /* only engines that repeat bit for bit */
} dl_dnn_problem;

/* One engine and how it is set; what is stored of a choice. */
typedef struct dl_dnn_choice {
    long engine;
    int nknobs;
    struct {
        int type;
        long value;
    } knob[DL_DNN_KNOBS];
} dl_dnn_choice;

typedef struct dl_dnn_plan dl_dnn_plan;

/* The version of the library at run time, 91900; 0: there is none. */
long dl_dnn_version(void);
/* DL_ERR_UNSUPPORTED says what is missing. */
dl_status dl_dnn_ready(dl_gpu *g);
/* The cudnnHandle_t of a device that is ready. */
void *dl_dnn_handle(const dl_gpu *g);
/* Engines that compute the problem as it asks, the most promising first; returns how many, at most max. */
int dl_dnn_choices(dl_gpu *g, const dl_dnn_problem *p, dl_dnn_choice *out, int max);
/* NULL, error recorded: this engine does not run here. */
dl_dnn_plan *dl_dnn_plan_new(dl_gpu *g, const dl_dnn_problem *p, const dl_dnn_choice *c);
void dl_dnn_plan_free(dl_dnn_plan *p);
size_t dl_dnn_workspace(const dl_dnn_plan *p);
/* image, weight, result: two are read, the third is written. */
dl_status dl_dnn_run(dl_gpu *g, dl_dnn_plan *p, void *image, void *weight, void *result, void *workspace);

DL_C_END
