/* Handles of nets, optimizers and trainers, for commands that take or give them. */
#pragma once

#include "lang/eval/pure.h"
#include "lang/session.h"

/* self: dl_module *. Layers of a net are handles of the same class. */
extern const dlsh_class dlsh_net_class;
/* self: dl_optimizer *. */
extern const dlsh_class dlsh_optimizer_class;
extern const dlsh_class dlsh_group_class;
/* self: dl_schedule *. */
extern const dlsh_class dlsh_schedule_class;
/* A schedule bound to an optimizer (schedule.c). */
extern const dlsh_class dlsh_scheduler_class;
/* self: dl_trainer *. */
extern const dlsh_class dlsh_trainer_class;
/* self: a run open in the store (record.c). */
extern const dlsh_class dlsh_run_class;
extern const dlsh_command dlsh_trainer_methods[]; /* record.c */

/* A handle over a new reference; NULL, from a failed call of the library, gives VOID. */
dlsh_value dlsh_net_value(dl_module *m);

/* Bytes of parameters with their gradients, of these with an optimizer's state (held of a class). */
size_t dlsh_net_held(void *net);
size_t dlsh_optimizer_held(void *optimizer);

/* Lets `net` statements build nets. */
void dlsh_nets_serve(dlsh_services *to);

static inline dl_trainer_state dlsh_trainer_state(const dl_trainer *t) {
    dl_trainer_state s;
    dl_trainer_get(t, &s);
    return s;
}

/* A number as a value; NaN becomes none. */
dlsh_value dlsh_known(double v);

/* ---- a value of the language as an argument of layers, optimizers and schedules */

enum { DLSH_ARG_ROOM = 16 };
typedef struct dlsh_arg_room {
    long v[DLSH_ARG_ROOM];
    double fv[DLSH_ARG_ROOM];
} dlsh_arg_room;
/* Lists are copied to `room`. Strings are borrowed from v. DL_ERR_TYPE for what is no number, word or list. */
dl_status dlsh_to_arg(const char *name, dlsh_value v, dlsh_arg_room *room, dl_arg *out);
/* Adds the arguments written name=value that the row does not list. */
dl_status dlsh_extra_args(const dlsh_args *a, dl_arg *args, dlsh_arg_room *room, int *n);

/* ---- nets as values (net.c), their methods (net_methods.c) */
extern const dlsh_command dlsh_net_methods[];
dl_status dlsh_show_summary(dlsh_sink *sink, dl_module *m, const dl_summary *s);
/* The tensors of a record, the argument `state`, as those of a file; NULL: a recorded failure. */
dl_tensor_file *dlsh_file_of_record(const dlsh_args *a, const dlsh_record *r);
/* Is it a parameter or buffer that a net itself holds? */
int dlsh_is_net_tensor(const dl_module *m);
/* Puts a net or a layer in the place of a part (net_build.c). */
dl_status dlsh_replace_part(dl_module *m, const char *label, dlsh_value v);

/* A call of a layer that takes several tensors (layer_call.c). */
dl_status dlsh_call_layer(dl_module *m, const dlsh_callargs *args, dlsh_value *out);

/* A function of the language that the library calls; freed with dlsh_callback_free (a release function). */
typedef struct dlsh_callback {
    dlsh_session *session;
    dlsh_value fn;
    dlsh_purity *purity;        /* NULL: nobody has asked */
    struct dlsh_callback *next; /* of a net's forward: the first method; of a method: the next one; owned */
} dlsh_callback;
/* Tells of the references behind a net, a reference to which is held (a `values` of a class). */
void dlsh_net_values(void *net, const dlsh_visitor *to);
dlsh_callback *dlsh_callback_new(dlsh_session *s, dlsh_value fn);
void dlsh_callback_free(void *cb);
/* A dl_key_fn. */
dl_status dlsh_callback_key(void *cb, unsigned long *out);
/* Calls it with n values; an owned tensor, or NULL with the failure recorded. */
dl_tensor *dlsh_callback_call(dlsh_callback *cb, dlsh_value *in, int n);

/* ---- nets with a forward of their own (net_forward.c) */
/* The forward of a net with its methods (a list, or VOID), or the shape of one of its tensors, for the library; NULL: a
 * recorded failure. */
dl_code *dlsh_forward_code(dlsh_session *s, dlsh_value forward, dlsh_value methods);
dl_code *dlsh_shape_code(dlsh_session *s, dlsh_value shape);
/* Tensors that stand in the places of a net's own during a call; borrowed. */
typedef struct dlsh_stand_ins {
    const char *const *paths;
    dl_tensor *const *tensors;
    long n;
} dlsh_stand_ins;
/* Calls a net with the arguments of a call; stand-ins may be NULL. */
dl_status dlsh_call_net(dl_module *m, const dlsh_callargs *args, const dlsh_stand_ins *with, dlsh_value *out);
/* The parts of a net as a function of it names them; *n of them, owned. missing: those without weights yet are VOID,
 * not failures. NULL: a recorded failure. */
dlsh_value *dlsh_net_parts(dlsh_callback *cb, dl_module *net, int missing, int *n);
/* References of code, for the collector. */
void dlsh_code_values(void *code, const dlsh_visitor *to);

/* ---- methods of nets (net_functions.c) */
/* The method of that name as a value, with "forward" the net itself. DL_ERR_NAME, unrecorded: there is none. */
dl_status dlsh_net_function(dl_module *m, const char *name, dlsh_value *out);
/* Appends their names to a list. */
dl_status dlsh_net_function_names(dl_module *m, dlsh_value list);

/* n tensors as a value: one as it is, several as a list, or as a record where they have names. VOID: a recorded
 * failure. */
dlsh_value dlsh_tensors_value(dl_tensor *const *t, int n, const char *const *names);
/* What a net gave, as a value; VOID: a recorded failure. */
dlsh_value dlsh_pack_value(const dl_pack *p);

/* The argument of zero_grad, and its check. */
extern const dlsh_param dlsh_none_params[];
dl_status dlsh_check_none(const dlsh_args *a);

/* The row of the table (groups.c). */
const dl_kind_row *dlsh_optimizer_kind(const dl_optimizer *o);
/* o.param_groups (groups.c): a list; VOID: a recorded failure. */
dlsh_value dlsh_param_groups(dl_optimizer *o);

/* Where the weights of a net are; without weights where new ones would be. */
int dlsh_net_device(dl_module *m);

/* How many tensors, nets and trainers `rescue` would save. */
int dlsh_rescue_count(dlsh_session *s);
