#!/usr/bin/env python3
"""Runs script tests: tests/scripts/NAME.dlsh under `dlsh -n`, NAME.sh under sh, each in an empty directory of its own.

Beside NAME.dlsh stand NAME.out (standard output; absent: none), NAME.err (standard error) and NAME.status (exit status;
absent: 0). In .out and .err, `<...>` stands for anything in a line and, alone on a line, for any lines. Files in NAME.d/ are
copied into the directory; a leading comment `# files: OTHER.d` names another folder. `# options: --mode json` gives options
of dlsh, `# args: epochs=2` the script's arguments. In a .sh test `dlsh` is on the PATH, $EXAMPLES is the folder of examples, Python finds the modules of
tests/support; exit status 77 says that it cannot run here. A .sh test with `# parts: N` can run in N parts: --part K runs it
with $PART and $PARTS, which it reads; without --part it does all at once. --update rewrites what does not match and keeps the wildcards
inside lines that still fit. --device cuda runs the .dlsh tests with the tensors on a GPU, but those that name the CPU or
need it (OF_CPU); what is printed is the same, but for the device beside tensors. Tests NAME_cuda.sh run there, too.
"""
import argparse
import concurrent.futures
import pathlib
import re
import shutil
import shlex
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "support"))
import expect  # noqa: E402

WILD = "<...>"
SKIPPED = 77
OF_CPU = {
    "c_": "C functions work in host memory",
    "collate": "says why steps are not captured",
    "data_faults": "prints memory of layers, which cuDNN needs more of",
    "dbg": "a loss is one row on a GPU, and on the CPU several",
    "dbg_layers": "on a GPU a NaN is found when it is looked for",
    "findings": "on a GPU a NaN is found when it is looked for",
    "nan_came_in": "on a GPU a NaN is found when it is looked for",
    "general": "lists the devices",
    "gradcheck_": "C functions work in host memory",
    "loop_helpers": "on a GPU a NaN is found when it is looked for",
    "hints_that_work": "on a GPU a NaN is found when it is looked for",
    "lr_find": "draws with gnuplot, which machines with a GPU often lack",
    "names_of_torch": "a fault on a GPU is reported by a later statement",
    "ops_scatter": "a fault on a GPU is reported by a later statement",
    "ops_shapes": "a fault on a GPU is reported by a later statement",
    "sparse_faults": "a fault on a GPU is reported by a later statement",
    "recurrent": "prints memory of layers, which cuDNN needs more of",
    "why": "on a GPU a NaN is found when it is looked for",
    "why_batchnorm": "prints more digits than devices agree in",
    "xcheck": "C functions work in host memory",
}


def header(text, key):
    """Words of a leading comment line `# key: words`."""
    m = re.search(rf"^# {key}:(.*)$", text.split("\n\n")[0], re.M)
    return shlex.split(m.group(1)) if m else []


def of_cpu(script):
    if script.suffix == ".sh":
        return not script.stem.endswith("_cuda")
    return any(script.stem == name or (name.endswith("_") and script.stem.startswith(name)) for name in OF_CPU)


def execute(script, bindir, device, timeout, part):
    with tempfile.TemporaryDirectory(prefix="dlsh-test-") as tmp:
        work = pathlib.Path(tmp, "work")
        text = script.read_text()
        extra = script.with_name(*(header(text, "files") or [script.with_suffix(".d").name]))
        shutil.copytree(extra, work) if extra.is_dir() else work.mkdir()
        shutil.copy(script, work)
        if script.suffix == ".sh":
            argv = ["sh", script.name]
        else:
            argv = ["dlsh", "-n", "--db", "test.db", "--device", device, *header(text, "options"), script.name,
                    *header(text, "args")]
        argv[0] = shutil.which(argv[0], path=f"{bindir}:/usr/bin:/bin") or argv[0]
        env = dict(expect.environment(bindir, tmp), EXAMPLES=str(HERE.parent / "examples"), PYTHONPATH=str(HERE / "support"),
                   PYTHONDONTWRITEBYTECODE="1")
        if part:
            env.update(PART=str(part), PARTS=header(text, "parts")[0])
        status, *texts = expect.run(argv, work, env, timeout=timeout)
        if script.suffix == ".dlsh":
            texts = [t.replace(", cuda:0", "").replace("cuda:0", "cpu") for t in texts]
        return status, *texts


def check(script, bindir, update, device, timeout, part):
    if device != "cpu" and of_cpu(script):
        return None
    status, out, err = execute(script, bindir, device, timeout, part)
    if status == SKIPPED and script.suffix == ".sh":
        sys.stdout.write(out)
        return None
    bad = False
    for suffix, got, default in ((".status", f"{status}\n", "0\n"), (".out", out, ""), (".err", err, "")):
        path = script.with_suffix(suffix)
        want = path.read_text() if path.exists() else default
        text = expect.diff(want, got, WILD, script.stem + suffix)
        if not text:
            continue
        if update:
            got = expect.merge(want, got, WILD)
            path.write_text(got) if got != default else path.unlink(missing_ok=True)
            print(f"updated {path}")
            continue
        bad = True
        sys.stdout.write(text)
    if bad:
        print(f"to accept: tests/run_script.py --update {script.relative_to(HERE.parent)}")
    return not bad


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "build" / "bin", help="directory of dlsh")
    ap.add_argument("--update", action="store_true", help="rewrite the expected files that do not match")
    ap.add_argument("--timeout", type=float, default=280)
    ap.add_argument("--device", default="cpu", help="where tensors are made: cpu or cuda")
    ap.add_argument("--part", type=int, help="of a script with `# parts: N`, from 1 to N")
    ap.add_argument("--jobs", type=int, default=1, help="scripts that run at once")
    ap.add_argument("script", type=pathlib.Path, nargs="*", help="default: all of tests/scripts")
    a = ap.parse_args()
    scripts = a.script or sorted(p for p in (HERE / "scripts").iterdir() if p.suffix in (".dlsh", ".sh"))
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        results = list(pool.map(lambda s: check(s.resolve(), a.bin.resolve(), a.update, a.device, a.timeout, a.part), scripts))
    if len(results) > 1:
        print(f"{results.count(True)} of {len(results)} scripts as expected, {results.count(None)} skipped")
    sys.exit(1 if False in results else SKIPPED if results == [None] else 0)


if __name__ == "__main__":
    main()
