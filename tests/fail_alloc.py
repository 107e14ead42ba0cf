#!/usr/bin/env python3
"""Lets each allocation of some programs fail, one a run: the run ends with its usual output, or with a message and a
status other than 0; never by a signal, never without a word, never not at all.

--bin FOLDER of dlsh, --lib the preloaded library; --runs how many failures to try of each program and mode (0: all).
"""
import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

PROGRAMS = {
    "values": """xs = [1, "a", [2.5, none]]; r = record(); r["k"] = xs; fn f(a, b=2) { c = a + b; return fn () { return c } }
g = f(1); print(g(), r, xs + xs, "a" * 3, format("%5.2f", 1.5)); try { nothing } catch e { print(e.message) }
for i in range(20) { r["n" + str(i)] = i }; print(len(r), sorted([3, 1, 2])); xs""",
    "tensors": "x = tensor([[1.0, 2.0], [3.0, 4.0]]); y = x @ x + x.T; print(y.sum(), y.shape); y; stat y; cat([x, y]); x[x > 2]; vars",
    "autograd": "p = param(ones(3, 2)); l = sum(tanh(p @ ones(2, 4)) ** 2); backward l; p.grad; gradcheck(fn (x) { return x * x }, ones(2, dtype=f64))",
    "train": """seed 1; d = dataset("moons", n=64); net m { linear 4 -> relu -> linear 2 }; m(ones(1, 2)); show m
t = trainer(m, d, opt=adam(lr=0.01), batch=16, name="first"); train t steps=3; eval t; runs; sql "select count(*) from run" """,
    "files": """x = ones(3, 4); save x "x.npy"; net m { linear 2 }; m(x); save m "m.safetensors"; load m "m.safetensors"
y = load("x.npy"); print(y.shape)""",
    "c": """extern "libm.so.6" double hypot(double x, double y); print(hypot(3, 4)); p = new("double[3]"); p[1] = 2; print(p[1])
C { int twice(int x) { return 2 * x; } }
print(twice(21))""",
    "wrong": "x = (1 +",
}


def run(args, name, text, at, ever, usual=None):
    with tempfile.TemporaryDirectory(prefix="dlsh-fail-") as tmp:
        env = {"PATH": os.environ["PATH"], "HOME": tmp, "XDG_CACHE_HOME": args.cache, "OMP_NUM_THREADS": "1",
               "LD_PRELOAD": args.lib, "COUNT_TO": f"{tmp}/count", "LC_ALL": "C.UTF-8"}
        if at:
            env["FAIL_AT"] = str(at)
        if ever:
            env["FAIL_EVER"] = "1"
        pathlib.Path(tmp, "s.dlsh").write_text(text + "\n")
        try:
            p = subprocess.run([f"{args.bin}/dlsh", "-n", "--db", "e.db", "s.dlsh"], cwd=tmp, env=env, text=True,
                               capture_output=True, errors="replace", timeout=60, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return "does not end", 0, ""
        count = pathlib.Path(tmp, "count")
        n = int(count.read_text()) if count.exists() and count.stat().st_size else 0
        if p.returncode < 0:
            return f"signal {-p.returncode}", n, p.stderr
        if p.returncode and not p.stderr.strip():
            return f"status {p.returncode} without a message", n, p.stdout
        if usual is not None and not p.returncode and not p.stderr.strip() and len(p.stdout.splitlines()) < usual:
            return "less output without a message", n, p.stdout
        return None, n, p.stdout


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("--bin", required=True)
    parse.add_argument("--lib", required=True)
    parse.add_argument("--runs", type=int, default=40)
    parse.add_argument("--only")
    args = parse.parse_args()
    args.bin, args.lib = os.path.abspath(args.bin), os.path.abspath(args.lib)
    bad = total = 0
    with tempfile.TemporaryDirectory(prefix="dlsh-cache-") as cache, concurrent.futures.ThreadPoolExecutor(2) as pool:
        args.cache = cache
        for name, text in PROGRAMS.items():
            if args.only and name != args.only:
                continue
            run(args, name, text, 0, False)  # fills the cache of compiled C
            fault, n, out = run(args, name, text, 0, False)
            if fault or not n:
                sys.exit(f"{name}: {fault or 'no allocation is counted'} without any failure\n{out}")
            usual = len(out.splitlines())
            step = max(1, n // args.runs) if args.runs else 1
            todo = [(at, ever) for ever in (False, True) for at in range(1 + (step // 2) * ever, n + 1, step)]
            jobs = {pool.submit(run, args, name, text, at, ever, usual): (at, ever) for at, ever in todo}
            kinds = {}
            for job in concurrent.futures.as_completed(jobs):
                fault, _, text_out = job.result()
                total += 1
                if fault:
                    bad += 1
                    kinds.setdefault(fault, []).append(jobs[job])
            for fault, where in kinds.items():
                print(f"{name}: {fault}: {len(where)} of {len(todo)}, allocation {sorted(where)[:12]}")
    print(f"{total} runs, {bad} wrong")
    sys.exit(bad > 0)


main()
