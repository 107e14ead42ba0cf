/* Choices among library algorithms, made by measuring once: kept for the process and in a file of the user's cache
 * folder, so that every later process computes with the same algorithms. */
#pragma once

#include "cuda/runtime/base.h"

enum { DL_PLAN_TEXT = 400 };

/* The choice stored for `key` on this kind of GPU with these library versions, copied into value[DL_PLAN_TEXT]; false
 * when there is none. Keys and values are text without tabs and newlines. */
bool dl_plan_find(dl_gpu *g, const char *key, char *value);
/* Keeps a choice; a file that cannot be written is left alone, and the choice then lasts as long as the process. */
void dl_plan_keep(dl_gpu *g, const char *key, const char *value);
/* DL_ERR_STATE while the stream is being captured: `what` would have to be measured first. DL_ERR_DEVICE: the GPU is
 * lost. */
dl_status dl_plan_may_measure(dl_gpu *g, const char *what);
/* Milliseconds that run(arg) takes on the stream, after one run to warm up; negative: it failed, and the error is
 * recorded. Stops after that one when it takes more than three times `best` (negative: none yet). */
float dl_plan_measure(dl_gpu *g, dl_status (*run)(void *arg), void *arg, float best);
