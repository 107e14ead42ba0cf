/* Devices: which there are, which is used, their memory, and in what precision they compute. */
#include "commands/device.h"

#include <stdio.h>
#include <string.h>

#include "lang/eval/collect.h"
#include "view/table.h"

/* ---------------------------------------------------------------- show devices, show memory */

dl_status dlsh_show_devices(dlsh_session *s, dlsh_sink *sink) {
    (void)s;
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"device", 'l', ""}, {"in use", 'l', ""}, {"what", 'l', ""});
    int n = dl_device_count();
    for (int i = 0; i < n; i++) {
        char what[192];
        if (dl_device_describe(i, what, sizeof what)) snprintf(what, sizeof what, "cannot be used: %s", dl_errmsg());
        DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_string(dl_device_name(i)),
                                dlsh_string(dlsh_default_device() == i ? "yes" : "no"), dlsh_string(what)));
    }
    DLSH_TRY(dlsh_table_show(sink, &t, DL_OK, NULL));
    if (n == 1 && dlsh_sink_look(sink).mode == DLSH_MODE_TABLE) dlsh_put(sink, "no GPU: %s\n", dl_device_missing());
    return DL_OK;
}

static dl_status memory_table(dlsh_sink *sink, dlsh_mode mode) {
    dlsh_table t =
        DLSH_TABLE({"device", 'l', ""}, {"used", 'r', ""}, {"cached", 'r', ""}, {"peak", 'r', ""}, {"free", 'r', ""});
    dl_status status = DL_OK;
    for (int i = 0; !status && i < dl_device_count(); i++) {
        dl_device_memory m;
        if (dl_device_memory_get(i, &m)) continue; /* lost: show devices says why */
        status = DLSH_TABLE_ROW(&t, dlsh_string(dl_device_name(i)), dlsh_amount((double)m.used, 1, mode),
                                dlsh_amount((double)m.cached, 1, mode), dlsh_amount((double)m.peak, 1, mode),
                                dlsh_amount((double)m.available, 1, mode));
    }
    return dlsh_table_show(sink, &t, status, NULL);
}

enum { LARGEST = 10 };

/* The largest blocks of all devices. */
static dl_status largest_table(dlsh_sink *sink, dlsh_mode mode) {
    dlsh_table t = DLSH_TABLE({"largest", 'r', ""}, {"device", 'l', ""}, {"made at", 'l', ""});
    dl_status status = DL_OK;
    for (int d = 0; !status && d < dl_device_count(); d++) {
        dl_memory_block b[LARGEST];
        int n = dl_device_memory_largest(d, b, LARGEST);
        for (int i = 0; !status && i < n; i++)
            status = dlsh_table_row(
                &t, (dlsh_value[]){dlsh_amount((double)b[i].bytes, 1, mode), dlsh_string(dl_device_name(d)),
                                   b[i].file ? dlsh_stringf("%s:%d", b[i].file, b[i].line) : dlsh_string("")});
    }
    return status || t.nrows ? dlsh_table_show(sink, &t, status, NULL) : DL_OK;
}

/* Values of the language, and what the collector of reference cycles has done. */
static dl_status values_table(dlsh_sink *sink) {
    DLSH_SCOPED_TABLE t = DLSH_TABLE({"lists, records, functions", 'r', ""}, {"freed in cycles", 'r', ""},
                                     {"collections", 'r', ""}, {"longest", 'r', ""});
    dlsh_collect_stats c = dlsh_collect_statistics();
    DLSH_TRY(DLSH_TABLE_ROW(&t, dlsh_int(c.tracked), dlsh_int(c.freed), dlsh_int(c.collections),
                            dlsh_stringf("%.1f ms", 1e3 * c.longest)));
    return dlsh_table_show(sink, &t, DL_OK, NULL);
}

dl_status dlsh_show_memory(DLSH_UNUSED dlsh_session *s, dlsh_sink *sink) {
    dlsh_mode mode = dlsh_sink_look(sink).mode;
    DLSH_TRY(memory_table(sink, mode));
    DLSH_TRY(values_table(sink));
    return largest_table(sink, mode);
}

/* ---------------------------------------------------------------- the commands */

