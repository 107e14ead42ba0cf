/* A trial of a net, or of a function of the script: a copy of the net, or the function, run on a batch. Weights,
 * buffers, optimizers, random streams and the journal of what is examined stay as they are. */
#pragma once

#include "commands/nets/nets.h"
#include "debug/doctor/program/holders.h"

typedef struct dlsh_probe {
    dl_module *net;                                       /* the copy; NULL: of a function; owned */
    dlsh_callback *fn;                                    /* NULL: of a net; owned */
    dl_tensor *in[DL_NET_INPUTS], *target[DL_NET_INPUTS]; /* owned */
    int nin, ntarget;
    int whole;             /* the net runs on all rows of its input, not on some of them */
    const char *from;      /* where the batch is from, for people */
    dl_trainer *trainer;   /* whose loss is computed; NULL: none */
    dl_optimizer *opt;     /* a copy with its state; NULL: none is known; owned */
    dl_tensor *out, *loss; /* of the last forward pass; owned; loss NULL: none */
    unsigned long rng[DL_RNG_STATE];
    dl_journal *former, *journal;
} dlsh_probe;

enum { DLSH_PROBE_SAMPLES = 32 };

/* With a batch of the trainer's data, or for a net the input that its last pass had, where a variable still holds it,
 * else random numbers. DL_ERR_STATE: the size of its input is not known. */
dl_status dlsh_probe_trainer(dlsh_probe *p, dl_trainer *t, long samples);
dl_status dlsh_probe_net(const dlsh_holders *all, dlsh_probe *p, dl_module *m, long samples);
/* With x, for a function of one tensor. DL_ERR_UNSUPPORTED: a call of it does more than computing a result. */
dl_status dlsh_probe_function(dlsh_probe *p, dlsh_session *s, dlsh_value fn, dl_tensor *x, long samples);
/* The result for one tensor; NULL: a recorded failure. */
dl_tensor *dlsh_probe_call(dlsh_probe *p, dl_tensor *x);
/* The net's result, and the loss where it is known. */
dl_status dlsh_probe_forward(dlsh_probe *p);
/* Gradients: of the loss, or where there is none those that the net's own parameters have. */
dl_status dlsh_probe_backward(dlsh_probe *p, dl_module *of);
/* The copy of the optimizer that trains parameters of `of`, with its state, for the copy of the net. */
dl_status dlsh_probe_optimizer(dlsh_probe *p, dl_optimizer *o, dl_module *of);
void dlsh_probe_end(dlsh_probe *p);
/* What runs between both is noted where it was before the probe. */
void dlsh_probe_pause(dlsh_probe *p);
void dlsh_probe_resume(dlsh_probe *p);

/* Is it a layer that is not made of other layers? Parameters that it holds are none. */
int dlsh_is_single_layer(const dl_module *m);
/* The optimizer among variables and trainers that trains a parameter of the net; NULL: none. */
dl_optimizer *dlsh_probe_find_optimizer(const dlsh_holders *all, dl_module *m);
/* The net among variables that the optimizer trains; NULL: none. */
dl_module *dlsh_probe_find_net(const dlsh_holders *all, const dl_optimizer *o);
