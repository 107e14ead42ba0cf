#!/usr/bin/env python3
"""Writes goldens.h: parameters after steps of PyTorch's optimizers in f64, rates of its schedules, clipped gradients.

The gradient at p is p * scale + shift, so that it depends on the steps before. Run it where PyTorch is installed:
    python3 tests/optim/make_goldens.py > tests/optim/goldens.h
"""
import ast
import inspect
import math
import pathlib
import re

import torch

torch.set_default_dtype(torch.float64)  # of numbers that optimizers keep

START, SCALE, SHIFT = [0.5, -1.25, 2.0, 0.125], [1.0, 0.5, -0.25, 3.0], [0.1, -0.2, 0.3, 0.0]
FEW, STEPS = 6, 100  # after both the parameters are written down
WHOLE = ("adafactor",)  # which treats a matrix in another way than a vector
TABLE = pathlib.Path(__file__).resolve().parents[2] / "libcore/optim/optimizers.def"


def value(text):
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else tuple(ast.literal_eval(text)) if text[0] == "[" else float(text)


class Lion:
    """Chen et al. (2023), algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0):
        self.p, self.lr, self.betas, self.decay, self.m = params[0], lr, betas, weight_decay, 0

    def step(self):
        with torch.no_grad():
            c = self.betas[0] * self.m + (1 - self.betas[0]) * self.p.grad
            self.p.sub_(self.lr * (c.sign() + self.decay * self.p))
            self.m = self.betas[1] * self.m + (1 - self.betas[1]) * self.p.grad


class NAdam:
    """As PyTorch documents it; before 2.0 its product of momenta had a factor too many."""

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3):
        self.p, self.lr, self.betas, self.eps, self.l2, self.decay = params[0], lr, betas, eps, weight_decay, momentum_decay
        self.t, self.product, self.m, self.v = 0, 1.0, 0, 0

    def mu(self, t):
        return self.betas[0] * (1 - 0.5 * 0.96 ** (t * self.decay))

    def step(self):
        with torch.no_grad():
            g = self.p.grad + self.l2 * self.p
            self.t += 1
            self.product *= self.mu(self.t)
            self.m = self.betas[0] * self.m + (1 - self.betas[0]) * g
            self.v = self.betas[1] * self.v + (1 - self.betas[1]) * g * g
            root = (self.v / (1 - self.betas[1] ** self.t)).sqrt() + self.eps
            ahead = self.mu(self.t + 1)
            self.p.sub_(self.lr * ((1 - self.mu(self.t)) / (1 - self.product) * g + ahead / (1 - self.product * ahead) * self.m) / root)


class Lars:
    """You, Gitman, Ginsburg (2017), algorithm 1, with weight decay in the momentum."""

    def __init__(self, params, lr=1.0, momentum=0.9, weight_decay=0, trust_coefficient=1e-3, eps=1e-8, nesterov=False, adapt=True):
        self.p, self.lr, self.momentum, self.l2, self.eps = params[0], lr, momentum, weight_decay, eps
        self.trust, self.nesterov, self.buffer = trust_coefficient if adapt else None, nesterov, 0

    def step(self):
        with torch.no_grad():
            d = self.p.grad + self.l2 * self.p
            if self.trust is not None:
                size = torch.linalg.norm(self.p)
                d = d * self.trust * size / (torch.linalg.norm(self.p.grad) + self.l2 * size + self.eps)
            self.buffer = self.momentum * self.buffer + d
            self.p.sub_(self.lr * (d + self.momentum * self.buffer if self.nesterov else self.buffer))


class Lamb:
    """You et al. (2020), algorithm 2."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0, adapt=True):
        self.p, self.lr, self.betas, self.eps, self.decay, self.adapt = params[0], lr, betas, eps, weight_decay, adapt
        self.t, self.m, self.v = 0, 0, 0

    def step(self):
        with torch.no_grad():
            self.t += 1
            self.m = self.betas[0] * self.m + (1 - self.betas[0]) * self.p.grad
            self.v = self.betas[1] * self.v + (1 - self.betas[1]) * self.p.grad ** 2
            m, v = self.m / (1 - self.betas[0] ** self.t), self.v / (1 - self.betas[1] ** self.t)
            u = m / (v.sqrt() + self.eps) + self.decay * self.p
            ratio = torch.linalg.norm(self.p) / torch.linalg.norm(u) if self.adapt else 1
            self.p.sub_(self.lr * ratio * u)


