#!/usr/bin/env python3
"""Rows of the op table beside PyTorch's functions of the same name, on tensors of one size.

bench/sweep.py BUILD [--device cuda] [--size 1024] [--only PART] [--rounds 5]

BUILD is a build folder, from which samples of the rows and the shell are taken. Of each row the first sample is
measured whose inputs are matrices [3,4] and which has no attributes; they become [size, size]. Rows without such a
sample, or that PyTorch does not have by this name, are counted and not measured. Prints milliseconds of both, forward
and with the gradient, in the order of the ratio ours / theirs; each figure is the least of the rounds, taken in
turns."""
import argparse
import os
import re
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

TURNS = 3  # of a process, after a run that is not measured
MATRIX = re.compile(r"([fpd])\[3,4\]")


def cases(build, only):
    """Names of rows and the kinds of their inputs; and how many rows there are."""
    found, n = [], 0
    for line in open(os.path.join(build, "gen/ops/samples.tsv")):
        name, *_, samples = line.rstrip("\n").split("\t")
        n += 1
        fn = getattr(torch, name, None) or getattr(F, name, None)
        for sample in samples.split(";") if fn and only in name else []:
            kinds = [MATRIX.fullmatch(word) for word in sample.split()]
            if kinds and all(kinds):
                found.append((name, fn, [k.group(1) for k in kinds]))
                break
    return found, n


def script(name, kinds, size, device, grad, times):
    draw = {"f": "randn({0}, {0})", "p": "(rand({0}, {0}) + 0.5)", "d": "randn({0}, {0})"}
    lines = [f'device "{device}"'] if device != "cpu" else []
    names = [f"x{i}" for i in range(len(kinds))]
    lines += [f"{x} = {draw[k].format(size)}" for x, k in zip(names, kinds)]
    lines += [f"{x}.requires_grad_(true);" for x in names if grad]
    call = f"{name}({', '.join(names)})"
    wait = "\nzeros(1).item();" if device != "cpu" else ""
    body = f"y = {call}" + ("\n    backward y.sum()" if grad else "")
    lines += [f"fn run(n) {{ for i in range(n) {{\n    {body}\n}} }}", f"run({times})" + wait, "best = 1e9",
              f"for k in range({TURNS}) {{\nt = time()\nrun({times}){wait}\nbest = min(best, time() - t)\n}}",
              "print(best)"]
    return "\n".join(lines) + "\n"


def ours(shell, text):
    out = subprocess.run([shell, "-"], input=text, capture_output=True, text=True)
    return float(out.stdout.split()[-1]) if out.returncode == 0 else None


def theirs(fn, kinds, size, device, grad, times):
    made = {"f": lambda: torch.randn(size, size), "p": lambda: torch.rand(size, size) + 0.5}
    x = [made.get(k, made["f"])().to(device).requires_grad_(grad) for k in kinds]

    def run(n):
        for _ in range(n):
            for t in x:
                t.grad = None
            y = fn(*x)
            if grad:
                y.sum().backward()
        if device != "cpu":
            torch.cuda.synchronize()

    try:
        run(times)
        each = []
        for _ in range(TURNS):
            start = time.perf_counter()
            run(times)
            each.append(time.perf_counter() - start)
        return min(each)
    except (TypeError, RuntimeError, AttributeError):
        return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--device", default="cpu")
    p.add_argument("--size", type=int, default=1024)
    p.add_argument("--only", default="")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--times", type=int, default=10)
    o = p.parse_args()
    found, n = cases(o.build, o.only)
    shell, rows, failed = os.path.join(o.build, "bin/dlsh"), [], []
    for name, fn, kinds in found:
        for grad in (False, True):
            text, both = script(name, kinds, o.size, o.device, grad, o.times), []
            for _ in range(o.rounds):
                both.append((ours(shell, text), theirs(fn, kinds, o.size, o.device, grad, o.times)))
                if None in both[-1]:
                    break
            if None in both[-1]:
                failed.append(name + (" with gradient" if grad else ""))
                continue
            a, b = (min(x) / o.times * 1e3 for x in zip(*both))
            rows.append((a / b, name, "with gradient" if grad else "forward", a, b))
    print(f"{'op':28}{'':16}{'ours ms':>10}{'torch ms':>10}{'ratio':>8}")
    for ratio, name, what, a, b in sorted(rows, reverse=True):
        print(f"{name:28}{what:16}{a:10.3f}{b:10.3f}{ratio:8.2f}")
    print(f"{len(found)} of {n} rows; one of the two refuses: {', '.join(failed) or 'none'}", file=sys.stderr)


if __name__ == "__main__":
    main()
