/* Files of events as TensorBoard reads them. */
#ifndef DL_TRACK_TENSORBOARD_H
#define DL_TRACK_TENSORBOARD_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/error.h"

/* Writes all points of a run into FOLDER/ID-NAME/events.out.tfevents.SECONDS.dlsh, making the folders; an export that
 * is repeated writes the same file again. */
dl_status dl_tensorboard_write(sqlite3 *db, int64_t run, const char *folder);

#endif
