#!/usr/bin/env python3
"""bench_gpu_conv beside PyTorch, in one run: gpu_conv.py BIN/bench_gpu_conv [part of a name [any]]. PyTorch chooses among
deterministic algorithms, as we do, or with `any` both among all; once by its heuristics and once by its benchmark, and the
better time counts. Without PyTorch only ours are shown."""
import subprocess
import sys

from gpu_peer import cuda_torch, measure

# the same rows as in gpu_conv.c: images, channels, size, filters, kernel, stride, padding
SHAPES = {
    "512x7x7": (32, 512, 7, 512, 3, 1, 1), "64x56x56": (64, 64, 56, 64, 3, 1, 1), "256x56x56": (64, 256, 56, 64, 1, 1, 0),
    "3x224x224": (64, 3, 224, 64, 7, 2, 3), "32x16x16": (256, 32, 16, 64, 3, 1, 1),
}


def block(torch, order, what):
    x = torch.randn(64, 64, 56, 56, device="cuda").to(memory_format=order).requires_grad_(what == "training")
    net = torch.nn.Sequential(torch.nn.Conv2d(64, 64, 3, padding=1, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU())
    net = net.cuda().to(memory_format=order).train(what == "training")
    if what == "training":
        seed = torch.randn_like(net(x))
        return lambda: torch.autograd.grad(net(x), (x, *net.parameters()), seed)

    def infer():
        with torch.inference_mode():
            net(x)
    return infer


def case(torch, name):
    shape, precision, layout, what = name.split("_")
    if shape == "block":
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        return block(torch, torch.channels_last if layout == "last" else torch.contiguous_format, what)
    n, c, hw, o, k, stride, pad = SHAPES[shape]
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    order = torch.channels_last if layout == "last" else torch.contiguous_format
    x = torch.randn(n, c, hw, hw, device="cuda").to(memory_format=order).requires_grad_(what == "both")
    w = torch.randn(o, c, k, k, device="cuda").to(memory_format=order).requires_grad_(what == "both")
    conv = lambda: torch.nn.functional.conv2d(x, w, None, stride, pad)
    if what == "forward":
        return conv
    seed = torch.randn_like(conv())
    return lambda: torch.autograd.grad(conv(), (x, w), seed)


def peer(torch, name):
    torch.backends.cudnn.deterministic = "any" not in sys.argv[3:]
    times = []
    for benchmark in (False, True):
        torch.backends.cudnn.benchmark = benchmark
        times.append(measure(torch, case(torch, name)))
    return min(times)


def main():
    ours = subprocess.run(sys.argv[1:], capture_output=True, text=True)
    sys.stderr.write(ours.stderr)
    torch = cuda_torch()
    for line in ours.stdout.splitlines():
        part = line.split("\t")
        if torch and len(part) == 2:
            ms = peer(torch, part[0])
            line += f"\tPyTorch {ms:.4f} ms\tratio {float(part[1]) / ms:.2f}"
        print(line, flush=True)
    return ours.returncode


if __name__ == "__main__":
    sys.exit(main())
