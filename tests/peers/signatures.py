#!/usr/bin/python3
"""The arguments of ops beside PyTorch's: order by position, names, defaults; and the same calls in both languages.

    tests/peers/signatures.py LIBDLCORE

Reads docs/ops.md, which is made from the op table, PyTorch's schemas and the signatures of torch.nn.functional. Differences
that are meant stand in MEANT with their reason. Exit 77 (skipped) without PyTorch."""
import inspect
import json
import pathlib
import re
import subprocess
import sys

try:
    import torch
except ImportError as e:
    print(f"skipped: {e}; Debian's python3-torch has it")
    sys.exit(77)
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
GONE = {"size_average", "_stacklevel", "__torch_function__"}  # deprecated or private in PyTorch: no place here
METRICS = ("accuracy_score", "confusion_matrix", "precision_score", "recall_score", "f1_score", "jaccard_score", "top_k_accuracy_score",
           "roc_auc_score", "average_precision_score", "r2_score", "roc_curve", "precision_recall_curve", "auc", "log_loss",
           "brier_score_loss", "balanced_accuracy_score", "matthews_corrcoef", "cohen_kappa_score", "fbeta_score",
           "mean_squared_error", "root_mean_squared_error", "mean_absolute_error", "mean_absolute_percentage_error",
           "median_absolute_error", "max_error", "explained_variance_score")

# Ops that PyTorch has under another name.
NAMES = {"logsigmoid": "log_sigmoid"}

