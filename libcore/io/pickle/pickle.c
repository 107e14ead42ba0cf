/* Parsing pickles, protocols 0 to 5, into trees. Format: Python's Lib/pickletools.py. */
#include "io/pickle/pickle.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/list.h"

/* MOST_NODES bounds what a small file can ask for: a node is made by a byte. */
enum { CHUNK = 1 << 16, MOST_NODES = 1 << 23, MOST_TEXT = 1 << 30 };

typedef struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
} chunk;

struct dl_pickle {
    const char *name;
    const uint8_t *p;
    size_t n, i, op; /* bytes; the next one; where the current opcode stands */
    dl_pickle_node **stack, **memo;
    long depth, stack_cap, memos, memo_cap;
    long *mark; /* depths of the stack */
    long marks, mark_cap;
    long nodes;
    chunk *chunks;
    bool stopped;
};

static dl_status bad(const dl_pickle *k, const char *what) {
    return dl_fail_hint(DL_ERR_FORMAT, "the file is damaged, was cut off, or holds no pickle",
                        "%s: the pickle is wrong at byte %zu: %s", k->name, k->op, what);
}

/* ---------------------------------------------------------------- memory */

static void *arena(dl_pickle *k, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    if (!k->chunks || k->chunks->size - k->chunks->used < bytes) {
        size_t size = bytes < CHUNK ? CHUNK : bytes;
        chunk *c = malloc(sizeof *c + size);
        if (!c) return dl_fail(DL_ERR_MEMORY, "no memory for the pickle of '%s'", k->name), NULL;
        c->next = k->chunks, c->used = 0, c->size = size;
        k->chunks = c;
    }
    void *p = k->chunks->bytes + k->chunks->used;
    k->chunks->used += bytes;
    return p;
}

static dl_pickle_node *node(dl_pickle *k, dl_pickle_kind kind) {
    if (k->nodes++ >= MOST_NODES) {
        dl_fail(DL_ERR_UNSUPPORTED, "%s: the pickle has more than %d values at byte %zu", k->name, MOST_NODES, k->op);
        return NULL;
    }
    dl_pickle_node *x = arena(k, sizeof *x);
    if (!x) return NULL;
    *x = (dl_pickle_node){.kind = (uint8_t)kind, .at = k->op};
    return x;
}

/* Room for more items; the outgrown list stays in the arena, so that all lists together take twice their items. */
static dl_status add_items(dl_pickle *k, dl_pickle_node *to, dl_pickle_node *const *items, long n) {
    size_t want = (size_t)to->n + (size_t)n;
    if (want > to->cap) {
        size_t cap = want < 2 * (size_t)to->cap ? 2 * (size_t)to->cap : want;
        dl_pickle_node **more = arena(k, cap * sizeof *more);
        if (!more) return dl_failed();
        if (to->n) memcpy(more, to->item, to->n * sizeof *more);
        to->item = more, to->cap = (uint32_t)cap;
    }
    if (n) memcpy(to->item + to->n, items, (size_t)n * sizeof *items);
    to->n = (uint32_t)want;
    return DL_OK;
}

/* ---------------------------------------------------------------- the stack */

static dl_status push(dl_pickle *k, dl_pickle_node *x) {
    if (!x) return dl_failed();
    DL_TRY(DL_LIST_ROOM(k->stack, k->depth, k->stack_cap));
    k->stack[k->depth++] = x;
    return DL_OK;
}

/* The lowest place of the stack that may be taken: what lies below a mark belongs to what began before. */
static long bottom(const dl_pickle *k) { return k->marks ? k->mark[k->marks - 1] : 0; }

static dl_status pop(dl_pickle *k, dl_pickle_node **x) {
    if (k->depth <= bottom(k)) return bad(k, "a value is taken where there is none");
    *x = k->stack[--k->depth];
    return DL_OK;
}

/* What lies above the last mark: *n values from *items on, which are taken. */
static dl_status pop_mark(dl_pickle *k, dl_pickle_node ***items, long *n) {
    if (!k->marks) return bad(k, "a mark is taken where there is none");
    long at = k->mark[--k->marks];
    *items = k->stack ? k->stack + at : NULL, *n = k->depth - at;
    k->depth = at;
    return DL_OK;
}

