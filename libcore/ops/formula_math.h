/* Functions of formulas that are more than an expression, in the dialect of ops/formula.h. No guard: in C they are
 * defined once a type. Before it DL_HELPER(name) begins a definition, FAULT_AT is the type of `at`, and FAULT(kind,
 * value) reports an operand without a result; DL_REAL_HELPERS and DL_INT_HELPERS say which of them T can have. */
#ifdef DL_REAL_HELPERS
#ifndef __cplusplus
/* a - b trunc(a / b), exactly: the rounded quotient may be one too large, the rest is then below 0. */
DL_HELPER(near_fmod)(T a, T b) {
    T x = ABS(a), y = ABS(b), q = TRUNC(x / y), r = q == 0 ? x : FMA(-q, y, x);
    return COPYSIGN(r < 0 ? r + y : r, a);
}
#endif
/* (1 - target) sigmoid(x) - target sigmoid(-x) */
DL_HELPER(logit_slope)(T x, T target) {
    T e = EXP(-ABS(x)), large = 1 / (1 + e), small = e * large;
    return x > 0 ? (1 - target) * large - target * small : (1 - target) * small - target * large;
}
/* floor(a / b) by r = fmod(a, b) */
DL_HELPER(floor_quotient)(T a, T b, T r) {
    if (b == 0) return a / b;
    T q = (a - r) / b; /* exact up to rounding, so FLOOR below cannot be one off */
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return COPYSIGN(NUM(0), a / b);
    T w = FLOOR(q);
    return q - w > NUM(0.5) ? w + 1 : w;
}
/* a - b floor(a / b) by r = fmod(a, b) */
DL_HELPER(floor_rest)(T b, T r) { return r != 0 && (r < 0) != (b < 0) ? r + b : r; }
/* Recurrence up to 10, then the asymptotic series; reflection below 0: psi(1 - x) - psi(x) = pi / tan(pi x). */
DL_HELPER(psi)(T x) {
    T shift = 0;
    if (x == 0) return COPYSIGN(INF, -x);
    if (x < 0) {
        if (x == FLOOR(x)) return INF - INF;
        T rest = x - TRUNC(x);
        shift = -PI / TAN(PI * rest);
        x = 1 - x;
    }
    for (; x < 10; x += 1) shift -= 1 / x;
    T z = 1 / (x * x);
    T series =
        z * (NUM(1.0 / 12) -
             z * (NUM(1.0 / 120) -
                  z * (NUM(1.0 / 252) -
                       z * (NUM(1.0 / 240) - z * (NUM(1.0 / 132) - z * (NUM(691.0 / 32760) - z * NUM(1.0 / 12)))))));
    return shift + LOG(x) - NUM(0.5) / x - (x < NUM(1e17) ? series : 0);
}
/* The sum over k of (q + k)**-s by Euler and Maclaurin's formula. */
DL_HELPER(hurwitz)(T s, T q) {
    T sum = 0;
    if (!(s > 1)) return s == 1 ? INF : INF - INF;
    if (q <= 0 && q == FLOOR(q)) return INF;
    if (q < 0 && s != FLOOR(s)) return INF - INF;
    for (; q < 12; q += 1) sum += LIBM_POW(q, -s);
    const T even[7] = {NUM(1.0 / 6),  NUM(-1.0 / 30),     NUM(1.0 / 42), NUM(-1.0 / 30),
                       NUM(5.0 / 66), NUM(-691.0 / 2730), NUM(7.0 / 6)}; /* Bernoulli's numbers */
    T power = LIBM_POW(q, -s), rise = s / (2 * q);
    sum += power * (q / (s - 1) + NUM(0.5));
    for (int j = 0; j < 7; j++) {
        T m = 2 * (T)j;
        sum += power * even[j] * rise;
        rise *= (s + m + 1) / q * ((s + m + 2) / q) / ((m + 3) * (m + 4));
    }
    return sum;
}
/* The sum over k of (x + k)**-2: up to 10 the terms as one fraction, then the asymptotic series; reflection below 0. */
DL_HELPER(psi_1)(T x) {
    T y = x <= 0 ? 1 - x : x, over = 0, under = 1;
    for (int k = 0; k < 10; k++) {
        T square = y < 10 ? y * y : 1;
        over = y < 10 ? over * square + under : over, under *= square;
        y += y < 10 ? 1 : 0;
    }
    T w = 1 / y, z = w * w;
    T series = w + z / 2 +
               w * z *
                   (NUM(1.0 / 6) -
                    z * (NUM(1.0 / 30) -
                         z * (NUM(1.0 / 42) -
                              z * (NUM(1.0 / 30) - z * (NUM(5.0 / 66) - z * (NUM(691.0 / 2730) - z * NUM(7.0 / 6)))))));
    T sum = over / under + series, sine = NEAR_SIN(PI * (x <= 0 ? x - ROUND(x) : NUM(0.5)));
    return x <= 0 ? PI * PI / (sine * sine) - sum : sum;
}
/* (-1)**(n+1) n! zeta(n + 1, x) */
DL_HELPER(psi_n)(T n, T x) {
    if (n == 0) return DL_HELPER_OF(psi)(x);
    if (n == 1) return DL_HELPER_OF(psi_1)(x);
    T factor = FMOD(n, NUM(2)) == 0 ? -1 : 1;
    for (T k = 2; k <= n; k += 1) factor *= k;
    return factor * DL_HELPER_OF(hurwitz)(n + 1, x);
}
/* Ai, or its slope, near a place i / 2 where both are known: y'' = x y gives each term of Taylor's series from the two
 * before it. */