class Muon:
    """As PyTorch 2.9 has it, in the parameter's dtype; a vector is a matrix of one column."""

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, eps=1e-7, ns_steps=5, match_rms_adamw=False):
        self.p, self.lr, self.decay, self.momentum, self.nesterov = params[0], lr, weight_decay, momentum, nesterov
        self.eps, self.steps, self.match, self.buffer = eps, int(ns_steps), match_rms_adamw, torch.zeros_like(params[0])

    def step(self):
        with torch.no_grad():
            self.buffer.lerp_(self.p.grad, 1 - self.momentum)
            x = self.p.grad.lerp(self.buffer, self.momentum) if self.nesterov else self.buffer
            x = x.reshape(len(x), -1)
            high, wide = x.shape
            x = x.T if high > wide else x
            x = x / x.norm().clamp(min=self.eps)
            for _ in range(self.steps):
                gram = x @ x.T
                x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
            x = x.T if high > wide else x
            ratio = 0.2 * math.sqrt(max(high, wide)) if self.match else math.sqrt(max(1, high / wide))
            self.p.mul_(1 - self.lr * self.decay).sub_(self.lr * ratio * x.reshape(self.p.shape))


class Adafactor:
    """As PyTorch 2.5 has it."""

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0):
        self.p, self.lr, self.power, self.eps, self.d, self.decay = params[0], lr, beta2_decay, eps, d, weight_decay
        self.t, self.kept = 0, [torch.zeros(())] * 2

    def average(self, i, now):
        self.kept[i] = self.kept[i] + self.t ** self.power * (now - self.kept[i])
        return self.kept[i]

    def step(self):
        with torch.no_grad():
            self.t += 1
            p, square, eps = self.p, self.p.grad ** 2, self.eps[0] or torch.finfo(self.p.dtype).eps
            length = max(self.eps[1], float(p.norm()) / p.numel() ** 0.5)
            if p.dim() > 1:
                rows, columns = (self.average(i, square.mean(-1 - i, keepdim=True)) for i in range(2))
                v = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps)
            else:
                v = self.average(0, square)
            u = p.grad * v.clamp(min=eps ** 2).rsqrt()
            u = u / max(1, float(u.norm()) / (u.numel() ** 0.5 * self.d))
            p.mul_(1 - self.lr * self.decay).sub_(length * min(self.lr, self.t ** -0.5) * u)


def made(make, p, options):
    """A step of the optimizer; options that it is too old for are applied beside it."""
    options, known = dict(options), inspect.signature(make.__init__).parameters
    uphill = "maximize" not in known and options.pop("maximize", False)
    shrink = 0
    if "decoupled_weight_decay" not in known and options.pop("decoupled_weight_decay", False):
        shrink = options["lr"] * options.pop("weight_decay")
    opt = make([p], **options)

    def step():
        with torch.no_grad():
            p.mul_(1 - shrink)
        if uphill:
            p.grad = -p.grad
        if make is torch.optim.SparseAdam:
            p.grad = p.grad.to_sparse()
        opt.step()

    return step


def optimizers():
    """Each row's samples: text, PyTorch's class, which has the row's name in some capitals, and its options."""
    classes = {name.lower(): cls for name, cls in vars(torch.optim).items() if isinstance(cls, type)}
    own = {name.lower(): cls for name, cls in globals().items() if isinstance(cls, type)}
    nadam = classes["nadam"] if torch.__version__ >= "2" else NAdam
    classes = {**own, **classes, "nadam": nadam, "muon": Muon}  # PyTorch's Muon refuses vectors
    for name, samples in re.findall(r"^OPTIMIZER\((\w+),.*?^    SAMPLES\((.*?)\)\)$", TABLE.read_text(), re.M | re.S):
        for sample in "".join(re.findall(r'"(.*?)"', samples)).split(";"):
            options = re.findall(r"(\w+)=(\[.*?\]|\S+)", sample)
            yield " ".join((name + " " + sample).split()), classes[name.replace("_", "")], {key: value(text) for key, text in options}


S = torch.optim.lr_scheduler
RATES = 200


def wsd(t, stable, decay, low=0.0, shape=lambda u: 1 - u):
    left = shape(min(max(t - stable, 0) / decay, 1))
    return low + (1 - low) * left


def sequential(o):
    parts = [S.LinearLR(o, 0.1, 1.0, 40), S.ExponentialLR(o, 0.98), S.StepLR(o, 20, 0.5)]
    return S.SequentialLR(o, parts, [40, 120])


