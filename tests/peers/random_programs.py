#!/usr/bin/python3
"""Gradients of random programs: libdlcore through ctypes against PyTorch.

    tests/peers/random_programs.py LIBDLCORE [PROGRAMS [SEED]]

Each program applies 4 to 12 random ops to random leaves, in f64 and in f32, and differentiates a weighted sum of the last
result. f64: error against PyTorch's f64 at most 1e-10. f32: at most max(1e-5, 4 times PyTorch's own f32 error). Errors are
relative to the largest gradient. Exit 77 (skipped) without PyTorch."""
import ctypes as C
import random
import sys

try:
    import numpy as np
    import torch
except ImportError as e:
    print(f"skipped: {e}; Debian's python3-torch has it")
    sys.exit(77)

P = C.c_void_p


def bind(path):
    lib = C.CDLL(path)
    for name, result, args in [
            ("dl_errmsg", C.c_char_p, []), ("dl_tensor_from", P, [C.c_int, P, C.c_int, C.c_int, P]), ("dl_unref", None, [P]),
            ("dl_set_requires_grad", C.c_int, [P, C.c_int]), ("dl_grad", P, [P]), ("dl_ndim", C.c_int, [P]),
            ("dl_shape", C.POINTER(C.c_long), [P]), ("dl_numel", C.c_long, [P]), ("dl_read_f64", C.c_int, [P, P]),
            ("dl_backward", C.c_int, [P, P, C.c_int, C.c_int]), ("dl_to_dtype", P, [P, C.c_int]),
            ("dl_scalar_f", P, [C.c_double]),
            ("dl_op_call", C.c_int, [C.c_char_p, P, C.c_int, C.c_char_p, P, C.POINTER(C.c_int)])]:
        fn = getattr(lib, name)
        fn.restype, fn.argtypes = result, args
    return lib


class Ours:
    """The few calls a program needs, on tensors of libdlcore."""
    DTYPE = {torch.float32: 6, torch.float64: 7}

    def __init__(self, lib):
        self.lib, self.live = lib, []

    def keep(self, t):
        if not t:
            raise RuntimeError(self.lib.dl_errmsg().decode())
        self.live.append(t)
        return t

    def leaf(self, array, dtype):
        a = np.ascontiguousarray(array, dtype=np.float32 if dtype == torch.float32 else np.float64)
        shape = (C.c_long * a.ndim)(*a.shape)
        t = self.keep(self.lib.dl_tensor_from(a.ndim, shape, self.DTYPE[dtype], 0, a.ctypes.data_as(P)))
        assert self.lib.dl_set_requires_grad(t, 1) == 0
        return t

    def op(self, name, inputs, attrs=""):
        arr, out, n = (P * len(inputs))(*inputs), (P * 8)(), C.c_int()
        if self.lib.dl_op_call(name.encode(), arr, len(inputs), attrs.encode(), out, C.byref(n)):
            raise RuntimeError(self.lib.dl_errmsg().decode())
        for i in range(n.value):
            self.live.append(out[i])
        return out[0]

    def number(self, v):
        return self.keep(self.lib.dl_scalar_f(v))

    def shape(self, t):
        s = self.lib.dl_shape(t)
        return [s[i] for i in range(self.lib.dl_ndim(t))]

    def read(self, t):
        a = np.empty(self.lib.dl_numel(t))
        assert self.lib.dl_read_f64(t, a.ctypes.data_as(P)) == 0
        return a

    def free(self):
        for t in self.live:
            self.lib.dl_unref(t)
        self.live = []


def ints(v):
    return "[" + ",".join(str(i) for i in v) + "]"


# Each rule looks at the tensors so far (PyTorch's, in f64) and gives None or (name, operand indices, attributes, PyTorch).
def unary(r, vals):
    name, fn = r.choice([
        ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("sin", torch.sin), ("cos", torch.cos), ("neg", torch.neg),
        ("gelu", torch.nn.functional.gelu), ("silu", torch.nn.functional.silu), ("square", torch.square),
        ("softplus", torch.nn.functional.softplus), ("atan", torch.atan), ("erf", torch.erf), ("relu", torch.relu),
        ("abs", torch.abs), ("leaky_relu", torch.nn.functional.leaky_relu)])
    return name, [r.randrange(len(vals))], "", fn


def bounded(r, vals):
    """Functions that grow fast or need a positive operand, behind one that bounds it."""
    i = r.randrange(len(vals))
    if vals[i].numel() == 0 or vals[i].abs().max() > 3:
        return None
    return (("exp", [i], "", torch.exp) if r.random() < 0.7 else ("expm1", [i], "", torch.expm1))


