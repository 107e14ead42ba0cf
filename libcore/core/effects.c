/* What ops do that captured work would not do again. */
#include "core/effects.h"

static _Thread_local dl_effects *watch;

void dl_effects_watch(dl_effects *e) {
    *e = (dl_effects){.before = dl_storage_serial()};
    watch = e;
}

void dl_effects_end(dl_effects *e) {
    if (watch == e) watch = NULL;
}

void dl_effects_free(dl_effects *e) { dl_addresses_free(&e->writes); }

void dl_effects_write(const dl_storage *s) {
    if (watch && s->serial < watch->before && dl_addresses_add(&watch->writes, s) < 0) watch->incomplete = true;
}

void dl_effects_draw(int device) {
    if (watch && device == 0) watch->host_draws = true;
}
