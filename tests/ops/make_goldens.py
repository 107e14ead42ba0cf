#!/usr/bin/python3
"""Writes golden.safetensors: inputs, results and gradients of every sample call of the op table, computed by PyTorch in f64.

    tests/ops/make_goldens.py build/gen/ops/samples.tsv tests/ops/golden.safetensors

Needs Debian's python3-torch. An op of PyTorch's name and argument names needs no entry here; the others are in CALLS.
Keys: OP/SAMPLE/in0.., /attrs (text in the metadata), /out0.., /grad0.. (gradient of sum(out * weight) for each floating
input, weight i = 0.5 + frac(0.37 (i + 1)))."""
import json
import math
import re
import struct
import sys
import zlib

import numpy as np
import torch
import torch.nn.functional as F

from references import *  # noqa: F403: what CALLS names
from references_metrics import *  # noqa: F403

CALLS = {
    "gradient_along": gradient_along, "histogram_counts": histogram_counts,
    "put": lambda x, i, s, accumulate=False: x.put(i, s, accumulate), "sum_to_size": lambda x, size: x.sum_to_size(size),
    "adjoint": lambda x: torch.adjoint(x).resolve_conj(), "inv_ex": lambda a: tuple(L.inv_ex(a)),
    "solve_ex": lambda a, b, left=True: (L.solve(a, b, left=left), torch.zeros(a.shape[:-2], dtype=torch.int32)),
    "lu_factor_ex": lambda a: tuple(L.lu_factor_ex(a)), "cholesky_ex": lambda a, **kw: tuple(L.cholesky_ex(a, **kw)),
    "tensorinv": lambda a, ind=2: L.tensorinv(a, ind), "tensorsolve": lambda a, b, dims=None: L.tensorsolve(
        a, b, tuple(dims) if dims else None),
    **{name: lambda a, q=None, **kw: (a.detach()[:, :q] * 0, a.new_zeros(q), a.detach().T[:, :q] * 0)
       for name in ("svd_lowrank", "pca_lowrank")},
    "ormqr": lambda a, t, o, left=True, transpose=False: torch.ormqr(a.detach(), t.detach(), o.detach(), left, transpose),
    **{f"fractional_max_pool{n}d{more}": of(fractional(getattr(F, f"fractional_max_pool{n}d")))
       for n in (2, 3) for more, of in (("", first), ("_with_indices", lambda fn: fn))},
    "roc_curve": roc_curve, "precision_recall_curve": precision_recall_curve, "log_loss": log_loss,
    "auc": lambda x, y: torch.trapezoid(y.detach(), x.double()), "balanced_accuracy_score": class_table(balanced),
    "brier_score_loss": lambda y, q: ((q.detach() - y.double()) ** 2).mean(), "matthews_corrcoef": class_table(matthews),
    "cohen_kappa_score": class_table(lambda t, a, b, r: 1 - (t.sum() - r.sum()) / (t.sum() - (a * b).sum() / t.sum())),
    "fbeta_score": lambda y, g, beta, average="binary": class_score(
        lambda r, p, t: ratio((1 + beta ** 2) * r, p + beta ** 2 * t))(y, g, average),
    "mean_squared_error": numbers(lambda y, g: ((y - g) ** 2).mean()),
    "root_mean_squared_error": numbers(lambda y, g: ((y - g) ** 2).mean(0).sqrt().mean()),
    "mean_absolute_error": numbers(lambda y, g: (y - g).abs().mean()), "max_error": numbers(lambda y, g: (y - g).abs().max()),
    "mean_absolute_percentage_error": numbers(lambda y, g: ((y - g).abs() / y.abs().clamp(min=2.0 ** -52)).mean()),
    "median_absolute_error": numbers(lambda y, g: (y - g).abs().quantile(0.5, 0).mean()),
    "explained_variance_score": numbers(lambda y, g: (1 - (y - g).var(0, unbiased=False) / y.var(0, unbiased=False)).mean()),
    "argument": torch.angle, "positive": lambda x: torch.positive(x), "add_scaled": torch.add, "sub_scaled": torch.sub,
    "zeta": lambda a, b: torch.special.zeta(a.double() if torch.is_tensor(a) else torch.tensor(float(a)).double(), b),
    "poisson_quantile": lambda r, u: (torch.special.gammaincc(torch.arange(1, 200).double(), r.double().unsqueeze(-1))
        < u.double().unsqueeze(-1)).sum(-1).to(r.dtype),
    "windows": lambda x, dimension, size, step=1: x.unfold(dimension, size, step),
    "erfcx": torch.special.erfcx, "mantissa": lambda x: torch.frexp(x).mantissa,
    "exponent": lambda x: torch.frexp(x.detach()).exponent.to(x.dtype), "log_ndtr": torch.special.log_ndtr,
    "spherical_bessel_j0": lambda x: torch.where(x == 0, 1.0, torch.sin(x) / torch.where(x == 0, 1.0, x)),
    **{name: lambda x, name=name: Bessel.apply(x, name) for name in (
        "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
        "scaled_modified_bessel_k0", "scaled_modified_bessel_k1")},
    **{name: checked(of, name) for name, of in POLYNOMIALS.items()},
    "spmm": lambda v, crow, col, x: torch.sparse.mm(coo(v, crow, col, x.shape[0]), x), "csr_transpose": csr_transpose,
    "sddmm": lambda a, b, crow, col: (a @ b)[torch.repeat_interleave(torch.arange(len(crow) - 1), crow.diff()), col],
    "huber": lambda x, delta=1.0: F.huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta),
    "accuracy_score": lambda y, p: (y == p).double().mean(), "confusion_matrix": confusion, "precision_score": class_score(lambda r, p, t: ratio(r, p)),
    "recall_score": class_score(lambda r, p, t: ratio(r, t)), "f1_score": class_score(lambda r, p, t: ratio(2 * r, p + t)),
    "jaccard_score": class_score(lambda r, p, t: ratio(r, p + t - r)), "roc_auc_score": roc_auc,
    "average_precision_score": average_precision, "r2_score": r2,
    "top_k_accuracy_score": lambda y, s, k=2: (s.topk(k, 1)[1] == y[:, None]).any(1).double().mean(),
    "perplexity": lambda x, y: F.cross_entropy(x, y).exp(),
    "lstm": recurrent("lstm", True), "gru": recurrent("gru", False), "rnn": recurrent("rnn", False),
    "recurrent": recurrent(None, False), "lstm_cell": lambda x, h, c, *w: torch.lstm_cell(x, (h, c), *w),
    "pad": lambda x, pad, value=0, mode="constant": F.pad(x, pad, mode, value),
    "pixel_shuffle": empty_images(F.pixel_shuffle, lambda s, r: (0, s[1] // r ** 2, s[2] * r, s[3] * r)),
    "pixel_unshuffle": empty_images(F.pixel_unshuffle, lambda s, r: (0, s[1] * r ** 2, s[2] // r, s[3] // r)),
    "channel_shuffle": lambda x, groups: x.unflatten(1, (groups, -1)).transpose(1, 2).flatten(1, 2),
    "unfold": empty_images(for_dims(F.unfold, 2)), "fold": for_dims(F.fold, 2), "lp_pool2d": for_dims(F.lp_pool2d, 2),
    "max_unpool2d": for_dims(F.max_unpool2d, 2), "max_unpool3d": for_dims(F.max_unpool3d, 3), "interpolate": lambda x, size=None, **kw: F.interpolate(
        x, size[0] if size and len(size) == 1 else size, **kw),
    "embedding_bag": embedding_bag, "instance_norm": instance_norm, "conv_transpose1d": F.conv_transpose1d,
    "conv_transpose3d": F.conv_transpose3d,
    "lp_pool1d": lambda x, norm_type, kernel_size, stride=None: F.lp_pool1d(x, norm_type, kernel_size[0], stride and stride[0]),
    "adaptive_max_pool1d_with_indices": lambda x, output_size: F.adaptive_max_pool1d(x, output_size, True),
    "adaptive_max_pool2d_with_indices": lambda x, output_size: F.adaptive_max_pool2d(x, pair(output_size), True),
    "adaptive_largest": lambda x, size: F.adaptive_max_pool2d(x, pair(size)),
    "adaptive_max_pool2d": lambda x, output_size: F.adaptive_max_pool2d(x, pair(output_size)),
    "adaptive_max_pool3d_with_indices": lambda x, output_size: F.adaptive_max_pool3d(x, output_size, True),
    "adaptive_max_pool3d": lambda x, output_size: F.adaptive_max_pool3d(x, output_size[0] if len(output_size) == 1 else output_size),
    "adaptive_avg_pool3d": lambda x, output_size: F.adaptive_avg_pool3d(x, output_size[0] if len(output_size) == 1 else output_size),
    "dropout1d": channel_dropout, "dropout2d": channel_dropout, "dropout3d": channel_dropout,
    **{f"{name}_{what}": fn for name, make in MAKERS.items() for what, fn in distribution_calls(make).items()},
    "von_mises_log_prob": lambda x, m, k: k * (x - m).cos() - log_i0(k) - math.log(2 * math.pi),
    "von_mises_entropy": lambda m, k: log_i0(k) - k * torch.special.i1e(k) / torch.special.i0e(k) + math.log(2 * math.pi)
    + 0 * m,
    "von_mises_kl": lambda m, k, n, j: log_i0(j) - log_i0(k)
    + torch.special.i1e(k) / torch.special.i0e(k) * (k - j * (m - n).cos()),
    "lkj_cholesky_log_prob": lkj, "wishart_kl": wishart_kl, "inverse_gamma_entropy": lambda a, b: a + b.log() + a.lgamma() - (1 + a) * a.digamma(),
    "inverse_gamma_kl": lambda a, b, c, d: D.kl_divergence(D.Gamma(a, b), D.Gamma(c, d)),
    "one_hot_categorical_log_prob": lambda x, l: (x * l.log_softmax(-1)).sum(-1),
    **{name: lambda *a, **kw: None for name in (
        "factor_lu", "factor_cholesky", "solve_triangle", "factor_qr", "factor_eigh", "factor_eig", "factor_svd", "solve_square",
        "lu_diagonal", "ranked_place")},
    "geqrf": lambda a: tuple(torch.geqrf(a.detach())),
    "householder_product": lambda a, t: L.householder_product(a.detach(), t.detach()),
    "solve": lambda a, b, **kw: L.solve(a, b, **kw), "inv": lambda a: L.inv(a), "det": lambda a: L.det(a),
    "solve_triangular": lambda a, b, **kw: L.solve_triangular(a, b, **kw),
    "slogdet": lambda a: tuple(L.slogdet(a)), "cholesky": lambda a, **kw: L.cholesky(a, **kw),
    "cholesky_solve": lambda b, l, upper=False: torch.cholesky_solve(b, l.triu() if upper else l.tril(), upper=upper),
    "cholesky_inverse": lambda l, upper=False: torch.cholesky_solve(
        torch.eye(l.shape[-1], dtype=l.dtype), l.triu() if upper else l.tril(), upper=upper),
    "lu_factor": lambda a, pivot=True: tuple(L.lu_factor(a)) if pivot else (plain_lu(a)[0], plain_lu(a)[3]),
    "lu": lambda a, pivot=True: tuple(L.lu(a)) if pivot else (a.new_zeros(0), *plain_lu(a)[1:3]),
    "qr": lambda a, **kw: tuple(L.qr(a, **kw)),
    "eigh": lambda a, **kw: tuple(L.eigh(a, **kw)), "eigvalsh": lambda a, **kw: L.eigvalsh(a, **kw),
    "eig": lambda a: tuple(L.eig(a)), "eigvals": L.eigvals,
    "svd": lambda a, **kw: tuple(L.svd(a, **kw)), "svdvals": lambda a: L.svdvals(a),
    "matrix_rank": lambda a, **kw: L.matrix_rank(a.detach(), **kw), "pinv": lambda a, **kw: L.pinv(a, **kw),
    "lstsq": lstsq, "cond": cond, "logdet": logdet, "matrix_power": lambda a, n: L.matrix_power(a, n),
    "matrix_exp": lambda a: L.matrix_exp(a), "multi_dot": lambda *t: L.multi_dot(t),
    "joint_place": lambda *i, sizes: sum((k * n for k, n in zip(i, [
        math.prod(([sizes] if isinstance(sizes, int) else sizes)[at + 1:]) for at in range(len(i))])), torch.zeros(())).long(),
    "put_last": put_last,
    "put_best": lambda x, i, s, dim, largest=True: x.scatter_reduce(dim, i, s, "amax" if largest else "amin"),
    "sorted_place": lambda x, v, right=False: torch.searchsorted(x.detach().double(), v.detach().double(), right=right),
    "recurrence": recurrence,
    "best_place": lambda x, dim, largest=True: (torch.cummax if largest else torch.cummin)(x.detach(), dim)[1],
    "scatter": scatter, "index_reduce": index_reduce, "unique_groups": unique_groups, "isin": isin, "mode": mode,
    "scatter_reduce": lambda x, i, s, dim, reduce, include_self=True: x.scatter_reduce(
        dim, i, s, reduce, include_self=include_self),
    "index_copy": lambda x, i, s, dim: x.index_copy(dim, i, s),
    "index_fill": lambda x, i, v, dim: x.index_fill(dim, i, v),
    "index_put": lambda x, v, *i, accumulate=False: x.index_put(
        i, v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=x.dtype), accumulate),
    "masked_scatter": lambda x, m, s: x.masked_scatter(m, s),
    "take_along_dim": lambda x, i, **kw: torch.take_along_dim(x, i, **kw),
    "searchsorted": lambda x, v, **kw: torch.searchsorted(x.detach(), v.detach(), **kw),
    "bucketize": lambda x, v, **kw: torch.bucketize(x.detach(), v.detach(), **kw),
    "nanmedian": lambda x: torch.nanmedian(x) if x.is_floating_point() else torch.median(x),
    "nanmedian_dim": lambda x, **kw: tuple(torch.nanmedian(x, **kw)),
    "nanquantile": lambda x, q, **kw: torch.nanquantile(x, q.detach() if isinstance(q, torch.Tensor) else q, **kw),
    "diagonal_scatter": lambda x, s, **kw: torch.diagonal_scatter(x, s, **kw),
    "i0e": torch.special.i0e, "i1": torch.special.i1, "i1e": torch.special.i1e, "mvlgamma": lambda x, p: torch.mvlgamma(
        x.double(), p), "igamma": lambda a, x: torch.igamma(a.double(), x), "igammac": lambda a, x: torch.igammac(
            a.double(), x), "gamma_slope": gamma_slope, "stft": stft, "istft": istft,
    "kaiser_window": lambda window_length, periodic=True, beta=12.0, dtype=None: torch.kaiser_window(
        window_length, periodic, beta, dtype=torch.float64 if dtype else None),
    "affine_grid": lambda t, size, align_corners=None: F.affine_grid(t, size, align_corners),
    "grid_sample": lambda x, g, **kw: F.grid_sample(x, g, **{"align_corners": False, **kw}) if len(x) else (
        x.sum() + g.sum()) + torch.zeros(0, x.shape[1], *g.shape[1:-1], dtype=x.dtype),
    "kthvalue": lambda x, **kw: tuple(torch.kthvalue(x, **kw)), "aminmax": lambda x, dim=None, keepdim=False: (
        torch.amin(x, dims(x, {"dim": dim if dim is None else [dim]}), keepdim),
        torch.amax(x, dims(x, {"dim": dim if dim is None else [dim]}), keepdim)),
    **{f"{name}_window": lambda window_length, periodic=True, of=getattr(torch, f"{name}_window"), **kw: of(
        window_length, periodic, dtype=torch.float64, **kw).float() for name in ("hann", "hamming", "blackman")},
    **{name: symmetric_window(name, of) for name, of in WINDOWS.items()},
    "mse_loss": weighted("mse_loss", lambda x, y: (x - y) ** 2), "l1_loss": weighted("l1_loss", lambda x, y: (x - y).abs()),
    "huber_loss": weighted("huber_loss", lambda x, y, **kw: F.huber_loss(x, y, reduction="none", **kw), counts=False),
    "slice_scatter": lambda x, s, dim=0, start=None, end=None, step=1: torch.slice_scatter(x, s, dim, start, end, step),
    "select_scatter": lambda x, s, **kw: torch.select_scatter(x, s, **kw),
    "ctc_loss": ctc_loss, "contrastive_loss": contrastive_loss, "column_stack": lambda *t: torch.column_stack(t),
    "cartesian_prod": lambda *t: torch.cartesian_prod(*t), "tensordot": lambda a, b, dims=(2,): torch.tensordot(
        a, b, dims[0] if len(dims) == 1 else (dims[:len(dims) // 2], dims[len(dims) // 2:])),
    "unflatten": lambda x, dim, sizes: x.unflatten(dim, sizes), "softmin": lambda x, dim=-1: F.softmin(x, dim),
    "cov": lambda x, f=None, a=None, correction=1: torch.cov(x, correction=correction, fweights=f, aweights=a),
    "trapezoid": areas(torch.trapezoid), "cumulative_trapezoid": areas(torch.cumulative_trapezoid),
    "vecdot": lambda x, y, dim=-1: (x * y).sum(dim), "vector_norm": lambda x, **kw: L.vector_norm(x, **kw),
    "vander": lambda x, N=None, increasing=False: torch.stack([x ** 0] + [
        torch.stack([x] * k).prod(0) for k in range(1, x.shape[-1] if N is None else N)][:], -1).flip(() if increasing else -1),
    "matrix_norm": lambda x, ord="fro", dim=(-2, -1), keepdim=False: L.matrix_norm(
        x, ord if ord in ("fro", "nuc") else float(ord), tuple(dim), keepdim),
    "lu_solve": lu_solve, "xlog1py": lambda a, b: torch.special.xlog1py(a, b), "entr": torch.special.entr,
    "ndtr": torch.special.ndtr, "ndtri": torch.special.ndtri, "pdist": pdist,
    "row_distances": lambda x, y, p=2.0: torch.cdist(x, y, p, "donot_use_mm_for_euclid_dist"),
    "multilabel_margin_loss": lambda x, y, reduction="mean": F.multilabel_margin_loss(x, y, reduction=reduction),
    "multilabel_soft_margin_loss": lambda x, y, w=None, reduction="mean": F.multilabel_soft_margin_loss(
        x, y.to(x.dtype), w, reduction=reduction),
    # the logarithm of an int, in the gradient, is one of f32 in PyTorch
    "pow": lambda a, b: torch.pow(a.double() if a.dim() == 0 and torch.is_tensor(b) and b.is_floating_point() else a, b),
    "float_power": lambda a, b: torch.float_power(a, b), "heaviside": lambda x, v: torch.heaviside(x.detach(), v.detach()),
    "signbit": lambda x: torch.signbit(x.detach()), "isposinf": lambda x: torch.isposinf(x.detach()),
    "isneginf": lambda x: torch.isneginf(x.detach()), "combinations": lambda x, r=2, with_replacement=False: torch.combinations(
        x, r, with_replacement), "rsub": lambda a, b, alpha=1: b - alpha * a,
    "frac": lambda x: x - x.trunc(), "argwhere": lambda x: torch.argwhere(x.detach()),
    "magnitude_sum": lambda x, **kw: x.abs().sum(dims(x, kw), kw.get("keepdim", False)),
    "known_sum": lambda x, **kw: torch.nansum(x, dims(x, kw), kw.get("keepdim", False)),
    "nansum": lambda x, **kw: torch.nansum(x, dims(x, kw), kw.get("keepdim", False)),
    "nanmean": lambda x, **kw: torch.nanmean(x, dims(x, kw), kw.get("keepdim", False)),
    "count_nonzero": lambda x, **kw: torch.count_nonzero(x.detach(), **kw),
    "var_mean": lambda x, **kw: torch.var_mean(x, dim=dims(x, kw), **pick(kw, "correction", "keepdim") or {"correction": 1}),
    "std_mean": lambda x, **kw: torch.std_mean(x, dim=dims(x, kw), **pick(kw, "correction", "keepdim") or {"correction": 1}),
    "hstack": lambda *t: torch.hstack(t), "vstack": lambda *t: torch.vstack(t), "dstack": lambda *t: torch.dstack(t),
    "block_diag": lambda *t: torch.block_diag(*t), "rot90": lambda x, k=1, dims=(0, 1): torch.rot90(x, k, dims),
    "movedim": lambda x, source, destination: torch.movedim(x, tuple(source), tuple(destination)),
    "cross": lambda a, b, dim=-1: torch.linalg.cross(a, b, dim=dim),
    "gelu_erf": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "polygamma": lambda x, n: Polygamma.apply(x, n),
    "digamma": lambda x: Polygamma.apply(x, 0), "poisson_nll_loss": poisson_nll,
    "hardsigmoid": lambda x: (x + 3).clamp(0, 6) / 6,  # PyTorch's gradient is 1 / 6 in f32
    "empty": lambda size, dtype="f32": torch.zeros(size, dtype=DTYPES[dtype]),
    "repeat": lambda x, repeats: x.repeat(repeats),
    "diff": lambda x, a=None, b=None, **kw: torch.diff(x, prepend=a, append=b, **kw),
    "median": lambda x: torch.median(x), "median_dim": lambda x, **kw: tuple(torch.median(x, **kw)),
    "quantile": lambda x, q, **kw: torch.quantile(x, q.detach() if isinstance(q, torch.Tensor) else q, **kw),
    "bincount": lambda x, w=None, minlength=0: torch.bincount(x, w if w is None else w.detach(), minlength),
    "histc": lambda x, **kw: torch.histc(x.detach(), **kw),
    "cummax": lambda x, dim: tuple(torch.cummax(x, dim)), "cummin": lambda x, dim: tuple(torch.cummin(x, dim)),
    "sigmoid_focal_loss": focal, "dice_loss": dice, "binary_cross_entropy": bce,
    "probability_loss": lambda x, y: F.binary_cross_entropy(*torch.broadcast_tensors(x, y), reduction="none"),
    "binary_cross_entropy_with_logits": lambda x, y, w=None, v=None, **kw: F.binary_cross_entropy_with_logits(
        x, y, w, pos_weight=v, **kw),
    "multi_margin_loss": lambda x, y, w=None, **kw: F.multi_margin_loss(x, y, weight=w, **kw),
    "scaled_dot_product_attention": attention, "rms_norm": rms_norm,
    "rotary_embedding": rotary, "positional_encoding": positional,
    "attention": lambda q, k, v, *more, scale=1, **kw: attention(q, k, v, *more, scale=scale, enable_gqa=True, **kw),
    "mish": lambda x: F.mish(x), "relu6": lambda x: F.relu6(x).to(x.dtype),
    **{name: fft_call(name) for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "hfft2", "ihfft2", "hfftn", "ihfftn", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn",
        "irfftn", "fftshift", "ifftshift")},
    "fftfreq": lambda n, d=1.0: torch.fft.fftfreq(n, d), "rfftfreq": lambda n, d=1.0: torch.fft.rfftfreq(n, d),
    "fft_complex": lambda x, dim, inverse=False, scale=1.0: scale * (
        torch.fft.ifftn(x, dim=dim, norm="forward") if inverse else torch.fft.fftn(x, dim=dim)),
    "fft_from_real": lambda x, dim, scale=1.0: scale * torch.fft.rfftn(x, dim=dim),
    "fft_to_real": lambda x, dim, n, scale=1.0: scale * torch.fft.irfft(
        torch.fft.ifftn(x, dim=dim[:-1], norm="forward") if dim[1:] else x, n, dim[-1], norm="forward"),
    "real": torch.real, "conj": lambda x: torch.conj(x).resolve_conj(),
    "einsum": lambda *t, equation: torch.einsum(equation, *t),
    "to": lambda x, dtype: x.to(DTYPES[dtype]),
    "restride": lambda x, stride: x.clone(),
    "reshape": lambda x, shape: x.reshape(shape),
    "permute": lambda x, dims: x.permute(dims),
    "expand": lambda x, size: x.expand(size),
    "slice": slice_,
    "select": lambda x, dim, index: x.select(dim, index),
    "diagonal": lambda x, **kw: torch.diagonal(x, **kw),
    "cat": lambda *t, **kw: torch.cat(t, **kw),
    "masked_fill": lambda x, m, v: x.masked_fill(m, v),
    "pad_sequence": lambda *t, padding_side="right", **kw: torch.nn.utils.rnn.pad_sequence(t, **kw) if padding_side == "right" else
    torch.nn.utils.rnn.pad_sequence([x.flip(0) for x in t], **kw).flip(1 if kw.get("batch_first") else 0),
    "clamp_bounds": lambda x, lo=None, hi=None: torch.clamp(x, lo, hi),
    "lu_unpack": lambda lu, pivots, **kw: torch.lu_unpack(lu, pivots.int(), **kw),
    "stack": lambda *t, **kw: torch.stack(t, **kw),
    "index_select": lambda x, i, dim=0: torch.index_select(x, dim, i),
    "index_add": lambda x, i, s, dim=0: torch.index_add(x, dim, i, s),
    "gather": lambda x, i, dim: torch.gather(x, dim, i),
    "scatter_add": lambda x, i, s, dim: torch.scatter_add(x, dim, i, s),
    "sum": lambda x, **kw: torch.sum(x, dims(x, kw), kw.get("keepdim", False)),
    "mean": reduce(torch.mean), "amax": reduce(torch.amax), "amin": reduce(torch.amin),
    "logsumexp": reduce(torch.logsumexp),
    "any": boolean(torch.any), "all": boolean(torch.all),
    "var": lambda x, **kw: torch.var(x, dim=dims(x, kw), **pick(kw, "correction", "keepdim") or {"correction": 1}),
    "std": lambda x, **kw: torch.std(x, dim=dims(x, kw), **pick(kw, "correction", "keepdim") or {"correction": 1}),
    "square_sum": lambda x, **kw: torch.sum(x * x, dims(x, kw), kw.get("keepdim", False)),
    "root_square_sum": lambda x, **kw: torch.linalg.vector_norm(x, 2, dims(x, kw), kw.get("keepdim", False)),
    "norm": lambda x, **kw: torch.linalg.vector_norm(x, kw.get("p", 2.0), dim=dims(x, kw), keepdim=kw.get("keepdim", False)),
    "max_dim": lambda x, **kw: tuple(torch.max(x, **kw)),
    "min_dim": lambda x, **kw: tuple(torch.min(x, **kw)),
    "conv2d": conv, "conv2d_dx": conv_dx, "conv2d_dw": conv_dw, "max_pool2d": max_pool,
    "max_pool_values": max_pool,
    "conv_volume": conv, "conv_volume_dx": conv_dx, "conv_volume_dw": conv_dw,
    "bag_sum": lambda x, i, mean: F.embedding_bag(i, x, mode="mean" if mean else "sum"),
    "pool_scatter": pool_scatter, "relu_max_pool2d": relu_max_pool,
    "conv2d_relu_max_pool2d": conv_relu_max_pool,
    "lp_pool3d": lp_pool3d, "lobpcg": some_eigenvalues, "ldl_factor": torch.linalg.ldl_factor, "ldl_factor_ex": torch.linalg.ldl_factor_ex,
    "ldl_solve": lambda a, i, b: b / a.detach(),  # of one row; PyTorch's has no gradient
    "segment_reduce": lambda x, l=None, o=None, reduce="sum", **kw: torch.segment_reduce(x, reduce, lengths=l, offsets=o, **kw),
    "div_rounded": torch.div, "index_add_scaled": lambda x, i, s, dim=0, alpha=1: torch.index_add(x, dim, i, s, alpha=alpha),
    "avg_pool2d_divided": for_dims(F.avg_pool2d, 2), "avg_pool3d_divided": for_dims(F.avg_pool3d, 3),
    "avg_pool2d": avg_pool, "avg_pool2d_dx": spread(lambda x, g, **kw: avg_pool(x, **kw)),
    "adaptive_avg_pool2d": adaptive, "adaptive_pool2d": adaptive,
    "adaptive_pool2d_dx": spread(lambda x, g: F.adaptive_avg_pool2d(x, g.shape[2:])),
    "layer_norm": lambda x, w=None, b=None, normalized_shape=None, eps=1e-5: F.layer_norm(x, normalized_shape, w, b, eps),
    "group_norm": lambda x, w=None, b=None, num_groups=1, eps=1e-5: F.group_norm(x, num_groups, w, b, eps),
    "sort": lambda x, dim=-1, descending=False: tuple(torch.sort(x, dim=dim, descending=descending, stable=True)),
    "argsort": lambda x, dim=-1, descending=False: torch.sort(x, dim=dim, descending=descending, stable=True)[1],
    "topk": lambda x, **kw: tuple(torch.topk(x, **kw)),
    "ctc_paths": lambda x, y, steps, lengths, blank=0: ctc_loss(x, y, steps, lengths, blank, "none"),
    "spectrum": lambda x, symmetric, upper=False: torch.linalg.eigvalsh(x, "UL"[not upper]) if symmetric else torch.linalg.svdvals(x),
    "modulus": lambda x: x.abs(), "continued": continued, "resample_along": resample_along,
    "multi_margins": lambda x, y, w=None, p=1, margin=1.0: F.multi_margin_loss(
        x, y, p=p, margin=margin, weight=w, reduction="none") if x.shape[0] else x.sum(1),
    "place_masked": lambda x, mask, source: x.masked_scatter(mask, source),
    "multilabel_margins": lambda x, y: F.multilabel_margin_loss(x, y, reduction="none") if x.shape[0] else x.sum(1),
    "slope_below": lambda x, w, lower=0.0, upper=1.0: torch.where(x > 0, x, x * (lower + (upper - lower) * w)),
    "less_gumbel": lambda x: torch.log(-torch.log(x)), "gated": lambda x, y: x * torch.sigmoid(y),
    "triangle_places": lambda row, col, offset=0, lower=True: (torch.tril_indices if lower else torch.triu_indices)(
        row, col, offset),
    "conj_scaled": lambda x, scale: (x.conj() * scale).resolve_conj(),
    "excess": lambda x, y: (x - y).clamp(min=0), "kaiser_at": lambda x, beta=12.0: torch.special.i0(
        beta * (1 - x * x).sqrt()) / torch.special.i0(torch.tensor(beta, dtype=x.dtype)),
    "replace_nonfinite": torch.nan_to_num, "square_difference": lambda x, y: (x - y) ** 2,
    "huber_difference": lambda x, y, delta=1, scale=1: scale * F.huber_loss(
        *torch.broadcast_tensors(x, y), delta=delta, reduction="none"),
    "balanced_logit_loss": lambda x, y, w: w * y * F.softplus(-x) + (1 - y) * F.softplus(x),
    "magnitude_power": lambda x, p: x.abs() ** p,
    "difference_power": lambda x, y, p=1.0, shift=0.0: (x - y + shift).abs() ** p,
    "logistic_loss": lambda x, y: F.softplus(-x * y), "hinge_loss": lambda x, y, **kw: F.hinge_embedding_loss(
        *torch.broadcast_tensors(x, y), reduction="none", **kw),
    "ranking_loss": lambda x, y, z, margin=0.0: (margin - z * (x - y)).clamp(min=0),
    "poisson_loss": lambda x, y, full=0.0: poisson_nll(*torch.broadcast_tensors(x, y), full=full > 0, reduction="none"),
    "poisson_mean_loss": lambda x, y, full=0.0, eps=1e-8: poisson_nll(
        *torch.broadcast_tensors(x, y), log_input=False, full=full > 0, eps=eps, reduction="none"),
    "normal_loss": lambda x, y, v, eps=1e-6, constant=0.0: constant + 0.5 * (v.log() + (x - y) ** 2 / v),
    "divergence": lambda x, y: F.kl_div(*torch.broadcast_tensors(x, y), reduction="none"),
    "log_divergence": lambda x, y: F.kl_div(*torch.broadcast_tensors(x, y), reduction="none", log_target=True),
    "logit_loss": lambda x, y: F.binary_cross_entropy_with_logits(*torch.broadcast_tensors(x, y), reduction="none"),
    "norm_groups": norm_groups,
    "embedding": lambda i, w, padding_idx=None: F.embedding(i, w, padding_idx),
    "interval_counts": lambda x, bins, low, high: torch.stack(
        [torch.histc(row, bins, low, high) for row in x.reshape(x.shape[:-1].numel(), x.shape[-1])] or [torch.zeros(bins)])[
        :x.shape[:-1].numel()].reshape(*x.shape[:-1], bins).long(),
    "extremes": lambda x, dim=None, keepdim=False: (x.amin(dim or [], keepdim), x.amax(dim or [], keepdim)),
    "volume_places": lambda x, i, pixels: i // x.shape[3] * pixels + x.flatten(2).gather(2, i.flatten(2)).reshape(i.shape),
    "nll_picked": F.nll_loss, "grid_read": lambda x, g, **kw: F.grid_sample(x, g, **{"align_corners": False, **kw}),
    "ctc_paths": lambda *a, **kw: None,  # PyTorch's gradient is that of normalised probabilities alone
    "pool_gather": lambda x, i: x.flatten(2).gather(2, i.flatten(2)).reshape(i.shape),
    "batch_norm": batch_norm, "batch_norm_relu": lambda *a, **kw: F.relu(batch_norm(*a, **kw)),
    "conv_transpose2d": conv_transpose, "conv2d_norm": conv_norm,
    "one_hot": lambda x, num_classes=-1: F.one_hot(x, num_classes), "nonzero_static": nonzero_static,
    "unravelled": lambda x, sizes: torch.stack([torch.from_numpy(np.asarray(i)) for i in np.unravel_index(x.numpy(), sizes)], -1),
    "matrix_sqrth": matrix_sqrth, "lyapunov": lyapunov,
    "airy_ai": lambda x: Airy.apply(x, 0), "airy_ai_slope": lambda x: Airy.apply(x, 1),
    "linear_losses": lambda *a, **kw: linear_cross_entropy(*a, reduction="none", **kw),
    "linear_cross_entropy": linear_cross_entropy, "continuous_bernoulli_mean": lambda x: MAKERS["continuous_bernoulli"](x).mean,
    "continuous_bernoulli_variance": lambda x: MAKERS["continuous_bernoulli"](x).variance,
    "logistic_normal_kl": lambda a, b, c, d: D.kl_divergence(D.Normal(a, b), D.Normal(c, d)).sum(-1),
    "scalar_tensor": lambda s, dtype="f32": torch.scalar_tensor(s, dtype=DTYPES[dtype]),
    "dropout": lambda x, p=0.5, training=True: x if not training or p == 0 else None,  # random: not compared
    "full": lambda size, fill_value, dtype="f32": torch.full(size, fill_value, dtype=DTYPES[dtype]),
    "zeros": lambda size, dtype="f32": torch.zeros(size, dtype=DTYPES[dtype]),
    "ones": lambda size, dtype="f32": torch.ones(size, dtype=DTYPES[dtype]),
    "arange": lambda start, end=None, step=1: torch.arange(*([0, start] if end is None else [start, end]), step),
    "eye": lambda n, m=None: torch.eye(n, m if m is not None else n),
    "linspace": lambda start, end, steps: torch.linspace(start, end, steps),
}


def parse_attr(kind, text):
    if text == "none" and kind != "STR":
        return None
    if kind == "PADS" and text in ("valid", "same"):
        return text
    if kind in ("INTS", "PADS"):
        return [int(v) for v in text.strip("[]").split(",") if v]
    if kind == "INT":
        return int(text)
    if kind in ("FLOAT", "NUM"):
        return int(text) if kind == "NUM" and re.fullmatch(r"-?\d+", text) else float(text)
    if kind == "BOOL":
        return text == "true"
    return text


def make_input(token, rng):
    """One input of a sample: values that f32 holds exactly, so that the same numbers test f32."""
    if token == "-":
        return None
    if token.startswith("s:"):
        return torch.tensor(float(token[2:]), dtype=torch.float64)
    kind, k, shape = re.fullmatch(r"([fpuqdobnlmwtcr])(?::(\d+))?\[([\d,]*)\]", token).groups()
    shape = [int(v) for v in shape.split(",") if v]
    n = int(np.prod(shape)) if shape else 1
    if kind == "c":
        v = rng.standard_normal(shape + [2]).astype(np.float32).astype(np.float64)
        return torch.complex(*torch.tensor(v).unbind(-1))
    if kind == "b":
        return torch.tensor(rng.integers(0, 2, n).astype(bool)).reshape(shape)
    if kind == "n":
        return torch.tensor(rng.integers(0, int(k), n)).reshape(shape)
    if kind == "l":
        return torch.tensor(rng.integers(1, int(k) + 1, n)).reshape(shape)
    if kind == "r":
        return torch.tensor(np.sort(np.concatenate([[0] * min(n, 1), rng.integers(0, int(k) + 1, max(n - 2, 0)), [int(k)] * (n > 1)]))).long()
    if kind == "d":
        v = (rng.permutation(n) - n / 2 + 0.25) * max(0.0625, 2.0 / max(n, 1))
    elif kind in "mwt":
        x, side = rng.standard_normal(shape), shape[-1]
        v = x @ x.swapaxes(-1, -2) / max(side, 1) + np.eye(side) if kind == "m" else x / 4 + 2 * np.eye(side)
        v = (np.tril(v) if kind == "t" else v).reshape(-1)
    else:
        v = {"f": lambda: rng.standard_normal(n), "p": lambda: rng.uniform(0.5, 2, n),
             "u": lambda: rng.uniform(-0.9, 0.9, n), "q": lambda: rng.uniform(0.05, 0.95, n),
             "o": lambda: rng.integers(0, 2, n) * 2.0 - 1}[kind]()
    return torch.tensor(v.astype(np.float32).astype(np.float64)).reshape(shape)


def parts(t):
    """Complex numbers are kept, and weighted, by their parts."""
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def weight(t):
    i = torch.arange(t.numel(), dtype=torch.float64)
    return (0.5 + (0.37 * (i + 1)) % 1).reshape(t.shape)


def python_number(token):
    v = float(token[2:])
    return int(v) if re.fullmatch(r"-?\d+", token[2:]) else v


def run_sample(name, fixed, kinds, text, key, tensors, attrs):
    """Computes one call; returns False where PyTorch has no counterpart (then only the inputs are kept)."""
    tokens = text.split()
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    given = [t for t in tokens if "=" not in t]
    kw = {t.split("=")[0]: parse_attr(kinds[t.split("=")[0]], t.split("=", 1)[1]) for t in tokens if "=" in t}
    inputs = [make_input(t, rng) for t in given]
    for i, (x, t) in enumerate(zip(inputs, given)):
        if x is not None and (x.is_floating_point() or x.is_complex()) and not t.startswith("s:"):
            x.requires_grad_(not fixed >> i & 1)
    fn = CALLS.get(name) or getattr(F, name, None) or getattr(torch, name)
    args = [python_number(t) if t.startswith("s:") else x for t, x in zip(given, inputs)]
    if name in ("where",) or not any(isinstance(a, torch.Tensor) for a in args):
        args = [x if t.startswith("s:") else a for t, x, a in zip(given, inputs, args)]
    if args and isinstance(args[0], (int, float)):  # torch.sub(number, tensor) is missing: PyTorch wraps numbers itself
        args[0] = torch.tensor(args[0], dtype=torch.float64 if isinstance(args[0], float) else torch.int64)
    for i, x in enumerate(inputs):
        if x is not None:
            tensors[f"{key}/in{i}"] = parts(x.detach())
    attrs[key] = " ".join(tokens)
    out = fn(*args, **kw)
    if out is None:
        return False
    outs = out if isinstance(out, tuple) else (out,)
    total = 0
    for i, o in enumerate(outs):
        o = parts(o)
        tensors[f"{key}/out{i}"] = o.detach()
        if o.is_floating_point() and o.requires_grad:
            total = total + (o.double() * weight(o)).sum()
    if isinstance(total, torch.Tensor):
        for i, x in enumerate(inputs):
            if x is not None and x.requires_grad:
                g = torch.autograd.grad(total, x, retain_graph=True, allow_unused=True)[0]
                if g is not None:
                    tensors[f"{key}/grad{i}"] = parts(g.detach())
    return True


def save(path, tensors, meta):
    names = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64", torch.int32: "I32",
             torch.bool: "BOOL", torch.uint8: "U8"}
    header, data = {"__metadata__": meta}, b""
    for key, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        header[key] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    # entropies and divergences by the derivative of digamma to full precision
    torch.digamma = torch.Tensor.digamma = lambda x: Polygamma.apply(x, 0)
    tensors, attrs, skipped = {}, {}, []
    for line in open(sys.argv[1]):
        name, fixed, kinds, samples = line.rstrip("\n").split("\t")
        kinds = dict(k.split(":") for k in kinds.split())
        for i, text in enumerate(s for s in samples.split(";") if s.strip()):
            key = f"{name}/{i}"
            try:
                if not run_sample(name, int(fixed), kinds, text, key, tensors, attrs):
                    skipped.append(key)
            except Exception as e:
                sys.exit(f"{key}: {text.strip()}: {type(e).__name__}: {e}")
    save(sys.argv[2], tensors, attrs)
    print(f"{len(attrs)} calls, {len(tensors)} tensors; no counterpart: {' '.join(skipped)}")


if __name__ == "__main__":
    main()
