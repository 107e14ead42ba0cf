/* The syntax tree: one kind of node for everything, spans for messages, the kinds in a table. */
#pragma once

#include <stddef.h>

#include "dlcore.h"

struct dlsh_command;
struct dlsh_value;

/* Where a node stands in its source: line and column from 1 (columns count bytes), byte offsets half open. */
typedef struct dlsh_span {
    int line, col;
    int start, end;
} dlsh_span;

/* NODE(NAME, "name in dumps", "text | number | kids"). Kids in [] may be NULL; x... repeats. */
#define DLSH_NODES(NODE)                                                                                               \
    /* expressions */                                                                                                  \
    NODE(NONE, "none", "")                                                                                             \
    NODE(BOOL, "bool", "num.i is 0 or 1")                                                                              \
    NODE(INT, "int", "num.i")                                                                                          \
    NODE(FLOAT, "float", "num.f")                                                                                      \
    NODE(IMAG, "imag", "num.f times the imaginary unit")                                                               \
    NODE(STR, "str", "text, num.i bytes; also a word of a command, flag WORD")                                         \
    NODE(NAME, "name", "text; slot")                                                                                   \
    NODE(LIST, "list", "kids: (expr | SPREAD)...")                                                                     \
    NODE(RECORD, "record", "kids: (KWARG | SPREAD)..., texts are the keys")                                            \
    NODE(CALL, "call", "kids: callee, (expr | KWARG | SPREAD)...; op MUL with a SPREAD")                               \
    NODE(KWARG, "kwarg", "text; kids: value")                                                                          \
    NODE(SPREAD, "spread", "op MUL: a sequence, POW: a record, whose items stand here; kids: value, or target")        \
    NODE(INDEX, "index", "kids: object, (expr | SLICE | ELLIPSIS)...")                                                 \
    NODE(SLICE, "slice", "kids: [from], [to], [step]")                                                                 \
    NODE(ELLIPSIS, "ellipsis", "")                                                                                     \
    NODE(FIELD, "field", "text; kids: object")                                                                         \
    NODE(UNARY, "unary", "op; kids: operand")                                                                          \
    NODE(BINARY, "binary", "op; kids: left, right")                                                                    \
    NODE(AND, "and", "kids: left, right")                                                                              \
    NODE(OR, "or", "kids: left, right")                                                                                \
    NODE(COND, "cond", "kids: condition, yes, no")                                                                     \
    NODE(FN, "fn", "[text]; kids: PARAM..., BLOCK; a statement when it has a text (its name)")                         \
    NODE(COMPREHENSION, "comprehension",                                                                               \
         "num.i: dlsh_comprehension; kids: FN of an item, without value it is left out; sequence")                     \
    NODE(PARAM, "param", "text; op MUL: takes the arguments left, POW: the named ones; kids: [default]")               \
    /* statements */                                                                                                   \
    NODE(BLOCK, "block", "kids: statement...")                                                                         \
    NODE(EXPR, "expr", "kids: expression; flag SILENT")                                                                \
    NODE(ASSIGN, "assign", "op (0 for plain =); kids: (NAME | FIELD | INDEX | TUPLE | SPREAD)..., value")              \
    NODE(TUPLE, "tuple", "kids: expr...; what has commas: right side, return, or target in parentheses")               \
    NODE(IF, "if", "kids: condition, BLOCK, [BLOCK | IF]")                                                             \
    NODE(WHILE, "while", "kids: condition, BLOCK")                                                                     \
    NODE(FOR, "for", "kids: (NAME | TUPLE | SPREAD)..., sequence, BLOCK")                                              \
    NODE(RETURN, "return", "kids: [expr | TUPLE]")                                                                     \
    NODE(BREAK, "break", "")                                                                                           \
    NODE(CONTINUE, "continue", "")                                                                                     \
    NODE(TRY, "try", "kids: BLOCK, [NAME], BLOCK")                                                                     \
    NODE(COMMAND, "command", "num.cmd is the row; kids: (ARG | OPTION | COMMAND of a subcommand)...; SILENT")          \
    NODE(ARG, "arg", "num.i: which of the row's parameters; kids: expr | STR | statement | BLOCK")                     \
    NODE(OPTION, "option", "text: name; kids: [value]; without value a bare boolean")                                  \
    NODE(NET, "net", "[text: name]; kids: PARAM..., LAYERS; an expression without text; op MUL: calls make it")        \
    NODE(LAYERS, "layers", "kids: (LAYER | TENSOR)..., a chain; [FN...], its forward and methods, label: name")        \
    NODE(TENSOR, "tensor", "text: param or buffer; label: name; kids: FN of `in` to its shape, OPTION...")             \
    NODE(LAYER, "layer", "text: kind; label; kids: (expr | OPTION)..., [LAYERS], [LAYERS of shortcut]")                \
    NODE(EXTERN, "extern", "text: library; label: the C text; kids: OPTION...")                                        \
    NODE(CBLOCK, "cblock", "text: C or CUDA; label: the C text, num.i its offset; kids: OPTION...")

