/* Settings and the command `set`. */
#include "commands/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands/context.h"
#include "debug/dbg.h"
#include "debug/undo/undo.h"
#include "view/console.h"
#include "view/tensor.h"

int dlsh_timing;

static dl_status get_threads(dlsh_buf *out) {
    dlsh_buf_printf(out, "%d", dl_threads());
    return DL_OK;
}

static dl_status whole_number(const char *value, long min, long max, long *out) {
    char *end;
    errno = 0;
    long v = strtol(value, &end, 10);
    if (!*value || *end || errno || v < min || v > max)
        return dlsh_fail(DL_ERR_VALUE, NULL, "a whole number from %ld to %ld is wanted, got \"%s\"", min, max, value);
    *out = v;
    return DL_OK;
}

static dl_status set_threads(const char *value) {
    long n = 0;
    DLSH_TRY(whole_number(value, 1, 1024, &n));
    return dl_threads_set((int)n);
}

static dl_status get_dtype(dlsh_buf *out) {
    dlsh_buf_puts(out, dl_dtype_name(dl_default_dtype_get()));
    return DL_OK;
}

static dl_status set_dtype(const char *value) {
    dl_dtype t;
    DLSH_TRY(dl_dtype_parse(value, &t));
    return dl_default_dtype_set(t);
}

static dl_status get_threshold(dlsh_buf *out) {
    dlsh_buf_printf(out, "%ld", dlsh_print.threshold);
    return DL_OK;
}

static dl_status set_threshold(const char *value) { return whole_number(value, 0, 1000000000, &dlsh_print.threshold); }

static dl_status get_db(dlsh_buf *out) {
    dlsh_buf_puts(out, dlsh_store_shown());
    return DL_OK;
}

static dl_status get_tensorboard(dlsh_buf *out) {
    dlsh_buf_puts(out, dlsh_tensorboard());
    return DL_OK;
}

static dl_status set_deterministic(int on) {
    dl_deterministic_set(on);
    return DL_OK;
}

static dl_status set_capture(int on) {
    dl_capture_set(on);
    return DL_OK;
}

/* A walk switches it off while it stands. */
static int get_record(void) { return dlsh_dbg.active ? dlsh_dbg.walk.recording : dl_recording_get(); }

/* Starting anew forgets what was recorded. */
static dl_status set_record(int on) {
    if (dlsh_dbg.active) return dlsh_dbg.walk.recording = on, DL_OK; /* a walk holds what was recorded */
    dl_recording_set(on);
    dl_recording_clear();
    return DL_OK;
}

static dl_status put_size(dlsh_buf *out, unsigned long bytes) {
    int shift = !bytes || bytes & 0x3ff ? 0 : bytes & 0xfffff ? 10 : bytes & 0x3fffffff ? 20 : 30;
    dlsh_buf_printf(out, "%lu%.2s", bytes >> shift, &"\0\0KBMBGB"[shift / 10 * 2]);
    return DL_OK;
}

static dl_status read_size(const char *setting, const char *value, void (*use)(unsigned long bytes)) {
    static const char *const units[] = {"", "KB", "MB", "GB"};
    char *end;
    errno = 0;
    unsigned long n = strtoul(value, &end, 10);
    for (int i = 0; i < 4 && *value >= '0' && *value <= '9' && !errno; i++) {
        if (strcasecmp(end, units[i]) != 0 || n > ULONG_MAX >> 10 * i) continue;
        use(n << 10 * i);
        return DL_OK;
    }
    char hint[40];
    snprintf(hint, sizeof hint, "set %s 1GB", setting);
    return dlsh_fail(DL_ERR_VALUE, hint, "a size as 500MB or 2GB is wanted, got \"%.60s\"", value);
}

static dl_status get_rewind(dlsh_buf *out) { return put_size(out, dl_rewind_budget_get()); }
static dl_status set_rewind(const char *value) { return read_size("rewind", value, dl_rewind_budget_set); }
static dl_status get_undo(dlsh_buf *out) { return put_size(out, dlsh_undo_budget_get()); }
static dl_status set_undo(const char *value) { return read_size("undo", value, dlsh_undo_budget_set); }

static dl_status get_updates(dlsh_buf *out) {
    dlsh_buf_printf(out, "%ld", dl_updates_every_get());
    return DL_OK;
}

static dl_status set_updates(const char *value) {
    long n = 0;
    DLSH_TRY(whole_number(value, 0, 1000000000, &n));
    return dl_updates_every_set(n);
}

