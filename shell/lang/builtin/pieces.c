/* Functions that make several tensors of one, or of several: pieces along a dimension, grids, tensors of one shape. */
#include <string.h>

#include "lang/eval/interp.h"
#include "dlcore/index.h"
#include "dlcore/view.h"

#define TENSOR_PARAM                                                                                                   \
    { .name = "input", .want = "tensor", .doc = "the tensor" }
static const dlsh_param dim_params[] = {
    TENSOR_PARAM,
    {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension; negative counts from the end"},
    {0}};

dl_status dlsh_arg_dim(const dlsh_args *a, const char *name, int ndim, long dflt, long *out) {
    long d = dlsh_given(a, name) ? dlsh_arg_int(a, name) : dflt;
    *out = d < 0 ? d + ndim : d;
    if (*out >= 0 && *out < ndim) return DL_OK;
    return dlsh_arg_fail(a, dlsh_given(a, name) ? name : NULL, DL_ERR_INDEX, NULL,
                         "dimension %ld does not exist in a tensor of %d dimensions", d, ndim);
}

/* Appends indices from..to of dimension d. */
static dl_status append_piece(dlsh_value list, dl_tensor *t, long d, long from, long to) {
    return dlsh_append(list, dlsh_tensor(dl_slice(t, d, &from, &to, 1)));
}

static dl_status unbind(dl_tensor *t, long d, dlsh_value *result) {
    DLSH_DROPPED dlsh_value parts = dlsh_new_list(dl_shape(t)[d]);
    for (long i = 0; i < dl_shape(t)[d]; i++) DLSH_TRY(dlsh_append(parts, dlsh_tensor(dl_select(t, d, i))));
    return dlsh_hand_over(&parts, result);
}

static dl_status unbind_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long d;
    DLSH_TRY(dlsh_arg_dim(a, "dim", dl_ndim(t), 0, &d));
    return unbind(t, d, result);
}

dl_status dlsh_nonzero_columns(dl_tensor *t, dlsh_value *result) {
    DLSH_OWNED dl_tensor *at = dl_nonzero(t);
    return at ? unbind(at, 1, result) : dl_failed();
}

static dl_status nonzero_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    if (dlsh_given(a, "as_tuple") && dlsh_arg_bool(a, "as_tuple")) return dlsh_nonzero_columns(t, result);
    return dlsh_give(dlsh_tensor(dl_nonzero(t)), result);
}

/* A place that counts from the end, and one that there is not, is told by the row that joins indices to places. */
static dl_status unravel_index_run(const dlsh_args *a, dlsh_value *result) {
    dl_tensor *at = dlsh_arg_tensor(a, "indices");
    const dlsh_value *shape = dlsh_arg(a, "shape");
    const int n = shape->type == DLSH_LIST ? shape->as.list->n : 1;
    long size[8], all = 1;
    if (n < 1 || n > 8)
        return dlsh_arg_fail(a, "shape", DL_ERR_SHAPE, NULL, "a shape has 1 to 8 sizes here, not %d", n);
    for (int i = 0; i < n; i++) {
        const dlsh_value v = shape->type == DLSH_LIST ? shape->as.list->items[i] : *shape;
        if (v.type != DLSH_INT || v.as.i < 0 || __builtin_mul_overflow(all, v.as.i, &all))
            return dlsh_arg_fail(a, "shape", DL_ERR_SHAPE, NULL, "sizes are whole numbers from 0 on");
        size[i] = v.as.i;
    }
    DLSH_OWNED dl_tensor *place = dl_joint_place(&at, 1, &all, 1),
                         *same = place ? dl_to_dtype(place, dl_dtype_of(at)) : NULL,
                         *parts = same ? dl_unravelled(same, size, n) : NULL;
    return parts ? unbind(parts, dl_ndim(parts) - 1, result) : dl_failed();
}

/* Axis i of a grid, along dimension i of the result, expanded to its shape; with swap the first two are exchanged. */
static dl_tensor *grid_axis(dl_tensor *t, int i, const long *shape, int n, int swap) {
    long own[8];
    int at = swap && i < 2 ? 1 - i : i;
    for (int k = 0; k < n; k++) own[k] = k == at ? shape[k] : 1;
    dl_tensor *line = dl_reshape(t, own, n), *grid = line ? dl_expand(line, shape, n) : NULL;
    dl_unref(line);
    return grid;
}

