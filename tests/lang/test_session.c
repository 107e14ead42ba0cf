/* The session as its front doors use it: running text, places of failures, completeness, interruption, calls, fields,
 * iteration, nets handed to a builder, and release of everything. */
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <cmocka.h>

#include "lang/session.h"

/* ---------------------------------------------------------------- a sink that keeps what is written to it */

static dlsh_buf told;

static void keep_text(dlsh_sink *s, const char *b, size_t n) { (void)s, dlsh_buf_add(&told, b, n); }
static dl_status keep_value(dlsh_sink *s, dlsh_value v) {
    (void)s;
    dl_status st = dlsh_repr(&told, v);
    dlsh_buf_puts(&told, "\n");
    return st;
}
static dl_status keep_table(dlsh_sink *s, const dlsh_table *t) { return (void)s, (void)t, DL_OK; }
static void keep_error(dlsh_sink *s, const dlsh_diag *d) {
    (void)s;
    dlsh_buf_printf(&told, "%s:%d:%d: %s: %s\n", d->file, d->line, d->col, d->severity, d->message);
}
static void no_flush(dlsh_sink *s) { (void)s; }
static const dlsh_sink_ops sink_ops = {
    .text = keep_text, .value = keep_value, .table = keep_table, .error = keep_error, .flush = no_flush};
static dlsh_sink sink = {&sink_ops};
static dlsh_session *s;

static int setup(void **state) {
    (void)state;
    s = dlsh_session_new(&sink, NULL);
    return !s;
}

/* The test's session, with services. */
static void serve(const dlsh_services *services) {
    dlsh_session_free(s);
    s = dlsh_session_new(&sink, services);
    assert_non_null(s);
}

static int teardown(void **state) {
    (void)state;
    dlsh_session_free(s);
    dlsh_buf_free(&told);
    return 0;
}

static dl_status run(const char *text) {
    dlsh_buf_free(&told);
    return dlsh_run(s, "<t>", text, strlen(text), NULL);
}

/* ---------------------------------------------------------------- running and failing */