static int get_nan(void) { return dl_nan_policy_get(); }
static dl_status set_nan(int n) { return dl_nan_policy_set((dl_nan_policy)n); }

static const dlsh_setting settings[] = {
    {"mode", "table|csv|json", "table", "How values and tables are printed.", .number = (int *)&dlsh_view.mode,
     .min = 1},
    {"colour", "auto|on|off", "auto", "Colours; auto: at a terminal, unless NO_COLOR is set.",
     .number = &dlsh_view.colour, .min = 1},
    {"pictures", "auto|blocks|kitty|iterm|sixel", "auto",
     "How a terminal shows pictures: as blocks of text, or by the protocol of kitty, of iTerm2, or sixel; auto: what "
     "the terminal is known to show, or answers when it is asked.",
     .number = &dlsh_view.pictures, .min = 1},
    {"progress", "auto|on|off", "auto",
     "Progress of long actions; auto: redrawn at a terminal, one line an epoch elsewhere.",
     .number = &dlsh_view.progress, .min = 1},
    {"digits", "0 to 17", "4", "Digits after the decimal point when a tensor is printed.", .number = &dlsh_print.digits,
     .max = 17},
    {"edgeitems", "1 to 1000", "3", "Elements shown at each end of a dimension of an abridged tensor.",
     .number = &dlsh_print.edgeitems, .min = 1, .max = 1000},
    {"threshold", "0 to 1000000000", "1000", "Tensors with more elements than this are abridged.", .get = get_threshold,
     .set = set_threshold},
    {"linewidth", "0 to 10000", "0", "Width in characters of a printed tensor; 0: that of the terminal, or 80.",
     .number = &dlsh_print.linewidth, .max = 10000},
    {"dtype", "f32|f64|f16|bf16", "f32",
     "The dtype of floating tensors, and of weights of nets, that are made without one.", .get = get_dtype,
     .set = set_dtype},
    {"threads", "1 to 1024", "the number of processors", "Threads that computations use.", .get = get_threads,
     .set = set_threads},
    {"db", "FILE", "experiments.db",
     "The experiment database of lists and of trainers made from now on: a file, or postgresql://USER@HOST/DATABASE; "
     "none: "
     "nothing is recorded.",
     .get = get_db, .set = dlsh_store_choose},
    {"tensorboard", "FOLDER", "none",
     "A folder in which TensorBoard follows the runs that begin from now on, each in one of its own; none: none.",
     .get = get_tensorboard, .set = dlsh_tensorboard_choose},
    {"deterministic", "off|on", "on",
     "on: algorithms of libraries are chosen among those that give the same bits every time.", .min = 1,
     .chosen = dl_deterministic_get, .choose = set_deterministic},
    {"nan", "off|warn|stop", "warn",
     "What becomes of a NaN that an op makes from operands without one: warn says so at the statement, stop makes it "
     "an "
     "error there; `why nan` explains it. On a GPU warn looks at steps of trainers that diverge and at numbers that "
     "are "
     "read, stop at each op, which it waits for.",
     .min = 1, .chosen = get_nan, .choose = set_nan},
    {"record", "off|full", "off",
     "full: every op and every gradient rule is kept with its tensors, for `why` and `dbg`; the memory is freed by "
     "off.",
     .min = 1, .chosen = get_record, .choose = set_record},
    {"rewind", "SIZE", "64MB",
     "Host memory for earlier states of a trainer, to which `rewind` goes back. The next is kept after 300 times the "
     "time "
     "that keeping the last one took. 0: none are kept.",
     .get = get_rewind, .set = set_rewind},
    {"updates", "0 to 1000000000", "100",
     "Every so many steps a trainer, or a loop while its run is open, records `update_ratio`, the norm of the update "
     "over the norm of the parameters, "
     "and `update_ratio/LAYER` of each layer; 0: never.",
     .get = get_updates, .set = set_updates},
    {"undo", "SIZE", "64MB",
     "Memory for what `undo` takes back: former values of variables, and copies of tensors and optimizers that were "
     "changed in place. In scripts 0, unless it is set: nothing is kept.",
     .get = get_undo, .set = set_undo},
    {"capture", "off|on", "on",
     "on: trainers on a GPU run their steps from captured graphs, where nothing prevents it.", .min = 1,
     .chosen = dl_capture_get, .choose = set_capture},
    {"sync", "off|on", "off",
     "on: every operation on a GPU waits for its end, so that an error is reported at the line that caused it.",
     .min = 1, .chosen = dl_device_sync_every_get, .choose = dl_device_sync_every},
    {"timing", "off|on", "off", "Whether the prompt shows how long each entry took.", .number = &dlsh_timing, .min = 1},
    {0}};

