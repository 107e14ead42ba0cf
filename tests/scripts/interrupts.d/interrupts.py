"""Ctrl-C at random moments of long statements: how soon the prompt is back, whether it says so, and that nothing was
assigned. interrupts.py [ROUNDS [PATTERN [SEED]]]; times are printed with ROUNDS above 1."""
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from stopwatch import Stopwatch

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 1
PATTERN = sys.argv[2] if len(sys.argv) > 2 else ""
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
BOUND = 3.0  # seconds, without those in which others had the processors; about 0.2 on a quiet machine

ROWS = "x = randn(1000, 1000).expand([300, 1000, 1000])"
# name: (what comes before, the statement); it assigns to y, which is 7 before
STATEMENTS = {
    "products": ("a = randn(3000, 3000) / 55", "for i in range(1000) { y = a@a@a@a@a@a@a@a@a@a@a@a; y = 7 }"),
    "one product": ("a = randn(9000, 9000)", "y = a @ a"),
    "f64 product": ("a = randn(5000, 5000, dtype=f64)", "y = a @ a"),
    "products of a batch": ("a = randn(4000, 128, 128)", "for i in range(1000) { y = a @ a; y = 7 }"),
    "singular values": ("a = randn(4500, 4500)", "for i in range(1000) { y = svd(a); y = 7 }"),
    "least squares": ("a = randn(4500, 4500); b = randn(4500, 1)", "y = lstsq(a, b)"),
    "integer product": ("a = randint(0, 9, [3000, 3000])", "y = a @ a"),
    "pointwise": (ROWS, "for i in range(1000) { y = exp(x); y = 7 }"),
    "reduction": (ROWS, "y = sum(x) + sum(x) + sum(x) + sum(x) + sum(x) + sum(x) + sum(x)"),
    "rows": (ROWS, "y = x.max(dim=2)[0] + x.min(dim=2)[0] + x.max(dim=2)[0] + x.max(dim=2)[0]"),
    "columns": (ROWS, "for i in range(100) { y = sum(x, dim=0) + sum(x, dim=1).mean(); y = 7 }"),
    "softmax": (ROWS, "for i in range(1000) { y = softmax(x, dim=2); y = 7 }"),
    "sort": ("x = randn(30000000)", "y = sort(x)"),
    "topk": ("x = randn(30000000)", "y = topk(x, 2000000)"),
    "cumsum": ("x = randn(1000000).expand([300, 1000000])", "y = cumsum(x, 1)"),
    "random": ("", "for i in range(1000) { y = randn(400000000); y = 7 }"),
    "permutation": ("", "y = randperm(40000000)"),
    "gather": ("i = randint(0, 1000, [1000000]); x = randn(1000, 200)", "y = x[i]"),
    "scatter": ("i = zeros(100000000, dtype=i64)", "y = zeros(1000).scatter_add(0, i, ones(1).expand([100000000]))"),
    "copy": (ROWS, "for i in range(1000) { y = x.contiguous(); y = 7 }"),
    "cast": (ROWS, "for i in range(1000) { y = x.to(f16); y = 7 }"),
    "transpose": (ROWS, "for i in range(1000) { y = x.transpose(1, 2).contiguous(); y = 7 }"),
    "norm": ("net m { batchnorm }\nx = randn(64, 64, 56, 56)", "for i in range(1000) { y = m(x); y = 7 }"),
    "convolution": ("x = randn(64, 64, 112, 112); w = randn(64, 64, 5, 5)", "y = conv2d(x, w, padding=2)"),
    "convolution of f64": ("x = randn(8, 64, 56, 56, dtype=f64); w = randn(64, 64, 5, 5, dtype=f64)",
                           "for i in range(100) { y = conv2d(x, w, padding=2); y = 7 }"),
    "gradients": ("a = param(randn(2500, 2500))", "for i in range(1000) { backward sum(a@a@a@a) }"),
    "sum of a range": ("", "y = sum(range(10000000000))"),
    "list of a range": ("", "y = list(range(100000000))"),
    "largest": ("", "y = max(range(10000000000))"),
    "sorted": ("", "for i in range(1000) { y = sorted(list(range(8000000)), reverse=true); y = 7 }"),
    "zip": ("", "y = zip(range(100000000), range(100000000))"),
    "join": ('l = ["abc"] * 4000000', 'y = ",".join(l)'),
    "repeated": ("", 'for i in range(100000) { y = "ab" * 100000000; y = 7 }'),
    "in": ("l = list(range(3000000))", "for i in range(100000) { y = -1 in l; y = 7 }"),
    "equal lists": ("l = list(range(3000000)); k = list(range(3000000))", "for i in range(100000) { y = l == k; y = 7 }"),
    "json": ("l = [1.5] * 3000000", "y = json(l)"),
    "text": ('l = ["a" * 1000] * 900; l = [l] * 900', "y = str(l)"),
    "printing": ('s = "line\\n" * 20000000', "print(s)"),
    "a large value": ("l = [[1.5] * 900] * 900", "l"),
    "upper": ('s = "abc" * 80000000', "for i in range(1000) { y = s.upper(); y = 7 }"),
    "words": ('s = "a " * 20000000', "y = s.words()"),
    "replaced": ('s = "a " * 20000000', 'y = s.replace("a", "bcd")'),
    "vars": ("x = randn(150000000)", "vars"),
    "stat": ("x = randn(150000000)", "stat x"),
    "hist": ("x = randn(150000000)", "hist x"),
    "save": ("x = zeros(400000000)", 'for i in range(1000) { save x "FOLDER/x.safetensors" }'),
    "sql": ("", 'sql "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"'),
    "points": ("", 'for i in range(1000) { y = dataset("spirals", n=40000000); y = 7 }'),
    "csv": ('C { #include <stdio.h>\nint csv(const char *p) { FILE *f = fopen(p, "w"); for (int i = 0; i < 3000000; i++) '
            'fprintf(f, "%d,%d,2.5,3.5\\n", i, i); return fclose(f); } }\ncsv("FOLDER/t.csv")',
            'for i in range(1000) { y = dataset("csv", "FOLDER/t.csv"); y = 7 }'),
    "gradcheck": ("", "gradcheck tanh (randn(300, 300))"),
    "command": ("", "time sum(range(10000000000))"),
    "a shell's sleep": ('extern "libc.so.6" { int usleep(unsigned us); }', "while true { usleep(1000) }"),
}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x01|\x02|\r")


