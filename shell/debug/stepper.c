/* Stopping before statements, for a client. */
#include "debug/stepper.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "debug/dbg.h"
#include "lang/eval/interp.h"

typedef struct breakpoint {
    char *path, *condition; /* condition: NULL, none */
    int line;
} breakpoint;

static struct {
    pthread_mutex_t lock; /* of what follows up to the gap */
    breakpoint *points;
    int n, cap;
    const dlsh_stepper_client *client;

    int pause, all, uncaught; /* atomic */

    /* of the session's thread */
    dlsh_step step;
    int depth; /* texts and calls where the step began */
    int busy;  /* the client evaluates something */
    int heard; /* of the failure that goes up through statements */
    const dl_error *error;
} stepper = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---------------------------------------------------------------- breakpoints */

static void drop_points(const char *path) {
    int kept = 0;
    for (int i = 0; i < stepper.n; i++) {
        breakpoint *b = &stepper.points[i];
        if (path && strcmp(b->path, path) != 0) {
            stepper.points[kept++] = *b;
            continue;
        }
        free(b->path);
        free(b->condition);
    }
    stepper.n = kept;
}

static dl_status add_point(const char *path, int line, const char *condition) {
    breakpoint *grown = dlsh_grow(stepper.points, stepper.n, &stepper.cap, sizeof *grown);
    if (!grown) return dl_failed();
    stepper.points = grown;
    breakpoint b = {strdup(path), condition ? strdup(condition) : NULL, line};
    if (!b.path || (condition && !b.condition)) {
        free(b.path);
        free(b.condition);
        return dlsh_no_memory("a breakpoint");
    }
    grown[stepper.n++] = b;
    return DL_OK;
}

dl_status dlsh_stepper_break(const char *path, int n, const int *lines, const char *const *conditions) {
    dl_status st = DL_OK;
    pthread_mutex_lock(&stepper.lock);
    drop_points(path);
    for (int i = 0; i < n && !st; i++) st = add_point(path, lines[i], conditions[i]);
    pthread_mutex_unlock(&stepper.lock);
    return st;
}

void dlsh_stepper_each(void (*fn)(const char *path, int line, void *to), void *to) {
    pthread_mutex_lock(&stepper.lock);
    for (int i = 0; i < stepper.n; i++) fn(stepper.points[i].path, stepper.points[i].line, to);
    pthread_mutex_unlock(&stepper.lock);
}

void dlsh_stepper_attach(dlsh_session *s, const dlsh_stepper_client *client) {
    pthread_mutex_lock(&stepper.lock);
    stepper.client = client;
    if (!client) drop_points(NULL);
    pthread_mutex_unlock(&stepper.lock);
    __atomic_store_n(&stepper.pause, 0, __ATOMIC_RELAXED);
    dlsh_stepper_exceptions(0, 0);
    dlsh_watch_statements(s, client != NULL);
}

void dlsh_stepper_exceptions(int all, int uncaught) {
    __atomic_store_n(&stepper.all, all, __ATOMIC_RELAXED);
    __atomic_store_n(&stepper.uncaught, uncaught, __ATOMIC_RELAXED);
}

void dlsh_stepper_pause(void) { __atomic_store_n(&stepper.pause, 1, __ATOMIC_RELAXED); }

const dlsh_stepper_client *dlsh_stepper_attached(void) {
    pthread_mutex_lock(&stepper.lock);
    const dlsh_stepper_client *client = stepper.client;
    pthread_mutex_unlock(&stepper.lock);
    return client;
}

/* Is there a breakpoint? *condition is to be freed; NULL: it has none. */
static int has_point(const char *path, int line, char **condition) {
    int found = 0;
    *condition = NULL;
    pthread_mutex_lock(&stepper.lock);
    for (int i = 0; i < stepper.n && !found; i++) {
        const breakpoint *b = &stepper.points[i];
        found = b->line == line && !strcmp(b->path, path);
        if (found && b->condition) *condition = strdup(b->condition);
    }
    pthread_mutex_unlock(&stepper.lock);
    return found;
}

/* A condition that fails stops, too: its mistake is to be seen. */
static int holds(dlsh_session *s, const char *condition) {
    dlsh_value v;
    int yes = 1;
    if (dlsh_running_run(s, 0, condition, strlen(condition), &v)) {
        dlsh_warn_failure(s);
        return 1;
    }
    if (dlsh_truth(v, &yes)) dl_error_clear();
    dlsh_drop(v);
    return yes;
}

static int stops_at_line(dlsh_session *s, const char *path, int line) {
    DLSH_FREED char *condition = NULL;
    int stops = has_point(path, line, &condition);
    if (stops && condition) stops = holds(s, condition);
    return stops;
}

/* ---------------------------------------------------------------- statements */

static int depth_now(const dlsh_session *s) {
    int n = 0;
    for (const dlsh_frame *f = s->frame; f; f = f->up) n++;
    return n;
}

