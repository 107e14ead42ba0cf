/* `graph`: the history of a tensor on the tape, as a tree, a picture, or rows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/nets/nets.h"
#include "debug/dbg.h"
#include "lang/session.h"
#include "view/rich/graph.h"
#include "view/text.h"

enum { MOST = 5000 };

/* Translates a tape to a graph: at most `most` ops and the leaves they use. */
typedef struct history {
    dlsh_session *session;
    const dl_tape *tape;
    int *index; /* of each row of the tape in the graph; -1: left out */
    long left_out;
    int open; /* ops that are made of others are shown as these */
} history;

/* ---------------------------------------------------------------- names */

/* The variable that holds the tensor of a row, NULL when there is none; *value is its tensor. */
static const char *variable_of(const history *h, const dl_tape_node *x, dl_tensor **value) {
    for (int i = 0; i < dlsh_global_count(h->session); i++) {
        const dlsh_value *v;
        const char *name = dlsh_global_at(h->session, i, &v);
        if (!v || v->type != DLSH_TENSOR || !strcmp(name, "_")) continue;
        if (x->op ? dl_tape_number(v->as.tensor) == x->seq : v->as.tensor == x->leaf) {
            *value = v->as.tensor;
            return name;
        }
    }
    return NULL;
}

static void set_kind_text(char *out, size_t size, const dl_tape_node *x) {
    size_t n = (size_t)snprintf(out, size, "%s", dl_dtype_name(x->dtype));
    for (int d = 0; d < x->ndim && n < size; d++)
        n += (size_t)snprintf(out + n, size - n, "%s%ld", d ? "," : "[", x->shape[d]);
    if (x->ndim && n < size) snprintf(out + n, size - n, "]");
}

/* " = 3.5", and the gradient that a leaf has; nothing for more than one element. */
static void add_value(char *out, size_t size, dl_tensor *t) {
    double v;
    size_t n = strlen(out);
    if (!t || dl_numel(t) != 1 || dl_item_f(t, &v)) {
        dl_error_clear();
        return;
    }
    n += (size_t)snprintf(out + n, size - n, " = %.4g", dlsh_plain_nan(v));
    if (n < size && dl_is_leaf(t) && dl_grad(t) && !dl_item_f(dl_grad(t), &v))
        snprintf(out + n, size - n, ", grad %.4g", dlsh_plain_nan(v));
}

static void name_op(const history *h, const dl_tape_node *x, const char *op, dlsh_graph_node *to, dl_tensor *result) {
    dl_tensor *value = result;
    const char *variable = variable_of(h, x, &value);
    if (variable)
        snprintf(to->label, sizeof to->label, "%.30s = %.30s", variable, op);
    else
        snprintf(to->label, sizeof to->label, "%s", op);
    set_kind_text(to->note, sizeof to->note, x);
    add_value(to->note, sizeof to->note, value);
    const char *attrs = op == x->op ? x->attrs : ""; /* those of a part are not those of the whole */
    if (x->file && *x->file)
        snprintf(to->where, sizeof to->where, "%.40s:%d%s%.40s", x->file, x->line, *attrs ? "  " : "", attrs);
    else
        snprintf(to->where, sizeof to->where, "%s", attrs);
}

static void name_leaf(const history *h, const dl_tape_node *x, dlsh_graph_node *to) {
    dl_tensor *value = x->leaf;
    const char *variable = variable_of(h, x, &value), *name = dl_tensor_name(x->leaf);
    to->kind = DLSH_GRAPH_LEAF;
    if (!variable) variable = *name ? name : "leaf";
    /* cut between characters */
    snprintf(to->label, sizeof to->label, "%.*s", (int)dlsh_text_cut(variable, strlen(variable), 40), variable);
    set_kind_text(to->note, sizeof to->note, x);
    add_value(to->note, sizeof to->note, value);
}

/* ---------------------------------------------------------------- from the tape to a graph */

/* The row that stands for a row: of an op made of others the one that gave its result, the first of the call. */
static long stands_for(const history *h, long i) {
    const dl_tape_node *x = &h->tape->nodes[i];
    for (long k = 0; !h->open && x->call && k < i; k++)
        if (h->tape->nodes[k].call == x->call) return k;
    return i;
}

static int is_closed(const history *h, long i) {
    const dl_tape_node *x = &h->tape->nodes[i];
    for (long k = i + 1; !h->open && x->call && k < h->tape->n; k++)
        if (h->tape->nodes[k].call == x->call) return 1;
    return 0;
}