# (op, argument): why it differs. "*" for the argument: the op as a whole.
MEANT = {
    ("logsumexp", "dim"): "none reduces all, as in the other reductions",
    ("max_dim", "*"): "PyTorch's max with a dimension, under a name of its own",
    ("min_dim", "*"): "PyTorch's min with a dimension, under a name of its own",
    ("median_dim", "*"): "PyTorch's median with a dimension, under a name of its own",
    ("nanmedian_dim", "*"): "PyTorch's nanmedian with a dimension, under a name of its own",
    ("windows", "*"): "PyTorch's method unfold; its function unfold is of images",
    ("stft", "return_complex"): "PyTorch wants it given, and true is what it will be",
    ("huber", "*"): "the kernel of PyTorch's huber_loss, of one operand",
    ("dice_loss", "*"): "none of PyTorch's; segmentation libraries have it",
    ("sigmoid_focal_loss", "*"): "torchvision's",
    ("scaled_dot_product_attention", "*"): "newer than the oldest PyTorch that is compared with",
    **{(name, "*"): "none of PyTorch's" for name in ("rotary_embedding", "positional_encoding")},
    **{(name, "*"): "none of PyTorch's, whose sparse tensors are tensors" for name in ("spmm", "sddmm", "csr_transpose")},
    ("einsum", "operands"): "a list or one by one, which no signature says",
    ("conv_transpose2d", "output_size"): "an argument of PyTorch's layer",
    ("to", "*"): "x.to(...) is a function of the shell; the row is its dtype part",
    ("slice", "*"): "no function in PyTorch: x[start:end:step]",
    **{(name, "*"): "torch.signal.windows', newer than the oldest PyTorch that is compared with"
       for name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
                    "hann", "kaiser", "nuttall")},
    **{(f"{name}_loss", "weight"): "newer than the oldest PyTorch that is compared with" for name in ("mse", "l1", "huber")},
    ("rms_norm", "*"): "newer than the oldest PyTorch that is compared with",
    **{(name, "*"): "newer than the oldest PyTorch that is compared with"
       for name in ("linear_cross_entropy", "matrix_sqrth", "nonzero_static")},
    ("lp_pool3d", "*"): "newer than the oldest PyTorch that is compared with",
    ("pad_sequence", "padding_side"): "newer than the oldest PyTorch that is compared with",
    ("one_hot", "input"): "the tensor is called input everywhere",
    ("pad", "value"): "0 whether or not it is written out",
    ("batch_norm", "running_mean"): "may be left out in training, where PyTorch asks for None",
    ("batch_norm", "running_var"): "may be left out in training, where PyTorch asks for None",
    ("arange", "end"): "see start",
    ("randint", "*"): "low must be given; randint(high, size) is refused",
    ("index_select", "dim"): "0 when it is left out, where PyTorch asks for it",
    ("index_add", "dim"): "0 when it is left out, where PyTorch asks for it",
    ("gelu", "approximate"): "the word none in both, which DEFAULTS takes for None",
    ("norm", "p"): "2 by default, which PyTorch writes 'fro'",
    ("nan_to_num", "nan"): "0, which PyTorch's None stands for",
    ("scatter", "reduce"): "by position, too",
    ("solve_triangular", "upper"): "by position, too",
    ("cross", "dim"): "-1, as in torch.linalg",
    ("searchsorted", "values"): "PyTorch's schema calls it self",
    ("cholesky_solve", "*"): "the arguments of torch.linalg.solve_triangular's kind: B and the triangle L",
    ("cholesky_inverse", "L"): "the triangle, as in cholesky_solve",
    ("perplexity", "*"): "none of PyTorch's",
    ("contrastive_loss", "*"): "none of PyTorch's",
    **{(name, arg): "by position, too" for name, args in (
        ("cov", ("correction", "fweights", "aweights")), ("vecdot", ("dim",)), ("lu_solve", ("left", "adjoint")))
       for arg in args},
    **{(name, "input"): "PyTorch's schema calls it x, its documentation input"
       for name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
                    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0")},
    ("tensorsolve", "B"): "PyTorch's schema calls it other",
    **{("ormqr", name): "PyTorch's schema calls them input2 and input3" for name in ("tau", "other")},
    **{(name, "*"): "a function of Python in PyTorch, without a schema" 
       for name in ("svd_lowrank", "pca_lowrank", "lobpcg")},
    **{(f"{kind}max_pool{n}d", "return_indices"): "an argument of torch.nn.functional's, whose signature is not to be had"
       for kind in ("", "adaptive_") for n in (1, 2, 3)},
    **{(f"fractional_max_pool{n}d", "*"): "the arguments of torch.nn.functional's, whose signature is not to be had"
       for n in (2, 3)},
    ("tensordot", "dims"): "PyTorch's schema has them as two lists",
    **{(f"{kind}_polynomial_{letter}", "input"): "PyTorch's schema calls it x, its documentation input"
       for kind, letters in (("chebyshev", "tuvw"), ("shifted_chebyshev", "tuvw"), ("laguerre", "l"), ("legendre", "p"),
                             ("hermite", ("h", "he"))) for letter in letters},
    ("softmin", "dim"): "-1 when it is left out, where PyTorch guesses it and warns",
    **{(name, "*"): "scikit-learn's" for name in METRICS},
    **{(name, "*"): "states and lengths are arguments of their own, where PyTorch takes packed sequences"
       for name in ("lstm", "gru", "rnn", "lstm_cell")},
}

DEFAULTS = {"none": None, "true": True, "false": False, "inf": float("inf")}


def value(text):
    if text in DEFAULTS:
        return DEFAULTS[text]
    if text.startswith("["):
        return plain(json.loads(text))
    try:
        return float(text)
    except ValueError:
        return text


def ours():
    """name -> [(argument, default or Ellipsis, by position)]"""
    out = {}
    for name, text in re.findall(r"^## .*\n\n`(\w+)\((.*)\)`$", (ROOT / "docs/ops.md").read_text(), re.M):
        args, positional = [], True
        for part in filter(None, re.split(r", (?![^\[]*\])", text)):
            if part == "*":
                positional = False
                continue
            arg, eq, default = part.partition("=")
            args.append((arg, value(default) if eq else ..., positional))
        out[name] = args
    return out


