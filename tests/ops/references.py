"""What rows of the op table compute that PyTorch has not by their names: functions of its tensors, for make_goldens.py."""
import inspect
import math

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "f64": torch.float64, "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8,
          "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128}


def pair(v):
    return (v[0], v[0]) if len(v) == 1 else tuple(v)


def pick(kw, *names):
    return {n: kw[n] for n in names if n in kw}


def dims(x, kw):
    return tuple(kw["dim"]) if kw.get("dim") is not None else tuple(range(x.dim()))


def reduce(fn):
    return lambda x, **kw: fn(x, dim=dims(x, kw), keepdim=kw.get("keepdim", False))


def boolean(fn):
    def run(x, **kw):
        y, gone = x != 0, dims(x, kw)
        for d in gone:
            y = fn(y, dim=d, keepdim=True)
        return y if kw.get("keepdim") else y.reshape([n for i, n in enumerate(x.shape) if i not in gone])
    return run


def each(v, n):
    return tuple(v) * n if len(v) == 1 else tuple(v)


def conv(x, w, b=None, stride=(1,), padding=(0,), dilation=(1,), groups=1):
    n = x.ndim - 2
    pad = padding if isinstance(padding, str) else each(padding, n)
    return (F.conv2d if n == 2 else F.conv3d)(x, w, b, each(stride, n), pad, each(dilation, n), groups)


def conv_dx(g, w, size, groups=1, **kw):
    x = torch.zeros((g.shape[0], w.shape[1] * groups, *each(size, g.ndim - 2)), dtype=g.dtype, requires_grad=True)
    return torch.autograd.grad(conv(x, w, groups=groups, **kw), x, g, create_graph=True)[0]


