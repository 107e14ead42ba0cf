/* What the language shows, in the forms a notebook can show. */
#include "view/rich.h"

#include "lang/session.h"
#include "view/html.h"
#include "view/plain.h"
#include "view/plot.h"

dl_status dlsh_rich_value(dlsh_bundle *b, dlsh_value v, const dlsh_look *look) {
    DLSH_TRY(dlsh_plain_value(&b->text, v, look));
    if (look->mode != DLSH_MODE_TABLE) return DL_OK;
    /* One number needs no table. JSON beside the HTML would win over it in JupyterLab. */
    if (v.type == DLSH_TENSOR && dl_numel(v.as.tensor) > 1) return dlsh_html_tensor(&b->form[DLSH_HTML], v.as.tensor);
    /* notebooks take only lists and objects for JSON */
    if (v.type == DLSH_LIST || v.type == DLSH_RECORD) return dlsh_json(&b->form[DLSH_JSON], v);
    return DL_OK;
}

dl_status dlsh_rich_table(dlsh_bundle *b, const dlsh_table *t, const dlsh_look *look) {
    DLSH_TRY(dlsh_plain_table(&b->text, t, look));
    return look->mode == DLSH_MODE_TABLE ? dlsh_html_table(&b->form[DLSH_HTML], t) : DL_OK;
}

dl_status dlsh_rich_plot(dlsh_bundle *b, const dlsh_plot *p, const dlsh_look *look) {
    DLSH_TRY(dlsh_plot_draw(p, look, &b->text));
    return p->file ? DL_OK : dlsh_plot_svg(p, &b->form[DLSH_SVG]);
}