static dl_status push_items(dl_pickle *k, dl_pickle_kind kind, dl_pickle_node *const *items, long n) {
    dl_pickle_node *x = node(k, kind);
    if (!x) return dl_failed();
    x->pairs = kind == DL_PICKLE_DICT;
    if (x->pairs && n % 2) return bad(k, "a key has no value");
    DL_TRY(add_items(k, x, items, n));
    return push(k, x);
}

/* Adds to the container on top of the stack. */
static dl_status fill(dl_pickle *k, dl_pickle_node *const *items, long n, bool pairs) {
    if (k->depth <= bottom(k)) return bad(k, "there is nothing to fill");
    dl_pickle_node *to = k->stack[k->depth - 1];
    bool call = to->kind == DL_PICKLE_CALL && (!to->n || to->pairs == pairs);
    if (!call && to->kind != (pairs ? DL_PICKLE_DICT : DL_PICKLE_LIST))
        return bad(k, "what is to be filled is not a list or dict");
    if (pairs && n % 2) return bad(k, "a key has no value");
    to->pairs = pairs;
    return add_items(k, to, items, n);
}

/* ---------------------------------------------------------------- opcodes */

/* What follows an opcode: a number of bytes, or bytes behind their length or before a newline. */
typedef enum operand { O_NONE, O_1, O_2, O_4, O_8, O_LINE, O_2LINES, O_TEXT1, O_TEXT4, O_TEXT8 } operand;

typedef struct operands {
    uint64_t v;
    const char *text, *second;
    size_t n, n2;
} operands;

static uint64_t little(const uint8_t *p, int n) {
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static dl_status take(dl_pickle *k, size_t n, const uint8_t **p) {
    if (n > k->n - k->i) return bad(k, "it ends within a value");
    *p = k->p + k->i;
    k->i += n;
    return DL_OK;
}

static dl_status take_line(dl_pickle *k, const char **text, size_t *n) {
    const uint8_t *end = memchr(k->p + k->i, '\n', k->n - k->i);
    if (!end) return bad(k, "it ends within a value");
    *text = (const char *)k->p + k->i;
    *n = (size_t)(end - (k->p + k->i));
    k->i += *n + 1;
    return DL_OK;
}

static dl_status take_operands(dl_pickle *k, operand form, operands *o) {
    static const int sizes[] = {
        [O_1] = 1, [O_2] = 2, [O_4] = 4, [O_8] = 8, [O_TEXT1] = 1, [O_TEXT4] = 4, [O_TEXT8] = 8};
    const uint8_t *p = NULL;
    if (form == O_NONE) return DL_OK;
    if (form == O_LINE || form == O_2LINES) {
        DL_TRY(take_line(k, &o->text, &o->n));
        return form == O_2LINES ? take_line(k, &o->second, &o->n2) : DL_OK;
    }
    DL_TRY(take(k, (size_t)sizes[form], &p));
    o->v = little(p, sizes[form]);
    if (form < O_TEXT1) return DL_OK;
    if (o->v > MOST_TEXT) return bad(k, "it ends within a value");
    o->n = (size_t)o->v;
    DL_TRY(take(k, o->n, &p));
    o->text = (const char *)p;
    return DL_OK;
}

typedef dl_status handler(dl_pickle *k, const operands *o, int arg);

static dl_status do_plain(dl_pickle *k, const operands *o DL_UNUSED, int kind) {
    dl_pickle_node *x = node(k, (dl_pickle_kind)kind);
    if (x) x->pairs = kind == DL_PICKLE_DICT;
    return push(k, x);
}

static dl_status push_int(dl_pickle *k, int64_t v, dl_pickle_kind kind) {
    dl_pickle_node *x = node(k, kind);
    if (x) x->i = v;
    return push(k, x);
}

static dl_status do_bool(dl_pickle *k, const operands *o DL_UNUSED, int v) { return push_int(k, v, DL_PICKLE_BOOL); }

/* BININT is signed, the shorter ones are not. */
static dl_status do_int(dl_pickle *k, const operands *o, int is_signed) {
    return push_int(k, is_signed ? (int32_t)o->v : (int64_t)o->v, DL_PICKLE_INT);
}

/* The bytes of an integer in two's complement, the lowest first. */
static dl_status do_long(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    const uint8_t *p = (const uint8_t *)o->text;
    if (!o->n) return push_int(k, 0, DL_PICKLE_INT);
    if (o->n <= 8) {
        int shift = 64 - 8 * (int)o->n;
        return push_int(k, (int64_t)(little(p, (int)o->n) << shift) >> shift, DL_PICKLE_INT);
    }
    double v = 0;
    int negative = p[o->n - 1] >> 7;
    for (size_t i = o->n; i-- > 0;) v = v * 256 + (negative ? (uint8_t)~p[i] : p[i]);
    dl_pickle_node *x = node(k, DL_PICKLE_WIDE);
    if (x) x->f = negative ? -v - 1 : v;
    return push(k, x);
}

/* "12", "12L" and, of protocol 0, "00" and "01" for false and true. */
static dl_status do_decimal(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    char text[32], *end;
    size_t n = o->n && o->text[o->n - 1] == 'L' ? o->n - 1 : o->n;
    if (n == 2 && o->text[0] == '0' && (o->text[1] == '0' || o->text[1] == '1'))
        return push_int(k, o->text[1] - '0', DL_PICKLE_BOOL);
    if (!n || n >= sizeof text || isspace((unsigned char)*o->text)) return bad(k, "a number is none");
    memcpy(text, o->text, n);
    text[n] = 0;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || *end || end != text + n) return bad(k, "a number is none, or has more than 64 bits");
    return push_int(k, v, DL_PICKLE_INT);
}

