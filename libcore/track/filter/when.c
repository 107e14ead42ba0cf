/* Reading dates and durations. */
#include "track/filter/when.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---------------------------------------------------------------- words */

static const char *skip_space(const char *p) {
    while (isspace((unsigned char)*p) || *p == ',') p++;
    return p;
}

/* A word of letters into out, lower case. */
static const char *read_letters(const char *p, char out[16]) {
    int n = 0;
    for (; isalpha((unsigned char)*p); p++)
        if (n < 15) out[n++] = (char)tolower((unsigned char)*p);
    out[n] = 0;
    return p;
}

/* Index of the name that begins with a word of at least three letters; -1: none. */
static int among(const char *word, const char *const *names, int n) {
    size_t len = strlen(word);
    for (int i = 0; i < n && len >= 3; i++)
        if (!strncmp(word, names[i], len)) return i;
    return -1;
}

static int month_of(const char *word) {
    static const char *const names[] = {"january", "february", "march",     "april",   "may",      "june",
                                        "july",    "august",   "september", "october", "november", "december"};
    return !strcmp(word, "sept") ? 8 : among(word, names, 12);
}

static int weekday_of(const char *word) {
    static const char *const names[] = {"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"};
    return among(word, names, 7);
}

/* ---------------------------------------------------------------- durations */

static const struct {
    const char *names; /* between blanks */
    double seconds;
    int months; /* of the calendar, instead */
} units[] = {
    {" ms ", 1e-3, 0},
    {" s sec secs second seconds ", 1, 0},
    {" m min mins minute minutes ", 60, 0},
    {" h hr hrs hour hours ", 3600, 0},
    {" d day days ", 86400, 0},
    {" w week weeks ", 604800, 0},
    {" mo month months ", 30 * 86400.0, 1},
    {" y yr yrs year years ", 365 * 86400.0, 12},
};

/* Reads numbers with units, up to the first other word: months, and the rest in seconds. */
static const char *read_span(const char *p, double *seconds, int *months) {
    const char *done = NULL;
    *seconds = *months = 0;
    for (p = skip_space(p); isdigit((unsigned char)*p) || *p == '.'; p = skip_space(p)) {
        char *end, word[16], padded[20];
        double n = strtod(p, &end);
        if (end == p || !isfinite(n)) return NULL;
        const char *after = read_letters(skip_space(end), word);
        snprintf(padded, sizeof padded, " %s ", word);
        size_t u = 0, nunits = sizeof units / sizeof *units;
        while (u < nunits && (!*word || !strstr(units[u].names, padded))) u++;
        if (u == nunits) return NULL;
        if (units[u].months && n == floor(n) && n < 10000)
            *months += (int)n * units[u].months;
        else
            *seconds += n * units[u].seconds;
        done = p = after;
    }
    return done;
}

/* [H:]M:S */
static int read_clock_span(const char *p, double *seconds) {
    int parts = 0;
    for (*seconds = 0; parts < 3; p++) {
        char *end;
        if (!isdigit((unsigned char)*p)) return 0;
        double n = strtod(p, &end);
        if (parts && n >= 60) return 0;
        *seconds = *seconds * 60 + n;
        parts++;
        p = end;
        if (*p != ':') break;
    }
    return parts > 1 && !*skip_space(p);
}

int dl_duration_parse(const char *text, double *seconds) {
    char *end;
    int months;
    *seconds = strtod(text, &end);
    if (end != text && !*skip_space(end)) return isfinite(*seconds);
    if (read_clock_span(text, seconds)) return 1;
    const char *after = read_span(text, seconds, &months);
    *seconds += months * 30 * 86400.0;
    return after && !*skip_space(after);
}

/* ---------------------------------------------------------------- dates */

/* A date under construction. */
typedef struct moment {
    struct tm tm;
    double fraction;
    char unit;   /* y m d M s: length of the span; i: an instant */
    int zoned;   /* an offset was written */
    long offset; /* seconds east of Greenwich */
} moment;

static int to_seconds(const moment *w, double *out) {
    struct tm tm = w->tm;
    tm.tm_isdst = -1;
    time_t t = w->zoned ? timegm(&tm) : mktime(&tm);
    *out = (double)t + w->fraction - (w->zoned ? (double)w->offset : 0);
    return t != (time_t)-1;
}

