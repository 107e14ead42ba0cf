#!/usr/bin/python3
"""Nets with a forward of their own against PyTorch: names, outputs, gradients and steps of training.

    tests/peers/nets_forward.py LIBDLCORE [DEVICE]

dlsh, beside the library, defines a net, makes its weights, and writes them with the input, the output, the gradients and
the weights after steps of an optimizer. PyTorch's net of the same names starts from these weights. f64: relative errors of
at most 1e-8. Each net also goes through summary, copy, save, load, a trainer, and a checkpoint from which training goes
on bit for bit. On DEVICE cuda steps are captured, and end in the same bits as steps op by op. Exit 77 (skipped) without PyTorch."""
import collections
import pathlib
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

STEPS = 4
DEVICE = sys.argv[2] if len(sys.argv) > 2 else "cpu"


def chain(**layers):
    return nn.Sequential(collections.OrderedDict(layers))


# ---------------------------------------------------------------- PyTorch's nets

def double(i, o):
    return chain(conv0=nn.Conv2d(i, o, 3, padding=1), batchnorm0=nn.BatchNorm2d(o), relu0=nn.ReLU(),
                 conv1=nn.Conv2d(o, o, 3, padding=1), batchnorm1=nn.BatchNorm2d(o), relu1=nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.d1, self.d2, self.mid = double(1, 4), double(4, 8), double(8, 16)
        self.u2, self.c2 = nn.ConvTranspose2d(16, 8, 2, 2), double(16, 8)
        self.u1, self.c1 = nn.ConvTranspose2d(8, 4, 2, 2), double(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        m = self.mid(F.max_pool2d(b, 2))
        b = self.c2(torch.cat([self.u2(m), b], 1))
        return self.head(self.c1(torch.cat([self.u1(b), a], 1)))


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = chain(flatten0=nn.Flatten(), linear0=nn.Linear(64, 16), tanh0=nn.Tanh())
        self.cls, self.aux = nn.Linear(16, 10), nn.Linear(16, 1)

    def forward(self, x):
        h = self.body(x)
        return self.cls(h), self.aux(h)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.mlp = chain(linear0=nn.Linear(c, 4 * c), gelu0=nn.GELU(), linear1=nn.Linear(4 * c, c))

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).chunk(3, 2)
        s = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
        s = s + torch.full(s.shape[1:], -1e9, dtype=s.dtype).triu(1)
        x = x + self.proj(s.softmax(2) @ v)
        return x + self.mlp(self.n2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(11, 8)
        self.pos = nn.Parameter(torch.zeros(6, 8))
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, i):
        x = self.emb(i) + self.pos[:i.shape[1]]
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x))


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = chain(linear0=nn.Linear(5, 8), relu0=nn.ReLU(), linear1=nn.Linear(8, 4))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, a, b):
        return ((self.enc(a) - self.enc(b)) ** 2).sum(1) * self.scale


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.wx, self.wh, self.out = nn.Linear(3, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 2)
        self.register_buffer("h0", torch.full((6,), 0.5))

    def forward(self, x):
        h = self.h0.expand(x.shape[0], 6)
        for t in range(x.shape[1]):
            h = torch.tanh(self.wx(x[:, t]) + self.wh(h))
        return self.out(h)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.LSTM(3, 5, 2, batch_first=True, bidirectional=True)
        self.b, self.c = nn.GRU(10, 4, bias=False), nn.RNN(4, 4, nonlinearity="relu")
        self.cell, self.unit, self.plain, self.out = nn.LSTMCell(4, 3), nn.GRUCell(3, 3), nn.RNNCell(3, 3), nn.Linear(3, 2)

    def forward(self, x, n):
        p, (h, c) = self.a(nn.utils.rnn.pack_padded_sequence(x, n, True, False))
        y = nn.utils.rnn.pad_packed_sequence(p, True)[0]
        z, s = self.b(y.transpose(0, 1))
        w, _ = self.c(z, s)
        hc = self.cell(z[-1], self.cell(w[-1]))
        g = self.plain(hc[0], self.unit(hc[1], self.unit(hc[0])))
        return self.out(g) + h.sum(0)[:, :2] * c.sum(0)[:, 2:4]