DL_HELPER(airy_near)(T x, int slope) {
    static const T value[39] = {NUM(0.3191032477191282),     NUM(-0.022133721547341403),  NUM(-0.33029023763020887),
                                NUM(-0.0527050503563862),    NUM(0.3217757163806479),     NUM(0.18428083525050565),
                                NUM(-0.2380203019971158),    NUM(-0.3291451736298231),    NUM(0.017781541276574976),
                                NUM(0.35076100902411433),    NUM(0.2921527810559595),     NUM(-0.07026553294928951),
                                NUM(-0.37553382314043193),   NUM(-0.37881429367765806),   NUM(-0.11232506769296609),
                                NUM(0.22740742820168558),    NUM(0.4642565777488694),     NUM(0.5355608832923521),
                                NUM(0.4757280916105396),     NUM(0.3550280538878172),     NUM(0.23169360648083348),
                                NUM(0.13529241631288141),    NUM(0.07174949700810541),    NUM(0.03492413042327438),
                                NUM(0.01572592338047049),    NUM(0.006591139357460719),   NUM(0.002584098786989635),
                                NUM(0.0009515638512048018),  NUM(0.00033025032351430896), NUM(0.00010834442813607442),
                                NUM(3.368531190859981e-05),  NUM(9.947694360252889e-06),  NUM(2.7958823432049136e-06),
                                NUM(7.492128863997167e-07),  NUM(1.9172560675134309e-07), NUM(4.6922076160992316e-08),
                                NUM(1.0997009755195506e-08), NUM(2.47116843087249e-09),   NUM(5.330263704617492e-10)};
    static const T falls[39] = {
        NUM(-0.10809531881187123),   NUM(-0.9756639809263316),     NUM(-0.03231334828463914),
        NUM(0.9355609381983065),     NUM(0.3188095066985546),      NUM(-0.7710081684101265),
        NUM(-0.6749524925132022),    NUM(0.3459354872813429),      NUM(0.8641972177713984),
        NUM(0.32719281855444315),    NUM(-0.5233625323157477),     NUM(-0.7906285753685813),
        NUM(-0.34344343345404815),   NUM(0.3145837692165988),      NUM(0.6788527342647943),
        NUM(0.618259020741691),      NUM(0.3091869672024104),      NUM(-0.01016056711664521),
        NUM(-0.20408167033954738),   NUM(-0.2588194037928068),     NUM(-0.2249105326646839),
        NUM(-0.1591474412967932),    NUM(-0.09738201284230132),    NUM(-0.05309038443365363),
        NUM(-0.026250881035903232),  NUM(-0.011912976705951319),   NUM(-0.005004413967952583),
        NUM(-0.001958640950204179),  NUM(-0.0007178665675575089),  NUM(-0.0002474138908684625),
        NUM(-8.046339130556515e-05), NUM(-2.4765200397034955e-05), NUM(-7.231931466601793e-06),
        NUM(-2.008150894738792e-06), NUM(-5.312713959720545e-07),  NUM(-1.3414392979067865e-07),
        NUM(-3.237725440447602e-08), NUM(-7.480641389658946e-09),  NUM(-1.6566394593740667e-09)};
    const T place = FLOOR(2 * x + NUM(0.5)) / 2, h = x - place;
    const int i = (int)(2 * place) + 19;
    T before = value[i], now = falls[i], last = 0, power = 1, sum = slope ? now : before + now * h;
    for (int n = 0; n < 18; n++) { /* the term of h**(n + 2) */
        const T next = (place * before + last) * (1 / (((T)n + 1) * ((T)n + 2)));
        power *= h;
        sum += slope ? ((T)n + 2) * next * power : next * power * h;
        last = before, before = now, now = next;
    }
    return sum;
}
/* The same from 9 on, of z = 2/3 |x|**1.5, by the asymptotic series, whose terms fall down to the 26th: e**-z times
 * their sum with signs that change, below 0 a wave of those with even numbers and one of the others. */
