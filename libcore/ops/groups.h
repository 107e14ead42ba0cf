/* Fields that many rows of ops.def share. */
#define UNARY IN(1, 1, "input") FAMILY(UNARY) BATCH(broadcast)
#define UNARY_FLOAT UNARY PROMOTE(FLOAT)
#define UNARY_TEST UNARY INFER(test) NODIFF
#define BINARY IN(2, 2, "input", "other") FAMILY(BINARY) INFER(broadcast) BATCH(broadcast)
#define COMPARE IN(2, 2, "input", "other") FAMILY(BINARY) INFER(compare) NODIFF BATCH(broadcast)
#define REDUCE                                                                                                         \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(REDUCE)                                                                                                     \
    BATCH(reduce)                                                                                                      \
    ATTRS(A(dim, INTS, "none", "dimensions; none: all")                                                                \
              A(keepdim, BOOL, "false", "keep reduced dimensions with size 1"))
#define REDUCE_DIM                                                                                                     \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(REDUCE)                                                                                                     \
    BATCH(reduce) ATTRS(A(dim, INT, "", "dimension") A(keepdim, BOOL, "false", "keep the dimension with size 1"))
#define REDUCE_ONE                                                                                                     \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(REDUCE)                                                                                                     \
    ATTRS(A(dim, INT, "none", "dimension; none: all") A(keepdim, BOOL, "false", "keep the dimension with size 1"))
#define MIDDLE                                                                                                         \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(MIDDLE)                                                                                                     \
    ATTRS(A(dim, INT, "", "dimension") A(keepdim, BOOL, "false", "keep the dimension with size 1"))                    \
    OUT(2, 2, "values", "indices")                                                                                     \
    NONDIFF_OUT(indices) SAMPLES("d[3,4] dim=1; d[5,3] dim=0 keepdim=true; d[2,4,3] dim=-2; d[] dim=0; d[0,3] dim=1")
#define QUANTILES                                                                                                      \
    IN(2, 2, "input", "q")                                                                                             \
    FAMILY(QUANTILES)                                                                                                  \
    ORDER("input", "q", "dim", "keepdim")                                                                              \
    ATTRS(A(dim, INT, "none", "dimension; none: all elements")                                                         \
              A(keepdim, BOOL, "false", "keep the dimension with size 1")                                              \
                  A(interpolation, STR, "linear", "linear, lower, higher, midpoint or nearest"))                       \
    PROMOTE(NONE) NONDIFF_IN(q)
#define AREAS                                                                                                          \
    IN(1, 2, "y", "x")                                                                                                 \
    FAMILY(AREAS)                                                                                                      \
    ORDER("y", "x") ATTRS(A(dx, FLOAT, "1.0", "distance of the places") A(dim, INT, "-1", "dimension")) PROMOTE(FLOAT)
#define BATCHNORM                                                                                                      \
    IN(1, 5, "input", "running_mean", "running_var", "weight", "bias")                                                 \
    FAMILY(BATCHNORM)                                                                                                  \
    ATTRS(A(training, BOOL, "false", "use and update statistics of the batch")                                         \
              A(momentum, FLOAT, "0.1", "weight of the batch in the running statistics")                               \
                  A(eps, FLOAT, "1e-05", "added to the variance"))                                                     \
    OUT(3, 1, "out", "mean", "rstd") NONDIFF_OUT(mean, rstd) NONDIFF_IN(running_mean, running_var)
#define SEQUENCE_ATTRS                                                                                                 \
    A(dropout, FLOAT, "0.0", "probability of zeroing an output of a layer that is not the last")                       \
    A(training, BOOL, "false", "whether there is dropout")                                                             \
    A(bidirectional, BOOL, "false", "a second layer beside each runs from the end")                                    \
    A(batch_first, BOOL, "false", "input and out are [N,T,...]")
#define FILLED IN(0, 0) FAMILY(FILL) ATTRS(A(size, INTS, "", "sizes") CREATE_ATTRS)
#define INNER FLAGS(DL_F_INTERNAL | DL_F_WIDE) PROMOTE(FLOAT)
#define DENSITY(of, formula) DOC("Logarithm of the density of the " of ".", formula) INNER
#define ENTROPY(of) DOC("Entropy of the " of ".", "-E(ln(density))") INNER
#define SHARE(of, formula) DOC("Probability of a number up to x of the " of ".", formula) INNER
#define QUANTILE(of, formula) DOC("The number of the " of " up to which there is a share v.", formula) INNER
#define DIVERGENCE(of)                                                                                                 \
    DOC("Kullback-Leibler divergence of two distributions: " of ".", "E(ln(p) - ln(q))")                               \
    INNER
