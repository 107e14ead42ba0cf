/* Going on with a run, in the process that `run resume` started for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/context.h"
#include "commands/history/redo.h"
#include "commands/nets/nets.h"

static struct {
    int read, taken, by_hand;
    long place, newest, run;
    char path[4096];
    long at; /* the step at which the calls of train so far ended, when the run was made; by hand: of the checkpoint */
} order;

/* The order is for this process alone, not for those that its script starts. */
static int ordered(void) {
    const char *text = order.read ? NULL : getenv(DLSH_RESUME);
    if (text &&
        sscanf(text, "%ld:%ld:%ld:%ld:%4095[^\n]", &order.place, &order.newest, &order.run, &order.at, order.path) != 5)
        *order.path = 0;
    if (!order.read) order.by_hand = order.at >= 0, order.at = order.by_hand ? order.at : 0;
    if (!order.read) unsetenv(DLSH_RESUME);
    order.read = 1;
    return *order.path != 0;
}

/* How many runs this process has begun. */
static long begun(dl_store *store) {
    char sql[200];
    long n;
    snprintf(sql, sizeof sql, "select count(*) from run where id > %ld and pid = %ld", order.newest, (long)getpid());
    return dlsh_ask(store, sql, &n) ? -1 : n;
}

static dl_status warn_of_data(const dlsh_args *a, dl_store *store, const dl_trainer *t) {
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dl_run_show(store, order.run);
    if (!l) return dl_failed();
    if (strcmp(l->runs->data_fingerprint, dl_dataset_fingerprint(dl_trainer_given(t))))
        dlsh_warn(dlsh_arg_session(a), NULL, "the data are not those that run %ld was trained with until now",
                  order.run);
    return DL_OK;
}

/* Where the argument `name` stands in "lr=0.1 width=8"; NULL: nowhere. */
static const char *argument(const char *all, const char *name) {
    const size_t n = strlen(name);
    for (const char *c = all; c; c = (c = strchr(c, ' ')) ? c + 1 : NULL)
        if (!strncmp(c, name, n) && c[n] == '=') return c;
    return NULL;
}

/* The parameters of the run that are arguments given anew. The others stay: the trainer may have set them. */
static dl_status note_given(dl_run *run, const char *before, const char *now) {
    for (char **v = dlsh_script_args_get()->values; v && v[0] && v[1]; v += 2) {
        const char *is = argument(now, v[0]), *was = argument(before, v[0]);
        const size_t n = is ? strcspn(is, " ") : 0;
        if (is && !(was && strcspn(was, " ") == n && !strncmp(is, was, n))) DLSH_TRY(dl_run_param(run, v[0], v[1]));
    }
    return DL_OK;
}

/* In the run that goes on: how many runs this process has begun before it, and the arguments, if they are others now.
 */
static dl_status note(dl_store *store, dl_run *run, long step) {
    char place[24];
    snprintf(place, sizeof place, "%ld", order.place);
    DLSH_TRY(dl_run_event(run, step, DLSH_PLACE, place, NULL));
    DLSH_ENDED(dl_run_list_free) dl_run_list *l = dl_run_show(store, order.run);
    if (!l) return dl_failed();
    const char *before = dlsh_arguments_of(l->runs), *now = dlsh_origin_get()->args;
    if (!strcmp(before, now)) return DL_OK;
    DLSH_TRY(note_given(run, before, now));
    return dl_run_event(run, step, DLSH_ARGUMENTS, now, NULL);
}

/* Is this the trainer of the run? Then it takes up the checkpoint. */
static dl_status take(const dlsh_args *a, dl_trainer *t) {
    dl_trainer_state s = dlsh_trainer_state(t);
    dl_store *store = dlsh_store(dlsh_arg_session(a));
    if (!store) return dl_failed();
    if (s.run || s.step) return DL_OK;
    DLSH_TRY(dl_store_flush(store));
    if (begun(store) != order.place) return DL_OK;
    DLSH_TRY(dl_trainer_load(t, order.path));
    order.taken = 1;
    dl_trainer_get(t, &s);
    if (s.run == order.run) DLSH_TRY(note(store, dl_trainer_run(t), s.step));
    dlsh_put(dlsh_arg_sink(a), "run %ld goes on after step %ld\n", order.run, s.step);
    return warn_of_data(a, store, t);
}

dl_status dlsh_take_up(const dlsh_args *a, dl_trainer *t, long *epochs, long *steps) {
    if (!ordered() || order.by_hand) return DL_OK;
    if (!order.taken) DLSH_TRY(take(a, t));
    dl_trainer_state s = dlsh_trainer_state(t);
    if (!order.taken || s.run != order.run) return DL_OK;
    const long per = (s.batches + s.accumulate - 1) / s.accumulate;
    const long until = *epochs ? (order.at / per + *epochs) * per : order.at + *steps;
    order.at = until;
    if (until <= s.step || *s.stopped)
        *epochs = *steps = 0;
    else if (*epochs)
        *epochs = until / per - s.step / per;
    else
        *steps = until - s.step;
    return DL_OK;
}

/* ---------------------------------------------------------------- loops written by hand */

const char *dlsh_resumed(void) { return ordered() && order.by_hand ? order.path : NULL; }

/* When the checkpoint was noted, and the last step that was logged until then: it may count something else than the
 * step of the checkpoint. */
static dl_status look_back(dl_store *store, long *taken_us, long *logged) {
    char sql[400];
    snprintf(sql, sizeof sql,
             "select coalesce(max(t_us), 0) from event where run_id = %ld and kind = 'checkpoint' and step = %ld",
             order.run, order.at);
    DLSH_TRY(dlsh_ask(store, sql, taken_us));
    snprintf(sql, sizeof sql,
             "select coalesce(max(m.step), -1) from metric m join series s on s.id = m.series_id where s.run_id = %ld"
             " and s.key not like 'system/%%' and m.t_us <= %ld",
             order.run, *taken_us);
    return dlsh_ask(store, sql, logged);
}

dl_status dlsh_take_up_run(const dlsh_args *a, dl_store *store, dl_run **run, long *step) {
    long taken_us, logged;
    *run = NULL;
    if (!dlsh_resumed() || order.taken) return DL_OK;
    DLSH_TRY(dl_store_flush(store));
    if (begun(store) != order.place) return DL_OK;
    DLSH_TRY(look_back(store, &taken_us, &logged));
    if (!(*run = dl_run_resume(store, order.run, logged + 1, taken_us))) return dl_failed();
    order.taken = 1;
    *step = logged < 0 ? 0 : logged;
    dlsh_put(dlsh_arg_sink(a), "run %ld goes on after step %ld\n", order.run, order.at);
    return note(store, *run, order.at);
}
