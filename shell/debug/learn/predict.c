/* `predict`: the learner says shape and values of a result before they are shown, and is told the mistake. */
#include <string.h>

#include "debug/debug.h"
#include "debug/learn/learn.h"
#include "debug/learn/mistakes.h"
#include "lang/eval/interp.h"
#include "view/sink.h"

dlsh_score dlsh_predicted;

/* ---------------------------------------------------------------- what is asked, and answers */

static int is_numbers(dlsh_value v) {
    return v.type == DLSH_LIST || v.type == DLSH_TENSOR || v.type == DLSH_BOOL || dlsh_is_number(v);
}

/* What is made of numbers as f64 in host memory; NULL: a recorded failure. */
static dl_tensor *numbers(dlsh_value v) {
    DLSH_DROPPED dlsh_value made = dlsh_void();
    if (v.type == DLSH_TENSOR && dl_dtype_is_complex(dl_dtype_of(v.as.tensor)))
        return dlsh_fail(DL_ERR_DTYPE, "predict its parts: view_as_real(x)", "complex numbers are not predicted"), NULL;
    if (v.type == DLSH_LIST && dlsh_list_to_tensor(v, DL_F64, 0, &made)) return NULL;
    DLSH_OWNED dl_tensor *t = v.type == DLSH_LIST ? dl_ref(made.as.tensor) : dlsh_operand(v);
    return t ? dlsh_debug_plain(t) : NULL;
}

/* The sizes in a list or a whole number. */
static dl_status sizes(dlsh_value v, long *shape, int *n) {
    int list = v.type == DLSH_LIST;
    *n = list ? v.as.list->n : 1;
    int wrong = *n > 8;
    for (int i = 0; i < *n && !wrong; i++) {
        dlsh_value x = list ? v.as.list->items[i] : v;
        wrong = x.type != DLSH_INT || x.as.i < 0;
        shape[i] = wrong ? 0 : x.as.i;
    }
    return wrong ? dlsh_fail(DL_ERR_VALUE, "[3, 4], or [] of a number", "a shape is a list of at most 8 sizes") : DL_OK;
}

/* Is it `x.grad`? */
static int is_gradient(const dlsh_node *n) { return n && n->kind == DLSH_N_FIELD && !strcmp(n->text, "grad"); }

/* The tensor whose gradient it is, where that stands in the statement. */
static dl_status find_leaf(const dlsh_args *a, dlsh_guess *g) {
    const dlsh_node *n = dlsh_arg_node(a, "what");
    DLSH_DROPPED dlsh_value v = dlsh_void();
    if (!is_gradient(n)) return DL_OK;
    DLSH_TRY(dlsh_eval(g->session, n->kids[0], &v));
    g->gradient = v.type == DLSH_TENSOR;
    g->leaf = g->gradient ? dl_ref(v.as.tensor) : NULL;
    return DL_OK;
}

static dl_status begin(const dlsh_args *a, dlsh_guess *g) {
    const dlsh_value *v = dlsh_arg(a, "what");
    g->session = dlsh_arg_session(a);
    g->name = dlsh_arg_node(a, "what") ? dlsh_arg_text(a, "what") : "it";
    DLSH_TRY(find_leaf(a, g));
    if (v->type == DLSH_NONE && g->leaf)
        return dlsh_arg_fail(a, "what", DL_ERR_STATE, "backward l; predict w.grad", "there is no gradient yet");
    if (!is_numbers(*v))
        return dlsh_arg_fail(a, "what", DL_ERR_TYPE, "predict w.grad", "numbers are predicted, not %s", dlsh_a(*v));
    g->truth = numbers(*v);
    return g->truth ? DL_OK : dl_failed();
}

/* ---------------------------------------------------------------- checks */

static dl_status check_shape(const dlsh_guess *g, dlsh_value v, dlsh_buf *wrong) {
    long shape[8];
    int n;
    DLSH_TRY(sizes(v, shape, &n));
    dlsh_mistake_in_shape(g, shape, n, wrong);
    return DL_OK;
}

static dl_status check_values(dlsh_guess *g, dlsh_value v, dlsh_buf *wrong) {
    if (!is_numbers(v))
        return dlsh_fail(DL_ERR_TYPE, "3, [1, 2], or an expression such as x.T @ g",
                         "an answer is made of numbers, not %s", dlsh_a(v));
    g->answer = numbers(v);
    dl_status st = g->answer ? dlsh_mistake_in_values(g, wrong) : dl_failed();
    dl_unref(g->answer);
    g->answer = NULL;
    return st;
}

