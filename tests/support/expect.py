"""Comparing what a program printed with what was expected, with wildcards for what differs from run to run."""
import difflib
import os
import re
import subprocess


def _line_regex(line, wild):
    return ".*".join(re.escape(part) for part in line.split(wild))


def pattern(expected, wild):
    """The regular expression of an expected text. `wild` inside a line stands for any characters of that line, alone on a
    line for any number of lines."""
    out = []
    for line in expected.splitlines():
        out.append(r"(?:.*\n)*?" if line.strip() == wild else _line_regex(line, wild) + r"\n")
    return re.compile("".join(out))


def matches(expected, got, wild):
    if got and not got.endswith("\n"):
        got += "\n"
    return pattern(expected, wild).fullmatch(got) is not None


def _shown(want, have, wild):
    """The expected lines, those that match a printed one by wildcard replaced by it."""
    want = list(want)
    for i, line in enumerate(want):
        if wild in line and line.strip() != wild:
            want[i] = next((h for h in have if re.fullmatch(_line_regex(line, wild), h)), line)
    return want


def merge(expected, got, wild):
    """What was printed, with the expected line kept where its wildcards still fit.
    Where lines differ on both sides of a wildcard for many lines, that one goes."""
    want, have = expected.splitlines(), got.splitlines()
    out = []
    for op, a0, a1, b0, b1 in difflib.SequenceMatcher(None, _shown(want, have, wild), have, False).get_opcodes():
        fits = op == "equal" or pattern("\n".join(want[a0:a1]), wild).fullmatch("".join(h + "\n" for h in have[b0:b1]))
        out += want[a0:a1] if fits else have[b0:b1]
    return "".join(line + "\n" for line in out) if not got or got.endswith("\n") else got


def diff(expected, got, wild, name):
    """A readable difference, "" when the texts match."""
    if matches(expected, got, wild):
        return ""
    want, have = expected.splitlines(), got.splitlines()
    lines = difflib.unified_diff(_shown(want, have, wild), have, f"{name} expected", f"{name} printed", lineterm="")
    return "\n".join(lines) + "\n"


def environment(bindir, home):
    """The environment of a tested program: no settings of the person who runs the tests."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DLSH_", "XDG_"))}
    env.update(PATH=f"{bindir}:{env.get('PATH', '/usr/bin:/bin')}", HOME=home, LC_ALL="C.UTF-8", TERM="dumb", NO_COLOR="1")
    return env


def run(argv, cwd, env, text=None, timeout=280):
    """(status, stdout, stderr); a signal is -N as in subprocess, a timeout is an error text in stderr."""
    try:
        p = subprocess.run(argv, cwd=cwd, env=env, input=text or "", capture_output=True, timeout=timeout, text=True,
                           errors="backslashreplace")
    except subprocess.TimeoutExpired as e:
        out = (e.stdout or b"").decode(errors="backslashreplace")
        return "timeout", out, f"no end after {timeout} s\n"
    return p.returncode, p.stdout, p.stderr
