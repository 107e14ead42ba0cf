"""Runs reports in a pseudo-terminal of a given width and looks at their lines."""
import fcntl
import os
import pty
import re
import shutil
import struct
import termios


def shown(code, columns):
    primary, secondary = pty.openpty()
    fcntl.ioctl(secondary, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    pid = os.fork()
    if not pid:
        os.close(primary)
        for fd in (0, 1, 2):
            os.dup2(secondary, fd)
        os.environ.update({"TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"})
        os.execv(shutil.which("dlsh"), ["dlsh", "-n", "--db", "runs.db", "-c", code])
    os.close(secondary)
    out = b""
    while True:
        try:
            data = os.read(primary, 65536)
        except OSError:
            break
        if not data:
            break
        out += data
    os.waitpid(pid, 0)
    return out.decode().replace("\r", "").splitlines()


def check(name, ok):
    print(("ok   " if ok else "FAIL ") + name)


NUMBER = re.compile(r"^-?\d+(\.\d+)?(e[+-]\d+)?$")
twelve = "compare " + " ".join(str(i) for i in range(1, 13))
reports = {"runs": "runs", "compare": "compare 1 5", "twelve": twelve, "vars": "xs = [1.5, 2.25]; t = randn(3, 4); vars",
           "show": "net m { linear 64 -> relu -> linear 10 }; m.build([20]); show m", "stat": "x = randn(100); stat x",
           "hist": "x = randn(500) * 1000; hist x", "plot": "plot test/acc 1 2 3",
           "sql": "sql \"select id, name, uuid, host from run limit 3\"", "help": "help plot"}
for name, code in reports.items():
    for columns in (30, 44, 70, 80, 120):
        lines = shown(code, columns)
        check(f"{name} at {columns}", lines and all(len(line) <= columns for line in lines))
for columns in (30, 44, 80):
    lines = shown("run show 1", columns) # a folder has no blank where it could be broken
    check(f"run show at {columns}", lines and all(len(line) <= columns or " " not in line.strip() for line in lines))
    check(f"a run without a net at {columns}", not any("model" in line for line in lines))
lines = shown("runs", 80)
check("a huge loss is short", any("2.346e+33" in line for line in lines))
check("what is left out has an ellipsis", any(line.endswith("…") for line in shown("runs", 44)))
lines = shown(twelve, 70)
check("keys are whole", all(any(line.startswith(key + " ") for line in lines)
                            for key in ("learning_rate", "weight_decay_of_the_embedding")))
check("and stand in each block", sum(line.startswith("learning_rate ") for line in lines) > 1)
wide = {word for line in shown("compare 1 5", 200) for word in line.split() if NUMBER.match(word)}
for columns in (30, 44, 70):
    words = {word for line in shown("compare 1 5", columns) for word in line.split() if re.match(r"^-?\d", word)}
    check(f"no number is cut at {columns}", all(word in wide or word.startswith("@") for word in words if NUMBER.match(word)))
for columns in (80, 120):
    lines = shown("compare 14 15 all", columns)
    metrics = [line for line in lines if line.startswith("metric ")]
    check(f"two runs beside each other at {columns}", len(metrics) == 1 and "14 resnet" in metrics[0] and "15 b" in metrics[0])
    check(f"the winner is whole at {columns}", any("* 0.067454 @12345" in line for line in shown(twelve, columns)))
    check(f"the room is used at {columns}", any("sgd(lr=0.1, momentum=0.9, " in line for line in lines))
    check(f"the seed stands once at {columns}", sum(line.startswith("seed ") for line in lines) == 1)
