/* Distinct labels of a file, in order, as classes. */
#pragma once

#include "data/data.h"

/* Labels in order: by value when they are numbers, else as text, which is borrowed. */
typedef struct dl_classes {
    const char **name;
    double *value;
    long n, cap;
    bool words;
} dl_classes;

/* Where a label is, or belongs. */
long dl_classes_find(const dl_classes *c, const char *name, double value, bool *found);
/* Adds a label where it is missing. Errors: DL_ERR_VALUE (more than DL_MAX_CLASSES), DL_ERR_MEMORY. */
dl_status dl_classes_add(dl_classes *c, const char *file, const char *name, double value);
void dl_classes_free(dl_classes *c);
