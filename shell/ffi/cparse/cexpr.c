/* Expressions in C declarations: constants, array lengths over parameters, bodies of macros. */
#include <stdlib.h>
#include <string.h>

#include "ffi/cparse/cparser.h"
#include "lang/session.h"

/* ---------------------------------------------------------------- values
 * One evaluator serves enum values, array lengths and macros; floating values and strings occur in macros only. */

typedef struct value {
    int kind; /* 0: none, 1 integer, 2 floating, 3 string */
    long i;
    double f;
    int is_unsigned; /* an integer of 64 bits without sign */
    char *text;      /* malloc'ed */
} value;

static value conditional(dlsh_cparser *p);

static value none(void) { return (value){0}; }
static value integer(long i) { return (value){.kind = 1, .i = i}; }
static double number(value v) { return v.kind == 2 ? v.f : (double)v.i; }

static value cannot(dlsh_cparser *p) {
    dlsh_cp_expected(p, "a constant", NULL);
    return none();
}

static value string_value(dlsh_cparser *p) {
    DLSH_SCOPED_BUF b = {0};
    while (p->tok.kind == DLSH_CT_STRING) {
        DLSH_FREED char *s = malloc(p->tok.len + 1);
        if (!s) break;
        dlsh_buf_add(&b, s, dlsh_clex_string(&p->tok, s));
        dlsh_cp_advance(p);
    }
    char *text = b.failed ? NULL : strdup(dlsh_buf_text(&b));
    return (value){.kind = text ? 3 : 0, .text = text};
}

static int is_unsigned_long(const dlsh_ctype *t) { return dlsh_c_is_unsigned(t) && dlsh_c_size(t) == 8; }

static value named(dlsh_cparser *p) {
    const dlsh_cname *n = dlsh_c_find(p->c, p->tok.text, p->tok.len);
    if (!n || n->kind != DLSH_C_CONSTANT || (!n->s && n->type->kind == DLSH_C_POINTER)) return cannot(p);
    dlsh_cp_advance(p);
    if (n->s) {
        char *copy = strdup(n->s);
        return (value){.kind = copy ? 3 : 0, .text = copy};
    }
    return dlsh_c_is_float(n->type) ? (value){.kind = 2, .f = n->f}
                                    : (value){.kind = 1, .i = n->i, .is_unsigned = is_unsigned_long(n->type)};
}

/* The type in the parentheses of a cast or of sizeof. */
static const dlsh_ctype *type_in_parens(dlsh_cparser *p) {
    dlsh_cp_advance(p);
    const dlsh_ctype *t = dlsh_cp_type_name(p);
    if (t && !dlsh_cp_accept(p, ')')) return dlsh_cp_expected(p, "')'", NULL);
    return t;
}

static value convert(value v, const dlsh_ctype *t) {
    if (dlsh_c_is_float(t)) return (value){.kind = v.kind == 1 || v.kind == 2 ? 2 : 0, .f = number(v)};
    if (!dlsh_c_is_integer(t) || v.kind > 2 || !v.kind) {
        free(v.text);
        return none();
    }
    long i = v.kind == 2 ? (long)v.f : v.i;
    int bits = (int)(8 * dlsh_c_size(t));
    if (bits < 64)
        i = dlsh_c_is_unsigned(t) ? i & ((1L << bits) - 1) : (long)((unsigned long)i << (64 - bits)) >> (64 - bits);
    return (value){.kind = 1, .i = i, .is_unsigned = bits == 64 && dlsh_c_is_unsigned(t)};
}

static value primary(dlsh_cparser *p);

static value unary(dlsh_cparser *p) {
    int op = p->tok.op;
    dlsh_cp_advance(p);
    value v = primary(p);
    if (v.kind == 3 || !v.kind) {
        free(v.text);
        return cannot(p);
    }
    if (v.kind == 2) return (value){.kind = op == '~' || op == '!' ? 0 : 2, .f = op == '-' ? -v.f : v.f};
    return integer(op == '-' ? (long)(0 - (unsigned long)v.i) : op == '~' ? ~v.i : op == '!' ? !v.i : v.i);
}

static value operand(dlsh_cparser *p) {
    long i = 0;
    double f = 0;
    if (p->tok.kind == DLSH_CT_STRING) return string_value(p);
    if (p->tok.kind == DLSH_CT_NUMBER || p->tok.kind == DLSH_CT_CHAR) {
        int kind = dlsh_clex_number(&p->tok, &i, &f);
        if (!kind) return cannot(p);
        const char *end = p->tok.text + p->tok.len;
        int suffixed = kind == 1 && p->tok.kind == DLSH_CT_NUMBER &&
                       ((end[-1] | 32) == 'u' || (p->tok.len > 2 && (end[-2] | 32) == 'u'));
        dlsh_cp_advance(p);
        return (value){.kind = kind, .i = i, .f = f, .is_unsigned = suffixed};
    }
    if (dlsh_clex_is(&p->tok, "sizeof")) {
        dlsh_cp_advance(p);
        const dlsh_ctype *t = dlsh_cp_is(p, '(') ? type_in_parens(p) : NULL;
        return t ? integer((long)dlsh_c_size(t)) : cannot(p);
    }
    if (p->tok.kind == DLSH_CT_IDENT) return named(p);
    dlsh_ctok next = dlsh_cp_peek(p);
    if (dlsh_cp_is(p, '(') && dlsh_cp_at_type(p, &next)) {
        const dlsh_ctype *t = type_in_parens(p);
        value v = t ? primary(p) : none();
        return t ? convert(v, t) : v;
    }
    if (dlsh_cp_accept(p, '(')) {
        value v = conditional(p);
        if (!dlsh_cp_accept(p, ')')) dlsh_cp_expected(p, "')'", NULL);
        return v;
    }
    if (dlsh_cp_is(p, '-') || dlsh_cp_is(p, '+') || dlsh_cp_is(p, '~') || dlsh_cp_is(p, '!')) return unary(p);
    return cannot(p);
}