def plain(v):
    """PyTorch's defaults as ours are written: a list of one number is that number, enums are their names."""
    if isinstance(v, (list, tuple)):
        return plain(v[0]) if len(set(v)) == 1 else None if not v else tuple(v)
    if isinstance(v, bool) or v is None or isinstance(v, str):
        return v
    return float(v) if isinstance(v, (int, float)) else v


def theirs(name):
    """[[(argument, default or Ellipsis, by position)]], one list an overload."""
    found = []
    function = getattr(F, name, None)
    if function is not None:
        try:
            found.append([(p.name, ... if p.default is p.empty else plain(p.default), p.kind != p.KEYWORD_ONLY)
                          for p in inspect.signature(function).parameters.values()])
        except ValueError:
            pass
        if found and all(p[0] in ("args", "kwargs") for p in found[-1]):
            found = []
    get = torch._C._jit_get_schemas_for_operator
    matrices = get(f"aten::linalg_{name}")
    rooms = [s for room in ("", "special_", "fft_") for s in get(f"aten::{room}{name}")]
    for names, schema in [({"self": "input"}, s) for s in rooms + matrices] + [
            ({"self": "A", "b": "B"}, s) for s in matrices]:
        if any(a.name == "out" for a in schema.arguments) or "Dimname" in str(schema):
            continue
        found.append([(names.get(a.name, a.name), plain(a.default_value) if a.has_default_value() else ...,
                       not a.kwarg_only) for a in schema.arguments])
    return [without_the_gone(signature) for signature in found]


def without_the_gone(signature):
    gone = GONE | {"reduce"} if any(name == "size_average" for name, _, _ in signature) else GONE
    return [argument for argument in signature if argument[0] not in gone]


def complaints(name, args, other, overloads):
    """What differs between a row and one signature of PyTorch's; fewer is nearer. What an overload does without may be left
    out, and what is given by name alone may belong to any of them."""
    everywhere = set.intersection(*({n for n, _, _ in o} for o in overloads))
    anywhere = {n for o in overloads for n, _, _ in o}
    places = {n: i for i, (n, _, by_position) in enumerate(other) if by_position}
    defaults = {n: d for n, d, _ in other}
    said = []
    for i, (arg, default, positional) in enumerate(args):
        if (name, arg) in MEANT or arg in ("dtype", "device"):
            continue
        if arg not in defaults and not positional and arg in anywhere:
            continue
        if arg not in defaults:
            said.append(f"{name}: PyTorch has no argument '{arg}'")
        elif positional and places.get(arg) != i:
            said.append(f"{name}: '{arg}' is argument {i}, PyTorch's {places.get(arg, 'by name alone')}")
        elif default is not ... and defaults[arg] is not ... and default != defaults[arg] and not (
                default is None and not defaults[arg]) and (arg, default, defaults[arg]) != ("norm", "backward", None):
            said.append(f"{name}: {arg}={default}, PyTorch's is {defaults[arg]}")
        elif default is not ... and defaults[arg] is ... and arg in everywhere:
            said.append(f"{name}: {arg} has a default, PyTorch asks for it")
        elif default is ... and defaults[arg] is not ... and defaults[arg] is not None:
            said.append(f"{name}: {arg} must be given, PyTorch's default is {defaults[arg]}")
    return said


def signatures():
    said, compared = [], 0
    for name, args in ours().items():
        if (name, "*") in MEANT:
            continue
        overloads = theirs(NAMES.get(name, name))
        if not overloads:
            said.append(f"{name}: PyTorch has no op of this name")
            continue
        compared += 1
        said += min((complaints(name, args, o, overloads) for o in overloads), key=len)
    stale = {op for op, _ in MEANT} - set(ours())
    return said + [f"MEANT names {op}, which is not an op" for op in sorted(stale)], compared


