"""jupyter-console at a pseudo-terminal: a cell of several lines, its result, Tab, an error, input, a training, the end. (Ctrl-C in
its version 6.4.4 reaches no kernel, whichever it is.)"""
import re
import shutil
import sys

sys.path.insert(0, "tests/support")
import kernel

try:
    import pexpect
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-pexpect)")
    sys.exit(77)
CONSOLE = "/usr/bin/jupyter-console"
if not shutil.which(CONSOLE):
    print("skipped: no jupyter-console (Debian: jupyter-console)")
    sys.exit(77)

kernel.install()
CONSOLES_OWN = "Unhandled exception in event loop"  # its prompt answers no more; seen on a machine with more to do than it can


class Console:
    """One run; `seen` is what it has shown so far."""

    def __init__(self):
        self.p, self.seen = pexpect.spawn(CONSOLE, ["--kernel", "dlsh"], encoding="utf-8", timeout=60, dimensions=(40, 120), cwd=str(kernel.HOME)), ""

    def expect(self, pattern):
        """Waits for text; escape sequences may stand between its letters."""
        gap = r"(?:\x1b\[[0-9;?]*[a-zA-Z])*"
        self.p.expect([gap.join(re.escape(c) for c in pattern)])
        self.seen += self.p.before


def talk(console):
    p, expect = console.p, console.expect
    expect("In [1]:")
    p.send("6*7\r")
    expect("Out[1]:")
    expect("42")
    expect("In [2]:")
    p.send("for i in range(2) {\r")
    expect("...:")
    p.send("print(i + 100)\r")
    p.send("}\r")
    expect("100")
    expect("101")
    expect("In [3]:")
    p.send("cross_en\t")
    expect("tropy")
    p.send("\x03")
    expect("In [3]:")
    p.send("1 + not_there\r")
    expect("called 'not_there'")
    expect("In [4]:")
    p.send('input("who? ")\r')
    expect("\r\n")
    expect("who? ")
    p.send("Ada\r")
    expect('"Ada"')
    expect("In [5]:")
    p.send('d = dataset("digits", n=640, test=64); net m { flatten -> linear 10 }; train trainer(m, d, opt=sgd(lr=0.1), batch=64) epochs=2\r')
    expect("epoch 2/2  10/10  loss")  # the line at its end, which in a notebook is a display that is updated
    expect("In [6]:")
    p.send("\x04")
    p.expect(["exit", pexpect.EOF])
    p.send("y\r")
    p.expect(pexpect.EOF)


for attempt in range(3):
    console = Console()
    try:
        talk(console)
        break
    except (pexpect.TIMEOUT, pexpect.EOF):
        seen = console.seen + str(console.p.before)
        print(seen[-3000:])
        if CONSOLES_OWN not in seen or attempt == 2:
            raise
    finally:
        console.p.close(force=True)
print("jupyter-console: cells, several lines, Tab, error, input")
