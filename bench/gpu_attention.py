#!/usr/bin/env python3
"""bench_gpu_attention beside PyTorch's fastest kernel, in one run: gpu_attention.py BIN/bench_gpu_attention [part of a
name]. Without PyTorch only the former."""
import re

from gpu_peer import beside, stepper

NAME = r"(\w+?)_b(\d+)_h(\d+)_(?:kv(\d+)_)?t(\d+)_d(\d+)(?:_(\w+))?"
SETTINGS = ["bf16_b8_h12_t1024_d64_causal", "bf16_b8_h12_t1024_d64", "f16_b8_h12_t1024_d64_causal",
            "bf16_b4_h16_t4096_d128_causal", "bf16_b8_h12_kv4_t1024_d64_causal", "bf16_b8_h12_t1024_d64_dropout",
            "bf16_b8_h12_t1024_d64_lengths", "bf16_b8_h12_t1024_d64_mask", "f32_b8_h12_t1024_d64_causal",
            "bf16_b1_h1_t65536_d64_causal", "f32_b1_h1_t65536_d64_causal"]


def case(torch, name):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    F, step = torch.nn.functional, stepper(torch)
    dtype, b, h, kv, t, d, more = re.fullmatch(NAME, name).groups()
    b, h, t, d = int(b), int(h), int(t), int(d)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[dtype]
    r = lambda heads: torch.randn(b, heads, t, d, device="cuda", dtype=dtype, requires_grad=True)
    q, k, v = r(h), r(int(kv or h)), r(int(kv or h))
    mask = torch.rand(b, 1, 1, t, device="cuda") > 0.25 if more in ("mask", "lengths") else None
    ways = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]

    def run():
        for i, way in enumerate(ways):
            try:
                with sdpa_kernel(way):
                    y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=0.1 if more == "dropout" else 0.0,
                                                       is_causal=more == "causal", enable_gqa=kv is not None)
                del ways[:i]
                return y
            except RuntimeError:
                continue

    def forward():
        with torch.no_grad():
            run()
    both = step(run, q, k, v)
    return {f"{name}_forward": forward, f"{name}_step": both, f"{name}_step_any": both}


def peers(torch):
    cases = {}
    for name in SETTINGS:
        cases |= case(torch, name)
    return cases


if __name__ == "__main__":
    beside(peers)
