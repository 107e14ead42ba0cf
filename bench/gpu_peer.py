"""What the comparisons of bench/gpu*.py with PyTorch share: how it is measured, as in gpu_measure.h, and the lines of both."""
import subprocess
import sys
import time


def cuda_torch():
    """PyTorch with a GPU; None, said so, where there is none."""
    try:
        import torch
        torch.zeros(1, device="cuda")
        return torch
    except (ImportError, RuntimeError, AssertionError) as e:  # the last: built without CUDA
        print(f"# no PyTorch to compare with: {e}")
        return None


def measure(torch, f):
    best, n = 1e30, 3
    for k in range(6):
        t = time.perf_counter()
        for _ in range(n):
            f()
        torch.cuda.synchronize()
        each = (time.perf_counter() - t) / n * 1e3
        best = min(best, each) if k else best
        n = int(20 / (each + 0.001)) + 1 if k == 0 else n
    return best


def stepper(torch):
    """step(f, *inputs): forward and backward of f's result, from a gradient of ones."""
    def step(f, *inputs):
        def run():
            with torch.enable_grad():
                torch.autograd.grad(f().sum(), inputs)
        return run
    return step


def beside(peers):
    """Runs the benchmark that the command line names, then PyTorch's part of each line."""
    ours = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout
    torch = cuda_torch()
    cases = peers(torch) if torch else {}
    for line in ours.splitlines():
        part = line.split("\t")
        if part[0] in cases and len(part) == 4:
            ms = measure(torch, cases[part[0]])
            line += f"\tPyTorch {ms:.4f} ms\tratio {float(part[1]) / ms:.2f}"
        print(line, flush=True)