SCHEDULES = [
    ("constant", lambda o: S.ConstantLR(o, 1.0, 0)),
    ("constant 0.25 50", lambda o: S.ConstantLR(o, 0.25, 50)),
    ("constantlr", lambda o: S.ConstantLR(o)),
    ("constantlr 0.2 40", lambda o: S.ConstantLR(o, 0.2, 40)),
    ("linearlr", lambda o: S.LinearLR(o)),
    ("linearlr 0.5 0.1 60", lambda o: S.LinearLR(o, 0.5, 0.1, 60)),
    ("step 30 gamma=0.5", lambda o: S.StepLR(o, 30, 0.5)),
    ("multistep [20, 50, 51, 160] gamma=0.1", lambda o: S.MultiStepLR(o, [20, 50, 51, 160], 0.1)),
    ("exponential 0.98", lambda o: S.ExponentialLR(o, 0.98)),
    ("cosine 230 min=0.01", lambda o: S.CosineAnnealingLR(o, 230, 0.01)),
    ("restarts 30", lambda o: S.CosineAnnealingWarmRestarts(o, 30)),
    ("restarts 12 mult=2 min=0.01", lambda o: S.CosineAnnealingWarmRestarts(o, 12, 2, 0.01)),
    ("linear 75 start=0.25 end=1", lambda o: S.LinearLR(o, 0.25, 1.0, 75)),
    ("warmup 60", lambda o: S.LambdaLR(o, lambda t: min((t + 1) / 60, 1))),
    ("polynomial 170 power=2", lambda o: S.PolynomialLR(o, 170, 2.0) if hasattr(S, "PolynomialLR") else S.LambdaLR(o, lambda t: (1 - min(t, 170) / 170) ** 2)),
    ("onecycle 200", lambda o: S.OneCycleLR(o, 0.1, 200, cycle_momentum=False)),
    ("onecycle 200 pct_start=0.4 div_factor=10 final_div_factor=100 anneal_strategy=linear",
     lambda o: S.OneCycleLR(o, 0.1, 200, pct_start=0.4, div_factor=10, final_div_factor=100, anneal_strategy="linear", cycle_momentum=False)),
    ("onecycle 200 three_phase=true", lambda o: S.OneCycleLR(o, 0.1, 200, three_phase=True, cycle_momentum=False)),
    ("onecycle max_lr=0.3 epochs=10 steps_per_epoch=20",
     lambda o: S.OneCycleLR(o, 0.3, epochs=10, steps_per_epoch=20, cycle_momentum=False)),
    ("cyclic 0.5 base_lr=0.2 step_size_up=20", lambda o: S.CyclicLR(o, 0.2, 0.5, 20, cycle_momentum=False)),
    ("cyclic 0.5 step_size_up=20", lambda o: S.CyclicLR(o, 0.1, 0.5, 20, cycle_momentum=False)),
    ("cyclic 0.5 20 step_size_down=31 mode=triangular2",
     lambda o: S.CyclicLR(o, 0.1, 0.5, 20, 31, "triangular2", cycle_momentum=False)),
    ("cyclic 0.4 17 mode=exp_range gamma=0.99", lambda o: S.CyclicLR(o, 0.1, 0.4, 17, None, "exp_range", 0.99, cycle_momentum=False)),
    ("wsd 100 50", lambda o: S.LambdaLR(o, lambda t: wsd(t, 100, 50))),
    ("wsd 100 150 min=0.01 shape=sqrt", lambda o: S.LambdaLR(o, lambda t: wsd(t, 100, 150, 0.1, lambda u: 1 - u**0.5))),
    ("wsd 20 170 shape=cosine warmup=30",
     lambda o: S.LambdaLR(o, lambda t: (t + 1) / 30 if t < 30 else wsd(t - 30, 20, 170, 0, lambda u: (1 + math.cos(math.pi * u)) / 2))),
    ("chained; constant 0.1 30; exponential 0.99",
     lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 30), S.ExponentialLR(o, 0.99)])),
    ("sequential [40, 120]; linear 40 start=0.1 end=1; exponential 0.98; step 20 gamma=0.5", sequential),
]