def conv_dw(g, x, size, groups=1, **kw):
    shape = (g.shape[1], x.shape[1] // groups, *each(size, g.ndim - 2))
    w = torch.zeros(shape, dtype=g.dtype, requires_grad=True)
    return torch.autograd.grad(conv(x, w, groups=groups, **kw), w, g, create_graph=True)[0]


def max_pool(x, kernel_size, stride=None, padding=(0,), dilation=(1,), ceil_mode=False):
    stride = pair(stride) if stride else None
    if x.numel() == 0:
        h = (x.shape[2] - kernel_size[0]) // kernel_size[0] + 1
        return torch.zeros((0, x.shape[1], h, h), dtype=x.dtype) + x.sum()
    if dilation != (1,) and not ceil_mode:  # PyTorch's index of a window that sees no pixel lies outside the image
        (h, w), padding = pair(padding), (0,)
        x = F.pad(x, (w, w, h, h), value=-torch.inf)
    return F.max_pool2d(x, pair(kernel_size), stride, pair(padding), pair(dilation), ceil_mode)


def relu_max_pool(x, b=None, **kw):
    return max_pool(F.relu(x if b is None else x + b[:, None, None]), **kw)


def conv_relu_max_pool(x, w, b=None, pool_size=(2,), **kw):
    return relu_max_pool(conv(x, w, None, **kw), b, kernel_size=pool_size)


def avg_pool(x, kernel_size, stride=None, padding=(0,), ceil_mode=False, count_include_pad=True):
    stride = pair(stride) if stride else None
    if x.numel() == 0:
        h = (x.shape[2] - kernel_size[0]) // kernel_size[0] + 1
        return torch.zeros((0, x.shape[1], h, h), dtype=x.dtype) + x.sum()
    return F.avg_pool2d(x, pair(kernel_size), stride, pair(padding), ceil_mode, count_include_pad)


def spread(fn):
    """The gradient of a pooling of images of `size`, as a function of the gradient of its result."""
    def run(g, size, **kw):
        x = torch.zeros((*g.shape[:2], *pair(size)), dtype=g.dtype, requires_grad=True)
        return torch.autograd.grad(fn(x, g, **kw), x, g, create_graph=True)[0]
    return run


def adaptive(x, output_size):
    return F.adaptive_avg_pool2d(x, pair(output_size))


def slice_(x, dim=0, start=None, end=None, step=1):
    index = [slice(None)] * x.dim()
    index[dim] = slice(start, end, step)
    return x[tuple(index)]


def pool_scatter(x, i, size):
    flat = torch.zeros((*x.shape[:2], size[0] * size[1]), dtype=x.dtype)
    return flat.scatter_add(2, i.flatten(2), x.flatten(2)).reshape(*x.shape[:2], *size)


def batch_norm(x, m=None, v=None, w=None, b=None, training=False, momentum=0.1, eps=1e-5):
    m, v = (t.detach().clone() if t is not None else None for t in (m, v))
    return F.batch_norm(x, m, v, w, b, training, momentum, eps)


def conv_transpose(x, w, b=None, stride=(1,), padding=(0,), output_padding=(0,), groups=1, dilation=(1,), output_size=None):
    s, p, d, more = pair(stride), pair(padding), pair(dilation), pair(output_padding)
    if output_size:
        least = [(x.shape[2 + i] - 1) * s[i] - 2 * p[i] + d[i] * (w.shape[2 + i] - 1) + 1 for i in range(2)]
        more = tuple(output_size[i] - least[i] for i in range(2))
    return F.conv_transpose2d(x, w, b, s, p, more, groups, d)


def conv_norm(x, w, m, v, b=None, nw=None, nb=None, eps=1e-5, relu=False, **kw):
    y = F.batch_norm(conv(x, w, b, **kw), m, v, nw, nb, False, 0, eps)
    return (F.relu(y) if relu else y).detach()


def attention(q, k, v, mask=None, lengths=None, dropout_p=0, is_causal=False, scale=None, enable_gqa=False):
    """PyTorch has it from 2.0 on. Keys have the heads of queries, or a divisor of them."""
    group = q.shape[-3] // max(k.shape[-3], 1) if enable_gqa else 1
    k, v = (t.repeat_interleave(group, -3) if group > 1 else t for t in (k, v))
    s = q @ k.transpose(-2, -1) * (1 / q.shape[-1] ** 0.5 if scale is None else scale)
    seen = torch.ones(s.shape[-2:], dtype=torch.bool)
    if is_causal:
        seen = seen.tril()
    if lengths is not None:
        seen = seen & (torch.arange(k.shape[-2]) < lengths.reshape(-1, *[1] * (s.dim() - 1)))
    if mask is not None:
        seen, s = (seen & mask, s) if mask.dtype == torch.bool else (seen, s + mask)
    p = torch.softmax(s.masked_fill(~seen, -torch.inf), -1)
    return p.masked_fill(~seen, 0) @ v


def rotary(x, positions=None, base=1e4, interleaved=True):
    """By complex numbers, as the paper has it."""
    n, e = x.shape[-2:]
    positions = torch.arange(n) if positions is None else positions
    t = positions.double()[..., None] * base ** (-2 * torch.arange(e // 2, dtype=torch.float64) / e)
    pairs = x.unflatten(-1, (-1, 2)) if interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
    z = torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(t), t)
    z = torch.view_as_real(z)
    return (z if interleaved else z.transpose(-1, -2)).flatten(-2)


def positional(x, base=1e4, dim=-2):
    """The table of PyTorch's tutorial, of any size."""
    n, e = x.shape[dim], x.shape[-1]
    t = torch.arange(n, dtype=torch.float64)[:, None] * base ** (-torch.arange(0, e, 2, dtype=torch.float64) / e)
    table = torch.stack([t.sin(), t.cos()], -1).flatten(1)[:, :e]
    return x + table.reshape([n if i == dim % x.dim() else e if i == x.dim() - 1 else 1 for i in range(x.dim())])


def rms_norm(x, w=None, normalized_shape=None, eps=None):
    """PyTorch has it from 2.4 on."""
    dims = tuple(range(-len(normalized_shape), 0))
    y = x * torch.rsqrt((x * x).mean(dims, keepdim=True) + (torch.finfo(x.dtype).eps if eps is None else eps))
    return y if w is None else y * w


def norm_groups(x, w=None, b=None, num_groups=1, eps=1e-5):
    w = torch.ones(x.shape[1], dtype=x.dtype) if w is None else w  # a bias alone is not taken
    return F.group_norm(x, num_groups, w, b, eps)


def focal(x, y, reduction="none", alpha=0.25, gamma=2.0):
    """torchvision's sigmoid_focal_loss."""
    y, p = y.to(x.dtype), torch.sigmoid(x)
    loss = F.binary_cross_entropy_with_logits(x, y, reduction="none") * (1 - (p * y + (1 - p) * (1 - y))) ** gamma
    loss = loss * (alpha * y + (1 - alpha) * (1 - y)) if alpha >= 0 else loss
    return {"none": lambda t: t, "mean": torch.mean, "sum": torch.sum}[reduction](loss)


def reduced(loss, how):
    return {"none": lambda t: t, "mean": torch.mean, "sum": torch.sum}[how](loss)


def weighted(name, error, counts=True):
    """torch.nn.functional's weight, which PyTorch has from 2.7 on; here it broadcasts."""
    def run(x, y, w=None, reduction="mean", **kw):
        loss = error(x, y, **kw) * (1 if w is None else w)
        counted = counts and w is not None and reduction == "mean"
        loss = loss.sum() / w.expand_as(x).sum() if counted else reduced(loss, reduction)
        if w is not None and "weight" in inspect.signature(getattr(F, name)).parameters:
            theirs = getattr(F, name)(x, y, weight=w.expand_as(x), reduction=reduction, **kw)
            assert torch.allclose(theirs, loss, rtol=1e-12, atol=1e-12), name
        return loss
    return run


def symmetric_window(name, of):
    """A window of torch.signal.windows, which PyTorch has from 2.0 on; of(i, n) from the number of steps between the ends."""
    def run(*a, M, sym=True, dtype=None, **kw):
        t = torch.float64 if dtype else torch.get_default_dtype()
        i, n = torch.arange(M, dtype=torch.float64), M - 1 if sym or M == 1 else M
        windows = getattr(getattr(torch, "signal", None), "windows", None)
        a = {"a": [v for x in a for v in x.reshape(-1)]} if a else {}
        w = of(i, n, **kw, **a) if M > 1 or name in ("exponential", "gaussian", "cosine") else torch.ones(M)
        if windows:
            theirs = getattr(windows, name)(M, sym=sym, dtype=torch.float64, **kw, **{
                k: [x.item() for x in v] for k, v in a.items()})
            assert torch.allclose(theirs, w.detach().double(), rtol=1e-9, atol=1e-9), name
        return w.to(t)
    return run


def cosines(i, n, a):
    return sum((-1) ** k * v * torch.cos(2 * math.pi * k * i / n) for k, v in enumerate(a))


WINDOWS = {
    "bartlett": lambda i, n: 1 - (2 * i / n - 1).abs(), "blackman": lambda i, n: cosines(i, n, [0.42, 0.5, 0.08]),
    "cosine": lambda i, n: torch.sin(math.pi * (i + 0.5) / (n + 1)),
    "exponential": lambda i, n, center=None, tau=1.0: torch.exp(-(i - (n / 2 if center is None else center)).abs() / tau),
    "gaussian": lambda i, n, std=1.0: torch.exp(-((i - n / 2) / std) ** 2 / 2), "general_cosine": cosines,
    "general_hamming": lambda i, n, alpha=0.54: cosines(i, n, [alpha, 1 - alpha]),
    "hamming": lambda i, n: cosines(i, n, [0.54, 0.46]), "hann": lambda i, n: cosines(i, n, [0.5, 0.5]),
    "kaiser": lambda i, n, beta=12.0: torch.special.i0(beta * (1 - (2 * i / n - 1) ** 2).clamp(min=0).sqrt()) / torch.special.i0(
        torch.tensor(beta, dtype=torch.float64)),
    "nuttall": lambda i, n: cosines(i, n, [0.3635819, 0.4891775, 0.1365995, 0.0106411])}


def dice(x, y, smooth=1.0, reduction="mean"):
    dims = tuple(range(1 if x.dim() > 1 else 0, x.dim()))
    loss = 1 - (2 * (x * y).sum(dims) + smooth) / (x.sum(dims) + y.sum(dims) + smooth)
    return {"none": lambda t: t, "mean": torch.mean, "sum": torch.sum}[reduction](loss)


class Polygamma(torch.autograd.Function):
    """torch.polygamma to full precision: PyTorch's first derivative of digamma is right to 9 digits."""

    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        zeta = torch.special.zeta(torch.tensor(n + 1.0, dtype=x.dtype), x) if n else None
        return (-1) ** (n + 1) * math.factorial(n) * zeta if n else torch.special.digamma(x)

    @staticmethod
    def backward(ctx, g):
        return g * Polygamma.apply(ctx.saved_tensors[0], ctx.n + 1), None


def poisson_nll(x, y, **kw):
    return F.poisson_nll_loss(x, y.to(x.dtype), **kw)


def bce(x, y, w=None, reduction="mean"):
    return F.binary_cross_entropy(x, y.to(x.dtype), w, reduction=reduction)


def scatter(x, i, s, dim, reduce="none"):
    if isinstance(s, float):
        return x.scatter(dim, i, s)
    s = s[tuple(slice(n) for n in i.shape)]
    if reduce == "none":
        return x.scatter(dim, i, s)
    return x.scatter_reduce(dim, i, s, {"add": "sum", "multiply": "prod"}[reduce])


def recurrence(a, b, dim, reverse=False):
    if not b.numel() or not b.dim():
        return a * 0 + b
    a, b, out = a.unbind(dim), b.unbind(dim), []
    for i in range(len(b))[::-1 if reverse else 1]:
        out.append(b[i] + (a[i + reverse] * out[-1] if out else 0))
    return torch.stack(out[::-1 if reverse else 1], dim) + 0 * a[0].sum()


def put_last(x, i, s, dim):
    """torch.scatter, with a gradient for the elements alone that are the last at their places."""
    own = torch.arange(i.shape[dim] if i.dim() else 1).reshape([-1 if k == dim else 1 for k in range(i.dim())]).expand(i.shape)
    last = torch.zeros(x.shape, dtype=torch.int64).scatter(dim, i, own)
    return x.scatter(dim, i, torch.where(last.gather(dim, i) == own, s, s.detach()))


def index_reduce(x, i, s, dim, reduce, include_self=True):
    """torch.index_reduce, whose mean and product have no second derivative, by scatter_reduce."""
    shape = [1] * x.dim()
    shape[dim] = -1
    return x.scatter_reduce(dim, i.reshape(shape).expand(s.shape), s, reduce, include_self=include_self)


def unique_groups(x, dim=None, consecutive=False):
    if consecutive:
        return torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)
    return torch.unique(x, return_inverse=True, return_counts=True, dim=dim)


def isin(x, s, **kw):
    return torch.isin(x, s, **kw)


def mode(x, dim=-1, keepdim=False):
    """torch.mode, whose index of equal values is not the same in all versions, by counting."""
    x, d = (x.reshape(1), 0) if x.dim() == 0 else (x, dim % x.dim())
    same = (x.unsqueeze(d) == x.unsqueeze(d + 1)).sum(d)
    best = torch.where(same == same.amax(d, keepdim=True), -x.detach().double(), -torch.inf).amax(d, keepdim=True)
    places = torch.arange(x.shape[d]).reshape([-1 if i == d else 1 for i in range(x.dim())])
    at = torch.where(-best == x.detach(), places, -1)
    at = at.amax(d, keepdim=True)
    v = x.gather(d, at)
    return (v, at) if keepdim else (v.squeeze(d), at.squeeze(d))


def empty_images(fn, shape=None):
    """PyTorch takes no batch without images, or gives it no gradient."""
    def run(x, **kw):
        if x.numel():
            return fn(x, **kw)
        if shape:
            return torch.zeros(shape(x.shape, *kw.values()), dtype=x.dtype) + x.sum()
        return fn(torch.zeros((1, *x.shape[1:]), dtype=x.dtype), **kw)[:0] + x.sum()
    return run


def lp_pool3d(x, norm_type, kernel_size, stride=None, ceil_mode=False):
    """PyTorch has it from 2.3 on."""
    size, step = ([*v * 3][:3] if len(v) == 1 else v for v in (kernel_size, stride or kernel_size))
    return (F.avg_pool3d(x ** norm_type, size, step, 0, ceil_mode) * math.prod(size)) ** (1 / norm_type)


def for_dims(fn, n):
    """Lists of one number as those of n."""
    return lambda *x, **kw: fn(*x, **{k: v * n if isinstance(v, list) and len(v) == 1 else v for k, v in kw.items()})


def embedding_bag(i, w, offsets=None, each=None, padding_idx=None, **kw):
    return F.embedding_bag(i, w, offsets, per_sample_weights=each, padding_idx=padding_idx, **kw)


def instance_norm(x, m=None, v=None, w=None, b=None, **kw):
    m, v = (t.detach().clone() if t is not None else None for t in (m, v))
    return F.instance_norm(x, m, v, w, b, **kw)


def channel_dropout(x, p=0.5, training=True):
    return x if not training or p == 0 else None  # random: not compared


def lstsq(a, b, rcond=None):
    x = torch.linalg.pinv(a, rtol=rcond) @ b if rcond else torch.linalg.pinv(a) @ b
    gap = ((a @ x - b) ** 2).sum(-2) if a.shape[-2] > a.shape[-1] else torch.zeros(0, dtype=a.dtype)
    return x, gap, torch.linalg.matrix_rank(a.detach()), torch.zeros(0, dtype=a.dtype)


def some_eigenvalues(a, b=None, x=None, i=None, k=None, largest=True, **kw):
    k = k or (1 if x is None else x.shape[-1])
    low = None if b is None else torch.linalg.cholesky(b)
    m = a if b is None else torch.linalg.solve(low, torch.linalg.solve(low, a).mT).mT
    e, v = torch.linalg.eigh(m)
    v = v if b is None else torch.linalg.solve(low.mT, v)
    return (e[..., -k:].flip(-1), v[..., -k:].flip(-1)) if largest else (e[..., :k], v[..., :k])


def logdet(a):
    if not a.is_complex():
        return torch.logdet(a)
    sign, size = L.slogdet(a)
    return sign.log() + size


def plain_lu(a):
    """LU without swaps of rows, which PyTorch has on GPUs alone: both factors in one, L, U, rows in place."""
    k, lu = min(a.shape[-2:]), a
    for i in range(k if a.shape[-2] else 0):
        low = lu[..., i + 1:, i:i + 1] / lu[..., i:i + 1, i:i + 1]
        right = lu[..., i + 1:, i + 1:] - low @ lu[..., i:i + 1, i + 1:]
        lu = torch.cat([lu[..., :i + 1, :], torch.cat([lu[..., i + 1:, :i], low, right], -1)], -2)
    eye = torch.eye(a.shape[-2], k, dtype=a.dtype)
    rows = torch.arange(1, k + 1, dtype=torch.int32).expand(*a.shape[:-2], k)
    return lu, lu[..., :, :k].tril(-1) + eye, lu[..., :k, :].triu(), rows


def lkj(x, eta):
    """The density by the determinant of correlations, as LKJCholesky's, whose dimension is an argument."""
    return D.LKJCholesky(x.shape[-1], eta, validate_args=False).log_prob(x)


def wishart_kl(n, l, m, k):
    """One by one: PyTorch's divergence of batches mixes them up."""
    if not isinstance(n, torch.Tensor) or not n.dim():
        return D.kl_divergence(MAKERS["wishart"](n, l), MAKERS["wishart"](m, k))
    return torch.stack([wishart_kl(a, l, b, k) for a, b in zip(n, m)])


def cond(a, p=None):
    return L.cond(a, p) if p in (None, 2, -2) else L.matrix_norm(a, p) * L.matrix_norm(L.inv(a), p)


D = torch.distributions


class GeneralizedPareto:
    """Newer than the oldest PyTorch that is compared with."""

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.k = D.utils.broadcast_all(*(torch.as_tensor(v, dtype=torch.float64) for v in (
            loc, scale, concentration)))

    def rest(self, x):
        """-ln of the share above x; without concentration that of the exponential distribution."""
        z = (x - self.loc) / self.scale
        return torch.where(self.k == 0, z, (self.k * z).log1p() / torch.where(self.k == 0, 1.0, self.k))

    def log_prob(self, x):
        return -self.scale.log() - (1 + self.k) * self.rest(x)

    def entropy(self):
        return self.scale.log() + self.k + 1

    def cdf(self, x):
        return 1 - (-self.rest(x)).exp()

    def icdf(self, v):
        return self.loc + self.scale * ((1 - v) ** -self.k - 1) / self.k


MAKERS = {
    "generalized_pareto": GeneralizedPareto, "logistic_normal": D.LogisticNormal,
    "continuous_bernoulli": lambda x, **kw: D.ContinuousBernoulli(
        logits=torch.as_tensor(x, dtype=torch.float64), lims=(0.49999, 0.50001), **kw),
    "log_normal": D.LogNormal, "cauchy": D.Cauchy, "half_cauchy": D.HalfCauchy, "half_normal": D.HalfNormal,
    "gumbel": D.Gumbel, "weibull": D.Weibull, "pareto": D.Pareto, "student_t": D.StudentT, "chi2": D.Chi2,
    "kumaraswamy": D.Kumaraswamy, "geometric": lambda x, **kw: D.Geometric(logits=x, **kw),
    "negative_binomial": lambda n, x, **kw: D.NegativeBinomial(n, logits=x, **kw), "poisson": D.Poisson,
    "binomial": lambda n, x, **kw: D.Binomial(n, logits=x, **kw),
    "one_hot_categorical": lambda x, **kw: D.OneHotCategorical(logits=x, **kw),
    "normal": D.Normal, "laplace": D.Laplace, "uniform": D.Uniform, "exponential": D.Exponential, "gamma": D.Gamma,
    "beta": D.Beta, "dirichlet": D.Dirichlet, "bernoulli": lambda x, **kw: D.Bernoulli(logits=x, **kw),
    "categorical": lambda x, **kw: D.Categorical(logits=x, **kw),
    "multivariate_normal": lambda m, l, **kw: D.MultivariateNormal(m, scale_tril=l, **kw),
    "relaxed_bernoulli": lambda t, x, **kw: D.RelaxedBernoulli(torch.as_tensor(t, dtype=torch.float64), logits=x, **kw),
    "relaxed_one_hot_categorical": lambda t, x, **kw: D.RelaxedOneHotCategorical(torch.as_tensor(t, dtype=torch.float64), logits=x, **kw),
    "fisher_snedecor": D.FisherSnedecor, "low_rank_multivariate_normal": D.LowRankMultivariateNormal,
    "inverse_gamma": lambda a, b, **kw: D.TransformedDistribution(D.Gamma(a, b, **kw), D.PowerTransform(torch.tensor(-1.0)), **kw),
    "multinomial": lambda x, **kw: D.Multinomial(5, logits=x, **kw),
    "wishart": lambda n, l, **kw: D.Wishart(n if isinstance(n, torch.Tensor) else torch.tensor(n, dtype=torch.float64), scale_tril=l.tril(), **kw)}


def fft_call(name):
    def run(x, **kw):
        y = getattr(torch.fft, name)(x.to(torch.get_default_dtype()) if x.dtype == torch.int64 else x, **kw)
        return y.resolve_conj() if y.is_complex() else y
    return run


def log_i0(k):
    return torch.special.i0e(k).log() + k


def distribution_calls(make):
    """Density, entropy and divergence of one kind; as elsewhere, those of the parameters alone have their shape."""
    def new(*params):
        return make(*params, validate_args=False)

    def log_prob(x, *params):
        return new(*params).log_prob(x if x.is_floating_point() else x.double())

    def kl(*params):
        half = len(params) // 2
        return D.kl_divergence(new(*params[:half]), new(*params[half:]))
    return {"log_prob": log_prob, "entropy": lambda *params: new(*params).entropy(), "kl": kl,
            "cdf": lambda x, *params: new(*params).cdf(x if x.is_floating_point() else x.double()),
            "icdf": lambda x, *params: new(*params).icdf(x)}


def gamma_slope(a, x):
    """-(dP/da) / density by a sum over many places; PyTorch's _standard_gamma_grad has an error of 1e-4."""
    a, x, shape = a.detach().double().flatten(), x.detach().double().flatten(), x.shape
    out = torch.zeros_like(x)
    for i in range(len(x)):
        s = 1.0 if x[i] > a[i] else -1.0
        v = torch.cat([torch.arange(4000001).double() * 1e-5, 40 + torch.arange(1, 2000001).double() * 1e-3])
        y = (s * (x[i].log() - torch.digamma(a[i])) + v) * (s * a[i] * v - x[i] * torch.expm1(s * v)).exp()
        w = torch.cat([simpson(4000001) * 1e-5, simpson(2000001) * 1e-3])
        y = torch.cat([y[:4000001], y[4000000:]])
        out[i] = x[i] * (y * w).sum()
    return out.reshape(shape)


def simpson(n):
    w = torch.full((n,), 2 / 3, dtype=torch.float64)
    w[1::2], w[0], w[-1] = 4 / 3, 1 / 3, 1 / 3
    return w


def coo(values, crow, col, cols):
    """The sparse matrix of PyTorch, in coordinates, of compressed rows."""
    rows = torch.repeat_interleave(torch.arange(len(crow) - 1), crow.diff())
    return torch.sparse_coo_tensor(torch.stack([rows, col]), values, (len(crow) - 1, cols))


def csr_transpose(crow, col, cols):
    order = torch.argsort(col, stable=True)
    rows = torch.repeat_interleave(torch.arange(len(crow) - 1), crow.diff())
    return torch.searchsorted(col[order], torch.arange(cols + 1)), rows[order], order


def stft(x, w=None, return_complex=True, **kw):
    y = torch.stft(x, window=w, return_complex=True, **kw)
    return y.resolve_conj() if return_complex else torch.view_as_real(y.resolve_conj())


def istft(x, w=None, n_fft=None, return_complex=False, **kw):
    return torch.istft(x, n_fft, window=w, return_complex=return_complex, **kw)


L = torch.linalg
def recurrent(call, cell):
    """torch.lstm and its kin; sequences of unequal lengths are packed and unpacked."""
    def run(x, *rest, num_layers=1, bidirectional=False, batch_first=False, dropout=0.0, training=False, nonlinearity="tanh",
            mode=None):
        rest = list(rest)
        h, c = rest.pop(0), rest.pop(0) if cell or mode else None
        lengths, params, alone = rest.pop(0), rest, x.dim() == 2
        fn = getattr(torch, {"tanh": "rnn_tanh", "relu": "rnn_relu"}.get(mode, mode) or (
            call if call != "rnn" else f"rnn_{nonlinearity}"))
        if alone:
            x, h, c = (t if t is None else t.unsqueeze(1) for t in (x, h, c))
        parts, n = num_layers * (1 + bidirectional), x.shape[0 if batch_first else 1]
        biases = len(params) == 4 * parts
        zero = torch.zeros(parts, n, params[1].shape[1], dtype=x.dtype)
        h, lstm = zero if h is None else h, cell or mode == "lstm"
        hx = (h, zero if c is None else c) if lstm else h
        how = (params, biases, num_layers, dropout, training, bidirectional)
        if lengths is None:
            out = fn(x, hx, *how, batch_first)
        else:
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
            order, back = packed.sorted_indices, packed.unsorted_indices
            hx = tuple(t[:, order] for t in hx) if lstm else hx[:, order]
            y, *states = fn(packed.data, packed.batch_sizes, hx, *how)
            y = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes, order, back)
            y = torch.nn.utils.rnn.pad_packed_sequence(y, batch_first, total_length=x.shape[1 if batch_first else 0])[0]
            out = (y, *(t[:, back] for t in states))
        return tuple(t.squeeze(1) for t in out) if alone else out
    return run