/* Which rows are shown: the newest ops, and the leaves that these use. */
static int choose(history *h, long most) {
    const dl_tape *t = h->tape;
    int n = 0;
    for (long i = 0; i < t->n; i++) h->index[i] = -1;
    for (long i = 0; i < t->n && (t->nodes[i].op || i == 0); i++) {
        long by = stands_for(h, i);
        if (by < i)
            h->index[i] = h->index[by];
        else if (n < most)
            h->index[i] = n++;
        else
            h->left_out++;
    }
    for (long i = 0; i < t->n; i++)
        for (int k = 0; h->index[i] >= 0 && k < t->nodes[i].nin; k++) {
            long in = t->nodes[i].in[k];
            if (in >= 0 && !t->nodes[in].op && h->index[in] < 0) h->index[in] = n++;
        }
    return n;
}

/* Operands that need gradients, each once; what is left out stands as one node, the last. Those of the parts of a
 * composite op are its own. */
static dl_status set_operands(const history *h, const dl_tape_node *x, dlsh_graph_node *to, int last) {
    int *more = realloc(to->in, sizeof *to->in * (size_t)(to->nin + x->nin + 1));
    if (!more) return dlsh_no_memory("the graph");
    to->in = more;
    int self = h->index[x - h->tape->nodes];
    for (int k = 0; k < x->nin; k++) {
        int in = x->in[k] < 0 ? -1 : h->index[x->in[k]] < 0 ? last : h->index[x->in[k]], known = in < 0 || in == self;
        for (int j = 0; j < to->nin; j++) known |= to->in[j] == in;
        if (!known) to->in[to->nin++] = in;
    }
    return DL_OK;
}

/* The pass in which the debugger stands at the op; 0: it does not. */
static int debugger_at(const dl_tape_node *x) {
    dl_recorded node;
    int backward = 0;
    if (!dlsh_dbg.active || !dlsh_nodewalk_node(&dlsh_dbg.walk, dlsh_dbg.walk.at, &node, &backward)) return 0;
    return node.seq == x->seq ? 1 + backward : 0;
}

static dl_status build(history *h, dl_tensor *y, long most, dlsh_graph *g) {
    g->n = choose(h, most);
    g->nodes = calloc((size_t)g->n + 1, sizeof *g->nodes);
    if (!g->nodes) return dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for a graph of %d nodes", g->n);
    int last = g->n;
    dl_status status = DL_OK;
    for (long i = 0; !status && i < h->tape->n; i++) {
        if (h->index[i] < 0) continue;
        dlsh_graph_node *to = &g->nodes[h->index[i]];
        int here = h->tape->nodes[i].op ? debugger_at(&h->tape->nodes[i]) : 0;
        if (here) to->here = here;
        if (h->tape->nodes[i].op && stands_for(h, i) == i)
            name_op(h, &h->tape->nodes[i], is_closed(h, i) ? h->tape->nodes[i].composite : h->tape->nodes[i].op, to,
                    i ? NULL : y);
        else if (!h->tape->nodes[i].op)
            name_leaf(h, &h->tape->nodes[i], to);
        status = set_operands(h, &h->tape->nodes[i], to, last);
    }
    if (h->left_out) {
        dlsh_graph_node *more = &g->nodes[g->n++];
        more->kind = DLSH_GRAPH_MORE;
        snprintf(more->label, sizeof more->label, "%ld earlier ops", h->left_out);
        snprintf(more->note, sizeof more->note, "max=%ld shows all", h->tape->n);
    }
    return status;
}

/* ---------------------------------------------------------------- showing */

static dlsh_value inputs_cell(const dl_tape_node *x) {
    dlsh_value list = dlsh_new_list(x->nin);
    for (int k = 0; !dlsh_failed(list) && k < x->nin; k++)
        if (dlsh_list_push(list.as.list, x->in[k] < 0 ? dlsh_none() : dlsh_int(x->in[k]))) break;
    return list;
}

