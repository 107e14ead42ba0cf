"""Drives the prompt through a pseudo-terminal, as someone would at a keyboard. Prints one line a check."""
import os
import pty
import re
import select
import shutil
import sys
import tempfile
import time

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x01|\x02|\r")


class Prompt:
    def __init__(self, *args, env=None):
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.environ.update({"TERM": "xterm", "NO_COLOR": "1", **(env or {})})
            os.execv(shutil.which("dlsh"), ["dlsh", *args])
        self.text = self.raw = ""

    def type(self, keys):
        os.write(self.fd, keys.encode())

    def wait(self, pattern, seconds=120):
        """Waits until the screen's new text matches; returns it and forgets it."""
        end = time.monotonic() + seconds
        while True:
            plain = ESCAPES.sub("", self.text)
            m = re.search(pattern, plain)
            if m:
                self.text = plain[m.end():]
                return plain[: m.end()]
            if time.monotonic() > end or not self.read(end - time.monotonic()):
                sys.exit(f"waited for {pattern!r}, the screen has {plain!r}")

    def read(self, seconds):
        if not select.select([self.fd], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            data = b""
        self.text += data.decode(errors="replace")
        self.raw += data.decode(errors="replace")
        return bool(data)

    def end(self):
        """Reads to the end; returns the exit status."""
        while self.read(120):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def check(name, ok):
    print(("ok   " if ok else "FAIL ") + name)


p = Prompt("-n", "--db", "none")
check("banner names the device", "device cpu" in p.wait("<1> "))
p.type("1 + 1\r")
check("a value is shown", "2" in p.wait("<2> ").split("\n")[1])
p.type("for i in range(2) {\r")
p.wait(r"\.\.\. ")
p.type("print(i * 10)\r")
p.wait(r"\.\.\. ")
p.type("}\r")
out = p.wait("<3> ")
check("a block goes on over lines", "0\n10\n" in out)
p.type("x = (\r")
p.wait(r"\.\.\. ")
p.type("\x03")
check("Ctrl-C gives up an open entry", "^C" in p.wait("<3> "))
p.type("nonsense")
time.sleep(0.2)
p.type("\x03")
p.wait("<3> ")
p.type("2 * 21\r")
check("and the line typed before is gone", "42" in p.wait("<4> "))
p.type("1 + undefined_name\r")
out = p.wait("<5> ")
check("an error names its entry", "<4>:1:5: error:" in out)
p.type("while true { x = 1 }\r")
time.sleep(0.5)
p.type("\x03")
check("Ctrl-C stops what runs", "interrupted" in p.wait("<6> ").lower())
p.type("see\t 7\r")
p.wait("<7> ")
p.type("seed\r")
check("Tab completes commands", re.search(r"\b7\b", p.wait("<8> ")))
p.type("my_variable = 5\r")
p.wait("<9> ")
p.type("my_v\t + 1\r")
check("Tab completes variables", "6" in p.wait("<10> "))
p.type("matm\t\x15")
check("Tab completes ops", "matmul(" in p.wait(r"matmul\("))
p.type("set prog\t of\t\r")
p.wait("<11> ")
p.type("set progress\r")
check("Tab completes settings and their values", "progress off" in p.wait("<12> "))
p.type("\x10\x10\x10\x10\r")
check("up recalls an entry", "matm" not in p.wait("<13> "))
p.type("\x1b[200~a = 3\nb = 4\na * b\x1b[201~\r")
check("a paste of several lines runs as one entry", "12" in p.wait("<14> "))
p.type("_ + 1\r")
check("_ is the last value", "13" in p.wait("<15> "))
p.type("exit 3\r")
check("exit gives the status", p.end() == 3)

p = Prompt("-n", "-q", "--db", "none")
p.wait("<1> ")
p.type("\x10\r")
check("the history of the last session is there", "exit 3" in p.wait("exit 3"))
check("and runs again", p.end() == 3)

p = Prompt("-n", "-q", "--db", "none")
p.wait("<1> ")
p.type("\x04")
check("Ctrl-D ends with status 0", p.end() == 0)

p = Prompt("-n", "-q", "--db", "none", "-i", "-c", "k = 9")
p.wait("<1> ")
p.type("k\r")
check("-i goes on at the prompt", "9" in p.wait("<2> "))
p.type("quit\r")
check("quit ends with status 0", p.end() == 0)

p = Prompt("-n", "-q", "--db", "none", env={"TERM": "dumb"})
p.wait("<1> ")
p.type("nope\r")
p.wait("<2> ")
p.type("\x04")
check("a dumb terminal gets no escapes", p.end() == 0 and "\x1b" not in p.raw)

p = Prompt("-n", "-q", "--db", "none", env={"NO_COLOR": ""})
p.wait("<1> ")
p.type("nope\r")
p.wait("<2> ")
p.type("\x04")
check("a clever one gets colours", p.end() == 0 and "\x1b[1;31m" in p.raw)

p = Prompt("-n", "-q", "--db", "none")
for line in ("d = dataset(\"digits\", n=200, test=20);", "net m { flatten -> linear 10 }", "t = trainer(m, d, opt=sgd(lr=0.1), batch=10);"):
    p.type(line + "\r")
    p.wait(r"<\d> ")
p.wait("<4> ")
p.type("train t epochs=100000\r")
p.wait("epoch 2/100000")
p.type("\x03")
out = p.wait("<5> ")
check("Ctrl-C stops training after a step", re.search("training was interrupted after step|evaluation was interrupted", out))
p.type("s = step(t); s.loss > 0\r")
check("and training can go on", "true" in p.wait("<6> "))
p.type("train t ep\t1\r")
p.wait("epoch 1/1")
p.wait("<7> ")
print("ok   Tab completes options of a command")
p.type("m.linear0.wei\t.shape\r")
check("Tab completes fields", "[10, 784]" in p.wait("<8> "))
p.type("e = dataset(\"moo\t, n=10, test=5); e.name\r")
check("Tab completes kinds of datasets", "moons" in p.wait("<9> "))
p.type("net k { flat\t-> lin\t5 bi\tfalse }\r")
p.wait("<10> ")
p.type("show k\r")
check("Tab completes layers and their options", "bias=false" in p.wait("<11> "))
p.type("extern \"libm.so.6\" header <math.h>;\r")
p.wait("<12> ")
p.type("llro\tt\t2.5)\r")
check("Tab completes names of C headers", re.search(r"llrint|llround", p.wait("<13> ")))
p.type("read \"repl.p\t")
p.wait(r'"repl.py"')
print("ok   Tab completes files in quotes")
p.type("\x15\x04")
check("then Ctrl-D ends", p.end() == 0)

if shutil.which("cc"):
    block = ('C flags="-pthread" {\n#include <pthread.h>\n#include <unistd.h>\nint first(int *p) { return *p; }\n'
             "static void *work(void *a) { usleep(200000); return (void *)(long)first(a); }\n"
             "void go(void) { pthread_t t; pthread_create(&t, NULL, work, NULL); pthread_detach(t); } }\r")
    p = Prompt("-n", "-q", "--db", "none")
    p.wait("<1> ")
    p.type(block)
    p.wait("<2> ")
    p.type("first(NULL)\r")
    check("nothing to save, nothing asked", "SIGSEGV" in p.wait("<3 damaged> "))
    p.type("x = ones(3)\r")
    p.wait("<4 damaged> ")
    p.type("first(NULL)\r")
    check("after a crash it is asked", "1 object" in p.wait(r"now\? \[Y/n\] "))
    p.type("n\r")
    check("no is no", "nothing was saved" in p.wait("<5 damaged> "))
    p.type("first(NULL)\r")
    check("and it is asked once", "[Y/n]" not in p.wait("<6 damaged> "))
    p.type("go()\r1 +")
    p.wait("<7 damaged> 1 \\+")
    check("a thread's crash is told at the idle prompt", p.wait("which C has started(.|\n)*<7 damaged> 1 \\+"))
    p.type(" 1\r")
    check("and what was typed stays", "2" in p.wait("<8 damaged> "))
    p.type("\x04")
    p.end()

    p = Prompt("-n", "-q", "--db", "none")
    p.wait("<1> ")
    p.type(block + "x = ones(3)\rfirst(NULL)\r")
    folder = re.search(r"rescue-\d+-\d+", p.wait(r"now\? \[Y/n\] ")).group()
    p.type("\r")
    check("Enter is yes", "1 saved" in p.wait("<4 damaged> ") and os.path.exists(folder + "/x.safetensors"))
    p.type("\x04")
    p.end()
else:
    for line in ("nothing to save, nothing asked", "after a crash it is asked", "no is no", "and it is asked once",
                 "a thread's crash is told at the idle prompt", "and what was typed stays", "Enter is yes"):
        print("ok   " + line)

# ---- asking, paths, blocks, plain terminals, narrow lines


def narrow(p, columns):
    import fcntl
    import struct
    import termios

    fcntl.ioctl(p.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.kill(p.pid, 28)  # SIGWINCH


with tempfile.TemporaryDirectory() as folder:
    open(folder + "/only here.dlsh", "w").write("6 * 9\n")
    p = Prompt("-nq", "--db", "none", env={"HOME": folder})
    p.wait("<1> ")
    p.type(f'read "{folder}/on\t\r')
    check("Tab completes paths in quotes", "54" in p.wait("<2> "))
    p.type('read "~/on\t\r')
    check("and from the home folder", "54" in p.wait("<3> "))
    p.type("x = 3\r")
    p.wait("<4> ")
    p.type("x?\r")
    check("NAME? asks", "x is an int" in p.wait("<5> "))
    p.type("?matmul\r")
    check("?NAME as well", "Matrix product" in p.wait("<6> "))
    p.type("for i in range(2) {\rprint(i)\r}\r")
    p.wait("<7> ")
    p.type("\x1b[A")
    p.wait("}")
    p.raw = ""
    p.type("\x03")
    p.wait("<7> ")
    check("Ctrl-C stands below a recalled block", re.search(r"\^C\r?\n", p.raw) and "}" not in p.raw.split("^C")[-1])
    p.type("{a: 1,\rb: 2}\r")
    check("a record goes on over lines", "{a: 1, b: 2}" in p.wait("<8> "))
    p.type("\x04")
    p.end()

p = Prompt("-nq", "--db", "none", env={"TERM": "dumb"})
p.wait("<1> ")
p.type("1 + 1\r")
p.wait("<2> ")
p.type("x = [" + ", ".join(["1"] * 60) + "]; len(x)\r")
check("a long line on a dumb terminal", "60" in p.wait("<3> "))
p.type("for i in range(3) {\r")
p.wait("\\.\\.\\. ")
p.type("\x03")
p.wait("<3> ")
p.type("quit\r")
check("has no cursor moves", p.end() == 0 and not re.search("\x1b|\x08|\r[^\n]", p.raw))

code = """d = dataset("digits", n=2000, test=200); net m { flatten; linear 10 }
t = trainer(m, d, batch=1, loss=cross_entropy); for i in range(50) { step(t); }; train t epochs=11"""
p = Prompt("-nq", "--db", "none", "-c", code, env={"LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"})
narrow(p, 80)
p.wait(r"epoch 1/11")
narrow(p, 44)
p.raw = ""
p.wait(r"epoch 3/11")
p.type("\x03")
p.end()
lines = [line for line in re.split(r"[\r\n]", ESCAPES.sub("", p.raw.replace("\r", "\n"))) if "epoch" in line]
check("lines of progress fit a narrow terminal", lines and all(len(line) <= 80 for line in lines))
done = [line for line in lines if "test/acc" in line and "eta" not in line]
check("the metric that matters stays", bool(done))
check("numbers are whole", all(re.search(r"test/acc [\d.]+(e-\d+)?(  |$)", line) for line in done))
check("the bar counts all epochs", all(int(m[1]) < 60 for m in (re.search(r"(\d+)%", line) for line in lines) if m))

p = Prompt("-nq", "--db", "none")
p.wait("<1> ")
p.type("w = param(ones(3)); l = w * 1; for i in range(9000) { l = l * 1.0001 }; s = sum(l)\r")
p.wait("<2> ")
p.type("dbg s\r")
p.wait(r"\(dbg\) ")
p.type("until sum(randn(100, 100)) > 1e9\r")
time.sleep(0.2)
p.type("\x03")
out = p.wait(r"\(dbg\) ")
p.type("print 6 * 7\r")
check("Ctrl-C leaves the walk of dbg where it is", "the walk stands here" in out and "42" in p.wait(r"\(dbg\) "))
p.type("quit\r")
p.wait("<3> ")
p.type("w.grad\r")
check("and gradients are as before", "none" in p.wait("<4> "))
p.type("\x04")
p.end()

p = Prompt("-nq", "--db", "none")
p.wait("<1> ")
p.type('d = dataset("moons", n=64); net m { linear 8 -> relu -> linear 2 }; t = trainer(m, d, batch=16)\r')
p.wait("<2> ")
p.type("train t steps=20000\r")
p.wait("<3> ")
p.type("rewind t 0\r")
p.wait("<4> ")
p.type("replay t\r")
time.sleep(0.05)
p.type("\x03")
out = p.wait("<5> ")
check("an interrupted replay says what goes on", "the same replay goes on" in out)
p.type("\x04")
p.end()

p = Prompt("-nq", "--db", "none")
p.wait("<1> ")
p.type("w = param(ones(2)); l = sum(w * w)\r")
p.wait("<2> ")
p.type("dbg l\r")
p.wait(r"\(dbg\) ")
p.type("print no")
time.sleep(0.2)
p.type("\x03")
p.wait(r"\(dbg\) ")
p.type("print node.op\r")
check("Ctrl-C at the debugger's prompt gives up the line alone", "\nmul\n" in p.wait(r"\(dbg\) "))
p.type("\x03")
p.wait(r"\(dbg\) ")
p.type("q\r")
p.wait("<3> ")
p.type("quit\r")
check("and q leaves the walk", p.end() == 0)