/* Exactly n digits. */
static const char *read_digits(const char *p, int n, int low, int high, int *out) {
    *out = 0;
    for (int i = 0; i < n; i++, p++) {
        if (!isdigit((unsigned char)*p)) return NULL;
        *out = *out * 10 + (*p - '0');
    }
    return *out < low || *out > high || isdigit((unsigned char)*p) ? NULL : p;
}

static const char *read_number(const char *p, int low, int high, int *out) {
    int n = 0;
    while (isdigit((unsigned char)p[n])) n++;
    return n && n < 5 ? read_digits(p, n, low, high, out) : NULL;
}

static int days_in(int month, int year) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && ((year % 4 == 0 && year % 100) || year % 400 == 0));
}

static int set_day(moment *w, int year, int month, int day, char unit) {
    if (month < 1 || month > 12 || day < 1 || day > days_in(month - 1, year)) return 0;
    w->tm = (struct tm){.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day};
    w->unit = unit;
    return 1;
}

/* 2026-11-22, 2026/11/22, 2026-11, 2026 */
static const char *read_iso(const char *p, moment *w) {
    int year, month = 1, day = 1;
    char unit = 'y';
    if (!(p = read_digits(p, 4, 1000, 9999, &year))) return NULL;
    char sep = *p;
    if (sep == '-' || sep == '/') {
        if (!(p = read_number(p + 1, 1, 12, &month))) return NULL;
        unit = 'm';
        if (*p == sep) {
            if (!(p = read_number(p + 1, 1, 31, &day))) return NULL;
            unit = 'd';
        }
    }
    return set_day(w, year, month, day, unit) ? p : NULL;
}

/* 22.11.2026 */
static const char *read_dotted(const char *p, moment *w) {
    int year, month, day;
    if (!(p = read_number(p, 1, 31, &day)) || *p++ != '.') return NULL;
    if (!(p = read_number(p, 1, 12, &month)) || *p++ != '.') return NULL;
    if (!(p = read_digits(p, 4, 1000, 9999, &year))) return NULL;
    return set_day(w, year, month, day, 'd') ? p : NULL;
}

/* 22 Nov 2026, Nov 22 2026, Nov 2026, 22 Nov */
static const char *read_named(const char *p, moment *w, const struct tm *now) {
    int year = now->tm_year + 1900, month = -1, day = 0, n;
    char word[16];
    const char *done = NULL;
    for (int i = 0; i < 3; i++) {
        const char *after;
        p = skip_space(p);
        if (isalpha((unsigned char)*p)) {
            after = read_letters(p, word);
            if (month >= 0 || (month = month_of(word)) < 0) break;
        } else if ((after = read_digits(p, 4, 1000, 9999, &n))) {
            year = n;
        } else if (!day && (after = read_number(p, 1, 31, &n)) && *after != ':') {
            day = n;
        } else {
            break;
        }
        done = p = after;
    }
    if (month < 0 || !done) return NULL;
    return set_day(w, year, month + 1, day ? day : 1, day ? 'd' : 'm') ? done : NULL;
}

/* today, yesterday, tomorrow, a day of the last week */
static const char *read_relative_day(const char *p, moment *w, const struct tm *now) {
    static const struct {
        const char *name;
        int days;
    } days[] = {{"today", 0}, {"yesterday", -1}, {"tomorrow", 1}};
    char word[16];
    p = read_letters(p, word);
    int back = 1, weekday = weekday_of(word);
    for (size_t i = 0; i < sizeof days / sizeof *days; i++)
        if (!strcmp(days[i].name, word)) back = -days[i].days - 100;
    if (back > 0 && weekday < 0) return NULL;
    back = back < 0 ? back + 100 : (now->tm_wday - weekday + 6) % 7 + 1;
    w->tm = (struct tm){.tm_year = now->tm_year, .tm_mon = now->tm_mon, .tm_mday = now->tm_mday - back};
    w->unit = 'd';
    return p;
}

