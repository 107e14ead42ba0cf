/* Findings of the debugger as events of the active run. */
#include "debug/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void dlsh_drop_sign_of_nan(char *text) {
    for (char *p = text; (p = strstr(p, "-nan"));) memmove(p, p + 1, strlen(p));
}

void dlsh_cause(dlsh_finding *f, const char *fmt, ...) {
    if (!f) return;
    DLSH_FORMATTED(fmt, vsnprintf(f->cause, sizeof f->cause, fmt, ap));
    dlsh_drop_sign_of_nan(f->cause);
}

void dlsh_evidence(dlsh_finding *f, const char *fmt, ...) {
    if (!f) return;
    DLSH_FORMATTED(fmt, vsnprintf(f->evidence, sizeof f->evidence, fmt, ap));
    dlsh_drop_sign_of_nan(f->evidence);
}

static dlsh_value known(const char *text) { return text && *text ? dlsh_string(text) : dlsh_none(); }

/* The fields as JSON; those that are not known are null. */
static dl_status put_fields(dlsh_buf *out, const dlsh_finding *f) {
    DLSH_DROPPED dlsh_value v = DLSH_RECORD_OF(
        {"op", known(f->op)}, {"pass", known(f->pass)}, {"layer", known(f->layer)}, {"check", known(f->check)},
        {"cause", known(f->cause)}, {"evidence", known(f->evidence)}, {"remedy", known(f->remedy)},
        {"file", known(f->file)}, {"line", f->line ? dlsh_int(f->line) : dlsh_none()});
    if (dlsh_failed(v)) return dl_failed();
    return dlsh_json(out, v);
}

/* "CAUSE (FILE:LINE)" */
static dl_status keep(dl_run *run, const dlsh_finding *f) {
    DLSH_SCOPED_BUF text = {0}, json = {0};
    dlsh_buf_printf(&text, "%s", f->cause);
    if (f->line) dlsh_buf_printf(&text, " (%s:%d)", f->file ? f->file : "", f->line);
    DLSH_TRY(put_fields(&json, f));
    return dl_run_finding(run, f->by, dlsh_buf_text(&text), dlsh_buf_text(&json));
}

void dlsh_finding_keep(dlsh_session *s, const dlsh_finding *f) {
    dl_run *run = dl_run_active();
    dl_error before;
    if (!run) return;
    dl_status had = dl_error_take(&before);
    if (keep(run, f)) dlsh_warn_failure(s);
    if (had) dl_error_put(&before);
}
