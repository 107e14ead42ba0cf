/* Where the data of a training are made, as the text has it: data sets of trainers, and loaders that loops go over. */
#include <limits.h>
#include <string.h>

#include "commands/data/data.h"
#include "commands/nets/nets.h"
#include "debug/doctor/trace.h"

/* Through names, parts of data sets and fields, to the expression that made the value. */
static const dlsh_node *made_by(const char *file, const dlsh_node *n) {
    const dlsh_node *made = n ? dlsh_made(file, n) : NULL;
    return made && made->kind == DLSH_N_FIELD ? made_by(file, made->kids[0]) : made;
}

static int is_call(const dlsh_node *n, const char *name) {
    return n && n->kind == DLSH_N_CALL && dlsh_names(n->kids[0], name);
}

/* The call that made the trainer that is looked at; NULL: it is not known. */
static const dlsh_node *maker_of_trainer(const dlsh_examination *e, const char *file) {
    DLSH_EACH_HOLDER (h, &e->holders) {
        if (dlsh_unwrap(h->value, &dlsh_trainer_class) != e->trainer) continue;
        const dlsh_node *n = dlsh_made(file, dlsh_definition_of(file, h->name, h->place, NULL));
        if (is_call(n, "trainer")) return n;
    }
    return NULL;
}

/* What a call is given by a record, f(x, **options); NULL: nothing of that name. */
static const dlsh_node *given_by_record(const char *file, const dlsh_node *call, const char *option) {
    for (int i = 1; i < call->nkids; i++) {
        const dlsh_node *n = call->kids[i], *all = n->kind == DLSH_N_SPREAD ? dlsh_made(file, n->kids[0]) : NULL;
        const dlsh_node *value = dlsh_value_of_key(all, option);
        if (value) return value;
    }
    return NULL;
}

const dlsh_node *dlsh_trainer_option(const dlsh_examination *e, const char *file, int place, const char *option) {
    const dlsh_node *n = maker_of_trainer(e, file);
    if (!n) return NULL;
    const dlsh_node *given = dlsh_argument_of(n, place, option);
    if (!given) given = given_by_record(file, n, option);
    const dlsh_node *made = made_by(file, given);
    return made || !given || given->kind != DLSH_N_NAME ? made : dlsh_function_of(file, given->text);
}

int dlsh_line_of_trainer_loss(const dlsh_examination *e, const char *file) {
    const dlsh_node *n = e->trainer && !dl_trainer_loss_context(e->trainer) ? maker_of_trainer(e, file) : NULL;
    const dlsh_node *loss = n ? dlsh_argument_of(n, INT_MAX - 1, "loss") : NULL;
    return loss ? loss->span.line : n ? n->span.line : 0;
}

int dlsh_test_line(const char *file, const dlsh_node *made) {
    const dlsh_node *part = is_call(made, "dataset") && made->nkids == 3 ? dlsh_argument_of(made, 1, "") : NULL;
    if (part && part->kind == DLSH_N_FIELD && (!strcmp(part->text, "x") || !strcmp(part->text, "y"))) return 0;
    const dlsh_node *n = made_by(file, part);
    return is_call(n, "dataset") ? n->span.line : 0;
}

/* ---------------------------------------------------------------- loaders of loops */

int dlsh_data_named(const dlsh_examination *e, const char *file, const dlsh_node *n, dlsh_dealt *out) {
    out->made = made_by(file, n);
    const char *split = n && n->kind == DLSH_N_FIELD ? n->text : NULL;
    const dlsh_node *of = split ? n->kids[0] : n;
    const dlsh_value *v = dlsh_value_of(e, file, of);
    dlsh_split *part = v ? dlsh_unwrap(*v, &dlsh_split_class) : NULL;
    out->data = part ? part->data : v ? dlsh_unwrap(*v, &dlsh_dataset_class) : NULL;
    out->split = part ? part->which : split && !strcmp(split, "test") ? DL_TEST : DL_TRAIN;
    return out->data != NULL;
}

/* That of a loader in a variable, which was given a data set without a name. */
static int data_of_loader(const dlsh_examination *e, const char *file, const dlsh_node *n, dlsh_dealt *out) {
    const dlsh_value *v = dlsh_value_of(e, file, n);
    const dl_loader *l = v ? dlsh_unwrap(*v, &dlsh_loader_class) : NULL;
    if (l) out->data = dl_loader_dataset(l), out->split = dl_loader_split(l);
    return l != NULL;
}

static int is_false(const dlsh_node *n) { return n->kind == DLSH_N_BOOL && !n->num.i; }

/* Of what a loop goes over, without progress() and enumerate(). */
static const dlsh_node *gone_over(const dlsh_node *n) {
    while (n && (is_call(n, "progress") || is_call(n, "enumerate")) && n->nkids > 1) n = n->kids[1];
    return n;
}

int dlsh_is_shuffled(const char *file, const dlsh_node *seq, int *line) {
    const dlsh_node *n = made_by(file, gone_over(seq));
    const dlsh_node *shuffle = is_call(n, "loader") ? dlsh_argument_of(n, INT_MAX - 1, "shuffle") : NULL;
    *line = shuffle ? n->span.line : 0;
    return shuffle && shuffle->kind == DLSH_N_BOOL && shuffle->num.i;
}

/* loader(d, ...), as it stands or in a variable. */
static int loader_of(const dlsh_examination *e, const char *file, const dlsh_node *n, dlsh_dealt *out) {
    const dlsh_node *at = gone_over(n);
    n = made_by(file, at);
    const dlsh_node *data = is_call(n, "loader") ? dlsh_argument_of(n, 0, "data") : NULL;
    if (!data) return 0;
    const dlsh_node *shuffle = dlsh_argument_of(n, INT_MAX - 1, "shuffle");
    out->in_order = (!shuffle || is_false(shuffle)) && !dlsh_argument_of(n, INT_MAX - 1, "sampler");
    out->line = n->span.line;
    return dlsh_data_named(e, file, data, out) || data_of_loader(e, file, at, out);
}

/* The innermost loop around a place that has one. */
static int around(const dlsh_examination *e, const char *file, const dlsh_node *n, int place, dlsh_dealt *out) {
    int found = 0;
    if (!n || place < n->span.start || place > n->span.end) return 0;
    for (int i = 0; i < n->nkids && !found; i++) found = around(e, file, n->kids[i], place, out);
    return found || n->kind != DLSH_N_FOR ? found : loader_of(e, file, n->kids[n->nkids - 2], out);
}

int dlsh_loader_around(const dlsh_examination *e, const char *file, int line, dlsh_dealt *out) {
    *out = (dlsh_dealt){0};
    int places[DLSH_LEVELS], found = 0;
    const int n = dlsh_places_of(file, line, places);
    for (int i = 0; i < n && !found; i++) found = around(e, file, dlsh_text_root(file), places[i], out);
    return found;
}