class Attention(nn.Module):
    """All of torch.nn that attends, without dropout."""
    def __init__(self):
        super().__init__()
        layer = dict(nhead=2, dim_feedforward=12, dropout=0, batch_first=True)
        self.up = nn.Linear(3, 8)
        self.a = nn.MultiheadAttention(8, 2, batch_first=True)
        self.b = nn.MultiheadAttention(8, 4, bias=False, add_bias_kv=True, add_zero_attn=True, kdim=3, vdim=5)
        self.e = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, activation="gelu", norm_first=True, **layer), 2,
                                       nn.LayerNorm(8))
        self.d = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, **layer), 1)
        self.t = nn.Transformer(8, 2, 1, 1, 12, 0)
        self.out = nn.Linear(8, 2)

    def forward(self, x, p):
        causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
        later = torch.zeros(6, 6, dtype=torch.float64).masked_fill(causal, -1.5)
        h = self.up(x)
        y, w = self.a(h, h, h, p, attn_mask=causal)
        z, v = self.b(y.transpose(0, 1), x.transpose(0, 1), h.transpose(0, 1)[..., :5], average_attn_weights=False)
        h = self.e(y + z.transpose(0, 1), mask=causal, src_key_padding_mask=p)
        m = self.d(h, y, tgt_mask=causal, memory_mask=later, memory_key_padding_mask=p)
        t = self.t(m.transpose(0, 1), h.transpose(0, 1), tgt_mask=causal, src_key_padding_mask=p)
        alone = self.a(t[:, 0], 2 * t[:, 0], t[:, 0] + 1, need_weights=False)[0]
        return self.out(t.mean(0)) + w.pow(2).mean() + v.pow(2).mean() + alone.mean()



# ---------------------------------------------------------------- dlsh's

