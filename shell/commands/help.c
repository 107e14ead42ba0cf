/* `help`: everything it says comes from the tables of commands, ops, kinds of layers, settings, and topics.def. */
#define _GNU_SOURCE /* strcasestr */
#include "commands/help.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/chance/distribution.h"
#include "commands/sparse.h"
#include "commands/families.h"
#include "commands/nets/nets.h"
#include "commands/record_file.h"
#include "commands/nets/scaler.h"
#include "commands/settings.h"
#include "ffi/ffi.h"
#include "lang/parse/fn.h"
#include "view/text.h"

/* ---------------------------------------------------------------- the groups of topics */

static const struct page {
    const char *name, *summary, *text;
} pages[] = {
#define TOPIC(name, summary, text) {#name, summary, text},
#include "commands/topics.def"
#undef TOPIC
};
enum { NPAGES = DLSH_COUNT(pages) };

static const struct family {
    const char *name;
    const dlsh_command *rows;
} families[] = {
#define FAMILY(name) {#name, name##_commands},
#include "commands/families.def"
#undef FAMILY
};
enum { NFAMILIES = DLSH_COUNT(families) };

const dlsh_class *const dlsh_types[] = {&dlsh_net_class,       &dlsh_dataset_class,      &dlsh_split_class,
                                        &dlsh_loader_class,    &dlsh_optimizer_class,    &dlsh_schedule_class,
                                        &dlsh_scheduler_class, &dlsh_custom_class,       &dlsh_trainer_class,
                                        &dlsh_run_class,       &dlsh_rng_class,          &dlsh_scaler_class,
                                        &dlsh_tokenizer_class, &dlsh_distribution_class, &dlsh_hook_class,
                                        &dlsh_sparse_class,    &dlsh_group_class,        NULL};

/* Small families are listed with others. */
static const char *group_of(const char *family) {
    static const char *const merged[][2] = {
        {"help", "general"}, {"settings", "general"}, {"script", "general"}, {"plot", "history"}, {"loop", "train"}};
    for (size_t i = 0; i < DLSH_COUNT(merged); i++)
        if (!strcmp(merged[i][0], family)) return merged[i][1];
    return family;
}

/* Rows that belong to no family are the language's own functions. */
static const char *family_of(const dlsh_command *row) {
    for (int i = 0; i < NFAMILIES; i++)
        for (const dlsh_command *r = families[i].rows; r->name; r++)
            if (r == row) return families[i].name;
    return "functions";
}

/* The summary of a row or op: its doc up to the first full stop. */
static void first_sentence(dlsh_buf *b, const char *doc) {
    const char *end = doc;
    while (*end && !(*end == '.' && (!end[1] || end[1] == ' ' || end[1] == '\n'))) end++;
    dlsh_buf_add(b, doc, (size_t)(end - doc) + (*end == '.'));
}

static void visit_one(dlsh_topic_visit *visit, void *arg, const char *group, const char *name, const char *doc) {
    DLSH_SCOPED_BUF summary = {0};
    first_sentence(&summary, doc ? doc : "");
    visit(arg, group, name, dlsh_buf_text(&summary));
}

static void visit_row(dlsh_topic_visit *visit, void *arg, const char *group, const dlsh_command *row) {
    if (!(row->flags & DLSH_HIDDEN)) visit_one(visit, arg, group, row->name, row->doc);
}

/* Tables of the library: kinds of layers and what belongs to them. */
static const struct kinds {
    const char *group;
    const dl_kind_row *(*at)(int i);
    const char *maker; /* the function that makes one, when its name is no function itself */
} kinds[] = {{"layers", dl_layer_kind_at, NULL},
             {"init", dl_init_kind_at, NULL},
             {"optimizers", dl_optimizer_kind_at, NULL},
             {"schedules", dl_schedule_kind_at, "schedule"}};
enum { NKINDS = DLSH_COUNT(kinds) };

