/* Arguments that calls by name have beside the attributes of a row. */
#include "core/form.h"

#include <string.h>

static const dl_form forms[] = {
#define ROW(row, argument, KIND, dflt, other, doc) {#row, {#argument, DL_A_##KIND, dflt, doc}, DL_FORM_ROW, #other},
#define WHEN(row, argument, other, doc) {#row, {#argument, DL_A_BOOL, "false", doc}, DL_FORM_WHEN, #other},
#define CAST(row) {#row, {"dtype", DL_A_DTYPE, "none", "what the input is cast to first"}, DL_FORM_CAST, NULL},
#define CAST_FLOAT(row)                                                                                                \
    {#row, {"dtype", DL_A_DTYPE, "none", "floating: what the input is cast to first"}, DL_FORM_CAST_FLOAT, NULL},
#define SAME(row, argument, dflt, doc) {#row, {#argument, DL_A_BOOL, dflt, doc}, DL_FORM_SAME, NULL},
#include "ops/forms.def"
};
enum { NFORMS = sizeof forms / sizeof *forms };

const dl_form *dl_form_at(const dl_op *op, int i) {
    for (int k = 0; k < NFORMS; k++)
        if (!strcmp(forms[k].row, op->name) && i-- == 0) return &forms[k];
    return NULL;
}

const dl_form *dl_form_find(const dl_op *op, const char *argument) {
    const dl_form *f;
    for (int i = 0; (f = dl_form_at(op, i)); i++)
        if (!strcmp(f->argument.name, argument)) return f;
    return NULL;
}