NETS = {
    "unet": (UNet, """
net double(c) { conv c k=3 pad=1 -> batchnorm -> relu -> conv c k=3 pad=1 -> batchnorm -> relu }
fn make() { return net {
    d1: double 4; d2: double 8; mid: double 16
    u2: convtranspose 8 k=2 stride=2; c2: double 8
    u1: convtranspose 4 k=2 stride=2; c1: double 4
    head: conv 2 k=1
    forward(x) {
        a = d1(x)
        b = d2(max_pool2d(a, 2))
        m = mid(max_pool2d(b, 2))
        b = c2(cat([u2(m), b], 1))
        return head(c1(cat([u1(b), a], 1)))
    }
} }
""", "[randn(3, 1, 8, 8, dtype=f64)]", "y.pow(2).mean()", lambda y: y.pow(2).mean(),
             "fn (o, y) { return cross_entropy(o.mean([2, 3]), y % 2) }"),
    "heads": (Heads, """
fn make() { return net {
    body: flatten -> linear 16 -> tanh
    cls: linear 10
    aux: linear 1
    forward(x) { h = body(x); return {cls: cls(h), aux: aux(h)} }
} }
""", "[randn(5, 64, dtype=f64)]", "y.cls.logsumexp(1).mean() + 0.5 * y.aux.pow(2).mean()",
              lambda y: y[0].logsumexp(1).mean() + 0.5 * y[1].pow(2).mean(),
              "fn (o, y) { return cross_entropy(o.cls, y) + 0.1 * mse_loss(o.aux[:, 0], y.float()) }"),
    "lm": (LM, """
net block(c) {
    n1: layernorm; n2: layernorm
    qkv: linear (3 * c)
    proj: linear c
    mlp: linear (4 * c) -> gelu -> linear c
    forward(x) {
        qs = qkv(n1(x)).chunk(3, 2)
        s = qs[0] @ qs[1].transpose(1, 2) / qs[0].shape[2] ** 0.5
        s = s + triu(full([s.shape[1], s.shape[2]], -1e9, dtype=s.dtype), 1)
        x = x + proj(softmax(s, 2) @ qs[2])
        return x + mlp(n2(x))
    }
}
fn make() { return net {
    emb: embedding 11 8
    param pos [6, 8] std=0.02
    blocks: list 2 { block 8 }
    norm: layernorm
    head: linear 11 bias=false tie=emb.weight
    forward(i) {
        if i.dtype != i64 { i = clamp(i.flatten(1)[:, 300:306] * 10, 0, 10).to(i64) }
        x = emb(i) + pos[:i.shape[1]]
        for b in blocks { x = b(x) }
        return head(norm(x))
    }
} }
""", "[tensor([[1, 2, 3, 4, 5, 6], [10, 9, 8, 7, 0, 0]])]", "y.logsumexp(2).mean() - y[:, :, 3].mean()",
           lambda y: y.logsumexp(2).mean() - y[:, :, 3].mean(),
           "fn (o, y) { return cross_entropy(o[:, -1], y) }"),
    "siamese": (Siamese, """
fn make() { return net {
    enc: linear 8 -> relu -> linear 4
    param scale [1] init=1
    forward(a, b=none) {
        if b == none { a, b = a.flatten(1)[:, 200:205], a.flatten(1)[:, 300:305] }
        return sum((enc(a) - enc(b)) ** 2, 1) * scale
    }
} }
""", "[randn(6, 5, dtype=f64), randn(6, 5, dtype=f64)]", "(y - 1).pow(2).mean()", lambda y: (y - 1).pow(2).mean(),
                "fn (o, y) { return mse_loss(o, y.float()) }"),
    "cell": (Cell, """
fn make() { return net {
    wx: linear 6; wh: linear 6 bias=false; out: linear 2
    buffer h0 [6] init=0.5
    forward(x) {
        if x.ndim == 4 { x = x[:, 0, 8:20, :3] }
        h = h0.expand([x.shape[0], 6])
        for t in range(x.shape[1]) { h = tanh(wx(x[:, t]) + wh(h)) }
        return out(h)
    }
} }
""", "[randn(4, 7, 3, dtype=f64)]", "(y - 0.3).pow(2).mean()", lambda y: (y - 0.3).pow(2).mean(),
             "fn (o, y) { return cross_entropy(o, y % 2) }"),
    "recurrent": (Recurrent, """
fn make() { return net {
    a: lstm 5 layers=2 batch_first bidirectional
    b: gru 4 bias=false
    c: rnn 4 nonlinearity="relu"
    cell: lstm_cell 3; unit: gru_cell 3; plain: rnn_cell 3; out: linear 2
    forward(x, n=none) {
        if x.ndim == 4 { x = x[:, 0, 8:20:2, 3:6] }
        y, s = n == none ? a(x) : a(x, lengths=n)
        z, last = b(y.transpose(0, 1))
        w, last = c(z, last)
        h = cell(w[-1])
        h = cell(z[-1], h)
        g = plain(h[0], unit(h[1], unit(h[0])))
        return out(g) + sum(s[0], 0)[:, :2] * sum(s[1], 0)[:, 2:4]
    }
} }
""", "[randn(4, 6, 3, dtype=f64), tensor([6, 2, 4, 1])]", "(y - 0.3).pow(2).mean()", lambda y: (y - 0.3).pow(2).mean(),
                  "fn (o, y) { return cross_entropy(o, y % 2) }"),
    "attention": (Attention, """
fn make() { return net {
    up: linear 8
    a: mha 8 2 batch_first
    b: multiheadattention 8 4 bias=false add_bias_kv add_zero_attn kdim=3 vdim=5
    e: transformerencoder 8 2 2 ff=12 dropout=0 activation="gelu" norm_first batch_first norm
    d: transformerdecoder 8 2 1 ff=12 dropout=0 batch_first
    t: transformer 8 2 1 1 ff=12 dropout=0
    out: linear 2
    forward(x, p=none) {
        if x.ndim == 4 { x = x[:, 0, 8:20:2, 3:6]; p = zeros(x.shape[0], 6, dtype=bool) }
        causal = triu(ones(6, 6, dtype=bool), 1)
        later = where(causal, -1.5, 0.0).to(x.dtype)
        h = up(x)
        y, w = a(h, h, h, p, attn_mask=causal)
        z, v = b(y.transpose(0, 1), x.transpose(0, 1), h.transpose(0, 1)[..., :5], average_attn_weights=false)
        h = e(y + z.transpose(0, 1), causal, src_key_padding_mask=p)
        m = d(h, y, tgt_is_causal=true, memory_mask=later, memory_key_padding_mask=p)
        q = t(m.transpose(0, 1), h.transpose(0, 1), tgt_mask=causal, src_key_padding_mask=p)
        alone = a(q[:, 0], 2 * q[:, 0], q[:, 0] + 1, need_weights=false)
        return out(q.mean(0)) + w.pow(2).mean() + v.pow(2).mean() + alone.mean()
    }
} }
""", "[randn(4, 6, 3, dtype=f64), tensor([[0, 0, 0, 0, 0, 0], [0, 0, 0, 1, 1, 1], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1]], dtype=bool)]",
                  "(y - 0.3).pow(2).mean()", lambda y: (y - 0.3).pow(2).mean(),
                  "fn (o, y) { return cross_entropy(o, y % 2) }"),
}

COMMON = """
seed 3
x = %(inputs)s
m = make()
m.to(f64);
fn run(m) { return len(x) > 1 ? m(x[0], x[1]) : m(x[0]) }
run(m);                                   # makes the weights, and has batchnorm see a batch
m = m.copy()
out = record()
fn put(to, prefix, r) { for k, v in r { to[prefix + k] = v.clone().detach() } }
put(out, "w.", m.state())
for i in range(len(x)) { out["x." + str(i)] = x[i] }
y = run(m)
ys = type(y) == "record" ? y.values() : [y]
for i in range(len(ys)) { out["y." + str(i)] = ys[i].detach() }
m = m.copy(); no_grad { for k, v in m.state() { v.copy_(out["w." + k]); } }
o = %(optimizer)s
for i in range(%(steps)d) {
    o.zero_grad()
    y = run(m)
    l = %(loss)s
    backward l
    if i == 0 { for k, p in m.named_parameters() { out["g." + k] = p.grad.clone() } }
    o.step()
}
put(out, "a.", m.state())
save out "out.npz"
"""