static dl_status meshgrid_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *first = dlsh_arg_at(a, "tensors", 0);
    const char *indexing = dlsh_arg_str(a, "indexing");
    int list = first && first->type == DLSH_LIST, n = list ? first->as.list->n : dlsh_arg_count(a, "tensors");
    int swap = n > 1 && !strcmp(indexing, "xy");
    dl_tensor *axis[8];
    long shape[8];
    if (strcmp(indexing, "ij") && strcmp(indexing, "xy"))
        return dlsh_arg_fail(a, "indexing", DL_ERR_VALUE, NULL, "indexing is ij or xy, not %s", indexing);
    if (n < 1 || n > 8) return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "a grid has 1 to 8 axes, got %d", n);
    for (int i = 0; i < n; i++) {
        dlsh_value v = list ? first->as.list->items[i] : *dlsh_arg_at(a, "tensors", i);
        if (v.type != DLSH_TENSOR || dl_ndim(v.as.tensor) > 1)
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "axes are tensors of at most 1 dimension");
        axis[i] = v.as.tensor;
        shape[swap && i < 2 ? 1 - i : i] = dl_numel(axis[i]);
    }
    DLSH_DROPPED dlsh_value grids = dlsh_new_list(n);
    for (int i = 0; i < n; i++) DLSH_TRY(dlsh_append(grids, dlsh_tensor(grid_axis(axis[i], i, shape, n, swap))));
    return dlsh_hand_over(&grids, result);
}

static const dlsh_param split_params[] = {TENSOR_PARAM,
                                          {"size", .want = "int", .doc = "rows a piece (split), or pieces (chunk)"},
                                          {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension (0)"},
                                          {0}};

/* Pieces of the sizes in a list. */
static dl_status split_sizes(const dlsh_args *a, dl_tensor *t, long d, const dlsh_list *sizes, dlsh_value *result) {
    long n = dl_shape(t)[d], from = 0;
    for (int i = 0; i < sizes->n && from >= 0; i++) {
        dlsh_value v = sizes->items[i];
        from = v.type == DLSH_INT && v.as.i >= 0 && v.as.i <= n - from ? from + v.as.i : -1;
    }
    if (from != n)
        return dlsh_arg_fail(a, "size", DL_ERR_VALUE, NULL, "sizes in a list must be ints that add up to %ld", n);
    dlsh_value pieces = dlsh_new_list(sizes->n);
    dl_status st = dlsh_failed(pieces) ? dl_failed() : DL_OK;
    for (int i = from = 0; !st && i < sizes->n; i++) {
        long to = from + sizes->items[i].as.i;
        st = append_piece(pieces, t, d, from, to);
        from = to;
    }
    return dlsh_give_filled(st, pieces, result);
}

/* split: pieces of `size`; chunk (data set): `size` pieces. */
static dl_status split_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *given = dlsh_arg(a, "size");
    if (dlsh_arg(a, "input")->type == DLSH_STR) {
        if (given && given->type != DLSH_STR)
            return dlsh_arg_fail(a, "size", DL_ERR_TYPE, NULL, "a string is cut at a string, got %s", dlsh_a(*given));
        return dlsh_split_text(dlsh_arg(a, "input")->as.str, given ? given->as.str : NULL, result);
    }
    if (!given || given->type == DLSH_STR)
        return dlsh_arg_fail(a, "size", DL_ERR_TYPE, "x.split(2) gives pieces of 2 rows, x.split([1, 3]) of 1 and 3",
                             "the size must be an int or a list");
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    long d;
    DLSH_TRY(dlsh_arg_dim(a, "dim", dl_ndim(t), 0, &d));
    if (given->type == DLSH_LIST) return split_sizes(a, t, d, given->as.list, result);
    long size = dlsh_arg_int(a, "size");
    if (size < 1) return dlsh_arg_fail(a, "size", DL_ERR_VALUE, NULL, "size must be at least 1, got %ld", size);
    long n = dl_shape(t)[d], step = dlsh_arg_data(a) ? n / size + (n % size != 0) : size;
    DLSH_DROPPED dlsh_value v = dlsh_new_list(0);
    for (long from = 0; from < n || from == 0; from += step > 0 ? step : 1)
        DLSH_TRY(append_piece(v, t, d, from, from + step));
    return dlsh_hand_over(&v, result);
}

/* ---------------------------------------------------------------- tensor_split and its kin */

