/* The op table in memory, and rows registered at run time. */
#include "core/op.h"
#include "ops/names.h"
#include "ops/rules.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const dl_op table[] = {
#include "ops/table_gen.h"
};

static dl_op rows[DL_NOP];
static int by_name[2 * DL_NOP + 1]; /* open addressing; id + 1, 0 empty */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Registered rows only grow, and are replaced by others of their name; readers need no lock. */
enum { MAX_REGISTERED = 1024 };
static const dl_op *registered[MAX_REGISTERED];
static int nregistered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned hash(const char *s) {
    unsigned h = 2166136261u;
    while (*s) h = (h ^ (unsigned char)*s++) * 16777619u;
    return h;
}

/* Parsed defaults of all rows, one after another. */
static dl_aval defaults[DL_NOP * DL_MAX_ATTR];

static void build(void) {
    memcpy(rows, table, sizeof rows);
    dl_aval *next = defaults;
    for (int i = 0; i < DL_NOP; i++) {
        rows[i].defaults = next;
        dl_attr_parse_defaults(&rows[i], next); /* a test demands that every default parses */
        next += rows[i].nattr;
        unsigned slot = hash(rows[i].name) % (2 * DL_NOP + 1);
        while (by_name[slot]) slot = (slot + 1) % (2 * DL_NOP + 1);
        by_name[slot] = i + 1;
    }
}

const dl_op *dl_op_row(int id) {
    pthread_once(&once, build);
    return &rows[id];
}

const dl_op *dl_op_find(const char *name) {
    pthread_once(&once, build);
    for (unsigned slot = hash(name) % (2 * DL_NOP + 1); by_name[slot]; slot = (slot + 1) % (2 * DL_NOP + 1))
        if (!strcmp(rows[by_name[slot] - 1].name, name)) return &rows[by_name[slot] - 1];
    for (int i = __atomic_load_n(&nregistered, __ATOMIC_ACQUIRE) - 1; i >= 0; i--) /* the newest of a name wins */
        if (!strcmp(registered[i]->name, name)) return registered[i];
    return NULL;
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
