#!/usr/bin/env python3
"""Rows of the op table beside PyTorch's functions of the same names, in one run, forward and with gradients.

    bench/ops.py BENCH_OPS [options]      BENCH_OPS: build/bin/bench_ops

The calls are those of bench/ops.cases, or the rows' own samples with large matrices. A ratio is our time divided by
PyTorch's: of batches of calls, with a full queue, in turn, the median of five pairs (of slow calls two). Rows above the mark are measured again,
and the median of the runs counts. One thread
of the CPU is measured in processor time, all else in wall time. With --share it is the processor time of the busiest
thread, of which other load of the machine changes little, and threads that wait sleep. GB/s is what our call reads and writes at least, divided by its time."""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "ops"))
from make_goldens import CALLS, DTYPES, parse_attr, python_number

# Where PyTorch keeps a name, and sizes: sides of matrices, batches, milliseconds of a batch of calls, ratio to be repeated.
SPACES = [F, torch.fft, torch.linalg, torch.special, torch, torch.Tensor]
# PyTorch's conj sets a mark and moves nothing: conj_physical computes what ours does. Its pivots are 32-bit integers.
OTHERS = {"conj": torch.conj_physical, "lu_solve": lambda lu, pivots, b: torch.linalg.lu_solve(lu, pivots.int(), b)}
SIZES = {"cpu": {"N": 1024, "B": 4, "ms": 10, "mark": 1.05}, "cuda": {"N": 4096, "B": 64, "ms": 4, "mark": 1.1}}
HALVES = {"bf16": torch.bfloat16, "f16": torch.float16}
DTYPES.update(HALVES)
NAMES = {t: name for name, t in DTYPES.items()}


def options():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("program")
    p.add_argument("--device", choices=SIZES, help="default: cuda where PyTorch sees a GPU")
    p.add_argument("--only", default="", help="rows that match this regular expression")
    p.add_argument("--seconds", type=float, default=150, help="stop after this time (150)")
    p.add_argument("--dtype", default="f32", choices=["f32", "f64", "bf16", "f16"], help="of floating inputs (f32)")
    p.add_argument("--side", type=int, help="N: 1024, on a GPU 4096; 10 measures the cost of a call")
    p.add_argument("--batch", type=int, help="B: 4, on a GPU 64")
    p.add_argument("--mark", type=float, help="measure again what is above: 1.05, on a GPU 1.1")
    p.add_argument("--again", type=int, default=2, help="how often (2)")
    p.add_argument("--pass", dest="passes", choices=["forward", "gradients", "both"], default="both")
    p.add_argument("--any", action="store_true", help="ours: sums by index in any order, as PyTorch's")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--progress", action="store_true", help="tell of each call before it is measured")
    p.add_argument("--share", action="store_true", help="time of the busiest thread; run with OMP_WAIT_POLICY=passive")
    p.add_argument("--samples", default=None, help="samples.tsv of the build")
    a = p.parse_args()
    a.device = a.device or ("cuda" if torch.cuda.is_available() else "cpu")
    size = SIZES[a.device]
    a.side, a.batch, a.mark, a.ms = a.side or size["N"], a.batch or size["B"], a.mark or size["mark"], size["ms"]
    a.samples = a.samples or next((f for f in (os.path.join(os.path.dirname(a.program), "..", "gen/ops/samples.tsv"),
                                               os.path.join(HERE, "samples.tsv")) if os.path.exists(f)), None)
    return a


# ---------------------------------------------------------------- which calls

def sized(text, sizes):
    """N, B and products and quotients of them as numbers."""
    return re.sub(r"(?<![\w=.])(?:\d+|[NB])(?:[*/](?:\d+|[NB]))*(?![\w=.*])|(?<==)[NB]\b(?!=)",
                  lambda m: str(max(1, eval(m[0].replace("/", "//"), {}, sizes))) if re.search("[NB*/]", m[0]) else m[0], text)


def from_samples(samples):
    """At most four calls, with matrices of N by N for those of 3 by 4."""
    out = []
    for text in samples.split(";"):
        shapes = re.findall(r"\[([\d,]*)\](?!.*=)", re.sub(r"\w+=\S+", "", text))
        if shapes and shapes[0] == "3,4" and all(s in ("3,4", "4", "3,1") for s in shapes):
            out.append(re.sub(r"(?<!=)\[([134,]+)\]", lambda m: f"[{re.sub('[34]', 'N', m[1])}]", text.strip()))
    return out[:4]