def binary(r, vals):
    i, j = r.randrange(len(vals)), r.randrange(len(vals))
    try:
        torch.broadcast_shapes(vals[i].shape, vals[j].shape)
    except RuntimeError:
        return None
    name, fn = r.choice([("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("maximum", torch.maximum),
                         ("minimum", torch.minimum)])
    return name, [i, j], "", fn


def matmul(r, vals):
    i, j = r.randrange(len(vals)), r.randrange(len(vals))
    a, b = vals[i].shape, vals[j].shape
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        return None
    return "matmul", [i, j], "", torch.matmul


def gram(r, vals):
    i = r.randrange(len(vals))
    return None if vals[i].dim() != 2 else ("permute", [i], "dims=[1,0]", lambda x: x.permute(1, 0))


def reduce(r, vals):
    i = r.randrange(len(vals))
    x = vals[i]
    if x.dim() == 0:
        return None
    d, keep = r.randrange(x.dim()), r.random() < 0.6
    name, fn = r.choice([("sum", torch.sum), ("mean", torch.mean), ("amax", torch.amax), ("logsumexp", torch.logsumexp)])
    return name, [i], f"dim={d} keepdim={'true' if keep else 'false'}", lambda t: fn(t, dim=d, keepdim=keep)


def along(r, vals):
    i = r.randrange(len(vals))
    if vals[i].dim() == 0:
        return None
    d = r.randrange(vals[i].dim())
    name, fn = r.choice([("softmax", torch.softmax), ("log_softmax", torch.log_softmax), ("cumsum", torch.cumsum)])
    return name, [i], f"dim={d}", lambda t: fn(t, dim=d)


def shape_op(r, vals):
    i = r.randrange(len(vals))
    x = vals[i]
    if x.dim() == 0:
        return None
    d, kind = r.randrange(x.dim()), r.randrange(4)
    n = x.shape[d]
    if kind == 0:
        order = list(range(x.dim()))
        r.shuffle(order)
        return "permute", [i], f"dims={ints(order)}", lambda t: t.permute(order)
    if kind == 1 and n > 1:
        a, step = r.randrange(n - 1), r.choice([1, 2])
        return "slice", [i], f"dim={d} start={a} step={step}", lambda t: t[(slice(None),) * d + (slice(a, None, step),)]
    if kind == 2:
        return "reshape", [i], "shape=[-1]", lambda t: t.reshape(-1)
    return "flip", [i], f"dims=[{d}]", lambda t: t.flip(d)


def join(r, vals):
    i, j = r.randrange(len(vals)), r.randrange(len(vals))
    if vals[i].dim() == 0 or vals[i].shape[1:] != vals[j].shape[1:] or vals[j].dim() != vals[i].dim():
        return None
    return "cat", [i, j], "dim=0", lambda a, b: torch.cat([a, b], 0)


def positive(r, vals):
    """Functions of positive operands, where one stays clear of zero."""
    i = r.randrange(len(vals))
    if vals[i].min() < 0.2:
        return None
    name, fn = r.choice([("log", torch.log), ("sqrt", torch.sqrt), ("rsqrt", torch.rsqrt), ("log1p", torch.log1p),
                         ("reciprocal", torch.reciprocal), ("log2", torch.log2)])
    return name, [i], "", fn


def quotient(r, vals):
    i, j = r.randrange(len(vals)), r.randrange(len(vals))
    if vals[j].abs().min() < 0.2 or vals[i].shape != vals[j].shape:
        return None
    return "div", [i, j], "", torch.div


def limited(r, vals):
    return "clamp", [r.randrange(len(vals))], "min=-0.5 max=0.75", lambda t: t.clamp(-0.5, 0.75)


def spread(r, vals):
    """Statistics along a dimension whose elements differ."""
    i = r.randrange(len(vals))
    x = vals[i]
    if x.dim() == 0 or x.shape[-1] < 2 or torch.var(x, dim=-1).min() < 1e-2:
        return None
    d = x.dim() - 1
    name, fn = r.choice([("var", torch.var), ("std", torch.std), ("norm", lambda t, dim: torch.linalg.vector_norm(t, dim=dim))])
    return name, [i], f"dim={d}", lambda t: fn(t, dim=d)


def wider(r, vals):
    i = r.randrange(len(vals))
    if vals[i].dim() == 0 or vals[i].dim() > 2:
        return None
    return (("expand", [i], f"size={ints([2, *vals[i].shape])}", lambda t: t.expand(2, *t.shape)) if r.random() < 0.5
            else ("stack", [i, i], "dim=0", lambda a, b: torch.stack([a, b])))


def convolve(r, vals):
    """Images and filters cut out of what is there: [1,1,H,W] by [1,1,h,w]."""
    i = r.randrange(len(vals))
    x = vals[i]
    if x.dim() == 4 and min(x.shape[2:]) > 1:
        return "max_pool2d", [i], "kernel_size=2 stride=1", lambda t: torch.nn.functional.max_pool2d(t, 2, 1)
    if x.dim() == 2 and min(x.shape) > 1:
        return "reshape", [i], f"shape={ints([1, 1, *x.shape])}", lambda t: t.reshape(1, 1, *t.shape)
    four = [k for k, v in enumerate(vals) if v.dim() == 4]
    if len(four) < 2:
        return None
    a, b = r.choice(four), r.choice(four)
    if vals[a].shape[1] != vals[b].shape[1]:
        return None
    return "conv2d", [a, b], "padding=[2,2]", lambda u, v: torch.nn.functional.conv2d(u, v, padding=2) \
        if all(n + 4 >= m for n, m in zip(u.shape[2:], v.shape[2:])) else torch.zeros(0)


RULES = [unary, unary, bounded, binary, binary, matmul, gram, reduce, along, shape_op, join, positive, quotient, limited,
         spread, wider, convolve, convolve]


def make_program(r):
    sizes = [r.choice([1, 2, 3, 5]) for _ in range(2)]
    leaves = []
    for _ in range(r.randint(1, 3)):
        shape = [r.choice(sizes) for _ in range(r.choice([1, 2, 2, 3]))]
        leaves.append(np.random.RandomState(r.randrange(2**31)).randn(*shape).astype(np.float32))
    vals, steps = [torch.tensor(x, dtype=torch.float64) for x in leaves], []
    for _ in range(r.randint(4, 12)):
        for _ in range(20):
            step = r.choice(RULES)(r, vals)
            if step is None:
                continue
            out = step[3](*[vals[i] for i in step[1]])
            if 0 < out.numel() <= 2000 and torch.isfinite(out).all() and out.abs().max() < 1e4:
                steps.append(step)
                vals.append(out)
                break
    return leaves, steps


def weights(n):
    return (0.5 + (0.37 * np.arange(1, n + 1)) % 1).astype(np.float32).astype(np.float64)


def run_torch(leaves, steps, dtype):
    xs = [torch.tensor(x, dtype=dtype, requires_grad=True) for x in leaves]
    vals = list(xs)
    for _, idx, _, fn in steps:
        vals.append(fn(*[vals[i] for i in idx]))
    last = vals[-1]
    (last.reshape(-1) * torch.tensor(weights(last.numel()), dtype=dtype)).sum().backward()
    return [x.grad.double().numpy().ravel() if x.grad is not None else np.zeros(x.numel()) for x in xs]


def run_ours(ours, leaves, steps, dtype):
    xs = [ours.leaf(x, dtype) for x in leaves]
    vals = list(xs)
    for name, idx, attrs, _ in steps:
        vals.append(ours.op(name, [vals[i] for i in idx], attrs))
    flat = ours.op("reshape", [vals[-1]], "shape=[-1]")
    w = ours.leaf(weights(ours.shape(flat)[0]), dtype)
    total = ours.op("sum", [ours.op("mul", [flat, w])])
    if ours.lib.dl_backward(total, None, 0, 0):
        raise RuntimeError(ours.lib.dl_errmsg().decode())
    grads = [ours.lib.dl_grad(x) for x in xs]
    got = [ours.read(g) if g else np.zeros(x.size) for g, x in zip(grads, leaves)]
    ours.free()
    return got


def error(got, want):
    scale = max([1.0] + [np.abs(w).max() for w in want if w.size])
    return max(np.abs(g - w).max() / scale if w.size else 0.0 for g, w in zip(got, want))


def main():
    ours = Ours(bind(sys.argv[1]))
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    bad, worst64, worst32 = 0, 0.0, 0.0
    for k in range(count):
        r = random.Random(seed * 1000003 + k)
        leaves, steps = make_program(r)
        if not steps:
            continue
        want = run_torch(leaves, steps, torch.float64)
        try:
            e64 = error(run_ours(ours, leaves, steps, torch.float64), want)
            e32 = error(run_ours(ours, leaves, steps, torch.float32), want)
        except RuntimeError as e:
            e64 = e32 = float("inf")
            print(e)
        allowed = max(1e-5, 4 * error(run_torch(leaves, steps, torch.float32), want))
        worst64, worst32 = max(worst64, e64), max(worst32, e32 / allowed)
        if e64 > 1e-10 or e32 > allowed:
            bad += 1
            print(f"program {k} of seed {seed}: f64 error {e64:.2g}, f32 error {e32:.2g} (allowed {allowed:.2g})")
            for name, idx, attrs, _ in steps:
                print(f"    {name} {idx} {attrs}")
    print(f"{count - bad} of {count} programs agree; worst f64 error {worst64:.2g}, f32 error at most {worst32:.2g} of what is allowed")
    sys.exit(1 if bad else 0)


main()