typedef enum dlsh_kind {
#define NODE(id, name, doc) DLSH_N_##id,
    DLSH_NODES(NODE)
#undef NODE
        DLSH_NKINDS
} dlsh_kind;

/* Operators of UNARY, BINARY and ASSIGN: OP(NAME, "text", precedence, op that serves tensors).
 * Precedence 0 marks the prefix ones; higher binds tighter. `?:`, `||` and `&&` have nodes of their own. */
#define DLSH_BINARY_OPS(OP)                                                                                            \
    OP(BITOR, "|", 4, "bitwise_or")                                                                                    \
    OP(BITXOR, "^", 5, "bitwise_xor")                                                                                  \
    OP(BITAND, "&", 6, "bitwise_and")                                                                                  \
    OP(EQ, "==", 7, "eq")                                                                                              \
    OP(NE, "!=", 7, "ne")                                                                                              \
    OP(LT, "<", 8, "lt")                                                                                               \
    OP(LE, "<=", 8, "le")                                                                                              \
    OP(GT, ">", 8, "gt")                                                                                               \
    OP(GE, ">=", 8, "ge")                                                                                              \
    OP(IN, "in", 8, "")                                                                                                \
    OP(SHL, "<<", 9, "bitwise_left_shift")                                                                             \
    OP(SHR, ">>", 9, "bitwise_right_shift")                                                                            \
    OP(ADD, "+", 10, "add")                                                                                            \
    OP(SUB, "-", 10, "sub")                                                                                            \
    OP(MUL, "*", 11, "mul")                                                                                            \
    OP(DIV, "/", 11, "div")                                                                                            \
    OP(FLOORDIV, "//", 11, "floor_divide")                                                                             \
    OP(MOD, "%", 11, "remainder")                                                                                      \
    OP(MATMUL, "@", 11, "matmul")                                                                                      \
    OP(POW, "**", 13, "pow")
#define DLSH_OPS(OP)                                                                                                   \
    DLSH_BINARY_OPS(OP)                                                                                                \
    OP(NEG, "-", 0, "neg")                                                                                             \
    OP(NOT, "!", 0, "logical_not")                                                                                     \
    OP(BITNOT, "~", 0, "bitwise_not")

typedef enum dlsh_op {
    DLSH_OP_NONE = 0, /* plain assignment */
#define OP(id, text, prec, name) DLSH_OP_##id,
    DLSH_OPS(OP)
#undef OP
        DLSH_NOPS
} dlsh_op;

enum dlsh_node_flags {
    DLSH_SILENT = 1,      /* the statement ended in `;` */
    DLSH_WORD = 2,        /* STR written without quotes, as a command's word */
    DLSH_PAREN = 4,       /* the expression stood in parentheses */
    DLSH_CHAINED = 16,    /* LAYER: stood after -> */
    DLSH_LOCAL = 8,       /* NAME: slot counts among the variables of the function, not among the globals */
    DLSH_POSITIONAL = 32, /* CALL: without named arguments and spreads, from the resolver */
};

