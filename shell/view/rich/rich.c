/* What the language shows, in the forms a notebook can show. */
#include "view/rich/rich.h"

#include "lang/session.h"
#include "view/rich/html.h"
#include "view/plain.h"
#include "view/rich/plot.h"

enum { FIGURES = 1 << 24 }; /* of more elements no figures: they would take seconds */

dl_status dlsh_rich_value(dlsh_bundle *b, dlsh_value v, const dlsh_look *look) {
    DLSH_TRY(dlsh_plain_value(&b->text, v, look));
    if (look->mode != DLSH_MODE_TABLE) return DL_OK;
    dlsh_stats s;
    const dlsh_stats *figures = NULL;
    if (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) > 1) { /* one number needs no table */
        if (dl_numel(v.as.tensor) <= FIGURES) DLSH_TRY(dlsh_stats_of(v.as.tensor, &s));
        if (dl_numel(v.as.tensor) <= FIGURES) figures = &s;
        DLSH_TRY(dlsh_html_tensor(&b->form[DLSH_HTML], v.as.tensor, figures));
    }
    return dlsh_rich_json(&b->form[DLSH_JSON], v, figures);
}

dl_status dlsh_rich_table(dlsh_bundle *b, const dlsh_table *t, const dlsh_look *look) {
    DLSH_TRY(dlsh_plain_table(&b->text, t, look));
    if (look->mode != DLSH_MODE_TABLE) return DL_OK;
    DLSH_TRY(dlsh_html_table(&b->form[DLSH_HTML], t));
    return dlsh_rich_json_table(&b->form[DLSH_JSON], t);
}

dl_status dlsh_rich_plot(dlsh_bundle *b, const dlsh_plot *p, const dlsh_look *look) {
    DLSH_TRY(dlsh_plot_draw(p, look, &b->text));
    return p->file ? DL_OK : dlsh_plot_svg(p, &b->form[DLSH_SVG]);
}
