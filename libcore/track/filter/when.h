/* Dates and durations as people write them. */
#pragma once

#include <time.h>

/* Reads a date as a span of time, from (included) to (not included), in seconds since 1970; an instant has from = to.
 * In local time unless a zone is written: 2026-11-22, 2026-11, 2026, 2026/11/22, 22.11.2026, "22 Nov 2026", "Nov 22",
 * with "10:30", "T10:30:05.5", "Z", "+02:00" after it; 10:30 (today), today, yesterday, monday; "2d ago", "1h30m ago",
 * "3 months ago", now; seconds since 1970. Returns 0 when it is none. */
int dl_when_parse(const char *text, time_t now, double *from, double *to);
/* "90", "90s", "1h30m", "2 days", "1:30" (minutes and seconds), "1:30:00" as seconds. Returns 0 when it is none. */
int dl_duration_parse(const char *text, double *seconds);
