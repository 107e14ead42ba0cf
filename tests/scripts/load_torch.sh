# Files that PyTorch writes: a record, the weights of a net, and refused files.
/usr/bin/python3 -c 'import torch' 2>/dev/null || exit 77
/usr/bin/python3 - <<'P'
import argparse, os, pickle, zipfile
import numpy as np, torch
torch.manual_seed(0)
m = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
names = {"0.weight": "linear0.weight", "0.bias": "linear0.bias", "1.weight": "batchnorm0.weight", "1.bias": "batchnorm0.bias",
         "1.running_mean": "batchnorm0.running_mean", "1.running_var": "batchnorm0.running_var"}
o = torch.optim.Adam(m.parameters())
m(torch.randn(4, 3)).sum().backward()
o.step()
m.eval()
weights = {names.get(k, k): v for k, v in m.state_dict().items() if k in names}
x = torch.tensor([[1.0, 2, 3]])
open("result.json", "w").write(str(m(x).tolist()))
a = torch.arange(12).reshape(3, 4)
torch.save(weights, "weights.pt")
torch.save(weights, "weights.pth", _use_new_zipfile_serialization=False)
torch.save({"epoch": 3, "model": weights, "opt": o.state_dict()}, "checkpoint.pt")
torch.save({"a": weights, "b": weights}, "two.pt")
torch.save({"lr": 0.1, "name": "x", "ok": True, "none": None, "list": [1, (2.5, "a")], "size": torch.Size([2, 3]), "dtype": torch.float16,
            "param": torch.nn.Parameter(torch.ones(2)), "device": torch.device("cpu"), "acc": np.float64(0.5),
            "args": argparse.Namespace(epochs=2), "steps": {0: 7}}, "values.pt")
torch.save([a, a.T, a[1:, ::2], a.bool(), a[:1].half(), a[:1].bfloat16(), a[:1].short(), a.new_zeros(0, 3), torch.tensor(2.5)], "views.pt")
torch.save([a, a.T], "views.pth", _use_new_zipfile_serialization=False)
shared = torch.zeros(2)
torch.save({"a": shared, "b": shared}, "shared.pt")
class Call:
    def __reduce__(self): return os.system, ("touch owned",)
torch.save({"a": Call()}, "call.pt")
torch.save(m, "module.pt")
torch.save(torch.tensor([1 + 2j, -1j], dtype=torch.complex64), "complex.pt")
whole = open("weights.pt", "rb").read()
open("cut.pt", "wb").write(whole[:-300])
old = open("weights.pth", "rb").read()
open("cut.pth", "wb").write(old[:-20])
open("flipped.pt", "wb").write(whole.replace(b"_rebuild_tensor_v2", b"_rebuild_tensor_v9"))
def repack(name, edit):
    source = zipfile.ZipFile("weights.pt")
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        for i in source.infolist():
            data = source.read(i)
            data = edit(data) if i.filename.endswith("data.pkl") else data
            if data is not None: z.writestr(i.filename, data)
repack("deflated.pt", lambda p: p)
repack("outside.pt", lambda p: p.replace(b"QK\0K\2K\3\x86", b"QK\0K\2K\4\x86", 1))
repack("stride.pt", lambda p: p.replace(b"K\3K\1\x86", b"K\4K\1\x86", 1))
numel = b"K\6tq"
repack("huge.pt", lambda p: p.replace(numel, b"J\xff\xff\xff\x7ftq", 1))
repack("empty.pt", lambda p: b"")
repack("none.pt", lambda p: None)
for p in range(1, 6):
    pickle.dump({"a": np.arange(6).reshape(2, 3), "f": np.asfortranarray(np.arange(6.).reshape(2, 3)), "big": np.array([1, 2], ">i4"),
                 b"e": [1, True, None, "\u00e4"], "s": {3}, "n": -5, "L": 2**40}, open("p%d.pkl" % p, "wb"), protocol=p)
deep = []
deep.append(deep)
pickle.dump(deep, open("cycle.pkl", "wb"))
laugh = []
for _ in range(40): laugh = [laugh, laugh]
pickle.dump(laugh, open("sharing.pkl", "wb"))
text = "x" * 65536
for _ in range(16): text = {"a": text, "b": text}
pickle.dump(text, open("texts.pkl", "wb"))
pickle.dump([np.zeros(65536)] * 9000, open("arrays.pkl", "wb"))
pickle.dump([np.zeros(1000)] * 1000, open("few.pkl", "wb"))
open("long.npy", "wb").write(b"\x93NUMPY\1\0v\0" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1048576), }".ljust(117) + b"\n")
P
run() { dlsh -n --db none --device cpu "$@" 2>&1; }
run -c 'x = tensor([[1.0, 2, 3]])
fn show_net(m, f, x) {
    m.eval()
    print(f, all(abs(m(x) - tensor(json(read_text("result.json")))) < 1e-5) ? "as in PyTorch" : "differs")
}
net a { linear 2 -> batchnorm }; load a "weights.pt"; show_net(a, "weights.pt", x)
net b { linear 2 -> batchnorm }; load b "weights.pth"; show_net(b, "weights.pth", x)
net c { linear 2 -> batchnorm }; load c "checkpoint.pt"; show_net(c, "checkpoint.pt", x)
net d { linear 2 -> batchnorm }; load d "deflated.pt"; show_net(d, "deflated.pt", x)
load("values.pt")
load("views.pt")
load("views.pth")
c = load("checkpoint.pt"); print(c.epoch, c.opt.state.keys(), c.opt.param_groups[0].lr)
s = load("shared.pt"); no_grad { s.a.fill_(3) }; s.b'
for p in 1 2 3 4 5; do run -c "load(\"p$p.pkl\")"; done
run -k -c 'net m { linear 2 -> batchnorm }
load("call.pt")
load("module.pt")
load("complex.pt")
load("cut.pt")
load("cut.pth")
load("flipped.pt")
load("outside.pt")
load("stride.pt")
load("huge.pt")
load("empty.pt")
load("none.pt")
load("cycle.pkl")
load("sharing.pkl")
load("texts.pkl")
load("arrays.pkl")
len(load("few.pkl"))
load("long.npy")
load m "two.pt"
load m "values.pt"
m.build([3]); save m "m.pt"'
ls owned 2>&1
exit 0
