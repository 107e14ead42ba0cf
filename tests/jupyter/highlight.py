"""The Pygments lexer: every program of the repository is lexed without errors and without loss, some words as what they are,
and nbconvert colours a notebook with it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INSTALLED = tempfile.TemporaryDirectory()
subprocess.run([os.environ["DLSH"], "kernel", "install", "--prefix", INSTALLED.name], check=True, stdout=subprocess.DEVNULL)
KERNEL = pathlib.Path(INSTALLED.name) / "share/jupyter/kernels/dlsh"
PACKAGE = KERNEL / "pygments"
(EXTENSION,) = (KERNEL.parent.parent / "labextensions/dlsh").glob("*.js")
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
          ("# layers", "Comment.Single"), ("head:", "Name.Label"), ("linear", "Name.Function"), ("train", "Keyword.Pseudo"),
          ("best", "Name"), ("sum", "Name.Builtin"), ("step", "Name"), ("1e-3", "Literal.Number.Float"),
          ("extern", "Keyword"), ("double", "Keyword.Type"), ("C", "Keyword"), ("float", "Keyword.Type"),
          ("/* } */", "Comment.Multiline"), ("stat", "Keyword.Pseudo")]


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
    assert '<span class="k">net</span>' in done.stdout and '<span class="kp">train</span>' in done.stdout, "no colours"
    assert "data:image/svg+xml;base64," in done.stdout, "no plot"


MODE_TEST = """
class Stream {
    constructor(s) { this.string = s; this.pos = this.start = 0; }
    sol() { return this.pos === 0; }
    eol() { return this.pos >= this.string.length; }
    peek() { return this.string.charAt(this.pos) || undefined; }
    next() { return this.string.charAt(this.pos++); }
    current() { return this.string.slice(this.start, this.pos); }
    skipToEnd() { this.pos = this.string.length; }
    eatSpace() { const p = this.pos; while (/\\s/.test(this.peek() || "")) this.pos++; return this.pos > p; }
    match(what) {
        const rest = this.string.slice(this.pos);
        if (typeof what === "string") { if (!rest.startsWith(what)) return null; this.pos += what.length; return [what]; }
        const m = rest.match(what);
        if (!m || m.index > 0) return null;
        this.pos += m[0].length;
        return m;
    }
}
function read(mode) {
    const state = mode.startState(), out = [];
    for (const line of require("fs").readFileSync(0, "utf8").split("\\n")) {
        const s = new Stream(line), columns = mode.indent(state, line, {unit: 4});
        out.push(["at " + line.trim(), columns]);
        while (!s.eol()) {
            s.start = s.pos;
            const style = mode.token(s, state);
            if (s.pos === s.start) throw new Error("no progress in: " + line);
            out.push([s.current(), style]);
        }
    }
    console.log(JSON.stringify(out));
}
const [kernel, extension] = process.argv.slice(1);
if (extension === "-") {
    const CodeMirror = {defineMode: (n, f) => read(f({indentUnit: 4})), defineMIME: () => 0};
    globalThis.define = (names, make) => make(CodeMirror, {on: () => 0});
    require(kernel);
} else {
    globalThis.window = globalThis;
    require(extension);
    const scope = {"@jupyterlab/codemirror": {"4.9.9": {get: async () => { throw new Error("not the one that runs"); }},
                                              "4.0.0": {loaded: 1, get: async () => () => ({IEditorLanguageRegistry: "token"})}},
                   "@codemirror/language": {"6.0.0": {get: async () => () => ({StreamLanguage: {define: m => m}, LanguageSupport: class { constructor(l) { this.l = l; } }})}}};
    window._JUPYTERLAB.dlsh.init(scope);
    window._JUPYTERLAB.dlsh.get("./extension").then(factory => {
        const plugin = factory().default;
        if (plugin.requires[0] !== "token" || !plugin.autoStart) throw new Error("the plugin is not started");
        plugin.activate({}, {addLanguage: l => { if (l.mime !== "text/x-dlsh") throw new Error(l.mime); read(l.support.l); }});
    });
}
"""
MODE_WANTED = [("net", "keyword"), ("conv", "def"), ("k", "attribute"), ("relu", "def"), ("# layers", "comment"),
               ("linear", "def"), ("train", "builtin"), ("best", "variable"), ("sum", "builtin"),
               ("step", "variable"), ("1e-3", "number"), ('extern "libm.so.6"', "keyword"), ("double", "builtin"), ("hypot", "def"),
               ("C {", "keyword"), ("sq", "def"), ("return", "keyword"), ('"}"', "string"), ("x", "variable"), ("/*", "comment"),
               (" } */", "comment"), ("stat", "builtin"), ("at conv 16 k=3 -> relu   # layers", 4), ("at train t epochs=2", 0),
               ('at float sq(float x) { return "}"[0] * x; } /* } */', 4), ("at s = 'a \"b\"'; stat x", 0)]


def check_modes():
    """The CodeMirror modes of kernel.js and labextension.js, run by node where there is one."""
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        print("no node: the modes of notebooks were not run")
        return
    for extension in ("-", str(EXTENSION)):
        done = subprocess.run([node, "-e", MODE_TEST.replace("\\\\", "\\"), str(KERNEL / "kernel.js"), extension], input=SAMPLE,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        tokens = {(v, style) for v, style in json.loads(done.stdout)}
        missing = [w for w in MODE_WANTED if w not in tokens]
        assert not missing, f"{extension}: {missing} not among {sorted(map(str, tokens))}"


check_programs()
check_kinds()
check_modes()
check_nbconvert()
print("highlighting is right")