def ctc_loss(x, y, steps, lengths, blank=0, reduction="mean", zero_infinity=False):
    """PyTorch's gradient is that of scores before log_softmax: e ** x is added to that of log-probabilities."""
    n = 1 if x.dim() == 2 else x.shape[1]
    x3, steps, lengths = x.reshape(x.shape[0], n, x.shape[-1]), steps.reshape(n), lengths.reshape(n)
    if y.dim() == 1 and int(lengths.sum()) != y.numel():
        y = y[None]
    fine = F.ctc_loss(x3.detach(), y, steps, lengths, blank, "none").isfinite()
    each = F.ctc_loss(x3, y, steps, lengths, blank, "none", zero_infinity)
    extra = (x3.exp().sum(-1) * (torch.arange(x.shape[0])[:, None] < steps)).sum(0)
    each = torch.where(fine, each - (extra - extra.detach()), each)
    if reduction == "mean":
        return (each / lengths.clamp(min=1)).mean()
    return each.sum() if reduction == "sum" else each.reshape(() if x.dim() == 2 else n)


def contrastive_loss(a, b, y, margin=1.0, reduction="mean"):
    d, y = (a - b).norm(dim=-1), y.to(a.dtype)
    each = y * d ** 2 + (1 - y) * F.relu(margin - d) ** 2
    return each if reduction == "none" else getattr(each, reduction)()


