#!/usr/bin/env python3
"""What breakpoints of trainings cost that never fire: the time of a step with one beside that of the steps before and after,
which have none. Medians of pairs.

    bench/breakpoints.py DLSH [--device cuda] [--pairs 9] [--steps 300]     DLSH: build/bin/dlsh
"""
import argparse
import re
import subprocess
import tempfile

NETS = {
    "mlp": "flatten; fc1: linear 512 -> relu; fc2: linear 256 -> relu; linear 10",
    "conv": "conv 32 3 pad=1 -> relu; maxpool 2; conv 64 3 pad=1 -> relu; maxpool 2; flatten; fc1: linear 128 -> relu; linear 10",
    "norm": "conv 32 3 pad=1 -> batchnorm -> relu; maxpool 2; conv 64 3 pad=1 -> batchnorm -> relu; maxpool 2; flatten; "
            "fc1: linear 128 -> relu; linear 10",
}
CONDITIONS = ["", "break loss < -1", "break norm(fc1.weight.grad) > 1e9", "watch m.*.grad when=nan", "break isnan(relu0)",
              "break dead(relu0) > 2", "break isnan(conv1)", "break isnan(batchnorm0)", "break isnan(fc1)",
              "break norm(relu0) > 1e9"]
LAYER = re.compile(r"\((conv|batchnorm)\d")


def script(net, condition, a):
    on, off = (f"dbg {{ {condition} }}", "dbg { delete }") if condition else ("", "")
    pair = f"""step t {a.warm}; u = once(); {on}
step t {a.warm}; v = once(); {off}
step t {a.warm}; w = once()
ratio.append(2 * v / (u + w)); base.append((u + w) / 2)
"""
    return f"""device {a.device}
net m {{ {NETS[net]} }}
d = dataset(randn({a.samples}, 1, 28, 28, device="cpu"), randint(0, 10, [{a.samples}], device="cpu"), test=128)
t = trainer(m, d, opt=sgd(lr=0.001, momentum=0.9), batch=128)
fn once() {{ from = time(); step t {a.steps}; return (time() - from) / {a.steps} }}
step t {a.warm};
ratio = []
base = []
{pair * a.pairs}
print("figures", 1e6 * sort(tensor(base))[0][{a.pairs // 2}].item(), sort(tensor(ratio))[0][{a.pairs // 2}].item())
"""


def measure(net, condition, a):
    with tempfile.NamedTemporaryFile("w", suffix=".dlsh") as f:
        f.write(script(net, condition, a))
        f.flush()
        out = subprocess.run([a.dlsh, "-n", f.name], capture_output=True, text=True)
    found = re.search(r"^figures (\S+) (\S+)", out.stdout, re.M)
    if not found:
        raise SystemExit(f"{net}, {condition}: {out.stdout}{out.stderr}")
    return float(found[1]), 100 * (float(found[2]) - 1)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("dlsh")
    p.add_argument("--device", default="cuda")
    p.add_argument("--pairs", type=int, default=9)
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--warm", type=int, default=40, help="steps between, in which a graph is captured")
    p.add_argument("--samples", type=int, default=8192)
    a = p.parse_args()
    print(f"{'net':5}  {'breakpoint':36}  us/step  extra %")
    for net, layers in NETS.items():
        for c in CONDITIONS:
            named = LAYER.search(c)
            if not named or named[1] in layers:
                print(f"{net:5}  {c or 'none':36}  {'%7.1f  %7.1f' % measure(net, c, a)}", flush=True)


if __name__ == "__main__":
    main()
