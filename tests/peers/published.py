#!/usr/bin/python3
"""Weights published for PyTorch, loaded under other names: ResNet-18's and GPT-2's layouts.

    tests/peers/published.py LIBDLCORE

PyTorch's net of the published names, with weights made here, is written as .safetensors, sorted as that library sorts. dlsh,
beside the library, loads it into nets of its own by map= and by=order; outputs are compared, at most 1e-5 relative to the
largest. Widths are small, layers are all there. Exit 77 (skipped) without PyTorch."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    from torch import nn
    import torch.nn.functional as F
except ImportError as e:
    print(f"skipped: {e}; Debian's python3-torch has it")
    sys.exit(77)


def write_safetensors(path, tensors):
    """The larger dtypes first, then by name."""
    names = sorted(tensors, key=lambda k: (-tensors[k].element_size(), k))
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for k in names:
        size = tensors[k].numel() * tensors[k].element_size()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[tensors[k].dtype]
        head[k] = {"dtype": dtype, "shape": list(tensors[k].shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for k in names:
            f.write(tensors[k].detach().contiguous().numpy().tobytes())


# ---------------------------------------------------------------- ResNet-18

class Basic(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        if s != 1:
            self.downsample = nn.Sequential(nn.Conv2d(i, o, 1, s, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if hasattr(self, "downsample") else x))


class ResNet18(nn.Module):
    def __init__(self, w=8, classes=20):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w)
        for i in range(4):
            blocks = nn.Sequential(Basic(w << max(i - 1, 0), w << i, 1 + (i > 0)), Basic(w << i, w << i, 1))
            setattr(self, f"layer{i + 1}", blocks)
        self.fc = nn.Linear(8 * w, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for i in range(4):
            x = getattr(self, f"layer{i + 1}")(x)
        return self.fc(x.mean((2, 3)))


RESNET = """
net first(c) { residual { conv c k=3 pad=1 bias=false -> batchnorm -> relu -> conv c k=3 pad=1 bias=false -> batchnorm } -> relu }
net down(c) {
    residual { conv c k=3 pad=1 stride=2 bias=false -> batchnorm -> relu -> conv c k=3 pad=1 bias=false -> batchnorm }
    shortcut { conv c k=1 stride=2 bias=false -> batchnorm } -> relu
}
net stem { conv 8 k=7 pad=3 stride=2 bias=false -> batchnorm -> relu -> maxpool 3 stride=2 pad=1 }
fn make() { return net {
    stem -> first 8 -> first 8 -> down 16 -> first 16 -> down 32 -> first 32 -> down 64 -> first 64
    adaptiveavgpool 1 -> flatten -> fc: linear 20
} }
"""

RESNET_MAP = """
map = {"conv1": "stem0.conv0", "bn1": "stem0.batchnorm0"}
count = {first: 0, down: 0}
for i in range(4) {
    for j in range(2) {
        kind = i > 0 && j == 0 ? "down" : "first"
        to = kind + str(count[kind]) + ".residual0."
        count[kind] += 1
        from = "layer" + str(i + 1) + "." + str(j) + "."
        map[from + "conv1"] = to + "conv0"
        map[from + "conv2"] = to + "conv1"
        map[from + "bn1"] = to + "batchnorm0"
        map[from + "bn2"] = to + "batchnorm1"
        if kind == "down" {
            map[from + "downsample.0"] = to + "shortcut.conv0"
            map[from + "downsample.1"] = to + "shortcut.batchnorm0"
        }
    }
}
load m "file.safetensors" map=map
"""


# ---------------------------------------------------------------- GPT-2

class Conv1D(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(i, o) * 0.2), nn.Parameter(torch.randn(o) * 0.1)

    def forward(self, x):
        return x @ self.weight + self.bias


class GPT2(nn.Module):
    C, HEADS, LAYERS, WORDS, PLACES = 16, 2, 12, 50, 10

    def __init__(self):
        super().__init__()
        c = self.C
        self.wte, self.wpe, self.ln_f = nn.Embedding(self.WORDS, c), nn.Embedding(self.PLACES, c), nn.LayerNorm(c)
        self.h = nn.ModuleList()
        for _ in range(self.LAYERS):
            b = nn.Module()
            b.ln_1, b.ln_2, b.attn, b.mlp = nn.LayerNorm(c), nn.LayerNorm(c), nn.Module(), nn.Module()
            b.attn.c_attn, b.attn.c_proj = Conv1D(c, 3 * c), Conv1D(c, c)
            b.attn.register_buffer("bias", torch.tril(torch.ones(1, 1, self.PLACES, self.PLACES)))
            b.mlp.c_fc, b.mlp.c_proj = Conv1D(c, 4 * c), Conv1D(4 * c, c)
            self.h.append(b)

    def forward(self, i):
        n, t = i.shape
        x = self.wte(i) + self.wpe.weight[:t]
        for b in self.h:
            q, k, v = (a.view(n, t, self.HEADS, -1).transpose(1, 2) for a in b.attn.c_attn(b.ln_1(x)).chunk(3, 2))
            s = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
            s = s.masked_fill(b.attn.bias[:, :, :t, :t] == 0, -1e9).softmax(3)
            x = x + b.attn.c_proj((s @ v).transpose(1, 2).reshape(n, t, -1))
            x = x + b.mlp.c_proj(F.gelu(b.mlp.c_fc(b.ln_2(x)), approximate="tanh"))
        return self.ln_f(x) @ self.wte.weight.T


GPT = """
net block(c, heads) {
    norm1: layernorm; qkv: linear (3 * c); out: linear c
    norm2: layernorm; up: linear (4 * c); down: linear c
    forward(x) {
        n, t = x.shape[0], x.shape[1]
        qs = qkv(norm1(x)).chunk(3, 2)
        for j in range(3) { qs[j] = qs[j].reshape([n, t, heads, -1]).permute([0, 2, 1, 3]) }
        s = qs[0] @ qs[1].transpose(2, 3) / qs[0].shape[3] ** 0.5
        s = softmax(s + triu(full([t, t], -1e9), 1), 3)
        x = x + out((s @ qs[2]).permute([0, 2, 1, 3]).reshape([n, t, c]))
        u = up(norm2(x))
        return x + down(0.5 * u * (1 + tanh(sqrt(2 / pi) * (u + 0.044715 * u ** 3))))
    }
}
fn make() { return net {
    emb: embedding 50 16
    param places [10, 16] std=0.02
    blocks: list 12 { block 16 2 }
    norm: layernorm
    head: linear 50 bias=false tie=emb.weight
    forward(i) {
        x = emb(i) + places[:i.shape[1]]
        for b in blocks { x = b(x) }
        return head(norm(x))
    }
} }
"""

GPT_MAP = """
load m "file.safetensors" strict=false map={"wte": "emb", "wpe.weight": "places", "ln_f": "norm", "h.*.ln_1": "blocks.*.norm1",
    "h.*.ln_2": "blocks.*.norm2", "h.*.attn.c_attn": "blocks.*.qkv", "h.*.attn.c_proj": "blocks.*.out", "h.*.mlp.c_fc": "blocks.*.up",
    "h.*.mlp.c_proj": "blocks.*.down", "h.*.attn.bias": none} transpose="*.c_*.weight"
