#!/usr/bin/python3
"""Runs go to MLflow, TensorBoard, pandas and Datasette and come back, and come from W&B, each being the program itself.

    tests/peers/store_trackers.py LIBDLCORE

They come from PyPI (mlflow-skinny, sqlalchemy, alembic, tensorboard, pandas, datasette); DLSH_TRACKERS names the python that has
them. Exit 77 (skipped) without them, but for wandb, of which only its part is skipped."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PYTHON = os.environ.get("DLSH_TRACKERS", "")
NEEDED = "import mlflow, sqlalchemy, alembic, tensorboard, pandas, datasette"

SCRIPT = """
r = start_run("a/b run", lr=0.1, opt="sgd", note="a note")
for s in range(300) { r.log("train/loss", exp(-s / 100.0), step=s) }
r.log("odd", nan, step=1); r.log("odd", inf, step=5); r.end()
q = start_run("second", parent=r, width=3, experiment="e"); q.log("val/acc", 0.5, step=7); q.end()
tag second good "team=red"
export mlflow.db; export logs/; export points.csv; export points.jsonl; export runs.csv rows=runs; export runs.jsonl rows=runs
"""

# MLflow opens what was exported, brings it up to date by itself, and adds a run of its own.
MLFLOW = """
import logging, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.INFO)
from mlflow.tracking import MlflowClient
c = MlflowClient("sqlite:///mlflow.db")
experiments = {e.name: e.experiment_id for e in c.search_experiments()}
assert sorted(experiments) == ["Default", "e"], experiments
first, = c.search_runs([experiments["Default"]])
second, = c.search_runs([experiments["e"]])
assert first.info.run_name == "a/b run" and first.info.status == "FINISHED" and first.data.params == {"lr": "0.1", "opt": "sgd"}
assert first.data.tags["mlflow.note.content"] == "a note"
loss = c.get_metric_history(first.info.run_id, "train/loss")
assert sorted(m.step for m in loss) == list(range(300)) and first.data.metrics["train/loss"] == min(m.value for m in loss)
assert {m.step: m.value for m in c.get_metric_history(first.info.run_id, "odd")}[5] > 1e308
assert second.data.tags["mlflow.parentRunId"] == first.info.run_id and second.data.tags["team"] == "red" and second.data.tags["good"] == ""
found = c.search_runs(list(experiments.values()), filter_string="metrics.`val/acc` > 0.4 and tags.team = 'red'")
assert [r.info.run_id for r in found] == [second.info.run_id]
made = c.create_run(c.create_experiment("theirs"), run_name="mine", tags={"flag": ""})
for s in range(5): c.log_metric(made.info.run_id, "val/loss", 1 / (s + 1), step=s)
c.log_metric(made.info.run_id, "val/loss", 0.75, step=2, timestamp=2000000000000)
c.log_metric(made.info.run_id, "n", float("nan"), step=2)
c.log_param(made.info.run_id, "lr", 0.5)
c.set_terminated(made.info.run_id, "FAILED")
print(made.info.run_id)
"""

# TensorBoard reads what was exported, and writes what it offers for download.
TENSORBOARD = """
import json
from tensorboard.context import RequestContext
from tensorboard.backend.event_processing import plugin_event_multiplexer as pem, data_provider
from tensorboard.plugins import base_plugin
from tensorboard.plugins.scalar import scalars_plugin
m = pem.EventMultiplexer(tensor_size_guidance={"scalars": 0})
m.AddRunsFromDirectory("logs"); m.Reload()
runs = m.Runs()
assert sorted(runs) == ["1-a_b run", "2-second"], runs
assert [e.step for e in m.Tensors("1-a_b run", "train/loss")] == list(range(300))
provider = data_provider.MultiplexerDataProvider(m, "logs")
plugin = scalars_plugin.ScalarsPlugin(base_plugin.TBContext(data_provider=provider))
for kind in ("csv", "json"):
    body, mime = plugin.scalars_impl(RequestContext(), "train/loss", "1-a_b run", "", kind)
    open("run-mine-tag-train_loss." + kind, "w").write(body if kind == "csv" else json.dumps(body))
"""

FOLLOW = """
import os, sys, time
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
a = EventAccumulator(sys.argv[1], {"scalars": 0})
for line in sys.stdin:
    want, until = eval(line), time.time() + 10
    while True:
        a.Reload()
        got = [s.step for s in a.Scalars("train/loss")] if "train/loss" in a.Tags()["scalars"] else []
        if got == want or time.time() > until: break
        time.sleep(0.02)
    print(got == want or got, flush=True)