class Session:
    def __init__(self, folder):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update({"TERM": "xterm", "NO_COLOR": "1"})
            os.execv(shutil.which("dlsh"), ["dlsh", "-n", "-q", "--db", f"{folder}/e.db"])
        self.text = ""
        self.prompt()

    def read(self, seconds):
        if not select.select([self.fd], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self.fd, 1 << 20)
        except OSError:
            return False
        self.text = self.text[-100000:] + data.decode(errors="replace")
        return True

    def prompt(self, seconds=120):
        """Waits for the prompt; the text before it."""
        end = time.monotonic() + seconds
        while not re.search(r"<\d+> $", ESCAPES.sub("", self.text[-300:])):
            if time.monotonic() > end or not self.read(end - time.monotonic()):
                raise TimeoutError(ESCAPES.sub("", self.text[-400:]))
        text, self.text = ESCAPES.sub("", self.text), ""
        return text

    def run(self, line, seconds=120):
        os.write(self.fd, line.encode() + b"\r")
        time.sleep(0.02)
        self.read(1)
        return self.prompt(seconds)

    def interrupted(self, line, after):
        """Sends the line and Ctrl-C `after` seconds from its beginning: its text, and the time until the prompt is back."""
        os.write(self.fd, line.encode() + b"\r")
        end = time.monotonic() + 120
        while "\n" not in self.text and time.monotonic() < end:  # until it is taken; Ctrl-C would throw it away
            self.read(end - time.monotonic())
        end = time.monotonic() + after
        while time.monotonic() < end:
            self.read(end - time.monotonic())
        if re.search(r"<\d+> $", ESCAPES.sub("", self.text[-300:])):
            return self.prompt(), None
        watch = Stopwatch(self.pid)
        os.write(self.fd, b"\x03")
        text = self.prompt()
        return text, watch.took()

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def try_one(name, before, statement, pick, folder):
    before, statement = (t.replace("FOLDER", folder) for t in (before, statement))
    s = Session(folder)
    try:
        for line in before.split("\n") if "C {" not in before else [before]:
            if line:
                s.run(line.replace("\n", "\r"))
        s.run("y = 7;")
        after = 0.25 + pick.random() * 0.6
        text, took = s.interrupted(statement, after)
        if took is None:  # a fast machine
            s.run("y = 7;")
            text, took = s.interrupted(statement, after / 5)
        if took is None:
            return f"ended before: {text[-200:]!r}", 0
        if "interrupted" not in text:
            return f"says nothing: {text[-300:]!r}", took
        if "7" not in s.run("print(y)").split("\n")[1]:
            return "assigned", took
        return "late" if took > BOUND else None, took
    except TimeoutError as e:
        return f"no prompt: {e}", 120
    finally:
        s.close()


def presses(folder):
    """Further presses tell what is waited for, and end nothing."""
    s = Session(folder)
    # read along one dimension and written along another: long enough for two presses on fast memory
    s.run("x = zeros(300, 1000, 1000).permute([2, 1, 0]); v = zeros(999, 1000, 300);")
    s.run("y = 7;")
    told = ok = False
    for _ in range(10):
        os.write(s.fd, b"while true { x[1:] = v }\r")  # a write in place is completed
        time.sleep(0.5 + random.random() * 0.4)  # at any moment of a write
        for _ in range(4):
            os.write(s.fd, b"\x03")
            time.sleep(0.06)  # closer ones count as one press
        text = s.prompt()
        told = "stopping as soon as as_strided_set comes to a point" in text
        ok = "interrupted" in text and "7" in s.run("print(y)")
        if told or not ok:
            break
    s.close()
    return None if told and ok else f"presses: {text!r}"


def script():
    p = subprocess.Popen(["dlsh", "-n", "--db", "none", "-c", 'print("on")\ny = sum(range(10000000000))\nprint(y)'],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    p.stdout.readline()
    time.sleep(0.2)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate()
    return None if (p.returncode, out) == (130, "") and "interrupted" in err else f"script: {p.returncode} {out!r} {err!r}"


def main():
    pick, bad, slowest = random.Random(SEED), 0, {}
    with tempfile.TemporaryDirectory() as folder:
        for i in range(ROUNDS):
            for name, (before, statement) in STATEMENTS.items():
                if not re.search(PATTERN, name):
                    continue
                wrong, took = try_one(name, before, statement, pick, folder)
                slowest[name] = max(slowest.get(name, 0), took)
                if wrong:
                    bad += 1
                    print(f"FAIL {name}: {wrong}", flush=True)
                if os.environ.get("TIMES"):
                    print(f"{took:6.2f} s  {name}", flush=True)
        for wrong in (presses(folder), script()):
            if wrong:
                bad += 1
                print(f"FAIL {wrong}")
    print("all interrupted" if not bad else f"{bad} failed (seed {SEED})")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
