/* libdlcore's internal headers, and in the plugin its functions through the table that the plugin is given. */
#pragma once

#include "core/device/imports.h"
#undef T /* macros of gradient rules; T is every template's name of a type */
#undef G0

extern const dl_imports *dl_import_table;
#ifdef DL_PLUGIN
#include "imports_gen.h"
#endif