def table(samples, only):
    """Of each row: name, inputs without a gradient (bits), kinds of attributes, calls."""
    cases = {}
    for line in open(os.path.join(HERE, "ops.cases")):
        if line.strip() and line[0] != "#":
            name, calls = line.split(":", 1)
            cases[name] = [c.strip() for c in calls.split(";") if c.strip() != "-"]
    for line in open(samples):
        name, fixed, kinds, text = line.rstrip("\n").split("\t")
        if re.search(only, name):
            yield name, int(fixed), dict(k.split(":") for k in kinds.split()), cases[name] if name in cases else from_samples(text)


def returns_operand(row, text, dtype):
    """Does PyTorch return its operand itself? The row, which copies, is not asked then by the shell, either."""
    return row[0] == "to" and text.startswith("f[") and text.endswith(f"dtype={dtype}")


# ---------------------------------------------------------------- operands

def make(kind, k, shape, dtype, device):
    """One operand, as the op table's head says."""
    real = lambda: torch.rand(shape, device=device)
    side = shape[-1] if shape else 1
    if kind in "mwt":
        x = torch.randn(shape, device=device)
        v = {"m": lambda: x @ x.transpose(-1, -2) / side + torch.eye(side, device=device),
             "w": lambda: x / (4 * side ** 0.5) + 2 * torch.eye(side, device=device),
             "t": lambda: (x / (4 * side ** 0.5) + 2 * torch.eye(side, device=device)).tril()}[kind]()
        return v.to(dtype)
    ints = {"n": (0, k), "l": (1, k + 1), "k": (k, k + 1)}
    if kind in ints:
        return torch.randint(*ints[kind], shape, device=device)
    if kind == "r":
        return torch.linspace(0, k, shape[0], device=device).long()
    if kind == "c":
        return torch.randn(shape, dtype=torch.complex128 if dtype == torch.float64 else torch.complex64, device=device)
    if kind == "b":
        return torch.randn(shape, device=device) > 0
    return {"f": lambda: torch.randn(shape, device=device), "d": lambda: torch.randn(shape, device=device),
            "p": lambda: real() * 1.5 + 0.5, "u": lambda: real() * 1.8 - 0.9, "q": lambda: real() * 0.9 + 0.05,
            "o": lambda: torch.randn(shape, device=device).sign()}[kind]().to(dtype)


def by_thread():
    """Processor times of this process's threads in seconds, by clocks that Linux makes of their numbers."""
    return {t: time.clock_gettime(~int(t) << 3 | 6) for t in os.listdir("/proc/self/task")}


class Ended(RuntimeError):
    """bench_ops is no longer there."""


