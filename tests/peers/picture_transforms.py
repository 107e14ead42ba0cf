#!/usr/bin/env python3
"""Transforms of pictures against PyTorch and torchvision's formulas: resizing, cropping, colours, rotation, affine maps.

picture_transforms.py LIBDLCORE, with bin/dlsh beside its folder: what is drawn at random is fixed by ranges of one number.
"""
import math
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch.nn.functional import affine_grid, grid_sample, interpolate  # noqa: F401
except ImportError as e:
    print(f"skipped: {e}; Debian's python3-torch has it")
    sys.exit(77)

random.seed(1)
torch.manual_seed(1)
X = torch.rand(3, 37, 53)
GRAY = torch.tensor([0.2989, 0.587, 0.114])[:, None, None]


def resize(x, h, w, mode="bilinear", antialias=True):
    more = {} if mode == "nearest" else {"align_corners": False, "antialias": antialias}
    return interpolate(x[None], (h, w), mode=mode, **more)[0]


def inverse(angle, translate, scale, shear):
    """torchvision.transforms.v2.functional._geometry._get_inverse_affine_matrix with the centre 0."""
    rot, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    m[2] += m[0] * -translate[0] + m[1] * -translate[1]
    m[5] += m[3] * -translate[0] + m[4] * -translate[1]
    return m


def mapped(x, m, mode):
    """torchvision's _affine_grid and _apply_grid_transform, fill 0."""
    h, w = x.shape[1:]
    theta = torch.tensor(m, dtype=torch.float64).reshape(1, 2, 3)
    base = torch.empty(1, h, w, 3, dtype=torch.float64)
    base[..., 0] = torch.linspace((1.0 - w) * 0.5, (w - 1.0) * 0.5, steps=w, dtype=torch.float64)
    base[..., 1] = torch.linspace((1.0 - h) * 0.5, (h - 1.0) * 0.5, steps=h, dtype=torch.float64).unsqueeze(-1)
    base[..., 2] = 1
    grid = base.view(1, h * w, 3).bmm(theta.transpose(1, 2) / torch.tensor([0.5 * w, 0.5 * h], dtype=torch.float64))
    return grid_sample(x[None].double(), grid.view(1, h, w, 2), mode=mode, padding_mode="zeros", align_corners=False)[0].float()


def blend(x, other, f):
    return (f * x + (1 - f) * other).clamp(0, 1)


def gray(x):
    return (x * GRAY).sum(0, keepdim=True)


def hue(x, f):
    """torchvision's _rgb_to_hsv and _hsv_to_rgb."""
    r, g, b = x.unbind(0)
    maxc, minc = x.amax(0), x.amin(0)
    eqc = maxc == minc
    cr = maxc - minc
    one = torch.ones_like(maxc)
    s = cr / torch.where(eqc, one, maxc)
    div = torch.where(eqc, one, cr)
    rc, gc, bc = (maxc - r) / div, (maxc - g) / div, (maxc - b) / div
    h = torch.where(maxc == r, bc - gc, torch.where(maxc == g, 2 + rc - bc, 4 + gc - rc))
    h = torch.fmod(h / 6 + 1, 1)
    h = (h + f) % 1
    i = torch.floor(h * 6)
    fr = h * 6 - i
    i = i.long() % 6
    v = maxc
    p, q, t = (v * (1 - s)).clamp(0, 1), (v * (1 - s * fr)).clamp(0, 1), (v * (1 - s * (1 - fr))).clamp(0, 1)
    sectors = [(v, t, p), (q, v, p), (p, v, t), (p, q, v), (t, p, v), (v, p, q)]
    out = torch.stack([sum(torch.where(i == k, sectors[k][c], torch.zeros_like(v)) for k in range(6)) for c in range(3)])
    return out


def centre(x, s):
    h, w = x.shape[1:]
    top, left = round((h - s) / 2), round((w - s) / 2)
    return x[:, top:top + s, left:left + s]


cases = []
for mode in ("nearest", "bilinear", "bicubic"):
    for h, w in ((20, 30), (60, 80), (37, 20), (1, 1), (90, 17)):
        for antialias in ("true", "false"):
            if mode == "nearest" and antialias == "true":
                continue
            cases.append((f"resize [{h}, {w}] interpolation={mode} antialias={antialias}", resize(X, h, w, mode, antialias == "true"), 6e-6))
