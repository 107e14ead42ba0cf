/* Nets: names, inferred sizes, containers, copies, text, files, cost, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "support/wrong.h"
#include "dlcore/arithmetic.h"
#include "dlcore/create.h"

static const long image[] = {2, 1, 28, 28}, flat[] = {4, 6};

static dl_module *net(const char *text) {
    dl_module *m = dl_net_parse(text);
    if (!m) fail_msg("%s", dl_errmsg());
    return m;
}

static void build(dl_module *m, int ndim, const long *shape) {
    if (dl_module_build(m, ndim, shape, DL_F32, 0) != DL_OK) fail_msg("%s", dl_errmsg());
}

static void assert_shape(dl_tensor *t, int ndim, const long *shape) {
    assert_non_null(t);
    assert_int_equal(dl_ndim(t), ndim);
    for (int i = 0; i < ndim; i++) assert_int_equal(dl_shape(t)[i], shape[i]);
}

static void names_and_inferred_sizes(void **state) {
    (void)state;
    dl_module *m = net("conv 16 k=3 pad=1 -> relu -> maxpool 2\nflatten\nhead: linear 10");
    assert_false(dl_module_is_built(m));
    assert_null(dl_module_tensor(m, "conv0.weight"));
    assert_int_equal(dl_module_params(m), 0);
    build(m, 4, image);
    assert_true(dl_module_is_built(m));
    assert_int_equal(dl_module_params(m), 16 * 9 + 16 + 10 * 3136 + 10);
    const char *labels[] = {"conv0", "relu0", "maxpool0", "flatten0", "head"};
    assert_int_equal(dl_module_count(m), 5);
    for (int i = 0; i < 5; i++) assert_string_equal(dl_module_label(m, i), labels[i]);
    assert_shape(dl_module_tensor(m, "conv0.w"), 4, (long[]){16, 1, 3, 3});
    assert_shape(dl_module_tensor(m, "head.weight"), 2, (long[]){10, 3136});
    assert_shape(dl_module_tensor(m, "head.b"), 1, (long[]){10});
    assert_string_equal(dl_tensor_name(dl_module_tensor(m, "head.weight")), "head.weight");
    assert_true(dl_requires_grad(dl_module_tensor(m, "conv0.weight")));
    assert_null(dl_module_tensor(m, "head.scale"));
    assert_null(dl_module_find(m, "tail"));
    dl_module_unref(m);
}

static void containers(void **state) {
    (void)state;
    dl_module *m = net("linear 6 -> repeat 2 { residual { linear 8 -> relu -> linear 6 } -> relu }\n"
                       "residual { linear 3 } shortcut { linear 3 bias=false }; sequential { fc: linear 2 }");
    build(m, 2, flat);
    assert_shape(dl_module_tensor(m, "repeat0.residual0.linear0.weight"), 2, (long[]){8, 6});
    assert_shape(dl_module_tensor(m, "repeat0.residual1.linear1.weight"), 2, (long[]){6, 8});
    assert_string_equal(dl_module_label(dl_module_find(m, "repeat0"), 3), "relu1");
    assert_shape(dl_module_tensor(m, "residual0.shortcut.linear0.weight"), 2, (long[]){3, 6});
    assert_null(dl_module_tensor(m, "residual0.shortcut.linear0.bias"));
    assert_shape(dl_module_tensor(m, "sequential0.fc.weight"), 2, (long[]){2, 3});
    /* a residual adds its input: with zero weights it is the identity */
    dl_module *r = net("residual { linear 6 init=\"zeros\" bias=false }");
    dl_tensor *x = dl_randn(flat, 2, DL_F32, 0), *y = dl_module_forward(r, x);
    double a[24], b[24];
    assert_int_equal(dl_read_f64(x, a), DL_OK);
    assert_int_equal(dl_read_f64(y, b), DL_OK);
    assert_memory_equal(a, b, sizeof a);
    dl_unref(x);
    dl_unref(y);
    dl_module_unref(r);
    dl_module_unref(m);
}

static void text_reads_back(void **state) {
    (void)state;
    const char *texts[] = {
        "conv 16 kernel_size=[3, 5] padding=1 bias=false -> batchnorm eps=0.001 -> maxpool 2 stride=1",
        "a: linear 4 -> repeat 2 { residual { linear 8 -> linear 4 } shortcut { identity } }",
        "fn1: leaky_relu 0.2; dropout p=0.25 # a comment\n softmax dim=1", "flatten start_dim=2 end_dim=-1"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dl_module *m = net(texts[i]);
        char *once = dl_module_text(m);
        dl_module *again = net(once);
        char *twice = dl_module_text(again);
        assert_string_equal(once, twice);
        dl_text_free(once);
        dl_text_free(twice);
        dl_module_unref(m);
        dl_module_unref(again);
    }
}