"""

PANDAS = """
import sqlite3, pandas
points, lines = pandas.read_csv("points.csv"), pandas.read_json("points.jsonl", lines=True)
assert len(points) == len(lines) == 303 and list(points.columns) == list(lines.columns)
assert abs(points[points.key == "train/loss"].value.sum() - lines[lines.key == "train/loss"].value.astype(float).sum()) < 1e-9
assert pandas.to_datetime(points.ts).dt.tz is not None
runs, objects = pandas.read_csv("runs.csv"), pandas.read_json("runs.jsonl", lines=True)
assert list(runs["params.width"].fillna(0)) == [0, 3] and objects.params[0] == {"lr": 0.1, "opt": "sgd"}
assert objects.tags[1] == ["good", "team=red"]
db = sqlite3.connect("file:a.db?mode=ro", uri=True)
for name, want in (("metrics", 304), ("points", 304), ("params", 3), ("tags", 2), ("run", 3), ("series", 4)):
    assert len(pandas.read_sql(f"select * from {name}", db)) == want, name
"""


def python(text, *args, **more):
    return subprocess.run([PYTHON, "-W", "ignore", "-c", text, *args], check=True, text=True, **more)


LIVE = """
extern "libc.so.6" int access(const char *path, int mode);
extern "libc.so.6" int usleep(unsigned int us);
r = start_run("x", tensorboard="live"); for s in range(5) { r.log(loss=s, step=s) }
for i in range(2000) { if access("more", 0) == 0 { break }; usleep(10000); }
for s in range(5, 9) { r.log(loss=s, step=s) }
for i in range(2000) { if access("end", 0) == 0 { break }; usleep(10000); }
"""


def follow(dlsh, folder):
    """TensorBoard sees points while the run lasts."""
    pathlib.Path(folder, "live.dlsh").write_text(LIVE)
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1, "cwd": folder}
    with subprocess.Popen([dlsh, "-n", "--db", "live.db", "live.dlsh"], cwd=folder) as run, \
            subprocess.Popen([PYTHON, "-W", "ignore", "-c", FOLLOW, "live/1-x"], stderr=subprocess.DEVNULL, **pipe) as board:
        for steps, then in ((5, "more"), (9, "end")):
            print(list(range(steps)), file=board.stdin, flush=True)
            got = board.stdout.readline().strip()
            pathlib.Path(folder, then).touch()
            assert got == "True", f"TensorBoard sees steps {got}, not the first {steps}"
            assert then != "more" or run.poll() is None
        board.stdin.close()


TRAINING = """
extern "libc.so.6" int access(const char *path, int mode);
extern "libc.so.6" int usleep(unsigned int us);
seed 1
d = dataset("digits", n=200, test=50)
net m { flatten -> linear 10 }
t = trainer(m, d, opt=sgd(lr=0.01), batch=50, name="trained", tensorboard="logs-live")
for i in range(100000) { step t 20; usleep(20000); if access("served", 0) == 0 { break } }
"""


def serve(dlsh, folder):
    """TensorBoard's server answers for a training under way, more each time it is asked."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    pathlib.Path(folder, "training.dlsh").write_text(TRAINING)
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    board = subprocess.Popen([PYTHON, "-W", "ignore", "-m", "tensorboard.main", "--logdir", "logs-live", "--host", "127.0.0.1", "--port",
                              str(port), "--load_fast", "false", "--reload_interval", "1"], **quiet)
    run = subprocess.Popen([dlsh, "-n", "--db", "training.db", "training.dlsh"], **quiet)
    try:
        last, grew, until = 0, 0, time.time() + 60
        while grew < 3 and time.time() < until:
            assert run.poll() is None and board.poll() is None
            time.sleep(0.2)
            try:
                where = f"http://127.0.0.1:{port}/data/plugin/scalars/scalars?run=1-trained&tag=train%2Floss"
                points = json.load(urllib.request.urlopen(where, timeout=10))
            except (OSError, ValueError):
                continue  # it has not begun, or has not seen the run
            steps = [step for _, step, _ in points]
            assert steps == sorted(set(steps)) and all(0 < value < 100 for _, _, value in points), points[-3:]
            if steps and steps[-1] > last:
                last, grew = steps[-1], grew + 1
        assert grew == 3, f"TensorBoard's server showed the training {grew} times"
        pathlib.Path(folder, "served").touch()
        assert run.wait(30) == 0
    finally:
        run.kill()
        board.terminate()
        board.wait(10)


