#!/usr/bin/env python3
"""Writes goldens.h: parameters after steps of PyTorch's optimizers in f64, rates of its schedules, clipped gradients.

The gradient at p is p * scale + shift, so that it depends on the steps before. Run it where PyTorch is installed:
    python3 tests/optim/make_goldens.py > tests/optim/goldens.h
"""
import ast
import pathlib
import re

import torch

START, SCALE, SHIFT, STEPS = [0.5, -1.25, 2.0, 0.125], [1.0, 0.5, -0.25, 3.0], [0.1, -0.2, 0.3, 0.0], 6
TABLE = pathlib.Path(__file__).resolve().parents[2] / "libcore/optim/optimizers.def"


def value(text):
    return {"true": True, "false": False}.get(text) if text in ("true", "false") else tuple(ast.literal_eval(text)) if text[0] == "[" else float(text)


def optimizers():
    """Each row's samples: text, PyTorch's class, which has the row's name in some capitals, and its options."""
    classes = {name.lower(): cls for name, cls in vars(torch.optim).items() if isinstance(cls, type)}
    for name, samples in re.findall(r"^OPTIMIZER\((\w+),.*?^    SAMPLES\((.*?)\)\)$", TABLE.read_text(), re.M | re.S):
        for sample in "".join(re.findall(r'"(.*?)"', samples)).split(";"):
            options = re.findall(r"(\w+)=(\[.*?\]|\S+)", sample)
            yield " ".join((name + " " + sample).split()), classes[name], {key: value(text) for key, text in options}


S = torch.optim.lr_scheduler
SCHEDULES = [
    ("step 3 gamma=0.5", lambda o: S.StepLR(o, 3, 0.5)),
    ("multistep [2, 5, 6] gamma=0.1", lambda o: S.MultiStepLR(o, [2, 5, 6], 0.1)),
    ("exponential 0.9", lambda o: S.ExponentialLR(o, 0.9)),
    ("cosine 8 min=0.01", lambda o: S.CosineAnnealingLR(o, 8, 0.01)),
    ("linear 5 start=0.25 end=1", lambda o: S.LinearLR(o, 0.25, 1.0, 5)),
    ("polynomial 7 power=2", lambda o: S.PolynomialLR(o, 7, 2.0) if hasattr(S, "PolynomialLR") else S.LambdaLR(o, lambda t: (1 - min(t, 7) / 7) ** 2)),
    ("onecycle 10", lambda o: S.OneCycleLR(o, 0.1, 10, cycle_momentum=False)),
]


def numbers(values):
    return "{" + ", ".join(repr(float(v)) for v in values) + "}"


def run_optimizer(make, options):
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    opt = make([p], **options)
    for _ in range(STEPS):
        p.grad = p.detach() * torch.tensor(SCALE, dtype=torch.float64) + torch.tensor(SHIFT, dtype=torch.float64)
        opt.step()
    return p.tolist()


def run_schedule(make):
    p = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([p], lr=0.1)
    schedule, rates = make(opt), []
    for _ in range(10):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        schedule.step()
    return rates


def run_plateau():
    p = torch.zeros(1, requires_grad=True)
    opt = torch.optim.SGD([p], lr=0.1)
    schedule, rates = S.ReduceLROnPlateau(opt, factor=0.5, patience=1, cooldown=1, min_lr=0.02), []
    for loss in PLATEAU:
        schedule.step(loss)
        rates.append(opt.param_groups[0]["lr"])
    return rates


PLATEAU = [1.0, 0.9, 0.95, 0.96, 0.97, 0.98, 0.99, 1.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]


def main():
    print("/* What PyTorch %s computes; written by make_goldens.py. */" % torch.__version__.split("+")[0])
    print("/* clang-format off */")
    for name, values in (("start", START), ("scale", SCALE), ("shift", SHIFT), ("plateau_losses", PLATEAU)):
        print("static const double %s[] = %s;" % (name, numbers(values)))
    print("enum { STEPS = %d };" % STEPS)
    print("static const struct { const char *text; double want[4]; } optimizers[] = {")
    for text, make, options in optimizers():
        print('    {"%s", %s},' % (text, numbers(run_optimizer(make, options))))
    print("};")
    print("static const struct { const char *text; double want[10]; } schedules[] = {")
    for text, make in SCHEDULES:
        print('    {"%s", %s},' % (text, numbers(run_schedule(make))))
    print("};")
    print("static const double plateau_rates[] = %s;" % numbers(run_plateau()))
    grads = [torch.tensor([3.0, -4.0], dtype=torch.float64), torch.tensor([[1.0, 2.0], [-2.0, 0.5]], dtype=torch.float64)]
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(params, 2.0)
    print("static const double clip_norm = %r;" % float(norm))
    print("static const double clipped[] = %s;" % numbers(torch.cat([p.grad.flatten() for p in params]).tolist()))


main()