static void errors_have_hints(void **state) {
    (void)state;
    static const wrong cases[] = {
        {"linaer 10", DL_ERR_NAME, "there is no layer called 'linaer'", "did you mean 'linear'?"},
        {"conv2 16 k=3", DL_ERR_NAME, "there is no layer called 'conv2'", "did you mean 'conv'?"},
        {"conv 16 kernle_size=3", DL_ERR_NAME, "layer conv has no option 'kernle_size'", "did you mean 'kernel_size'?"},
        {"conv 16", DL_ERR_VALUE, "layer conv needs kernel_size", "for example: conv 16 k=3 pad=1"},
        {"linear 10 20", DL_ERR_VALUE, "layer linear takes at most 1 argument without a name", "linear 10"},
        {"linear 10 out=20", DL_ERR_NAME, "layer linear: out_features is given twice", ""},
        {"linear 0", DL_ERR_VALUE, "layer linear: out_features must be at least 1, not 0", ""},
        {"linear 10 bias=3", DL_ERR_TYPE, "layer linear: bias must be true or false, not a whole number",
         "bias: with a bias"},
        {"linear 10 init=kaiming_norml", DL_ERR_NAME, "there is no initialisation called 'kaiming_norml'",
         "did you mean 'kaiming_normal'?"},
        {"dropout 1.5", DL_ERR_VALUE, "layer dropout: p cannot be 1.5", "p is a probability below 1: dropout 0.1"},
        {"relu { linear 1 }", DL_ERR_VALUE, "layer relu takes no layers in braces", ""},
        {"residual", DL_ERR_VALUE, "layer residual needs layers in braces", NULL},
        {"a: relu -> a: relu", DL_ERR_NAME, "two layers are named 'a'", "give each layer a name of its own"},
        {"linear 10 -> ", DL_ERR_SYNTAX, "line 1: expected a layer, got the end", ""},
        {"relu\nlinear 10 }", DL_ERR_SYNTAX, "line 2: expected a layer, got '}'", ""},
        {"repeat 2 { relu", DL_ERR_SYNTAX, "line 1: expected '}', got the end", ""},
        {"", DL_ERR_SYNTAX, "the description of the net has no layers", ""},
        {"repeat 0 { relu }", DL_ERR_VALUE, "layer repeat: n must be 1 to 10000, not 0", NULL},
        {"repeat 1000 { repeat 1000 { relu } }", DL_ERR_VALUE, "a net has at most 20000 layers", ""},
        {"function", DL_ERR_NAME, "there is no layer called 'function'", NULL},
        {"conv 6 k=3 groups=4", DL_ERR_VALUE, "layer conv: 6 output channels cannot be split into 4 groups", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dl_error_clear();
        assert_refused(&cases[i], dl_net_parse(cases[i].text));
    }
}

static void faults_are_placed(void **state) {
    (void)state;
    dl_arg args[] = {{.kind = DL_ARG_INT, .i = 8}, {.name = "stirde", .kind = DL_ARG_INT, .i = 2}};
    dl_layer_spec inner[] = {{.kind = "relu"}, {.kind = "conv", .args = args, .nargs = 2}};
    dl_arg times = {.kind = DL_ARG_INT, .i = 2};
    dl_layer_spec outer[] = {{.kind = "relu"},
                             {.kind = "repeat", .args = &times, .nargs = 1, .body = inner, .nbody = 2}};
    const dl_layer_spec *at;
    int arg;
    assert_null(dl_net_build("m", outer, 2, &at, &arg));
    assert_ptr_equal(at, &inner[1]);
    assert_int_equal(arg, 1);
}

static void failures_name_the_layer(void **state) {
    (void)state;
    dl_module *m = net("a: sequential { linear 8 -> b: maxpool 2 }");
    dl_tensor *x = dl_zeros(flat, 2, DL_F32, 0);
    assert_null(dl_module_forward(m, x));
    if (strncmp(dl_error_last()->message, "in layer a.b: ", 14)) fail_msg("%s", dl_errmsg());
    dl_module_unref(m);
    m = net("residual { linear 3 }");
    assert_null(dl_module_forward(m, x));
    assert_non_null(strstr(dl_errmsg(), "its body gives shape [4,3], its shortcut [4,6]"));
    assert_non_null(strstr(dl_error_last()->hint, "shortcut"));
    dl_module_unref(m);
    dl_unref(x);
}

static dl_tensor *twice(void *ctx, dl_tensor *x) {
    ++*(int *)ctx;
    return dl_add(x, x);
}
static void released(void *ctx) { *(int *)ctx += 1000; }

static void functions_are_layers(void **state) {
    (void)state;
    int calls = 0;
    dl_module *f = dl_module_function("twice", (dl_code_spec){.layer = twice, .ctx = &calls, .release = released});
    dl_layer_spec spec[] = {{.kind = "twice", .module = f}, {.kind = "relu"}, {.kind = "twice", .module = f}};
    dl_module *m = dl_net_build("m", spec, 3, NULL, NULL);
    dl_module_unref(f);
    assert_non_null(m);
    assert_string_equal(dl_module_label(m, 2), "twice1");
    dl_tensor *x = dl_ones(flat, 2, DL_F32, 0), *y = dl_module_forward(m, x);
    double v[24];
    assert_int_equal(dl_read_f64(y, v), DL_OK);
    assert_true(v[0] == 4);
    assert_int_equal(calls, 2);
    dl_module *copy = dl_module_copy(m);
    dl_module_unref(m);
    assert_int_equal(calls, 2);
    dl_module_unref(copy);
    assert_int_equal(calls, 1002);
    dl_unref(x);
    dl_unref(y);
}

static void copies_are_apart_and_sharing_stays(void **state) {
    (void)state;
    dl_module *enc = net("linear 6");
    dl_layer_spec spec[] = {{.kind = "enc", .module = enc}, {.kind = "relu"}, {.kind = "enc", .module = enc}};
    dl_module *m = dl_net_build("m", spec, 3, NULL, NULL);
    build(m, 2, flat);
    assert_int_equal(dl_module_params(m), 42); /* counted once */
    dl_module *c = dl_module_copy(m);
    assert_int_equal(dl_module_params(c), 42);
    assert_ptr_equal(dl_module_find(c, "enc0"), dl_module_find(c, "enc1"));
    dl_tensor *zero = dl_zeros((long[]){6, 6}, 2, DL_F32, 0);
    assert_int_equal(dl_module_set_tensor(c, "enc0.linear0.w", zero), DL_OK);
    double v[36];
    assert_int_equal(dl_read_f64(dl_module_tensor(m, "enc1.linear0.w"), v), DL_OK);
    assert_true(v[0] != 0);
    assert_int_equal(dl_module_set_tensor(c, "enc0.linear0.b", zero), DL_ERR_SHAPE);
    dl_unref(zero);
    dl_module_unref(enc);
    dl_module_unref(m);
    dl_module_unref(c);
}

static void modes_and_statistics(void **state) {
    (void)state;
    dl_module *m = net("batchnorm -> dropout 0.5");
    dl_seed(3);
    build(m, 2, flat);
    assert_int_equal(dl_rng_position(DL_STREAM_DROPOUT), 0); /* finding out shapes leaves no trace */
    double before[6], after[6], y[24];
    assert_int_equal(dl_read_f64(dl_module_tensor(m, "batchnorm0.running_mean"), before), DL_OK);
    dl_tensor *x = dl_full(flat, 2, 3.0, DL_F32, 0), *out;
    dl_module_train(m, 0);
    out = dl_module_forward(m, x);
    assert_int_equal(dl_read_f64(out, y), DL_OK);
    for (int i = 0; i < 24; i++) assert_float_equal(y[i], 3, 1e-4);
    dl_unref(out);
    assert_int_equal(dl_read_f64(dl_module_tensor(m, "batchnorm0.running_mean"), after), DL_OK);
    assert_memory_equal(before, after, sizeof before);
    dl_module_train(m, 1);
    out = dl_module_forward(m, x);
    dl_unref(out);
    assert_int_equal(dl_read_f64(dl_module_tensor(m, "batchnorm0.running_mean"), after), DL_OK);
    assert_float_equal(after[0], 0.3, 1e-6);
    assert_int_equal(dl_rng_position(DL_STREAM_DROPOUT), 1);
    dl_unref(x);
    dl_module_unref(m);
}

static void moves_to_f64(void **state) {
    (void)state;
    dl_module *m = net("linear 3 -> tanh -> later: linear 2");
    dl_module *part = dl_module_find(m, "linear0");
    dl_tensor *x = dl_randn(flat, 2, DL_F64, 0), *y = dl_module_forward(part, x);
    dl_unref(y);
    dl_tensor *w = dl_ref(dl_module_tensor(m, "linear0.w"));
    assert_int_equal(dl_module_to(m, DL_F64, -1), DL_OK);
    assert_ptr_equal(w, dl_module_tensor(m, "linear0.w")); /* holders of the tensor see the change */
    assert_int_equal(dl_dtype_of(w), DL_F64);
    y = dl_module_forward(m, x);
    assert_int_equal(dl_dtype_of(y), DL_F64);
    assert_int_equal(dl_dtype_of(dl_module_tensor(m, "later.w")), DL_F64);
    assert_int_equal(dl_module_to(m, DL_I64, -1), DL_ERR_DTYPE);
    dl_unref(w);
    dl_unref(x);
    dl_unref(y);
    dl_module_unref(m);
}

static void table_of_costs(void **state) {
    (void)state;
    dl_module *m =
        net("conv 16 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> residual { linear 3136 -> relu } -> linear 10");
    dl_summary *s = dl_module_summary(m, &(dl_net_input){4, {1, 1, 28, 28}, DL_F32}, 1, 0);
    if (!s) fail_msg("%s", dl_errmsg());
    const char *paths[] = {
        "", "conv0", "relu0", "maxpool0", "flatten0", "residual0", "residual0.linear0", "residual0.relu0", "linear0"};
    assert_int_equal(s->n, 9);
    for (int i = 0; i < 9; i++) assert_string_equal(s->layers[i].path, paths[i]);
    const dl_layer_stat *conv = &s->layers[1], *head = &s->layers[8], *res = &s->layers[5];
    assert_int_equal(conv->ndim, 4);
    assert_int_equal(conv->shape[1], 16);
    assert_int_equal(conv->params, 160);
    assert_true(conv->flops >= 2.0 * 16 * 9 * 784 && conv->flops <= 2.2 * 16 * 9 * 784);
    assert_true(head->flops >= 2.0 * 3136 * 10 && head->flops <= 2.2 * 3136 * 10);
    assert_true(res->flops > s->layers[6].flops + s->layers[7].flops); /* and the sum */
    assert_true(s->layers[4].bytes == 0);                              /* flatten is a view */
    assert_true(s->layers[0].params == dl_module_params(m));
    assert_true(s->layers[0].flops >= conv->flops + res->flops + head->flops);
    dl_summary_free(s);
    dl_module_unref(m);
}

static void files(void **state) {
    (void)state;
    char path[] = "/tmp/dlsh-net-XXXXXX";
    close(mkstemp(path));
    dl_module *m = net("conv 4 k=3 -> batchnorm -> flatten -> head: linear 5");
    assert_int_equal(dl_module_save(m, path, NULL), DL_ERR_STATE); /* nothing to save yet */
    dl_tensor *x = dl_randn((long[]){2, 2, 8, 8}, 4, DL_F32, 0), *y = dl_module_forward(m, x);
    dl_unref(y);
    dl_module_train(m, 0);
    y = dl_module_forward(m, x);
    const char *meta[] = {"note", "hello", NULL};
    if (dl_module_save(m, path, meta) != DL_OK) fail_msg("%s", dl_errmsg());
    double want[10], got[10];
    assert_int_equal(dl_read_f64(y, want), DL_OK);
    /* into the same net written down again, and into one made from the file's text */
    dl_module *same = net("conv 4 k=3 -> batchnorm -> flatten -> head: linear 5");
    if (dl_module_load(same, path) != DL_OK) fail_msg("%s", dl_errmsg());
    dl_module *open = dl_module_open(path, 0);
    dl_module *nets[] = {same, open};
    for (int i = 0; i < 2; i++) {
        assert_non_null(nets[i]);
        dl_module_train(nets[i], 0);
        dl_tensor *z = dl_module_forward(nets[i], x);
        assert_int_equal(dl_read_f64(z, got), DL_OK);
        assert_memory_equal(want, got, sizeof want);
        dl_unref(z);
    }
    /* a net of another size or with other names is refused, and left as it was */
    dl_module *other = net("conv 4 k=3 -> batchnorm -> flatten -> head: linear 6");
    assert_int_equal(dl_module_load(other, path), DL_ERR_SHAPE);
    assert_false(dl_module_is_built(other));
    dl_module *names = net("conv 4 k=3 -> batchnorm -> flatten -> tail: linear 5");
    assert_int_equal(dl_module_load(names, path), DL_ERR_NAME);
    dl_module_unref(other);
    dl_module_unref(names);
    dl_module_unref(same);
    dl_module_unref(open);
    dl_module_unref(m);
    dl_unref(x);
    dl_unref(y);
    unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_inferred_sizes), cmocka_unit_test(containers),
        cmocka_unit_test(text_reads_back),          cmocka_unit_test(errors_have_hints),
        cmocka_unit_test(faults_are_placed),        cmocka_unit_test(failures_name_the_layer),
        cmocka_unit_test(functions_are_layers),     cmocka_unit_test(copies_are_apart_and_sharing_stays),
        cmocka_unit_test(modes_and_statistics),     cmocka_unit_test(moves_to_f64),
        cmocka_unit_test(table_of_costs),           cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