#define DRAW_SIZES A(shape, INTS, "[]", "sizes in front of those of the parameters")
#define DRAWS(of)                                                                                                      \
    DOC("Draws from the " of ".", "x")                                                                                 \
    FAMILY(DRAW)                                                                                                       \
    ATTRS(DRAW_SIZES)                                                                                                  \
    FLAGS(DL_F_INTERNAL | DL_F_RNG) PROMOTE(FLOAT)
#define CLASSES                                                                                                        \
    IN(2, 2, "y_true", "y_pred")                                                                                       \
    FAMILY(CLASSES)                                                                                                    \
    ATTRS(A(average, STR, "binary",                                                                                    \
            "binary: of class 1; none: of each class; micro: of all; macro, weighted: mean over those that occur"))    \
    FLAGS(DL_F_METRIC)                                                                                                 \
    PROMOTE(NONE)                                                                                                      \
    NODIFF SAMPLES("n:2[20] n:2[20]; n:4[20] n:4[20] average=macro; n:4[20] n:4[20] average=micro; "                   \
                   "n:4[20] n:4[20] average=weighted; n:4[20] n:4[20] average=none; n:9[6] n:9[6] average=macro")
#define POLYNOMIAL                                                                                                     \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(POLYNOMIAL)                                                                                                 \
    INFER(polynomial)                                                                                                  \
    SAVE(input)                                                                                                        \
    BATCH(broadcast)                                                                                                   \
    ATTRS(A(n, INT, "", "degree, 0 or more"))                                                                          \
    PROMOTE(FLOAT) SAMPLES("f[3,4] n=3; f[4] n=0; f[4] n=1; q[3] n=6; f[0] n=2")
#define SPREAD                                                                                                         \
    IN(1, 1, "input")                                                                                                  \
    ATTRS(A(dim, INTS, "none", "dimensions; none: all") A(correction, INT, "1", "subtracted from n")                   \
              A(keepdim, BOOL, "false", "keep reduced dimensions with size 1"))                                        \
    ORDER("input", "dim") PROMOTE(FLOAT)
#define ADDED                                                                                                          \
    FAMILY(ADDED)                                                                                                      \
    ATTRS(A(beta, NUM, "1", "factor of the input") A(alpha, NUM, "1", "factor of the product"))                        \
    PROMOTE(NONE)
#define CORNER                                                                                                         \
    IN(0, 0)                                                                                                           \
    FAMILY(CORNER)                                                                                                     \
    ATTRS(A(row, INT, "", "rows") A(col, INT, "", "columns")                                                           \
              A(offset, INT, "0", "above (positive) or below the main one") CREATE_ATTRS)                              \
    FLAGS(DL_F_CREATE) NODIFF
#define TRIANGLE                                                                                                       \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(TRIANGLE)                                                                                                   \
    ATTRS(A(diagonal, INT, "0", "above (positive) or below the main one")) INFER(triangle) BATCH(trailing)
#define WINDOW_ATTRS                                                                                                   \
    A(window_length, INT, "", "how many numbers")                                                                      \
    A(periodic, BOOL, "true", "the next number would be the first; false: both ends are alike") CREATE_ATTRS
#define SYMMETRIC_WINDOW_ATTRS                                                                                         \
    A(M, INT, "", "how many numbers")                                                                                  \
    A(sym, BOOL, "true", "both ends are alike; false: the next number would be the first") CREATE_ATTRS
#define SYMMETRIC_WINDOW IN(0, 0) FAMILY(SYMWINDOW) ORDER("M") ATTRS(SYMMETRIC_WINDOW_ATTRS) FLAGS(DL_F_CREATE) NODIFF
#define WINDOW IN(0, 0) FAMILY(WINDOW) ATTRS(WINDOW_ATTRS) FLAGS(DL_F_CREATE) NODIFF
#define CREATE_ATTRS                                                                                                   \
    A(dtype, DTYPE, "none", "dtype of the result")                                                                     \
    A(device, DEVICE, "none", "device of the result; none: the current one")
#define CONV_ATTR_ROWS                                                                                                 \
    A(stride, INTS, "1", "step between windows, for both or each of height and width")                                 \
    A(padding, PADS, "0", "zeros around the image; valid: 0; same: what keeps its size, with a stride of 1")           \
    A(dilation, INTS, "1", "step between elements of the kernel")                                                      \
    A(groups, INT, "1", "groups of channels; each output group uses only its own input group")
#define CONV_ATTRS ATTRS(CONV_ATTR_ROWS)
#define POOL_ATTRS                                                                                                     \
    FAMILY(MAXPOOL)                                                                                                    \
    ATTRS(A(kernel_size, INTS, "", "window")                                                                           \
              A(stride, INTS, "none", "step between windows; none: the size of the window")                            \
                  A(padding, INTS, "0", "padding with minus infinity around the image")                                \
                      A(dilation, INTS, "1", "step between elements of the kernel")                                    \
                          A(ceil_mode, BOOL, "false", "also use windows that reach over the edge"))
