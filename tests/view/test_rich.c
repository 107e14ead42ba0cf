/* What a notebook is given: every HTML and SVG form must be well-formed, every PNG must decode to what was drawn. The
 * forms are written to files and read by tests/view/check_forms.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "lang/session.h"
#include "view/rich/html.h"
#include "view/rich/png.h"
#include "view/rich/rich.h"
#include "dlcore/create.h"

static const dlsh_look look = {.width = 80, .unicode = 1, .rich = 1};
static char folder[] = "build/tests/forms-XXXXXX";

static void keep(const char *name, const char *ending, const dlsh_buf *b) {
    char path[200];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->s, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

/* Writes the forms to files and frees the bundle; all have text. */
static void done(const char *name, dlsh_bundle *b) {
    static const char *const endings[DLSH_FORMS] = {[DLSH_HTML] = "html", [DLSH_PNG] = "png", [DLSH_SVG] = "svg"};
    assert_true(b->text.n > 0);
    for (int i = 0; i < DLSH_FORMS; i++)
        if (endings[i] && b->form[i].n) keep(name, endings[i], &b->form[i]);
    dlsh_bundle_free(b);
}

static int has(dlsh_buf *b, const char *what) { return strstr(dlsh_buf_text(b), what) != NULL; }

static dlsh_value random_tensor(int ndim, const long *shape) {
    dl_seed(3);
    return dlsh_tensor(dl_randn(shape, ndim, -1, -1));
}

static void value(dlsh_bundle *b, dlsh_value v) {
    *b = (dlsh_bundle){0};
    assert_int_equal(dlsh_rich_value(b, v, &look), DL_OK);
}

/* ---------------------------------------------------------------- values */

static void numbers_have_no_pictures(void **state) {
    (void)state;
    dlsh_bundle b;
    value(&b, dlsh_int(2));
    assert_string_equal(dlsh_buf_text(&b.text), "2\n");
    for (int i = 0; i < DLSH_FORMS; i++) assert_int_equal(b.form[i].n, i == DLSH_JSON);
    assert_string_equal(dlsh_buf_text(&b.form[DLSH_JSON]), "2");
    dlsh_bundle_free(&b);
    dlsh_value x = dlsh_tensor(dl_scalar_f(2.5));
    value(&b, x);
    assert_int_equal(b.form[DLSH_HTML].n, 0);
    dlsh_bundle_free(&b);
    dlsh_drop(x);
}

static void records_are_json(void **state) {
    (void)state;
    dlsh_value r = dlsh_new_record();
    dlsh_record_set(r.as.record, "loss", dlsh_float(0.25));
    dlsh_record_set(r.as.record, "worst", dlsh_float(NAN));
    dlsh_bundle b;
    value(&b, r);
    assert_string_equal(dlsh_buf_text(&b.form[DLSH_JSON]), "{\"loss\":0.25,\"worst\":\"NaN\"}");
    dlsh_bundle_free(&b);
    dlsh_drop(r);
}

static void tensors_are_tables(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int ndim;
        long shape[4];
    } cases[] = {{"vector", 1, {25}},        {"long_vector", 1, {5000}},    {"matrix", 2, {4, 6}},
                 {"large", 2, {1000, 1000}}, {"batch", 4, {64, 1, 28, 28}}, {"cube", 3, {2, 3, 4}},
                 {"empty", 2, {0, 3}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dlsh_value x = random_tensor(cases[i].ndim, cases[i].shape);
        dlsh_bundle b;
        value(&b, x);
        int empty = !dl_numel(x.as.tensor);
        assert_int_equal(b.form[DLSH_HTML].n == 0, empty);
        assert_true(b.form[DLSH_HTML].n < 60000);
        assert_true(empty || has(&b.form[DLSH_HTML], "mean"));
        assert_true(empty || has(&b.form[DLSH_HTML], "data:image/svg+xml;base64,"));
        int large = dl_numel(x.as.tensor) > 256;
        assert_int_equal(has(&b.form[DLSH_JSON], "\"data\":["), !large);
        assert_int_equal(has(&b.form[DLSH_JSON], "\"figures\":{\"mean\":"), large);
        done(cases[i].name, &b);
        dlsh_drop(x);
    }
}

