/* Distinct labels of a file, in order, as classes. */
#include "data/tables/classes.h"

#include <stdlib.h>
#include <string.h>

static int compare(const dl_classes *c, long i, const char *name, double value) {
    if (c->words) return strcmp(c->name[i], name);
    return c->value[i] < value ? -1 : c->value[i] > value;
}

long dl_classes_find(const dl_classes *c, const char *name, double value, bool *found) {
    long lo = 0, hi = c->n;
    while (lo < hi) {
        long mid = lo + (hi - lo) / 2;
        if (compare(c, mid, name, value) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    *found = lo < c->n && !compare(c, lo, name, value);
    return lo;
}

dl_status dl_classes_add(dl_classes *c, const char *file, const char *name, double value) {
    bool found;
    long at = dl_classes_find(c, name, value, &found);
    if (found) return DL_OK;
    if (c->n == DL_MAX_CLASSES)
        return dl_fail_hint(DL_ERR_VALUE, "is this the label column? option label; or task=regression",
                            "the labels of '%s' have more than %d different values", file, DL_MAX_CLASSES);
    if (c->n == c->cap) {
        long cap = c->cap ? 2 * c->cap : 64;
        const char **names = realloc(c->name, (size_t)cap * sizeof *names);
        if (names) c->name = names;
        double *values = names ? realloc(c->value, (size_t)cap * sizeof *values) : NULL;
        if (!values) return dl_fail(DL_ERR_MEMORY, "no memory for the classes of '%s'", file);
        c->value = values, c->cap = cap;
    }
    memmove(c->name + at + 1, c->name + at, (size_t)(c->n - at) * sizeof *c->name);
    memmove(c->value + at + 1, c->value + at, (size_t)(c->n - at) * sizeof *c->value);
    c->name[at] = name, c->value[at] = value;
    c->n++;
    return DL_OK;
}

void dl_classes_free(dl_classes *c) {
    free(c->name);
    free(c->value);
    *c = (dl_classes){0};
}
