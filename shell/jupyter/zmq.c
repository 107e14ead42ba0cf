/* Loading libzmq. */
#include "jupyter/zmq.h"

#include <dlfcn.h>
#include <stdio.h>

#define SONAME "libzmq.so.5"

const jup_zmq *jup_zmq_load(void) {
    static jup_zmq zmq;
    static const struct {
        const char *name;
        void **at;
    } wanted[] = {
#define ENTRY(fn) {"zmq_" #fn, (void **)&zmq.fn},
        JUP_ZMQ(ENTRY)
#undef ENTRY
    };
    void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "dlsh: the notebook kernel needs " SONAME " (Debian: apt install libzmq5): %s\n", dlerror());
        return NULL;
    }
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].at = dlsym(library, wanted[i].name))) {
            fprintf(stderr, "dlsh: " SONAME " has no %s; version 4.1 or later is needed\n", wanted[i].name);
            return NULL;
        }
    return &zmq;
}
