/* Values from the trees of pickles. The names that a pickle may call are rows of tables; each gives the value that the
 * call would make. What is in no table is refused. */
#pragma once

#include "io/element.h"
#include "io/input.h"
#include "io/pickle/pickle.h"
#include "io/stored.h"

typedef struct dl_pickle_reader dl_pickle_reader;
struct dl_pickle_reader {
    const char *name; /* of the file, for messages */
    int device;       /* of the tensors */
    size_t size;      /* of the pickle in bytes */
    long values;      /* made so far */
    uint64_t bytes;   /* of texts and arrays among them */
    int depth;
    /* Elements that lie outside of the pickle, as `key` names them, as a tensor [numel]; NULL: there are none. */
    dl_tensor *(*storage)(dl_pickle_reader *r, const char *key, dl_element e, long numel);
    void *ctx;
};

/* One call, of a node whose args is a tuple. */
typedef dl_status dl_pickle_make(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out);
typedef struct dl_pickle_row {
    const char *module, *name;
    dl_pickle_make *make;
} dl_pickle_row;
extern const dl_pickle_row dl_pickle_numpy_rows[], dl_pickle_torch_rows[];

/* The value of a node. DL_ERR_FORMAT, DL_ERR_UNSUPPORTED (an object that is not read; too many or too deep values). */
dl_status dl_pickle_value(dl_pickle_reader *r, const dl_pickle_node *x, dl_stored *out);
/* A failure at the byte where x stands. */
dl_status dl_pickle_bad(const dl_pickle_reader *r, const dl_pickle_node *x, const char *what);
/* Argument i of a call, of this kind. */
dl_status dl_pickle_arg(const dl_pickle_reader *r, const dl_pickle_node *x, uint32_t i, dl_pickle_kind kind,
                        const dl_pickle_node **out);
/* A tuple or list of at most 8 numbers of at least 0. */
dl_status dl_pickle_sizes(const dl_pickle_reader *r, const dl_pickle_node *x, int *n, long *sizes);
/* The bytes of a node, which Python also writes as text to be encoded: *bytes is to be freed. */
dl_status dl_pickle_bytes(dl_pickle_reader *r, const dl_pickle_node *x, uint8_t **bytes, size_t *n);

/* A file of one pickle. NULL on failure. */
dl_tensor_file *dl_pickle_from(const dl_input *in, int device);
/* A whole pickle in memory as a handle. NULL on failure. */
dl_tensor_file *dl_pickle_read(dl_pickle_reader *r, const void *p, size_t n, const char *format);