static value primary(dlsh_cparser *p) {
    if (!dlsh_cp_enter(p)) return none();
    value v = operand(p);
    dlsh_cp_leave(p);
    return v;
}

/* The precedence of a binary operator, from 1; 0: the token is none. */
static int precedence(const dlsh_cparser *p) {
    static const struct {
        int op, precedence;
    } operators[] = {{DLSH_CP_OR, 1},  {DLSH_CP_AND, 2}, {'|', 3}, {'^', 4},        {'&', 5},        {DLSH_CP_EQ, 6},
                     {DLSH_CP_NE, 6},  {'<', 7},         {'>', 7}, {DLSH_CP_LE, 7}, {DLSH_CP_GE, 7}, {DLSH_CP_SHL, 8},
                     {DLSH_CP_SHR, 8}, {'+', 9},         {'-', 9}, {'*', 10},       {'/', 10},       {'%', 10}};
    for (size_t i = 0; i < DLSH_COUNT(operators); i++)
        if (dlsh_cp_is(p, operators[i].op)) return operators[i].precedence;
    return 0;
}

static value float_binary(int op, double a, double b) {
    switch (op) {
    case '+': return (value){.kind = 2, .f = a + b};
    case '-': return (value){.kind = 2, .f = a - b};
    case '*': return (value){.kind = 2, .f = a * b};
    case '/': return (value){.kind = 2, .f = a / b};
    default: return none();
    }
}

static value int_binary(int op, value x, value y) {
    unsigned long a = (unsigned long)x.i, b = (unsigned long)y.i;
    int u = x.is_unsigned || (y.is_unsigned && op != DLSH_CP_SHR);
    switch (op) {
    case '+': return integer((long)(a + b));
    case '-': return integer((long)(a - b));
    case '*': return integer((long)(a * b));
    case '/':
    case '%':
        if (!b || (!u && y.i == -1 && x.i == -__LONG_MAX__ - 1)) return none();
        if (u) return integer((long)(op == '/' ? a / b : a % b));
        return integer(op == '/' ? x.i / y.i : x.i % y.i);
    case DLSH_CP_SHL: return b > 63 ? none() : integer((long)(a << b));
    case DLSH_CP_SHR: return b > 63 ? none() : integer(u ? (long)(a >> b) : x.i >> b);
    case '&': return integer((long)(a & b));
    case '|': return integer((long)(a | b));
    case '^': return integer((long)(a ^ b));
    case '<': return integer(u ? a < b : x.i < y.i);
    case '>': return integer(u ? a > b : x.i > y.i);
    case DLSH_CP_LE: return integer(u ? a <= b : x.i <= y.i);
    case DLSH_CP_GE: return integer(u ? a >= b : x.i >= y.i);
    case DLSH_CP_EQ: return integer(a == b);
    case DLSH_CP_NE: return integer(a != b);
    case DLSH_CP_AND: return integer(a && b);
    default: return integer(a || b);
    }
}

static value binary(dlsh_cparser *p, int least) {
    value a = primary(p);
    for (int prec; !p->failed && (prec = precedence(p)) >= least && prec;) {
        int op = p->tok.op;
        dlsh_cp_advance(p);
        value b = binary(p, prec + 1), r = none();
        if (a.kind && b.kind && a.kind < 3 && b.kind < 3)
            r = a.kind == 2 || b.kind == 2 ? float_binary(op, number(a), number(b)) : int_binary(op, a, b);
        r.is_unsigned = op < 256 && strchr("+-*/%&|^", op) && (a.is_unsigned || b.is_unsigned);
        r.is_unsigned |= (op == DLSH_CP_SHL || op == DLSH_CP_SHR) && a.is_unsigned;
        free(a.text);
        free(b.text);
        if (!r.kind) return cannot(p);
        a = r;
    }
    return a;
}

static value conditional(dlsh_cparser *p) {
    value c = binary(p, 1);
    if (!dlsh_cp_is(p, '?') || !dlsh_cp_enter(p)) return c;
    dlsh_cp_advance(p);
    value a = conditional(p);
    if (!dlsh_cp_accept(p, ':')) dlsh_cp_expected(p, "':'", NULL);
    value b = conditional(p);
    dlsh_cp_leave(p);
    int yes = c.kind && c.kind < 3 && number(c) != 0;
    free(c.text);
    free(yes ? b.text : a.text);
    return yes ? a : b;
}

