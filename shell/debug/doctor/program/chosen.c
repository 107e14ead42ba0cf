/* What an optimizer is given, as the text chooses it. */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/doctor/syntax.h"
#include "debug/doctor/trace.h"

const dlsh_node *dlsh_copied_net(const char *file, const char *parameter) {
    char net[64];
    snprintf(net, sizeof net, "%.*s", (int)strcspn(parameter, "."), parameter);
    const dlsh_node *made = strchr(parameter, '.') ? dlsh_definition_of(file, net, INT_MAX, NULL) : NULL;
    return made && (dlsh_is_method(made, "copy") || dlsh_is_method(made, "clone")) ? made : NULL;
}

int dlsh_line_of_overwritten(const dl_source *made) {
    const dlsh_node *root = dlsh_text_root(made->file), *s = dlsh_statement_at(made->file, made->line);
    const dlsh_node *call = s && s->kind == DLSH_N_ASSIGN ? s->kids[s->nkids - 1] : NULL;
    const dlsh_node *list = call && call->kind == DLSH_N_CALL && call->nkids > 1 ? call->kids[1] : NULL;
    const dlsh_node *given =
        list && list->kind == DLSH_N_NAME ? dlsh_definition_of(made->file, list->text, call->span.start, NULL) : NULL;
    const dlsh_node *loop = given ? dlsh_block_around(root, given->span.start) : NULL;
    const int added = given && dlsh_mentions(given, list->text);
    return loop && dlsh_is_loop(loop) && !added && call->span.start > loop->span.end ? given->span.line : 0;
}

static int has_condition(const dlsh_node *n) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_IF) return 1;
    return 0;
}

/* [trunk, head], ["trunk", "head"]: what is chosen of, not beyond nets. */
static dlsh_property is_list_of_parts(void *ctx, const dlsh_step *at) {
    static const int items[] = {DLSH_N_NAME,   DLSH_N_FIELD, DLSH_N_INDEX, DLSH_N_STR,
                                DLSH_N_RECORD, DLSH_N_CALL,  DLSH_N_SPREAD};
    const dlsh_node *n = at->n;
    for (size_t i = 0; n->kind == DLSH_N_LIST && n->nkids && i < DLSH_COUNT(items); i++)
        if ((int)n->kids[0]->kind == items[i]) return DLSH_HAS_FIRST;
    const dlsh_definition d =
        n->kind == DLSH_N_NAME ? dlsh_define(dlsh_text_root(at->file), n->text, n->span.start) : (dlsh_definition){0};
    if (d.each || d.param) return DLSH_MAY_HAVE; /* one of several nets */
    const int net =
        n->kind == DLSH_N_NET || n->kind == DLSH_N_LIST ||
        (n->kind == DLSH_N_CALL && n->kids[0]->kind == DLSH_N_NAME && dlsh_net_of(at->file, n->kids[0]->text));
    return net || dlsh_object_of(ctx, at->file, n, &dlsh_net_class) ? DLSH_HAS_NOT : DLSH_MAY_HAVE;
}

/* The outermost statement that gives a value and begins on a line: comprehensions have some within. */
static const dlsh_node *giving_at(const char *file, int line) {
    DLSH_EACH_BELOW (t, dlsh_text_root(file))
        if (t.n->span.line == line && (t.n->kind == DLSH_N_ASSIGN || t.n->kind == DLSH_N_RETURN)) return t.n;
    return NULL;
}

int dlsh_line_of_list(const dlsh_examination *e, const dl_source *made) {
    const dlsh_node *s = giving_at(made->file, made->line), *call = s && s->nkids ? s->kids[s->nkids - 1] : NULL;
    const dlsh_node *given = call && call->kind == DLSH_N_CALL && call->nkids > 1 ? call->kids[1] : NULL;
    const dlsh_node *list = given ? dlsh_origin(made->file, given, is_list_of_parts, (void *)e) : NULL;
    const dlsh_node *of = !list ? dlsh_defined(made->file, given) : NULL;
    const int joined = of && (of->kind == DLSH_N_COMPREHENSION || (of->kind == DLSH_N_BINARY && of->op == DLSH_OP_ADD));
    return list ? list->span.line : joined ? of->span.line : 0;
}

/* [p for n, p in named if test(n)] */
static int chooses(const dlsh_node *n) { return n->kind == DLSH_N_COMPREHENSION && has_condition(n->kids[0]); }

