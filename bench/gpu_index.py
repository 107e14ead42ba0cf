#!/usr/bin/env python3
"""bench_gpu_index beside PyTorch, in one run: gpu_index.py BIN/bench_gpu_index [part of a name]. Without PyTorch only the
former. PyTorch's sums by index are those of its deterministic mode but where the name says `any`."""
from gpu_peer import beside, stepper


def peers(torch):
    F = torch.nn.functional
    r = lambda *s: torch.randn(*s, device="cuda")
    n = lambda high, count: torch.randint(0, high, (count,), device="cuda")
    flat, image, digits, table = r(1 << 28), r(128, 64, 112, 112), r(60000, 784), r(50257, 768)
    half, last = flat.bfloat16(), image.to(memory_format=torch.channels_last)
    picks, tokens, rows, scale, shift = n(60000, 65536), n(50257, 32768), r(65536, 1024), r(1024), r(1024)
    small, places, parts = r(1 << 20), n(1 << 20, 1 << 22), r(1 << 22)
    step = stepper(torch)
    for t in (image, last, table, rows, scale, shift):
        t.requires_grad_()

    def ordered(f):
        def run():
            torch.use_deterministic_algorithms(True)
            f()
            torch.use_deterministic_algorithms(False)
        return run

    torch.set_grad_enabled(False)
    return {
        "dropout": lambda: F.dropout(flat, 0.1), "dropout_bf16": lambda: F.dropout(half, 0.1),
        "cumsum": lambda: flat.cumsum(0),
        "max_pool_step": step(lambda: F.max_pool2d(image, 3, 2, 1), image),
        "max_pool_step_last": step(lambda: F.max_pool2d(last, 3, 2, 1), last),
        "avg_pool_1": lambda: F.adaptive_avg_pool2d(image, 1), "avg_pool_2": lambda: F.avg_pool2d(image, 2),
        "batch_gather": lambda: digits.index_select(0, picks),
        "embedding_step": step(lambda: F.embedding(tokens, table), table),
        "layer_norm": lambda: F.layer_norm(rows, (1024,), scale, shift),
        "layer_norm_step": step(lambda: F.layer_norm(rows, (1024,), scale, shift), rows, scale, shift),
        "scatter_add": ordered(lambda: small.scatter_add(0, places, parts)),
        "scatter_add_any": lambda: small.scatter_add(0, places, parts), "nonzero": lambda: parts.nonzero(),
    }


if __name__ == "__main__":
    beside(peers)