const dlsh_setting *dlsh_settings(void) { return settings; }

/* By name; NULL with DL_ERR_NAME naming the nearest. */
static const dlsh_setting *setting_find(const char *name) {
    const char *names[DLSH_COUNT(settings)];
    int n = 0;
    for (const dlsh_setting *row = settings; row->name; row++) {
        if (!strcmp(row->name, name)) return row;
        names[n++] = row->name;
    }
    char hint[96] = "help settings lists them";
    const char *near = dlsh_nearest(name, names, n);
    if (near) snprintf(hint, sizeof hint, "did you mean %s?", near);
    dlsh_fail(DL_ERR_NAME, hint, "no setting is called '%s'", name);
    return NULL;
}

static int is_choice(const dlsh_setting *row) { return row->min > row->max; }

/* The n-th of the choices, or NULL. */
static const char *choice(const dlsh_setting *row, int n, size_t *len) {
    const char *c = row->values;
    for (; n > 0 && c; n--) c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL;
    *len = c ? strcspn(c, "|") : 0;
    return c;
}

dl_status dlsh_setting_get(const dlsh_setting *row, dlsh_buf *out) {
    size_t len;
    if (row->get) return row->get(out);
    if (is_choice(row)) {
        const char *c = choice(row, row->number ? *row->number : row->chosen(), &len);
        dlsh_buf_add(out, c ? c : "", len);
    } else {
        dlsh_buf_printf(out, "%d", *row->number);
    }
    return DL_OK;
}

/* Sets it from text. DL_ERR_VALUE says what is wanted. */
static dl_status setting_set(const dlsh_setting *row, const char *value) {
    if (row->set) return row->set(value);
    long v = 0;
    if (!is_choice(row)) {
        DLSH_TRY(whole_number(value, row->min, row->max, &v));
        *row->number = (int)v;
        return DL_OK;
    }
    size_t len;
    const char *c;
    for (int i = 0; (c = choice(row, i, &len)); i++) {
        if (strlen(value) != len || memcmp(c, value, len)) continue;
        if (!row->number) return row->choose(i);
        *row->number = i;
        return DL_OK;
    }
    return dlsh_fail(DL_ERR_VALUE, NULL, "%s takes one of %s, got \"%s\"", row->name, row->values, value);
}

/* ---------------------------------------------------------------- set */

dl_status dlsh_settings_list(dlsh_sink *sink) {
    dlsh_table t = DLSH_TABLE({"setting", 'l', ""}, {"value", 'l', ""}, {"values", 'l', ""}, {"meaning", 'l', ""});
    dl_status status = DL_OK;
    for (const dlsh_setting *row = settings; !status && row->name; row++) {
        dlsh_buf value = {0};
        status = dlsh_setting_get(row, &value);
        if (status) break;
        status = DLSH_TABLE_ROW(&t, dlsh_string(row->name), dlsh_buf_string(&value), dlsh_string(row->values),
                                dlsh_string(row->doc));
    }
    return dlsh_table_show(sink, &t, status, NULL);
}

static dl_status set_run(const dlsh_args *a) {
    if (!dlsh_given(a, "name")) return dlsh_settings_list(dlsh_arg_sink(a));
    const dlsh_setting *row = setting_find(dlsh_arg_str(a, "name"));
    if (!row) return dl_failed();
    if (dlsh_given(a, "value")) return setting_set(row, dlsh_arg_str(a, "value"));
    DLSH_SCOPED_BUF value = {0};
    DLSH_TRY(dlsh_setting_get(row, &value));
    dlsh_put(dlsh_arg_sink(a), "%s %s\n", row->name, dlsh_buf_text(&value));
    return DL_OK;
}

const dlsh_command settings_commands[] = {
    DLSH_ROW("set", DLSH_REPORT, set_run, "set [NAME [VALUE]]", "Changes a setting, prints one, or lists all.",
             DLSH_PARAMS({"name", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                          .doc = "the setting; without it all are listed", .complete = "setting"},
                         {"value", DLSH_ARG_WORD, .flags = DLSH_OPTIONAL,
                          .doc = "its new value; without it the value is printed", .complete = "value"}),
             .examples = "set digits 8\nset mode json\nset"),
    {0}};