cases += [
    ("resize 24", resize(X, 24, int(24 * 53 / 37)), 6e-6),
    ("center_crop 24", centre(X, 24), 0),
    ("center_crop [20, 31]", X[:, 8:28, 11:42], 0),
    ("center_crop [40, 60]", torch.nn.functional.pad(X, (3, 4, 1, 2)), 0),
    ("resize [40, 50], center_crop 32", centre(resize(X, 40, 50), 32), 6e-6),
    ("random_resized_crop 16 scale=[1, 1] ratio=[1.4324324324324325, 1.4324324324324325]", resize(X, 16, 16), 6e-6),
    ("random_resized_crop [16, 20] scale=[1, 1] ratio=[4, 4]", resize(X[:, 12:25], 16, 20), 6e-6),
    ("grayscale", gray(X), 1e-6), ("grayscale 3", gray(X).expand(3, -1, -1), 1e-6), ("random_grayscale 1", gray(X).expand(3, -1, -1), 1e-6),
    ("random_grayscale 0", X, 0),
    ("color_jitter brightness=[1.3, 1.3]", (X * 1.3).clamp(0, 1), 1e-6),
    ("color_jitter contrast=[0.4, 0.4]", blend(X, gray(X).mean(), 0.4), 1e-6),
    ("color_jitter contrast=[1.7, 1.7]", blend(X, gray(X).mean(), 1.7), 6e-6),
    ("color_jitter saturation=[0.2, 0.2]", blend(X, gray(X), 0.2), 1e-6),
    ("color_jitter saturation=[2, 2]", blend(X, gray(X), 2), 6e-6),
    ("color_jitter hue=[0.2, 0.2]", hue(X, 0.2), 1e-5), ("color_jitter hue=[-0.4, -0.4]", hue(X, -0.4), 1e-5),
    ("normalize mean=[0.485, 0.456, 0.406] std=[0.229, 0.224, 0.225]",
     (X - torch.tensor([0.485, 0.456, 0.406])[:, None, None]) / torch.tensor([0.229, 0.224, 0.225])[:, None, None], 6e-6),
    ("random_erasing p=0", X, 0), ("random_crop [37, 53]", X, 0),
]
for mode in ("nearest", "bilinear"):
    tol = 2e-6
    for angle in (-80, -10, 33, 90, 180):
        cases.append((f"random_rotation [{angle}, {angle}] interpolation={mode}", mapped(X, inverse(-angle, (0, 0), 1, (0, 0)), mode), tol))
        cases.append((f"random_affine [{angle}, {angle}] scale=[1.4, 1.4] shear=[10, 10] interpolation={mode}",
                      mapped(X, inverse(angle, (0, 0), 1.4, (10, 0)), mode), tol))
    cases.append((f"random_affine [0, 0] scale=[0.7, 0.7] shear=[5, 5, -12, -12] interpolation={mode}", mapped(X, inverse(0, (0, 0), 0.7, (5, -12)), mode), tol))

with tempfile.TemporaryDirectory() as tmp:
    d = pathlib.Path(tmp)
    np.save(d / "x.npy", X.numpy())
    lines = ['x = load("x.npy")']
    for i, (text, _, _) in enumerate(cases):
        lines.append(f'save transform(x, "{text}", seed=3) "{i}.npy"')
    (d / "t.dlsh").write_text("\n".join(lines) + "\n")
    dlsh = pathlib.Path(sys.argv[1]).resolve().parent.parent / "bin" / "dlsh"
    subprocess.run([dlsh, "-n", "--db", "none", "--device", "cpu", "t.dlsh"], cwd=d, check=True)
    bad = 0
    for i, (text, want, tol) in enumerate(cases):
        got = torch.from_numpy(np.load(d / f"{i}.npy"))
        want = want.contiguous()
        if got.shape != want.shape:
            print(f"{text}: shape {list(got.shape)}, not {list(want.shape)}")
            bad += 1
            continue
        off = (got - want).abs()
        # a pixel in a thousand may fall on the other side of a boundary between two sources
        many = (off > tol).float().mean().item()
        if many > (1e-3 if "nearest" in text else 0):
            print(f"{text}: {many:.2%} differ, by at most {off.max():.2g}")
            bad += 1
    print(f"{len(cases)} transforms, {bad} differ")
    sys.exit(bad > 0)
