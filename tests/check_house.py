#!/usr/bin/env python3
"""The house rules that a program can check, over the C sources and the manual. Prints FILE:LINE: what is wrong.

check_house.py [--cxx COMPILER]: with a C++ compiler, libcore's headers are compiled as C++17 on their own, too.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAX_FILE, MAX_FUNCTION, MAX_COLUMNS, MAX_FOLDER = 800, 70, 120, 39
C_FILES = (".c", ".h", ".cu", ".cuh")

# Which parts may not be included from where: arrows point front -> commands, debug, ffi -> lang -> libcore.
ARROWS = [
    ("libcore/", r"shell/|lang/|commands/|front/|jupyter/|view/|debug/|ffi/"),
    ("shell/lang/", r"front/|jupyter/|commands/|debug/|ffi/"),
    ("shell/view/", r"front/|jupyter/|commands/|debug/"),
    ("shell/commands/", r"front/|jupyter/"),
    ("shell/debug/", r"front/|jupyter/"),
    ("shell/ffi/", r"front/|jupyter/"),
    ("shell/", r"core/|ops/|autograd/|nn/|optim/|data/|io/|track/|train/|cpu/|cuda/"),
    # between the rooms of the library; core/dispatch.c records on the tape what it has run, and
    # core/device/imports.h lists what a plugin may call, of all rooms
    ("libcore/core/(?!device/imports\\.h)", r"nn/|optim/|data/|io/|track/|train/|cpu/|cuda/"),
    ("libcore/(?:ops|autograd)/", r"nn/|optim/|data/|io/|track/|train/|cpu/|cuda/"),
    ("libcore/cpu/", r"nn/|io/|track/|train/|cuda/"),
    ("libcore/cuda/", r"nn/|io/|track/|train/|cpu/"),
    ("libcore/(?:data|io)/", r"nn/|optim/|track/|train/|cpu/|cuda/"),
    ("libcore/(?:nn|optim)/", r"data/|track/|train/|cpu/|cuda/"),
    ("libcore/track/", r"nn/|optim/|data/|train/|cuda/"),
    ("libcore/train/", r"cpu/|cuda/"),
    # headers of all sections of the op table, which every new row changes: where any op may be named
    ("libcore/(?!ops/table|nn/layer)|shell/", r"(?:dlcore|ops/names|ops/rules)/all\.h"),
]
# Files that a build makes, by the names that comments and the manual use; and those of the system.
MADE = ("dlcore.h", "dlcore_ops.h", "all.h", "SECTION.h", "kernels_gen.h", "table_gen.h", "ids_gen.h", "api_gen.c", "imports_gen.h", "abi.h")
# What may not be written where.
FORBIDDEN = [
    ("libcore/", r"\b(?:printf|puts|putchar|abort|exit|_exit|getopt|getopt_long)\s*\(", "the library never prints or ends the process"),
    ("libcore/(?!io/pictures/jpeg\.c)", r"\blongjmp\s*\(", "the library never jumps, but out of libjpeg"),
    ("libcore/", r"\bfprintf\s*\(\s*std(?:out|err)|\b(?:stdout|stderr)\b", "the library never prints"),
    ("libcore/include/", r"^\s*#\s*(?!pragma once)", "the public header has no preprocessor lines"),
    ("libcore/.*\\.h$", r"\b(?:_Atomic|restrict|_Generic)\b", "internal headers also compile as C++17"),
    ("libcore/(?:ops|cpu)/", r"\battr\[\d", "attributes are read by name: ops/names.h"),
    ("libcore/(?:ops|nn|autograd)/", r"!\s*(?:\w+->)*(?:st->)?device\b|device_of\([^()]*\)\s*[<>=!]=?\s*\d|(?:if|while) \([^()]*->device\)", "what a device can do, its backend says: prefers_layout, supports"),
    ("(?:libcore|shell)/(?!core/scope\.h|lang/session\.h)", r"=\s*dl_grad_mode\(", "a grad mode holds for a block: DL_SCOPED_GRAD_MODE, DLSH_SCOPED_GRAD_MODE"),
    ("(?:libcore|shell)/", r"dl_error_last\(\)->code", "the code of the last failure is dl_failed()"),
    ("", r"\b(?:TODO|FIXME|XXX|HACK)\b", "unfinished work"),
]


def sources(suffixes, parts=("libcore", "shell", "tests", "tools", "bench", "examples")):
    return sorted(str(f.relative_to(ROOT)) for part in parts for f in (ROOT / part).rglob("*") if f.suffix in suffixes)


def without_comments(text):
    """The text with comments and strings blanked, line numbers kept."""
    def blank(m):
        s = m.group(0)
        return s if s[0] == "#" else re.sub(r"[^\n]", " ", s) if s[0] == "/" else '""'
    return re.sub(r'#\s*include[^\n]*|/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def check_file(name, say):
    text = (ROOT / name).read_text()
    lines = text.splitlines()
    if len(lines) > MAX_FILE and not name.startswith("libcore/include/"):  # there is one public header
        say(name, len(lines), f"{len(lines)} lines; at most {MAX_FILE}")
    if not re.match(r"\s*(?:#pragma once\s*)?/[*/]", text):
        say(name, 1, "the first comment says what the file is about")
    code = without_comments(text).splitlines()
    start = head = 0  # of the function that this line is in; of the declaration that may be the head of one
    for i, line in enumerate(code, 1):
        if m := re.match(r'\s*#\s*include\s*"([^"]+)"', line):
            for where, what in ARROWS:
                if re.match(where, name) and re.match(what, m.group(1)):
                    say(name, i, f"{where} may not include {m.group(1)}")
            continue
        for where, what, why in FORBIDDEN:
            subject = lines[i - 1] if why == "unfinished work" else line
            if re.match(where, name) and re.search(what, subject):
                say(name, i, why)
        if re.match(r"[A-Za-z_]", line):
            head = i
        if head and not start and re.search(r"\)\s*\{$", line):
            start = head
        if re.search(r"[;{}]\s*$", line):
            head = 0
        if line.startswith("}") and start:
            if i - start > MAX_FUNCTION:
                say(name, start, f"a function of {i - start + 1} lines; at most {MAX_FUNCTION}")
            start = 0


def check_folders(say):
    """A folder has few files; a subject with more gets a room of its own in it."""
    files = collections.Counter(str(pathlib.Path(f).parent) for f in sources(C_FILES + (".def", ".sql"), ("libcore", "shell")))
    for folder, n in files.items():
        if n > MAX_FOLDER:
            say(folder, n, f"{n} files; at most {MAX_FOLDER}")


def check_names(say):
    """Files that comments and the manual name exist."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    known = {"/".join(f.split("/")[i:]) for f in tracked for i in range(f.count("/") + 1)}
    known |= {f[:-3] for f in known if f.endswith(".in")}
    a_file = re.compile(r"(?<![\w.*/<-])((?:[\w-]+/)*[\w-]+\.(?:c|h|cu|cuh|def))\b")

    def look(name, i, text):
        for path in a_file.findall(text):
            if path not in known and path.split("/")[-1] not in MADE and not re.search(r"(?:^|/)(?:[a-z]|[A-Z]+)\.", path) and not (pathlib.Path("/usr/include") / path).exists():
                say(name, i, f"there is no file {path}")

    for name in sources(C_FILES + (".def",), ("libcore", "shell", "tools")):
        text = (ROOT / name).read_text()
        for m in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.S):
            look(name, text[:m.start()].count("\n") + 1, m.group(0))
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for i, line in enumerate(page.read_text().splitlines(), 1):
            for path in re.findall(r"(?<![\w/])((?:libcore|shell|tests|tools|bench|examples|cmake|notebooks)/[\w./-]*\w)", line):
                if not (ROOT / path).exists() and path.split("/")[-1] not in MADE and not re.search("NAME|PART|_$", path):
                    say(str(page.relative_to(ROOT)), i, f"there is no file {path}")