/* ---------------------------------------------------------------- asking */

/* The value of a line of text; `3, 4` is the list of them. */
static dl_status evaluate(dlsh_session *s, const char *text, dlsh_value *v) {
    DLSH_SCOPED_BUF line = {0};
    int bare = text[strspn(text, "0123456789 ,.-")] == 0 && strchr(text, ',');
    dlsh_buf_printf(&line, bare ? "[%s]" : "(%s)", text);
    int recording = dl_recording_set(0), depth = s->fn_depth;
    s->fn_depth = 0; /* where expressions have values */
    dl_status st = dlsh_run(s, "<answer>", dlsh_buf_text(&line), line.n, v);
    s->fn_depth = depth;
    dl_recording_set(recording);
    return st;
}

int dlsh_is_leaving(const char *line) { return !strcmp(line, "q") || !strcmp(line, "quit") || !strcmp(line, "exit"); }

/* What is known without the numbers. */
static void put_hint(const dlsh_guess *g, dlsh_sink *sink, int shape) {
    DLSH_SCOPED_BUF hint = {0}, size = {0};
    if (!shape) dlsh_hint_of_places(g, &hint);
    dlsh_guess_put_shape(&size, g->truth);
    const char *end = strstr(g->name, ".grad");
    if (shape && g->gradient && end)
        dlsh_buf_printf(&hint, "a gradient has the shape of its tensor: look at shape(%.*s)", (int)(end - g->name),
                        g->name);
    else if (shape)
        dlsh_buf_printf(&hint, "it has %d dimension%s", dl_ndim(g->truth), dl_ndim(g->truth) == 1 ? "" : "s");
    else if (!hint.n)
        dlsh_buf_printf(&hint, "its shape is %s; an answer may be any expression, such as x.T @ g",
                        dlsh_buf_text(&size));
    dlsh_put(sink, "hint: %s\n", dlsh_buf_text(&hint));
}

/* What a word does in place of an answer. A variable of that name is asked for as (q). */
typedef enum word { ANSWER, LEAVE, SKIP, HINT } word;

static word word_of(const char *line) {
    if (dlsh_is_leaving(line)) return LEAVE;
    if (!*line || !strcmp(line, "skip") || !strcmp(line, "s")) return SKIP;
    return strcmp(line, "hint") && strcmp(line, "h") && strcmp(line, "?") ? ANSWER : HINT;
}

/* Asks until the answer is right, or the question is skipped or left. *right: it was, at once or later; *over: nobody
 * answers, or it was left. */
static dl_status ask(dlsh_guess *g, dlsh_sink *sink, int shape, int *right, int *over) {
    for (*right = 0; !*right;) {
        DLSH_SCOPED_BUF line = {0}, prompt = {0}, wrong = {0};
        DLSH_DROPPED dlsh_value v = dlsh_void();
        dl_status st = DL_OK;
        dlsh_buf_printf(&prompt, "%s of %s? (hint, skip, q) ", shape ? "shape" : "value", g->name);
        if (dlsh_debug_ask(sink, dlsh_buf_text(&prompt), &line)) {
            if (dlsh_interrupted()) return dl_failed();
            dl_error_clear();
            dlsh_put(sink, "\n");
            *over = 1;
            return DL_OK;
        }
        const word w = word_of(dlsh_buf_text(&line));
        if (w == HINT) put_hint(g, sink, shape);
        if (w == LEAVE) *over = dlsh_predicted.left = 1;
        if (w == LEAVE || w == SKIP) return DL_OK;
        if (w == HINT) continue;
        dlsh_predicted.asked++;
        st = evaluate(g->session, dlsh_buf_text(&line), &v);
        if (!st) st = shape ? check_shape(g, v, &wrong) : check_values(g, v, &wrong);
        if (dlsh_interrupted()) return dl_failed();
        if (st) {
            dlsh_warn_failure(g->session);
            continue;
        }
        *right = !wrong.n;
        dlsh_predicted.right += *right;
        if (wrong.n) dlsh_put(sink, "not yet: %s\n", dlsh_buf_text(&wrong));
    }
    dlsh_put(sink, "right\n");
    return DL_OK;
}

