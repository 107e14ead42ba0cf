#!/usr/bin/python3
"""The experiment store read by DuckDB: rows of the views are counted and summed.

    tests/peers/store_duckdb.py LIBDLCORE

DuckDB and its SQLite reader come from PyPI (duckdb, duckdb-extension-sqlite-scanner); DLSH_DUCKDB names the python that has
them. Exit 77 (skipped) without them."""
import os
import pathlib
import subprocess
import sys
import tempfile

PYTHON = os.environ.get("DLSH_DUCKDB", "")
ASK = """
import glob, os, sys
import duckdb, duckdb_extension_sqlite_scanner as reader
found = glob.glob(os.path.dirname(reader.__file__) + "/extensions/*/sqlite_scanner.duckdb_extension")
db = duckdb.connect(config={"autoinstall_known_extensions": "false"})
db.execute(f"load '{found[0]}'")
db.execute(f"attach '{sys.argv[1]}' as d (type sqlite)")
for view, want in [("metrics", 20), ("points", 20), ("params", 2), ("tags", 1), ("artifacts", 2), ("run", 2), ("series", 2)]:
    got = db.execute(f"select count(*) from d.{view}").fetchone()[0]
    assert got == want, f"count(*) of {view} is {got}, not {want}"
assert db.execute("select sum(value) from d.points").fetchone()[0] == 90
assert db.execute("select run, max(value) from d.metrics group by run order by run").fetchall() == [(1, 9.0), (2, 9.0)]
"""
SCRIPT = """
for i in range(2) { r = start_run("a", lr=0.1); for k in range(10) { r.log(loss=1.0 * k, step=k) }; r.end() }
tag last good
"""


def main():
    if not PYTHON or subprocess.run([PYTHON, "-c", "import duckdb, duckdb_extension_sqlite_scanner"],
                                    capture_output=True).returncode:
        print("skipped: DLSH_DUCKDB names no python with duckdb and duckdb-extension-sqlite-scanner")
        return 77
    dlsh = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    with tempfile.TemporaryDirectory() as folder:
        db = f"{folder}/x.db"
        # outside the work tree, whose changes would be artifacts of the runs
        subprocess.run([dlsh, "-n", "--db", db, "-c", SCRIPT], check=True, cwd=folder)
        subprocess.run([PYTHON, "-c", ASK, db], check=True)
    print("DuckDB counts and sums what the store has")
    return 0


sys.exit(main())
