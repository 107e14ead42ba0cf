/* Steps of optimizers that evaluate the loss themselves: on the batch of the step, with the same random numbers each
 * time, so that the loss is a function of the weights. */
#include "train/trainer.h"

#include "core/random/rng.h"
#include "core/scope.h"
#include "optim/algorithm.h"

typedef struct closure {
    dl_trainer *t;
    bool again; /* the step's own forward and backward pass is the first evaluation */
} closure;

static dl_status evaluate(void *ctx, double *loss) {
    closure *c = ctx;
    dl_trainer *t = c->t;
    if (!c->again) return c->again = true, dl_item_f(t->loss_tensor, loss);
    for (long i = 0; i < t->nparam; i++) dl_set_grad(t->param[i], NULL);
    dl_rng_go(&t->net_rng);
    dl_module_train(t->model, 1);
    dl_pack *result = dl_step_run_net(t, &t->batch);
    if (!result) return dl_failed();
    dl_tensor *made = NULL;
    dl_status st = dl_trainer_loss_of(t, result, &t->batch, &made);
    dl_pack_unref(result);
    DL_OWNED dl_tensor *owned = made;
    DL_TRY(st);
    DL_TRY(dl_backward(made, NULL, 0, 0));
    return dl_item_f(made, loss);
}

bool dl_closure_needed(const dl_trainer *t) { return t->opt->row->algorithm != NULL; }

dl_status dl_closure_check(const dl_trainer_spec *s) {
    const char *name = s->opt->row->kind.name;
    if (!s->opt->row->algorithm) return DL_OK;
    if (s->accumulate > 1)
        return dl_fail_hint(DL_ERR_VALUE, "batch=N takes more samples at once",
                            "%s evaluates the loss of one batch several times a step; accumulate=%ld is not for it",
                            name, s->accumulate);
    if (s->clip_norm > 0 || s->clip_value > 0)
        return dl_fail_hint(DL_ERR_VALUE, "line_search_fn=\"strong_wolfe\" limits its steps",
                            "%s needs the gradients as they are: clip_norm and clip_value are not for it", name);
    return DL_OK;
}

dl_status dl_closure_step(dl_trainer *t) {
    dl_control c;
    closure first = {.t = t};
    if (t->scaled)
        return dl_fail_hint(DL_ERR_UNSUPPORTED, "use precision f32 or bf16", "%s does not train with precision f16",
                            t->opt->row->kind.name);
    DL_TRY(dl_control_read(t, t->control, &c));
    if (c.halt == 0)
        DL_TRY(dl_optimizer_minimize(t->opt, evaluate, &first, NULL));
    else
        t->opt->steps++; /* a step that changes nothing, as the report will say */
    for (long i = 0; i < t->opt->n; i++)
        if (t->opt->param[i].p->grad) t->opt->param[i].steps++;
    return DL_OK;
}
