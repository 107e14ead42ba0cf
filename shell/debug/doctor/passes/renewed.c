/* Parameters whose name a program gives to another tensor, so that the optimizer has one that nothing uses. */
#include "debug/doctor/passes/passes.h"

#include <string.h>

#include "debug/doctor/syntax.h"

/* z = z.detach() of a parameter, in a loop. */
typedef struct renewed {
    const char *file, *name;
    int line;
} renewed;

static int has_detach_of(const dlsh_node *n, const char *name) {
    if (!n) return 0;
    if (dlsh_is_method(n, "detach") && dlsh_names(n->kids[0]->kids[0], name)) return 1;
    if (n->kind == DLSH_N_FIELD && !strcmp(n->text, "data") && dlsh_names(n->kids[0], name)) return 1;
    for (int i = 0; i < n->nkids; i++)
        if (has_detach_of(n->kids[i], name)) return 1;
    return 0;
}

static int see_renewed(void *ctx, const char *file, const dlsh_node *n, const dlsh_node *const *within, int depth) {
    renewed *r = ctx;
    int at, loop = 0;
    if (strcmp(file, r->file) != 0 || n->kind != DLSH_N_ASSIGN || n->nkids != 2 || n->kids[0]->kind != DLSH_N_NAME)
        return 0;
    for (int i = 0; i < depth; i++) loop |= within[i]->kind == DLSH_N_FOR || within[i]->kind == DLSH_N_WHILE;
    if (!loop || !has_detach_of(n->kids[1], n->kids[0]->text)) return 0;
    const dlsh_node *made = dlsh_definition_of(file, n->kids[0]->text, n->span.start, &at);
    const dlsh_node *by = made && made->kind == DLSH_N_CALL ? made->kids[0] : NULL;
    if (!by || !by->text || !dlsh_has_word("param|Parameter|requires_grad_", by->text, strlen(by->text))) return 0;
    r->name = n->kids[0]->text, r->line = n->span.line;
    return 1;
}

int dlsh_find_renewed_parameter(dlsh_examination *e, const dl_optimizer *o, long n) {
    const dl_source made = dlsh_optimizer_source(o);
    renewed r = {.file = made.file};
    if (!made.file || !dlsh_each_node(see_renewed, &r)) return 0;
    dlsh_finding *f = dlsh_find_at(e, r.file, r.line, "change the parameter in place: no_grad { z.clamp_(-1, 1) }");
    if (!f) return 1;
    dlsh_cause(f,
               "%s is cut off from its history, and is no longer the parameter that the optimizer has: no gradient "
               "reaches that",
               r.name);
    dlsh_evidence(f,
                  "the line gives the name to a new tensor; %ld parameter%s of %s, made at line %d, never got a "
                  "gradient",
                  n, n > 1 ? "s" : "", dl_optimizer_text(o), made.line);
    return 1;
}
