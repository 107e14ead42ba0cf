#!/usr/bin/env python3
"""Training must not use more memory the longer it lasts: the peak of a long run is compared with that of a short one. The states that
`rewind` goes back to have a limit of their own and are not kept here."""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHORT, LONG, MAX_GROWTH_KB = 1000, 11000, 2048
SCRIPT = """
args steps=1000
set rewind 0
seed 1
d = dataset("digits", n=256, test=64)
net m { conv 4 k=3 pad=1 -> batchnorm -> relu -> maxpool 4 -> flatten -> dropout 0.1 -> linear 10 }
t = trainer(m, d, opt=adam(lr=1e-3), batch=4, loss=cross_entropy)
train t steps=(steps)
"""


def peak_kb(dlsh, steps):
    """Peak resident size of a training of so many steps, recorded in a database of its own."""
    with tempfile.TemporaryDirectory(prefix="dlsh-growth-") as tmp:
        pathlib.Path(tmp, "growth.dlsh").write_text(SCRIPT)
        argv = [str(dlsh), "-n", "-q", "--db", "growth.db", "growth.dlsh", f"steps={steps}"]
        child = subprocess.Popen(argv, cwd=tmp, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"dlsh ended with status {child.returncode}")
        return usage.ru_maxrss


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "build" / "bin", help="directory of dlsh")
    dlsh = ap.parse_args().bin.resolve() / "dlsh"
    short, long = peak_kb(dlsh, SHORT), peak_kb(dlsh, LONG)
    print(f"peak resident memory: {short} kB after {SHORT} steps, {long} kB after {LONG} steps")
    sys.exit(long - short > MAX_GROWTH_KB)


if __name__ == "__main__":
    main()