static void visit_kinds(dlsh_topic_visit *visit, void *arg) {
    const dl_kind_row *row;
    for (int k = 0; k < NKINDS; k++)
        for (int i = 0; (row = kinds[k].at(i)); i++) visit_one(visit, arg, kinds[k].group, row->name, row->doc);
    const dl_data_kind *data;
    for (int i = 0; (data = dl_data_kind_at(i)); i++) visit(arg, "datasets", data->name, data->doc);
    const dl_transform_kind *transform;
    for (int i = 0; (transform = dl_transform_at(i)); i++) visit(arg, "transforms", transform->name, transform->doc);
}

void dlsh_help_topics(dlsh_session *s, dlsh_topic_visit *visit, void *arg) {
    for (int i = 0; i < NFAMILIES; i++)
        for (const dlsh_command *r = families[i].rows; r->name; r++)
            visit_row(visit, arg, group_of(families[i].name), r);
    for (int i = 0; i < dlsh_command_count(s); i++) {
        const dlsh_command *row = dlsh_command_at(s, i);
        if (!strcmp(family_of(row), "functions")) visit_row(visit, arg, "functions", row);
    }
    dl_op_info op;
    for (int i = 0; dl_op_describe(i, &op); i++)
        if (!op.internal) visit(arg, "ops", op.name, op.doc);
    visit_kinds(visit, arg);
    for (int i = 0; dlsh_types[i]; i++) visit(arg, "types", dlsh_types[i]->name, dlsh_types[i]->doc);
    for (const dlsh_setting *row = dlsh_settings(); row->name; row++) visit(arg, "settings", row->name, row->doc);
    for (int i = 0; i < NPAGES; i++) visit(arg, "language", pages[i].name, pages[i].summary);
}

/* ---------------------------------------------------------------- laying out a page */

typedef struct page_out {
    dlsh_buf text;
    int width, colour;
} page_out;

__attribute__((format(printf, 2, 3))) static void put_heading(page_out *o, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    dlsh_buf_puts(&o->text, o->colour ? "\033[1m" : "");
    dlsh_buf_vprintf(&o->text, fmt, ap);
    dlsh_buf_puts(&o->text, o->colour ? "\033[0m\n" : "\n");
    va_end(ap);
}

static void put_paragraph(page_out *o, const char *s, int indent) {
    dlsh_buf_printf(&o->text, "%*s", indent, "");
    dlsh_text_wrap(&o->text, s, o->width, indent);
    dlsh_buf_puts(&o->text, "\n");
}

/* "  left      right, wrapped" with the left column `wide`. */
static void put_definition(page_out *o, const char *left, int wide, const char *right) {
    dlsh_buf_puts(&o->text, "  ");
    dlsh_text_pad(&o->text, left, wide, 'l', 0, 1);
    dlsh_buf_puts(&o->text, "  ");
    dlsh_text_wrap(&o->text, right, o->width, wide + 4);
    dlsh_buf_puts(&o->text, "\n");
}

/* ---------------------------------------------------------------- rows */

static const char *const option_kinds[] = {
    [DLSH_OPT_BOOL] = "true|false", [DLSH_OPT_INT] = "int",   [DLSH_OPT_FLOAT] = "float",
    [DLSH_OPT_STRING] = "string",   [DLSH_OPT_WORD] = "word", [DLSH_OPT_VALUE] = "value"};

static void option_left(dlsh_buf *b, const dlsh_option *o) {
    const char *kind = o->complete && strchr(o->complete, '|') ? o->complete
                       : o->want                               ? o->want
                                                               : option_kinds[o->kind];
    dlsh_buf_printf(b, "%s=%s", o->name, o->dflt && *o->dflt ? o->dflt : kind);
}

