/* What W&B's program leaves on the disk, offline or not: run-ID.wandb, a log of records, and wandb-history.jsonl of
 * former versions; alone or in folders. */
#pragma once

#include "track/exchange/intake.h"

int dl_wandb_found(const char *path);
dl_status dl_wandb_read(dl_intake *in, const char *path);
