/* The inside of nets: layer rows and the tree of modules. */
#pragma once

#include "nn/names.h"
#include "autograd/hooks.h"
#include "autograd/layer_mark.h"
#include "core/tensor.h"
#include "nn/options.h"

enum { DL_LAYER_TENSORS = 5, DL_LAYER_INPUTS = 8, DL_PATH_MAX = 512 };

enum dl_layer_flags {
    DL_L_BODY = 1,     /* made of other layers */
    DL_L_SHORTCUT = 2, /* takes a shortcut beside its body */
    DL_L_HIDDEN = 4,   /* not written in nets: made by the library itself */
    DL_L_INDICES = 8,  /* takes integers */
    DL_L_SIZED = 16,   /* the sizes of its tensors follow from its options alone */
};

/* A kind of layer: nn/layers.def. */
typedef struct dl_layer_row {
    dl_kind_row kind; /* first, so that a table of these is a table of kinds */
    unsigned flags;
    /* Names of its tensors, parameters first: "weight", "bias", then `nparams` says how many are trained. */
    const char *tensors[DL_LAYER_TENSORS + 1];
    int nparams;
    int dims;                         /* behind the channels of its examples; 0: any */
    dl_status (*check)(dl_module *m); /* optional: are the options sensible? */
    /* Rows with tensors: the input size that an input x, or the stored tensor in slot `slot`, stands for. < 0 with an
     * error recorded. */
    long (*size_of_input)(const dl_module *m, const dl_tensor *x);
    long (*size_of_stored)(const dl_module *m, int slot, const dl_tensor *t);
    /* Makes the tensors for that size, through dl_module_make. */
    dl_status (*build)(dl_module *m, long size);
    dl_tensor *(*forward)(dl_module *m, dl_tensor *x);
    /* Optional: adds the parts that the layer itself is made of (nn/parts.c). */
    dl_status (*parts)(dl_module *m);
    /* Instead of forward: of several inputs, whose names are `inputs`, several results. A chain hands on the first. */
    dl_pack *(*call)(dl_module *m, dl_pack *in);
    const char *inputs[DL_LAYER_INPUTS + 1];
} dl_layer_row;

/* A function of the caller that a net, a layer or the shape of a parameter is made of; shared by copies. */
struct dl_code {
    int refs, place; /* first, for dl_module_references */
    dl_code_spec is;
};

/* The random numbers that a net's weights start with: fixed when it is defined, shared by its layers. */
typedef struct dl_origin {
    int refs;
    uint64_t seed, next; /* position in the stream of initialisation */
} dl_origin;

typedef struct dl_child {
    char *name;
    dl_module *m;
} dl_child;

typedef struct dl_reparam dl_reparam;

typedef struct dl_net_inputs {
    int n; /* 0: none yet */
    dl_net_input in[DL_NET_INPUTS];
} dl_net_inputs;

struct dl_module {
    int refs, place; /* first, for dl_module_references */
    const dl_layer_row *row;
    uint64_t serial;           /* no other module of the process has or had it */
    char *name;                /* of the net, the nested net or the function; NULL for plain layers */
    char *path;                /* in the first net it was built for: names its tensors */
    dl_source src;             /* where it is defined */
    const dl_layer_mark *mark; /* path and place, for what its ops leave behind; NULL: of the net itself */
    dl_hook *hooks;            /* on its results */
    int keeps;                 /* who wants its last result in training kept, */
    int keeps_peaks;           /* and of these who is content with its largest elements, from each of windows, */
    int keeps_norm;            /* or asks for its norm alone */
    dl_tensor *kept;           /* that; NULL: none */
    bool kept_squares;         /* sums of its squares, f64[n], stand for it */
    bool built, training, has_shortcut; /* the shortcut is the last child */
    bool borrows;                       /* its weight is there only while the layer around it runs (nn/reparam.c) */
    bool source;                        /* stands behind a computed tensor of the layer around it */
    bool computed;                      /* such tensors of its own are there */
    dl_reparam *reparams;               /* how they are computed */
    int dtype, device;                  /* for tensors to be made; device -1: that of the input */
    dl_optval *opt;
    dl_tensor *tensor[DL_LAYER_TENSORS]; /* NULL where the options leave one out */
    int nchild;
    dl_child *child;
    dl_layer_names names; /* of the children */
    dl_code *code;        /* of a net with a forward of its own, a function as a layer, a parameter of a net */
    bool has_code;        /* a part has one */
    /* Its first tensor is tensor `tie_slot` of another layer of the net: by a path that is still to be found, then by a
     * reference. Of the other layer, when it is built later: the tensors that are there already. */
    char *tie;
    dl_module *tie_owner;
    int tie_slot;
    dl_tensor *tied[DL_LAYER_TENSORS];
    dl_origin *origin;    /* of the net it was defined in */
    dl_net_inputs inputs; /* the first that came from outside; of a parameter: its shape, when a file gave it */
};