def check_headers(cxx, say):
    headers = [h for h in sources((".h",), ("libcore",)) if not h.startswith(("libcore/cuda/", "libcore/include/"))]
    libpq = subprocess.run(["pkg-config", "--cflags", "libpq"], capture_output=True, text=True).stdout.split()
    for h in headers:
        argv = [cxx, "-std=gnu++17", "-fsyntax-only", "-x", "c++", "-Wno-pragma-once-outside-header", "-Ilibcore", "-Ibuild/gen",
                "-Ibuild/gen/bare", "-Ibuild/gen/include", *libpq, h]
        p = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
        if p.returncode:
            say(h, 1, "does not compile on its own as C++17:\n" + "\n".join(p.stderr.splitlines()[:4]))


def check_links(say):
    """Links of the manual lead to a file, and to a heading in it."""
    def anchors(page):
        return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", page.read_text(), re.M)}

    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for i, line in enumerate(page.read_text().splitlines(), 1):
            for link in re.findall(r"\]\(([^)\s]+)\)", line):
                path, _, anchor = link.partition("#")
                to = page.parent / path if path else page
                if "://" in link:
                    continue
                if not to.exists() or (anchor and anchor not in anchors(to)):
                    say(page.relative_to(ROOT), i, f"there is no {link}")


def check_map(say):
    """docs/inside.md is true: files and functions that it names exist, the code uses every word of the glossary, and each
    guide is told of there and in the index."""
    page, index = ROOT / "docs/inside.md", (ROOT / "docs/index.md").read_text()
    text = page.read_text()
    files = sources(C_FILES + (".def", ".in"), ("libcore", "shell", "tools"))
    code = "\n".join((ROOT / f).read_text() for f in files)
    words = set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])|_", " ", code).lower()))
    names = {f.split("/")[-1].removesuffix(".in") for f in files} | set(MADE)
    for i, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"`(?:[\w./-]+/)?([\w-]+\.(?:c|h|cu|cuh|def))`", line):
            if name not in names:
                say("docs/inside.md", i, f"there is no file {name}")
        for name in re.findall(r"`(dl(?:sh)?_\w+)`", line):
            if "NAME" not in name and not re.search(rf"\b{name}\b", code):
                say("docs/inside.md", i, f"there is no {name}")
    for row in re.findall(r"^\| ([a-z ]+) \| ", text.partition("## Glossary")[2], re.M):
        if not set(row.split()) <= words and row != "word":
            say("docs/inside.md", text[:text.index(f"| {row} |")].count("\n") + 1, f"no code uses the word '{row}'")
    for guide in sorted((ROOT / "docs").glob("adding-*.md")):
        for where, page_text in (("docs/inside.md", text), ("docs/index.md", index)):
            if f"({guide.name})" not in page_text:
                say(where, 1, f"{guide.name} is not mentioned")


