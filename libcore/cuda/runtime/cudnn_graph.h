/* cuDNN's graph interface: the library, and descriptors made of attributes. For the files that call cuDNN, of builds
 * with its headers. */
#pragma once

#include "cuda/runtime/cudnn.h"

/* Functions of the library that a file uses, in the order of a list that ends with NULL; looked up at the first call.
 */
typedef struct dl_dnn_functions {
    const char *const *names;
    void **into;
    bool tried;
    char missing[256];
} dl_dnn_functions;
/* "", or why they cannot be used. */
const char *dl_dnn_open(dl_dnn_functions *f);

#ifdef DL_HAVE_CUDNN
#include <cudnn.h>

/* The table `dnn` of the functions of LIST(X), and `functions` for dl_dnn_open. */
#define DL_DNN_MEMBER(name) __typeof__(name) *name;
#define DL_DNN_NAME(name) #name,
#define DL_DNN_TABLE(LIST)                                                                                             \
    static struct { LIST(DL_DNN_MEMBER) } dnn;                                                                         \
    static const char *const names[] = {LIST(DL_DNN_NAME) NULL};                                                       \
    static dl_dnn_functions functions = {.names = names, .into = (void **)&dnn};

typedef cudnnBackendDescriptor_t dl_dnn_desc;

/* One attribute of a descriptor. */
typedef struct dl_dnn_attr {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    long n;
    const void *p;
} dl_dnn_attr;
#define DL_DNN_INT64(name, n, p)                                                                                       \
    { name, CUDNN_TYPE_INT64, n, p }
#define DL_DNN_DESC(name, p)                                                                                           \
    { name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, p }

/* A finished descriptor, or NULL. */
dl_dnn_desc dl_dnn_build(cudnnBackendDescriptorType_t type, const dl_dnn_attr *a, int n);
#define DL_DNN_BUILD(type, ...)                                                                                        \
    dl_dnn_build(type, (const dl_dnn_attr[]){__VA_ARGS__},                                                             \
                 sizeof((const dl_dnn_attr[]){__VA_ARGS__}) / sizeof(dl_dnn_attr))
void dl_dnn_drop(dl_dnn_desc d);
/* Up to n values of an attribute into p; how many it has, -1: it cannot be read. */
long dl_dnn_get(dl_dnn_desc d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, long n, void *p);
/* How many descriptors of `type` an attribute holds, put into out[]. */
int dl_dnn_get_descs(dl_dnn_desc from, cudnnBackendAttributeName_t name, cudnnBackendDescriptorType_t type,
                     dl_dnn_desc *out, int max);

cudnnDataType_t dl_dnn_type(dl_dtype t);
/* The graph of operations; NULL: cuDNN does not take it. */
dl_dnn_desc dl_dnn_graph(const dl_gpu *g, const dl_dnn_desc *ops, int n);
/* Configurations of engines that a heuristic proposes for a graph; returns how many, at most max. */
int dl_dnn_configs(dl_dnn_desc graph, cudnnBackendHeurMode_t mode, dl_dnn_desc *out, int max);
/* The notes about an engine, as bits. False: they cannot be read. */
bool dl_dnn_notes(dl_dnn_desc engine, unsigned *bits);
/* A plan of a configuration, and the bytes of its workspace. NULL: it does not run here. */
dl_dnn_desc dl_dnn_planned(const dl_gpu *g, dl_dnn_desc config, size_t *workspace);
/* Runs a plan over n operands by their ids; `what` names it. */
dl_status dl_dnn_execute(dl_gpu *g, dl_dnn_desc plan, const int64_t *id, void *const *at, int n, void *workspace,
                         const char *what);
#endif