/* So many pieces, of which the first ones are longer by one where they cannot be alike. */
static dl_status split_evenly(dlsh_value list, dl_tensor *t, long d, long pieces) {
    const long n = dl_shape(t)[d];
    dl_status st = DL_OK;
    for (long i = 0, from = 0; !st && i < pieces; i++) {
        const long to = from + n / pieces + (i < n % pieces);
        st = append_piece(list, t, d, from, to);
        from = to;
    }
    return st;
}

/* Cut before each of the indices of a list. */
static dl_status split_at(const dlsh_args *a, dlsh_value list, dl_tensor *t, long d, const dlsh_list *at) {
    const long n = dl_shape(t)[d];
    long from = 0;
    for (int i = 0; i <= at->n; i++) {
        dlsh_value v = i < at->n ? at->items[i] : dlsh_int(n);
        if (v.type != DLSH_INT)
            return dlsh_arg_fail(a, "indices_or_sections", DL_ERR_TYPE, NULL, "indices must be ints, got %s",
                                 dlsh_a(v));
        long to = v.as.i < 0 ? v.as.i + n : v.as.i;
        to = to < 0 ? 0 : to > n ? n : to;
        DLSH_TRY(append_piece(list, t, d, from, to < from ? from : to));
        from = to;
    }
    return DL_OK;
}

/* tensor_split; with data h, v or d the dimension is fixed, and pieces must be alike. */
static dl_status tensor_split_run(const dlsh_args *a, dlsh_value *result) {
    const char *way = dlsh_arg_data(a);
    dl_tensor *t = dlsh_arg_tensor(a, "input");
    const dlsh_value *given = dlsh_arg(a, "indices_or_sections");
    const int ndim = dl_ndim(t), least = !way ? 1 : *way == 'h' ? 1 : *way == 'v' ? 2 : 3;
    long d = !way || *way == 'v' ? 0 : *way == 'd' ? 2 : ndim > 1;
    if (ndim < least)
        return dlsh_arg_fail(a, "input", DL_ERR_SHAPE, NULL, "the tensor must have %d dimension%s or more, not %d",
                             least, least == 1 ? "" : "s", ndim);
    if (!way) DLSH_TRY(dlsh_arg_dim(a, "dim", ndim, 0, &d));
    if (given->type == DLSH_INT && given->as.i < 1)
        return dlsh_arg_fail(a, "indices_or_sections", DL_ERR_VALUE, NULL, "there must be 1 piece or more, not %ld",
                             given->as.i);
    if (way && given->type == DLSH_INT && dl_shape(t)[d] % given->as.i)
        return dlsh_arg_fail(a, "indices_or_sections", DL_ERR_SHAPE, "tensor_split makes pieces of unequal sizes",
                             "dimension %ld of size %ld cannot be split into %ld equal pieces", d, dl_shape(t)[d],
                             given->as.i);
    DLSH_DROPPED dlsh_value pieces = dlsh_new_list(0);
    DLSH_TRY(dlsh_failed(pieces)       ? dl_failed()
             : given->type == DLSH_INT ? split_evenly(pieces, t, d, given->as.i)
                                       : split_at(a, pieces, t, d, given->as.list));
    return dlsh_hand_over(&pieces, result);
}

/* ---------------------------------------------------------------- one shape */

static dl_status broadcast_tensors_run(const dlsh_args *a, dlsh_value *result) {
    const dlsh_value *first = dlsh_arg_at(a, "tensors", 0);
    const int list = first && first->type == DLSH_LIST, n = list ? first->as.list->n : dlsh_arg_count(a, "tensors");
    long shape[8];
    int nd = 0;
    for (int i = 0; i < n; i++) {
        dlsh_value v = list ? first->as.list->items[i] : *dlsh_arg_at(a, "tensors", i);
        if (v.type != DLSH_TENSOR)
            return dlsh_arg_fail(a, NULL, DL_ERR_TYPE, NULL, "expected tensors, got %s", dlsh_a(v));
        const dl_tensor *t = v.as.tensor;
        for (int k = nd; k < dl_ndim(t); k++) {
            memmove(shape + 1, shape, sizeof *shape * (size_t)nd);
            shape[0] = 1, nd++;
        }
        for (int k = 0; k < dl_ndim(t); k++) {
            long *own = &shape[nd - dl_ndim(t) + k], size = dl_shape(t)[k];
            if (*own != size && *own != 1 && size != 1)
                return dlsh_arg_fail(a, NULL, DL_ERR_SHAPE, NULL, "sizes %ld and %ld do not broadcast", *own, size);
            if (*own == 1) *own = size;
        }
    }
    DLSH_DROPPED dlsh_value all = dlsh_new_list(n);
    for (int i = 0; i < n; i++) {
        dlsh_value v = list ? first->as.list->items[i] : *dlsh_arg_at(a, "tensors", i);
        DLSH_TRY(dlsh_append(all, dlsh_tensor(dl_expand(v.as.tensor, shape, nd))));
    }
    return dlsh_hand_over(&all, result);
}