DL_HELPER(airy_far)(T x, int slope) {
    const T root = SQRT(ABS(x)), z = NUM(0.66666666666666666667) * ABS(x) * root, quarter = SQRT(root), by = 1 / z;
    T term = 1, sum = 1, even = 1, odd = 0;
    for (int k = 1; k < 26; k++) {
        const T m = 6 * (T)k;
        term *= (m - 5) * (m - 3) * (m - 1) * (1 / (216 * (T)k * (2 * (T)k - 1))) * by;
        const T own = slope ? -term * ((m + 1) / (m - 1)) : term;
        sum += k & 1 ? -own : own;
        even += k & 1 ? 0 : k & 2 ? -own : own;
        odd += k & 1 ? (k & 2 ? -own : own) : 0;
    }
    if (x > 0) return EXP(-z) * NUM(0.28209479177387814347) * (slope ? -quarter * sum : sum / quarter);
    const T angle = z - PI / 4, c = COS(angle), s = SIN(angle);
    return NUM(0.56418958354775628695) * (slope ? quarter * (s * even - c * odd) : (c * even + s * odd) / quarter);
}
DL_HELPER(airy)(T x, int slope) {
    if (ABS(x) == INF) return x < 0 && slope ? INF - INF : 0;
    return ABS(x) < 9 ? DL_HELPER_OF(airy_near)(x, slope) : DL_HELPER_OF(airy_far)(x, slope);
}
/* The polynomial of degree n of a family (ops/polynomials.h), or its slope. */
DL_HELPER(orthogonal)(T n, T x, int slope, T first, T shift, T a, T a0, T b, T b0, T c, T c0, int divided) {
    const int degree = (int)n;
    T before = 1, now = first * x + shift, fell = 0, falls = first;
    for (int k = 1; k < degree; k++) {
        const T at = (T)k, by = divided ? at + 1 : 1, rise = a * at + a0, grow = rise * x + (b * at + b0);
        const T old = c * at + c0, next = (grow * now - old * before) / by;
        const T moves = (grow * falls + rise * now - old * fell) / by;
        before = now, now = next, fell = falls, falls = moves;
    }
    return degree == 0 ? (T)!slope : slope ? falls : now;
}
#ifdef __cplusplus
/* e**(x**2) erfc(x): the product, from 5 on a continued fraction. */
DL_HELPER(erfc_scaled)(T x) {
    if (x < -27) return INF;
    if (x < 5) return x < 0 ? 2 * EXP(x * x) - EXP(x * x) * ERFC(-x) : EXP(x * x) * ERFC(x);
    T rest = x;
    for (T k = 24; k > 0; k -= 1) rest = x + k / (2 * rest);
    return NUM(0.56418958354775628695) / rest;
}
/* Down to -7 by one erfc, of which nothing is lost there; below by the scaled one. */
DL_HELPER(log_normal_cdf)(T x) {
    T u = x * NUM(0.70710678118654752440);
    if (x < -7) return LOG(DL_HELPER_OF(erfc_scaled)(-u) / 2) - x * x / 2;
    T half = ERFC(x < 1 ? -u : u) / 2;
    return x < 1 ? LOG(half) : LOG1P(-half);
}
DL_HELPER(mantissa)(T x) {
    int e;
    return frexp(x, &e);
}
DL_HELPER(exponent)(T x) {
    int e = 0;
    const T m = frexp(x, &e);
    return ABS(m) < 1 ? (T)e : NUM(0);
}
#endif
/* The share of the gamma distribution of shape a that lies below x, or above it: a series up to a + 1, then a continued
 * fraction by Lentz's way. */