static void put_parameters(page_out *o, const dlsh_command *row) {
    int wide = 0;
    for (const dlsh_param *p = row->params; p && p->name; p++)
        if ((int)strlen(p->name) > wide) wide = (int)strlen(p->name);
    for (const dlsh_option *q = row->options; q && q->name; q++) {
        DLSH_SCOPED_BUF left = {0};
        option_left(&left, q);
        if ((int)left.n > wide) wide = (int)left.n;
    }
    int most = o->width / 2 - 4 < 26 ? o->width / 2 - 4 : 26; /* the right column keeps half of a narrow page */
    if (wide > most) wide = most;
    for (const dlsh_param *p = row->params; p && p->name; p++) {
        DLSH_SCOPED_BUF right = {0};
        dlsh_buf_puts(&right, p->doc ? p->doc : "");
        if (p->want) dlsh_buf_printf(&right, "%s(%s)", right.n ? " " : "", p->want);
        put_definition(o, p->name, wide, dlsh_buf_text(&right));
    }
    for (const dlsh_option *q = row->options; q && q->name; q++) {
        DLSH_SCOPED_BUF left = {0};
        option_left(&left, q);
        put_definition(o, dlsh_buf_text(&left), wide, q->doc ? q->doc : "");
    }
}

static void put_examples(page_out *o, const char *examples) {
    dlsh_buf_puts(&o->text, "Examples:\n");
    for (const char *e = examples; *e;) {
        size_t n = strcspn(e, "\n");
        dlsh_buf_printf(&o->text, "    %.*s\n", (int)n, e);
        e += n + (e[n] == '\n');
    }
}

static void put_row(page_out *o, const dlsh_command *row) {
    put_heading(o, "%s", row->usage ? row->usage : row->name);
    if (row->doc) put_paragraph(o, row->doc, 2);
    put_parameters(o, row);
    if (row->examples) put_examples(o, row->examples);
    for (const dlsh_command *sub = row->subs; sub && sub->name; sub++) {
        dlsh_buf_puts(&o->text, "\n");
        put_row(o, sub);
    }
}

/* ---------------------------------------------------------------- ops and settings */

static void op_signature(dlsh_buf *b, const dl_op_info *op) {
    dlsh_op_signature(b, op);
    if (op->nout > 1) {
        dlsh_buf_puts(b, " -> ");
        for (int i = 0; i < op->nout; i++) dlsh_buf_printf(b, "%s%s", i ? ", " : "", op->out[i]);
    }
}

static void put_op(page_out *o, const dl_op_info *op) {
    DLSH_SCOPED_BUF line = {0};
    op_signature(&line, op);
    put_heading(o, "%s", dlsh_buf_text(&line));
    put_paragraph(o, op->doc, 2);
    if (*op->formula) {
        dlsh_buf_puts(&o->text, "    ");
        dlsh_text_wrap(&o->text, op->formula, o->width, 4);
        dlsh_buf_puts(&o->text, "\n");
    }
    int wide = 0;
    for (int i = 0; i < op->nargs; i++)
        if ((int)strlen(op->args[i].name) > wide) wide = (int)strlen(op->args[i].name);
    for (int i = 0; i < op->nargs; i++) {
        const dl_op_arg *a = &op->args[i];
        DLSH_SCOPED_BUF right = {0};
        dlsh_buf_printf(&right, "%s%s%s", a->kind, *a->doc ? ": " : "", a->doc);
        if (a->dflt) dlsh_buf_printf(&right, " (%s)", strcmp(a->dflt, "none") ? a->dflt : "may be left out");
        put_definition(o, a->name, wide, dlsh_buf_text(&right));
    }
    int method = op->nargs && !strcmp(op->args[0].kind, "tensor");
    if (method) dlsh_buf_printf(&o->text, "  Also a method: x.%s(...).", op->name);
    if (!op->differentiable) dlsh_buf_puts(&o->text, method ? " No gradient." : "  No gradient.");
    if (method || !op->differentiable) dlsh_buf_puts(&o->text, "\n");
}