# The same text in both languages; x, y, z, i and w are there. Lists are tuples of sizes in both.
CALLS = """x.norm() ; x.norm(1) ; x.norm(2, 1) ; x.norm(1, 0, true) ; norm(x, 3, 1) ; x.norm(inf, 1) ; z.norm(2, [0, 2])
z.norm(1, [0, 1], true) ; x.sum(1) ; x.sum(1, true) ; x.mean([0, 1]) ; x.prod(1, true) ; x.amax(1, true) ; x.amin(0)
x.argmax(1) ; x.argmin(0, true) ; x.cumsum(1) ; x.logsumexp(1, true) ; x.std(1) ; x.var(0) ; x.var(1, correction=0)
x.std(1, keepdim=true) ; softmax(x, 1) ; x.log_softmax(0) ; x.clamp(-0.5, 0.5) ; x.clamp(min=0.1) ; hardtanh(x, -0.2, 0.4)
leaky_relu(x, 0.3) ; elu(x, 0.7) ; x.gather(1, i) ; gather(x, 1, i) ; x.scatter_add(1, i, y[:, 0:2]) ; x.index_select(0, k)
x.index_add(0, k, x) ; x.roll(1, 0) ; x.roll([1, 2], [0, 1]) ; x.flip([0]) ; x.flip(1) ; x.flip(0, 1) ; x.tile([2, 1])
x.tril(1) ; x.triu(-1) ; x.diagonal(1) ; z.diagonal(0, 1, 2) ; x.topk(2, 1)[0] ; x.topk(2, 1, false)[0] ; x.sort(0)[0]
x.sort(1, true)[0] ; x.argsort(1, true) ; x.select(1, 2) ; x.permute(1, 0) ; z.permute([2, 0, 1]) ; x.reshape(4, 3)
x.reshape([2, -1]) ; x.transpose(0, 1) ; z.transpose(-1, 0) ; z.flatten(1) ; z.flatten(0, 1) ; x.unsqueeze(1)
x.unsqueeze(-1) ; x.view(2, 6) ; cat([x, x], 1) ; stack([x, x], 1) ; where(x > 0, x, y) ; x.masked_fill(x > 0, 2)
x.pow(2) ; x.pow(exponent=3) ; maximum(x, y) ; x.remainder(0.7) ; x.floor_divide(0.3) ; normalize(x, 2, 1) ; normalize(x, 1, 0)
cosine_similarity(x, y, 1) ; cosine_similarity(x, y, 0, 0.5) ; pad(x, [1, 2]) ; pad(x, [1, 0, 0, 2], "constant", 1.5)
layer_norm(x, [4]) ; layer_norm(x, [4], w, w) ; layer_norm(z, [6, 4], none, none, 0.1) ; group_norm(z, 2) ; group_norm(z, 2, v, v)
group_norm(z, 2, v, v, 0.5) ; batch_norm(z, v, v * v, v, v) ; batch_norm(z, v, v * v, none, none, false, 0.1, 0.5)
linear(x, y, t) ; linear(x, y) ; embedding(k, x) ; one_hot(k, 5) ; einsum("ij,kj->ik", x, y) ; addmm(t, x, y.T, beta=0.5, alpha=2)
outer(w, w) ; dot(w, w) ; mv(x, w) ; mm(x, y.T) ; bmm(z, z.transpose(1, 2)) ; matmul(x, y.T)
scaled_dot_product_attention(z, z, z) ; conv2d(m, f, none, 2, 1) ; conv2d(m, f, t2, 1, 0, 1) ; max_pool2d(m, 2, 1)
max_pool2d(m, 3, 2, 1) ; avg_pool2d(m, 2, 1, 1, false, false) ; avg_pool2d(m, 3, 2, 1, true) ; adaptive_avg_pool2d(m, 2)
conv_transpose2d(m, f.transpose(0, 1), none, 2, 1, 1) ; dropout(x, 0.5, false) ; cross_entropy(x, c) ; cross_entropy(x, c, w * w)
cross_entropy(x, c, reduction="sum") ; cross_entropy(x, c, label_smoothing=0.2) ; nll_loss(x, c, w * w) ; mse_loss(x, y)
mse_loss(x, y, reduction="sum") ; l1_loss(x, y) ; smooth_l1_loss(x, y, beta=0.3) ; huber_loss(x, y, "sum", 0.4)
kl_div(x, y * y, reduction="batchmean") ; full([2], 1.5) ; full(size=[2], fill_value=2) ; zeros(2, 3) ; ones([2]) ; arange(5)
arange(1, 5) ; arange(1, 2, 0.25) ; arange(start=1, end=4) ; linspace(0, 1, 5) ; eye(2) ; eye(2, 3) ; allclose(x, x + 0.01, 0.1)
x.split(2, 1)[1] ; x.chunk(2, 1)[0] ; x.squeeze(0) ; x.size(1) ; x.all(1) ; x.any(0, true) ; x.isnan() ; x.nonzero()"""
DATA = """x = (arange(12).reshape([3, 4]) * 0.37).sin(); y = (arange(12).reshape([3, 4]) * 0.61).cos(); w = x[0]; k = tensor([2, 0, 1])
z = (arange(24).reshape([2, 3, 4]) * 0.53).sin(); z = cat([z, z + 1], 1)[:, 0:6]; i = tensor([[0, 3], [1, 1], [2, 0]]); c = tensor([1, 0, 3])
m = (arange(72).reshape([1, 2, 6, 6]) * 0.29).sin(); f = (arange(54).reshape([3, 2, 3, 3]) * 0.47).cos(); v = z[0, :, 0]; t = y[:, 1]; t2 = y[:, 2]"""


