#!/usr/bin/python3
"""Do two builds of dlsh train to the same bits? Weights, optimizer state and printed figures of each training of
bench/bits/training.dlsh are compared.

    bench/bits.py BEFORE AFTER [DEVICE [NAME...]]     BEFORE, AFTER: dlsh programs; DEVICE: cpu (default) or cuda

Ends with status 1 when a training differs."""
import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bits", "training.dlsh")


def run(program, *args, folder=None):
    p = subprocess.run([os.path.abspath(program), "-n", "-q", "--db", "none", SCRIPT, *args], text=True,
                       capture_output=True, cwd=folder)
    return (p.stdout if not p.returncode else p.stdout + p.stderr), p.returncode


def result(program, case, device, folder):
    text, status = run(program, f"case={case}", f"device={device}", "out=bits.safetensors", folder=folder)
    lines = [s for s in text.splitlines() if "it/s" not in s]
    if status:
        return lines, "failed"
    with open(os.path.join(folder, "bits.safetensors"), "rb") as f:
        size = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(size))
        head.pop("__metadata__", None)  # which says when it was written
        return lines, hashlib.sha256(json.dumps(head, sort_keys=True).encode() + f.read()).hexdigest()[:16]


def main():
    before, after = sys.argv[1:3]
    device = sys.argv[3] if len(sys.argv) > 3 else "cpu"
    names = run(before, "list=true")[0].split()
    wanted = sys.argv[4:] or names
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            a, b = (result(p, names.index(name), device, folder) for p in (before, after))
            differ += a != b or a[1] == "failed"
            print(f"{name:16} {a[1]:17} {'failed' if a[1] == 'failed' else 'same' if a == b else 'DIFFERS'}", flush=True)
            if a != b or a[1] == "failed":
                print("   before:", *a[0][-4:], sep="\n      ")
                print("   after:", *b[0][-4:], sep="\n      ")
    print(f"{len(wanted)} trainings on {device}, {differ} differ")
    sys.exit(bool(differ))


main()
