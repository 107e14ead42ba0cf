#!/usr/bin/env python3
"""bench_gpu_train beside PyTorch, eager and as a CUDA graph, in one run: gpu_train.py BIN/bench_gpu_train [part of a name].

A step of PyTorch's: zero grad, forward, cross-entropy, backward, update on one resident batch; ours also gathers its
batch and reports loss, accuracy and gradient norm. PyTorch uses deterministic algorithms, as we do, chosen by its
heuristics and by its benchmark, of ResNet-18 with both orders of memory; the best time counts. bf16 is autocast."""
import subprocess
import sys
import time

from gpu_peer import cuda_torch


def make(torch, name, graph, last):
    kind, batch, opt, precision = (name + "_f32").split("_")[:4]
    batch = int(batch[1:])
    from nets import NETS
    net = NETS[kind]().cuda()
    low = precision == "bf16"
    if last:
        net = net.to(memory_format=torch.channels_last)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision != "f32"
    o = (torch.optim.SGD(net.parameters(), 0.01, momentum=0.9) if opt == "sgd" else
         torch.optim.Adam(net.parameters(), 1e-3, capturable=graph))
    shape = (batch, 3, 32, 32) if kind in ("cifar", "resnet18") else (batch, 1, 28, 28)
    x, y = torch.randn(shape, device="cuda"), torch.randint(0, 10, (batch,), device="cuda")
    if last:
        x = x.to(memory_format=torch.channels_last)
    loss = torch.nn.CrossEntropyLoss()

    def step():
        o.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            out = loss(net(x), y)
        out.backward()
        o.step()

    if not graph:
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        step()
    return g.replay


def measure(torch, step, rounds=4, steps=100):
    best = 1e30
    for k in range(rounds + 1):
        t = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        each = (time.perf_counter() - t) / steps * 1e3
        best = min(best, each) if k else best
    return best


def better(torch, name, graph):
    times = []
    deep = name.startswith("resnet18")
    for last in (False, True) if deep else (False,):
        for torch.backends.cudnn.benchmark in (False, True):
            times.append(measure(torch, make(torch, name, graph, last), steps=20 if deep else 100))
    return min(times)


def main():
    ours = subprocess.run(sys.argv[1:], capture_output=True, text=True, check=True).stdout
    torch = cuda_torch()
    if torch:
        torch.backends.cudnn.deterministic = True
    print("# step\tms\top by op\thow\tPyTorch eager\tits graph\ttimes faster: eager, graph")
    for line in ours.splitlines():
        part = line.split("\t")
        if torch and len(part) == 4:
            eager, graph = (better(torch, part[0], g) for g in (False, True))
            line += f"\t{eager:.4f}\t{graph:.4f}\t{eager / float(part[1]):.2f}\t{graph / float(part[1]):.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