static dl_status device_run(const dlsh_args *a) {
    if (!dlsh_given(a, "name")) {
        dlsh_put(dlsh_arg_sink(a), "%s\n", dl_device_name(dlsh_default_device()));
        return DL_OK;
    }
    if (!dlsh_device_choose(dlsh_arg_str(a, "name"))) return DL_OK;
    dl_error e = *dl_error_last();
    return dlsh_arg_fail(a, "name", e.code, *e.hint ? e.hint : "show devices lists what this machine has", "%s",
                         e.message);
}

/* Sets the precision that the argument `which` names, also as a dtype: bfloat16. */
static dl_status choose_precision(const dlsh_args *a, const char *which) {
    const char *name = dlsh_arg_str(a, which);
    dl_dtype dtype;
    if (dl_dtype_parse(name, &dtype) == DL_OK)
        name = dl_dtype_name(dtype);
    else
        dl_error_clear();
    const char *names[DL_PRECISION_F16 + 1];
    int n = 0;
    for (int p = DL_PRECISION_F32; p <= DL_PRECISION_F16; p++) {
        names[n++] = dl_precision_name((dl_precision)p);
        if (!strcmp(name, names[n - 1])) return dl_precision_set((dl_precision)p);
    }
    const char *near = dlsh_nearest(name, names, n);
    char hint[64];
    if (near) snprintf(hint, sizeof hint, "did you mean %s?", near);
    return dlsh_arg_fail(a, which, DL_ERR_VALUE, near ? hint : NULL,
                         "precision is one of f32, tf32, bf16, f16, got \"%s\"", name);
}

static dl_status precision_run(const dlsh_args *a) {
    if (dlsh_given(a, "name")) return choose_precision(a, "name");
    dlsh_put(dlsh_arg_sink(a), "%s\n", dl_precision_name(dl_precision_get()));
    return DL_OK;
}

static dl_status autocast_run(const dlsh_args *a) {
    const dl_precision was = dl_precision_get();
    DLSH_TRY(choose_precision(a, "dtype"));
    dl_status st = dlsh_arg_exec(a, "block", NULL), back = dl_precision_set(was);
    return st ? st : back;
}

static dl_status empty_cache_run(DLSH_UNUSED const dlsh_args *a) {
    dlsh_collect_all();
    for (int i = 0; i < dl_device_count(); i++) DLSH_TRY(dl_device_empty_cache(i));
    return DL_OK;
}

const dlsh_command device_commands[] = {
    DLSH_ROW(
        "device", DLSH_ACTION, device_run, "device [NAME]",
        "Chooses the device of nets, data and new tensors. The default is the first GPU, or the CPU if there is none.",
        DLSH_PARAMS({"name", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                     .doc = "cpu, cuda or cuda:N; without it the present one is printed", .complete = "device"}),
        .examples = "device cpu"),
    DLSH_ROW(
        "precision", DLSH_ACTION, precision_run, "precision [NAME]",
        "Chooses how f32 nets compute. f32: everything in f32. tf32: products and convolutions on a GPU round their "
        "operands to tf32; the CPU computes as with f32. bf16, f16: products and convolutions in 16 bits, losses "
        "and softmax in f32; weights and their gradients stay f32.",
        DLSH_PARAMS({"name", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                     .doc = "f32, tf32, bf16 or f16; without it the present one is printed", .complete = "precision"}),
        .examples = "precision tf32\nprecision f32"),
    DLSH_ROW("autocast", DLSH_REPORT, autocast_run, "autocast [dtype=bf16] { STATEMENTS }",
             "Runs statements in another precision, as precision describes it, and goes back to the one before.",
             DLSH_PARAMS({"block", DLSH_ARG_BLOCK, .doc = "statements"}),
             DLSH_OPTIONS({"dtype", DLSH_OPT_WORD, "bf16", .doc = "bf16, f16, tf32 or f32", .complete = "precision"}),
             .examples = "autocast { l = cross_entropy(m(x), y) }; backward l"),
    DLSH_ROW("empty_cache", DLSH_ACTION, empty_cache_run, "empty_cache",
             "Collects reference cycles, and returns cached memory to the GPU's driver and to the system.",
             .examples = "empty_cache"),
    {0}};