def numbers(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


def run_optimizer(make, options, shape=(4,)):
    p = torch.tensor(START, dtype=torch.float64).reshape(shape).requires_grad_()
    step, seen = made(make, p, options), {}
    for i in range(STEPS):
        p.grad = p.detach() * torch.tensor(SCALE).reshape(shape) + torch.tensor(SHIFT).reshape(shape)
        step()
        seen[i + 1] = p.flatten().tolist()
    return seen[FEW], seen[STEPS]


def run_schedule(make):
    p = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([p], lr=0.1)
    schedule, rates = make(opt), []
    for _ in range(RATES):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return rates


PLATEAUS = [
    ("plateau factor=0.5 patience=1 cooldown=1 min=0.02", dict(factor=0.5, patience=1, cooldown=1, min_lr=0.02)),
    ("plateau patience=4 factor=0.7 threshold=0.01 threshold_mode=abs", dict(factor=0.7, patience=4, threshold=0.01, threshold_mode="abs")),
    ("plateau patience=3 factor=0.9 threshold=0.02 mode=max", dict(factor=0.9, patience=3, threshold=0.02, mode="max")),
]
PLATEAU = [round(1 + math.sin(1.7 * i) / (1 + 0.05 * i) - 0.004 * i, 4) for i in range(RATES)]


def run_plateau(options):
    p = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([p], lr=0.1)
    schedule, rates = S.ReduceLROnPlateau(opt, **options), []
    for loss in PLATEAU:
        schedule.step(loss)
        rates.append(opt.param_groups[0]["lr"])
    return rates


LBFGS = ["", "lr=0.5 max_iter=6", "lr=1 max_iter=5 line_search_fn=strong_wolfe", "lr=1 line_search_fn=strong_wolfe history_size=3",
         "lr=1 max_iter=9 max_eval=4 line_search_fn=strong_wolfe", "lr=0.01 max_iter=8 tolerance_change=0.01 tolerance_grad=1e-3"]
HILL_STEPS = 6


def run_lbfgs(text):
    """Losses of Rosenbrock's function of six numbers, in two parameters, before each step, and where the steps end."""
    words = dict(word.split("=") for word in text.split())
    a, b = torch.tensor([[-1.2, 1.0], [0.5, -0.4]], requires_grad=True), torch.tensor([0.3, 1.5], requires_grad=True)
    ints = ("max_iter", "max_eval", "history_size")
    opt = torch.optim.LBFGS([a, b], **{k: int(v) if k in ints else v if k == "line_search_fn" else float(v) for k, v in words.items()})

    def loss():
        opt.zero_grad()
        x = torch.cat([a.flatten(), b])
        hill = (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        hill.backward()
        return hill

    losses = [float(opt.step(loss)) for _ in range(HILL_STEPS)]
    return losses, a.flatten().tolist() + b.tolist()


def main():
    print("/* What PyTorch %s computes; written by make_goldens.py. */" % torch.__version__.split("+")[0])
    print("/* clang-format off */")
    for name, values in (("start", START), ("scale", SCALE), ("shift", SHIFT), ("plateau_losses", PLATEAU)):
        print("static const double %s[] = %s;" % (name, numbers(values)))
    print("enum { FEW = %d, STEPS = %d };" % (FEW, STEPS))
    print("static const struct { const char *text; double few[4], want[4]; } optimizers[] = {")
    for text, make, options in optimizers():
        print('    {"%s", %s, %s},' % (text, *map(numbers, run_optimizer(make, options))))
    print("};")
    print("static const struct { const char *text; double few[4], want[4]; } matrices[] = {")
    for text, make, options in optimizers():
        if text.split()[0] in WHOLE:
            print('    {"%s", %s, %s},' % (text, *map(numbers, run_optimizer(make, options, (2, 2)))))
    print("};")
    print("enum { HILL_STEPS = %d };" % HILL_STEPS)
    print("static const struct { const char *text; double loss[HILL_STEPS], want[6]; } hills[] = {")
    for text in LBFGS:
        print('    {"%s", %s, %s},' % (" ".join(("lbfgs " + text).split()), *map(numbers, run_lbfgs(text))))
    print("};")
    print("enum { RATES = %d };" % RATES)
    print("static const struct { const char *text; double want[RATES]; } schedules[] = {")
    for text, make in SCHEDULES:
        print('    {"%s", %s},' % (text, numbers(run_schedule(make))))
    print("};")
    print("static const struct { const char *text; double want[RATES]; } plateaus[] = {")
    for text, options in PLATEAUS:
        print('    {"%s", %s},' % (text, numbers(run_plateau(options))))
    print("};")
    grads = [torch.tensor([3.0, -4.0], dtype=torch.float64), torch.tensor([[1.0, 2.0], [-2.0, 0.5]], dtype=torch.float64)]
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(params, 2.0)
    print("static const double clip_norm = %r;" % float(norm))
    print("static const double clipped[] = %s;" % numbers(torch.cat([p.grad.flatten() for p in params]).tolist()))


main()