static void test_run(void **state) {
    (void)state;
    assert_int_equal(run("x = 2; x + 1\n\"quiet\";\n_"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "3\n\"quiet\"\n");
    const dlsh_value *x = dlsh_get(s, "x");
    assert_non_null(x);
    assert_int_equal(x->as.i, 2);
    assert_null(dlsh_get(s, "nothing"));
    assert_int_equal(dlsh_set(s, "y", dlsh_string("set")), DL_OK);
    assert_int_equal(run("y"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "\"set\"\n");
    assert_int_equal(dlsh_unset(s, "y"), DL_OK);
    assert_int_equal(dlsh_unset(s, "y"), DL_ERR_NAME);
}

static void test_place(void **state) {
    (void)state;
    assert_int_equal(run("a = 1\nfn f(x) {\n  return x + nothing }\nf(2)"), DL_ERR_NAME);
    const dlsh_diag *d = dlsh_error_diag(s);
    assert_non_null(d);
    assert_int_equal(d->line, 3);
    assert_int_equal(d->col, 14);
    assert_int_equal(d->width, 7);
    assert_string_equal(d->source, "  return x + nothing }");
    assert_string_equal(d->trace, "in f, called at <t>:4:1");
    assert_string_equal(d->kind, "name error");
    assert_int_equal(run("1"), DL_OK);
    assert_null(dlsh_error_diag(s));
}

static void test_nothing_runs_after_a_syntax_error(void **state) {
    (void)state;
    assert_int_equal(run("print(1)\nx = = 2"), DL_ERR_SYNTAX);
    assert_string_equal(dlsh_buf_text(&told), "");
    assert_int_equal(dlsh_error_diag(s)->line, 2);
}

static void test_keep_going(void **state) {
    (void)state;
    serve(&(dlsh_services){.keep_going = 1});
    assert_int_equal(run("1\nnothing\n2\n[][0]\n3"), DL_ERR_NAME);
    assert_string_equal(dlsh_buf_text(&told), "1\n<t>:2:1: error: no variable or function is called 'nothing'\n2\n"
                                              "<t>:4:1: error: index 0 is outside a list of 0\n3\n");
}

static void test_last_value_and_exit(void **state) {
    dlsh_value last;
    int code = -1;
    (void)state;
    assert_int_equal(dlsh_run(s, "<t>", "1\n2 + 3", 7, &last), DL_OK);
    assert_int_equal(last.type, DLSH_INT);
    assert_int_equal(last.as.i, 5);
    assert_int_equal(dlsh_run(s, "<t>", "x = 1; 4;", 9, &last), DL_OK);
    assert_int_equal(last.type, DLSH_VOID);
    assert_int_equal(run("fn f() { for i in range(3) { exit 4 } print(0) }\nf()\nprint(1)"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "");
    assert_true(dlsh_exiting(s, &code));
    assert_int_equal(code, 4);
}

static void *interrupt_soon(void *arg) {
    (void)arg;
    usleep(50000);
    dlsh_interrupt();
    return NULL;
}

/* The interruption reaches the session after the statement, before the end of the run. */
static dl_status interrupt_late(void) {
    static int call;
    if (++call == 2) dlsh_interrupt();
    return DL_OK;
}

static void test_interrupt_after_the_value(void **state) {
    dlsh_value last;
    (void)state;
    serve(&(dlsh_services){.c_check = interrupt_late});
    assert_int_equal(dlsh_run(s, "<t>", "zeros(2)", 8, &last), DL_ERR_INTERRUPT);
    assert_int_equal(last.type, DLSH_VOID);
}

static void test_interrupt(void **state) {
    static const char *const endless[] = {"while true { }", "i = 0; while true { try { i += 1; [][0] } catch { } }",
                                          "for i in range(1000000000000) { x = i }",
                                          "map(fn (x) { return x }, range(1000000000000))"};
    (void)state;
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, NULL, interrupt_soon, NULL), 0);
        assert_int_equal(run(endless[i]), DL_ERR_INTERRUPT);
        pthread_join(t, NULL);
    }
    assert_int_equal(run("1 + 1"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "2\n");
}

static void test_recursion(void **state) {
    (void)state;
    assert_int_equal(run("fn f(n) { return n == 0 ? 0 : 1 + f(n - 1) }\nf(1000)"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "1000\n");
    assert_int_equal(run("fn g(n) { return g(n + 1) }\ng(0)"), DL_ERR_STATE);
    assert_int_equal(run("fn h() { try { h() } catch e { return e.kind } }\nh()"), DL_OK);
    /* long chains of objects are released without deep recursion */
    assert_int_equal(run("x = none\nfor i in range(300000) { x = [x] }\nx = none"), DL_OK);
}

/* ---------------------------------------------------------------- completeness */

static void test_completeness(void **state) {
    static const struct {
        const char *text;
        dlsh_completeness want;
    } cases[] = {
        {"", DLSH_COMPLETE},
        {"x = 1", DLSH_COMPLETE},
        {"x = 1\n", DLSH_COMPLETE},
        {"# comment", DLSH_COMPLETE},
        {"if a {", DLSH_INCOMPLETE},
        {"if a { b }", DLSH_COMPLETE},
        {"f(1,", DLSH_INCOMPLETE},
        {"[1, 2", DLSH_INCOMPLETE},
        {"x = 1 +", DLSH_INCOMPLETE},
        {"x =", DLSH_INCOMPLETE},
        {"fn f(a", DLSH_INCOMPLETE},
        {"net m { conv 3 ->", DLSH_INCOMPLETE},
        {"C { int x;", DLSH_INCOMPLETE},
        {"C { int x; }", DLSH_COMPLETE},
        {"x = )", DLSH_INVALID},
        {"assert", DLSH_INVALID},
        {"\"abc", DLSH_INVALID},
        {"int x = 3", DLSH_INVALID},
        {"no_grad {", DLSH_INCOMPLETE},
        {"try { x", DLSH_INCOMPLETE},
        {"a, b", DLSH_COMPLETE},
        {"a, b,", DLSH_INCOMPLETE},
        {"a, *b =", DLSH_INCOMPLETE},
        {"print(\"{\")", DLSH_COMPLETE},
        {"a ? b :", DLSH_INCOMPLETE},
        {"x.", DLSH_INVALID},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dlsh_completeness got = dlsh_is_complete(s, cases[i].text, strlen(cases[i].text));
        if (got != cases[i].want) fail_msg("%s: %d", cases[i].text, got);
    }
}

/* ---------------------------------------------------------------- calls and fields from C */

static void test_calls(void **state) {
    dlsh_value out, args[2] = {dlsh_int(3), dlsh_int(4)};
    const char *names[2] = {NULL, "b"};
    (void)state;
    assert_int_equal(run("fn f(a, b=10, c=100) { return a + b + c }"), DL_OK);
    dlsh_callargs both = {2, args, NULL}, by_name = {2, args, names};
    assert_true(dlsh_callable(*dlsh_get(s, "f")));
    assert_int_equal(dlsh_call(s, *dlsh_get(s, "f"), &both, &out), DL_OK);
    assert_int_equal(out.as.i, 107);
    assert_int_equal(dlsh_call(s, *dlsh_get(s, "f"), &by_name, &out), DL_OK);
    assert_int_equal(out.as.i, 107);
    const dlsh_command *row = dlsh_find_command(s, "len", 3);
    dlsh_value list = dlsh_new_list(0);
    dlsh_callargs one = {1, &list, NULL};
    assert_int_equal(dlsh_call_command(s, row, &one, &out), DL_OK);
    assert_int_equal(out.as.i, 0);
    assert_int_equal(dlsh_call_command(s, row, &both, &out), DL_ERR_TYPE);
    assert_int_equal(dlsh_set_field(s, list, "x", args[0]), DL_ERR_TYPE);
    assert_int_equal(dlsh_get_field(s, list, "append", &out), DL_OK);
    assert_int_equal(out.type, DLSH_METHOD);
    dlsh_callargs item = {1, args, NULL};
    dlsh_value ignored;
    assert_int_equal(dlsh_call(s, out, &item, &ignored), DL_OK);
    assert_int_equal(list.as.list->n, 1);
    dlsh_drop(out);
    dlsh_drop(list);
}

/* ---------------------------------------------------------------- handles */

static int alive;
static void destroy(void *self) { free(self), alive--; }
static dl_status get_n(void *self, dlsh_value *out) { return *out = dlsh_int(*(int *)self), DL_OK; }
static dl_status set_n(void *self, dlsh_value v) { return *(int *)self = (int)v.as.i, DL_OK; }
static dl_status next_number(dlsh_session *ss, void *self, dlsh_value *out, int *done) {
    (void)ss;
    *done = *(int *)self <= 0;
    if (!*done) *out = dlsh_int((*(int *)self)--);
    return DL_OK;
}
static dl_status twice(const dlsh_args *a, dlsh_value *result) {
    return *result = dlsh_int(2 * *(int *)dlsh_arg_self(a)), DL_OK;
}
static const dlsh_command methods[] = {{.name = "twice", .flags = DLSH_ONLY_FUNCTION, .run = twice}, {0}};
static const dlsh_field fields[] = {{"n", "number", get_n, set_n}, {0}};
static const dlsh_class down = {
    .name = "countdown", .destroy = destroy, .fields = fields, .methods = methods, .next = next_number};

static dl_status countdown(const dlsh_args *a, dlsh_value *result) {
    int *n = malloc(sizeof *n);
    *n = (int)dlsh_arg_int(a, "n");
    alive++;
    *result = dlsh_new_handle(&down, n);
    return DL_OK;
}
static const dlsh_param one_int[] = {{.name = "n", .want = "int"}, {0}};
static const dlsh_option some_options[] = {{"step", DLSH_OPT_INT, "7", "", NULL, NULL},
                                           {"mode", DLSH_OPT_WORD, "fast", "", NULL, "fast|slow"},
                                           {"loud", DLSH_OPT_BOOL, NULL, "", NULL, NULL},
                                           {0}};
static dl_status tell(const dlsh_args *a, dlsh_value *result) {
    (void)result;
    dlsh_put(dlsh_arg_sink(a), "n=%ld step=%ld mode=%s loud=%d text=%s\n", dlsh_arg_int(a, "n"),
             dlsh_arg_int(a, "step"), dlsh_arg_str(a, "mode"), dlsh_arg_bool(a, "loud"), dlsh_arg_text(a, "n"));
    return DL_OK;
}
static const dlsh_command rows[] = {
    {.name = "countdown", .flags = DLSH_ONLY_FUNCTION, .params = one_int, .run = countdown},
    {.name = "tell",
     .flags = DLSH_ACTION | DLSH_FUNCTION,
     .usage = "tell N",
     .params = one_int,
     .options = some_options,
     .run = tell},
    {0}};

static void test_handles(void **state) {
    (void)state;
    assert_int_equal(dlsh_add_commands(s, rows), DL_OK);
    assert_int_equal(dlsh_add_commands(s, rows), DL_ERR_INTERNAL);
    assert_int_equal(run("c = countdown(3); c.n; c.n = 2; c.twice(); for x in c { print(x) }; c.n\nc = none"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "2\n1\n0\n");
    assert_int_equal(alive, 0);
    assert_int_equal(run("c = countdown(1); c.twcie"), DL_ERR_NAME);
    assert_string_equal(dlsh_error_diag(s)->hint, "did you mean .twice?");
    assert_int_equal(run("c = [c]; c = countdown(5); c.twice"), DL_OK);
}

static void test_arguments(void **state) {
    (void)state;
    assert_int_equal(dlsh_add_commands(s, rows), DL_OK);
    assert_int_equal(run("k = 4\ntell k\ntell (k+1) step=2 loud mode=slow\ntell k;\ntell(k)\nfn f() { tell 1 }\nf()"),
                     DL_OK);
    assert_string_equal(dlsh_buf_text(&told),
                        "n=4 step=7 mode=fast loud=0 text=k\nn=5 step=2 mode=slow loud=1 text=(k+1)\n");
    assert_int_equal(run("tell 1 stpe=2"), DL_ERR_SYNTAX);
    assert_string_equal(dlsh_error_diag(s)->hint, "did you mean step=?");
    assert_int_equal(run("tell 1 mode=slwo"), DL_ERR_VALUE);
    assert_string_equal(dlsh_error_diag(s)->hint, "did you mean slow?");
    assert_int_equal(run("tell 1.5"), DL_ERR_TYPE);
    assert_int_equal(run("tell 1 step=\"x\""), DL_ERR_TYPE);
    assert_int_equal(run("tell 1 step=1 step=2"), DL_ERR_VALUE);
    assert_int_equal(run("tell"), DL_ERR_SYNTAX);
    assert_int_equal(run("tell(1, step=2, step=3)"), DL_ERR_TYPE);
}

/* ---------------------------------------------------------------- nets */

static void describe(const dlsh_layer *l, int n) {
    for (int i = 0; i < n; i++) {
        dlsh_buf_printf(&told, "%s%s%s%s", i ? " -> " : "", l[i].label ? l[i].label : "", l[i].label ? ":" : "",
                        l[i].kind);
        for (int k = 0; k < l[i].nargs; k++) {
            dlsh_buf_printf(&told, " %s%s", l[i].names[k] ? l[i].names[k] : "", l[i].names[k] ? "=" : "");
            dlsh_repr(&told, l[i].args[k]);
        }
        if (l[i].has_body) {
            dlsh_buf_puts(&told, l[i].expanded ? " <" : " {");
            describe(l[i].body, l[i].nbody);
            dlsh_buf_puts(&told, l[i].expanded ? ">" : "}");
        }
        if (l[i].has_shortcut) {
            dlsh_buf_puts(&told, " shortcut {");
            describe(l[i].shortcut, l[i].nshortcut);
            dlsh_buf_puts(&told, "}");
        }
        if (l[i].value.type != DLSH_VOID) dlsh_buf_printf(&told, " is %s", dlsh_type_name(l[i].value));
    }
}

static dl_status build(dlsh_session *ss, const dlsh_layer *net, dlsh_value *out) {
    (void)ss;
    dlsh_buf_printf(&told, "%s: ", net->kind);
    describe(net->body, net->nbody);
    dlsh_buf_puts(&told, "\n");
    *out = dlsh_none();
    return net->nbody ? DL_OK : dlsh_fail(DL_ERR_VALUE, NULL, "no layers");
}
static int known(const char *kind) { return !strcmp(kind, "conv") || !strcmp(kind, "relu") || !strcmp(kind, "repeat"); }

static void test_nets(void **state) {
    (void)state;
    assert_int_equal(run("net m { conv 8 }"), DL_ERR_UNSUPPORTED);
    serve(&(dlsh_services){.build_net = build, .known_layer = known});
    assert_int_equal(run("k = 3\nfn half(x) { return x / 2 }\nrelu = 5\n"
                         "net block(c, s=1) { residual { conv c k=k } shortcut { conv c stride=s } -> relu }\n"
                         "net m { a: conv 8 k=k+0 }"),
                     DL_ERR_SYNTAX);
    assert_int_equal(run("k = 3\nfn half(x) { return x / 2 }\nrelu = 5\n"
                         "net block(c, s=1) { residual { conv c k=k } shortcut { conv c stride=s } -> relu }\n"
                         "net m { a: conv 8 k=(k + 1) -> half\n repeat 2 { block 16 s=2 } }\nb = block(4)"),
                     DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "m: a:conv 8 k=4 -> half is function -> repeat 2 {block 16 s=2 <residual "
                                              "{conv 16 k=3} shortcut {conv 16 stride=2} -> relu>}\n"
                                              "block: residual {conv 4 k=3} shortcut {conv 4 stride=1} -> relu\n");
    assert_int_equal(run("net n { conv nothing }"), DL_ERR_NAME);
    assert_int_equal(dlsh_error_diag(s)->col, 14);
    assert_int_equal(run("net rec(c) { rec c }\nrec(1)"), DL_ERR_VALUE);
}

/* ---------------------------------------------------------------- services */

static int c_names;
static void *open_c(dlsh_session *ss) { return (void)ss, &c_names; }
static void *open_nothing(dlsh_session *ss) { return (void)ss, NULL; }
static void close_c(void *state) { dlsh_buf_printf(&told, "closed after %d\n", *(int *)state); }
static int find_c(void *state, const char *name, dlsh_value *out, int *lasting) {
    if (strcmp(name, "EOF")) return 0;
    *out = dlsh_int(-++*(int *)state);
    return !(*lasting = 0);
}
static dl_status run_c(dlsh_session *ss, const dlsh_unit *unit, const dlsh_node *node) {
    (void)ss, (void)unit;
    dlsh_buf_puts(&told, node->kind == DLSH_N_EXTERN ? "extern\n" : "block\n");
    return DL_OK;
}
static dl_status check_c(void) { return c_names == 3 ? dlsh_fail(DL_ERR_CRASH, NULL, "a thread crashed") : DL_OK; }
static void before(dlsh_session *ss, const char *text, size_t len) {
    assert_ptr_equal(ss, s);
    dlsh_buf_printf(&told, "<%.*s\n", (int)len, text);
}
static void after(dlsh_session *ss) {
    assert_ptr_equal(ss, s);
    dlsh_buf_puts(&told, ">\n");
}

static void test_services(void **state) {
    (void)state;
    assert_int_equal(run("extern \"libm.so.6\" double hypot(double x, double y)"), DL_ERR_UNSUPPORTED);
    assert_int_equal(run("C { int x; }"), DL_ERR_UNSUPPORTED);
    assert_int_equal(run("EOF"), DL_ERR_NAME);
    assert_null(dlsh_session_new(&sink, &(dlsh_services){.c_open = open_nothing, .c_close = close_c}));
    serve(&(dlsh_services){.c_open = open_c,
                           .c_close = close_c,
                           .c_run = run_c,
                           .c_find = find_c,
                           .c_check = check_c,
                           .before_statement = before,
                           .after_statement = after});
    assert_ptr_equal(dlsh_get_c_state(s), &c_names);
    assert_int_equal(run("EOF\nEOF; C { int x; }"), DL_OK);
    assert_string_equal(dlsh_buf_text(&told), "<EOF\n-1\n>\n<EOF\n>\n<C { int x; }\nblock\n>\n");
    assert_int_equal(run("EOF\n1"), DL_ERR_CRASH);
    serve(NULL);
    assert_string_equal(dlsh_buf_text(&told), "<EOF\n-3\nclosed after 3\n");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_run),
                                       TEST(test_place),
                                       TEST(test_nothing_runs_after_a_syntax_error),
                                       TEST(test_keep_going),
                                       TEST(test_last_value_and_exit),
                                       TEST(test_interrupt),
                                       TEST(test_interrupt_after_the_value),
                                       TEST(test_recursion),
                                       TEST(test_completeness),
                                       TEST(test_calls),
                                       TEST(test_handles),
                                       TEST(test_arguments),
                                       TEST(test_nets),
                                       TEST(test_services)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
