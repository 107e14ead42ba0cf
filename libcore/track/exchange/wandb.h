/* Folders of runs as W&B keeps them: wandb-history.jsonl in each. */
#ifndef DL_TRACK_WANDB_H
#define DL_TRACK_WANDB_H

#include "track/exchange/intake.h"

int dl_wandb_found(const char *path);
dl_status dl_wandb_read(dl_intake *in, const char *path);

#endif
