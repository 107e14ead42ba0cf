#!/usr/bin/env python3
"""What bench/nn.c measures, with PyTorch, in milliseconds; with the path of bench_nn, both in turn and their ratios.

nn.py [BENCH_NN] [PART-OF-A-NAME] [rounds=3]
"""
import os
import statistics
import subprocess
import sys
import time

# Threads that spin long between parallel regions starve each other on a machine with other work. dlsh shortens that for
# itself; here both sides get the same. The variable is read when libgomp is loaded.
if "GOMP_SPINCOUNT" not in os.environ:
    os.execve(sys.executable, [sys.executable] + sys.argv, dict(os.environ, GOMP_SPINCOUNT="2000"))

import torch
import torch.nn.functional as F
from torch import nn


def median_ms(run, repeats, inner):
    times = []
    for r in range(-3, repeats):
        start = time.perf_counter()
        for _ in range(inner):
            run()
        if r >= 0:
            times.append((time.perf_counter() - start) / inner)
    return statistics.median(times) * 1e3


def no_grad(f):
    def run():
        with torch.no_grad():
            f()
    return run


def chain():
    x, seed = torch.randn(16, 16), torch.randn(16, 16)
    ws = [(torch.randn(16, 16) * 0.3).requires_grad_() for _ in range(10)]

    def run():
        h = x
        for w in ws:
            h = torch.tanh(h @ w)
        h.backward(seed)
        for w in ws:
            w.grad = None
    return run


def net(model, shape, adam=False):
    x, y = torch.randn(shape), torch.arange(64) % 10
    opt = torch.optim.Adam(model.parameters(), lr=0.01) if adam else torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def run():
        opt.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        opt.step()
    return run


def mlp(adam=False):
    return net(nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), (64, 784), adam)


def block(c, o):
    return [nn.Conv2d(c, o, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]


def jobs():
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    x, w, rows = torch.randn(32, 64, 28, 28), torch.randn(64, 64, 3, 3) * 0.1, torch.randn(2048, 1024)
    g, v = F.conv2d(x, w, padding=1), torch.randn(64)
    back = torch.ops.aten.convolution_backward

    def grad(mask):
        return lambda: back(g, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask)
    conv16 = nn.Sequential(*block(1, 16), nn.Flatten(), nn.Linear(3136, 10))
    cifar = nn.Sequential(*block(3, 32), *block(32, 64), nn.Flatten(), nn.Linear(4096, 256), nn.ReLU(), nn.Linear(256, 10))
    return [
        ("matmul_2048", no_grad(lambda: a @ b), 7, 1),
        ("conv_forward", no_grad(lambda: F.conv2d(x, w, padding=1)), 21, 1),
        ("conv_dx", no_grad(grad([True, False, False])), 21, 1),
        ("conv_dw", no_grad(grad([False, True, False])), 21, 1),
        ("max_pool2d", no_grad(lambda: F.max_pool2d(g, 2)), 21, 1),
        ("batch_norm", no_grad(lambda: F.batch_norm(g, None, None, v, v, True)), 21, 1),
        ("dropout", no_grad(lambda: F.dropout(x, 0.5, True)), 21, 1),
        ("softmax_2048x1024", no_grad(lambda: torch.softmax(rows, 1)), 21, 1),
        ("chain_10x16x16", chain(), 201, 20),
        ("mlp_sgd", mlp(), 101, 2),
        ("mlp_adam", mlp(adam=True), 101, 2),
        ("conv16_sgd", net(conv16, (64, 1, 28, 28)), 51, 1),
        ("cifar_sgd", net(cifar, (64, 3, 32, 32)), 21, 1),
    ]


def main():
    args = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
    plain = [a for a in sys.argv[1:] if "=" not in a]
    ours = plain.pop(0) if plain and "/" in plain[0] else None
    part = plain[0] if plain else ""
    for name, run, repeats, inner in jobs():
        if part not in name:
            continue
        theirs, mine = [], []
        for _ in range(int(args.get("rounds", 3)) if ours else 1):
            theirs.append(median_ms(run, repeats, inner))
            if ours:
                out = subprocess.run([ours, name], check=True, capture_output=True, text=True).stdout
                mine.append(float(out.split()[1]))
        t = statistics.median(theirs)
        if ours:
            m = statistics.median(mine)
            print(f"{name:20} {m:9.4f} ms, PyTorch {t:9.4f} ms, ratio {t / m:5.2f}", flush=True)
        else:
            print(f"{name:20} {t:9.4f}", flush=True)


main()