static dl_status push_float(dl_pickle *k, double v) {
    dl_pickle_node *x = node(k, DL_PICKLE_FLOAT);
    if (x) x->f = v;
    return push(k, x);
}

static dl_status do_float(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    double v;
    uint64_t bits = __builtin_bswap64(o->v); /* its first byte is the highest */
    memcpy(&v, &bits, sizeof v);
    return push_float(k, v);
}

static dl_status do_float_text(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    char text[64], *end;
    if (!o->n || o->n >= sizeof text) return bad(k, "a number is none");
    memcpy(text, o->text, o->n);
    text[o->n] = 0;
    double v = strtod(text, &end);
    return end == text + o->n ? push_float(k, v) : bad(k, "a number is none");
}

static dl_status push_text(dl_pickle *k, dl_pickle_kind kind, const char *text, size_t n) {
    dl_pickle_node *x = node(k, kind);
    if (x) x->text = text, x->n = (uint32_t)n;
    return push(k, x);
}

static dl_status do_text(dl_pickle *k, const operands *o, int kind) {
    return push_text(k, (dl_pickle_kind)kind, o->text, o->n);
}

/* Of protocol 0, in quotes; those with escapes are not undone: no format that is read here has them. */
static dl_status do_quoted(dl_pickle *k, const operands *o, int kind) {
    if (o->n < 2 || (*o->text != '\'' && *o->text != '"') || o->text[o->n - 1] != *o->text)
        return bad(k, "a string has no quotes");
    if (memchr(o->text, '\\', o->n)) return bad(k, "strings with escapes are not read");
    return push_text(k, (dl_pickle_kind)kind, o->text + 1, o->n - 2);
}

static dl_status do_escaped(dl_pickle *k, const operands *o, int kind) {
    if (o->n && memchr(o->text, '\\', o->n)) return bad(k, "strings with escapes are not read");
    return push_text(k, (dl_pickle_kind)kind, o->text, o->n);
}

static dl_status push_global(dl_pickle *k, const char *module, size_t n, const char *name, size_t n2) {
    dl_pickle_node *x = node(k, DL_PICKLE_GLOBAL), *of = x ? node(k, DL_PICKLE_TEXT) : NULL;
    if (!of) return dl_failed();
    x->text = module, x->n = (uint32_t)n;
    of->text = name, of->n = (uint32_t)n2;
    x->fn = of;
    return push(k, x);
}

static dl_status do_global(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    return push_global(k, o->text, o->n, o->second, o->n2);
}

static dl_status do_stack_global(dl_pickle *k, const operands *o DL_UNUSED, int unused DL_UNUSED) {
    dl_pickle_node *name = NULL, *module = NULL;
    DL_TRY(pop(k, &name));
    DL_TRY(pop(k, &module));
    if (name->kind != DL_PICKLE_TEXT || module->kind != DL_PICKLE_TEXT) return bad(k, "a name is not a string");
    return push_global(k, module->text, module->n, name->text, name->n);
}

