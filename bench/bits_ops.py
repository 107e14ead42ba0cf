#!/usr/bin/python3
"""Do two builds of dlsh compute pointwise ops to the same bits? All ops of one and two operands and their gradients, every dtype, special
values: bench/bits/pointwise.dlsh.

    bench/bits_ops.py BEFORE AFTER [DEVICE]     BEFORE, AFTER: dlsh programs; DEVICE: cpu (default) or cuda

An f32 result that differs is shown with the largest error of both builds there, in units of the last place, against the same row in f64 by AFTER. Ends with status 1 when one differs."""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bits", "pointwise.dlsh")


def results(program, device, folder):
    file = os.path.join(folder, "bits.safetensors")
    subprocess.run([os.path.abspath(program), "-n", "-q", "--db", "none", SCRIPT, f"device={device}", f"out={file}"], check=True)
    with open(file, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    head.pop("__metadata__", None)
    return {name: (row["dtype"], data[slice(*row["data_offsets"])]) for name, row in head.items()}


def numbers(dtype, raw):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    form = {"F64": "d", "F32": "f", "F16": "e", "BOOL": "?", "U8": "B", "I32": "i", "I64": "q"}[dtype]
    return struct.unpack(f"<{len(raw) // struct.calcsize(form)}{form}", raw)


def same(a, b):
    """Bit for bit, but that one NaN is as good as another."""
    if a == b or not (a and b and a[0] == b[0] and len(a[1]) == len(b[1])):
        return a == b
    return all(p == q and math.copysign(1, p) == math.copysign(1, q) or p != p and q != q for p, q in zip(numbers(*a), numbers(*b)))


def error(got, want):
    """Of an f32, in units of the last place of `want`; infinite where only one of the two is finite."""
    if got == want or (math.isnan(got) and math.isnan(want)):
        return 0.0
    if not (math.isfinite(got) and math.isfinite(want)):
        return math.inf
    return abs(got - want) / math.ldexp(1, max(math.frexp(want)[1], -125) - 24)


def describe(name, a, b, exact):
    dtype, old, new = a[0], numbers(*a), numbers(*b)
    at = [i for i, (p, q) in enumerate(zip(old, new)) if p != q and not (math.isnan(p) and math.isnan(q)) or math.copysign(1, p) != math.copysign(1, q)]
    text = f"{name:32} {len(at)} of {len(old)} elements"
    if exact and dtype == "F32":
        want = numbers(*exact)
        worst = [max((error(v[i], want[i]) for i in at), default=0) for v in (old, new)]
        text += f"; error before {worst[0]:.3g} ulp, after {worst[1]:.3g} ulp"
    for i in at[:3]:
        text += f"\n    [{i}] {old[i]!r} -> {new[i]!r}"
    return text


def main():
    before, after = sys.argv[1:3]
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        old, new = (results(p, device, folder) for p in (before, after))
    differ = [name for name in sorted(old.keys() | new.keys()) if not same(old.get(name), new.get(name))]
    for name in differ:
        if name not in old or name not in new or old[name][0] != new[name][0]:
            print(f"{name:32} is of one build alone, or of another dtype")
            continue
        print(describe(name, old[name], new[name], new.get(name.replace(".f32", ".f64")) if ".f32" in name else None))
    print(f"{len(old)} results on {device}, {len(differ)} differ")
    sys.exit(bool(differ))


main()