/* COMPREHENSION: items of a record are key and value; values are lists, which are joined; values are keys and values of
 * a record. */
enum dlsh_comprehension { DLSH_COMP_PAIRS = 1, DLSH_COMP_JOINED = 2, DLSH_COMP_RECORD = 4 };

typedef struct dlsh_node dlsh_node;
struct dlsh_node {
    unsigned char kind; /* dlsh_kind */
    unsigned char op;   /* dlsh_op */
    unsigned short flags;
    unsigned short depth; /* of the tree below; bounded, so that walks may recurse */
    int nkids;
    dlsh_span span;
    dlsh_node **kids;
    const char *text, *label; /* owned by the unit; NULL where the kind has none */
    union {
        long i;
        double f;
        const struct dlsh_command *cmd;
    } num;
    int slot;   /* NAME: number of its variable; -1 unresolved */
    void *info; /* FN: its dlsh_fninfo, from the resolver; STR: its dlsh_str, once it was evaluated */
};

/* One piece of source text with its tree. Nodes live as long as the unit; functions hold a reference to it. */
typedef struct dlsh_unit dlsh_unit;
struct dlsh_unit {
    int refs;
    const char *name; /* file name, "<c>", "<3>" */
    char *text;       /* NUL-terminated copy of the source */
    size_t len;
    dlsh_node *root; /* BLOCK */
    struct dlsh_chunk *arena;
    struct dlsh_value *kept; /* strings of literals */
    int nkept, capkept;
};

/* Are the kids of a target targets themselves? */
static inline int dlsh_holds_targets(const dlsh_node *n) { return n->kind == DLSH_N_TUPLE || n->kind == DLSH_N_SPREAD; }

/* Is the item of a net with a forward a part, or a method, that the forward knows by name? What stands after an arrow
 * belongs to the part before it. */
static inline int dlsh_is_part(const dlsh_node *n) { return n->label && !(n->flags & DLSH_CHAINED); }

/* The layers and tensors of LAYERS; its functions stand behind them. */
int dlsh_count_layers(const dlsh_node *layers);
/* NULL: the net is a chain. */
const dlsh_node *dlsh_forward_of(const dlsh_node *layers);

/* How often a name stands in a tree. */
int dlsh_mentions(const dlsh_node *n, const char *name);

const char *dlsh_kind_name(int kind);
const char *dlsh_op_text(int op);
/* The op that computes the operator on tensors. */
const char *dlsh_op_name(int op);
int dlsh_op_prec(int op);

/* A unit with a copy of the text and no tree yet; NULL without memory (recorded). */
dlsh_unit *dlsh_unit_new(const char *name, const char *text, size_t len);
dlsh_unit *dlsh_unit_ref(dlsh_unit *u);
void dlsh_unit_drop(dlsh_unit *u);
/* Takes v, also on failure, and drops it with the unit. */
dl_status dlsh_unit_keep(dlsh_unit *u, struct dlsh_value v);
/* Zeroed memory that lives as long as the unit; NULL without memory (recorded). */
void *dlsh_unit_alloc(dlsh_unit *u, size_t bytes);
/* A NUL-terminated copy of n bytes in the unit; NULL without memory (recorded). */
char *dlsh_unit_text(dlsh_unit *u, const char *s, size_t n);
/* A node without kids; NULL without memory (recorded). */
dlsh_node *dlsh_node_new(dlsh_unit *u, dlsh_kind kind, dlsh_span span);
enum { DLSH_MAX_DEPTH = 1000, DLSH_MAX_ARGS = 1000 /* of a call, a command, a function's parameters */ };
/* Gives the node a copy of `kids` (entries may be NULL) and its depth. DL_ERR_SYNTAX (recorded) beyond DLSH_MAX_DEPTH.
 */
dl_status dlsh_node_kids(dlsh_unit *u, dlsh_node *node, dlsh_node **kids, int n);

/* The tree as an s-expression of one line, for golden files and for people. */
struct dlsh_buf;
void dlsh_dump(struct dlsh_buf *out, const dlsh_node *node);