static void all_dtypes(void **state) {
    (void)state;
    for (dl_dtype d = DL_BOOL; d <= DL_C128; d++) {
        dl_tensor *x = dl_arange(0, &(double){12}, 1, DL_F64, 0), *y = dl_to_dtype(x, d);
        dlsh_bundle b;
        char name[40];
        snprintf(name, sizeof name, "dtype_%s", dl_dtype_name(d));
        value(&b, dlsh_tensor(dl_ref(y)));
        assert_true(has(&b.form[DLSH_HTML], dl_dtype_name(d)));
        done(name, &b);
        dl_unref(y);
        dl_unref(y);
        dl_unref(x);
    }
}

static void what_is_not_finite_stands_out(void **state) {
    (void)state;
    dlsh_value x = dlsh_tensor(dl_tensor_from(2, (long[]){2, 2}, DL_F64, 0, (double[]){NAN, 1, -INFINITY, INFINITY}));
    dlsh_bundle b;
    value(&b, x);
    assert_true(has(&b.form[DLSH_HTML], "1&#160;NaN"));
    assert_true(has(&b.form[DLSH_HTML], "2&#160;Inf"));
    assert_true(has(&b.form[DLSH_HTML], "color:#fff;font-weight:bold\">nan</td>"));
    done("not_finite", &b);
    dlsh_drop(x);
    x = dlsh_tensor(dl_tensor_full(2, (long[]){2, 2}, DL_F32, 0, NAN));
    value(&b, x);
    done("all_nan", &b);
    dlsh_drop(x);
}

static void other_modes_have_no_pictures(void **state) {
    (void)state;
    dlsh_look data = look;
    data.mode = DLSH_MODE_JSON;
    dlsh_value x = random_tensor(2, (long[]){2, 2});
    dlsh_bundle b = {0};
    assert_int_equal(dlsh_rich_value(&b, x, &data), DL_OK);
    assert_true(has(&b.text, "\"shape\":[2,2]"));
    assert_int_equal(b.form[DLSH_HTML].n, 0);
    dlsh_bundle_free(&b);
    dlsh_drop(x);
}

/* ---------------------------------------------------------------- tables and plots */

static void tables_are_escaped(void **state) {
    (void)state;
    static const dlsh_column cols[] = {{"id", 'r', ""}, {"a < b", 'l', ""}, {"acc", 'r', "%.2f"}};
    dlsh_table t = {.title = "R & D", .ncols = 3, .cols = cols};
    dlsh_table_row(&t, (dlsh_value[]){dlsh_int(1), dlsh_string("<script>alert(\"x\")</script>"), dlsh_float(0.971)});
    dlsh_table_row(&t, (dlsh_value[]){dlsh_int(2), dlsh_string("näme & co"), dlsh_none()});
    dlsh_bundle b = {0};
    assert_int_equal(dlsh_rich_table(&b, &t, &look), DL_OK);
    assert_true(has(&b.form[DLSH_HTML], "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;"));
    assert_true(has(&b.form[DLSH_HTML], ">0.97</td>"));
    assert_true(has(&b.form[DLSH_HTML], "R &amp; D"));
    done("table", &b);
    for (int i = 0; i < 1500; i++) dlsh_table_row(&t, (dlsh_value[]){dlsh_int(i), dlsh_string("x"), dlsh_float(0.5)});
    assert_int_equal(dlsh_rich_table(&b, &t, &look), DL_OK);
    assert_true(has(&b.form[DLSH_HTML], "and 502 more rows"));
    done("long_table", &b);
    dlsh_table_clear(&t);
}

static void plots_are_svg(void **state) {
    (void)state;
    enum { N = 100 };
    double a[N], c[N];
    for (int i = 0; i < N; i++) a[i] = exp(-i / 20.0), c[i] = i == 50 ? NAN : 0.5 + 0.3 * sin(i / 9.0);
    dlsh_curve curves[] = {{.label = "3 first <&>", .n = N, .y = a}, {.label = "5 it's", .n = N, .y = c}};
    dlsh_plot p = {.title = "train/loss", .xlabel = "step", .ncurves = 2, .curves = curves};
    dlsh_bundle b = {0};
    dl_status s = dlsh_rich_plot(&b, &p, &look);
    if (s == DL_ERR_UNSUPPORTED) {
        dl_error_clear();
        skip(); /* no gnuplot */
    }
    assert_int_equal(s, DL_OK);
    assert_true(has(&b.form[DLSH_SVG], "train/loss"));
    done("curves", &b);
    p.bars = 1, p.ncurves = 1;
    assert_int_equal(dlsh_rich_plot(&b, &p, &look), DL_OK);
    done("bars", &b);
}