static const dlsh_param sections_params[] = {
    TENSOR_PARAM,
    {"indices_or_sections", .want = "int|list", .doc = "how many pieces, or the indices before which it is cut"},
    {0}};

/* The first L of each sequence of a padded batch; lengths may be a tensor. */
static dl_status append_sequence(const dlsh_args *a, dlsh_value list, dlsh_value length, long i) {
    dl_tensor *x = dlsh_arg_tensor(a, "padded_sequences");
    const int batch = dlsh_arg_bool(a, "batch_first") ? 0 : 1;
    const long most = dl_shape(x)[!batch], count = dl_shape(x)[batch];
    long n = length.type == DLSH_INT ? length.as.i : -1;
    if (i == count) return dlsh_arg_fail(a, "lengths", DL_ERR_SHAPE, NULL, "more lengths than sequences, %ld", count);
    if (length.type == DLSH_TENSOR && !dl_ndim(length.as.tensor)) DLSH_TRY(dl_item_i(length.as.tensor, &n));
    if (n < 0 || n > most)
        return dlsh_arg_fail(a, "lengths", DL_ERR_VALUE, NULL, "length %ld of the list is no int from 0 to %ld", i,
                             most);
    DLSH_OWNED dl_tensor *one = dl_select(x, batch, i);
    return one ? append_piece(list, one, 0, 0, n) : dl_failed();
}

static dl_status unpad_run(const dlsh_args *a, dlsh_value *result) {
    const dl_tensor *x = dlsh_arg_tensor(a, "padded_sequences");
    dlsh_iter it;
    if (dl_ndim(x) < 2)
        return dlsh_arg_fail(a, "padded_sequences", DL_ERR_SHAPE, NULL,
                             "padded sequences are [T,N,...], not of %d dimensions", dl_ndim(x));
    DLSH_DROPPED dlsh_value list = dlsh_new_list(0);
    DLSH_TRY(dlsh_iter_begin(dlsh_arg_session(a), *dlsh_arg(a, "lengths"), &it));
    dl_status st = DL_OK;
    long i = 0;
    for (int done = 0; !st && !done; i++) {
        DLSH_DROPPED dlsh_value v = dlsh_void();
        if (!(st = dlsh_iter_next(dlsh_arg_session(a), &it, &v, &done)) && !done) st = append_sequence(a, list, v, i);
    }
    dlsh_iter_end(&it);
    const long have = list.as.list->n, want = dl_shape(x)[!dlsh_arg_bool(a, "batch_first")];
    if (!st && have < want)
        st = dlsh_arg_fail(a, "lengths", DL_ERR_SHAPE, NULL, "%ld lengths for %ld sequences", have, want);
    return st ? st : dlsh_hand_over(&list, result);
}

