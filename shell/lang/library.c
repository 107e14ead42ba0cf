/* Loading libraries that few programs need. */
#include "lang/library.h"

#include <dlfcn.h>

#include "lang/session.h"

dl_status dlsh_library_open(const char *library, const char *needs, const char *hint, const char *const *names,
                            void **into) {
    void *so = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!so) return dlsh_fail(DL_ERR_UNSUPPORTED, hint, "%s %s: %s", needs, library, dlerror());
    for (int i = 0; names[i]; i++)
        if (!(into[i] = dlsym(so, names[i])))
            return dlsh_fail(DL_ERR_UNSUPPORTED, hint, "%s a newer %s: it has no %s", needs, library, names[i]);
    return DL_OK;
}
