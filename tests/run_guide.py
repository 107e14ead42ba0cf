#!/usr/bin/env python3
"""Follows a guide, docs/adding-*.md, in a copy of the tree. Its blocks below a comment <!-- into: FILE --> are put into that
file: at its end, or `before: TEXT` or `after: TEXT`. The op table's files are made anew, what was changed or reads a changed
table is compiled, at -O0, and linked with the rest of the build. The shell so made runs the guide's blocks `dlsh added`, and
their output is compared; formulas of ops and optimizers are run once more, and compared with the same in Python. Where
PyTorch is installed it makes the goldens of new rows, and the tests that read them are run. With a CUDA compiler the guide's
CUDA sources are compiled, too. The build is one of Ninja's.
"""
import argparse
import json
import math
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import run_doc

# Formulas of the guides, in Python.
EXACT = {"squareplus": lambda a, b: (a + math.sqrt(a * a + 4)) / 2, "scalb": lambda a, b: a * 2.0 ** b}
POINTWISE = """#include "cpu/kernels/pointwise/pointwise_simd.c"
#include <stdio.h>
int main(void) {
    double a[3] = {0.75, -2.5, 1e3}, b[3] = {2, 0.5, -4}, y[3];
    float fa[3] = {0.75f, -2.5f, 1e3f}, fb[3] = {2, 0.5f, -4}, fy[3];
    const long s[3] = {8, 8, 8}, fs[3] = {4, 4, 4};
    dl_pointwise_arg arg = {.faults = 0};
    dl_pointwise_v1[DL_F64]->run[DL_FORMULA_NAME](3, (char *[]){(char *)y, (char *)a, (char *)b}, s, &arg);
    dl_pointwise_v1[DL_F32]->run[DL_FORMULA_NAME](3, (char *[]){(char *)fy, (char *)fa, (char *)fb}, fs, &arg);
    for (int i = 0; i < 3; i++) printf("%.17g %.9g\\n", y[i], (double)fy[i]);
    return 0;
}
"""


def signum(p, g):
    """Two steps of the guide's optimizer, in plain floats: rate 0.1, momentum 0.9, no decay."""
    for _ in range(2):
        p -= math.copysign(0.1, g)
    return p


STEPS = {"signum": ("0.9, 0, 0", signum)}
OPTIMIZER = """#define DL_SCALARS_FN static __attribute__((unused))
#include "optim/scalars.h"
#include "cpu/kernels/optim_simd.c"
#include <stdio.h>
int main(void) {
    double p[3] = {0.75, -2.5, 1e3}, g[3] = {2, 0.5, -4}, s[3][3] = {{0}}, v[] = {VALUES};
    float fp[3] = {0.75f, -2.5f, 1e3f}, fg[3] = {2, 0.5f, -4}, fs[3][3] = {{0}};
    dl_optim o = {.wants = 0};
    for (int t = 1; t <= 2; t++) {
        o.first = t == 1;
        scalars_NAME(v, 0.1, t, o.scalar);
        dl_optim_row_loops_v1[DL_OPTIMIZER_NAME].update[1](3, &o, (void *const[]){p, g, s[0], s[1], s[2]});
        dl_optim_row_loops_v1[DL_OPTIMIZER_NAME].update[0](3, &o, (void *const[]){fp, fg, fs[0], fs[1], fs[2]});
    }
    for (int i = 0; i < 3; i++) printf("%.17g %.9g\\n", p[i], (double)fp[i]);
    return 0;
}
"""
# Files that gen_ops writes, by what it is asked for.
TABLES = {"kernels": "ops/kernels_gen.h", "table": "ops/table_gen.h", "ids": "ops/ids_gen.h", "api": "ops/api_gen.c", "imports": "imports_gen.h",
          "samples": "ops/samples.tsv", "numbers": "include/dlcore_ops.h", "header": "include/dlcore.h", "bare": "bare/dlcore.h"}
FOLDERS = {"calls": "bare/dlcore", "names": "ops/names", "rules": "ops/rules"}  # with a file for each section of the op table
TEMPLATED = ("header", "bare")
# Tables whose rows are compared with PyTorch: the script that asks it, with what it writes, and the test that reads that.
GOLDENS = {"libcore/ops/ops.def": ("tests/ops/make_goldens.py gen/ops/samples.tsv tests/ops/golden.safetensors", "tests/ops/test_table.c"),
           "libcore/optim/optimizers.def": ("tests/optim/make_goldens.py > tests/optim/goldens.h", "tests/optim/test_optim.c")}
PYTORCH = "/usr/bin/python3"  # the system's, which has Debian's python3-torch


def run(*args, cwd=None):
    p = subprocess.run([str(a) for a in args], capture_output=True, text=True, cwd=cwd)
    if p.returncode:
        sys.exit(f"{' '.join(map(str, args))}\n{p.stdout}{p.stderr}")
    return p.stdout


