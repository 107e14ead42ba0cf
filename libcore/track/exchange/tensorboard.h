/* Files of events as TensorBoard writes and reads them: records of TensorFlow, each a message `Event`. */
#pragma once

#include <sqlite3.h>
#include <stdint.h>

#include "track/exchange/intake.h"

/* The numbers of fields, by message. */
enum {
    DL_TB_EVENT_TIME = 1,
    DL_TB_EVENT_STEP = 2,
    DL_TB_EVENT_VERSION = 3,
    DL_TB_EVENT_SUMMARY = 5,
    DL_TB_EVENT_LOG = 7,
    DL_TB_EVENT_SOURCE = 10,
    DL_TB_SOURCE_WRITER = 1,
    DL_TB_LOG_STATUS = 1,
    DL_TB_LOG_START = 1, /* a value of it */
    DL_TB_SUMMARY_VALUE = 1,
    DL_TB_VALUE_TAG = 1,
    DL_TB_VALUE_SIMPLE = 2,
    DL_TB_VALUE_TENSOR = 8,
    DL_TB_VALUE_METADATA = 9,
    DL_TB_METADATA_PLUGIN = 1,
    DL_TB_PLUGIN_NAME = 1,
    DL_TB_PLUGIN_CONTENT = 2,
    DL_TB_TENSOR_DTYPE = 1,
    DL_TB_TENSOR_CONTENT = 4,
    DL_TB_HPARAMS_START = 3,
    DL_TB_START_HPARAMS = 1,
    DL_TB_MAP_KEY = 1,
    DL_TB_MAP_VALUE = 2,
    DL_TB_ANY_NUMBER = 2,
    DL_TB_ANY_STRING = 3,
    DL_TB_ANY_BOOL = 4
};
/* The writer that a file of this project names, followed by the run's uuid. */
#define DL_TB_WRITER "dlsh run "

/* The checksum of a record's length and of its bytes. */
uint32_t dl_tensorboard_crc(const void *data, size_t n);

/* Writes all points of a run into FOLDER/ID-NAME/events.out.tfevents.SECONDS.dlsh, making the folders; an export that
 * is repeated writes the same file again. */
dl_status dl_tensorboard_write(sqlite3 *db, int64_t run, const char *folder);

/* The same file while the run lasts: points are added to it as they are committed. Records that it is written in part
 * are taken back. The folders are made here. A file that is there already
 * goes on at `step`. NULL, error recorded. */
typedef struct dl_tensorboard dl_tensorboard;
dl_tensorboard *dl_tensorboard_follow(sqlite3 *db, int64_t run, const char *folder, int64_t step);
void dl_tensorboard_unfollow(dl_tensorboard *t);
/* Those of a batch that belong to the run. */
dl_status dl_tensorboard_append(dl_tensorboard *t, int64_t run, const dl_inserter *names, const dl_ring_record *records,
                                uint64_t n);
/* The run goes on at this step: what the file has from there on is void. */
dl_status dl_tensorboard_restart(dl_tensorboard *t, int64_t step);

/* Is it a file of events, or a folder with one in it or below? */
int dl_tensorboard_found(const char *path);
/* Each folder with such files is a run, as TensorBoard has it. */
dl_status dl_tensorboard_read(dl_intake *in, const char *path);
