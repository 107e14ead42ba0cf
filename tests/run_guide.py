#!/usr/bin/env python3
"""Follows a guide, docs/adding-*.md: its blocks below a comment <!-- into: FILE --> are put into a copy of that file (at the end, or
`before: TEXT`), the tables are made anew and what depends on them is compiled; the loops of new formulas are run.

    run_guide.py GUIDE CC SOURCE_FOLDER BUILD_FOLDER
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

LIB = ["ops", "core", "cpu", "optim", "nn", "autograd", "include"]
# Formulas of the guides, in Python.
EXACT = {"softsign": lambda a, b: a / (1 + abs(a)), "hypot": lambda a, b: (a * a + b * b) ** 0.5}
POINTWISE = """#include "cpu/kernels/pointwise_simd.c"
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


def adagrad(p, g):
    """Two steps of the guide's optimizer: lr=0.1 lr_decay=0.2 eps=1e-6 weight_decay=0.05."""
    total = 0.0
    for t in (1, 2):
        d = g + 0.05 * p
        total += d * d
        p -= 0.1 / (1 + (t - 1) * 0.2) * d / (total ** 0.5 + 1e-6)
    return p


STEPS = {"adagrad": ("0.2, 1e-6, 0.05, 0", adagrad)}
OPTIMIZER = """#include "cpu/kernels/optim_simd.c"
#include <stdio.h>
#define DL_SCALARS_FN static __attribute__((unused))
#include "optim/scalars.h"
int main(void) {
    double p[3] = {0.75, -2.5, 1e3}, g[3] = {2, 0.5, -4}, s[3][3] = {{0}}, v[] = {VALUES};
    float fp[3] = {0.75f, -2.5f, 1e3f}, fg[3] = {2, 0.5f, -4}, fs[3][3] = {{0}};
    dl_optim o = {.wants = 0};
    for (int t = 1; t <= 2; t++) {
        o.first = t == 1;
        scalars_NAME(v, 0.1, t, o.scalar);
        dl_optim_loops_v1[DL_OPTIMIZER_NAME][1](3, &o, (void *const[]){p, g, s[0], s[1], s[2]});
        dl_optim_loops_v1[DL_OPTIMIZER_NAME][0](3, &o, (void *const[]){fp, fg, fs[0], fs[1], fs[2]});
    }
    for (int i = 0; i < 3; i++) printf("%.17g %.9g\\n", p[i], (double)fp[i]);
    return 0;
}
"""


def insertions(text):
    """(file, text to stand before or None, code) of each block."""
    for m in re.finditer(r"<!-- into: (\S+)(?: before: (.*?))? -->\n```\w*\n(.*?)```", text, re.S):
        yield m.groups()


def run(*args, cwd=None):
    p = subprocess.run([str(a) for a in args], capture_output=True, text=True, cwd=cwd)
    if p.returncode:
        sys.exit(f"{' '.join(map(str, args))}\n{p.stdout}{p.stderr}")
    return p.stdout


def main():
    guide, cc, source, build = (pathlib.Path(a) for a in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        for name in LIB:
            shutil.copytree(source / "libcore" / name, tree / "libcore" / name)
        shutil.copytree(build / "gen", tree / "gen", ignore=shutil.ignore_patterns("gen_*"))
        changed, formulas = set(), []
        for file, before, code in insertions(guide.read_text()):
            path = tree / file
            if not path.exists():
                sys.exit(f"{guide}: there is no file {file}")
            old = path.read_text()
            if before and before not in old:
                sys.exit(f"{guide}: {file} has no text '{before}'")
            at = old.index(before) if before else len(old)
            path.write_text(old[:at] + code + old[at:])
            changed.add(file)
            formulas += [(name, POINTWISE, EXACT[name]) for name in re.findall(r"^FUNCTION2?\((\w+),", code, re.M)]
            for name in re.findall(r"^OPTIMIZER\((\w+),", code, re.M):
                formulas.append((name, OPTIMIZER.replace("VALUES", STEPS[name][0]), STEPS[name][1]))
        if not changed:
            sys.exit(f"{guide}: no block says into which file it goes")
        include = [f"-I{tree / 'libcore'}"]
        run(cc, *include, "-o", tree / "gen_ops", *(source / "tools" / f"gen_{name}.c" for name in ("ops", "rows", "table")))
        for mode, out in (("rules", "ops/rules_gen.h"), ("kernels", "ops/kernels_gen.h"), ("table", "ops/table_gen.h"),
                          ("names", "ops/names_gen.h"), ("api", "ops/api_gen.c"), ("numbers", "include/dlcore_ops.h")):
            run(tree / "gen_ops", mode, tree / "gen" / out)
        for mode, out in (("header", "include/dlcore.h"), ("bare", "bare/dlcore.h")):
            run(tree / "gen_ops", mode, tree / "gen" / out, source / "libcore" / "include" / "dlcore.h.in")
        flags = ["-std=gnu17", "-Wall", "-Wextra", "-Werror", "-Wmissing-prototypes", "-ffp-contract=off", "-D_GNU_SOURCE", *include] + [
            f"-I{tree / 'gen' / sub}" for sub in ("", "bare", "include")] + ["-DDL_SIMD_LEVEL=1", "-DDL_SIMD_SUFFIX=_v1", "-fopenmp"]
        checked = {f"libcore/{c}.c" for c in ("ops/table", "ops/pointwise", "cpu/kernels/pointwise", "optim/rows", "cpu/kernels/optim")} | {c for c in changed if c.endswith(".c")}
        for file in sorted(checked):
            run(cc, *flags, "-fsyntax-only", tree / file)
        run(cc, *flags, "-fsyntax-only", tree / "gen" / "ops" / "api_gen.c")
        for name, program, exact in formulas:
            (tree / "main.c").write_text(program.replace("NAME", name))
            run(cc, *flags, "-Wno-missing-prototypes", "-o", tree / "main", tree / "main.c", "-lm")
            lines = run(tree / "main").split("\n")
            for line, a, b in zip(lines, (0.75, -2.5, 1e3), (2, 0.5, -4)):
                wide, single = map(float, line.split())
                want = exact(a, b)
                if abs(wide - want) > 1e-15 * abs(want) or abs(single - want) > 2e-7 * abs(want):
                    sys.exit(f"{name}({a}, {b}) is {wide} and in f32 {single}, not {want}")
        print(f"{guide.name}: {len(changed)} files, {len(formulas)} formulas")


main()
