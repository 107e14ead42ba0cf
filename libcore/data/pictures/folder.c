/* Finding files of pictures, see folder.h. */
#include "data/pictures/folder.h"
#include "core/scope.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/interrupt.h"
#include "core/list.h"
#include "data/tables/csv.h"
#include "data/data.h"
#include "dlcore.h"
#include "io/format.h"
#include "io/nearest_file.h"

enum { DEEPEST = 32 };

void dl_picture_list_free(dl_picture_list *l) {
    for (long i = 0; i < l->n; i++) free(l->file[i].path);
    free(l->file);
    *l = (dl_picture_list){0};
}

void dl_class_list_free(dl_class_list *l) {
    for (long i = 0; i < l->n; i++) free(l->name[i]);
    free(l->name);
    *l = (dl_class_list){0};
}

static dl_status no_memory(const char *dir) {
    return dl_fail(DL_ERR_MEMORY, "no memory for the names of files in '%s'", dir);
}

/* ---------------------------------------------------------------- names */

/* dir/name, or name where it begins at the root; NULL: no memory. */
static char *joined(const char *dir, const char *name) {
    char *path = malloc(strlen(dir) + strlen(name) + 2);
    if (path && *name == '/') return strcpy(path, name);
    if (path) sprintf(path, "%s/%s", dir, name);
    return path;
}

static bool is_picture(const char *name) {
    dl_format f = dl_format_of_name(name);
    return f == DL_FORMAT_PNG || f == DL_FORMAT_JPEG;
}

