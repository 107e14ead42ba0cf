/* References that trainers, loaders and data sets hold to functions of the language, for the collector of cycles. */
#include "commands/data/data.h"
#include "commands/nets/nets.h"

static void see_function(const dlsh_callback *cb, const dlsh_visitor *to) {
    if (cb) to->value(cb->fn, to->ctx);
}

static void see_module(void *ctx, dl_module *m) { dlsh_net_values(m, ctx); }
static void see_data(void *ctx, dl_dataset *d) { dlsh_dataset_values(d, ctx); }
static void see_loader(void *ctx, dl_loader *l) { dlsh_loader_values(l, ctx); }

static void collate_values(void *collate, const dlsh_visitor *to) { see_function(dl_collate_context(collate), to); }

static void see_collate(void *ctx, dl_collate *c) {
    const dlsh_visitor *to = ctx;
    to->shared((dlsh_shared){(int *)c, collate_values}, to->ctx);
}

static dl_references references(const dlsh_visitor *to) {
    return (dl_references){(void *)to, see_module, see_data, see_loader, see_collate};
}

static void data_values(void *data, const dlsh_visitor *to) {
    const dl_references r = references(to);
    dl_dataset_references(data, &r);
    see_function(dlsh_dataset_function(data), to);
}

size_t dlsh_dataset_held(void *data) {
    size_t each = sizeof(float);
    for (int i = 0; i < dl_dataset_ndim(data); i++) each *= (size_t)dl_dataset_shape(data)[i];
    return dl_dataset_slow(data) ? 0 : each * (size_t)(dl_dataset_len(data, DL_TRAIN) + dl_dataset_len(data, DL_TEST));
}

void dlsh_dataset_values(void *data, const dlsh_visitor *to) { to->shared((dlsh_shared){data, data_values}, to->ctx); }

static void loader_values(void *loader, const dlsh_visitor *to) {
    const dl_references r = references(to);
    dl_loader_references(loader, &r);
}

void dlsh_loader_values(void *loader, const dlsh_visitor *to) {
    to->shared((dlsh_shared){loader, loader_values}, to->ctx);
}

void dlsh_trainer_values(void *trainer, const dlsh_visitor *to) {
    const dl_references r = references(to);
    dl_schedule *schedule = dl_trainer_schedule(trainer);
    dl_trainer_references(trainer, &r);
    see_function(dl_trainer_loss_context(trainer), to);
    if (schedule) see_function(dl_schedule_context(schedule, dlsh_callback_free), to);
}
