/* Files of pictures with their classes, found before any of them is read. */
#pragma once

#include <stdint.h>

#include "core/error.h"

typedef struct dl_picture_file {
    char *path;
    long folder; /* characters of its path that are the folder's */
    long label;
    int64_t size;
} dl_picture_file;

typedef struct dl_picture_list {
    dl_picture_file *file;
    long n, cap;
} dl_picture_list;

/* Names of classes, sorted. */
typedef struct dl_class_list {
    char **name;
    long n, cap;
} dl_class_list;

/* Pictures below the folders of a folder, one a class: by class, folder and name. With classes->n 0 they are filled in;
 * else folders must be of those. Errors: DL_ERR_IO, DL_ERR_FORMAT (no pictures; pictures of a format that is not read),
 * DL_ERR_NAME (another class), DL_ERR_MEMORY. What was found is released by the caller, also on failure. */
dl_status dl_pictures_of_folders(const char *dir, dl_class_list *classes, dl_picture_list *out);
/* Pictures of a folder that a CSV file names in its first column, with their classes in the last one; in its order. */
dl_status dl_pictures_of_table(const char *dir, const char *table, dl_class_list *classes, dl_picture_list *out);
void dl_picture_list_free(dl_picture_list *l);
void dl_class_list_free(dl_class_list *l);