/* ---- rows (nn/layers.c) */
const dl_layer_row *dl_layer_row_find(const char *name); /* NULL, nothing recorded */
dl_status dl_layer_unknown(const char *name);            /* the error, with the nearest name */

/* ---- making (nn/module.c) */
/* Does it, or a part of it, have a forward of its own? */
bool dl_module_has_forward(dl_module *m);
/* A module of a row, which takes over opt (may be NULL). */
dl_module *dl_module_new(const dl_layer_row *row, dl_optval *opt);
/* Adds a layer under a label, or named after `base` and a number. Takes the reference, also on failure. */
dl_status dl_module_append(dl_module *parent, const char *label, const char *base, dl_module *child);
/* The same at place `at` among the layers, and the layer there removed, whose reference is given up. */
dl_status dl_module_insert(dl_module *parent, int at, const char *name, dl_module *child);
void dl_module_remove(dl_module *parent, int at);
/* Gives a part, and what it consists of, paths and names below `path` (nn/replace.c). */
dl_status dl_module_take_path(dl_module *part, const char *path);
/* The same layers once more, whose weights are still to be made. */
dl_module *dl_module_again(dl_module *m);
/* Gives the layers that have none the origin of a net that is defined now. */
dl_status dl_module_set_origin(dl_module *root);
/* Tells a layer its path. Takes the text over. */
dl_status dl_module_set_path(dl_module *m, char *path);
/* Tells the layers their paths. */
dl_status dl_module_set_paths(dl_module *root);

/* ---- shared parameters (nn/tie.c) */
/* Finds the layers that `tie=` of those below m names among the parts of m. `last`: what is not found is an error. */
dl_status dl_module_find_ties(dl_module *m, bool last);
/* Shares the tensors of a layer that has just been built. */
dl_status dl_module_tie(dl_module *m);

/* Is it a parameter or buffer that a net itself holds? Its tensor has the name of its place. */
static inline bool dl_module_holds_tensor(const dl_module *m) { return m->row->tensors[0] && !*m->row->tensors[0]; }

/* Has a parameter or buffer of a net, not made yet, a shape that does not depend on the input? */
bool dl_param_is_sized(const dl_module *m);

/* ---- for layers */
static inline const dl_optval *dl_m_opt(const dl_module *m, const char *name) {
    return dl_option(&m->row->kind, m->opt, name);
}
static inline long dl_m_int(const dl_module *m, const char *name) { return dl_m_opt(m, name)->u.i; }
static inline double dl_m_float(const dl_module *m, const char *name) { return dl_m_opt(m, name)->u.f; }
/* Is this forward pass one that trains? Not while shapes are being found out. */
bool dl_m_training(const dl_module *m);
/* Are shapes being found out, by a pass that must change nothing? */
bool dl_m_dry(void);
/* The results of a layer as a pack; t[0] NULL: failed. References are taken over. */
dl_pack *dl_layer_results(dl_tensor **t, int n);
/* Makes the tensor of a slot, filled as dl_init_fill does. */
dl_status dl_module_make(dl_module *m, int slot, int ndim, const long *shape, const char *init, double arg);

/* ---- parts that a layer makes itself (nn/parts.c) */
/* Adds a weight; sizes of -1 follow from the input. init as for layers. */
dl_status dl_part_weight(dl_module *m, const char *name, int ndim, const long *shape, const char *init);
/* Adds a layer of that kind. */
dl_status dl_part_layer(dl_module *m, const char *name, const char *kind, const dl_arg *args, int nargs);
/* Makes the weights of m itself that are not there, `size` in the place of sizes that follow from the input. */
dl_status dl_part_weights_make(dl_module *m, long size, int device);
/* The part of that name; NULL, nothing recorded: there is none. */
dl_module *dl_part_of(const dl_module *m, const char *name);
/* Runs a part, which lies at `path` below m (nn/forward.c); a part of several inputs and results is called. */
dl_tensor *dl_part_run(dl_module *m, const char *path, dl_tensor *x);
dl_pack *dl_part_call(dl_module *m, const char *path, dl_tensor *const *in, int n);
/* The weight of that name, borrowed; NULL, nothing recorded: the options leave it out. */
dl_tensor *dl_part_tensor(const dl_module *m, const char *name);
/* DL_ERR_SHAPE unless a stored tensor has the sizes that a weight of a layer must have. */
dl_status dl_part_fits(const dl_module *part, const dl_tensor *t);

