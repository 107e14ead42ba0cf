/* Transforms that turn a sample of one class into one of another: mirrored digits and letters. */
#include <stdlib.h>
#include <string.h>

#include "debug/doctor/checks.h"

/* Transforms that mirror or turn a picture. */
static const char *const turning[] = {"hflip", "vflip", "flip", "rotate", "rotation", "transpose"};
/* Data sets, and beginnings of names of classes, whose pictures then mean something else, or nothing. */
static const char *const sided[] = {"digits", "mnist", "emnist", "svhn", "letters", "left", "right", "arrow"};

static const char *turns(const char *transforms) {
    for (size_t i = 0; i < DLSH_COUNT(turning); i++) {
        const char *p = strstr(transforms, turning[i]);
        if (!p || (p > transforms && p[-1] != ' ' && p[-1] != ',')) continue;
        if (!strncmp(turning[i], "rotat", 5)) { /* small angles are harmless */
            const char *digits = p + strcspn(p, "0123456789");
            if (strtod(digits, NULL) < 60) continue;
        }
        return turning[i];
    }
    return NULL;
}

static int has_sides(const dl_dataset *d, const char **by) {
    const char *name = dl_dataset_name(d), *c;
    for (size_t i = 0; i < DLSH_COUNT(sided); i++)
        if (strstr(name, sided[i])) return *by = name, 1;
    for (long k = 0; (c = dl_dataset_class_name(d, k)) && k < 1000; k++)
        for (size_t i = 0; i < DLSH_COUNT(sided); i++)
            if (strstr(c, sided[i]) || !strcmp(c, "6") || !strcmp(c, "b")) return *by = c, 1;
    return 0;
}

dl_status dlsh_check_transforms(dlsh_examination *e) {
    dl_trainer_state st;
    const char *by = "", *turn;
    if (!e->trainer) return DL_OK;
    dl_trainer_get(e->trainer, &st);
    if (!*st.transforms) return DL_OK;
    turn = turns(st.transforms);
    dl_dataset *d = dl_trainer_dataset(e->trainer);
    if (!turn || !has_sides(d, &by)) {
        dlsh_passed(e, "%s", st.transforms);
        return DL_OK;
    }
    dl_source made = dl_optimizer_source(dl_trainer_optimizer(e->trainer));
    int line = dlsh_script_line_with(e, made.file, turn);
    dlsh_finding *f = dlsh_find_at(e, made.file, line ? line : made.line,
                                   "crop and small rotations keep the class; leave this one out");
    if (!f) return DL_OK;
    dlsh_cause(f, "the transform %s turns samples of one class into another class, or into none", turn);
    dlsh_evidence(f, "pictures of %s (%s) have a left and a right: 6 turned is 9, a mirrored 2 is not a digit",
                  dl_dataset_name(d), by);
    return DL_OK;
}