/* REDUCE, NEWOBJ: fn and a tuple lie on the stack; with_names: NEWOBJ_EX, a dict above them. */
static dl_status do_call(dl_pickle *k, const operands *o DL_UNUSED, int with_names) {
    dl_pickle_node *fn = NULL, *args = NULL, *names = NULL;
    if (with_names) DL_TRY(pop(k, &names));
    DL_TRY(pop(k, &args));
    DL_TRY(pop(k, &fn));
    if (args->kind != DL_PICKLE_TUPLE || (names && (names->kind != DL_PICKLE_DICT || names->n)))
        return bad(k, "the arguments of a call are not plain tuple");
    dl_pickle_node *x = node(k, DL_PICKLE_CALL);
    if (x) x->fn = fn, x->args = args;
    return push(k, x);
}

static dl_status do_build(dl_pickle *k, const operands *o DL_UNUSED, int unused DL_UNUSED) {
    dl_pickle_node *state = NULL;
    DL_TRY(pop(k, &state));
    if (k->depth <= bottom(k)) return bad(k, "there is no object to give a state to");
    dl_pickle_node *x = k->stack[k->depth - 1];
    if (x->kind != DL_PICKLE_CALL) return bad(k, "a state is given to what is no object");
    x->state = state;
    return DL_OK;
}

static dl_status do_ref(dl_pickle *k, const operands *o, int text) {
    dl_pickle_node *id = NULL;
    if (text) DL_TRY(push_text(k, DL_PICKLE_TEXT, o->text, o->n));
    DL_TRY(pop(k, &id));
    dl_pickle_node *x = node(k, DL_PICKLE_REF);
    if (x) x->args = id;
    return push(k, x);
}

static dl_status do_tuple(dl_pickle *k, const operands *o DL_UNUSED, int n) {
    dl_pickle_node *items[3];
    for (int i = n; i-- > 0;) DL_TRY(pop(k, &items[i]));
    return push_items(k, DL_PICKLE_TUPLE, items, n);
}

static dl_status do_marked(dl_pickle *k, const operands *o DL_UNUSED, int kind) {
    dl_pickle_node **items = NULL;
    long n = 0;
    DL_TRY(pop_mark(k, &items, &n));
    return push_items(k, (dl_pickle_kind)kind, items, n);
}

static dl_status do_fill_one(dl_pickle *k, const operands *o DL_UNUSED, int n) {
    dl_pickle_node *items[2];
    for (int i = n; i-- > 0;) DL_TRY(pop(k, &items[i]));
    return fill(k, items, n, n == 2);
}

static dl_status do_fill(dl_pickle *k, const operands *o DL_UNUSED, int pairs) {
    dl_pickle_node **items = NULL;
    long n = 0;
    DL_TRY(pop_mark(k, &items, &n));
    return fill(k, items, n, pairs);
}

static dl_status do_mark(dl_pickle *k, const operands *o DL_UNUSED, int unused DL_UNUSED) {
    DL_TRY(DL_LIST_ROOM(k->mark, k->marks, k->mark_cap));
    k->mark[k->marks++] = k->depth;
    return DL_OK;
}

static dl_status do_pop(dl_pickle *k, const operands *o DL_UNUSED, int to_mark) {
    dl_pickle_node **items = NULL, *x = NULL;
    long n = 0;
    /* Python's pop takes a mark that lies on top */
    return to_mark || (k->marks && k->depth == bottom(k)) ? pop_mark(k, &items, &n) : pop(k, &x);
}

static dl_status do_dup(dl_pickle *k, const operands *o DL_UNUSED, int unused DL_UNUSED) {
    if (k->depth <= bottom(k)) return bad(k, "a value is taken where there is none");
    return push(k, k->stack[k->depth - 1]);
}

static dl_status memo_number(const dl_pickle *k, const operands *o, uint64_t *v) {
    *v = o->v;
    if (!o->text) return DL_OK;
    *v = 0;
    for (size_t i = 0; i < o->n; i++) {
        if (!isdigit((unsigned char)o->text[i]) || *v > UINT32_MAX) return bad(k, "a number of the memo is none");
        *v = 10 * *v + (uint64_t)(o->text[i] - '0');
    }
    return DL_OK;
}