/* Z, UTC, +02, +02:00, -0530 */
static const char *read_zone(const char *p, moment *w) {
    int h, m = 0;
    p = skip_space(p);
    if (!strncasecmp(p, "utc", 3) || !strncasecmp(p, "gmt", 3))
        w->zoned = 1, p += 3;
    else if (*p == 'Z' || *p == 'z')
        return w->zoned = 1, p + 1;
    if (*p != '+' && *p != '-') return p;
    int sign = *p == '-' ? -1 : 1;
    char digits[5] = "";
    int n = 0;
    for (p++; n < 4 && (isdigit((unsigned char)*p) || (*p == ':' && n == 2)); p++)
        if (*p != ':') digits[n++] = *p;
    if ((n != 2 && n != 4) || !read_digits(n == 2 ? digits : (char[]){digits[0], digits[1], 0}, 2, 0, 14, &h))
        return NULL;
    if (n == 4 && !read_digits(digits + 2, 2, 0, 59, &m)) return NULL;
    w->zoned = 1;
    w->offset = sign * (h * 3600L + m * 60L);
    return p;
}

/* 10:30, 10:30:05.25 after a day; without it the span is the whole day. */
static const char *read_clock(const char *p, moment *w) {
    const char *start = p;
    p = skip_space(p);
    if ((*p == 'T' || *p == 't') && isdigit((unsigned char)p[1])) p++;
    if (!isdigit((unsigned char)*p)) return start;
    if (!(p = read_number(p, 0, 23, &w->tm.tm_hour)) || *p++ != ':') return NULL;
    if (!(p = read_digits(p, 2, 0, 59, &w->tm.tm_min))) return NULL;
    w->unit = 'M';
    if (*p != ':') return p;
    if (!(p = read_digits(p + 1, 2, 0, 60, &w->tm.tm_sec))) return NULL;
    w->unit = 's';
    if (*p != '.') return p;
    char *end;
    w->fraction = strtod(p, &end);
    w->unit = 'i';
    return end;
}

static void finish(const moment *w, double *from, double *to) {
    moment next = *w;
    to_seconds(w, from);
    switch (w->unit) {
    case 'y': next.tm.tm_year++; break;
    case 'm': next.tm.tm_mon++; break;
    case 'd': next.tm.tm_mday++; break;
    case 'M': next.tm.tm_min++; break;
    case 's': next.tm.tm_sec++; break;
    default: break;
    }
    to_seconds(&next, to);
}

/* "2d ago"; months by the calendar. */
static int parse_ago(const char *text, time_t now, double *at) {
    double seconds;
    int months;
    char word[16];
    const char *p = read_span(text, &seconds, &months);
    if (!p) return 0;
    p = read_letters(skip_space(p), word);
    if (strcmp(word, "ago") || *skip_space(p)) return 0;
    moment w = {0};
    localtime_r(&now, &w.tm);
    w.tm.tm_mon -= months;
    return to_seconds(&w, at) && (*at -= seconds, 1);
}

int dl_when_parse(const char *text, time_t now, double *from, double *to) {
    char *end;
    struct tm today;
    moment w = {0};
    text = skip_space(text);
    localtime_r(&now, &today);
    double number = strtod(text, &end);
    if (end != text && !*skip_space(end) && isfinite(number) && fabs(number) >= 10000) return *from = *to = number, 1;
    if (!strcasecmp(text, "now")) return *from = *to = (double)now, 1;
    if (parse_ago(text, now, from)) return *to = *from, 1;
    const char *p = read_iso(text, &w);
    if (!p) p = read_dotted(text, &w);
    if (!p) p = read_named(text, &w, &today);
    if (!p) p = read_relative_day(text, &w, &today);
    if (!p && isdigit((unsigned char)*text)) { /* a time of today */
        set_day(&w, today.tm_year + 1900, today.tm_mon + 1, today.tm_mday, 'd');
        p = read_clock(text, &w);
        if (w.unit == 'd') p = NULL;
    } else if (p && w.unit == 'd') {
        p = read_clock(p, &w);
    }
    if (p) p = read_zone(p, &w);
    if (!p || *skip_space(p)) return 0;
    finish(&w, from, to);
    return 1;
}
