#!/usr/bin/python3
"""Training steps on the CPU: libdlcore beside PyTorch in one process, in turn, as medians and their ratio.

    bench/train_steps.py [build/lib/libdlcore.so [ROUNDS [THREADS]]]

A step of ours draws its batch from the loader and records loss, rate and gradient norm; PyTorch's reuses one batch."""
import ctypes as C
import os
import statistics
import sys
import time

os.environ.setdefault("GOMP_SPINCOUNT", "2000")
import torch
from torch import nn

from nets import NETS

LIB = sys.argv[1] if len(sys.argv) > 1 else "build/lib/libdlcore.so"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 15
THREADS = int(sys.argv[3]) if len(sys.argv) > 3 else 2


def bind():
    lib = C.CDLL(LIB)
    for name, args in [("dl_net_parse", [C.c_char_p]), ("dl_optimizer_parse", [C.c_char_p]),
                       ("dl_dataset_open", [C.c_char_p, C.c_void_p]), ("dl_trainer_new", [C.c_void_p])]:
        getattr(lib, name).restype, getattr(lib, name).argtypes = C.c_void_p, args
    lib.dl_trainer_step.argtypes = [C.c_void_p]
    lib.dl_errmsg.restype = C.c_char_p
    lib.dl_threads_set(THREADS)
    return lib


MLP = ("flatten -> linear 256 -> relu -> linear 10", "mlp")
CONV = ("conv 16 k=3 pad=1 -> relu -> maxpool 2 -> flatten -> linear 10", "conv16")
RES = ("flatten -> linear 100 -> relu -> repeat 3 { residual { linear 50 -> batchnorm -> relu -> dropout 0.1 -> "
       "linear 100 -> batchnorm } -> relu } -> linear 10", "resmlp")
CASES = [("MLP b64 SGD", MLP, 64, "sgd lr=0.1 momentum=0.9"), ("MLP b64 Adam", MLP, 64, "adam lr=1e-3"),
         ("conv16 b64 SGD", CONV, 64, "sgd lr=0.1 momentum=0.9"), ("conv16 b64 Adam", CONV, 64, "adam lr=1e-3"),
         ("MLPResNet b100 SGD", RES, 100, "sgd lr=0.1 momentum=0.9"), ("MLPResNet b100 Adam", RES, 100, "adam lr=1e-3")]


def make_ours(lib, net, batch, opt, data):
    m, o = lib.dl_net_parse(net.encode()), lib.dl_optimizer_parse(opt.encode())
    spec = (C.c_char * 512)()
    head = C.cast(spec, C.POINTER(C.c_void_p))
    head[0], head[1], head[2] = m, data, o
    offset = 8 * 8  # model, data, opt, loss, loss_fn, loss_ctx, loss_release, schedule; then the loader's spec
    C.cast(C.addressof(spec) + offset, C.POINTER(C.c_long))[0] = batch
    t = lib.dl_trainer_new(spec)
    if not t:
        sys.exit(lib.dl_errmsg().decode())

    def step():
        if lib.dl_trainer_step(t):
            sys.exit(lib.dl_errmsg().decode())
    return step


def make_torch(net, batch, opt):
    m = NETS[net]()
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9) if opt.startswith("sgd") else torch.optim.Adam(m.parameters(), 1e-3)
    x, y = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    loss = nn.CrossEntropyLoss()

    def step():
        o.zero_grad(set_to_none=True)
        loss(m(x), y).backward()
        o.step()
    return step


def clock(step, n):
    t = time.perf_counter()
    for _ in range(n):
        step()
    return (time.perf_counter() - t) / n * 1e3


def main():
    torch.set_num_threads(THREADS)
    lib = bind()
    data = lib.dl_dataset_open(b"digits", (C.c_char_p * 5)(b"n", b"2000", b"test", b"100", None))
    print(f"{'step':22}{'dlcore ms':>10}{'PyTorch ms':>12}{'ratio':>8}   ({ROUNDS} rounds, {THREADS} threads, PyTorch {torch.__version__})")
    for name, (net, peer), batch, opt in CASES:
        a, b = make_ours(lib, net, batch, opt, data), make_torch(peer, batch, opt)
        for s in (a, b):
            clock(s, 40)  # more than an epoch: digits are drawn when they are first used
        pairs = [(clock(a, 20), clock(b, 20)) for _ in range(ROUNDS)]
        print(f"{name:22}{statistics.median(p[0] for p in pairs):10.3f}{statistics.median(p[1] for p in pairs):12.3f}"
              f"{statistics.median(p[0] / p[1] for p in pairs):8.2f}", flush=True)


main()
