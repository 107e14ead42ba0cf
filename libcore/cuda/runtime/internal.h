/* libdlcore's internal headers, and in the plugin its functions through the table that the plugin is given. */
#ifndef DL_CUDA_INTERNAL_H
#define DL_CUDA_INTERNAL_H

#include "core/host.h"
#undef T /* macros of gradient rules; T is every template's name of a type */
#undef G0

extern const dl_host *dl_host_table;
#ifdef DL_PLUGIN
#include "host_gen.h"
#endif

#endif