DL_HELPER(gamma_share)(T a, T x, int above) {
    if (!(a >= 0 && x >= 0) || (a == 0 && x == 0)) return INF - INF;
    if (a == 0 || x == INF) return above ? NUM(0) : NUM(1);
    if (x == 0) return above ? NUM(1) : NUM(0);
    T power = EXP(a * LOG(x) - x - LIBM_LGAMMA(a));
    if (x < a + 1) {
        T term = 1 / a, sum = term;
        for (T k = 1; term > sum * NUM(1e-17) && k < 5000; k += 1) term *= x / (a + k), sum += term;
        return above ? 1 - power * sum : power * sum;
    }
    const T tiny = NUM(1e-30);
    T b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
    for (T k = 1; k < 5000; k += 1) {
        T an = k * (a - k), step;
        b += 2;
        d = an * d + b, c = b + an / c;
        c = ABS(c) < tiny ? tiny : c, d = 1 / (ABS(d) < tiny ? tiny : d);
        step = c * d, h *= step;
        if (ABS(step - 1) < NUM(1e-16)) break;
    }
    return above ? power * h : 1 - power * h;
}
/* The least count whose share of the Poisson distribution, with those below it, reaches u. The sum of the terms stops
 * growing where the rest is below its last digit. */
DL_HELPER(poisson_least)(T rate, T u) {
    T sum = EXP(-rate), next = sum * rate, count = 0;
    while (sum < u && sum + next > sum) count += 1, sum += next, next = next * rate / (count + 1);
    return sum == sum ? count : sum;
}
/* dx/da of a number x of the gamma distribution of shape a whose share below x stays: the integral of
 * (psi(a) - ln t) (t / x)**(a - 1) e**(x - t) over t from 0 to x, or of its negative from x on; t = x e**-v or x e**v.
 * The exponent is 0 at v = 0 and falls; the places of Gauss and Legendre lie up to where it is -40. */