static dl_status reveal(const dlsh_guess *g, dlsh_sink *sink, dlsh_value truth) {
    DLSH_SCOPED_BUF text = {0};
    DLSH_TRY(dlsh_text(&text, truth));
    dlsh_put(sink, "%s = %s%s\n", g->name, dlsh_buf_text(&text),
             dlsh_guess_rounded(g->truth) ? ", 0 but for rounding" : "");
    return DL_OK;
}

/* Shape first, then values; what was not found is shown. */
static dl_status converse(const dlsh_args *a, dlsh_guess *g) {
    dlsh_sink *sink = dlsh_arg_sink(a);
    int right = 0, over = 0;
    dlsh_predicted.left = 0;
    if (dl_ndim(g->truth)) DLSH_TRY(ask(g, sink, 1, &right, &over));
    if (dl_ndim(g->truth) && !right && !over) {
        DLSH_SCOPED_BUF shape = {0};
        dlsh_guess_put_shape(&shape, g->truth);
        dlsh_put(sink, "its shape is %s\n", dlsh_buf_text(&shape));
    }
    if (!over) DLSH_TRY(ask(g, sink, 0, &right, &over));
    return dlsh_predicted.left ? DL_OK : reveal(g, sink, *dlsh_arg(a, "what"));
}

/* ---------------------------------------------------------------- the command */

/* An answer that was given with the command. */
static dl_status answer(const dlsh_args *a, dlsh_guess *g, dlsh_value *result) {
    DLSH_SCOPED_BUF wrong = {0};
    if (dlsh_given(a, "shape")) DLSH_TRY(check_shape(g, *dlsh_arg(a, "shape"), &wrong));
    if (!wrong.n && dlsh_given(a, "answer")) DLSH_TRY(check_values(g, *dlsh_arg(a, "answer"), &wrong));
    if (!dlsh_arg_called(a))
        dlsh_put(dlsh_arg_sink(a), wrong.n ? "not yet: %s\n" : "right%s\n", wrong.n ? dlsh_buf_text(&wrong) : "");
    *result =
        DLSH_RECORD_OF({"right", dlsh_bool(!wrong.n)}, {"mistake", wrong.n ? dlsh_buf_string(&wrong) : dlsh_none()});
    return dlsh_failed(*result) ? DL_ERR_MEMORY : DL_OK;
}

static dl_status predict_run(const dlsh_args *a, dlsh_value *result) {
    dlsh_guess g = {0};
    int answered = dlsh_given(a, "answer") || dlsh_given(a, "shape");
    if (!answered && dlsh_arg_called(a))
        return dlsh_arg_fail(a, NULL, DL_ERR_VALUE, "predict(w.grad, x), or predict(w.grad, shape=[3])",
                             "there is no answer");
    dl_status st = begin(a, &g);
    if (!st) st = answered ? answer(a, &g, result) : converse(a, &g);
    dl_unref(g.truth);
    dl_unref(g.leaf);
    return st;
}

const dlsh_command predict_commands[] = {
    DLSH_ROW(
        "predict", DLSH_REPORT | DLSH_FUNCTION, predict_run, "predict EXPRESSION [ANSWER] [shape=]",
        "Asks for shape and values of a result before they are shown, and names the mistake. An answer is any "
        "expression, such as x.T @ g; it counts as right within 1 %. A wrong one is told what is missing, as far as "
        "that is known: a transpose, a sum over what was broadcast, the sign, a factor and the size that it is, a "
        "mask, one of several contributions, the rule of an op (the last three under `set record full`), and may be "
        "given again. In place of an answer `hint` tells where it comes from, `skip` or an empty line shows the "
        "result, and `q` "
        "leaves without it, and leaves the lesson, too; a variable of such a name is written (q). With ANSWER or "
        "shape= nothing is asked and nothing shown. As a "
        "function it gives a record of `right` and `mistake`.",
        DLSH_PARAMS({"what", .doc = "what is predicted: w.grad, or any numbers"},
                    {"answer", .flags = DLSH_OPTIONAL, .doc = "its values: a number, list or tensor"}),
        DLSH_OPTIONS({"shape", DLSH_OPT_VALUE, .doc = "its shape", .want = "list|int"}),
        .examples = "predict w.grad\npredict w.grad shape=[3, 4]\npredict w.grad (x.T @ g)"),
    {0}};