static dl_status remember(dl_pickle *k, uint64_t number) {
    if (number > k->n) return bad(k, "a number of the memo is larger than the pickle");
    if (k->depth <= bottom(k)) return bad(k, "there is nothing to remember");
    while (k->memos <= (long)number) {
        DL_TRY(DL_LIST_ROOM(k->memo, k->memos, k->memo_cap));
        k->memo[k->memos++] = NULL;
    }
    k->memo[number] = k->stack[k->depth - 1];
    return DL_OK;
}

static dl_status do_put(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    uint64_t number = 0;
    DL_TRY(memo_number(k, o, &number));
    return remember(k, number);
}

static dl_status do_memoize(dl_pickle *k, const operands *o DL_UNUSED, int unused DL_UNUSED) {
    return remember(k, (uint64_t)k->memos);
}

static dl_status do_get(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    uint64_t number = 0;
    DL_TRY(memo_number(k, o, &number));
    if (number >= (uint64_t)k->memos || !k->memo[number]) return bad(k, "the memo has no such value");
    return push(k, k->memo[number]);
}

static dl_status do_proto(dl_pickle *k, const operands *o, int unused DL_UNUSED) {
    if (o->v <= 5) return DL_OK;
    return dl_fail(DL_ERR_UNSUPPORTED, "%s: pickles of protocol %d are not read", k->name, (int)o->v);
}

static dl_status do_nothing(dl_pickle *k DL_UNUSED, const operands *o DL_UNUSED, int unused DL_UNUSED) { return DL_OK; }

static dl_status do_stop(dl_pickle *k, const operands *o DL_UNUSED, int unused DL_UNUSED) {
    if (k->depth != 1 || k->marks) return bad(k, "it ends with other than one value");
    k->stopped = true;
    return DL_OK;
}

/* By opcode; what is not here, such as INST and the codes of copyreg's extensions, is refused. */
static const struct {
    handler *run;
    operand form;
    int arg;
} opcodes[256] = {
    [0x80] = {do_proto, O_1, 0},
    [0x95] = {do_nothing, O_8, 0}, /* FRAME */
    ['.'] = {do_stop, O_NONE, 0},
    ['('] = {do_mark, O_NONE, 0},
    ['0'] = {do_pop, O_NONE, 0},
    ['1'] = {do_pop, O_NONE, 1},
    ['2'] = {do_dup, O_NONE, 0},
    ['N'] = {do_plain, O_NONE, DL_PICKLE_NONE},
    [0x88] = {do_bool, O_NONE, 1},
    [0x89] = {do_bool, O_NONE, 0},
    ['I'] = {do_decimal, O_LINE, 0},
    ['L'] = {do_decimal, O_LINE, 0},
    ['J'] = {do_int, O_4, 1},
    ['K'] = {do_int, O_1, 0},
    ['M'] = {do_int, O_2, 0},
    [0x8a] = {do_long, O_TEXT1, 0},
    [0x8b] = {do_long, O_TEXT4, 0},
    ['F'] = {do_float_text, O_LINE, 0},
    ['G'] = {do_float, O_8, 0},
    ['S'] = {do_quoted, O_LINE, DL_PICKLE_BYTES},
    ['T'] = {do_text, O_TEXT4, DL_PICKLE_BYTES},
    ['U'] = {do_text, O_TEXT1, DL_PICKLE_BYTES},
    ['B'] = {do_text, O_TEXT4, DL_PICKLE_BYTES},
    ['C'] = {do_text, O_TEXT1, DL_PICKLE_BYTES},
    [0x8e] = {do_text, O_TEXT8, DL_PICKLE_BYTES},
    [0x96] = {do_text, O_TEXT8, DL_PICKLE_BYTES}, /* BYTEARRAY8 */
    ['V'] = {do_escaped, O_LINE, DL_PICKLE_TEXT},
    ['X'] = {do_text, O_TEXT4, DL_PICKLE_TEXT},
    [0x8c] = {do_text, O_TEXT1, DL_PICKLE_TEXT},
    [0x8d] = {do_text, O_TEXT8, DL_PICKLE_TEXT},
    [']'] = {do_plain, O_NONE, DL_PICKLE_LIST},
    ['l'] = {do_marked, O_NONE, DL_PICKLE_LIST},
    [0x8f] = {do_plain, O_NONE, DL_PICKLE_LIST},  /* EMPTY_SET */
    [0x91] = {do_marked, O_NONE, DL_PICKLE_LIST}, /* FROZENSET */
    ['a'] = {do_fill_one, O_NONE, 1},
    ['e'] = {do_fill, O_NONE, 0},
    [0x90] = {do_fill, O_NONE, 0}, /* ADDITEMS */
    [')'] = {do_tuple, O_NONE, 0},
    [0x85] = {do_tuple, O_NONE, 1},
    [0x86] = {do_tuple, O_NONE, 2},
    [0x87] = {do_tuple, O_NONE, 3},
    ['t'] = {do_marked, O_NONE, DL_PICKLE_TUPLE},
    ['}'] = {do_plain, O_NONE, DL_PICKLE_DICT},
    ['d'] = {do_marked, O_NONE, DL_PICKLE_DICT},
    ['s'] = {do_fill_one, O_NONE, 2},
    ['u'] = {do_fill, O_NONE, 1},
    ['c'] = {do_global, O_2LINES, 0},
    [0x93] = {do_stack_global, O_NONE, 0},
    ['R'] = {do_call, O_NONE, 0},
    [0x81] = {do_call, O_NONE, 0},
    [0x92] = {do_call, O_NONE, 1},
    ['b'] = {do_build, O_NONE, 0},
    ['P'] = {do_ref, O_LINE, 1},
    ['Q'] = {do_ref, O_NONE, 0},
    ['p'] = {do_put, O_LINE, 0},
    ['q'] = {do_put, O_1, 0},
    ['r'] = {do_put, O_4, 0},
    [0x94] = {do_memoize, O_NONE, 0},
    ['g'] = {do_get, O_LINE, 0},
    ['h'] = {do_get, O_1, 0},
    ['j'] = {do_get, O_4, 0},
};