static void put_setting(page_out *o, const dlsh_setting *row) {
    DLSH_SCOPED_BUF value = {0};
    put_heading(o, "set %s %s", row->name, row->values);
    put_paragraph(o, row->doc, 2);
    if (!dlsh_setting_get(row, &value))
        dlsh_buf_printf(&o->text, "  Now %s; the default is %s.\n", dlsh_buf_text(&value), row->dflt);
}

/* ---------------------------------------------------------------- layers, optimizers, datasets */

static const char *const arg_kinds[] = {
    [DL_ARG_INT] = "int",   [DL_ARG_FLOAT] = "float",   [DL_ARG_BOOL] = "true|false",         [DL_ARG_STR] = "string",
    [DL_ARG_INTS] = "ints", [DL_ARG_FLOATS] = "floats", [DL_ARG_PADS] = "ints, valid or same"};

/* "name, alias" and the description of an option. */
static void put_choice(page_out *o, const char *name, const char *alias, const char *dflt, const char *kind,
                       const char *doc) {
    DLSH_SCOPED_BUF left = {0}, right = {0};
    dlsh_buf_printf(&left, "%s", name);
    for (const char *p = alias ? alias : ""; *p;) {
        size_t n = strcspn(p, " ");
        if (n) dlsh_buf_printf(&left, ", %.*s", (int)n, p);
        p += n + (p[n] == ' ');
    }
    dlsh_buf_printf(&right, "%s (%s%s%s)", doc, kind, dflt && *dflt ? ", " : "", dflt && *dflt ? dflt : "");
    put_definition(o, dlsh_buf_text(&left), 24, dlsh_buf_text(&right));
}

static void put_kind(page_out *o, const struct kinds *k, const dl_kind_row *row) {
    DLSH_SCOPED_BUF line = {0};
    const char *comma = k->maker ? "," : "";
    dlsh_buf_printf(&line, k->maker ? "%s(\"%s\"" : "%s%s", k->maker ? k->maker : "", row->name);
    for (int i = 0; i < row->positional && row->options[i].name; i++)
        dlsh_buf_printf(&line, *row->options[i].dflt ? "%s [%s]" : "%s %s", comma, row->options[i].name);
    dlsh_buf_printf(&line, "%s   (%s)", k->maker ? ")" : "", k->group);
    put_heading(o, "%s", dlsh_buf_text(&line));
    put_paragraph(o, row->doc, 2);
    for (const dl_option_row *q = row->options; q && q->name; q++)
        put_choice(o, q->name, q->alias, q->dflt, arg_kinds[q->kind], q->doc);
    if (row->alias && *row->alias) dlsh_buf_printf(&o->text, "  Also called: %s\n", row->alias);
    if (row->example && *row->example) put_examples(o, row->example);
}

