"""The Pygments lexer: every program of the repository is lexed without errors and without loss, some words as what they are,
and nbconvert colours a notebook with it."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "notebooks/highlight"
sys.path.insert(0, str(PACKAGE))
sys.dont_write_bytecode = True
try:
    from pygments.lexers import get_lexer_by_name
    from pygments.token import Error, Token
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-pygments)")
    sys.exit(77)

LEXER = get_lexer_by_name("dlsh", stripnl=False, ensurenl=False)
SAMPLE = '''net m {
    conv 16 k=3 -> relu   # layers
    head: linear 10
}
train t epochs=2
best = 0
x = sum(step) + 1e-3
extern "libm.so.6" double hypot(double x, double y);
C {
    float sq(float x) { return "}"[0] * x; } /* } */
}
s = 'a "b"'; stat x
'''
WANTED = [("net", "Keyword"), ("conv", "Name.Function"), ("k", "Name.Attribute"), ("relu", "Name.Function"),
          ("# layers", "Comment.Single"), ("head:", "Name.Label"), ("linear", "Name.Function"), ("train", "Name.Builtin"),
          ("best", "Name"), ("sum", "Name.Builtin"), ("step", "Name"), ("1e-3", "Literal.Number.Float"),
          ("extern", "Keyword"), ("double", "Keyword.Type"), ("C", "Keyword"), ("float", "Keyword.Type"),
          ("/* } */", "Comment.Multiline"), ("stat", "Name.Builtin")]


def programs():
    """Names and texts: scripts, blocks of the manual, cells of notebooks."""
    for f in sorted(ROOT.glob("examples/*.dlsh")) + sorted(ROOT.glob("tests/scripts/*.dlsh")):
        yield f.name, f.read_text()
    for f in sorted(ROOT.glob("docs/*.md")):
        for i, block in enumerate(re.findall(r"^```dlsh[^\n]*\n(.*?)^```", f.read_text(), re.M | re.S), 1):
            yield f"{f.name}, block {i}", block
    for f in sorted(ROOT.glob("notebooks/*.ipynb")):
        notebook = json.loads(f.read_text())
        if notebook["metadata"]["kernelspec"]["name"] == "dlsh":
            for i, cell in enumerate(notebook["cells"], 1):
                if cell["cell_type"] == "code":
                    yield f"{f.name}, cell {i}", "".join(cell["source"])


def check_programs():
    count = 0
    for name, text in programs():
        tokens = list(LEXER.get_tokens(text))
        assert "".join(v for _, v in tokens) == text, f"{name}: text was lost"
        wrong = [v for t, v in tokens if t in Error]
        # scripts that test errors of the language are lexed, too
        assert not wrong or "err" in name or "lang" in name, f"{name}: {wrong}"
        count += 1
    print(f"{count} programs lexed")


def check_kinds():
    tokens = {(v, str(t).removeprefix("Token.")) for t, v in LEXER.get_tokens(SAMPLE)}
    missing = [w for w in WANTED if w not in tokens]
    assert not missing, f"{missing} not among {sorted(tokens)}"


def check_nbconvert():
    notebook = next(ROOT.glob("notebooks/first-hour.ipynb"))
    with tempfile.TemporaryDirectory() as home:
        env = dict(os.environ, PYTHONPATH=str(PACKAGE), HOME=home, JUPYTER_CONFIG_DIR=home, PYTHONDONTWRITEBYTECODE="1")
        argv = [sys.executable, "-m", "nbconvert", "--to", "html", "--stdout", str(notebook)]
        done = subprocess.run(argv, env=env, capture_output=True, text=True)
    if "No module named" in done.stderr:
        print("nbconvert is not installed")
        return
    assert done.returncode == 0, done.stderr
    assert '<span class="k">net</span>' in done.stdout and '<span class="nb">train</span>' in done.stdout, "no colours"
    assert "data:image/svg+xml;base64," in done.stdout, "no plot"


check_programs()
check_kinds()
check_nbconvert()
print("highlighting is right")
