/* What statements changed, kept so that `undo` can take it back. */
#pragma once

#include "lang/session.h"

/* Before and after a statement at the top level. */
void dlsh_undo_services(dlsh_services *to);
/* An optimizer or a trainer is about to take steps, wherever in the statement. */
void dlsh_undo_optimizer(dlsh_session *s, dl_optimizer *o);
void dlsh_undo_trainer(dlsh_session *s, dl_trainer *t);
/* A person types the statements: they are kept unless the setting says otherwise. */
void dlsh_undo_for_people(void);
/* Bytes that may be kept; 0: nothing is. */
unsigned long dlsh_undo_budget_get(void);
void dlsh_undo_budget_set(unsigned long bytes);

/* ---- the log (log.c) */
typedef enum dlsh_undo_kind {
    DLSH_UNDO_VARIABLE, /* `old` was the value of the variable `name`; VOID: it had none */
    DLSH_UNDO_FIELD,    /* `old` was the field `name` of `owner` */
    DLSH_UNDO_ITEMS,    /* `old` is a copy of the list or record `owner` */
    DLSH_UNDO_CONTENTS, /* `old` is a copy of the tensor `owner` */
    DLSH_UNDO_STATE,    /* `state` was that of the optimizer `self` */
    DLSH_UNDO_TRAINER   /* the trainer `self` had made `before` steps */
} dlsh_undo_kind;

typedef struct dlsh_undo_part {
    dlsh_undo_kind kind;
    char name[64];
    dlsh_value owner, old; /* owned */
    void *self;            /* a reference to an optimizer; a trainer is not held */
    dl_tensor_file *state;
    int without_history;         /* the values of a result are kept, not what its gradient needs */
    unsigned long before, after; /* stamps of what is changed */
} dlsh_undo_part;

/* What one statement changed. */
typedef struct dlsh_undo_entry {
    char text[80];
    int n, cap;
    dlsh_undo_part *parts;
    size_t bytes;
    char missing[240]; /* why it cannot be taken back; "" */
} dlsh_undo_entry;

/* A part of that kind, filled in by the caller; what it holds needs so many bytes. NULL: it does not fit, which the
 * entry then says. */
dlsh_undo_part *dlsh_undo_part_new(dlsh_undo_entry *e, dlsh_undo_kind kind, const char *name, size_t bytes);
/* A number that tells what is there now from what was there. */
unsigned long dlsh_undo_stamp(dlsh_session *s, const dlsh_undo_part *p);
void dlsh_undo_part_free(dlsh_undo_part *p);
void dlsh_undo_entry_free(dlsh_undo_entry *e);
/* The values of a tensor, copied; NULL: a recorded failure. */
dl_tensor *dlsh_undo_copy(dl_tensor *t);
size_t dlsh_undo_bytes(const dl_tensor *t);
/* Takes back all parts, or fails before the first. */
dl_status dlsh_undo_apply(dlsh_session *s, dlsh_undo_entry *e);

/* ---- notes (notes.c): what the statement is about to change */
void dlsh_undo_statement(dlsh_session *s, dlsh_undo_entry *e, const dlsh_node *n);
/* Does it call or repeat something, so that more may change than its tree shows? */
int dlsh_undo_is_deep(const dlsh_node *n);
void dlsh_undo_note_optimizer(dlsh_undo_entry *e, dl_optimizer *o);
void dlsh_undo_note_trainer(dlsh_undo_entry *e, dl_trainer *t);

/* ---- the watch (watch.c) */
void dlsh_undo_watch_begin(dlsh_session *s);
/* The name of a tensor that was written to and is no part of the entry, or, of an entry without parts, of a gradient;
 * NULL: there is none. */
const char *dlsh_undo_watch_end(const dlsh_undo_entry *e, char *name, size_t size);