def check_op_table(say):
    """clang-format cannot keep the rows of the op table to a width."""
    for i, line in enumerate((ROOT / "libcore/ops/ops.def").read_text().splitlines(), 1):
        if len(line) > MAX_COLUMNS:
            say("libcore/ops/ops.def", i, f"{len(line)} columns; at most {MAX_COLUMNS}")


def check_sections(say):
    """A source includes the prototypes of the sections of the op table whose ops it calls, and no others: each is a reason
    to compile it anew."""
    sections, table = {}, (ROOT / "libcore/ops/ops.def").read_text()
    for begin, op in re.findall(r"^(?:SECTION\((\w+)|[A-Z]+\((\w+))", table, re.M):
        if begin:
            ops = sections[begin] = set()
        else:
            ops.add(op)
    for name in sources(C_FILES, ("libcore", "shell")):
        text = (ROOT / name).read_text()
        called = set(re.findall(r"\bdl_(\w+)", without_comments(text)))
        for m in re.finditer(r'#include "dlcore/(\w+)\.h"', text):
            if m[1] != "all" and not sections[m[1]] & called:
                say(name, text[:m.start()].count("\n") + 1, f"calls no op of {m[0]}")


def check_kernel_types(say):
    """Types of CUDA sources have names of their own: kernels are instances of templates over them, and of two with one
    name the linker drops one."""
    seen = {}
    for name in sources({".cu"}):
        for i, line in enumerate(without_comments((ROOT / name).read_text()).splitlines(), 1):
            m = re.match(r"\s*(?:template <[^>]*> ?)?(?:typedef )?struct (\w+)", line)
            if m and seen.setdefault(m.group(1), name) != name:
                say(name, i, f"struct {m.group(1)} is a type of {seen[m.group(1)]} too")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--cxx", help="a C++ compiler")
    a = ap.parse_args()
    findings = []

    def say(name, line, what):
        findings.append(f"{name}:{line}: {what}")

    for name in sources(C_FILES):
        check_file(name, say)
    check_folders(say)
    check_op_table(say)
    check_sections(say)
    check_kernel_types(say)
    check_links(say)
    check_names(say)
    check_map(say)
    if a.cxx:
        check_headers(a.cxx, say)
    print("\n".join(findings) or "the house is in order")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
