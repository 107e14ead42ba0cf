/* The interface of a device plugin: the table of libdlcore's functions that it may call, and its only symbol. Plugin
 * and library share internal headers: both contain a hash of these and of the op table, made at build, which must
 * agree. */
#ifndef DL_CORE_IMPORTS_H
#define DL_CORE_IMPORTS_H

#include "autograd/tape.h"
#include "core/aside.h"
#include "core/device/device.h"
#include "core/mode.h"
#include "ops/avg_pool.h"
#include "ops/conv.h"
#include "ops/formulas.h"
#include "ops/infer.h"
#include "ops/attention.h"
#include "ops/recurrent.h"
#include "ops/compose/loss.h"
#include "ops/rules/matmul.h"
#include "ops/rules/view.h"
#include "optim/steps.h"

typedef struct dl_imports {
#define IMPORT(name) __typeof__(name) *p_##name;
#include "core/device/imports.def"
#undef IMPORT
} dl_imports;

/* dl_plugin(imports, abi): *abi is the hash of the caller. When the plugin's own differs, it puts that into *abi and
 * returns NULL without reading `imports`. Otherwise the result is valid for the life of the process. */
#define DL_PLUGIN_SYMBOL "dl_plugin"
typedef const dl_backend *dl_plugin_fn(const dl_imports *imports, const char **abi);

#endif