# Through everything that nets do: in f32, on images of digits.
WHOLE = """
seed 4
d = dataset("digits", n=64, test=16)
fn trainer_of(m) { return trainer(m, d, opt=adam(lr=1e-2), batch=16, loss=%(fn)s) }
m = make()
t = trainer_of(m)
step t 2;
save t "t.safetensors"
step t 3;
seed 9
other = make()
u = trainer_of(other)
load u "t.safetensors"
step u 3;
for k, v in m.state() { assert equal(v, other.state()[k]) }
eval(t)
x = next(t.batches)[0]
m.eval()
y = m(x)
save m "m.safetensors"
c = m.copy()
r = make()
load r "m.safetensors"
r.eval()
fn same(a, b) { return type(a) == "record" ? equal(a.cls, b.cls) && equal(a.aux, b.aux) : equal(a, b) }
assert same(c(x), y) && same(r(x), y)
assert len(m.named_parameters()) == len(m.parameters())
show m
"""

# On an accelerator: steps from graphs.
CAPTURED = """
fn after() {
    seed 11
    m = make()
    t = trainer_of(m)
    step t 20;
    return [m.state(), t.capture]
}
a, how = after()
assert how == "captured"
set capture off
b = after()[0]
set capture on
for k, v in a { assert equal(v, b[k]) }
"""


def dlsh(binary, folder, text):
    script = pathlib.Path(folder, "net.dlsh")
    script.write_text(text)
    done = subprocess.run([binary, "-n", "--db", "none", "--device", DEVICE, script.name], cwd=folder, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"dlsh failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def compare(name, what, ours, theirs, worst):
    theirs = theirs.detach().numpy()
    if ours.shape != theirs.shape:
        raise SystemExit(f"{name}: {what} has shape {ours.shape}, PyTorch's {theirs.shape}")
    error = np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-3)
    worst[0] = max(worst[0], error)
    if not error <= 1e-8:
        raise SystemExit(f"{name}: {what} differs from PyTorch's by {error:.2g}")


def steps(name, cls, files, loss, make):
    """PyTorch's net from dlsh's weights."""
    worst = [0.0]
    part = lambda prefix: {k[2:]: files[k] for k in files.files if k.startswith(prefix)}
    weights = {k: torch.from_numpy(v) for k, v in part("w.").items()}
    inputs = [torch.from_numpy(v) for _, v in sorted(part("x.").items())]
    net = cls().double()
    shared = {k for k, p in net.state_dict(keep_vars=True).items() if k not in dict(net.named_parameters()) and isinstance(p, nn.Parameter)}
    own = {k for k in net.state_dict() if not k.endswith("num_batches_tracked")} - shared
    if own != set(weights):
        raise SystemExit(f"{name}: names differ: {sorted(own ^ set(weights))}")
    net.load_state_dict(weights, strict=False)
    y = net(*inputs)
    for i, t in enumerate(y if isinstance(y, tuple) else [y]):
        compare(name, f"result {i}", files[f"y.{i}"], t, worst)
    net.load_state_dict(weights, strict=False)
    optimizer = make(net.parameters())
    for step in range(STEPS):
        optimizer.zero_grad()
        loss(net(*inputs)).backward()
        if step == 0:
            for k, p in net.named_parameters():
                compare(name, f"the gradient of {k}", files["g." + k], p.grad, worst)
        optimizer.step()
    for k, v in part("a.").items():
        compare(name, f"{k} after {STEPS} steps", v, net.state_dict()[k], worst)
    return worst[0]


OPTIMIZERS = [("sgd(m, lr=0.05, momentum=0.9)", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
              ("adamw(m, lr=0.01, weight_decay=0.1)", lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1))]


def main():
    binary = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    torch.set_num_threads(1)
    for name, (cls, text, inputs, loss, their_loss, fn) in NETS.items():
        with tempfile.TemporaryDirectory() as folder:
            for ours, theirs in OPTIMIZERS:
                dlsh(binary, folder, text + COMMON % {"inputs": inputs, "loss": loss, "optimizer": ours, "steps": STEPS})
                with np.load(pathlib.Path(folder, "out.npz")) as files:
                    error = steps(name, cls, files, their_loss, theirs)
                print(f"{name}, {ours.split('(')[0]}: largest relative error {error:.1e}")
            table = dlsh(binary, folder, text + WHOLE % {"fn": fn} + (CAPTURED if DEVICE != "cpu" else ""))
            assert "total" in table, table


if __name__ == "__main__":
    main()
