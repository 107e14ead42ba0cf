/* The generator `digits`: 28x28 grey images of the ten digits, drawn from strokes (digits.def) with the variations of a
 * hand: style, size, slant, turn, shift, bends, pressure, ink and paper. Every image follows from (seed, split, index)
 * alone, by + - * / and sqrt: the same bytes on every machine. */
#include "data/generated/digits.h"

#include <math.h>
#include <stdbool.h>

#include "data/draw.h"

enum { SIDE = DL_DIGITS_SIDE, MAX_POINTS = 16, STEPS = 5 };

typedef struct knot {
    signed char x, y;
    char kind; /* 'B' begins a stroke, 'S' smooth, 'C' a corner; 0 ends the glyph */
} knot;

typedef struct glyph {
    int digit, weight;
    knot knots[MAX_POINTS];
} glyph;

#define B(x, y) {x, y, 'B'},
#define S(x, y) {x, y, 'S'},
#define C(x, y) {x, y, 'C'},
#define GLYPH(digit, weight, points) {digit, weight, {points}},
static const glyph glyphs[] = {
#include "data/generated/digits.def"
};
#undef B
#undef S
#undef C
#undef GLYPH

typedef struct point {
    double x, y;
} point;

/* The variations of one picture: from box coordinates, centred at 0, to pixels. */
typedef struct hand {
    double xx, xy, yx, yy, x0, y0; /* affine part */
    double bend[4];                /* quadratic part, before it */
    double wobble;                 /* of single knots, in box units */
    double radius, taper, soft;    /* of the pen: half its width, its change along a stroke, blur of its edge; pixels */
    double ink, paper;             /* grey of strokes, and noise; 0 to 1 */
} hand;

static const glyph *pick_style(dl_draw *r, int digit) {
    int total = 0, n = sizeof glyphs / sizeof *glyphs;
    for (int i = 0; i < n; i++) total += glyphs[i].digit == digit ? glyphs[i].weight : 0;
    int at = (int)dl_draw_below(r, (uint32_t)total);
    const glyph *g = glyphs;
    for (;; g++)
        if (g->digit == digit && (at -= g->weight) < 0) return g;
}

/* A value around 0, denser there: the sum of two uniforms, within -a..a. */
static double around(dl_draw *r, double a) { return a * (dl_draw_unit(r) + dl_draw_unit(r) - 1); }

static hand draw_hand(dl_draw *r) {
    hand h;
    double height = 19.5 + around(r, 4), width = 14 + around(r, 4.5), slant = 0.12 + around(r, 0.42), s, c;
    dl_fixed_sincos(around(r, 0.05), &s, &c); /* up to 18 degrees */
    h.xx = c * width, h.xy = -slant * c * height - s * height;
    h.yx = s * width, h.yy = c * height - slant * s * height;
    h.x0 = SIDE / 2.0 + around(r, 2.9), h.y0 = SIDE / 2.0 + around(r, 2.9);
    for (int i = 0; i < 4; i++) h.bend[i] = around(r, 0.3);
    h.wobble = dl_draw_in(r, 0.01, 0.06);
    h.radius = dl_draw_in(r, 0.65, 1.75), h.taper = around(r, 0.45), h.soft = dl_draw_in(r, 0.9, 1.8);
    h.ink = dl_draw_in(r, 0.75, 1.1), h.paper = dl_draw_in(r, 0, 0.09);
    return h;
}

static point place(const hand *h, dl_draw *r, knot k) {
    double x = k.x / 100.0 - 0.5 + dl_draw_in(r, -h->wobble, h->wobble);
    double y = k.y / 100.0 - 0.5 + dl_draw_in(r, -h->wobble, h->wobble);
    double u = x + h->bend[0] * (y * y - 0.08) + h->bend[1] * x * y,
           v = y + h->bend[2] * (x * x - 0.08) + h->bend[3] * x * y;
    return (point){h->xx * u + h->xy * v + h->x0, h->yx * u + h->yy * v + h->y0};
}