/* Why it stops before a statement; NULL: it does not. */
static const char *reason(dlsh_session *s, const char *path, int line) {
    int depth = depth_now(s);
    if (__atomic_exchange_n(&stepper.pause, 0, __ATOMIC_RELAXED)) return "pause";
    if (stops_at_line(s, path, line)) return "breakpoint";
    if (stepper.step == DLSH_STEP_INTO || (stepper.step == DLSH_STEP_OVER && depth <= stepper.depth) ||
        (stepper.step == DLSH_STEP_OUT && depth < stepper.depth))
        return "step";
    return NULL;
}

static void stop(dlsh_session *s, const dlsh_stepper_client *client, const char *why) {
    stepper.step = client->stopped(s, why);
    stepper.depth = depth_now(s);
}

/* The loss of a `backward LOSS` without options; NULL: another statement. */
static const dlsh_node *loss_of(const dlsh_node *n) {
    const dlsh_command *row = n->kind == DLSH_N_COMMAND ? n->num.cmd : NULL;
    if (!row || strcmp(row->name, "backward") != 0 || n->nkids != 1 || n->kids[0]->kind == DLSH_N_OPTION) return NULL;
    return n->kids[0]->nkids ? n->kids[0]->kids[0] : n->kids[0];
}

/* Walks over the nodes of a loss in place of its `backward`. */
static int walk(dlsh_session *s, const dlsh_node *n, const dlsh_node *loss) {
    DLSH_DROPPED dlsh_value v = dlsh_void();
    stepper.busy = 0;
    if (dlsh_eval(s, loss, &v)) return -1;
    int done = v.type == DLSH_TENSOR;
    dl_status st = done ? dlsh_dbg_walk(s, v.as.tensor) : DL_OK;
    if (stepper.step != DLSH_STEP_RUN) stepper.step = DLSH_STEP_OVER;
    return dlsh_at(s, n, st) ? -1 : done;
}

static int at_statement(dlsh_session *s, const dlsh_node *n) {
    if (!stepper.busy) stepper.heard = 0;
    const dlsh_stepper_client *client = stepper.busy ? NULL : dlsh_stepper_attached();
    const char *path = client ? client->path(s->unit->name) : "";
    if (!*path || dlsh_dbg.active) return 0;
    stepper.busy = 1;
    const char *why = reason(s, path, n->span.line);
    const dlsh_node *loss = NULL;
    if (why) {
        stop(s, client, why);
        if (stepper.step == DLSH_STEP_INTO) loss = loss_of(n);
    }
    int done = loss ? walk(s, n, loss) : 0;
    stepper.busy = 0;
    return done ? done : dlsh_check_interrupt() ? dlsh_at(s, n, dl_failed()), -1 : 0;
}

/* ---------------------------------------------------------------- failures */

static int stops_at_failure(const dlsh_session *s) {
    const dl_error *e = dl_error_last();
    if (!e || e->code == DL_ERR_INTERRUPT) return 0;
    return __atomic_load_n(&stepper.all, __ATOMIC_RELAXED) ||
           (!s->tries && __atomic_load_n(&stepper.uncaught, __ATOMIC_RELAXED));
}

/* Stops at the failed statement, in its function, whose variables can be looked at. The failure and its place are put
 * aside meanwhile. */
static void stop_at_failure(dlsh_session *s, const dlsh_stepper_client *client, const dlsh_node *n) {
    dl_error e;
    dlsh_place place = s->place;
    const dlsh_node *last = s->statement;
    s->place = (dlsh_place){0};
    s->statement = n;
    dl_error_take(&e);
    stepper.busy = 1;
    stepper.error = &e;
    stop(s, client, "exception");
    stepper.error = NULL;
    stepper.busy = 0;
    s->statement = last;
    dlsh_place_clear(s);
    s->place = place;
    dl_error_put(&e);
}

static void at_failure(dlsh_session *s, const dlsh_node *n) {
    if (stepper.busy || stepper.heard) return;
    const dlsh_stepper_client *client = dlsh_stepper_attached();
    stepper.heard = 1;
    if (client && !dlsh_dbg.active && stops_at_failure(s) && *client->path(s->unit->name))
        stop_at_failure(s, client, n);
}

const dl_error *dlsh_stepper_error(void) { return stepper.error; }

/* ---------------------------------------------------------------- nodes */

int dlsh_stepper_into(void) { return stepper.step == DLSH_STEP_INTO && dlsh_stepper_attached(); }

const char *dlsh_stepper_word(dlsh_session *s) {
    static const char *const words[] = {
        [DLSH_STEP_RUN] = "continue", [DLSH_STEP_INTO] = "step", [DLSH_STEP_OVER] = "next",
        [DLSH_STEP_OUT] = "finish",   [DLSH_STEP_BACK] = "back", [DLSH_STEP_REVERSE] = "reverse"};
    const dlsh_stepper_client *client = dlsh_stepper_attached();
    if (!client) return "continue"; /* it has left */
    stop(s, client, "step");
    return words[stepper.step];
}

void dlsh_stepper_services(dlsh_services *to) {
    to->at_statement = at_statement;
    to->at_failure = at_failure;
}
