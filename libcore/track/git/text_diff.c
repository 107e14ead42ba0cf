/* The lines that differ between two texts: E. W. Myers, An O(ND) difference algorithm and its variations (1986). */
#include "track/git/text_diff.h"

#include <stdlib.h>
#include <string.h>

/* MOST_EDITS bounds the memory of a search, its square times four bytes. */
enum { CONTEXT = 3, MOST_EDITS = 2000 };

typedef struct text {
    const char **line; /* n of them, and the end */
    long n;
    char *changed; /* of each line: is it taken away, or added? */
} text;

static int split(text *t, const char *s, size_t size) {
    const char *end = s + size;
    long n = 0;
    for (const char *p = s; p < end; n++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    t->line = malloc((size_t)(n + 1) * sizeof *t->line);
    t->changed = calloc((size_t)n + 1, 1);
    if (!t->line || !t->changed) return 0;
    for (const char *p = s; p < end;) {
        t->line[t->n++] = p;
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    t->line[t->n] = end;
    return 1;
}

static size_t length(const text *t, long i) { return (size_t)(t->line[i + 1] - t->line[i]); }

static int same(const text *a, long i, const text *b, long k) {
    return length(a, i) == length(b, k) && !memcmp(a->line[i], b->line[k], length(a, i));
}

/* ---------------------------------------------------------------- the shortest script of edits */

/* The part [a0, a1) and [b0, b1) of two texts. */
typedef struct part {
    text *a, *b;
    long a0, a1, b0, b1;
} part;

/* Follows the furthest points back from the end; step[d] holds those of d edits, on the diagonals -d to d. */
static void mark(const part *p, int **step, int d) {
    long x = p->a1 - p->a0, y = p->b1 - p->b0;
    for (; d > 0; d--) {
        const int *before = step[d - 1] + (d - 1); /* before[k] of the diagonal k */
        long k = x - y;
        int down = k == -d || (k != d && before[k - 1] < before[k + 1]);
        long from = down ? before[k + 1] : before[k - 1], above = down ? k + 1 : k - 1;
        if (down)
            p->b->changed[p->b0 + from - above] = 1;
        else
            p->a->changed[p->a0 + from] = 1;
        x = from, y = from - above;
    }
}

/* 1: marked; 0: there are more edits than are looked for, or no memory. */
static int search(const part *p) {
    long n = p->a1 - p->a0, m = p->b1 - p->b0;
    int *step[MOST_EDITS + 1] = {0}, found = 0;
    for (int d = 0; d <= MOST_EDITS && !found; d++) {
        int *now = step[d] = malloc((size_t)(2 * d + 1) * sizeof *now);
        const int *before = d ? step[d - 1] + (d - 1) : NULL;
        if (!now) break;
        now += d;
        for (int k = -d; k <= d && !found; k += 2) {
            long x = !d ? 0 : k == -d || (k != d && before[k - 1] < before[k + 1]) ? before[k + 1] : before[k - 1] + 1;
            long y = x - k;
            while (x < n && y < m && y >= 0 && same(p->a, p->a0 + x, p->b, p->b0 + y)) x++, y++;
            now[k] = (int)x;
            found = x >= n && y >= m;
        }
        /* diagonals between are not reached in d edits, but are looked at by d + 1 */
        if (found) mark(p, step, d);
    }
    for (int d = 0; d <= MOST_EDITS; d++) free(step[d]);
    return found;
}

static void compare(text *a, text *b) {
    part p = {a, b, 0, a->n, 0, b->n};
    while (p.a0 < p.a1 && p.b0 < p.b1 && same(a, p.a0, b, p.b0)) p.a0++, p.b0++;
    while (p.a1 > p.a0 && p.b1 > p.b0 && same(a, p.a1 - 1, b, p.b1 - 1)) p.a1--, p.b1--;
    int one_sided = p.a0 == p.a1 || p.b0 == p.b1;
    if (!one_sided && search(&p)) return;
    memset(a->changed + p.a0, 1, (size_t)(p.a1 - p.a0));
    memset(b->changed + p.b0, 1, (size_t)(p.b1 - p.b0));
}

/* ---------------------------------------------------------------- hunks */

static void put(FILE *out, char sign, const text *t, long i) {
    size_t n = length(t, i);
    fputc(sign, out);
    fwrite(t->line[i], 1, n, out);
    if (t->line[i][n - 1] != '\n') fputs("\n\\ No newline at end of file\n", out);
}

static void put_range(FILE *out, char sign, long from, long n) {
    fprintf(out, " %c%ld", sign, n ? from + 1 : from);
    if (n != 1) fprintf(out, ",%ld", n);
}

/* The end of the hunk that begins at line i of a and k of b: where more than twice the context is equal. */
static void end_of_hunk(const text *a, const text *b, long i, long k, long *to_a, long *to_b) {
    for (long equal = 0; equal <= 2 * CONTEXT && (i < a->n || k < b->n);) {
        if (i < a->n && a->changed[i]) {
            i++, equal = 0;
        } else if (k < b->n && b->changed[k]) {
            k++, equal = 0;
        } else {
            i++, k++, equal++;
            continue;
        }
        *to_a = i, *to_b = k;
    }
}

static void put_hunk(FILE *out, const text *a, const text *b, long i, long k, long to_a, long to_b) {
    fputs("@@", out);
    put_range(out, '-', i, to_a - i);
    put_range(out, '+', k, to_b - k);
    fputs(" @@\n", out);
    while (i < to_a || k < to_b) {
        if (i < to_a && a->changed[i])
            put(out, '-', a, i++);
        else if (k < to_b && b->changed[k])
            put(out, '+', b, k++);
        else
            put(out, ' ', a, i++), k++;
    }
}

static void put_hunks(FILE *out, const text *a, const text *b) {
    long i = 0, k = 0, to_a = 0, to_b = 0;
    while (i < a->n || k < b->n) {
        if ((i >= a->n || !a->changed[i]) && (k >= b->n || !b->changed[k])) {
            i++, k++;
            continue;
        }
        end_of_hunk(a, b, i, k, &to_a, &to_b);
        long before = i < CONTEXT ? i : CONTEXT, after = a->n - to_a < CONTEXT ? a->n - to_a : CONTEXT;
        before = before < k ? before : k;
        put_hunk(out, a, b, i - before, k - before, to_a + after, to_b + after);
        i = to_a, k = to_b;
    }
}

int dl_text_diff(const char *a, size_t na, const char *b, size_t nb, FILE *out) {
    text x = {0}, y = {0};
    int good = split(&x, a, na) && split(&y, b, nb);
    if (good) {
        compare(&x, &y);
        put_hunks(out, &x, &y);
    }
    free(x.line), free(x.changed);
    free(y.line), free(y.changed);
    return good;
}
