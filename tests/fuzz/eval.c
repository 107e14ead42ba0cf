/* Fuzz target: any text runs or fails with an error that has a place and a message; values can be shown as text and
 * JSON; everything is released. The rows are the language's own; endless programs are interrupted. */
#include <assert.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/time.h>

#include "fuzz/fuzz.h"
#include "lang/session.h"

static void text(dlsh_sink *s, const char *b, size_t n) { (void)s, (void)b, (void)n; }
static dl_status value(dlsh_sink *s, dlsh_value v) {
    dlsh_buf b = {0};
    (void)s;
    dl_status st = dlsh_repr(&b, v);
    dlsh_buf_free(&b);
    if (!st) st = dlsh_json(&b, v);
    dlsh_buf_free(&b);
    return st;
}
static dl_status table(dlsh_sink *s, const dlsh_table *t) { return (void)s, (void)t, DL_OK; }
static void error(dlsh_sink *s, const dlsh_diag *d) {
    (void)s;
    assert(d->message[0] && d->line >= 1 && d->col >= 1 &&
           strlen(d->source) + strlen(d->hint) + strlen(d->trace) < 1 << 20);
}
static void flush(dlsh_sink *s) { (void)s; }
static const dlsh_sink_ops ops = {.text = text, .value = value, .table = table, .error = error, .flush = flush};
static dlsh_sink sink = {&ops};

static void on_alarm(int sig) { (void)sig, dlsh_interrupt(); }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct itimerval soon = {{0, 100000}, {0, 100000}}, off = {{0, 0}, {0, 0}};
    dlsh_session *s = dlsh_session_new(&sink, &(dlsh_services){.keep_going = 1});
    assert(s);
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &soon, NULL);
    dlsh_run(s, "fuzz", (const char *)data, size, NULL);
    dlsh_report_error(s);
    setitimer(ITIMER_REAL, &off, NULL);
    dl_interrupt_set(0);
    dlsh_session_free(s);
    return 0;
}