/* Darkens the pixels near a line: full inside `radius`, falling to nothing over `soft`. */
static void ink_line(float *page, point a, point b, double radius, double soft) {
    double reach = radius + soft, dx = b.x - a.x, dy = b.y - a.y, len = dx * dx + dy * dy, inv = len > 0 ? 1 / len : 0;
    double left = a.x < b.x ? a.x : b.x, top = a.y < b.y ? a.y : b.y;
    double right = a.x < b.x ? b.x : a.x, bottom = a.y < b.y ? b.y : a.y;
    int i0 = (int)fmax(0, floor(top - reach)), i1 = (int)fmin(SIDE - 1, floor(bottom + reach));
    int j0 = (int)fmax(0, floor(left - reach)), j1 = (int)fmin(SIDE - 1, floor(right + reach));
    for (int i = i0; i <= i1; i++)
        for (int j = j0; j <= j1; j++) {
            double px = j + 0.5 - a.x, py = i + 0.5 - a.y, t = (px * dx + py * dy) * inv;
            t = t < 0 ? 0 : t > 1 ? 1 : t;
            double ex = px - t * dx, ey = py - t * dy, d = sqrt(ex * ex + ey * ey);
            float v = (float)((reach - d) / soft);
            v = v > 1 ? 1 : v;
            if (v > page[i * SIDE + j]) page[i * SIDE + j] = v;
        }
}

/* The spline through p[1] and p[2] with neighbours p[0] and p[3] (Catmull and Rom), at t in 0..1. */
static point spline(const point p[4], double t) {
    double a = ((2 - t) * t - 1) * t / 2, b = ((3 * t - 5) * t * t + 2) / 2, c = ((4 - 3 * t) * t + 1) * t / 2,
           d = (t - 1) * t * t / 2;
    return (point){a * p[0].x + b * p[1].x + c * p[2].x + d * p[3].x,
                   a * p[0].y + b * p[1].y + c * p[2].y + d * p[3].y};
}

static void ink_glyph(float *page, const glyph *g, const hand *h, dl_draw *r) {
    point p[MAX_POINTS];
    int n = 0;
    for (; n < MAX_POINTS && g->knots[n].kind; n++) p[n] = place(h, r, g->knots[n]);
    for (int i = 0; i + 1 < n; i++) {
        const knot *k = g->knots + i;
        if (k[1].kind == 'B') continue;
        bool starts = k->kind != 'S', ends = k[1].kind == 'C' || i + 2 == n || k[2].kind == 'B';
        point q[4] = {starts ? p[i] : p[i - 1], p[i], p[i + 1], ends ? p[i + 1] : p[i + 2]}, from = p[i];
        for (int s = 1; s <= STEPS; s++) {
            point to = spline(q, (double)s / STEPS);
            double along = (i + (double)s / STEPS) / n - 0.5, radius = h->radius + h->taper * 2 * along;
            ink_line(page, from, to, radius < 0.4 ? 0.4 : radius, h->soft);
            from = to;
        }
    }
}

/* Grey from ink, with noise that is the sum of four bytes of a random word. */
static void develop(const float *page, const hand *h, dl_draw *r, uint8_t *out) {
    for (int i = 0; i < SIDE * SIDE; i++) {
        uint32_t w = dl_draw_u32(r);
        int sum = (int)((w & 255) + (w >> 8 & 255) + (w >> 16 & 255) + (w >> 24)) - 510;
        double v = page[i] * h->ink + h->paper * sum / 147.8;
        out[i] = (uint8_t)(v <= 0 ? 0 : v >= 1 ? 255 : v * 255 + 0.5);
    }
}

int dl_digits_label(uint64_t seed, int split, long index) {
    dl_draw r = dl_draw_begin(seed, DL_FOR_DIGITS, (uint64_t)split, (uint64_t)index);
    return (int)dl_draw_below(&r, 10);
}

void dl_digits_draw(uint64_t seed, int split, long index, uint8_t *out) {
    dl_draw r = dl_draw_begin(seed, DL_FOR_DIGITS, (uint64_t)split, (uint64_t)index);
    float page[SIDE * SIDE] = {0};
    int digit = (int)dl_draw_below(&r, 10);
    const glyph *g = pick_style(&r, digit);
    hand h = draw_hand(&r);
    ink_glyph(page, g, &h, &r);
    develop(page, &h, &r, out);
}
