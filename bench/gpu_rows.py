#!/usr/bin/env python3
"""bench_gpu_rows beside PyTorch, in one run: gpu_rows.py BIN/bench_gpu_rows [part of a name]. Without PyTorch only the
former."""
from gpu_peer import beside, stepper


def tensors(torch):
    r = lambda *s, dtype=torch.float32: torch.randn(*s, device="cuda", dtype=dtype)
    n = lambda high, *s: torch.randint(0, high, s, device="cuda")
    half = torch.bfloat16
    t = {
        "a": r(1 << 14, 1 << 14), "b": torch.rand(1 << 14, 1 << 14, device="cuda"), "wide": r(1 << 18, 1 << 10),
        "whole": n(100, 1 << 26), "column": r(1 << 18, 1), "row": r(1, 1 << 10), "cube": r(64, 64, 1 << 16),
        "few": r(16, 1 << 24), "short": r(1 << 22, 64), "image": r(128, 64, 112, 112), "scale": r(64), "shift": r(64),
        "bf": r(65536, 768, dtype=half), "bfw": r(768, dtype=half), "bfb": r(768, dtype=half),
        "cols": n(1024, 256), "rows": n(8192, 8192), "places": n(8192, 8192, 8192), "labels": n(1000, 65536),
        "tokens": n(50257, 65536), "q": r(16, 12, 1024, 64, dtype=half), "mix": r(8192, 8192), "parts": r(8192, 8192), "leaf": r(8192, 8192),
        "target": r(8192, 8192), "chance": torch.rand(8192, 8192, device="cuda"), "leafh": r(8192, 8192, dtype=half),
        "logits": r(65536, 1000), "table": r(50257, 768, dtype=half), "every": r(1 << 14, 1 << 15)[:, ::2],
        "first": r(128, 112, 112, 64).permute(0, 3, 1, 2), "rev": r(512, 1024, 512).permute(2, 1, 0),
        "swap": r(512, 1024, 512).permute(1, 0, 2), "f64": r(8192, 8192, dtype=torch.float64).t(),
    }
    t["half"], t["truth"], t["some"] = t["a"].to(half), t["a"] < t["b"], t["mix"] < t["parts"]
    t["last"] = t["image"].to(memory_format=torch.channels_last)
    for k in ("image", "last", "scale", "shift", "bf", "bfw", "bfb", "leaf", "leafh", "logits"):
        t[k] = t[k].detach().requires_grad_()
    return t


