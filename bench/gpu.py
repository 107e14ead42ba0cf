#!/usr/bin/env python3
"""bench_gpu beside PyTorch, in one run: gpu.py BIN/bench_gpu [part of a name]. Without PyTorch only the former."""
import subprocess
import sys
import time


def peers():
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    r = lambda *s: torch.randn(*s, device="cuda")
    a, b, wide, sq = r(1 << 14, 1 << 14), r(1 << 14, 1 << 14), r(1 << 18, 1 << 10), r(1 << 14, 1 << 14)
    m1, m4, m8, small = r(1024, 1024), r(4096, 4096), r(8192, 8192), r(64, 64)
    h8 = m8.bfloat16()
    return torch, {
        "copy": lambda: a.clone(), "add": lambda: a + b, "tanh": lambda: a.tanh(),
        "gelu": lambda: torch.nn.functional.gelu(a), "sum": lambda: a.sum(), "sum_rows": lambda: wide.sum(1),
        "sum_cols": lambda: wide.sum(0), "softmax_1024": lambda: wide.softmax(1),
        "logsumexp_1024": lambda: wide.logsumexp(1), "transpose_16384": lambda: sq.t().contiguous(),
        "randn": lambda: torch.randn_like(a), "matmul_1024": lambda: m1 @ m1, "matmul_4096": lambda: m4 @ m4,
        "matmul_8192": lambda: m8 @ m8, "matmul_8192_bf16": lambda: h8 @ h8, "add_small": lambda: small + small,
    }


def measure(torch, f):
    best, n = 1e30, 3
    for k in range(6):
        t = time.perf_counter()
        for _ in range(n):
            f()
        torch.cuda.synchronize()
        each = (time.perf_counter() - t) / n * 1e3
        best = min(best, each) if k else best
        n = int(30 / (each + 0.001)) + 1 if k == 0 else n
    return best


def main():
    ours = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout
    try:
        torch, cases = peers()
    except (ImportError, RuntimeError) as e:
        print(f"# no PyTorch to compare with: {e}")
        cases = {}
    for line in ours.splitlines():
        part = line.split("\t")
        if part[0] in cases and len(part) == 4:
            ms = measure(torch, cases[part[0]])
            line += f"\tPyTorch {ms:.4f} ms\tratio {float(part[1]) / ms:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
