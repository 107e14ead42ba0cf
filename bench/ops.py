#!/usr/bin/env python3
"""Single CPU ops of this library beside PyTorch's, in the same minute on the same machine.

bench/ops.py BENCH_OPS [part of a name]   prints microseconds of both, and PyTorch's time divided by ours.
"""
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

torch.manual_seed(1)
torch.set_grad_enabled(False)
a, s, r, t, m = (torch.randn(*d) for d in ((4096, 1024), (64, 64), (64, 10), (4, 4), (2048, 2048)))
b, mt, rows, tall = torch.randn(4096, 1024).abs(), m.t(), torch.randn(4096, 1024), torch.randn(400000, 10)
bias, index, mask, ints = torch.randn(1024), torch.randint(0, 2048, (2048,)), a > b, a.to(torch.int32)
flat = a.reshape(-1)
wave = [torch.randn(*d, dtype=torch.complex64) for d in ((64, 256), (64, 4096), (8, 65536), (1, 65536), (64, 1000))]

CASES = {
    "add_large": lambda: a + b, "mul_large": lambda: a * b, "relu_large": lambda: a.relu(), "exp_large": lambda: a.exp(),
    "tanh_large": lambda: a.tanh(), "sigmoid_large": lambda: a.sigmoid(), "gelu_large": lambda: F.gelu(a),
    "elu_large": lambda: F.elu(a), "sort_rows": lambda: m.sort(stable=True), "sort_flat": lambda: flat.sort(stable=True),
    "topk_rows": lambda: m.topk(10),
    "rms_norm_rows": lambda: rows * torch.rsqrt(rows.square().mean(1, keepdim=True) + 1e-7) * bias,
    "log_large": lambda: b.log(), "gt_large": lambda: a > b, "where_large": lambda: torch.where(mask, a, b),
    "clone_large": lambda: a.clone(), "to_f64_large": lambda: a.double(), "to_bf16_large": lambda: a.bfloat16(),
    "add_bias": lambda: rows + bias, "add_transposed": lambda: m + mt, "transpose_copy": lambda: mt.contiguous(),
    "sum_all": lambda: m.sum(), "sum_rows": lambda: m.sum(1), "sum_cols": lambda: m.sum(0),
    "sum_cols_tall": lambda: tall.sum(0), "sum_rows_tall": lambda: tall.sum(1),
    "amax_rows": lambda: m.amax(1), "amax_cols": lambda: m.amax(0),
    "argmax_rows": lambda: m.argmax(1), "argmax_cols": lambda: m.argmax(0),
    "logsumexp_rows": lambda: m.logsumexp(1), "logsumexp_cols": lambda: m.logsumexp(0), "sum_int": lambda: ints.sum(),
    "cumsum_rows": lambda: m.cumsum(1), "cumsum_cols": lambda: m.cumsum(0),
    "index_select_rows": lambda: m.index_select(0, index), "index_add_rows": lambda: m.index_add(0, index, m),
    "randn_large": lambda: torch.randn(4096, 1024), "rand_large": lambda: torch.rand(4096, 1024),
    "randperm_large": lambda: torch.randperm(100000),
    "fft_256": lambda: torch.fft.fft(wave[0]), "fft_4096": lambda: torch.fft.fft(wave[1]),
    "fft_65536": lambda: torch.fft.fft(wave[2]), "fft_one_65536": lambda: torch.fft.fft(wave[3]),
    "fft_1000": lambda: torch.fft.fft(wave[4]), "rfft_1024": lambda: torch.fft.rfft(a),
    "mul_complex": lambda: wave[1] * wave[1],
    "add_small": lambda: s + s, "tanh_small": lambda: s.tanh(), "sum_small": lambda: s.sum(), "sum_cols_small": lambda: r.sum(0),
    "add_tiny": lambda: t + t, "relu_tiny": lambda: t.relu(), "sum_tiny": lambda: t.sum(),
}


clock = time.process_time if os.environ.get("BENCH_CPU_TIME") else time.perf_counter


def measure(run):
    best, n = 1e30, 1
    for k in range(12):
        start = clock()
        for _ in range(n):
            run()
        each = (clock() - start) / n * 1e6
        best = min(best, each)
        if k == 0:
            n = int(20000 / each) + 1
    return best


def main():
    part = sys.argv[2:3]
    print(f"{'op':20}{'ours us':>12}{'torch us':>12}{'ratio':>8}")
    for name, run in CASES.items():
        if part and part[0] not in name:
            continue
        theirs = measure(run)
        out = subprocess.run([sys.argv[1], name], capture_output=True, text=True, check=True).stdout
        ours = next(float(line.split("\t")[1]) for line in out.splitlines() if line.split("\t")[0] == name)
        print(f"{name:20}{ours:12.2f}{theirs:12.2f}{theirs / ours:8.2f}", flush=True)


if __name__ == "__main__":
    main()
