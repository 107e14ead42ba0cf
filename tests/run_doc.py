#!/usr/bin/env python3
"""Runs the fenced code blocks of Markdown files, so that the documentation cannot drift from the program.

All blocks of a file run in order in one fresh directory.
  ```dlsh        a script of its own; must succeed
  ```dlsh more   goes on in the same session as the dlsh block before it
  ```dlsh error  must fail (exit status 1)
  ```sh          run by sh with dlsh on the PATH; must succeed. `sh norun` is not run (installing, building)
  ```output      what the block before it prints (with the error text, for `error`); `...` stands for anything in a line and,
                 alone on a line, for any lines
Other kinds (```text, ```c) are not run; nor is a block in a file below an HTML comment <!-- norun --> on the line before it.
A file given as CMakeLists.txt, main.c and so on in a comment <!-- file: NAME --> on the line before it is written there.
"""
import argparse
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "support"))
import expect  # noqa: E402

WILD = "..."
MARK = "=== block "


class Block:
    def __init__(self, line, kind, directive, text):
        self.line, self.kind, self.directive, self.text, self.output = line, kind, directive, text, None


def blocks(text):
    """The fenced blocks of a Markdown text, each with the expected output that follows it."""
    found, lines, i = [], text.splitlines(), 0
    while i < len(lines):
        if not lines[i].startswith("```"):
            i += 1
            continue
        start, info = i, lines[i].strip("`").split()
        directive = lines[i - 1].strip() if i and lines[i - 1].strip().startswith("<!--") else ""
        i += 1
        while i < len(lines) and not lines[i].startswith("```"):
            i += 1
        body = "".join(line + "\n" for line in lines[start + 1 : i])
        i += 1
        if info[:1] == ["output"]:
            if found:
                found[-1].output = body
        else:
            found.append(Block(start + 1, " ".join(info), directive, body))
    return found


def sessions(found):
    """Groups: a block with the `more` blocks that follow it."""
    out = []
    for b in found:
        if b.kind == "dlsh more" and out and out[-1][0].kind.startswith("dlsh"):
            out[-1].append(b)
        else:
            out.append([b])
    return out


def run_dlsh(group, work, env):
    """Runs a session; yields (block, status, output). Marker lines divide the output of one process among its blocks."""
    script = pathlib.Path(work, "doc.dlsh")
    script.write_text("".join(f'print("{MARK}{i}")\n' * (i > 0) + b.text for i, b in enumerate(group)))
    status, out, err = expect.run(["dlsh", "-n", "-q", "doc.dlsh"], work, env, timeout=500)
    script.unlink()
    for i, b in enumerate(group):
        part, marker, out = out.partition(f"{MARK}{i + 1}\n")
        last = not marker
        yield b, status if last else 0, part + (err if last else "")
        if last:
            break


def run_sh(group, work, env):
    b = group[0]
    status, out, err = expect.run(["sh", "-e", "-c", b.text], work, env, timeout=500)
    yield b, status, out + err


RUNNERS = {"dlsh": run_dlsh, "dlsh error": run_dlsh, "sh": run_sh}


def check(path, bindir):
    bad = ran = 0
    with tempfile.TemporaryDirectory(prefix="dlsh-doc-") as tmp:
        env = expect.environment(bindir, tmp)
        os.environ["PATH"] = env["PATH"]
        for group in sessions(blocks(path.read_text())):
            first = group[0]
            if first.directive.startswith("<!-- file:"):
                target = pathlib.Path(tmp, first.directive.split()[2])
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(first.text)
                continue
            runner = RUNNERS.get(first.kind)
            if not runner or "norun" in first.directive:
                continue
            for b, status, got in runner(group, tmp, env):
                ran += 1
                want = 1 if b.kind == "dlsh error" else 0
                if status != want:
                    bad += 1
                    print(f"{path}:{b.line}: exit status {status}, expected {want}; printed:\n{got}")
                elif b.output is not None:
                    text = expect.diff(b.output, got, WILD, f"{path.name}:{b.line}")
                    bad += bool(text)
                    sys.stdout.write(text)
    print(f"{path.name}: {ran} blocks run, {bad} wrong")
    return bad == 0


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--bin", type=pathlib.Path, default=HERE.parent / "build" / "bin", help="directory of dlsh")
    ap.add_argument("file", type=pathlib.Path, nargs="+")
    a = ap.parse_args()
    sys.exit(0 if all([check(f.resolve(), a.bin.resolve()) for f in a.file]) else 1)


if __name__ == "__main__":
    main()