class Build:
    """A copy of the tree, whose objects stand before those of a build."""

    def __init__(self, source, build, tree):
        self.source, self.build, self.tree = source, build, tree
        for name in ("libcore", "shell", "tools", "tests/ops", "tests/optim", "tests/support"):
            shutil.copytree(source / name, tree / name)
        shutil.copytree(build / "gen", tree / "gen", ignore=shutil.ignore_patterns("gen_*[!.hc]"))
        self.commands = json.loads((build / "compile_commands.json").read_text())
        self.cc = self.argv(self.of("libcore/ops/table.c")[0])[0]

    def of(self, file):
        """The compilations of a source of the library or the shell: one, or one for each instruction set."""
        path = str(self.build / file if file.startswith("gen/") else self.source / file)
        return [e for e in self.commands if e["file"] == path and "/gen/reversed" not in e["command"]]

    def argv(self, entry):
        """What compiles the copy's file as the build compiles its own, into an object of the copy."""
        argv = shlex.split(entry["command"])
        argv = argv[1:] if argv[0].endswith("ccache") else argv
        argv = [a.replace(f"{self.build}/gen", f"{self.tree}/gen") for a in argv]
        for part in ("libcore", "shell", "tests"):
            argv = [a.replace(f"{self.source}/{part}", f"{self.tree}/{part}") for a in argv]
        return ["-O0" if a in ("-O2", "-O3") else a for a in argv]

    def insert(self, file, side, text, code):
        path = self.tree / file
        if not path.exists():
            sys.exit(f"there is no file {file}")
        old = path.read_text()
        if side and text not in old:
            sys.exit(f"{file} has no text '{text}'")
        at = len(old) if not side else old.index(text) + (len(text) + 1 if side == "after" else 0)
        path.write_text(old[:at] + code + old[at:])

    def make_tables(self):
        """Files of the op table that are no longer what they were, and the ops that have other numbers now."""
        gen = self.tree / "gen"
        run(self.cc, f"-I{self.tree / 'libcore'}", "-o", self.tree / "gen_ops", *(self.tree / "tools" / f"gen_{name}.c" for name in ("ops", "rows", "table")))
        before = {mode: (gen / out).read_text() for mode, out in TABLES.items()}
        for mode, out in TABLES.items():
            run(self.tree / "gen_ops", mode, gen / out, *([self.tree / "libcore/include/dlcore.h.in"] if mode in TEMPLATED else []))
        for mode, out in FOLDERS.items():
            run(self.tree / "gen_ops", mode, gen / out)
        after = {mode: (gen / out).read_text() for mode, out in TABLES.items()}
        old, new = (re.findall(r"\bDL_\w+(?=,| /\*)", text["numbers"]) for text in (before, after))
        moved = [name for i, name in enumerate(new) if i >= len(old) or old[i] != name]
        return [TABLES[mode] for mode in ("table", "api") if before[mode] != after[mode]], moved

    def affected(self, changed, moved):
        """The changed sources, and those that include a changed file or name an op whose number moved. Headers to which
        a row adds a declaration leave the others' objects as they are."""
        texts = {}
        for part in ("libcore", "shell"):
            for path in (self.tree / part).rglob("*.[ch]"):
                if "/cuda/" not in str(path):
                    texts[str(path.relative_to(self.tree))] = path.read_text()
        includes = {file: set(re.findall(r'#\s*include\s*"([^"]+)"', text)) for file, text in texts.items()}
        reached, todo = set(), [re.sub(r"^(libcore|shell|gen)/", "", f) for f in changed]
        while todo:
            name = todo.pop()
            for file, names in includes.items():
                if name in names and file not in reached:
                    reached.add(file)
                    todo.append(file.split("/", 1)[1])
        names = re.compile(r"\bDL_OP_##|\b(?:%s)\b" % "|".join(moved)) if moved else None
        reached |= {file for file, text in texts.items() if names and file.endswith(".c") and names.search(text)}
        return sorted(f for f in reached | set(changed) if f.endswith(".c"))

    def compile(self, files, name="part"):
        objects = []
        for file in files:
            for entry in self.of(file):
                argv = self.argv(entry)
                at = argv.index("-o") + 1
                argv[at] = str(self.tree / f"{name}{len(objects)}.o")
                run(*argv, cwd=self.build)
                objects.append(argv[at])
        return objects

    def link(self, like, out, objects):
        """A program, as the build links its program `like`, from other objects and the static libraries."""
        command = run("ninja", "-C", self.build, "-t", "commands", like).strip().splitlines()[-1]
        argv = shlex.split(re.sub(r"^: && | && :$", "", command))
        argv[argv.index("-o") + 1] = str(out)
        at = next(i for i, a in enumerate(argv) if a.endswith(".c.o"))
        out.parent.mkdir(exist_ok=True)
        run(*argv[:at], *objects, *argv[at + 1:], cwd=self.build)


