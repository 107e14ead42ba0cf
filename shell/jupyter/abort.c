/* Which cells a failed cell aborts: those that wait, and those that their client sent before it could know of the
 * failure.
 *
 * "Run all" sends every cell at once, and a failure may be answered before the second one has arrived. So the answer
 * waits ON_ITS_WAY seconds; a cell that arrives later is aborted when it was sent, by the clock of its client, before
 * the answer left. Browsers send a long notebook over many milliseconds: ONE_BURST. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jupyter/kernel.h"

#define ON_ITS_WAY 0.005 /* seconds the answer waits */
#define ONE_BURST 0.04   /* seconds between two cells that a browser sends in one go */

static struct {
    int is;
    char session[64];
    double sent, known; /* by the client's clock: the last of its cells that failed or was aborted; the answer */
} failure;

static const char *header_text(const jup_request *r, const char *name) {
    const char *s = json_string_value(json_object_get(r->header, name));
    return s ? s : "";
}

/* When it was sent, in seconds of the client's clock; NAN when it does not say. Browsers count milliseconds. */
static double time_sent(const jup_request *r, int *browser) {
    struct tm t = {0};
    double seconds;
    int from = 0, to = 0;
    const char *date = header_text(r, "date");
    if (sscanf(date, "%4d-%2d-%2dT%2d:%2d:%n%lf%n", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &from,
               &seconds, &to) != 6)
        return NAN;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    *browser = to - from <= 6; /* 07.123 */
    return (double)timegm(&t) + seconds;
}

void jup_cell_failed(const jup_request *r) {
    int browser;
    struct timespec moment = {0, (long)(ON_ITS_WAY * 1e9)};
    nanosleep(&moment, NULL);
    jup_abort_waiting();
    snprintf(failure.session, sizeof failure.session, "%s", header_text(r, "session"));
    failure.sent = time_sent(r, &browser);
    failure.known = failure.sent + dl_seconds() - r->arrived;
    failure.is = 1;
}

int jup_cell_aborted(const jup_request *r) {
    int browser = 0;
    double sent = time_sent(r, &browser);
    int same = failure.is && !strncmp(failure.session, header_text(r, "session"), sizeof failure.session - 1);
    if (r->channel != JUP_SHELL) return 0;
    int before = same && sent < failure.known, burst = same && browser && sent - failure.sent < ONE_BURST;
    failure.is = r->aborted || before || burst;
    if (failure.is && same && sent > failure.sent) failure.sent = sent;
    return failure.is;
}