def areas(fn):
    return lambda y, x=None, dx=1.0, dim=-1: fn(y, dx=dx, dim=dim) if x is None else fn(y, x, dim=dim)


def continued(x, pad, mode):
    """Complex numbers, or no images, are padded by places."""
    for i in range(len(pad) // 2):
        n = x.shape[-1 - i]
        at = torch.arange(-pad[2 * i], n + pad[2 * i + 1])
        at = {"circular": lambda: at % n, "replicate": lambda: at.clamp(0, n - 1),
              "reflect": lambda: (n - 1) - ((n - 1) - at.abs()).abs()}[mode]()
        x = x.index_select(-1 - i, at)
    return x


def resample_along(x, index, weight=None, dim=0):
    """A sum over the rows of the index."""
    shape = [-1 if d == dim % x.dim() else 1 for d in range(x.dim())]
    return sum(x.index_select(dim, i) * (1 if weight is None else weight[k].to(x.dtype).reshape(shape))
               for k, i in enumerate(index))


def pdist(x, p=2.0):
    i, j = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return torch.cdist(x, x, p)[i, j] if p != 2 else (x[i] - x[j]).norm(dim=-1)


def lu_solve(lu, pivots, b, left=True, adjoint=False):
    """Debian's PyTorch has no gradient by all arguments: the factors, written out."""
    p, l, u = torch.lu_unpack(lu.detach(), pivots.int())
    n = lu.shape[-1]
    a = p @ (lu.tril(-1) + torch.eye(n, dtype=lu.dtype)) @ lu.triu()
    return L.solve(a.mT if adjoint else a, b, left=left)


def three_terms(first, step, shifted=False):
    def run(x, n):
        x = 2 * x - 1 if shifted else x
        p = [torch.ones_like(x) + 0 * x, first(x)]
        for k in range(1, n):
            p.append(step(x, k, p[-1], p[-2]))
        return p[n]
    return run


def chebyshev(first, shifted=False):
    return three_terms(first, lambda x, k, p, q: 2 * x * p - q, shifted)


POLYNOMIALS = {
    **{f"{pre}chebyshev_polynomial_{kind}": chebyshev(first, bool(pre)) for pre in ("", "shifted_") for kind, first in (
        ("t", lambda x: x), ("u", lambda x: 2 * x), ("v", lambda x: 2 * x - 1), ("w", lambda x: 2 * x + 1))},
    "hermite_polynomial_h": three_terms(lambda x: 2 * x, lambda x, k, p, q: 2 * x * p - 2 * k * q),
    "hermite_polynomial_he": three_terms(lambda x: x, lambda x, k, p, q: x * p - k * q),
    "laguerre_polynomial_l": three_terms(lambda x: 1 - x, lambda x, k, p, q: ((2 * k + 1 - x) * p - k * q) / (k + 1)),
    "legendre_polynomial_p": three_terms(lambda x: x, lambda x, k, p, q: ((2 * k + 1) * x * p - k * q) / (k + 1))}


def checked(of, name):
    """The gradient by the recurrence; the values must be those of torch.special."""
    def run(x, n):
        y = of(x, n)
        theirs = getattr(torch.special, name)(x.detach(), n)
        assert torch.allclose(y.detach(), theirs, rtol=1e-9, atol=1e-9), name
        return y
    return run


class Bessel(torch.autograd.Function):
    """Functions of torch.special that have no gradient there: their values, and the derivative by others of them."""

    @staticmethod
    def forward(ctx, x, name):
        y = getattr(torch.special, name)(x)
        ctx.save_for_backward(x, y)
        ctx.name = name
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        def of(name):
            return Bessel.apply(x, name)
        return g * {"bessel_j0": lambda: -of("bessel_j1"), "bessel_j1": lambda: of("bessel_j0") - y / x,
                    "bessel_y0": lambda: -of("bessel_y1"), "bessel_y1": lambda: of("bessel_y0") - y / x,
                    "modified_bessel_k0": lambda: -of("modified_bessel_k1"),
                    "modified_bessel_k1": lambda: -of("modified_bessel_k0") - y / x,
                    "scaled_modified_bessel_k0": lambda: y - of("scaled_modified_bessel_k1"),
                    "scaled_modified_bessel_k1": lambda: y - of("scaled_modified_bessel_k0") - y / x}[ctx.name](), None


def gradient_along(x, places=None, dim=0, spacing=1.0, edge_order=1):
    x = x if x.is_complex() else x.double()
    return torch.gradient(x, spacing=[spacing if places is None else places.double()], dim=dim, edge_order=edge_order)[0]


def histogram_counts(x, w, *edges, density=False):
    edges = [e.double() for e in edges]
    if len(x) == 0:
        return torch.zeros([len(e) - 1 for e in edges], dtype=torch.float64)
    return torch.histogramdd(x.detach(), edges, weight=w if w is None else w.detach(), density=density)[0]


def fractional(fn):
    def run(x, u, kernel_size, output_size=None, output_ratio=None):
        n = u.shape[2]
        kernel, size = (v * n if v is not None and len(v) == 1 else v for v in (kernel_size, output_size))
        return fn(x, kernel, size, output_ratio, True, u.detach())
    return run


def first(fn):
    return lambda *a, **kw: fn(*a, **kw)[0]


def nonzero_static(x, size, fill_value=-1):
    """Newer than the oldest PyTorch that is compared with."""
    found = torch.nonzero(x.detach())[:size]
    return torch.cat([found, torch.full((size - len(found), x.dim()), fill_value)])


def matrix_sqrth(a):
    """Newer than the oldest PyTorch that is compared with."""
    values, v = L.eigh((a + a.mT) / 2)
    return v @ torch.diag_embed(values.clamp(min=0).sqrt()) @ v.mT


def lyapunov(a, c):
    """A X + X A = C as one system of the elements of X."""
    n, one = a.shape[-1], torch.eye(a.shape[-1], dtype=a.dtype)
    if not n:
        return a + c
    whole = torch.stack([torch.kron(m, one) + torch.kron(one, m.mT.contiguous()) for m in a.reshape(-1, n, n)])
    return L.solve(whole, c.reshape(-1, n * n, 1)).reshape(c.shape)


def airy(x, slope):
    """Ai or its slope by the power series, of numbers that are not far from 0."""
    first, second = 1 / (3 ** (2 / 3) * math.gamma(2 / 3)), -1 / (3 ** (1 / 3) * math.gamma(1 / 3))
    a = [first, second, 0.0]
    for n in range(80):
        a.append(a[n] / ((n + 2) * (n + 3)))
    return math.fsum(k * c * x ** (k - 1) if slope else c * x ** k for k, c in enumerate(a) if k or not slope)


class Airy(torch.autograd.Function):
    """PyTorch's airy_ai has no gradient, and the slope is not there."""
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.tensor([airy(v, slope) for v in x.flatten().tolist()], dtype=x.dtype if x.is_floating_point() else torch.float32).reshape(x.shape)

    @staticmethod
    def backward(ctx, g):
        x, = ctx.saved_tensors
        return g * (x * Airy.apply(x, 0) if ctx.slope else Airy.apply(x, 1)), None


def linear_cross_entropy(x, w, y, bias=None, weight=None, ignore_index=-100, **kw):
    """Newer than the oldest PyTorch that is compared with."""
    logits = F.linear(x, w.reshape(-1, w.shape[-1]), None if bias is None else bias.reshape(-1))
    return F.cross_entropy(logits.reshape(*x.shape[:-1], *w.shape[:-1]), y, weight, ignore_index=ignore_index, **kw)