class Ours:
    """bench_ops, and the operands that it holds; those of PyTorch beside them."""
    ROOM = 200

    def __init__(self, a):
        self.a, self.kept = a, {}
        self.process = subprocess.Popen([a.program, a.device, str(a.threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        self.dtype = DTYPES[a.dtype]
        self.answer()
        self.clock = lambda: {"": time.perf_counter()}
        if a.any:
            self.ask("set", "any")
        if a.share:
            self.ask("set", "thread")
            self.clock = by_thread
        elif a.device == "cpu" and a.threads == 1:
            self.ask("set", "processor")
            self.clock = lambda: {"": time.process_time()}

    def answer(self):
        word, _, rest = self.process.stdout.readline().rstrip("\n").partition(" ")
        if not word:
            raise Ended(f"bench_ops has ended with status {self.process.wait()}")
        if word != "ok":
            raise RuntimeError(rest)
        return rest

    def ask(self, *fields):
        try:
            self.process.stdin.write("\t".join(map(str, fields)) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # answer() tells of the end
        return self.answer()

    def operand(self, token, place):
        """Number and PyTorch's tensor of a token; equal tokens at several places are several tensors."""
        if token == "-":
            return "-", None
        if (token, place) in self.kept:
            return self.kept[token, place]
        if len(self.kept) >= self.ROOM:
            self.kept.clear()
        k = len(self.kept)
        if token.startswith("s:"):
            value = python_number(token)
            self.ask("number", k, repr(value))
            pair = k, value
        elif token.endswith("'"):
            base, t = self.operand(token[:-1], place)
            k = len(self.kept)
            self.ask("turn", k, base)
            pair = k, t.transpose(-1, -2)
        else:
            kind, number, shape = re.fullmatch(r"(\w)(?::(\d+))?\[([\d,]*)\]", token).groups()
            shape = [int(v) for v in shape.split(",") if v]
            t = make(kind, int(number or 0), shape, self.dtype, self.a.device)
            file = os.path.join(self.folder.name, "x")
            (t.view(torch.int16) if t.dtype in HALVES.values() else t).cpu().numpy().tofile(file)
            self.ask("load", k, NAMES[t.dtype], ",".join(map(str, shape)), file)
            pair = k, t
        self.kept[token, place] = pair
        return pair


# ---------------------------------------------------------------- PyTorch's part

def counterpart(name, args, kw):
    """PyTorch's function of this name that takes the call, and the call's first result."""
    found = [OTHERS[name]] if name in OTHERS else [getattr(s, name) for s in SPACES if callable(getattr(s, name, None))]
    if not found:
        return None
    single = {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in kw.items()}
    for fn in found + ([CALLS[name]] if name in CALLS else []):
        for words in (single, kw):
            try:
                return (lambda: fn(*args, **words)), first(fn(*args, **words))
            except (TypeError, RuntimeError, ValueError, IndexError, AttributeError, NotImplementedError) as e:
                error = e
                if "not implemented for" in str(e):  # of a dtype: what the goldens do in its place is not PyTorch's speed
                    raise RuntimeError(f"PyTorch: {e}".split("\n")[0]) from None
    raise RuntimeError(f"PyTorch: {error}".split("\n")[0])


def first(y):
    return y if isinstance(y, torch.Tensor) else first(y[0])


def finish(device):
    if device == "cuda":
        torch.cuda.synchronize()


def bytes_of(*tensors):
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, torch.Tensor))


class Case:
    """A call with its operands on both sides."""
    LONG = 2  # seconds after which a slow one has two pairs at least, instead of five

    def __init__(self, ours, name, fixed, kinds, text):
        self.ours, self.name, self.text = ours, name, text
        tokens = sized(text, {"N": ours.a.side, "B": ours.a.batch}).split()
        self.attrs = " ".join(t for t in tokens if "=" in t)
        if "device" in kinds and ours.a.device == "cuda":
            self.attrs += " device=cuda"
        kw = {k: parse_attr(kinds[k], v) for k, v in (t.split("=", 1) for t in tokens if "=" in t)}
        if "device" in kinds:
            kw["device"] = ours.a.device
        given = [t for t in tokens if "=" not in t]
        places = [given[:i].count(t) for i, t in enumerate(given)]
        if len(ours.kept) + 2 * len(given) >= ours.ROOM:
            ours.kept.clear()
        pairs = [ours.operand(t, n) for t, n in zip(given, places)]
        self.slots, args = [p[0] for p in pairs], [p[1] for p in pairs]
        self.leaves = [p for i, p in enumerate(pairs) if isinstance(p[1], torch.Tensor) and given[i][-1] != "'" and
                       (p[1].is_floating_point() or p[1].is_complex()) and not fixed >> i & 1]
        if args and isinstance(args[0], (int, float)):
            args[0] = torch.tensor(float(args[0]), device=ours.a.device)
        self.args, self.kw = args, kw
        self.call = None

    def prepare(self, grad):
        """Chooses the pass; False: there is none."""
        leaves = self.leaves if grad else []
        for _, t in self.leaves:
            t.requires_grad_(grad)
        try:
            with torch.set_grad_enabled(grad):
                found = counterpart(self.name, self.args, self.kw)
            if not found or grad and not (leaves and found[1].requires_grad):
                return False
            self.fn, y = found
            self.grad, self.seed, self.tensors = grad, torch.ones_like(y), [t for _, t in leaves]
            self.bytes = bytes_of(*self.args, y) + (bytes_of(y, *self.tensors) if grad else 0)
            self.theirs()
            shape = self.ours.ask("call", self.name, ",".join(map(str, self.slots)), self.attrs, ",".join(str(k) for k, _ in leaves))
            if shape != ",".join(map(str, y.shape)) and self.name not in ("nonzero", "masked_select"):
                raise RuntimeError(f"shapes differ: {shape} here, {list(y.shape)} there")
            return True
        finally:
            if not grad:
                for _, t in self.leaves:
                    t.requires_grad_(False)

    def theirs(self):
        with torch.set_grad_enabled(self.grad):
            y = self.fn()
            if self.grad:
                torch.autograd.grad(first(y), self.tensors, self.seed, allow_unused=True)

    def their_time(self, n):
        start = self.ours.clock()
        for _ in range(n):
            self.theirs()
        finish(self.ours.a.device)
        return max(v - start.get(k, 0) for k, v in self.ours.clock().items()) / n * 1e6

    def our_time(self, n):
        return float(self.ours.ask("time", n))

    def measure(self):
        """Microseconds of both, least of five, and the median of the ratios of pairs."""
        goal, counts, began = self.ours.a.ms * 1e3, [], time.monotonic()
        for run in (self.our_time, self.their_time):
            n = 1
            while True:
                each = run(n)
                if each * n > goal / 4 or n > 100000:
                    break
                n = min(n * 10, int(goal / max(each, 0.1)) + 1)
            counts.append(max(1, int(goal / max(each, 0.1))))
        pairs = []
        while len(pairs) < 2 or len(pairs) < 5 and time.monotonic() - began < self.LONG:
            pairs.append((self.our_time(counts[0]), self.their_time(counts[1])))
        return min(p[0] for p in pairs), min(p[1] for p in pairs), statistics.median(p[0] / p[1] for p in pairs)


def main():
    a = options()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    ours, started = Ours(a), time.monotonic()
    jobs = [(row, text, grad) for row in table(a.samples, a.only) for text in row[3] for grad in (False, True)
            if a.passes in ("both", "gradients" if grad else "forward") and not returns_operand(row, text, a.dtype)]
    times, failed, left = {}, [], 0

    def visit(jobs):
        nonlocal ours
        left = 0
        for row, text, grad in jobs:
            if time.monotonic() - started > a.seconds:
                left += 1
                continue
            name, fixed, kinds, _ = row
            if a.progress:
                print(f"{time.monotonic() - started:6.1f} {name} {text}{' gradients' if grad else ''}", file=sys.stderr, flush=True)
            try:
                case = Case(ours, name, fixed, kinds, text)
                if case.prepare(grad):
                    times.setdefault((name, text, grad), []).append((*case.measure(), case.bytes))
            except Exception as e:
                failed.append(f"{name} {text}{' gradients' if grad else ''}: {str(e)[:150]}")
                if isinstance(e, Ended):
                    ours = Ours(a)
        return left

    def ratio(key):
        return statistics.median(t[2] for t in times[key])

    left = visit(jobs)
    for _ in range(a.again):
        left += visit([j for j in jobs if (k := (j[0][0], j[1], j[2])) in times and ratio(k) > a.mark])
    print(f"# {a.device} {a.dtype}, N = {a.side}, B = {a.batch}, {a.threads} threads on the CPU, PyTorch {torch.__version__}")
    print(f"{'ratio':>6}{'ours us':>12}{'torch us':>12}{'GB/s':>8}  call")
    for key in sorted(times, key=ratio, reverse=True):
        us, theirs = (min(t[i] for t in times[key]) for i in (0, 1))
        print(f"{ratio(key):6.2f}{us:12.1f}{theirs:12.1f}{times[key][0][3] / us * 1e-3:8.0f}  {key[0]} {key[1]}{'  gradients' if key[2] else ''}")
    for line in failed:
        print(f"# failed: {line}")
    above = sum(ratio(k) > a.mark for k in times)
    names = {k[0] for k in times}
    rest = sorted({j[0][0] for j in jobs} - names)
    print(f"# {len(times)} calls of {len(names)} rows in {time.monotonic() - started:.0f} s, {above} above {a.mark}; "
          f"{left} not measured for want of time; not compared: {' '.join(rest)}")


if __name__ == "__main__":
    main()