def peers(torch):
    F, step, t = torch.nn.functional, stepper(torch), tensors(torch)
    a, b, wide, image, last, leaf, mix = (t[k] for k in ("a", "b", "wide", "image", "last", "leaf", "mix"))
    scale, shift, bf, bfw, bfb, places = (t[k] for k in ("scale", "shift", "bf", "bfw", "bfb", "places"))
    torch.set_grad_enabled(False)
    G, q = torch.cuda.current_device(), t["q"]
    return {
        "exp": lambda: a.exp(), "sigmoid_bf16": lambda: t["half"].sigmoid(), "pow": lambda: b.pow(b),
        "clamp": lambda: a.clamp(-0.5, 0.5), "lt": lambda: a < b, "where": lambda: torch.where(t["truth"], a, b),
        "add_i64": lambda: t["whole"] + t["whole"], "add_column": lambda: wide + t["column"],
        "to_bf16": lambda: a.bfloat16(), "to_f32": lambda: t["half"].float(), "to_bool": lambda: a.bool(),
        "copy_every_other": lambda: t["every"].contiguous(), "mean_middle": lambda: t["cube"].mean(1),
        "sum_few_rows": lambda: t["few"].sum(1), "sum_short_rows": lambda: t["short"].sum(1), "amax": lambda: a.amax(),
        "amax_rows": lambda: wide.amax(1), "argmax": lambda: a.argmax(), "argmax_rows": lambda: wide.argmax(1),
        "argmax_cols": lambda: wide.argmax(0), "max_dim_rows": lambda: wide.max(1), "any": lambda: t["truth"].any(),
        "prod_rows": lambda: wide.prod(1), "var": lambda: a.var(), "var_rows": lambda: wide.var(1),
        "std_cols": lambda: wide.std(0), "norm": lambda: a.norm(), "norm_rows": lambda: wide.norm(dim=1),
        "cumsum_rows": lambda: wide.cumsum(1), "cumsum_cols": lambda: a.cumsum(0),
        "cumsum_short": lambda: t["short"].cumsum(1), "cumsum_i64": lambda: t["whole"].cumsum(0),
        "cumsum_bf16": lambda: t["half"].cumsum(1), "cat_rows": lambda: torch.cat((a, b), 0),
        "cat_cols": lambda: torch.cat((a, b), 1), "stack_last": lambda: torch.stack((a, b), 2),
        "pad_reflect": lambda: F.pad(image, (1, 1, 1, 1), "reflect"), "pad_circular": lambda: F.pad(image, (1, 1, 1, 1), "circular"),
        "pad": lambda: F.pad(image, (1, 1, 1, 1)), "flip_cols": lambda: a.flip(1), "flip_rows": lambda: a.flip(0),
        "to_last": lambda: image.permute(0, 2, 3, 1).contiguous(), "to_first": lambda: t["first"].contiguous(),
        "turn_3": lambda: t["rev"].contiguous(), "swap_3": lambda: t["swap"].contiguous(),
        "turn_f64": lambda: t["f64"].contiguous(), "select_cols": lambda: wide.index_select(1, t["cols"]),
        "gather_cols": lambda: mix.gather(1, places), "gather_step": step(lambda: leaf.gather(1, places), leaf),
        "scatter_rows": lambda: mix.scatter_add(1, places, t["parts"]),
        "gather_step_any": step(lambda: leaf.gather(1, places), leaf),
        "scatter_rows_any": lambda: mix.scatter_add(1, places, t["parts"]),
        "index_add_any": lambda: mix.index_add(0, t["rows"], t["parts"]),
        "index_add": lambda: mix.index_add(0, t["rows"], t["parts"]),
        "one_hot": lambda: F.one_hot(t["labels"], 1000), "nonzero_2": lambda: t["some"].nonzero(),
        "max_pool_2": lambda: F.max_pool2d(image, 2), "max_pool_2_step": step(lambda: F.max_pool2d(image, 2), image),
        "avg_pool_3": lambda: F.avg_pool2d(image, 3, 2, 1),
        "avg_pool_3_step": step(lambda: F.avg_pool2d(image, 3, 2, 1), image),
        "avg_pool_2_last": lambda: F.avg_pool2d(last, 2), "avg_pool_2_step": step(lambda: F.avg_pool2d(image, 2), image),
        "avg_pool_2_step_last": step(lambda: F.avg_pool2d(last, 2), last),
        "adaptive_pool_7": lambda: F.adaptive_avg_pool2d(image, 7),
        "adaptive_pool_step": step(lambda: F.adaptive_avg_pool2d(image, (5, 9)), image),
        "global_pool_step": step(lambda: image.mean((2, 3), keepdim=True), image),
        "global_pool_last": lambda: last.mean((2, 3), keepdim=True),
        "dropout_step": step(lambda: F.dropout(leaf, 0.1), leaf), "relu_step": step(lambda: leaf.relu(), leaf),
        "elu_step": step(lambda: F.elu(leaf), leaf),
        "rms_norm_768_bf16": lambda: F.rms_norm(bf, (768,), bfw),
        "rms_norm_768_step": step(lambda: F.rms_norm(bf, (768,), bfw), bf, bfw),
        "sort_short": lambda: wide.sort(stable=True), "sort_rows": lambda: mix.sort(stable=True),
        "sort_one": lambda: mix.view(-1).sort(stable=True), "sort_i64": lambda: t["whole"].sort(stable=True),
        "topk_short": lambda: t["logits"].topk(10), "topk_rows": lambda: mix.topk(50),
        "topk_one": lambda: mix.view(-1).topk(50), "tril": lambda: a.tril(),
        "attention": lambda: F.scaled_dot_product_attention(q, q, q),
        "attention_causal": lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True),
        "gelu_step_bf16": step(lambda: F.gelu(t["leafh"]), t["leafh"]),
        "layer_norm_768_bf16": lambda: F.layer_norm(bf, (768,), bfw, bfb),
        "layer_norm_768_step": step(lambda: F.layer_norm(bf, (768,), bfw, bfb), bf, bfw, bfb),
        "group_norm": lambda: F.group_norm(image, 8, scale, shift),
        "group_norm_step": step(lambda: F.group_norm(image, 8, scale, shift), image, scale, shift),
        "mse_step": step(lambda: F.mse_loss(leaf, t["target"]), leaf),
        "l1_step": step(lambda: F.l1_loss(leaf, t["target"]), leaf),
        "bce_step": step(lambda: F.binary_cross_entropy_with_logits(leaf, t["chance"]), leaf),
        "nll_step": step(lambda: F.nll_loss(t["logits"], t["labels"]), t["logits"]),
        "rand": lambda: torch.rand_like(a), "randint": lambda: torch.randint(0, 1000, (1 << 26,), device=G),
        "bernoulli": lambda: torch.bernoulli(t["chance"]), "randperm": lambda: torch.randperm(1 << 22, device=G),
        "full": lambda: torch.full_like(a, 1.5), "full_bf16": lambda: torch.full_like(t["half"], 1.5),
        "arange": lambda: torch.arange(1 << 26, device=G), "eye": lambda: torch.eye(1 << 14, device=G),
        "embedding_bf16": lambda: F.embedding(t["tokens"], t["table"]),
        "outer_sum": lambda: t["row"] + t["column"],
    }


if __name__ == "__main__":
    beside(peers)
