/* Which tensor of a file belongs to which of a net, where names differ: by order and shape. */
#define _GNU_SOURCE /* strverscmp */
#include <stdlib.h>
#include <string.h>

#include "nn/module.h"

/* A tensor: of a layer, called `leaf` there. */
typedef struct item {
    const char *path, *leaf;
    const dl_tensor *t;
    long number; /* in the file or the net */
    bool used;
} item;

/* The tensors of one side, those of a layer together. */
typedef struct side {
    item *item;
    long n;
} side;

static const char *leaf_of(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

static bool same_layer(const item *a, const item *b) {
    long n = a->leaf - a->path;
    return n == b->leaf - b->path && !memcmp(a->path, b->path, (size_t)n);
}

/* Tensors i up to the result are of one layer. */
static long layer_end(const side *s, long i) {
    long end = i + 1;
    while (end < s->n && same_layer(&s->item[i], &s->item[end])) end++;
    return end;
}

static int by_name(const void *a, const void *b) {
    return strverscmp(((const item *)a)->path, ((const item *)b)->path);
}

/* Puts tensors of a layer behind its first one; the order of layers stays. */
static void gather(side *s) {
    for (long i = 0; i < s->n; i++) {
        long end = i + 1;
        for (long k = i + 1; k < s->n; k++) {
            if (!same_layer(&s->item[i], &s->item[k])) continue;
            item moved = s->item[k];
            memmove(&s->item[end + 1], &s->item[end], (size_t)(k - end) * sizeof moved);
            s->item[end++] = moved;
        }
        i = end - 1;
    }
}

static dl_status take_file(const dl_tensor_file *f, side *s) {
    long n = dl_tensor_file_count(f);
    s->item = calloc((size_t)n + 1, sizeof *s->item);
    if (!s->item) return dl_fail(DL_ERR_MEMORY, "no memory for the names of a file");
    bool sorted = true;
    for (long i = 0; i < n; i++) {
        const char *path = dl_tensor_file_name(f, i), *leaf = leaf_of(path);
        if (!strcmp(leaf, "num_batches_tracked")) continue;
        sorted &= !s->n || strcmp(s->item[s->n - 1].path, path) < 0;
        s->item[s->n++] = (item){path, leaf, dl_tensor_file_at(f, i), i, false};
    }
    if (sorted) qsort(s->item, (size_t)s->n, sizeof *s->item, by_name); /* block 10 comes after block 9 */
    gather(s);
    return DL_OK;
}

static dl_status take_net(const dl_module_list *l, side *s) {
    s->item = calloc((size_t)l->n + 1, sizeof *s->item);
    if (!s->item) return dl_fail(DL_ERR_MEMORY, "no memory for the names of a net");
    for (long i = 0; i < l->n; i++)
        s->item[s->n++] = (item){l->entries[i].path, leaf_of(l->entries[i].path), l->entries[i].tensor, i, false};
    gather(s);
    return DL_OK;
}

/* ---------------------------------------------------------------- pairing */

static bool turned(const dl_tensor *a, const dl_tensor *b) {
    return a->ndim == 2 && b->ndim == 2 && a->shape[0] == b->shape[1] && a->shape[1] == b->shape[0];
}

static item *find_leaf(const side *s, long from, long to, const char *leaf) {
    for (long i = from; i < to; i++)
        if (!strcmp(s->item[i].leaf, leaf)) return &s->item[i];
    return NULL;
}

/* Have two layers the same tensors? *turns: the weight of one is that of the other, transposed. */
static bool alike(const side *net, long a, long a_end, const side *file, long b, long b_end, bool *turns) {
    *turns = false;
    if (a_end - a != b_end - b) return false;
    for (long i = a; i < a_end; i++) {
        const item *other = find_leaf(file, b, b_end, net->item[i].leaf);
        if (!other || other->used) return false;
        if (dl_shape_eq(net->item[i].t, other->t)) continue;
        if (strcmp(other->leaf, "weight") || !turned(net->item[i].t, other->t)) return false;
        *turns = true;
    }
    return true;
}

/* Pairs layers; returns how many more of them are transposed than are not, squares aside. */
static long pair_layers(side *net, side *file, dl_match *match) {
    long more = 0;
    for (long i = 0, end; i < net->n; i = end) {
        end = layer_end(net, i);
        for (long k = 0, k_end; k < file->n; k = k_end) {
            bool turns;
            k_end = layer_end(file, k);
            if (!alike(net, i, end, file, k, k_end, &turns)) continue;
            for (long a = i; a < end; a++) {
                item *mine = &net->item[a], *other = find_leaf(file, k, k_end, mine->leaf);
                bool matrix = mine->t->ndim == 2 && end - i == 2 && find_leaf(net, i, end, "bias");
                match[mine->number] = (dl_match){other->number, turns && !dl_shape_eq(mine->t, other->t)};
                mine->used = other->used = true;
                if (matrix && mine->t->shape[0] != mine->t->shape[1]) more += turns ? 1 : -1;
            }
            break;
        }
    }
    return more;
}

/* What is left, tensor by tensor. */
static void pair_tensors(side *net, side *file, dl_match *match) {
    for (long i = 0; i < net->n; i++)
        for (long k = 0; k < file->n && !net->item[i].used; k++) {
            if (file->item[k].used || !dl_shape_eq(net->item[i].t, file->item[k].t)) continue;
            match[net->item[i].number] = (dl_match){file->item[k].number, 0};
            net->item[i].used = file->item[k].used = true;
        }
}

/* In a file of transposed matrices square ones are, too: matrices of layers with a bias, as GPT-2's are. */
static void turn_squares(const side *net, dl_match *match) {
    for (long i = 0, end; i < net->n; i = end) {
        end = layer_end(net, i);
        const item *w = find_leaf(net, i, end, "weight");
        if (end - i == 2 && w && w->t->ndim == 2 && w->t->shape[0] == w->t->shape[1] &&
            find_leaf(net, i, end, "bias") && match[w->number].at >= 0)
            match[w->number].transposed = 1;
    }
}

dl_status dl_module_match(dl_module *m, const dl_tensor_file *f, dl_match *match) {
    if (!m || !f) return dl_fail_null(!m ? "the net" : "the file");
    DL_TRY(dl_module_check_built(m));
    dl_module_list *l = dl_module_tensors(m, 3);
    if (!l) return dl_failed();
    side net = {0}, file = {0};
    for (long i = 0; i < l->n; i++) match[i] = (dl_match){-1, 0};
    dl_status st = take_net(l, &net);
    if (st == DL_OK) st = take_file(f, &file);
    if (st == DL_OK && pair_layers(&net, &file, match) > 0) turn_squares(&net, match);
    if (st == DL_OK) pair_tensors(&net, &file, match);
    free(net.item);
    free(file.item);
    dl_module_list_free(l);
    return st;
}
