#!/usr/bin/python3
"""What a second thread gains: the programs of bench/threads with one thread and with two, in turn.

    bench/threads.py [DLSH [ROUNDS [NAME...]]]

Prints the least wall and processor time of each, start included, and the ratios of two threads to one. Small nets must
stay below 1.1 in both; matmul, conv64 and pointwise should come near 0.5 of the wall time where two cores are free. A
busy loop on one core (`yes >/dev/null`) shows the same for a machine that is shared."""
import glob
import os
import subprocess
import sys
import time

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "threads")
DLSH = sys.argv[1] if len(sys.argv) > 1 else "build/bin/dlsh"
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
NAMES = sys.argv[3:] or sorted(os.path.basename(f)[:-5] for f in glob.glob(HERE + "/*.dlsh"))
STEPS = {"mlp": 400, "conv64": 8, "matmul": 30, "pointwise": 20}


def run(name, threads):
    begin = time.monotonic()
    p = subprocess.Popen([DLSH, f"{HERE}/{name}.dlsh", f"steps={STEPS.get(name, 100)}"], stdout=subprocess.DEVNULL,
                         env=dict(os.environ, OMP_NUM_THREADS=str(threads)))
    status, used = os.wait4(p.pid, 0)[1:]
    if status:
        sys.exit(f"{name} failed")
    return time.monotonic() - begin, used.ru_utime + used.ru_stime


print(f"{'':10} {'wall 1':>8} {'wall 2':>8} {'ratio':>6} {'cpu 1':>8} {'cpu 2':>8} {'ratio':>6}")
for name in NAMES:
    times = {1: [], 2: []}
    for _ in range(ROUNDS):
        for threads, seen in times.items():
            seen.append(run(name, threads))
    row = f"{name:10}"
    for kind in (0, 1):
        one, two = (min(t[kind] for t in times[n]) for n in (1, 2))
        row += f" {one:8.3f} {two:8.3f} {two / one:6.2f}"
    print(row, flush=True)