/* ---------------------------------------------------------------- pictures */

static void png_keeps_its_pixels(void **state) {
    (void)state;
    enum { W = 37, H = 11 };
    for (int channels = 1; channels <= 4; channels++) {
        int shown = channels > 2 ? 3 : 1;
        uint8_t pixels[W * H * 4];
        dlsh_buf png = {0}, pnm = {0};
        dlsh_buf_printf(&pnm, "P%d\n%d %d\n255\n", shown == 3 ? 6 : 5, W, H);
        for (int i = 0; i < W * H * channels; i++) {
            pixels[i] = i % channels < shown ? (uint8_t)(i * 7 + i / 31) : 255;
            if (i % channels < shown) dlsh_buf_add(&pnm, (const char *)&pixels[i], 1);
        }
        assert_int_equal(dlsh_png(&png, pixels, W, H, channels), DL_OK);
        char name[40];
        snprintf(name, sizeof name, "channels_%d", channels);
        keep(name, "png", &png);
        keep(name, "pnm", &pnm);
        dlsh_buf_free(&png);
        dlsh_buf_free(&pnm);
    }
}

/* ---------------------------------------------------------------- training under way */

/* 20 epochs of 100 steps: far more points and lines than are kept. */
static void training_is_one_display(void **state) {
    (void)state;
    dlsh_live live = {0};
    int drawn = 0;
    for (int epoch = 1; epoch <= 20; epoch++)
        for (int step = 1; step <= 100; step++) {
            char label[40];
            snprintf(label, sizeof label, "epoch %d/20", epoch);
            long at = (epoch - 1) * 100 + step;
            double loss = at == 700 ? NAN : 2.3 * exp((double)-at / 500) + 0.1 * sin((double)at);
            dlsh_progress p = {.label = label,
                               .at = step,
                               .total = 100,
                               .done = step == 100,
                               .more = epoch < 20,
                               .nmetrics = step == 100 ? 2 : 1,
                               .names = (const char *[]){"loss", "test/<acc>"},
                               .values = (double[]){loss, 0.9},
                               .curve = "loss",
                               .point = loss,
                               .unit = "samples/s",
                               .rate = 12345};
            dlsh_bundle b = {0};
            if (!dlsh_rich_progress(&live, &p, &look, &b)) continue;
            drawn++;
            assert_true(b.form[DLSH_HTML].n < 20000);
            assert_true(has(&b.form[DLSH_HTML], "12,345 samples/s"));
            if (at == 2000) {
                assert_true(has(&b.form[DLSH_HTML], "test/&lt;acc&gt;"));
                assert_true(has(&b.form[DLSH_HTML], "&#8230; 8 more"));
                assert_true(has(&b.text, "epoch 1/20"));
                assert_true(has(&b.text, "epoch 20/20"));
            }
            done(at == 2000 ? "training_done" : epoch == 1 ? "training_first" : "training", &b);
        }
    assert_in_range(drawn, 2, 200); /* the first call, the end, and a few a second between them */
    assert_int_equal(live.calls, 0);
}

/* ---------------------------------------------------------------- all forms */

static void forms_are_well_formed(void **state) {
    (void)state;
    char command[300];
    snprintf(command, sizeof command, "/usr/bin/python3 tests/view/check_forms.py %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    mkdir("build", 0777);
    mkdir("build/tests", 0777);
    if (!mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers_have_no_pictures),
                                       cmocka_unit_test(records_are_json),
                                       cmocka_unit_test(tensors_are_tables),
                                       cmocka_unit_test(all_dtypes),
                                       cmocka_unit_test(what_is_not_finite_stands_out),
                                       cmocka_unit_test(other_modes_have_no_pictures),
                                       cmocka_unit_test(tables_are_escaped),
                                       cmocka_unit_test(plots_are_svg),
                                       cmocka_unit_test(png_keeps_its_pixels),
                                       cmocka_unit_test(training_is_one_display),
                                       cmocka_unit_test(forms_are_well_formed)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (failed || getenv("KEEP_FORMS")) return failed; /* to be looked at */
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command) != 0;
}