const dlsh_command dlsh_pieces_rows[] = {
    DLSH_PURE_ROW("unbind", unbind_run, "x.unbind([DIM])", "A list of what stands at each index of a dimension.",
                  .params = dim_params, .examples = "a, b = tensor([[1, 2], [3, 4]]).unbind(1)"),
    DLSH_PURE_ROW(
        "nonzero", nonzero_run, "x.nonzero([as_tuple=true])",
        "Places of the elements that are not zero, a row each; as_tuple: a list of indices for each dimension, "
        "as where(x) gives it.",
        DLSH_PARAMS(TENSOR_PARAM, {"as_tuple", .want = "bool", .flags = DLSH_OPTIONAL,
                                   .doc = "indices of each dimension by themselves"}),
        .examples = "rows, columns = nonzero(tensor([[0, 1], [2, 0]]), as_tuple=true)"),
    DLSH_PURE_ROW(
        "unravel_index", unravel_index_run, "unravel_index(INDICES, SHAPE)",
        "A list with the indices along each dimension of elements of a tensor of this shape, by their places in "
        "its elements laid out as one row, as argmax(x) gives them.",
        DLSH_PARAMS({"indices", .want = "tensor", .doc = "places, from 0 to the number of elements less one"},
                    {"shape", .want = "int|list", .doc = "the shape"}),
        .examples = "x = randn(3, 4)\ni, j = unravel_index(argmax(x), x.shape)"),
    DLSH_PURE_ROW(
        "meshgrid", meshgrid_run, "meshgrid(X, Y, ..., indexing=ij)",
        "A list of grids: of each axis one in which it runs along its own dimension.",
        DLSH_PARAMS(
            {"tensors", .want = "tensor|list", .flags = DLSH_VARIADIC, .doc = "axes, one after another or as a list"}),
        DLSH_OPTIONS({"indexing", DLSH_OPT_WORD, "ij",
                      .doc = "xy: the first axis runs along dimension 1, the second along 0", .complete = "ij|xy"}),
        .examples = "y, x = meshgrid(arange(2), arange(3))"),
    DLSH_PURE_ROW(
        "split", split_run, "x.split(SIZE [, DIM]), s.split([BY])",
        "A list of pieces of SIZE rows, or of the sizes in a list; of a string, those between white space, or "
        "between BY.",
        DLSH_PARAMS({"input", .want = "tensor|string", .flags = DLSH_BYTES, .doc = "a tensor or a string"},
                    {"size", .want = "int|list|string", .flags = DLSH_OPTIONAL | DLSH_BYTES,
                     .doc = "rows a piece; the separator (white space)"},
                    {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension (0)"}),
        .examples = "\"a,b\".split(\",\")"),
    DLSH_PURE_ROW("chunk", split_run, "x.chunk(N [, DIM])", "A list of N pieces.", .params = split_params, .data = "n"),
    DLSH_PURE_ROW("split_with_sizes", split_run, "x.split_with_sizes(SIZES [, DIM])",
                  "A list of pieces of these sizes.",
                  DLSH_PARAMS(TENSOR_PARAM, {"size", .want = "list", .doc = "their sizes"},
                              {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension (0)"})),
    DLSH_PURE_ROW(
        "unpad_sequence", unpad_run, "unpad_sequence(X, LENGTHS [, batch_first=true])",
        "The sequences of a padded batch, a list of tensors [L,...]: what pad_sequence was made of.",
        DLSH_PARAMS({"padded_sequences", .want = "tensor", .doc = "[T,N,...], or [N,T,...] with batch_first"},
                    {"lengths", .want = "list|tensor", .doc = "how long each sequence is"},
                    {"batch_first", .want = "bool", .flags = DLSH_OPTIONAL, .doc = "the batch is dimension 0"}),
        .examples = "a, b = unpad_sequence(pad_sequence([ones(3), ones(2)]), [3, 2])"),
    DLSH_PURE_ROW("tensor_split", tensor_split_run, "tensor_split(X, N or INDICES [, dim=])",
                  "A list of N pieces as equal as can be, or of those between indices.",
                  DLSH_PARAMS(TENSOR_PARAM,
                              {"indices_or_sections", .want = "int|list",
                               .doc = "how many pieces, or the indices before which it is cut"},
                              {"dim", .want = "int", .flags = DLSH_OPTIONAL, .doc = "dimension (0)"}),
                  .examples = "a, b, c = tensor_split(arange(8), 3)\na, b, c = tensor_split(arange(8), [2, 5])"),
    DLSH_PURE_ROW("hsplit", tensor_split_run, "hsplit(X, N or INDICES)",
                  "A list of N equal pieces along dimension 1 (of a vector 0), or of those between indices.",
                  .params = sections_params, .data = "h", .examples = "left, right = hsplit(ones(2, 4), 2)"),
    DLSH_PURE_ROW("vsplit", tensor_split_run, "vsplit(X, N or INDICES)",
                  "A list of N equal pieces along dimension 0, or of those between indices.", .params = sections_params,
                  .data = "v", .examples = "top, bottom = vsplit(ones(4, 2), 2)"),
    DLSH_PURE_ROW("dsplit", tensor_split_run, "dsplit(X, N or INDICES)",
                  "A list of N equal pieces along dimension 2, or of those between indices.", .params = sections_params,
                  .data = "d", .examples = "front, back = dsplit(ones(2, 2, 4), 2)"),
    DLSH_PURE_ROW(
        "broadcast_tensors", broadcast_tensors_run, "broadcast_tensors(X, Y, ...)",
        "A list of the tensors, expanded to the shape that they broadcast to.",
        DLSH_PARAMS({"tensors", .want = "tensor|list", .flags = DLSH_VARIADIC, .doc = "tensors, or a list of them"}),
        .examples = "a, b = broadcast_tensors(ones(3, 1), ones(4))"),
    {0}};