DL_HELPER(gamma_motion)(T a, T x) {
    const T at[16] = {
        NUM(0.04830766568773831), NUM(0.14447196158279649), NUM(0.23928736225213706), NUM(0.33186860228212767),
        NUM(0.42135127613063533), NUM(0.50689990893222936), NUM(0.5877157572407623),  NUM(0.66304426693021523),
        NUM(0.73218211874028971), NUM(0.79448379596794239), NUM(0.84936761373256997), NUM(0.8963211557660522),
        NUM(0.93490607593773967), NUM(0.96476225558750639), NUM(0.98561151154526838), NUM(0.99726386184948157)};
    const T weight[16] = {
        NUM(0.096540088514727812), NUM(0.095638720079274833), NUM(0.093844399080804566), NUM(0.091173878695763863),
        NUM(0.087652093004403908), NUM(0.083311924226946846), NUM(0.078193895787070311), NUM(0.072345794108848449),
        NUM(0.065822222776361752), NUM(0.058684093478535704), NUM(0.050998059262376244), NUM(0.042835898022226426),
        NUM(0.034273862913021626), NUM(0.025392065309262427), NUM(0.016274394730905965), NUM(0.0070186100094692984)};
    if (!(x > 0 && a > 0)) return x == 0 && a > 0 ? NUM(0) : INF - INF;
    const T side = x > a ? NUM(1) : NUM(-1), first = side * (LOG(x) - DL_HELPER_OF(psi)(a));
    T end = side > 0 ? LOG1P(((a > 1 ? a : 1) + 80) / x) + 1 : (40 + x) / a, from = 0, sum = 0;
    for (int i = 0; i < 24; i++) { /* Newton's steps, from above: the exponent is concave */
        T rise = EXPM1(side * end), slope = side * (a - x * (rise + 1));
        T next = end - (side * a * end - x * rise + 40) / slope;
        if (!(slope < 0 && next < end * NUM(0.999))) break;
        end = next;
    }
    for (int k = 0; k < 3 && from < end; k++) { /* e**-v matters up to 30 */
        T to = k == 2 ? end : k == 1 ? NUM(30) : NUM(6), wide;
        to = to < end ? to : end, wide = (to - from) / 2;
        for (int i = 0; i < 32; i++) {
            T v = from + wide * (i < 16 ? 1 - at[i & 15] : 1 + at[i & 15]);
            sum += wide * weight[i & 15] * (first + v) * EXP(side * a * v - x * EXPM1(side * v));
        }
        from = to;
    }
    return x * sum;
}
#endif

#ifdef DL_INT_HELPERS
#define SIGNED_T ((T)-1 < (T)0)
/* The greatest common divisor, by Euclid's way. */
DL_HELPER(int_gcd)(T a, T b) {
    while (b != 0) {
        T r = SIGNED_T && b == (T)-1 ? (T)0 : (T)(a % b);
        a = b, b = r;
    }
    return SIGNED_T && a < 0 ? NEG(a) : a;
}
DL_HELPER(int_lcm)(T a, T b) {
    if (a == 0 || b == 0) return 0;
    T m = (T)(U((T)(a / DL_HELPER_OF(int_gcd)(a, b))) * U(b));
    return SIGNED_T && m < 0 ? NEG(m) : m;
}
DL_HELPER(int_quotient)(T a, T b, FAULT_AT at) {
    if (b == 0) return FAULT(DIVISOR, 0), (T)0;
    if (SIGNED_T && b == (T)-1) return NEG(a);
    T q = (T)(a / b);
    return (T)(SIGNED_T && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q);
}
DL_HELPER(int_rest)(T a, T b, FAULT_AT at) {
    if (b == 0) return FAULT(DIVISOR, 0), (T)0;
    if (SIGNED_T && b == (T)-1) return 0;
    T r = (T)(a % b);
    return (T)(SIGNED_T && r != 0 && (r < 0) != (b < 0) ? r + b : r);
}
DL_HELPER(int_fmod)(T a, T b, FAULT_AT at) {
    if (b == 0) return FAULT(DIVISOR, 0), (T)0;
    return SIGNED_T && b == (T)-1 ? (T)0 : (T)(a % b);
}
DL_HELPER(int_power)(T a, T b, FAULT_AT at) {
    if (SIGNED_T && b < 0) return FAULT(EXPONENT, (long)b), (T)0;
    UNSIGNED_T r = 1, f = U(a);
    for (UNSIGNED_T e = U(b); e; e >>= 1, f = U(f * f))
        if (e & 1) r = U(r * f);
    return (T)r;
}
DL_HELPER(shift_left)(T a, T b, FAULT_AT at) {
    if (b < 0 || b >= (T)(8 * sizeof(T))) return FAULT(SHIFT, (long)b), (T)0;
    return (T)(U(a) << b);
}
DL_HELPER(shift_right)(T a, T b, FAULT_AT at) {
    if (b < 0 || b >= (T)(8 * sizeof(T))) return FAULT(SHIFT, (long)b), (T)0;
    return (T)(a >> b);
}
#undef SIGNED_T
#endif