int dlsh_cp_constant(dlsh_cparser *p, long *out) {
    value v = conditional(p);
    if (v.kind != 1 && !p->failed) cannot(p);
    free(v.text);
    *out = v.i;
    return !p->failed;
}

/* ---------------------------------------------------------------- lengths */

static dlsh_clen *length_new(dlsh_cparser *p, int op, long v) {
    dlsh_clen *l = dlsh_c_alloc(p->c, sizeof *l);
    if (!l) return p->failed = DL_ERR_MEMORY, NULL;
    *l =
        (dlsh_clen){.op = op, .value = v, .param = -1, .line = p->tok.line, .col = p->tok.col, .offset = p->tok.offset};
    return l;
}

static dlsh_clen *length_sum(dlsh_cparser *p, int least);

/* Each term counts as a level of nesting: sums nest to the left, and recursive functions walk them. */
static dlsh_clen *length_primary(dlsh_cparser *p) {
    long i;
    double f;
    dlsh_clen *l = NULL;
    if (!dlsh_cp_enter(p)) return NULL;
    if (dlsh_cp_accept(p, '(')) {
        l = length_sum(p, 9);
        return dlsh_cp_accept(p, ')') ? l : dlsh_cp_expected(p, "')'", NULL);
    }
    const dlsh_cname *n = p->tok.kind == DLSH_CT_IDENT ? dlsh_c_find(p->c, p->tok.text, p->tok.len) : NULL;
    if (n && n->kind == DLSH_C_CONSTANT && dlsh_c_is_integer(n->type))
        l = length_new(p, 0, n->i);
    else if (p->tok.kind == DLSH_CT_IDENT) {
        if ((l = length_new(p, 'p', 0)) && !(l->name = dlsh_c_copy(p->c, p->tok.text, p->tok.len))) return NULL;
    } else if (dlsh_clex_number(&p->tok, &i, &f) == 1)
        l = length_new(p, 0, i);
    else
        return dlsh_cp_expected(p, "an array length: a number or the name of a parameter", NULL);
    dlsh_cp_advance(p);
    return l;
}

static dlsh_clen *length_sum(dlsh_cparser *p, int least) {
    dlsh_clen *a = length_primary(p), *r;
    for (int prec; a && (prec = precedence(p)) >= least && !dlsh_cp_is(p, '%');) {
        if (!(r = length_new(p, p->tok.op, 0))) return NULL;
        dlsh_cp_advance(p);
        r->left = a;
        if (!(r->right = length_sum(p, prec + 1))) return NULL;
        a = r;
    }
    return a;
}

dlsh_clen *dlsh_cp_length(dlsh_cparser *p) {
    int depth = p->depth;
    dlsh_clen *l = length_sum(p, 9);
    p->depth = depth;
    return l;
}

/* ---------------------------------------------------------------- macros */

/* 1: entered, 0: no constant, -1: no memory. */
static int enter_macro(dlsh_cspace *c, const dlsh_cmacro *m) {
    dlsh_cerror err;
    dlsh_cparser p = {.c = c, .err = &err};
    const dlsh_cname *old = dlsh_c_find(c, m->name, strlen(m->name));
    if (m->params || (old && old->kind != DLSH_C_CONSTANT)) return 0;
    dlsh_clex_begin(&p.lx, m->body, strlen(m->body));
    dlsh_cp_advance(&p);
    value v = conditional(&p);
    dlsh_cname *n = NULL;
    int good = !p.failed && v.kind && p.tok.kind == DLSH_CT_END;
    if (good && (n = dlsh_c_enter(c, DLSH_C_CONSTANT, m->name, strlen(m->name),
                                  v.kind == 2 ? dlsh_c_basic(DLSH_C_DOUBLE) : dlsh_c_basic(DLSH_C_LONG)))) {
        n->i = v.i;
        n->f = v.f;
        if (v.kind == 3) {
            n->type = dlsh_c_pointer(c, dlsh_c_const(c, dlsh_c_basic(DLSH_C_CHAR)));
            n->s = dlsh_c_copy(c, v.text, strlen(v.text));
        }
    }
    free(v.text);
    return good ? (n && n->type ? 1 : -1) : 0;
}

dl_status dlsh_c_enter_macros(dlsh_cspace *c, const dlsh_cdecls *d) {
    /* a macro may use one that is defined later: repeated as long as new ones are found */
    DLSH_FREED char *done = calloc((size_t)d->nmacros + 1, 1);
    dl_status st = done ? DL_OK : dlsh_no_memory("constants");
    for (int more = 1, round = 0; more && !st && round < 6; round++) {
        more = 0;
        for (int i = 0; i < d->nmacros && !st; i++) {
            if (done[i]) continue;
            int r = enter_macro(c, &d->macros[i]);
            if (r < 0) st = dl_failed();
            if (r > 0) more = done[i] = 1;
        }
    }
    return st;
}