/* ---- initialisers (nn/init.c) */
dl_status dl_init_check(const char *text);
/* Fills t, a weight [out, in, ...], by an initialiser, "normal" or "normal(std=0.1)", drawing from the INIT stream.
 * NULL: zeros; "bound": uniform in
 * [-arg, arg); "deviation": normal with deviation arg; "constant": arg. arg is of no use to the others. */
dl_status dl_init_fill(dl_tensor *t, const char *text, double arg);

/* ---- running (nn/forward.c) */
/* Makes the tensors of one layer for input size `size` on `device`. */
dl_status dl_module_build_one(dl_module *m, long size, int device);
/* Runs the first of n layers as one where that is known to be the same (nn/fuse.c). Returns how many, *y being their
 * result or NULL with an error recorded; 0: none. */
enum { DL_FUSED_MAX = 3, DL_KEEPS_PEAKS = 2, DL_KEEPS_NORM = 3 }; /* see dl_module_keep */
/* What is known of results within layers that ran as one; references. */
typedef struct dl_beside {
    bool squares;    /* sums of squares are wanted of the result of the last layer but one, a relu before a pooling */
    dl_tensor *sums; /* those, f64[n]; NULL: they were not at hand */
    dl_tensor *conv; /* what the convolution gave, without its bias; NULL: it is not in memory */
} dl_beside;
int dl_module_fused(dl_child *c, int n, dl_tensor *x, dl_beside *b, dl_tensor **y);
/* Where n layers from c on run as one for x: are the results the largest elements of those of the last but one, from
 * windows that reach all of them? */
bool dl_module_fused_peaks(const dl_child *c, int n, const dl_tensor *x);
/* Is it a relu? And a max pooling behind it? */
bool dl_module_is_relu(const dl_child *c);
bool dl_module_is_relu_pool(const dl_child *c);
/* Called after each layer of a pass that is being watched; path is that within the net. all: its results, out the first
 * of them; NULL: out alone. */
typedef dl_status dl_watch_fn(void *ctx, const char *path, int depth, dl_module *m, dl_tensor *out, const dl_pack *all,
                              uint64_t first_seq);
/* Runs zeros for inputs through a net in evaluation mode. record: gradients are recorded, so that the watcher sees
 * nodes. Leaves random streams and statistics as they are. */
dl_status dl_module_dry_run(dl_module *m, const dl_net_input *in, int n, int device, bool record, dl_watch_fn *watch,
                            void *ctx);
/* What the net makes of such zeros, without gradients. */
dl_pack *dl_module_dry_result(dl_module *m, const dl_net_input *in, int n, int device);
/* The same for given inputs. */
dl_pack *dl_module_dry_call(dl_module *m, dl_pack *in);

/* Computes the tensors of m that are computed from others, unseen by whoever watches a pass (nn/forward.c). */
dl_status dl_module_compute(dl_module *m, bool *entered);

/* Puts the tensors of a file whose names begin with `prefix` into a net (nn/state.c); `path` is used in messages. On
 * failure the net is as before. */
dl_status dl_module_load_file(dl_module *m, const dl_tensor_file *f, const char *path, const char *prefix);
/* The failure that it would have; nothing is changed. */
dl_status dl_module_check_file(dl_module *m, const dl_tensor_file *f, const char *path, const char *prefix);

/* Other tensors or layers are parts of the net that runs now (nn/forward.c). */
void dl_module_parts_changed(void);
/* How many layers of nets have been replaced, or have other parameters, in this process (nn/replace.c). */
unsigned long dl_module_changes(void);
void dl_module_changed(void);

/* ---- visiting (nn/module.c) */
/* The path of a part below m, "" for m itself; NULL: it is none. Text in buf. */
const char *dl_module_path_of(const dl_module *m, const dl_module *part, char buf[DL_PATH_MAX]);
/* Calls fn for m and every module below, containers before contents; path is "" for m. Stops at the first failure. */
typedef dl_status dl_visit_fn(void *ctx, dl_module *m, const char *path);
dl_status dl_module_visit(dl_module *m, dl_visit_fn *fn, void *ctx);

/* The padding of a layer `conv` for each direction, and what the end has `more`; false where it has. */
bool dl_layer_conv_padding(const dl_module *m, long pad[3], long more[3]);
