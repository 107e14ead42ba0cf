#!/usr/bin/python3
"""A store on a PostgreSQL server: recorded, read by two users, with the server stopped and started in mid-run.

    tests/peers/store_postgres.py LIBDLCORE

The server is started here, as a user without rights, in a temporary folder with a Unix socket. Exit 77 (skipped) where
there is no PostgreSQL."""
import glob
import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 60  # seconds to wait for anything


def programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    path = found[-1] if found else shutil.which("initdb")
    return pathlib.Path(path).resolve().parent if path else None


class Server:
    def __init__(self, bin_, folder):
        self.bin, self.folder, self.data = bin_, folder, folder / "data"
        self.drop, self.user = [], "dl"
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root
            names = {p.pw_name for p in pwd.getpwall()}
            who = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            self.drop = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--clear-groups"]
            os.chown(folder, who.pw_uid, who.pw_gid)
        self.call("initdb", "-D", self.data, "-U", self.user, "-A", "trust", "--no-sync", "-E", "UTF8", "--no-locale")
        with open(self.data / "postgresql.conf", "a") as f:
            f.write(f"listen_addresses = ''\nunix_socket_directories = '{folder}'\nfsync = off\nlog_line_prefix = '%t '\n")
        hba = (self.data / "pg_hba.conf").read_text()
        (self.data / "pg_hba.conf").write_text("local all careful scram-sha-256\n" + hba)

    def call(self, program, *args, check=True):
        r = subprocess.run([*self.drop, self.bin / program, *map(str, args)], cwd=self.folder, timeout=LIMIT,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if check and r.returncode:
            raise AssertionError(f"{program} failed: {r.stdout}")
        return r.returncode

    def start(self):
        self.call("pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-s", "start")

    def stop(self, how="immediate"):
        self.call("pg_ctl", "-D", self.data, "-m", how, "-w", "-s", "stop", check=False)

    def address(self, user="dl", database="runs", password=""):
        return f"postgresql://{user}{password and ':' + password}@/{database}?host={self.folder}"

    def sql(self, text, database="runs"):
        r = subprocess.run([self.bin / "psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.folder, "-U",
                            self.user, "-d", database, "-c", text], capture_output=True, text=True, timeout=LIMIT)
        assert not r.returncode, r.stderr
        return r.stdout.strip()


class User:
    """One with a home of their own, and so with a mirror of their own."""
    def __init__(self, dlsh, folder, name, address):
        self.dlsh, self.home, self.address = dlsh, folder / name, address
        self.home.mkdir()
        self.env = dict(os.environ, HOME=str(self.home), XDG_STATE_HOME=str(self.home / "state"), DLSH_DB=address,
                        DLCORE_USAGE_S="0")
        for name in ("PGPASSWORD", "PGHOST", "PGUSER", "PGDATABASE", "PGPORT"):
            self.env.pop(name, None)

    def run(self, code, fails=False, **env):
        r = subprocess.run([self.dlsh, "-n", "-q", "-c", code], cwd=self.home, env=dict(self.env, **env), timeout=LIMIT,
                           capture_output=True, text=True)
        assert bool(r.returncode) == fails, f"{code}\n{r.stdout}{r.stderr}"
        return r.stdout + r.stderr

    def rows(self, query):
        r = subprocess.run([self.dlsh, "-n", "-q", "--mode", "json", "-c", f'sql "{query}"'], cwd=self.home,
                           env=self.env, timeout=LIMIT, capture_output=True, text=True)
        assert not r.returncode, r.stdout + r.stderr
        return [list(x.values()) for x in map(json.loads, r.stdout.splitlines())]

    def session(self):
        return Session(self)


class Session:
    """Statements one by one, as at a prompt."""
    def __init__(self, user):
        self.messages = open(user.home / "messages", "w+")
        self.p = subprocess.Popen([user.dlsh, "-n", "-q", "-i"], cwd=user.home, env=user.env, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=self.messages, text=True)
        self.n = 0

    def say(self, code):
        self.n += 1
        self.p.stdin.write(f'{code};\nprint("part {self.n} is", "done");\n')
        self.p.stdin.flush()
        while line := self.p.stdout.readline():
            if f"part {self.n} is done" in line:
                return
        raise AssertionError(f"the session ended at: {code}\n{self.told()}")

    def told(self):
        self.messages.seek(0)
        return self.messages.read()

    def end(self):
        self.p.stdin.close()
        status = self.p.wait(LIMIT)
        assert not status, self.told()


def until(what, test):
    end = time.monotonic() + LIMIT
    while not test():
        assert time.monotonic() < end, f"not within {LIMIT} s: {what}"
        time.sleep(0.02)


def same(got, want, what):
    assert got == want, f"{what}: {got}, not {want}"


def says(text, *parts):
    for part in parts:
        assert part in text, f"'{part}' is not said in: {text}"


POINTS = "for i in range({n}) {{ r.log(loss=1.0 / (i + 1), acc=0.5) }}"
FIRST = """
r = start_run("first", lr=0.1, note="tab\\tand \\\\ slash")
for i in range(500) { r.log(loss=1.0 / (i + 1), acc=0.5 * i) }
r.log(odd=0.0 / 0.0, step=1); r.log(odd=1.0 / 0.0, step=2); r.log(odd=-1e300, step=3)
r.end()
r = start_run("second", lr=0.2); for i in range(500) { r.log(loss=2.0 / (i + 1)) }; r.end()
"""


def mistakes(server, folder, make, dlsh):
    """Before there is a server, and without libpq."""
    ann = make("early")
    text = ann.run("runs", fails=True)
    says(text, "cannot be reached", "is the server running", f"host={folder}")
    says(ann.run("runs", fails=True, DLSH_DB="postgresql://ann@host:port/x?no=such"), "is not an address")
    broken = folder / "broken"
    broken.mkdir()
    (broken / "libpq.so.5").write_text("no library")
    says(ann.run("runs", fails=True, LD_LIBRARY_PATH=str(broken)), "needs libpq.so.5", "apt-get install libpq5")


def recorded(server, ann, bob):
    ann.run(FIRST)
    same(server.sql("select count(*), min(id), max(id) from dlsh.run"), "2|1|2", "runs of the server")
    same(server.sql("select count(*), sum(n) from dlsh.series"), "4|1503", "series of the server")
    same(server.sql("select count(*) from dlsh.metrics"), "1503", "points of the server")
    same(server.sql("select step, value from dlsh.metrics where key = 'odd' order by 1"),
         "1|\n2|Infinity\n3|-1e+300", "odd values")
    same(server.sql("select value from dlsh.params where key = 'lr' order by run"), "0.1\n0.2", "parameters")
    same(server.sql("select note from dlsh.run where id = 1"), "tab\tand \\ slash", "a note")
    same(server.sql("select status, count(*) from dlsh.run group by 1"), "finished|2", "statuses")
    # another user reads the same
    text = bob.run("runs; best train/loss; runs where=\"lr = 0.2\"; compare 1 2; plot loss 1; run show 1; run diff 1 2")
    says(text, "first", "second", "finished", "train/loss")
    same(bob.rows("select run, key, count(*), sum(value) from metrics where key <> 'odd' group by 1, 2 order by 1, 2"),
         ann.rows("select run, key, count(*), sum(value) from metrics where key <> 'odd' group by 1, 2 order by 1, 2"),
         "points of both")
    same(bob.rows("select value from metrics where key = 'odd' order by step")[2], [-1e300], "an odd value")
    same(bob.rows("select uuid, note from run order by id"), ann.rows("select uuid, note from run order by id"), "rows")


def changed(server, ann, bob):
    """Both change the same runs; later values take the place of earlier ones."""
    bob.run('tag 1 good; tag 2 bad; note 1 "seen by bob"; run delete 2')
    same(ann.rows("select run, tag from tags order by 1"), [[1, "good"], [2, "bad"]], "tags")
    same(ann.rows("select note, deleted_us is null from run order by id"), [["seen by bob", 1], [None, 0]], "labels")
    ann.run("run restore 2; tag 2 bad remove; tag 1 fast")
    same(bob.rows("select run, tag from tags order by 1, 2"), [[1, "fast"], [1, "good"]], "tags")
    ann.run("r = start_run(\"again\"); for i in range(100) { r.log(loss=1.0, step=i) }; r.end()")
    run = bob.rows("select max(id) from run")[0][0]
    same(bob.rows(f"select count(*), sum(value) from metrics where run = {run}"), [[100, 100.0]], "points")
    s = ann.session()
    s.say("r = start_run(\"twice\"); for i in range(100) { r.log(loss=1.0, step=i) }")
    until("the points are sent", lambda: server.sql("select count(*) from dlsh.metrics as m join dlsh.run as r on"
                                                    " r.id = m.run where r.name = 'twice'") == "100")
    twice = "select count(*), sum(value) from metrics where run = (select id from run where name = 'twice')"
    same(bob.rows(twice), [[100, 100.0]], "points")
    s.say("r.log(loss=51.0, step=10)")
    s.end()
    same(bob.rows(twice), [[100, 150.0]], "points after a change")


def stopped(server, ann, bob):
    """The server goes away in mid-run and comes back; later the process is killed while it is away."""
    count = "select count(*) from dlsh.metrics as m join dlsh.run as r on r.id = m.run where r.name = '%s'"
    s = ann.session()
    s.say('r = start_run("long")\n' + POINTS.format(n=1000))
    until("the points are sent", lambda: server.sql(count % "long") == "2000")
    server.stop()
    s.say(POINTS.format(n=1000))
    until("it is said that the server is away", lambda: s.say("x = 0") or "is back" in s.told())
    s.say(POINTS.format(n=1000))
    says(ann.run("runs"), "long", "running")
    server.start()
    until("the points are sent after the start", lambda: server.sql(count % "long") == "6000")
    s.say(POINTS.format(n=500) + "; r.end()")
    same(s.told().count("is back"), 1, "messages")
    s.end()
    same(server.sql(count % "long"), "7000", "points of the server")
    same(server.sql("select status from dlsh.run where name = 'long'"), "finished", "status")
    # begun, and killed, while the server is away
    server.stop()
    s = ann.session()
    s.say('r = start_run("away", lr=0.3)\n' + POINTS.format(n=800))
    s.p.send_signal(signal.SIGKILL)
    s.p.wait()
    server.start()
    says(ann.run("runs"), "away", "killed")
    same(server.sql(count % "away"), "1600", "points of a killed process")
    same(server.sql("select status, id > 100000000000 from dlsh.run where name = 'away'"), "killed|t", "its run")
    same(bob.rows("select sum(n) from series where run_id = (select id from run where name = 'away')"), [[1600]], "points")


def together(server, make):
    """Several processes at once, of one user and of several."""
    users = [make(f"user{i}") for i in range(3)]
    code = 'r = start_run("crowd"); ' + POINTS.format(n=2000) + "; r.end()"
    crowd = [subprocess.Popen([u.dlsh, "-n", "-q", "-c", code], cwd=u.home, env=u.env) for u in users for _ in range(2)]
    same([p.wait(LIMIT) for p in crowd], [0] * 6, "exit statuses")
    for u in users:
        u.run("runs")
        same(u.rows("select count(distinct r.id), count(*), sum(m.value = 0.5) from metrics as m join run as r on"
                    " r.id = m.run where r.name = 'crowd'"), [[6, 24000, 12000 + 6]], "points")
    same(server.sql("select count(distinct r.id), count(*) from dlsh.metrics as m join dlsh.run as r on r.id = m.run"
                    " where r.name = 'crowd'"), "6|24000", "points of the server")


def refused(server, make, ann):
    wrong = make("wrong", server.address("careful", password="wr0ng"))
    text = wrong.run("runs", fails=True)
    says(text, "password authentication failed", "is it the right user and password", "careful:***@")
    assert "wr0ng" not in text, text
    says(make("nobody", server.address("careful")).run("runs", fails=True), "PGPASSWORD")
    says(make("lost", server.address(database="nosuch")).run("runs", fails=True), "does not exist", "createdb")
    for code in ("db merge x.db", "gc", "sweep lr=[0.1, 0.2] { print lr }"):
        pathlib.Path(ann.home / "x.db").touch()
        says(ann.run(code, fails=True), "is not possible in a store on a server", "--db FILE")
    ann.run("db backup copy.db")
    says(ann.run("runs", DLSH_DB="copy.db"), "long")
    server.sql("update dlsh.store set version = 99")
    says(make("older").run("runs", fails=True), "schema version 99, this dlsh knows up to")
    server.sql("update dlsh.store set version = 4")


NET = """
seed 1; d = dataset("tensor", randn(64, 4), zeros(64, dtype=i64)); net m { linear 2 }; t = trainer(m, d, batch=16)
"""


def resumed(server, ann, bob):
    """A run goes on from a checkpoint elsewhere: the points after it are withdrawn everywhere."""
    ann.run(NET + f"train t steps=20; checkpoint save t '{ann.home}/c.safetensors'; train t steps=20")
    loss = "select count(*), max(step), sum(value) from metrics where key = 'train/loss' and run = (select max(id) from run)"
    same(bob.rows(loss)[0][:2], [40, 40], "points")
    bob.run(NET + f"checkpoint resume t '{ann.home}/c.safetensors'; train t steps=7")
    same(bob.rows(loss)[0][:2], [27, 27], "points of the resumed run")
    same(ann.rows(loss), bob.rows(loss), "points where it began")
    same(server.sql("select count(*), max(m.step) from dlsh.metrics as m where key = 'train/loss' and run ="
                    " (select max(id) from dlsh.run)"), "27|27", "points of the server")


def older(server, make, ann):
    """The schema of an older version is completed; one who may only read reads; another database is not taken for it."""
    server.sql("update dlsh.store set version = 3; alter table dlsh.run drop column active_since_us;"
               "create role viewer login; grant usage on schema dlsh to viewer")
    ann.run('r = start_run("newer"); r.log(loss=1.0); r.end()')
    same(server.sql("select version, (select count(*) from dlsh.run where name = 'newer' and active_since_us is null)"
                    " from dlsh.store"), "4|1", "version and the row of a run")
    server.sql("grant select on all tables in schema dlsh to viewer")
    vera = make("vera", server.address("viewer"))
    says(vera.run("runs; plot loss 1"), "newer")
    says(vera.run('r = start_run("no")'), "permission denied", "not on the server yet")
    server.sql("drop schema dlsh cascade")
    says(make("new").run("runs"), "no run")
    says(ann.run("runs", fails=True), "is not the database any more of which", "move the local copy away")


def secret(server, make):
    """A password in the address is not written down."""
    server.sql("create role careful login password 'right'")
    server.call("createdb", "-h", server.folder, "-U", "dl", "-O", "careful", "own")
    eve = make("eve", server.address("careful", "own", "right"))
    subprocess.run([eve.dlsh, "-n", "-q", "--db", eve.address, "-c", 'r = start_run("x"); r.log(loss=1.0); r.end()'],
                   cwd=eve.home, env=eve.env, check=True, timeout=LIMIT)
    says(server.sql("select cmdline from dlsh.run", "own"), "careful:***@")
    for file in eve.home.rglob("*"):
        assert not file.is_file() or b":right@" not in file.read_bytes(), f"the password stands in {file}"


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped
    bin_ = programs()
    if not bin_:
        print("skipped: there is no PostgreSQL server (apt-get install postgresql)")
        return 77
    dlsh = pathlib.Path(sys.argv[1]).resolve().parents[1] / "bin/dlsh"
    with tempfile.TemporaryDirectory(prefix="dl-pg-", dir="/tmp") as folder:  # the path of a socket is short
        folder = pathlib.Path(folder)
        os.chmod(folder, 0o755)
        (folder / "server").mkdir()
        server = Server(bin_, folder / "server")

        def make(name, address=None):
            return User(dlsh, folder, name, address or server.address())

        mistakes(server, folder, make, dlsh)
        try:
            server.start()
            server.call("createdb", "-h", server.folder, "-U", "dl", "runs")
            ann, bob = make("ann"), make("bob")
            for test in (lambda: recorded(server, ann, bob), lambda: changed(server, ann, bob),
                         lambda: resumed(server, ann, bob), lambda: stopped(server, ann, bob), lambda: together(server, make),
                         lambda: secret(server, make), lambda: refused(server, make, ann),
                         lambda: older(server, make, ann)):
                test()
        finally:
            server.stop()
    print("a store on a PostgreSQL server has what was recorded, also while the server was away")
    return 0


sys.exit(main())