/* Lists of a tree that choose parameters by a condition. */
static int count_choices(const dlsh_node *n) {
    int count = chooses(n) && dlsh_is_call_of(n->kids[1], "parameters|named_parameters");
    for (int i = 0; i < n->nkids; i++) count += n->kids[i] ? count_choices(n->kids[i]) : 0;
    return count;
}

int dlsh_line_of_choice(const dl_source *made) {
    const dlsh_node *s = dlsh_statement_at(made->file, made->line), *root = dlsh_text_root(made->file);
    dlsh_course c;
    int line = 0, count = 0;
    if (!s) return 0;
    dlsh_course_of(made->file, s->kids[s->nkids - 1], &c);
    for (int i = 0; i < c.n; i++)
        if (chooses(c.at[i].n)) count++, line = c.at[i].n->span.line > line ? c.at[i].n->span.line : line;
    return count_choices(root) > count ? 0 : line; /* it is not given all of them */
}

/* The value that a record in a tree has for a key; NULL: none has. */
static const dlsh_node *value_of_key(const dlsh_node *n, const char *key) {
    DLSH_EACH_BELOW (t, n)
        if (t.n->kind == DLSH_N_KWARG && !strcmp(t.n->text, key)) return t.n->kids[0];
    return NULL;
}

dl_source dlsh_optimizer_place(const dlsh_examination *e, const dl_optimizer *o) {
    dl_source at = dlsh_optimizer_source(o);
    const dlsh_node *s = at.file ? dlsh_statement_at(at.file, at.line) : NULL, *value;
    DLSH_EACH_HOLDER_WHILE (s, h, &e->holders) {
        const char *key = h->made && dlsh_unwrap(h->value, &dlsh_optimizer_class) == o ? strrchr(h->made, '.') : NULL;
        if (key && (value = value_of_key(s, key + 1))) at.line = value->span.line;
    }
    return at;
}

/* The names by which an option goes, of itself and of what gives it its value, the nearest first. */
typedef struct called {
    const char *words;
    char name[24][32]; /* in small letters */
    int line[24], n;
} called;

static void add_name(called *c, const char *name, int line) {
    for (size_t i = 0; i < sizeof c->name[0] - 1 && name[i]; i++)
        c->name[c->n][i] = (char)tolower((unsigned char)name[i]);
    c->line[c->n++] = line;
}

static called names_of(const char *file, const dlsh_node *call, int place, const char *option, const char *words) {
    static dlsh_course way;
    called c = {.words = words};
    const dlsh_node *as = dlsh_argument_of(call, place, option);
    if (!as) return (called){0};
    dlsh_course_of(file, as, &way);
    add_name(&c, option, as->span.line);
    for (int i = 0; i < way.n && c.n < (int)DLSH_COUNT(c.name); i++) {
        const dlsh_node *n = way.at[i].n, *by = i ? way.at[i - 1].n : NULL;
        if (by && by->kind == DLSH_N_FIELD && by->kids[0] == n) continue; /* of both alike */
        if ((n->kind == DLSH_N_NAME || n->kind == DLSH_N_FIELD || n->kind == DLSH_N_KWARG) && n->text)
            add_name(&c, n->text, n->span.line);
    }
    return c;
}

/* Does a name of one stand for what another one is called? The option itself stands for its usual words. */
static int is_called(const called *a, int i, const called *b, int k) {
    const called *option = !i ? a : !k ? b : NULL;
    const char *name = !i ? b->name[k] : a->name[i];
    return option ? dlsh_is_word(option->words, name) : !strcmp(a->name[i], b->name[k]);
}

int dlsh_line_of_exchange(dlsh_examination *e, const char *file, const dlsh_node *call, const char **given) {
    const called a = names_of(file, call, 1, "lr", "lr|rate|learning_rate|step_size|eta"),
                 b = names_of(file, call, INT_MAX - 1, "weight_decay", "weight_decay|decay|wd|l2|penalty");
    for (int i = 0; i < a.n; i++)
        for (int j = i + 1; j < a.n; j++)
            for (int k = 0; k < b.n; k++)
                for (int l = k + 1; l < b.n; l++)
                    if (is_called(&a, i, &b, l) && is_called(&a, j, &b, k))
                        return *given = dlsh_kept(e, "%s", a.name[j]), a.line[j];
    return 0;
}