/* For programs: the tape as it is. */
static dl_status list_rows(dlsh_sink *sink, const dl_tape *tape) {
    DLSH_SCOPED_TABLE t =
        DLSH_TABLE({"id", 'r', ""}, {"op", 'l', ""}, {"seq", 'r', ""}, {"type", 'l', ""}, {"name", 'l', ""},
                   {"attrs", 'l', ""}, {"file", 'l', ""}, {"line", 'r', ""}, {"inputs", 'l', ""});
    for (long i = 0; i < tape->n; i++) {
        const dl_tape_node *x = &tape->nodes[i];
        char type[160];
        set_kind_text(type, sizeof type, x);
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_int(i), x->op ? dlsh_string(x->op) : dlsh_none(),
                                x->op ? dlsh_int((long)x->seq) : dlsh_none(), dlsh_string(type),
                                dlsh_string(x->leaf ? dl_tensor_name(x->leaf) : ""), dlsh_string(x->attrs),
                                dlsh_string(x->file ? x->file : ""), dlsh_int(x->line), inputs_cell(x)));
    }
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

static dl_status write_file(const char *path, const dlsh_graph *g) {
    DLSH_SCOPED_BUF text = {0};
    const char *format = dl_format_for(path, DL_HOLDS_GRAPH);
    if (!format) return dl_failed();
    DLSH_TRY(!strcmp(format, "DOT") ? dlsh_graph_dot(&text, g) : dlsh_graph_svg(&text, g));
    return dlsh_buf_write(&text, path);
}

static dl_status show(const dlsh_args *a, const dlsh_graph *g) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    const char *file = dlsh_arg_str(a, "out");
    if (file) {
        DLSH_TRY(write_file(file, g));
        dlsh_put(sink, "wrote %s\n", file);
        return DL_OK;
    }
    dlsh_look look = dlsh_sink_look(sink);
    DLSH_SCOPED(dlsh_bundle_free) dlsh_bundle b = {0};
    DLSH_TRY(dlsh_graph_text(&b.text, g, &look));
    if (look.rich) DLSH_TRY(dlsh_graph_svg(&b.form[DLSH_SVG], g));
    return dlsh_display(sink, &b);
}

static dl_status graph_run(const dlsh_args *a) {
    dl_trainer *trainer = dlsh_arg_handle(a, "what", &dlsh_trainer_class);
    dl_tensor *y = trainer ? dl_trainer_loss(trainer) : dlsh_arg_tensor(a, "what");
    long most = dlsh_arg_int(a, "max");
    if (!y) return dlsh_arg_fail(a, "what", DL_ERR_STATE, "forward t", "the trainer has computed no loss yet");
    if (most < 1 || most > MOST)
        return dlsh_arg_fail(a, "max", DL_ERR_VALUE, NULL, "max must be 1 to %d, got %ld", MOST, most);
    DLSH_ENDED(dl_tape_free) dl_tape *tape = dl_tape_of(y);
    if (!tape) return dl_failed();
    history h = {.session = dlsh_arg_session(a), .tape = tape, .index = malloc(sizeof(int) * (size_t)tape->n)};
    h.open = dlsh_arg_bool(a, "open");
    dlsh_graph g = {0};
    dl_status status = h.index ? DL_OK : dlsh_fail(DL_ERR_MEMORY, NULL, "no memory for %ld ops", tape->n);
    if (!status && !dlsh_arg_str(a, "out") && dlsh_sink_look(dlsh_arg_sink(a)).mode != DLSH_MODE_TABLE) {
        status = list_rows(dlsh_arg_sink(a), tape);
    } else if (!status) {
        status = build(&h, y, most, &g);
        if (!status) status = show(a, &g);
    }
    dlsh_graph_free(&g);
    free(h.index);
    return status;
}

const dlsh_command graph_commands[] = {
    DLSH_ROW(
        "graph", DLSH_REPORT, graph_run, "graph TENSOR [open] [max=100] [out=FILE]",
        "Draws the tape: the ops that computed a tensor, from the result down to the leaves that require gradients, "
        "with shapes, values of scalars and the lines that ran them. In a notebook, and with out=NAME.svg, a picture; "
        "out=NAME.dot is for Graphviz. An op that is made of others, such as mse_loss, is one node; open shows its "
        "parts. "
        "Within dbg the op where the debugger stands is marked.",
        DLSH_PARAMS({"what", .want = "tensor|trainer", .doc = "a tensor with a history, or a trainer: its last loss"}),
        DLSH_OPTIONS({"open", DLSH_OPT_BOOL, "false", .doc = "show the parts of ops that are made of others"},
                     {"max", DLSH_OPT_INT, "100", .doc = "ops shown, the newest"},
                     {"out", DLSH_OPT_WORD, NULL, .doc = "draw into a file, NAME.svg or NAME.dot", .complete = "file"}),
        .examples = "graph loss\ngraph t open\ngraph loss out=tape.svg\ngraph loss out=tape.dot"),
    {0}};
