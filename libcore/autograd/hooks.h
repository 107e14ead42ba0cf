/* Functions of the caller that look at gradients and at results of layers. */
#pragma once

#include "dlcore.h"

#include <stdbool.h>

struct dl_node;

typedef struct dl_hook {
    dl_hook_fn *fn;
    void *ctx;
    void (*release)(void *ctx);
    int out; /* of a node: the output whose gradient it looks at; of a leaf: DL_HOOK_BEHIND, or 0 */
    struct dl_hook *next;
} dl_hook;

enum { DL_HOOK_BEHIND = 1 }; /* it looks at the leaf behind the sum of gradients */

/* Adds one at the end of a list; takes ctx over, also on failure. */
dl_status dl_hooks_add(dl_hook **list, int out, dl_hook_fn *fn, void *ctx, void (*release)(void *ctx));
void dl_hooks_free(dl_hook **list);
/* Removes those of one output. */
void dl_hooks_remove(dl_hook **list, int out);
/* Shows *value, a reference that may be exchanged, to each. */
dl_status dl_hooks_run(const dl_hook *list, dl_tensor **value);
/* The same with the value of each hook's output. */
dl_status dl_hooks_run_outputs(const dl_hook *list, dl_tensor **g);
/* The same with the gradients of a node's outputs; while a hook runs, dl_hook_here knows which. */
dl_status dl_hooks_run_node(struct dl_node *node, unsigned long pass, dl_tensor **g);
/* Is there any in the process? What they do cannot be replayed. */
bool dl_hooks_exist(void);
/* Where the gradient of a result is kept that dl_retain_grad asked for; it may be NULL, and is where nobody asked. */
dl_tensor *const *dl_retained_grad(const dl_tensor *t);