"""

COMMON = """
d = load("input.npz")
m = make()
m(d.x);
m.eval()
%s
save record(y=m(d.x).detach()) "y.npz"
"""


def run(binary, folder, text):
    pathlib.Path(folder, "net.dlsh").write_text(text)
    done = subprocess.run([binary, "-n", "--db", "none", "--device", "cpu", "net.dlsh"], cwd=folder, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"dlsh failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def check(binary, name, net, x, text, by_map):
    net.eval()
    for k, v in net.state_dict().items():
        if k.endswith(("running_mean", "bn1.weight", "bn2.weight", "ln_1.weight", "ln_2.weight", "ln_f.weight")):
            v += torch.randn_like(v) * 0.1
    y = net(x).detach().numpy()
    with tempfile.TemporaryDirectory() as folder:
        write_safetensors(pathlib.Path(folder, "file.safetensors"), net.state_dict())
        np.savez(pathlib.Path(folder, "input.npz"), x=x.numpy())
        for how, load in (("map", by_map), ("order", 'load m "file.safetensors" by=order')):
            said = run(binary, folder, text + COMMON % load)
            ours = np.load(pathlib.Path(folder, "y.npz"))["y"]
            error = np.abs(ours - y).max() / np.abs(y).max()
            print(f"{name} by {how}: {error:.1e}; " + "; ".join(s for s in said.splitlines() if "loaded" in s or "only in" in s)[:160])
            if not error <= 1e-5:
                raise SystemExit(f"{name} by {how}: the result differs from PyTorch's by {error:.2g}\n{said}")


def main():
    binary = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    torch.manual_seed(0)
    torch.set_num_threads(1)
    check(binary, "ResNet-18", ResNet18(), torch.randn(2, 3, 64, 64), RESNET, RESNET_MAP)
    check(binary, "GPT-2", GPT2(), torch.randint(0, 50, (2, 9)), GPT, GPT_MAP)


if __name__ == "__main__":
    main()
