# Many names take time in proportion to their number: layers of a net, names of a C block that is redefined, C types
# that name each other; and of many warnings of the compiler a few are shown. Each takes well below a second of processor
# time here; where it grows with the square, or doubles with each level, several times its bound.
cat >many.py <<'END'
import re, resource, shutil, subprocess

# sanitizers take several times as long
slow = 5 if re.search(b"lib[at]san", subprocess.run(["ldd", shutil.which("dlsh")], capture_output=True).stdout) else 1


def seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(what, bound, text):
    with open("x.dlsh", "w") as f:
        f.write(text)
    before = seconds()
    r = subprocess.run(["dlsh", "-n", "x.dlsh"], capture_output=True, text=True, timeout=250)
    took = seconds() - before
    if took > slow * bound:
        print(f"{what}: {took:.1f} s")
    return r


def told(what, r):
    print(what, r.stdout.strip(), r.stderr[:300].strip())


n = 20000
told("layers", run("layers", 4, "net m {\n" + "relu\n" * n + "}\nprint(m.relu19999)\n"))
told("labels", run("labels", 2, "net m {\n" + "".join(f"a{i}: relu\n" for i in range(n)) + "}\nprint(m.a19999)\n"))
block = "C {\n" + "".join(f"#define m{i} %d + {i}\nextern int v{i};\n" for i in range(12000))
block += "int f(void) { return m7; }\n}\n"
told("anew", run("anew", 5, block % ((1,) * 12000) + block % ((2,) * 12000) + "print(f())\n"))
chain = "".join(f"typedef void (*%s{i})(%s{i - 1}, %s{i - 1}, %s{max(i - 2, 0)});\n" for i in range(1, 40))
both = "typedef long a0;\n" + chain.replace("%s", "a") + "typedef long long b0;\n" + chain.replace("%s", "b")
told("types", run("types", 5, "C {\n" + both + "int g(a39 f) { return 5; }\nvoid k(b38 x, b38 y, b37 z) {}\n}\nprint(g(k))\n"))
r = run("warnings", 60, "C {\nint f(void) { " + "int x = {{1}}; { " * 300 + "} " * 300 + "return 1; }\n}\nprint(f())\n")
print("warnings", r.stdout.strip(), r.stderr.count("warning: "), "more warnings" in r.stderr)
END
XDG_CACHE_HOME=$PWD/cache python3 many.py
