#!/usr/bin/python3
"""Workers of a sweep under GNU parallel and as an array of Slurm, each being the program itself.

    tests/peers/store_launchers.py LIBDLCORE

Slurm is one node that the test starts, in a folder of its own, with its own munge. Debian has them: parallel, slurm-wlm. Exit 77
(skipped) when both are missing; what is missing is named."""
import contextlib
import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

TRIALS = 12
SWEEP = """sweep lr=logspace(1e-3, 1e-1, 3) width=[8, 16] seeds=2 metric=min(val/loss) jobs=0 name="all" {
    r = start_run("trial")
    for i in range(20) { r.log("val/loss", abs(log(lr / 0.01)) + width / 100 + seed / 1000 + 1 / (i + 1)) }
}"""


def query(dlsh, folder, sql):
    done = subprocess.run([dlsh, "-n", "--mode", "csv", "--db", "runs.db", "-c", f'sql "{sql}"'], cwd=folder, check=True, text=True, capture_output=True)
    return done.stdout.splitlines()[1:]


def begin(dlsh, folder):
    subprocess.run([dlsh, "-n", "--db", "runs.db", "-c", SWEEP], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def check(dlsh, folder, what):
    """Each trial ran once, in a run of its own, with all of its points."""
    got = query(dlsh, folder, "select count(*), count(distinct run_id), sum(status = 'finished'), sum(attempts) from trial")
    assert got == [f"{TRIALS},{TRIALS},{TRIALS},{TRIALS}"], f"{what}: {got}"
    got = query(dlsh, folder, "select count(*), sum(n) from run join series on run_id = run.id where key = 'val/loss' and status = 'finished'")
    assert got == [f"{TRIALS},{20 * TRIALS}"], f"{what}: {got}"


def parallel(dlsh, folder):
    begin(dlsh, folder)
    subprocess.run(["parallel", "-N0", dlsh, "--db", "runs.db", "sweep", "worker", "1", ":::", "1", "2", "3"], cwd=folder, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check(dlsh, folder, "GNU parallel")


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


CONF = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@contextlib.contextmanager
def cluster(folder):
    """Slurm's and munge's daemons, and the environment that its commands need."""
    host = socket.gethostname().split(".")[0]
    env = dict(os.environ, SLURM_CONF=f"{folder}/slurm.conf")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONF.format(host=host, user=getpass.getuser(), folder=folder, ports=free_ports(2), cpus=os.cpu_count()))
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o600)
    daemons = []

    def start(*words):
        daemons.append(subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=open(folder / "errors", "a")))
    try:
        start("munged", "--foreground", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/key", f"--pid-file={folder}/munged.pid",
              f"--seed-file={folder}/munged.seed", f"--log-file={folder}/munged.log")
        until = time.time() + 10
        while not (folder / "munge.socket").exists() and time.time() < until:
            time.sleep(0.05)
        start("slurmctld", "-D", "-i")
        start("slurmd", "-D", "-N", host)
        state = ""
        until = time.time() + 20
        while state != "idle" and time.time() < until:
            state = subprocess.run(["sinfo", "-h", "-o", "%t"], env=env, text=True, capture_output=True).stdout.strip()
            time.sleep(0.1)
        if state != "idle":
            tails = "\n".join(f"{p.name}: {p.read_text()[-600:]}" for p in [*folder.glob("*.log"), folder / "errors"])
            raise RuntimeError(f"the node is {state or 'not there'}\n{tails}")
        yield env
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(10)


def slurm(dlsh, folder):
    begin(dlsh, folder)
    place = folder / "slurm"
    place.mkdir()
    with cluster(place) as env:
        subprocess.run(["sbatch", "-Q", "--array=1-3", "-o", "out-%a", "--wrap", f"'{dlsh}' --db runs.db sweep worker 1"], cwd=folder, env=env,
                       check=True)
        until = time.time() + 120
        while subprocess.run(["squeue", "-h"], env=env, check=True, text=True, capture_output=True).stdout and time.time() < until:
            time.sleep(0.2)
    out = "".join((folder / f"out-{i}").read_text() for i in (1, 2, 3))
    assert out.count("finished") == TRIALS, out
    check(dlsh, folder, "Slurm")


def main():
    dlsh = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    done = []
    for name, body, programs in (("GNU parallel", parallel, ("parallel",)), ("Slurm", slurm, ("slurmctld", "slurmd", "sbatch", "munged"))):
        missing = [p for p in programs if not shutil.which(p)]
        if missing:
            print(f"{name} is skipped: there is no {missing[0]}")
            continue
        begun = time.time()
        with tempfile.TemporaryDirectory() as folder:
            body(dlsh, pathlib.Path(folder))
        done.append(f"{name} {time.time() - begun:.1f} s")
    print("a sweep's trials ran once each:", ", ".join(done) or "nowhere")
    return 0 if done else 77


sys.exit(main())
