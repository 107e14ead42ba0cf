#!/usr/bin/env python3
"""The ways of a convolution beside each other, in one run: gpu_conv_ways.py BIN/bench_gpu_conv_ways [part of a name].
Each way is timed alone (DLCORE_CONV_WAYS). Printed for each shape: the library's time (cuDNN or products of the matrix
of patches, whichever is faster), and the ratio of each own kernel to it; then for each own kernel how many shapes it
wins by 10 % against the library, and against all other ways."""
import os
import subprocess
import sys

OWN = {"forward": ["strips", "winograd"], "dx": ["strips", "winograd"], "dw": ["strips", "bands", "winograd"]}
NAMES = sorted({name for names in OWN.values() for name in names})


def times(ways):
    run = subprocess.run(sys.argv[1:], capture_output=True, text=True, env={**os.environ, "DLCORE_CONV_WAYS": ways})
    sys.stderr.write(run.stderr)
    rows = [line.split("\t") for line in run.stdout.splitlines() if not line.startswith("#")]
    return {(r[0], r[1]): float(r[2]) if r[2] != "-" else None for r in rows if len(r) == 3}


def main():
    library = times("cudnn,patches")
    own = {name: times(name) for name in NAMES}
    wins, every = {}, times(",".join(["cudnn", "patches"] + NAMES))
    for (shape, what), base in library.items():
        if what not in OWN:
            continue
        line = f"{shape}\t{what}\t{base or float('nan'):.4f} ms"
        known = {n: own[n].get((shape, what)) for n in OWN[what]}
        known = {n: t for n, t in known.items() if t}
        for name, t in known.items():
            others = [u for n, u in known.items() if n != name] + ([base] if base else [])
            line += f"\t{name} {t / base if base else 0:.2f}"
            group = (name, "dw" if what == "dw" else "forward, dx")
            count = wins.setdefault(group, [0, 0, 0])
            count[0] += 1
            count[1] += bool(base and t <= 0.9 * base)
            count[2] += bool(others and t <= 0.9 * min(others))
        print(line, flush=True)
    for (shape, what), ms in every.items():
        if what == "pooled":
            apart = every[shape, "pooled apart"]
            print(f"{shape}\tstep with relu and pooling\t{apart:.4f} ms\tin one kernel {ms / apart:.2f}")
    for (name, what), (n, library_wins, all_wins) in sorted(wins.items()):
        print(f"{name} ({what}): {n} shapes, 10 % faster than the library in {library_wins}, than all others in {all_wins}")


if __name__ == "__main__":
    main()