#define AVG_POOL_ATTR_ROWS                                                                                             \
    A(kernel_size, INTS, "", "window")                                                                                 \
    A(stride, INTS, "none", "step between windows; none: the size of the window")                                      \
    A(padding, INTS, "0", "zeros around the image")                                                                    \
    A(ceil_mode, BOOL, "false", "also use windows that reach over the edge")                                           \
    A(count_include_pad, BOOL, "true", "count padding among the pixels of a window")
#define FOLD_ATTR_ROWS                                                                                                 \
    A(kernel_size, INTS, "", "window")                                                                                 \
    A(dilation, INTS, "1", "step between elements of a window")                                                        \
    A(padding, INTS, "0", "zeros around the image")                                                                    \
    A(stride, INTS, "1", "step between windows")
#define TRANSPOSED_ATTRS                                                                                               \
    ATTRS(A(stride, INTS, "1", "step between copies of the kernel")                                                    \
              A(padding, INTS, "0", "elements cut off on every side")                                                  \
                  A(output_padding, INTS, "0", "elements added at the end, fewer than stride")                         \
                      A(groups, INT, "1", "groups of channels; each output group uses only its own input group")       \
                          A(dilation, INTS, "1", "step between elements of the kernel"))
#define UNPOOL_ATTRS                                                                                                   \
    FAMILY(UNPOOL)                                                                                                     \
    NONDIFF_IN(indices)                                                                                                \
    PROMOTE(NONE)                                                                                                      \
    ATTRS(A(kernel_size, INTS, "", "window of the pooling")                                                            \
              A(stride, INTS, "none", "step between its windows; none: the size of the window")                        \
                  A(padding, INTS, "0", "its padding")                                                                 \
                      A(output_size, INTS, "none", "sizes of the result; none: the least that was pooled to this"))
#define EIGENPAIRS_ATTRS                                                                                               \
    ATTRS(A(k, INT, "none", "how many; none: the width of X, or 1")                                                    \
              A(n, INT, "none", "how many vectors are iterated, where X is not given; none: k")                        \
                  A(niter, INT, "none", "steps at most, negative: no limit; none: 1000")                               \
                      A(tol, FLOAT, "none", "where a residual counts as 0, relative; none: root of the precision")     \
                          A(largest, BOOL, "true", "false: the smallest")                                              \
                              A(method, STR, "none", "ortho or basic, PyTorch's two ways; one is used for both"))
#define LP_POOL_ATTRS                                                                                                  \
    PROMOTE(FLOAT)                                                                                                     \
    ATTRS(A(norm_type, FLOAT, "", "the norm, p") A(kernel_size, INTS, "", "window")                                    \
              A(stride, INTS, "none", "step between windows; none: the size of the window")                            \
                  A(ceil_mode, BOOL, "false", "also use windows that reach over the edge"))
#define DROP_ATTRS                                                                                                     \
    ATTRS(A(p, FLOAT, "0.5", "probability that a channel becomes zero")                                                \
              A(training, BOOL, "true", "false: the identity"))
#define FFT_NORM                                                                                                       \
    A(norm, STR, "backward",                                                                                           \
      "which way is divided by the number of elements: backward or forward; ortho: both by its root")
#define FFT_ONE                                                                                                        \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(FFT_ONE)                                                                                                    \
    ATTRS(A(n, INT, "none", "elements: the input is cut, or gets zeros; none: as they are")                            \
              A(dim, INT, "-1", "dimension") FFT_NORM)                                                                 \
    PROMOTE(FLOAT)
#define FFT_MANY(dims)                                                                                                 \
    IN(1, 1, "input")                                                                                                  \
    FAMILY(FFT_MANY)                                                                                                   \
    ATTRS(A(s, INTS, "none", "elements of each dimension: the input is cut, or gets zeros; -1, none: as they are")     \
              A(dim, INTS, dims, "dimensions; none: all, or the last ones, as many as sizes") FFT_NORM)                \
    PROMOTE(FLOAT)
#define FREQUENCIES                                                                                                    \
    IN(0, 0)                                                                                                           \
    FAMILY(FREQUENCIES)                                                                                                \
    ATTRS(A(n, INT, "", "elements of the transform") A(d, FLOAT, "1.0", "distance of two samples") CREATE_ATTRS)       \
    FLAGS(DL_F_CREATE) NODIFF
#define FFT_SHIFT                                                                                                      \
    IN(1, 1, "input") FAMILY(FFT_SHIFT) ATTRS(A(dim, INTS, "none", "dimensions; none: all")) FLAGS(DL_F_COMPLEX)