#ifdef DL_COMPLEX_HELPERS
DL_HELPER(c_mul)(T a, T b) { return PAIR(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re); }
DL_HELPER(c_mul_conj)(T a, T b) { return PAIR(a.re * b.re + a.im * b.im, a.im * b.re - a.re * b.im); }
DL_HELPER(c_add_mul)(T a, T b, T c, PART_T factor) {
    T m = DL_HELPER_OF(c_mul)(b, c);
    return PAIR(a.re + factor * m.re, a.im + factor * m.im);
}
DL_HELPER(c_lerp)(T a, T b, T weight) { return DL_HELPER_OF(c_add_mul)(a, weight, PAIR(b.re - a.re, b.im - a.im), 1); }
/* x / |x|, 0 of 0 */
DL_HELPER(c_sign)(T x) {
    PART_T size = HYPOT(x.re, x.im), by = size == 0 ? 1 : size;
    return PAIR(size == 0 ? 0 : x.re / by, size == 0 ? 0 : x.im / by);
}
/* Its gradient, (g - y Re(g conj(y))) / |x|: what moves across the direction y of x; 0 at 0. */
DL_HELPER(c_sign_slope)(T g, T x) {
    PART_T size = HYPOT(x.re, x.im), by = size == 0 ? 1 : size, re = x.re / by, im = x.im / by;
    PART_T along = g.re * re + g.im * im;
    return PAIR(size == 0 ? 0 : (g.re - re * along) / by, size == 0 ? 0 : (g.im - im * along) / by);
}
#ifdef __cplusplus
/* conj(x) / |x|**2 by one division, where the larger square neither overflows nor loses digits; else false. A GPU's
 * divisions take longer than its memory. */
template <class T> __device__ inline bool c_quick_inverse(T x, T &y) {
    typedef PART_T R;
    const R most = sizeof(R) == sizeof(float) ? (R)0x1p60 : (R)0x1p500, big = fmax(ABS(x.re), ABS(x.im));
    if (!(big > 1 / most && big < most)) return false;
    const R by = 1 / (x.re * x.re + x.im * x.im);
    y = PAIR(x.re * by, (0 - x.im) * by);
    return true;
}
#endif
/* Smith's way (1962), without overflow of the squares: by the quotient of the smaller part of b and the larger one.
 * Compilers may compute it for both orders of the parts, so that neither divides by 0. */
DL_HELPER(c_div)(T a, T b) {
#ifdef __cplusplus
    T quick;
    if (c_quick_inverse(b, quick)) return DL_HELPER_OF(c_mul)(a, quick);
#endif
    const int turned = !(ABS(b.re) >= ABS(b.im)), none = (b.re == 0) & (b.im == 0);
    PART_T big = turned ? b.im : b.re, small = turned ? b.re : b.im, p = turned ? a.im : a.re, q = turned ? a.re : a.im;
    PART_T r = small / (big == 0 ? 1 : big), d = big + small * r, re = p + q * r, im = turned ? p * r - q : q - p * r;
    d = none ? ABS(b.re) : d;
    return PAIR((none ? a.re : re) / d, (none ? a.im : im) / d);
}
DL_HELPER(c_inverse)(T x) {
#ifdef __cplusplus
    T quick;
    if (c_quick_inverse(x, quick)) return quick;
#endif
    const int turned = !(ABS(x.re) >= ABS(x.im)), none = (x.re == 0) & (x.im == 0);
    PART_T big = turned ? x.im : x.re, small = turned ? x.re : x.im, r = small / (big == 0 ? 1 : big),
           d = big + small * r;
    d = none ? ABS(x.re) : d;
    PART_T re = (none ? 1 : turned ? r : 1) / d, im = (none ? 0 : turned ? -1 : 0 - r) / d;
    return PAIR(re, im);
}
DL_HELPER(c_exp)(T x) {
    PART_T r = EXP(x.re);
    return PAIR(r * NEAR_COS(x.im), x.im == 0 ? x.im : r * NEAR_SIN(x.im));
}
/* ln|x| by one logarithm of the sum of squares, which parts far from 1 are scaled for. Near 1 the sum less 1 is known
 * without its rounding, and what the rounded sum lacks of it is added. */
