/* The rows of the op table as gen_ops reads them: the fields as text, and what follows from the names in them. */
#ifndef GEN_OPS_H
#define GEN_OPS_H

#include <stdbool.h>
#include <stdio.h>

enum { VARIADIC = 1024, MAX_OPS = 512, MAX_TENSORS = 8, MAX_ATTRS = 12 };

typedef enum { OP_KERNEL, OP_VIEW, OP_COMPOSITE } row_kind;
typedef struct {
    const char *name, *kind, *dflt, *doc;
} attr;
typedef struct {
    row_kind how;
    const char *name, *family, *doc, *formula, *infer, *grad, *batch, *flops, *composed, *promote, *amp, *flags,
        *samples;
    const char *save, *mutates, *nondiff_in, *nondiff_out; /* names, with commas between them; NULL: none */
    int in_min, in_max, out, visible;
    bool nodiff;
    const char *in_name[MAX_TENSORS + 1], *out_name[MAX_TENSORS + 1];
    const char *order[MAX_TENSORS + MAX_ATTRS + 1];
    attr attrs[MAX_ATTRS + 1];
    /* worked out by read_rows */
    int nattr, place[MAX_ATTRS]; /* where the value of an attribute stands among those of a call */
    unsigned save_in, save_out, mutated, without_in, without_out; /* bits of inputs and outputs */
} row;

extern row rows[];
extern const int nrows;

/* A section of ops.def: rows from `first` to before `end`. Files made for each section are named after it, so that a
 * new row touches those of its section alone. */
typedef struct {
    const char *name;
    int first, end;
} section;
extern section sections[];
extern const int nsections;

/* Works out what the names in the rows stand for. `reversed` puts the values of attributes in the opposite order.
 * False, and a line on stderr, for a name that its row does not have. */
bool read_rows(bool reversed);

/* DL_A_ROW_ATTR, the name of the attribute's place. */
void attr_name(char *out, size_t size, const row *r, const attr *a);
/* Both return 0. ops/names/SECTION.h: the places of attributes, inputs and outputs of rows and of families, by name. */
int write_names(FILE *f, const section *s);
/* ops/table_gen.h: the rows as initialisers of struct dl_op. */
int write_table(FILE *f);

#endif