/* Pictures that would be missed without a word. */
static bool is_other_picture(const char *name) {
    static const char *const endings[] = {".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".heic"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcasecmp(dot, endings[i])) return true;
    return false;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* What is in a folder, sorted, but for names that begin with a point. The caller frees it, also on failure. */
static dl_status list_folder(const char *dir, dl_class_list *out) {
    DIR *d = opendir(dir);
    if (!d) return dl_fail_file("open", dir);
    dl_status st = DL_OK;
    struct dirent *e;
    while (st == DL_OK && (errno = 0, e = readdir(d))) {
        if (*e->d_name == '.') continue;
        st = dl_interrupt_check_at(out->n);
        if (st == DL_OK) st = DL_LIST_ROOM(out->name, out->n, out->cap);
        if (st == DL_OK && !(out->name[out->n++] = strdup(e->d_name))) out->n--, st = no_memory(dir);
    }
    if (st == DL_OK && errno) st = dl_fail_file("read", dir);
    closedir(d);
    if (out->n) qsort(out->name, (size_t)out->n, sizeof *out->name, by_name);
    return st;
}

/* ---------------------------------------------------------------- folders */

/* Takes the path, of a file whose size is known. */
static dl_status add_file(dl_picture_list *out, char *path, long folder, long label, int64_t size) {
    if (DL_LIST_ROOM(out->file, out->n, out->cap) != DL_OK) return free(path), dl_failed();
    out->file[out->n++] = (dl_picture_file){path, folder, label, size};
    return DL_OK;
}

static dl_status add_folder(const char *dir, long label, int depth, dl_picture_list *out);

static dl_status add_entry(const char *dir, const char *name, long label, int depth, dl_picture_list *out) {
    struct stat info;
    char *path = joined(dir, name);
    if (!path) return no_memory(dir);
    dl_status st = stat(path, &info) ? dl_fail_file("open", path) : DL_OK;
    if (st == DL_OK && S_ISREG(info.st_mode) && is_picture(name))
        return add_file(out, path, (long)strlen(dir), label, (int64_t)info.st_size);
    if (st == DL_OK && S_ISREG(info.st_mode) && is_other_picture(name))
        st = dl_fail_hint(DL_ERR_UNSUPPORTED, "convert it, or move it elsewhere",
                          "'%s' is a picture of a format that is not read; .png, .jpg and .jpeg are", path);
    if (st == DL_OK && S_ISDIR(info.st_mode)) st = add_folder(path, label, depth + 1, out);
    free(path);
    return st;
}

static dl_status add_folder(const char *dir, long label, int depth, dl_picture_list *out) {
    dl_class_list names = {0};
    if (depth > DEEPEST) return dl_fail(DL_ERR_IO, "'%s' is nested more than %d folders deep", dir, DEEPEST);
    dl_status st = list_folder(dir, &names);
    for (long i = 0; st == DL_OK && i < names.n; i++) st = add_entry(dir, names.name[i], label, depth, out);
    dl_class_list_free(&names);
    return st;
}

/* By class, then folder, then name: the order of torchvision's ImageFolder. */
static int by_place(const void *a, const void *b) {
    const dl_picture_file *x = a, *y = b;
    if (x->label != y->label) return x->label < y->label ? -1 : 1;
    long n = x->folder < y->folder ? x->folder : y->folder;
    int first = strncmp(x->path, y->path, (size_t)n);
    if (first) return first;
    if (x->folder != y->folder) return x->folder < y->folder ? -1 : 1;
    return strcmp(x->path, y->path);
}

static bool is_folder(const char *dir, const char *name) {
    struct stat info;
    DL_FREED char *path = joined(dir, name);
    return path && !stat(path, &info) && S_ISDIR(info.st_mode);
}

static long find_class(const dl_class_list *l, const char *name) {
    char **at = l->n ? bsearch(&name, l->name, (size_t)l->n, sizeof *l->name, by_name) : NULL;
    return at ? (long)(at - l->name) : -1;
}

static dl_status unknown_class(const char *what, const char *name, const dl_class_list *known) {
    return dl_fail_unknown(name, (const char *const *)known->name, known->n < 64 ? (int)known->n : 64,
                           "the classes are those of the training split", "%s: the training split has no class '%s'",
                           what, name);
}

/* The folders of a folder. */
static dl_status find_folders(const char *dir, dl_class_list *out) {
    dl_class_list all = {0};
    dl_status st = list_folder(dir, &all);
    for (long i = 0; st == DL_OK && i < all.n; i++) {
        if (!is_folder(dir, all.name[i])) continue;
        st = DL_LIST_ROOM(out->name, out->n, out->cap);
        if (st == DL_OK) out->name[out->n++] = all.name[i], all.name[i] = NULL;
    }
    dl_class_list_free(&all);
    if (st == DL_OK && !out->n)
        st = dl_fail_hint(DL_ERR_FORMAT, "or give labels=\"FILE.csv\" with the names of files and their classes",
                          "'%s' has no folders; there is to be one for each class", dir);
    if (st == DL_OK && out->n > DL_MAX_CLASSES)
        st =
            dl_fail(DL_ERR_VALUE, "'%s' has %ld folders; at most %d classes are possible", dir, out->n, DL_MAX_CLASSES);
    return st;
}

static dl_status add_class_folder(const char *dir, const char *name, long label, dl_picture_list *out) {
    long before = out->n;
    char *path = joined(dir, name);
    dl_status st = path ? add_folder(path, label, 0, out) : no_memory(dir);
    free(path);
    if (st != DL_OK || out->n > before) return st;
    return dl_fail(DL_ERR_FORMAT, "'%s/%s' has no pictures; .png, .jpg and .jpeg are read", dir, name);
}

dl_status dl_pictures_of_folders(const char *dir, dl_class_list *classes, dl_picture_list *out) {
    dl_class_list folders = {0};
    bool training = !classes->n;
    dl_status st = find_folders(dir, &folders);
    for (long i = 0; st == DL_OK && i < folders.n; i++) {
        long label = training ? i : find_class(classes, folders.name[i]);
        st = label < 0 ? unknown_class(dir, folders.name[i], classes)
                       : add_class_folder(dir, folders.name[i], label, out);
    }
    if (st == DL_OK) qsort(out->file, (size_t)out->n, sizeof *out->file, by_place);
    if (training)
        *classes = folders;
    else
        dl_class_list_free(&folders);
    return st;
}

/* ---------------------------------------------------------------- a table */

/* The fields of a table of labels: names of files, and what stands in the last column. */
typedef struct table {
    const char *dir, *path;
    dl_picture_list *out;
    dl_class_list labels; /* of each file */
    long row;
    char *name;  /* of the file of this row */
    bool header; /* the first row names columns */
} table;

static dl_status end_row(table *t) {
    struct stat info;
    if (!t->name) return DL_OK;
    char *path = joined(t->dir, t->name);
    bool there = path && !stat(path, &info) && S_ISREG(info.st_mode);
    if (there) return add_file(t->out, path, (long)strlen(t->dir), 0, (int64_t)info.st_size);
    dl_status st = path ? DL_OK : no_memory(t->dir);
    if (st == DL_OK && !t->row) /* the names of columns */
        free(t->labels.name[--t->labels.n]);
    else if (st == DL_OK)
        st = dl_fail_hint(DL_ERR_IO, "the first column has the names of files in the folder",
                          "'%s', row %ld: there is no file '%s'", t->path, t->row + 1, path);
    free(path);
    return st;
}

static dl_status take_cell(void *ctx, long row, long column, const char *text) {
    table *t = ctx;
    if (!column) {
        if (row) DL_TRY(end_row(t));
        DL_TRY(dl_interrupt_check_at(row));
        free(t->name);
        t->row = row;
        if (!(t->name = strdup(text))) return no_memory(t->dir);
        DL_TRY(DL_LIST_ROOM(t->labels.name, t->labels.n, t->labels.cap));
        t->labels.name[t->labels.n++] = NULL;
        return DL_OK;
    }
    char **label = &t->labels.name[t->labels.n - 1]; /* the last column stays */
    free(*label);
    return (*label = strdup(text)) ? DL_OK : no_memory(t->dir);
}

static int by_value(const void *a, const void *b) {
    int64_t x = 0, y = 0;
    (void)dl_csv_whole(*(char *const *)a, &x), (void)dl_csv_whole(*(char *const *)b, &y);
    return x < y ? -1 : x > y;
}

/* The different labels of a table, integers by value. */
static dl_status find_labels(const table *t, dl_class_list *out, bool *whole) {
    int64_t v;
    *whole = true;
    if (!(out->name = dl_data_alloc(t->labels.n, sizeof *out->name))) return dl_failed();
    for (long i = 0; i < t->labels.n; i++) {
        if (!t->labels.name[i]) return dl_fail(DL_ERR_FORMAT, "'%s' has one column; a label is wanted, too", t->path);
        *whole = *whole && dl_csv_whole(t->labels.name[i], &v);
        if (!(out->name[out->n++] = strdup(t->labels.name[i]))) return out->n--, no_memory(t->dir);
    }
    if (!out->n) return dl_fail(DL_ERR_FORMAT, "'%s' names no files", t->path);
    int (*order)(const void *, const void *) = *whole ? by_value : by_name;
    qsort(out->name, (size_t)out->n, sizeof *out->name, order);
    long n = 1;
    for (long i = 1; i < out->n; i++) {
        if (order(&out->name[i], &out->name[n - 1]))
            out->name[n++] = out->name[i];
        else
            free(out->name[i]);
    }
    out->n = n;
    if (n <= DL_MAX_CLASSES) return DL_OK;
    return dl_fail(DL_ERR_VALUE, "the labels of '%s' have more than %d different values", t->path, DL_MAX_CLASSES);
}

static dl_status label_files(const table *t, const dl_class_list *classes, bool whole) {
    for (long i = 0; i < t->out->n; i++) {
        char **name = &t->labels.name[i];
        char **at = bsearch(name, classes->name, (size_t)classes->n, sizeof *name, whole ? by_value : by_name);
        if (!at) return unknown_class(t->path, *name, classes);
        t->out->file[i].label = (long)(at - classes->name);
    }
    return DL_OK;
}

dl_status dl_pictures_of_table(const char *dir, const char *path, dl_class_list *classes, dl_picture_list *out) {
    table t = {.dir = dir, .path = path, .out = out};
    bool whole = false;
    dl_status st = dl_csv_read(path, ',', take_cell, &t);
    if (st == DL_OK) st = end_row(&t);
    if (st == DL_OK) st = find_labels(&t, classes, &whole);
    if (st == DL_OK) st = label_files(&t, classes, whole);
    free(t.name);
    dl_class_list_free(&t.labels);
    return st;
}