def check_goldens(build, table, objects):
    """The table's rows against PyTorch, which computes the goldens of the new ones."""
    if subprocess.run([PYTORCH, "-c", "import torch"], capture_output=True).returncode:
        print("no PyTorch: the new rows are not compared with it")
        return
    command, test = GOLDENS[table]
    run("sh", "-ec", f"{PYTORCH} {command}", cwd=build.tree)
    like = "tests/" + re.sub(r"^tests/(\w+)/test_(\w+)\.c$", r"test_\1_\2", test)
    build.link(like, build.tree / "tests" / "run", build.compile([test], "test") + objects)
    run(build.tree / "tests" / "run", cwd=build.tree)


def check_formula(build, name, program, exact):
    kernel = "optim" if name in STEPS else "pointwise/pointwise"
    entry = next(e for e in build.of(f"libcore/cpu/kernels/{kernel}_simd.c") if "DL_SIMD_LEVEL=1" in e["command"])
    argv = build.argv(entry)
    (build.tree / "main.c").write_text(program.replace("NAME", name))
    run(*argv[:argv.index("-o")], "-ffp-contract=off", "-Wno-missing-prototypes", "-o", build.tree / "main", build.tree / "main.c",
        build.tree / "libcore/cpu/runtime/simd.c", "-lm")  # the constants of vmath.h
    for line, a, b in zip(run(build.tree / "main").split("\n"), (0.75, -2.5, 1e3), (2, 0.5, -4)):
        wide, single = map(float, line.split())
        want = exact(a, b)
        if abs(wide - want) > 1e-15 * abs(want) or abs(single - want) > 2e-7 * abs(want):
            sys.exit(f"{name}({a}, {b}) is {wide} and in f32 {single}, not {want}")


def check_cuda(build, nvcc, files):
    for file in files:
        gen = [f"-I{build.tree / 'gen' / sub}" for sub in ("", "bare", "include")]
        run(nvcc, "-std=c++17", "-arch=sm_90", "-O1", "--extended-lambda", f"-I{build.tree / 'libcore'}", *gen, "-c", "-o", build.tree / "cuda.o", build.tree / file)


def check_format(build, clang_format, files):
    if files:
        run(clang_format, f"--style=file:{build.source / '.clang-format'}", "--dry-run", "--Werror", *(build.tree / f for f in files))


def follow(guide, source, folder, nvcc, clang_format):
    text = guide.read_text()
    with tempfile.TemporaryDirectory(prefix="dlsh-guide-") as tree:
        build, changed, formulas = Build(source, folder, pathlib.Path(tree)), [], []
        blocks = re.findall(r"<!-- into: (\S+)(?: (before|after): (.*?))? -->\n```\w*\n(.*?)```", text, re.S)
        for file, side, place, code in blocks:
            build.insert(file, side, place, code)
            changed += [file] if file not in changed else []
            formulas += [(name, POINTWISE, EXACT[name]) for name in re.findall(r"^FUNCTION2?\((\w+),", code, re.M)]
            for name in re.findall(r"^OPTIMIZER\((\w+),", code, re.M):
                formulas.append((name, OPTIMIZER.replace("VALUES", STEPS[name][0]), STEPS[name][1]))
        if not blocks:
            sys.exit(f"{guide}: no block says into which file it goes")
        tables, moved = build.make_tables()
        files = build.affected(changed + [f"gen/{t}" for t in tables], moved)
        objects = build.compile(files)
        build.link("tools/dlgen", build.tree / "bin" / "dlsh", ["CMakeFiles/dlsh.dir/shell/front/main.c.o", *objects])
        for table in changed:
            if table in GOLDENS:
                check_goldens(build, table, objects)
        for formula in formulas:
            check_formula(build, *formula)
        if nvcc:
            check_cuda(build, nvcc, [f for f in changed if f.endswith(".cu")])
        if clang_format:
            check_format(build, clang_format, [f for f in changed if f.endswith((".c", ".cu"))])
        page = build.tree / guide.name
        page.write_text(re.sub(r"^```(dlsh|sh)( error| more)? added$", r"```\1\2", text, flags=re.M))
        if "dlsh added" not in text:
            sys.exit(f"{guide}: no block `dlsh added` shows what was added")
        print(f"{guide.name}: {len(blocks)} places in {len(changed)} files; {len(files)} sources compiled, {len(formulas)} formulas run")
        sys.exit(0 if run_doc.check(page, build.tree / "bin") else 1)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("guide", "source", "build"):
        ap.add_argument(name, type=lambda a: pathlib.Path(a).resolve())
    ap.add_argument("--nvcc", help="a CUDA compiler")
    ap.add_argument("--clang-format", help="tells whether the guide's C is formatted as the tree's")
    a = ap.parse_args()
    follow(a.guide, a.source, a.build, a.nvcc, a.clang_format)


if __name__ == "__main__":
    main()
