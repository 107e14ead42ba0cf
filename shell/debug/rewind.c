/* rewind and replay: a trainer goes back to an earlier step and forward again. */
#include "commands/nets/nets.h"
#include "lang/eval/interp.h"
#include "view/sink.h"

enum { SHOWN = 16 }; /* digits of a hash */

static long step_of(const dl_trainer *t) {
    dl_trainer_state now = dlsh_trainer_state(t);
    return now.step;
}

static dl_status say_hash(dlsh_sink *sink, dl_trainer *t) {
    char hash[65];
    DLSH_TRY(dl_trainer_hash(t, hash));
    dlsh_put(sink, ", state %.*s\n", (int)SHOWN, hash);
    return DL_OK;
}

/* An interrupt says where the trainer stands and what goes on from there; other failures stay as they are. */
static dl_status stopped(const dlsh_args *a, dl_trainer *t, dl_status st, const char *what, const char *hint) {
    if (st != DL_ERR_INTERRUPT) return st;
    dlsh_place_clear(dlsh_arg_session(a));
    return dlsh_fail(st, hint, "%s was interrupted; the trainer stands after step %ld", what, step_of(t));
}

static dl_status rewind_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    long step = dlsh_arg_int(a, "step"), from = 0;
    dl_status st = dl_trainer_rewind(t, step, &from, NULL, NULL);
    DLSH_TRY(stopped(a, t, st, "rewind", "replay makes the steps up to the furthest again"));
    *result = dlsh_int(step);
    dlsh_put(dlsh_arg_sink(a), "after step %ld", step);
    if (from < step) dlsh_put(dlsh_arg_sink(a), ": step %ld was kept, %ld made again", from, step - from);
    return say_hash(dlsh_arg_sink(a), t);
}

static dl_status replay_run(const dlsh_args *a, dlsh_value *result) {
    dl_trainer *t = dlsh_arg_handle(a, "trainer", &dlsh_trainer_class);
    long checked;
    long to = dlsh_given(a, "step") ? dlsh_arg_int(a, "step") : -1;
    dl_status st = dl_trainer_replay(t, to, &checked, NULL, NULL);
    DLSH_TRY(stopped(a, t, st, "replay", "the same replay goes on from there"));
    *result = dlsh_int(step_of(t));
    dlsh_put(dlsh_arg_sink(a), "after step %ld: ", step_of(t));
    if (checked)
        dlsh_put(dlsh_arg_sink(a), "the same bits as before, compared at %ld step%s", checked, checked == 1 ? "" : "s");
    else
        dlsh_put(dlsh_arg_sink(a), "no kept step lies on the way to compare with");
    return say_hash(dlsh_arg_sink(a), t);
}

#define TRAINER                                                                                                        \
    { "trainer", .want = "trainer", .doc = "what trains" }

const dlsh_command rewind_commands[] = {
    DLSH_ROW(
        "rewind", DLSH_ACTION | DLSH_FUNCTION, rewind_run, "rewind TRAINER STEP",
        "Takes a trainer back to where it was after STEP steps: weights, optimizer, averages, random streams and "
        "position in the data, bit for bit. The nearest earlier state that was kept is restored, and the steps from "
        "there are made again; see the setting rewind. The run forgets what it recorded after that step.",
        DLSH_PARAMS(TRAINER, {"step", .want = "int", .doc = "how many steps it had made"}),
        .examples = "rewind t 0\nreplay t"),
    DLSH_ROW(
        "replay", DLSH_ACTION | DLSH_FUNCTION, replay_run, "replay TRAINER [STEP]",
        "After rewind, makes the steps up to STEP again, without it up to the furthest that the trainer had made, and "
        "compares bit for bit with the states that were kept. A difference is an error that names the first step "
        "and tensor: something outside of the trainer then has a part in the training.",
        DLSH_PARAMS(TRAINER, {"step", .want = "int", .flags = DLSH_OPTIONAL, .doc = "up to which step"}),
        .examples = "rewind t 0\nreplay t"),
    {0}};