DL_HELPER(c_log)(T x) {
    const int narrow = sizeof(PART_T) == sizeof(float);
    const PART_T far = (PART_T)(narrow ? 0x1p60 : 0x1p500), by = (PART_T)(narrow ? 0x1p96 : 0x1p800);
    const PART_T shift = (PART_T)(narrow ? 96 * 0.69314718055994530942 : 800 * 0.69314718055994530942);
    PART_T a = ABS(x.re), b = ABS(x.im), big = a > b ? a : b, small = a > b ? b : a;
    const int large = big > far, little = big < 1 / far, infinite = (a == (PART_T)INFINITY) | (b == (PART_T)INFINITY);
    PART_T scale = large ? 1 / by : little ? by : 1, p = big * scale, q = small * scale;
    PART_T less = (big - 1) * (big + 1) + small * small;
    const int near = (less > (PART_T)-0.75) & (less < 1);
    PART_T sum = near ? 1 + less : p * p + q * q, rest = near ? less - (sum - 1) : 0;
    PART_T whole = infinite ? (PART_T)INFINITY : sum;
    return PAIR((LOG(whole) + rest) / 2 + (large ? shift : little ? -shift : 0), ATAN2(x.im, x.re));
}
/* The root in the right half plane. */
DL_HELPER(c_sqrt)(T x) {
    PART_T a = ABS(x.re), size = HYPOT(a, x.im);
    if (size == 0) return PAIR(0, x.im);
    if (!(size < (PART_T)INFINITY)) {
        if (ABS(x.im) == (PART_T)INFINITY) return PAIR(ABS(x.im), x.im);
        if (x.re != x.re || x.im != x.im) return PAIR(x.re + x.im, x.re + x.im);
        return x.re > 0 ? PAIR(x.re, COPYSIGN((PART_T)0, x.im)) : PAIR((PART_T)0, COPYSIGN(a, x.im));
    }
    PART_T big = SQRT(a / 2 + size / 2), small = ABS(x.im) / (2 * big);
    return x.re >= 0 ? PAIR(big, COPYSIGN(small, x.im)) : PAIR(small, COPYSIGN(big, x.im));
}
/* (sinh(2 re) + i sin(2 im)) / (cosh(2 re) + cos(2 im)), by half the angles; +-1 far from the axis. u = e**|re| - 1 */
DL_HELPER(c_tanh)(T x) {
    PART_T sine, cosine;
    SINCOS(x.im, sine, cosine);
    if (ABS(x.re) > 20) {
        PART_T e = EXP(-2 * ABS(x.re));
        return PAIR(COPYSIGN((PART_T)1, x.re), 4 * e * sine * cosine);
    }
    PART_T u = EXPM1(ABS(x.re)), e = u + 1, inverse = 1 / e, s = (u + u * inverse) / 2, c = (e + inverse) / 2;
    PART_T by = 1 / (s * s + cosine * cosine);
    return PAIR(COPYSIGN(s * c * by, x.re), sine * cosine * by);
}
#endif