static dl_status run(dl_pickle *k) {
    while (!k->stopped) {
        k->op = k->i;
        if (k->i == k->n) return bad(k, "it ends before its last value");
        uint8_t op = k->p[k->i++];
        if (!opcodes[op].run) {
            char what[64];
            snprintf(what, sizeof what, "the opcode 0x%02x is not read", op);
            return bad(k, what);
        }
        operands o = {0};
        DL_TRY(take_operands(k, opcodes[op].form, &o));
        DL_TRY(opcodes[op].run(k, &o, opcodes[op].arg));
    }
    return DL_OK;
}

/* ---------------------------------------------------------------- the whole */

dl_pickle *dl_pickle_parse(const char *name, const void *p, size_t n, size_t *used) {
    dl_pickle *k = calloc(1, sizeof *k);
    if (!k) return dl_fail(DL_ERR_MEMORY, "no memory for the pickle of '%s'", name), NULL;
    k->name = name, k->p = p, k->n = n;
    if (run(k) == DL_OK) {
        if (used) *used = k->i;
        return k;
    }
    dl_pickle_free(k);
    return NULL;
}

const dl_pickle_node *dl_pickle_root(const dl_pickle *k) { return k->stack[0]; }

void dl_pickle_free(dl_pickle *k) {
    if (!k) return;
    for (chunk *c = k->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(k->stack);
    free(k->memo);
    free(k->mark);
    free(k);
}

static bool same(const char *text, size_t n, const char *word) { return strlen(word) == n && !memcmp(text, word, n); }

bool dl_pickle_is_global(const dl_pickle_node *x, const char *module, const char *name) {
    return x->kind == DL_PICKLE_GLOBAL && same(x->text, x->n, module) && same(x->fn->text, x->fn->n, name);
}

bool dl_pickle_is_text(const dl_pickle_node *x, const char *text) {
    return (x->kind == DL_PICKLE_TEXT || x->kind == DL_PICKLE_BYTES) && same(x->text, x->n, text);
}

void dl_pickle_global_text(const dl_pickle_node *x, char *out, size_t size) {
    if (x->kind != DL_PICKLE_GLOBAL)
        snprintf(out, size, "an object");
    else
        snprintf(out, size, "%.*s.%.*s", x->n < 60 ? (int)x->n : 60, x->text, x->fn->n < 60 ? (int)x->fn->n : 60,
                 x->fn->text);
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f) *p = '?';
}