def run_here(calls):
    space = {**vars(F), **vars(torch), "none": None, "true": True, "false": False, "inf": float("inf")}
    for name in ("pad", "normalize", "cosine_similarity", "layer_norm", "group_norm", "batch_norm", "linear", "embedding",
                 "one_hot", "conv2d", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "conv_transpose2d", "dropout",
                 "scaled_dot_product_attention", "hardtanh", "leaky_relu", "elu", "softmax", "kl_div"):
        if hasattr(F, name):
            space[name] = getattr(F, name)
    exec(DATA.replace("; ", "\n"), space)
    return [eval(c, space) for c in calls]


def same_calls():
    calls = [c.strip() for c in CALLS.replace("\n", " ; ").split(" ; ")]
    if not hasattr(F, "scaled_dot_product_attention"):
        calls = [c for c in calls if "scaled_dot_product_attention" not in c]
    script = DATA + "".join(f"\ntry {{ {c} }} catch e {{ print(e.message) }}" for c in calls)
    dlsh = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    done = subprocess.run([dlsh, "-n", "--db", "none", "--device", "cpu", "--mode", "json"], input=script, text=True,
                          capture_output=True)
    lines, said = done.stdout.splitlines(), []
    if len(lines) != len(calls):
        return [f"{len(calls)} calls gave {len(lines)} lines: {done.stderr[:300]}"], 0
    for call, line, want in zip(calls, lines, run_here(calls)):
        want = torch.as_tensor(want)
        try:
            got = json.loads(line)
            got = torch.tensor(got.get("data") if isinstance(got, dict) else got, dtype=torch.float64)
        except (ValueError, TypeError):  # a message
            said.append(f"{call}: {line}")
            continue
        if got.shape != want.shape or not torch.allclose(got, want.double(), 1e-4, 1e-5):
            said.append(f"{call}: {line[:120]}, PyTorch's is {want}")
    return said, len(calls)


def main():
    said, rows = signatures()
    more, calls = same_calls()
    for line in said + more:
        print(line)
    if said or more:
        sys.exit(1)
    print(f"{rows} rows have PyTorch's arguments; {calls} calls give what PyTorch's give")


main()
