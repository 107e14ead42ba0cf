"""Executes the notebooks of notebooks/ and compares the kinds of their outputs with the committed ones.

notebooks.py [--write] [NOTEBOOK ...]

Each runs in an empty folder, through nbclient as `jupyter nbconvert --execute` does, with the dlsh of the build (DLSH) or, for
notebooks in Python, its libdlcore. Numbers and times may differ from machine to machine; the number of outputs of each cell,
their types and forms and the number of rows of tables may not. Then all run in one folder, twice, in an order drawn by chance:
what others have left there changes nothing of that. Every picture has a text that stands for it. --write keeps the new outputs,
after looking that nothing of this machine is in them.
"""
import argparse
import importlib.util
import os
import pathlib
import random
import re
import socket
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "support"))
import kernel

try:
    import nbclient
    import nbformat
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-nbclient, python3-nbformat)")
    sys.exit(77)

os.environ["DLCORE_USAGE_S"] = "0"  # how much a run used is recorded every few seconds: rows that depend on the machine's speed
FOLDER = kernel.ROOT / "notebooks"
KEPT = ("kernelspec", "language_info")
VALUE = "application/vnd.dlsh.value+json"


def kinds(cell):
    """What a cell has put out, without its contents: streams follow each other as one."""
    found = []
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        value = data.get(VALUE)
        rows = len(value["rows"]) if isinstance(value, dict) and "rows" in value else None
        kind = (output.output_type, output.get("name") or tuple(sorted(data)), rows)
        if not found or kind[0] != "stream" or found[-1] != kind:
            found.append(kind)
    return found


def execute(notebook, folder):
    """Runs all cells; an error in a cell that is not tagged raises-exception ends it."""
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name=notebook.metadata.kernelspec.name,
                                     resources={"metadata": {"path": str(folder)}})
    client.execute()


def join_streams(cell):
    """Pieces of one stream that came one after the other, as the pages of clients show them."""
    joined = []
    for output in cell.get("outputs", []):
        if joined and output.output_type == "stream" == joined[-1].output_type and output.name == joined[-1].name:
            joined[-1].text += output.text
        else:
            joined.append(output)
    if "outputs" in cell:
        cell.outputs = joined


def tidy(notebook):
    """Drops what changes with every execution and has no reader."""
    for key in set(notebook.metadata) - set(KEPT):
        del notebook.metadata[key]
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        join_streams(cell)


def traces(notebook, folder):
    """Words of this machine in the outputs."""
    text = nbformat.writes(notebook)
    words = {socket.gethostname(), str(folder), str(kernel.HOME), str(kernel.ROOT)}
    return sorted(w for w in words if len(w) > 3 and w in text)


def missing(notebook):
    """What a notebook needs and this machine has not."""
    if notebook.metadata.kernelspec.name == "dlsh":
        return None
    for module in ("ipykernel", "numpy"):
        if not importlib.util.find_spec(module):
            return f"{module} (Debian: python3-{module})"
    return None


def unnamed(notebook):
    """Pictures for which nothing stands where they cannot be seen."""
    found = []
    for i, cell in enumerate(notebook.cells, 1):
        for output in cell.get("outputs", []):
            data, about = output.get("data", {}), output.get("metadata", {})
            bare = [tag for tag in re.findall(r"<img\b[^>]*>", data.get("text/html", "")) if not re.search(r'\balt="[^"]', tag)]
            if bare or ("image/png" in data and not about.get("image/png", {}).get("alt")) or (
                    "image/svg+xml" in data and "aria-label=" not in data["image/svg+xml"]):
                found.append(f"cell {i}: a picture has no alternative text")
    return found


def check(path, write, folder):
    """The differences found, as text."""
    committed = nbformat.read(path, as_version=4)
    fresh = nbformat.read(path, as_version=4)
    try:
        execute(fresh, folder)
    except nbclient.exceptions.CellExecutionError as e:
        return [str(e)]
    tidy(fresh)
    if write:
        found = traces(fresh, folder)
        if not found:
            nbformat.write(fresh, path)
        return [f"the outputs tell of this machine: {word}" for word in found]
    pairs = zip(committed.cells, fresh.cells)
    return unnamed(fresh) + [f"cell {i}: {kinds(old)} is committed, {kinds(new)} came out"
                             for i, (old, new) in enumerate(pairs, 1) if kinds(old) != kinds(new)]


def rounds(files, write):
    """(name, notebook, folder): each in a folder of its own, then all in one, twice."""
    for path in files:
        with tempfile.TemporaryDirectory(prefix="dlsh-notebook-") as folder:
            yield path.name, path, folder
    if write:
        return
    with tempfile.TemporaryDirectory(prefix="dlsh-notebooks-") as folder:
        for time in ("first", "second"):
            for path in random.sample(files, len(files)):
                yield f"{path.name}, the {time} time in one folder", path, folder


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--write", action="store_true", help="keep the new outputs")
    ap.add_argument("notebooks", nargs="*", help="names of files in notebooks/; all when none is named")
    a = ap.parse_args()
    kernel.install()
    os.environ.pop("DLSH_DB")
    os.environ["DLCORE"] = str(pathlib.Path(kernel.DLSH).parent.parent / "lib/libdlcore.so")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    files = [FOLDER / pathlib.Path(n).name for n in a.notebooks] or sorted(FOLDER.glob("*.ipynb"))
    bad = 0
    for name, path, folder in rounds(files, a.write):
        lacking = missing(nbformat.read(path, as_version=4))
        if lacking:
            print(f"{name}: skipped: no {lacking}")
            continue
        problems = check(path, a.write, folder)
        bad += bool(problems)
        print(f"{name}: {'; '.join(problems) or ('written' if a.write else 'as committed')}", flush=True)
    sys.exit(1 if bad or not files else 0)


if __name__ == "__main__":
    main()