WANDB = """
import wandb
with wandb.init(project="p", name="offline", mode="offline", config={"lr": 0.5, "deep": {"width": 8}}, tags=["red"], notes="a note",
                settings=wandb.Settings(silent=True)) as run:
    for i in range(300): run.log({"train/loss": 1 / (i + 1), "odd": float("nan") if i % 2 else float("inf")})
    run.log({"val/acc": 0.75}, step=400)
    run.summary["best"] = 3
"""


def wandb(folder, shell):
    """A run that W&B's program logged without a network comes in whole, and once."""
    if subprocess.run([PYTHON, "-W", "ignore", "-c", "import wandb"], capture_output=True).returncode:
        return "W&B is skipped: there is no wandb"
    python(WANDB, cwd=folder, env=dict(os.environ, WANDB_DIR=str(folder), WANDB_MODE="offline", HOME=str(folder)), stdout=subprocess.DEVNULL,
           stderr=subprocess.DEVNULL)
    got = shell("w.db", 'import("wandb")\nimport("wandb")')
    assert got == "{runs: 1, updated: 0, known: 0, points: 602}\n{runs: 0, updated: 0, known: 1, points: 0}\n", got
    got = shell("w.db", "runs cols=experiment,status,lr,deep.width,tag,n(train/loss),last(val/acc),last(best),min(train/loss)")
    assert got.split("\n")[2].split()[1:] == ["offline", "p", "finished", "0.5", "8", "red", "300", "0.75", "3", "0.0033333"], got
    return "W&B's run came in"


def main():
    if not PYTHON or subprocess.run([PYTHON, "-W", "ignore", "-c", NEEDED], capture_output=True).returncode:
        print("skipped: DLSH_TRACKERS names no python with mlflow-skinny, sqlalchemy, alembic, tensorboard, pandas and datasette")
        return 77
    dlsh = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    with tempfile.TemporaryDirectory() as folder:
        def shell(db, text):
            return subprocess.run([dlsh, "-n", "--db", db, "-c", text], cwd=folder, check=True, text=True, capture_output=True).stdout
        marks = [time.time()]
        shell("a.db", SCRIPT)
        theirs = python(MLFLOW, cwd=folder, capture_output=True).stdout.strip()
        marks.append(time.time())
        # both runs come back as they were, and theirs once
        got = shell("b.db", 'import("mlflow.db")\nimport("mlflow.db")')
        assert got == "{runs: 3, updated: 0, known: 0, points: 309}\n{runs: 0, updated: 0, known: 3, points: 0}\n", got
        got = shell("b.db", "sql \"select uuid, status, experiment, (select value from metrics where run = run.id and key = 'val/loss' and step = 2)"
                            " as v, (select value from param where run_id = run.id and key = 'lr') as lr from run where name = 'mine'\" ")
        uuid = "-".join((theirs[:8], theirs[8:12], theirs[12:16], theirs[16:20], theirs[20:]))
        assert all(word in got for word in (uuid, "failed", "theirs", "0.75", "0.5")), got
        # a store that MLflow has is added to, and what is its own stays
        shell("a.db", 'r = start_run("third"); r.log(x=1); r.end(); export mlflow.db')
        assert shell("b.db", 'import("mlflow.db")') == "{runs: 1, updated: 0, known: 3, points: 1}\n"
        python(TENSORBOARD, cwd=folder, stderr=subprocess.DEVNULL)
        got = shell("c.db", 'import("run-mine-tag-train_loss.csv", "run-mine-tag-train_loss.json")')
        assert got == "{runs: 1, updated: 0, known: 1, points: 300}\n", got
        marks.append(time.time())
        follow(dlsh, folder)
        serve(dlsh, folder)
        marks.append(time.time())
        said = wandb(folder, shell)
        marks.append(time.time())
        python(PANDAS, cwd=folder)
        got = subprocess.run([PYTHON, "-W", "ignore", "-m", "datasette", "a.db", "--get", "/a.json?sql=select+count(*)+as+n+from+metrics&_shape=array"],
                             cwd=folder, check=True, text=True, capture_output=True).stdout
        assert got.strip() == '[{"n": 304}]', got
        marks.append(time.time())
    print(said)
    print("MLflow, TensorBoard, pandas and Datasette have what the store has; seconds:", *(f"{b - a:.1f}" for a, b in zip(marks, marks[1:])))
    return 0


sys.exit(main())
