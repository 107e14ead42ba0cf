/* Folders of runs as W&B keeps them. */
#include "track/exchange/wandb.h"

#include <string.h>

#include "track/exchange/table.h"
#include "track/exchange/walk.h"

static int is_history(const char *name) { return !strcmp(name, "wandb-history.jsonl"); }

int dl_wandb_found(const char *path) { return dl_walk_found(path, is_history); }

static dl_status read_history(void *ctx, const char *folder DL_UNUSED, char *const *files, long n DL_UNUSED,
                              const char *below DL_UNUSED) {
    dl_table_taker t DL_SCOPE(dl_table_free) = {.in = ctx, .run = -1};
    return dl_table_read_jsonl(&t, files[0]);
}

dl_status dl_wandb_read(dl_intake *in, const char *path) { return dl_walk(path, is_history, read_history, in); }
