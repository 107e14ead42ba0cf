/* Where statements stand in the course of a program, as far as its text has it: a statement of a function stands where
 * the function is called last. */

#include "debug/doctor/texts.h"
#include "debug/doctor/trace.h"

/* A place, that of the call of the function around it, and so on, up to the top level. */
typedef struct stack {
    struct {
        int place;
        const dlsh_node *fn; /* around it; NULL: none */
    } at[DLSH_LEVELS];
    int n;
} stack;

/* Where a function runs: at its last call, a literal where it stands. -1: nobody calls it. */
static int caller_of(const dlsh_node *root, const dlsh_node *fn) {
    const dlsh_node *net = dlsh_net_around(root, fn->span.start);
    if (!fn->text) return fn->span.start - 1;
    const dlsh_node *call = dlsh_last_call(root, net ? net : fn);
    return call ? call->span.start : -1;
}

static stack stack_of(const dlsh_node *root, int place) {
    const dlsh_node *around[DLSH_AROUND];
    stack s = {.n = 0};
    while (place >= 0 && s.n < DLSH_LEVELS) {
        const int depth = dlsh_functions_around(root, place, around);
        const dlsh_node *fn = depth ? around[depth - 1] : NULL;
        for (int i = 0; i < s.n; i++)
            if (fn && s.at[i].fn == fn) return s; /* it calls itself */
        s.at[s.n].place = place, s.at[s.n++].fn = fn;
        place = fn ? caller_of(root, fn) : -1;
    }
    return s;
}

/* The outermost loop around a place, within a tree. */
static const dlsh_node *loop_around(const dlsh_node *n, int place) {
    for (int i = 0; i < n->nkids; i++) {
        const dlsh_node *k = n->kids[i];
        if (!k || place < k->span.start || place > k->span.end) continue;
        return dlsh_is_loop(k) ? k : loop_around(k, place);
    }
    return NULL;
}

static int place_of_line(const char *file, int line) {
    const dlsh_node *n = dlsh_statement_at(file, line);
    return n ? n->span.start : -1;
}

/* The outermost loop in the course of a place, and the function in which it stands. */
static const dlsh_node *loop_of(const dlsh_node *root, int place, const dlsh_node **fn) {
    const stack s = stack_of(root, place);
    const dlsh_node *found = NULL;
    for (int i = s.n - 1; i >= 0 && !found; i--) {
        *fn = s.at[i].fn;
        found = loop_around(*fn ? *fn : root, s.at[i].place);
    }
    return found;
}

int dlsh_places_from(const char *file, int place, int places[DLSH_LEVELS]) {
    const dlsh_node *root = dlsh_text_root(file);
    const stack s = root ? stack_of(root, place) : (stack){.n = 0};
    for (int i = 0; i < s.n; i++) places[i] = s.at[i].place;
    return s.n;
}

int dlsh_places_of(const char *file, int line, int places[DLSH_LEVELS]) {
    return dlsh_places_from(file, place_of_line(file, line), places);
}

int dlsh_line_of_place(const char *file, int place) {
    const dlsh_unit *u = dlsh_text_of(file);
    int line = 1;
    for (int k = 0; u && k < place; k++) line += u->text[k] == '\n';
    return line;
}

int dlsh_place_of_line(const char *file, int line) {
    const dlsh_unit *u = dlsh_text_of(file);
    int place = 0;
    for (int k = 1; u && k < line && u->text[place]; place++) k += u->text[place] == '\n';
    while (u && (u->text[place] == ' ' || u->text[place] == '\t')) place++;
    return place;
}

int dlsh_line_beside(const char *file, int line, int beside) {
    const dlsh_node *root = dlsh_text_root(file);
    const stack of = root ? stack_of(root, place_of_line(file, line)) : (stack){.n = 0};
    const stack other = root ? stack_of(root, place_of_line(file, beside)) : (stack){.n = 0};
    for (int k = 0; k < other.n; k++)
        for (int i = 0; i < of.n; i++)
            if (of.at[i].fn == other.at[k].fn) return i ? dlsh_line_of_place(file, of.at[i].place) : line;
    return line;
}

int dlsh_is_before_loop(const char *file, int line, int within) {
    const dlsh_node *root = dlsh_text_root(file), *fn = NULL;
    const int place = place_of_line(file, line), inner = place_of_line(file, within);
    if (!root || place < 0 || inner < 0) return line < within;
    const dlsh_node *loop = loop_of(root, inner, &fn);
    if (!loop) return line < within;
    const stack s = stack_of(root, place);
    for (int i = 0; i < s.n; i++)
        if (s.at[i].fn == fn) return s.at[i].place < loop->span.start;
    const stack of = stack_of(root, inner); /* the loop is in a function that is called behind the line, or before it */
    for (int k = 0; k < of.n; k++)
        for (int i = 0; i < s.n; i++)
            if (s.at[i].fn == of.at[k].fn) return s.at[i].place < of.at[k].place;
    return line < loop->span.line;
}

static int runs_in(const dlsh_node *root, int place, const dlsh_node *loop, int depth);

/* Does a call of the function, in a tree, run in the loop? */
static int is_called_in(const dlsh_node *root, const dlsh_node *n, const dlsh_node *fn, const dlsh_node *loop,
                        int depth) {
    if (n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], fn->text) && runs_in(root, n->span.start, loop, depth + 1))
        return 1;
    for (int i = 0; i < n->nkids; i++)
        if (n->kids[i] && is_called_in(root, n->kids[i], fn, loop, depth)) return 1;
    return 0;
}

static int runs_in(const dlsh_node *root, int place, const dlsh_node *loop, int depth) {
    const dlsh_node *around[DLSH_AROUND];
    const int n = dlsh_functions_around(root, place, around);
    if (place >= loop->span.start && place <= loop->span.end) return 1;
    const dlsh_node *fn = n ? around[n - 1] : NULL;
    return fn && fn->text && depth < DLSH_LEVELS && is_called_in(root, root, fn, loop, depth);
}

int dlsh_runs_within(const char *file, int line, const dlsh_node *n) {
    const dlsh_node *root = dlsh_text_root(file);
    const int place = place_of_line(file, line);
    return root && place >= 0 && runs_in(root, place, n, 0);
}

int dlsh_runs_in_loop(const char *file, int line, int within) {
    const dlsh_node *root = dlsh_text_root(file), *fn = NULL;
    const int place = place_of_line(file, line), inner = place_of_line(file, within);
    const dlsh_node *loop = root && place >= 0 && inner >= 0 ? loop_of(root, inner, &fn) : NULL;
    return loop && runs_in(root, place, loop, 0);
}

int dlsh_runs_behind(const char *file, int line, int other) {
    int a[DLSH_LEVELS], b[DLSH_LEVELS];
    int n = dlsh_places_of(file, line, a), m = dlsh_places_of(file, other, b);
    while (n > 1 && m > 1 && a[n - 1] == b[m - 1]) n--, m--;
    return n > 0 && m > 0 && a[n - 1] > b[m - 1];
}
