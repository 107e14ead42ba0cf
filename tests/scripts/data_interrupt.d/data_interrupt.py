"""Ctrl-C while a function makes samples or batches: what is said, and that everything can be used afterwards."""
import os
import pty
import re
import select
import shutil
import time

SETUP = """stop = -1
fn sample(i) { if i == stop { print("begun"); while true { } } return {x: tensor([1.0 * i, 2.0]), y: i % 2} }
fn joined(samples) { if stop == -2 && len(samples) > 2 { print("begun"); while true { } } return {x: stack(map(fn (s) { return s.x }, samples)), y: stack(map(fn (s) { return s.y }, samples))} }
d = dataset(sample, n=12, test=4, classes=2)
net m { linear 2 }
t = trainer(m, d, batch=4, opt=sgd(lr=0.1))
fn hang(v, at=-3) { if stop == at { print("begun"); while true { } } return v }
u = trainer(m, d, batch=4, opt=sgd(lr=0.1), collate=joined)
w = trainer(m, d, batch=4, opt=sgd(lr=0.1), schedule=fn (i) { return hang(0.5) })
v = trainer(m, d, batch=4, opt=sgd(lr=0.1), loss=fn (out, y) { return hang(cross_entropy(out, y), at=-4) })
l = loader(d, batch=3, workers=2, transforms="noise 0.1")
c = loader(d, batch=3, collate=joined)"""
# name: the sample at which its function hangs (-2: the collate function, -3 and -4: hang), the statement
PHASES = {
    "making the data set": (0, "y = dataset(sample, n=12)"),
    "a sample": (3, "y = d.train[3]"),
    "the first batch": (1, "y = next(l)"),
    "a later batch": (7, "for x, y in l { print(len(y)) }"),
    "between batches": (-1, 'for x, y in l { print("begun"); while true { } }'),
    "with worker threads": (-1, 'print("begun"); while true { for x, y in l { } }'),
    "a function that makes batches": (-2, "y = next(c)"),
    "a new loader": (1, "y = loader(dataset(sample, n=12), collate=joined, batch=2)"),
    "the first step": (9, "train t epochs=1"),
    "a training": (-1, 'print("begun"); train t epochs=100000'),
    "one step": (2, "step t 5"),
    "a step whose batch a function makes": (-2, "step u 5"),
    "a schedule": (-3, "train w epochs=1"),
    "a loss": (-4, "step v 5"),
    "the loss of an evaluation": (-4, "y = eval(v)"),
    "evaluation": (13, "y = eval(t)"),
    "evaluation at the end of an epoch": (14, "train t epochs=2"),
}
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x01|\x02|\r")


class Session:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update({"TERM": "xterm", "NO_COLOR": "1"})
            os.execv(shutil.which("dlsh"), ["dlsh", "-n", "-q", "--db", "none", "--device", "cpu"])
        self.wait(r"<\d+> $")

    def wait(self, what):
        text, end = "", time.monotonic() + 20
        while not re.search(what, text):
            if time.monotonic() > end:
                raise TimeoutError(text)
            if select.select([self.fd], [], [], 1)[0]:
                text = ESCAPES.sub("", text + os.read(self.fd, 1 << 16).decode(errors="replace"))
        return text

    def run(self, line):
        os.write(self.fd, line.encode() + b"\r")
        return self.wait(r"\n<\d+> $")

    def interrupted(self, line):
        os.write(self.fd, line.encode() + b"\r")
        text = self.wait(r"\nbegun")
        time.sleep(0.05)
        os.write(self.fd, b"\x03")
        return text + self.wait(r"\n<\d+> $")


s = Session()
for line in SETUP.split("\n"):
    s.run(line)
for name, (stop, statement) in PHASES.items():
    s.run(f"stop = {stop}")
    text = s.interrupted(statement)
    said = [line.strip() for line in re.split(r"[\r\n]+", text) if re.search("interrupt|error|warning", line)]
    s.run("stop = -1")
    after = s.run("n = 0; for x, y in l { n += len(y) }; for x, y in c { n += len(y) }; step t; step u; step v; step w; print([n, len(d.test.x), eval(t).loss >= 0])")
    fine = "[24, 4, true]" in after
    once = len(said) == 1 and "interrupted" in said[0] and "error" in said[0]
    print(f"{name}: {'one message' if once else said}, {'goes on' if fine else 'BROKEN: ' + after}")
os.write(s.fd, b"quit\r")
_, status = os.waitpid(s.pid, 0)
print("status", os.waitstatus_to_exitcode(status))
