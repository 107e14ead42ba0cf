/* The op table in memory, and rows registered at run time. */
#include "core/widening.h"
#include "dlcore_ops.h"
#include "ops/names/all.h"
#include "ops/rules/all.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const dl_op table[] = {
#include "ops/table_gen.h"
};
#include "ops/ids_gen.h"

static dl_op rows[DL_NOP];
enum { SLOTS = 2048 };
_Static_assert(SLOTS >= 2 * (DL_NOP + 1), "the table of names would have to grow");
static int slots[SLOTS]; /* not allocated: finding an op never fails for lack of memory */
static dl_names by_name = {slots, SLOTS};
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Registered rows only grow, and are replaced by others of their name; readers need no lock. */
enum { MAX_REGISTERED = 1024 };
static const dl_op *registered[MAX_REGISTERED];
static int nregistered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const char *name_of(const void *rows, int i) { return ((const dl_op *)rows)[i].name; }

/* Parsed defaults of all rows, one after another. */
static dl_aval defaults[DL_NOP * DL_MAX_ATTR];

static void build(void) {
    memcpy(rows, table, sizeof rows);
    dl_aval *next = defaults;
    memset(slots, 0xff, sizeof slots);
    for (int i = 0; i < DL_NOP; i++) {
        rows[i].defaults = next;
        dl_attr_parse_defaults(&rows[i], next); /* a test demands that every default parses */
        next += rows[i].nattr;
        dl_names_add(&by_name, i, name_of, rows);
    }
}

const dl_op *dl_op_row(int id) {
    pthread_once(&once, build);
    return &rows[id];
}

static const char *const aliases[][2] = {
#define ALIAS(other, name) {#other, #name},
#include "ops/aliases.def"
};

/* The name of the row that a name stands for. */
static const char *row_name(const char *name) {
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (!strcmp(aliases[i][0], name)) return aliases[i][1];
    return name;
}

const dl_op *dl_op_find(const char *name) {
    pthread_once(&once, build);
    int row = dl_names_find(&by_name, name, (long)strlen(name), name_of, rows);
    if (row >= 0) return &rows[row];
    for (int i = __atomic_load_n(&nregistered, __ATOMIC_ACQUIRE) - 1; i >= 0; i--) /* the newest of a name wins */
        if (!strcmp(registered[i]->name, name)) return registered[i];
    const char *other = row_name(name);
    row = other == name ? -1 : dl_names_find(&by_name, other, (long)strlen(other), name_of, rows);
    return row >= 0 ? &rows[row] : NULL;
}

const dl_op *dl_op_at(int i) {
    pthread_once(&once, build);
    if (i < DL_NOP) return &rows[i];
    return i - DL_NOP < __atomic_load_n(&nregistered, __ATOMIC_ACQUIRE) ? registered[i - DL_NOP] : NULL;
}

static dl_status add_registered(const dl_op *op) {
    for (int i = 0; i < nregistered; i++)
        if (!strcmp(registered[i]->name, op->name)) {
            const dl_op *old = registered[i];
            __atomic_store_n(&registered[i], op, __ATOMIC_RELEASE);
            dl_op_unref(old);
            return DL_OK;
        }
    if (nregistered == MAX_REGISTERED)
        return dl_fail(DL_ERR_VALUE, "at most %d ops can be registered in one process", MAX_REGISTERED);
    registered[nregistered] = op;
    __atomic_store_n(&nregistered, nregistered + 1, __ATOMIC_RELEASE);
    return DL_OK;
}

dl_status dl_op_register(const dl_op *op) {
    const dl_op *row = dl_op_find(op->name);
    if (row && row->id >= 0)
        return dl_fail_hint(DL_ERR_NAME, "choose another name", "the library has an op '%s' already", op->name);
    pthread_mutex_lock(&lock);
    dl_status s = add_registered(op);
    pthread_mutex_unlock(&lock);
    return s;
}