static int has_word(const char *words, const char *word) {
    size_t n = strlen(word);
    for (const char *p = words; (p = p ? strstr(p, word) : NULL); p += n)
        if ((p == words || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return 1;
    return 0;
}

/* Pages of datasets and transforms; returns how many fit the name, `before` pages being there already. */
static int put_data_kinds(page_out *o, const char *topic, int before) {
    int found = 0;
    const dl_data_kind *data;
    for (int i = 0; (data = dl_data_kind_at(i)); i++) {
        if (strcmp(data->name, topic)) continue;
        if (before + found++) dlsh_buf_puts(&o->text, "\n");
        put_heading(o, "dataset(\"%s\", ...)", data->name);
        put_paragraph(o, data->doc, 2);
        for (const dl_data_option *q = data->options; q && q->name; q++)
            put_choice(o, q->name, "", q->dflt, q->words ? q->words : q->type, q->doc);
    }
    const dl_transform_kind *transform;
    for (int i = 0; (transform = dl_transform_at(i)); i++) {
        if (strcmp(transform->name, topic)) continue;
        if (before + found++) dlsh_buf_puts(&o->text, "\n");
        put_heading(o, "loader(..., transforms=\"%s\")", transform->name);
        put_paragraph(o, transform->doc, 2);
        for (const dl_transform_param *q = transform->params; q && q->name; q++)
            put_choice(o, q->name, "", q->dflt, q->words ? q->words : q->count > 1 ? "float|list" : "float", q->doc);
    }
    return found;
}

/* Pages of the library's tables; returns how many fit the name, `before` of them being there already. */
static int put_kinds(page_out *o, const char *topic, int before) {
    int found = 0;
    const dl_kind_row *row;
    for (int k = 0; k < NKINDS; k++) {
        for (int i = 0; (row = kinds[k].at(i)); i++) {
            if (strcmp(row->name, topic) && !has_word(row->alias, topic)) continue;
            if (before && kinds[k].at == dl_optimizer_kind_at) continue; /* the function of that name says the same */
            if (before + found++) dlsh_buf_puts(&o->text, "\n");
            put_kind(o, &kinds[k], row);
        }
    }
    return found + put_data_kinds(o, topic, before + found);
}

/* ---------------------------------------------------------------- one topic */

static void put_class(page_out *o, const dlsh_class *cls) {
    if (cls->doc) put_paragraph(o, cls->doc, 2);
    for (const dlsh_field *f = cls->fields; f && f->name; f++) put_definition(o, f->name, 16, f->doc ? f->doc : "");
    for (const dlsh_command *m = cls->methods; m && m->name; m++)
        put_definition(o, m->usage ? m->usage : m->name, 16, m->doc ? m->doc : "");
}

static const dlsh_class *class_named(const char *name) {
    for (int i = 0; dlsh_types[i]; i++)
        if (!strcmp(dlsh_types[i]->name, name)) return dlsh_types[i];
    return NULL;
}

/* Appends every page of this name; returns how many. */
static int put_topic(page_out *o, dlsh_session *s, const char *topic) {
    int found = 0;
    const dlsh_command *row = dlsh_find_command(s, topic, strlen(topic));
    if (row) {
        put_row(o, row);
        found++;
    }
    dl_op_info op;
    if (dl_op_describe_name(topic, &op)) {
        if (found++) dlsh_buf_puts(&o->text, "\n");
        put_op(o, &op);
    }
    found += put_kinds(o, topic, found);
    for (const dlsh_setting *set = dlsh_settings(); set->name; set++) {
        if (strcmp(set->name, topic)) continue;
        if (found++) dlsh_buf_puts(&o->text, "\n");
        put_setting(o, set);
    }
    const dlsh_class *cls = class_named(topic);
    if (cls) {
        if (found++) dlsh_buf_puts(&o->text, "\n");
        put_heading(o, "%s", topic);
        put_class(o, cls);
    }
    for (int i = 0; i < NPAGES; i++) {
        if (strcmp(pages[i].name, topic)) continue;
        if (found++) dlsh_buf_puts(&o->text, "\n");
        put_heading(o, "%s", pages[i].summary);
        dlsh_buf_printf(&o->text, "%s\n", pages[i].text);
    }
    return found;
}

/* ---------------------------------------------------------------- groups and the index */

typedef struct listing {
    page_out *o;
    const char *only;               /* a group to be listed with summaries; NULL: the index */
    const char *group;              /* the one being listed */
    int wide, column, found, named; /* named: as the group is */
} listing;

static void measure(void *arg, const char *group, const char *name, DLSH_UNUSED const char *doc) {
    listing *l = arg;
    const char *what = l->only ? name : group;
    if (l->only && strcmp(group, l->only)) return;
    l->found++;
    l->named += !strcmp(name, group);
    if ((int)strlen(what) > l->wide) l->wide = (int)strlen(what);
}

static void list_topic(void *arg, const char *group, const char *name, const char *doc) {
    listing *l = arg;
    page_out *o = l->o;
    if (l->only) {
        if (!strcmp(group, l->only)) put_definition(o, name, l->wide, doc);
        return;
    }
    int indent = l->wide + 2, width = (int)strlen(name);
    if (!l->group || strcmp(group, l->group)) {
        if (l->group) dlsh_buf_puts(&o->text, "\n");
        l->group = group;
        dlsh_text_pad(&o->text, group, l->wide, 'l', 0, 1);
        dlsh_buf_puts(&o->text, " ");
        l->column = indent - 1;
    } else if (o->width > 0 && l->column + 1 + width > o->width) {
        dlsh_buf_printf(&o->text, "\n%*s", indent - 1, "");
        l->column = indent - 1;
    }
    dlsh_buf_printf(&o->text, " %s", name);
    l->column += 1 + width;
}

static void put_index(page_out *o, dlsh_session *s) {
    listing l = {.o = o};
    dlsh_buf_printf(&o->text, "dlsh %s. `help TOPIC` tells more about any of these; `help train`, a whole group.\n\n",
                    dl_version());
    dlsh_help_topics(s, measure, &l);
    dlsh_help_topics(s, list_topic, &l);
    dlsh_buf_puts(&o->text, "\n");
}

static int put_group(page_out *o, dlsh_session *s, const char *group) {
    listing l = {.o = o, .only = group};
    dlsh_help_topics(s, measure, &l);
    if (l.found == 1 && l.named && o->text.n) return 1; /* its page is there already */
    if (l.found) {
        if (o->text.n) dlsh_buf_puts(&o->text, "\n");
        put_heading(o, "%s", group);
        dlsh_help_topics(s, list_topic, &l);
    }
    return l.found;
}

/* ---------------------------------------------------------------- the command */

typedef struct names {
    const char **at;
    int n, cap;
} names;

static void collect(void *arg, const char *group, const char *name, DLSH_UNUSED const char *doc) {
    names *all = arg;
    for (int i = 0; i < 2; i++) {
        const char *what = i ? group : name;
        if (i && all->n > 1 && !strcmp(all->at[all->n - 2], what)) continue;
        const char **grown = dlsh_grow(all->at, all->n, &all->cap, sizeof *grown);
        if (!grown) return;
        all->at = grown;
        all->at[all->n++] = what;
    }
}

static dl_status unknown_topic(const dlsh_args *a, const char *topic) {
    names all = {0};
    dlsh_help_topics(dlsh_arg_session(a), collect, &all);
    const char *near = dlsh_nearest(topic, all.at, all.n);
    char hint[128] = "help lists the topics";
    if (near) snprintf(hint, sizeof hint, "did you mean help %s?", near);
    free(all.at);
    return dlsh_arg_fail(a, "topic", DL_ERR_NAME, hint, "there is no help about '%s'", topic);
}

/* ---------------------------------------------------------------- search */

enum { SEARCHED_NAME = 3, SEARCHED_TEXT = 4, MOST_FOUND = 30 };

typedef struct search {
    page_out *o; /* NULL: names are measured */
    dlsh_session *s;
    const char *word;
    int whole; /* the whole texts of commands, not their summaries alone */
    int wide, found;
} search;

/* Does the word stand in a text, at the beginning of a word there? */
static int mentions(const char *text, const char *word) {
    for (const char *p = text; (p = strcasestr(p, word)); p++)
        if (p == text || !isalnum((unsigned char)p[-1])) return 1;
    return 0;
}

static void found(search *f, const char *name, const char *doc) {
    int wide = (int)strlen(name);
    f->found++;
    if (!f->o && wide > f->wide) f->wide = wide;
    if (f->o && f->found <= MOST_FOUND) put_definition(f->o, name, f->wide, doc);
}

static void look_into(void *arg, const char *group, const char *name, const char *doc) {
    search *f = arg;
    const dlsh_command *row = strcmp(group, "types") ? dlsh_find_command(f->s, name, strlen(name)) : NULL;
    const char *text = f->whole && row ? row->doc : doc;
    if (strcasestr(name, f->word) || (strlen(f->word) >= SEARCHED_TEXT && mentions(text, f->word))) found(f, name, doc);
    for (const dlsh_option *o = row ? row->options : NULL; o && o->name; o++) {
        DLSH_SCOPED_BUF b = {0};
        if (!strcasestr(o->name, f->word)) continue;
        dlsh_buf_printf(&b, "%s %s=", name, o->name);
        found(f, dlsh_buf_text(&b), o->doc ? o->doc : "");
    }
}

/* What has the word in its name, its summary or its options, else in its text; returns how many. */
static int put_found(page_out *o, dlsh_session *s, const char *word) {
    search f = {.s = s, .word = word};
    if (strlen(word) < SEARCHED_NAME) return 0;
    for (; !f.found && f.whole < 2; f.whole++) dlsh_help_topics(s, look_into, &f);
    if (!f.found) return 0;
    f.whole--;
    put_heading(o, "No topic is called '%s'; it occurs in", word);
    f.o = o;
    f.found = 0;
    dlsh_help_topics(s, look_into, &f);
    if (f.found > MOST_FOUND) dlsh_buf_printf(&o->text, "  and %d more\n", f.found - MOST_FOUND);
    return f.found;
}

/* ---------------------------------------------------------------- variables and members */

static void put_source(page_out *o, const dlsh_fn *f) {
    enum { LINES = 40 };
    size_t n, end = 0;
    const char *text = dlsh_fn_source(f, &n);
    for (int i = 0; i < LINES && end < n; i++) {
        size_t len = strcspn(text + end, "\n");
        dlsh_buf_printf(&o->text, "    %.*s\n", (int)(end + len < n ? len : n - end), text + end);
        end += len + 1;
    }
    if (end < n) dlsh_buf_puts(&o->text, "    ...\n");
}

/* The page about the type of a variable, for `help x`. */
static int put_variable(page_out *o, dlsh_session *s, const char *name) {
    const dlsh_value *v = dlsh_get(s, name);
    if (!v) return 0;
    const char *type = dlsh_type_name(*v);
    dlsh_buf_printf(&o->text, "%s is %s %s.\n", name, strchr("aeiou", *type) ? "an" : "a", type);
    if (v->type == DLSH_FN) put_source(o, v->as.fn);
    if (v->type == DLSH_HANDLE) put_class(o, v->as.handle->cls);
    return 1;
}

/* A field or method of a kind of handle. */
static int put_class_member(page_out *o, const dlsh_class *cls, const char *name) {
    for (const dlsh_command *m = cls->methods; m && m->name; m++)
        if (!strcmp(m->name, name)) return put_row(o, m), 1;
    for (const dlsh_field *f = cls->fields; f && f->name; f++) {
        if (strcmp(f->name, name)) continue;
        dlsh_buf_printf(&o->text, "%s of a %s: %s\n", name, cls->name, f->doc ? f->doc : "");
        return 1;
    }
    return 0;
}

/* `help build`: methods of that name, whatever they belong to. */
static int put_methods(page_out *o, const char *name) {
    int found = 0;
    for (int i = 0; dlsh_types[i]; i++)
        for (const dlsh_command *m = dlsh_types[i]->methods; m && m->name; m++) {
            if (strcmp(m->name, name)) continue;
            if (found++) dlsh_buf_puts(&o->text, "\n");
            put_row(o, m);
        }
    return found;
}

/* `help watch`: words of commands that have some of their own, as dbg has. */
static int put_words(page_out *o, const dlsh_session *s, const char *name) {
    const dlsh_command *c;
    int found = 0;
    for (int i = 0; (c = dlsh_command_at(s, i)); i++)
        for (const dlsh_command *w = c->subs; w && w->name; w++) {
            if (strcmp(w->name, name)) continue;
            if (found++) dlsh_buf_puts(&o->text, "\n");
            dlsh_buf_printf(&o->text, "A word of %s; help %s tells of all of them.\n\n", c->name, c->name);
            put_row(o, w);
        }
    return found;
}

/* `help m.build`, of a variable or a type; methods that are functions too have their page. */
static int put_member(page_out *o, dlsh_session *s, const char *topic) {
    const char *dot = strrchr(topic, '.');
    DLSH_FREED char *left = dot ? strndup(topic, (size_t)(dot - topic)) : NULL;
    if (!left) return 0;
    const dlsh_value *v = dlsh_get(s, left);
    const dlsh_class *cls = v && v->type == DLSH_HANDLE ? v->as.handle->cls : class_named(left);
    int plain =
        v ? v->type != DLSH_HANDLE
          : !strcmp(left, "tensor") || !strcmp(left, "list") || !strcmp(left, "string") || !strcmp(left, "record");
    return cls ? put_class_member(o, cls, dot + 1) : plain ? put_topic(o, s, dot + 1) : 0;
}

static int page_width(const dlsh_look *look) { return look->width > 0 && look->width < 120 ? look->width : 120; }

int dlsh_help_page(dlsh_session *s, const char *topic, const dlsh_look *look, dlsh_buf *out) {
    page_out o = {.width = page_width(look), .colour = look->colour};
    /* a variable hides other things of its name, so it comes first */
    int is_c = topic && dlsh_c_help(s, topic, &o.text), own = topic && !is_c && put_variable(&o, s, topic);
    size_t before = o.text.n;
    if (own) dlsh_buf_puts(&o.text, "\nThe name has another meaning, which the variable hides:\n\n");
    size_t head = o.text.n;
    int found = !topic || put_topic(&o, s, topic) + put_group(&o, s, topic) || is_c || own ||
                put_member(&o, s, topic) || put_methods(&o, topic) || put_words(&o, s, topic);
    if (own && o.text.n == head) o.text.n = before; /* there is no other meaning */
    if (!topic) put_index(&o, s);
    /* signatures, examples and pages are written as they are; only a narrow terminal breaks them */
    if (found) dlsh_text_rewrap(out, dlsh_buf_text(&o.text), o.text.n, look->width);
    dlsh_buf_free(&o.text);
    return found;
}

int dlsh_help_word(dlsh_session *s, const char *word, const dlsh_look *look, dlsh_buf *out) {
    page_out o = {.width = page_width(look), .colour = look->colour};
    const int found = put_words(&o, s, word);
    if (found) dlsh_text_rewrap(out, dlsh_buf_text(&o.text), o.text.n, look->width);
    dlsh_buf_free(&o.text);
    return found;
}

static dl_status help_run(const dlsh_args *a) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    dlsh_look look = dlsh_sink_look(sink);
    DLSH_SCOPED_BUF page = {0};
    const char *topic = dlsh_arg_count(a, "topic") ? dlsh_arg_at(a, "topic", 0)->as.str->s : NULL;
    if (!dlsh_help_page(dlsh_arg_session(a), topic, &look, &page)) {
        page_out o = {.width = page_width(&look), .colour = look.colour};
        int found = put_found(&o, dlsh_arg_session(a), topic);
        if (found) dlsh_text_rewrap(&page, dlsh_buf_text(&o.text), o.text.n, look.width);
        dlsh_buf_free(&o.text);
        if (!found) return unknown_topic(a, topic);
    }
    dlsh_page(sink, dlsh_buf_text(&page), page.n);
    return DL_OK;
}

const dlsh_command help_commands[] = {
    DLSH_ROW("help", DLSH_REPORT, help_run, "help [TOPIC [WORDS]]",
             "Describes a topic, or lists all topics. For a word that is not a topic, it lists where the word occurs.",
             DLSH_PARAMS({"topic", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL | DLSH_VARIADIC,
                          .doc = "a command, function, op, layer, setting, group, variable or page of the language; "
                                 "what follows a command is looked over, as in help why nan",
                          .complete = "topic"}),
             .examples = "help\nhelp matmul\nhelp settings\nhelp clip"),
    {0}};
