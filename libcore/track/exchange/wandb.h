/* Folders of runs as W&B keeps them: wandb-history.jsonl in each. */
#pragma once

#include "track/exchange/intake.h"

int dl_wandb_found(const char *path);
dl_status dl_wandb_read(dl_intake *in, const char *path);
