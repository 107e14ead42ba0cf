#!/usr/bin/env python3
"""How long the shell takes to answer questions about many runs, with its start, beside what it should take.

bench/history.py BUILD [--runs 10000] [--points 20000000] [--long 300000] [--rounds 5] [--db FILE] [--only PART]

BUILD is a build folder with dlsh and bench_history (`ninja bench_history`), which records the runs, one after the
other, as trainings do; three minutes for the sizes above. Only their dates are changed afterwards, in SQL, so that
they spread over 100 days. FILE is made when it does not exist, and stays; without --db it is in a temporary folder.
Figures are the median of the rounds and the slowest, in milliseconds, after a round that is not counted; "cpu" is
the median of the time on a core, which tells what other processes of the machine added."""
import argparse
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time

METRICS = 4  # of each run
TEN = "3 7 99 123 200 311 4 55 21 10"

# what, code, milliseconds, megabytes of the file that it writes
QUESTIONS = [
    ("the start alone", "1", 0, 0),
    ("runs", "runs", 50, 0),
    ("runs, all rows", "runs limit=0", 0, 0),
    ("runs, columns", "runs cols=lr,width,min(val/loss),last(val/acc) sort=min(val/loss)", 50, 0),
    ("best", "best val/acc", 50, 0),
    ("best, where", 'best val/loss where="opt = adam"', 50, 0),
    ("where: parameter", 'runs where="lr < 0.001"', 50, 0),
    ("where: two parameters, or", 'runs where="width = 64 and (opt = sgd or lr > 0.009)"', 50, 0),
    ("where: text contains", 'runs where="opt ~ ada"', 50, 0),
    ("where: min of a metric", 'runs where="min(val/loss) < 0.5"', 50, 0),
    ("where: last of a metric", 'runs where="last(acc) > 0.8"', 50, 0),
    ("where: sorted by a metric", 'runs where="last(val/acc) > 0.3" sort=-last(val/acc)', 50, 0),
    ("where: tag", 'runs where="tag = good"', 50, 0),
    ("where: not the tag", 'runs where="not tag = cnn"', 50, 0),
    ("where: date", 'runs where="started > 10d ago"', 50, 0),
    ("where: status and duration", 'runs where="status = failed and seconds < 1m"', 50, 0),
    ("where: all kinds", 'runs where="lr < 0.005 and (tag = cnn or status = failed) and min(val/loss) < 2 and '
                         'started > 50d ago"', 50, 0),
    ("where: nothing is found", 'runs where="min(val/loss) < 0 and opt = adam"', 50, 0),
    ("compare of ten", f"compare {TEN}", 50, 0),
    ("compare of two", "compare 5 6", 50, 0),
    ("run show", "run show 77", 50, 0),
    ("plot of the long series", "plot loss long", 150, 0),
    ("plot of it into a file", 'plot loss long out=long.svg', 0, 0),
    ("report of 500 runs", "report page.html limit=500", 3000, 5),
]


def make(build, path, runs, points, length):
    """Records the runs, and gives them dates over 100 days."""
    steps = max(1, points // (METRICS * runs))
    begin = time.time()
    subprocess.run([os.path.join(build, "bin/bench_history"), path, str(runs), str(steps), str(length)], check=True)
    db = sqlite3.connect(path)
    shift = f"(select max(id) - run.id from run as r) * {100 * 86400 * 10**6 // (runs + 1)}"
    db.execute(f"update run set started_us = started_us - {shift}, ended_us = ended_us - {shift}")
    db.commit()
    count = db.execute("select sum(n) from series").fetchone()[0]
    db.close()
    print(f"recorded {runs + 1} runs, {count} points in {time.time() - begin:.0f} s, "
          f"{os.path.getsize(path) / 1e6:.0f} MB")


def ask(shell, path, code, folder):
    used, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([shell, "-q", "-n", "--db", path, "-c", code], cwd=folder, capture_output=True, text=True,
                          timeout=600)
    took = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"history.py: {code}: {done.stdout}{done.stderr}")
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * took, 1e3 * (now.ru_utime - used.ru_utime + now.ru_stime - used.ru_stime)


def measure(shell, path, rounds, only, folder):
    missed = 0
    print(f"{'question':<28}{'median':>9}{'slowest':>9}{'cpu':>9}{'target':>9}  ms; load {os.getloadavg()[0]:.1f}")
    for what, code, target, megabytes in QUESTIONS:
        if only not in what:
            continue
        times, cpu = zip(*[ask(shell, path, code, folder) for _ in range(rounds + 1)][1:])
        median, words = statistics.median(times), ""
        if target:
            words = "met" if median < target else "MISSED"
        if megabytes:
            size = os.path.getsize(os.path.join(folder, "page.html")) / 1e6
            words += f"; {size:.1f} MB, target {megabytes}: {'met' if size < megabytes else 'MISSED'}"
        missed += "MISSED" in words
        print(f"{what:<28}{median:>9.1f}{max(times):>9.1f}{statistics.median(cpu):>9.1f}{target or '':>9}  {words}", flush=True)
    print(f"{missed} missed; load {os.getloadavg()[0]:.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--points", type=int, default=20_000_000)
    parser.add_argument("--long", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--db")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    build = os.path.abspath(args.build)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.abspath(args.db) if args.db else os.path.join(folder, "history.db")
        if not os.path.exists(path):
            make(build, path, args.runs, args.points, args.long)
        measure(os.path.join(build, "bin/dlsh"), path, args.rounds, args.only, folder)


if __name__ == "__main__":
    main()
