/* Prototypes of the functions that the rows of nn/layers.def name. Naming one in a row declares it: what defines it
 * includes this file, so that the two agree. */
#pragma once

#include "nn/module.h"

#define FORWARD(f) dl_tensor *dl_layer_##f(dl_module *m, dl_tensor *x);
#define OP(f, ...) FORWARD(f)
#define CHECK(f) dl_status dl_layer_##f##_check(dl_module *m);
#define PARTS(f) dl_status dl_layer_##f##_parts(dl_module *m);
#define CALL(f, ...) dl_pack *dl_layer_##f##_call(dl_module *m, dl_pack *in);
#define WEIGHTS(f)                                                                                                     \
    long dl_layer_##f##_input(const dl_module *m, const dl_tensor *x);                                                 \
    long dl_layer_##f##_stored(const dl_module *m, int slot, const dl_tensor *t);                                      \
    dl_status dl_layer_##f##_build(dl_module *m, long size);
#undef OPTIONS
#undef NO_OPTIONS
#define OPTIONS(...)
#define NO_OPTIONS
#include "nn/layers.def"
