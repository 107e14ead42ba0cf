#!/usr/bin/env python3
"""bench_gpu beside PyTorch, in one run: gpu.py BIN/bench_gpu [part of a name]. Without PyTorch only the former."""
from gpu_peer import beside


def peers(torch):
    torch.backends.cuda.matmul.allow_tf32 = False
    r = lambda *s: torch.randn(*s, device="cuda")
    a, b, wide, sq = r(1 << 14, 1 << 14), r(1 << 14, 1 << 14), r(1 << 18, 1 << 10), r(1 << 14, 1 << 14)
    m1, m4, m8, small = r(1024, 1024), r(4096, 4096), r(8192, 8192), r(64, 64)
    h8, half, half_wide, half_sq = m8.bfloat16(), a.bfloat16(), wide.bfloat16(), sq.bfloat16()
    bias, words, logits = r(1 << 10), r(4096, 50257), r(64, 10).requires_grad_()
    labels = torch.randint(0, 10, (64,), device="cuda")
    batch, weight, short_bias = r(64, 784), r(10, 784), r(10)
    F = torch.nn.functional

    def norm(n, side, format):
        x = r(n, 64, side, side).to(memory_format=format).requires_grad_()
        w, b = r(64).requires_grad_(), r(64).requires_grad_()
        seed = x.detach()

        def step():
            with torch.enable_grad():
                torch.autograd.grad(F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5), (x, w, b), seed)
        return step

    wlabels, hundreds = torch.randint(0, 50257, (4096,), device="cuda"), r(1 << 20, 100)
    planes, column = r(64, 64, 1 << 16), r(1 << 18)

    def word_loss():
        with torch.enable_grad():
            x = words.detach().requires_grad_()
            torch.autograd.grad(F.cross_entropy(x, wlabels), x)

    def lse_step():
        with torch.enable_grad():
            x = wide.detach().requires_grad_()
            torch.autograd.grad(x.logsumexp(1), x, column)

    def loss():
        with torch.enable_grad():
            torch.autograd.grad(F.cross_entropy(logits, labels), logits)

    torch.set_grad_enabled(False)
    last = torch.channels_last
    plain = torch.contiguous_format
    return {
        "copy_bf16": lambda: half.clone(), "tanh_bf16": lambda: half.tanh(),
        "sum_rows_bf16": lambda: half_wide.sum(1), "softmax_bf16": lambda: half_wide.softmax(1),
        "transpose_bf16": lambda: half_sq.t().contiguous(), "add_bias": lambda: wide + bias,
        "log_softmax_50257": lambda: words.log_softmax(1),
        "cross_entropy_50257": word_loss, "softmax_rows_100": lambda: hundreds.softmax(1),
        "softmax_cols": lambda: planes.softmax(1), "logsumexp_step": lse_step,
        "norm_56": norm(64, 56, plain), "norm_56_last": norm(64, 56, last),
        "norm_32": norm(512, 32, plain), "norm_32_last": norm(512, 32, last),
        "sum_small": lambda: small.sum(), "softmax_small": lambda: small.softmax(1),
        "linear_small": lambda: F.linear(batch, weight, short_bias), "cross_entropy_small": loss,
        "copy": lambda: a.clone(), "add": lambda: a + b, "tanh": lambda: a.tanh(),
        "gelu": lambda: torch.nn.functional.gelu(a), "sum": lambda: a.sum(), "sum_rows": lambda: wide.sum(1),
        "sum_cols": lambda: wide.sum(0), "softmax_1024": lambda: wide.softmax(1),
        "logsumexp_1024": lambda: wide.logsumexp(1), "transpose_16384": lambda: sq.t().contiguous(),
        "randn": lambda: torch.randn_like(a), "matmul_1024": lambda: m1 @ m1, "matmul_4096": lambda: m4 @ m4,
        "matmul_8192": lambda: m8 @ m8, "matmul_8192_bf16": lambda: h8 @ h8, "add_small": lambda: small + small,
    }


if __name__ == "__main__":
    beside(peers)
