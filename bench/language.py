#!/usr/bin/env python3
"""The language beside CPython: time of the same small programs, each at the top level and inside a function.

    bench/language.py [DLSH] [--repeat N] [NAME...]

Prints milliseconds of CPU time of both and their ratio (below 1: dlsh is faster). Both run N times, in turns; the time
of an empty program, the median of its runs, is subtracted. The ratio is the median of the ratios of the turns, so that
what slows the machine for a while slows both sides of a ratio; the times are medians, too."""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile

# name, n, dlsh, Python; both are statements over n, and `f` is a function of one argument
CASES = [
    ("loop", 3000000, "s = 0\nfor i in range(n) { s += i }", "s = 0\nfor i in range(n):\n    s += i"),
    ("loop with if", 2000000, "s = 0\nfor i in range(n) { if i % 3 == 0 { s += 1 } }",
     "s = 0\nfor i in range(n):\n    if i % 3 == 0:\n        s += 1"),
    ("while", 2000000, "i = 0\nwhile i < n { i += 1 }", "i = 0\nwhile i < n:\n    i += 1"),
    ("float loop", 2000000, "x = 0.5\nfor i in range(n) { x = x * 0.999 + 0.1 }",
     "x = 0.5\nfor i in range(n):\n    x = x * 0.999 + 0.1"),
    ("call", 1000000, "s = 0\nfor i in range(n) { s = f(s) }", "s = 0\nfor i in range(n):\n    s = f(s)"),
    ("call of built-in", 1000000, "xs = [1, 2]\nfor i in range(n) { len(xs); }",
     "xs = [1, 2]\nfor i in range(n):\n    len(xs)"),
    ("list append", 1000000, "xs = []\nfor i in range(n) { xs.append(i) }",
     "xs = []\nfor i in range(n):\n    xs.append(i)"),
    ("list index", 1000000, "xs = [1, 2, 3]\ns = 0\nfor i in range(n) { s += xs[1] }",
     "xs = [1, 2, 3]\ns = 0\nfor i in range(n):\n    s += xs[1]"),
    ("list set", 1000000, "xs = [1, 2, 3]\nfor i in range(n) { xs[1] = i }",
     "xs = [1, 2, 3]\nfor i in range(n):\n    xs[1] = i"),
    ("string append", 100000, 's = ""\nfor i in range(n) { s += "x" }', 's = ""\nfor i in range(n):\n    s += "x"'),
    ("string pieces", 50000, 's = ""\nfor i in range(n) { s = s + str(i) }',
     's = ""\nfor i in range(n):\n    s = s + str(i)'),
    ("sort", 500000, "xs = []\nx = 1\nfor i in range(n) { x = (x * 1103515245 + 12345) % 2147483648; xs.append(x) }\n"
     "ys = sorted(xs)",
     "xs = []\nx = 1\nfor i in range(n):\n    x = (x * 1103515245 + 12345) % 2147483648\n    xs.append(x)\n"
     "ys = sorted(xs)"),
    ("sort of an array", 2000000, "ys = sorted(((arange(n) * 7919) % 1000003).tolist())",
     "ys = sorted([(i * 7919) % 1000003 for i in range(n)])"),
    ("tolist", 2000000, "ys = zeros(n).tolist()", "import array\nys = array.array('f', bytes(4 * n)).tolist()"),
    ("counting", 1000000, 'r = record()\nks = ["a", "bb", "ccc", "d"]\n'
     "for i in range(n) { k = ks[i % 4]; r[k] = r.get(k, 0) + 1 }",
     'r = {}\nks = ["a", "bb", "ccc", "d"]\nfor i in range(n):\n    k = ks[i % 4]\n    r[k] = r.get(k, 0) + 1'),
    ("counting many", 500000, "r = record()\nfor i in range(n) { k = str(i % 1000); r[k] = r.get(k, 0) + 1 }",
     "r = {}\nfor i in range(n):\n    k = str(i % 1000)\n    r[k] = r.get(k, 0) + 1"),
    ("counting with in", 500000,
     'r = {}\nfor c in "hello world " * (n // 12) { if c in r { r[c] += 1 } else { r[c] = 1 } }',
     'r = {}\nfor c in "hello world " * (n // 12):\n    if c in r:\n        r[c] += 1\n    else:\n        r[c] = 1'),
    ("field", 1000000, "r = record(n=0)\nfor i in range(n) { r.n += 1 }",
     "class R: pass\nr = R()\nr.n = 0\nfor i in range(n):\n    r.n += 1"),
    ("fibonacci", 27, "fn fib(n) { if n < 2 { return n } return fib(n - 1) + fib(n - 2) }\nfib(n);",
     "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\nfib(n)"),
]


def program(case, language, inside):
    name, n, dlsh, python = case
    if language == "dlsh":
        head = "fn f(x) { return x + 1 }\n"
        if inside and name == "fibonacci":
            return None
        return head + (f"fn main(n) {{\n{dlsh}\n}}\nmain({n})\n" if inside else f"n = {n}\n{dlsh}\n")
    head = "def f(x):\n    return x + 1\n"
    if not inside:
        return head + f"n = {n}\n{python}\n"
    body = "\n".join("    " + line for line in python.split("\n"))
    return head + f"def main(n):\n{body}\nmain({n})\n"


def cpu_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.decode()}")
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dlsh", nargs="?", default="build/bin/dlsh")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    environment = {"dlsh": [options.dlsh, "-n", "--db", "none", "--device", "cpu"], "python": [sys.executable, "-S", "-E"]}
    with tempfile.TemporaryDirectory() as folder:
        def measure(texts):
            """{key: seconds of each run}; the runs take turns."""
            took = {key: [] for key in texts}
            for key, text in texts.items():
                with open(os.path.join(folder, str(key)), "w") as out:
                    out.write(text)
            for _ in range(options.repeat):
                for key in texts:
                    took[key].append(cpu_time(environment[key] + [os.path.join(folder, str(key))]))
            return took

        empty = {key: statistics.median(took) for key, took in measure({"dlsh": "", "python": ""}).items()}
        print(f"{'':26}{'dlsh ms':>9}{'python ms':>11}{'ratio':>8}")
        worst = 0
        for case in CASES:
            if options.names and case[0] not in options.names:
                continue
            for inside in (False, True):
                texts = {language: program(case, language, inside) for language in ("dlsh", "python")}
                if not texts["dlsh"]:
                    continue
                took = measure(texts)
                ours, theirs = ([max(t - empty[k], 1e-4) for t in took[k]] for k in ("dlsh", "python"))
                ratio = statistics.median(a / b for a, b in zip(ours, theirs))
                worst = max(worst, ratio)
                print(f"{case[0] + (', in a function' if inside else ''):34}{statistics.median(ours) * 1e3:9.0f}"
                      f"{statistics.median(theirs) * 1e3:11.0f}{ratio:8.2f}", flush=True)
        print(f"largest ratio {worst:.2f}")


if __name__ == "__main__":
    main()
