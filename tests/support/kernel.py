"""Starting the notebook kernel for tests, in folders of its own, and talking to it with Jupyter's own client.

Needs the system's python3 with Debian's python3-jupyter-client; importing it without ends the program with 77 (skipped).
"""
import atexit
import json
import os
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from stopwatch import Stopwatch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DLSH = os.path.abspath(os.environ.get("DLSH", ROOT / "build/bin/dlsh"))

try:
    import jupyter_client
    import zmq
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-jupyter-client)")
    sys.exit(77)

HOME = pathlib.Path(tempfile.mkdtemp(prefix="dlsh-kernel-"))
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ.update(HOME=str(HOME), JUPYTER_DATA_DIR=str(HOME / "data"), JUPYTER_RUNTIME_DIR=str(HOME / "runtime"),
                  JUPYTER_CONFIG_DIR=str(HOME / "config"), XDG_STATE_HOME=str(HOME / "state"), DLSH_DB="none",
                  IPYTHONDIR=str(HOME / "ipython"))
os.environ.pop("XDG_DATA_HOME", None)
for name in ("data", "runtime", "config"):
    (HOME / name).mkdir()
for name in ("ASAN_OPTIONS", "TSAN_OPTIONS"):  # a kernel's standard error is captured, and the report of its death would be
    if name in os.environ:
        os.environ[name] += f":log_path={HOME}/sanitizer"
TIMEOUT = 60  # seconds for what must come, however loaded the machine is


# ThreadSanitizer hands on a signal when the code waits or locks: C that only computes gets none.
C_IS_INTERRUPTED = b"libtsan" not in subprocess.run(["ldd", DLSH], capture_output=True).stdout


def install():
    subprocess.run([DLSH, "kernel", "install", "--user"], check=True, stdout=subprocess.DEVNULL)


def connection_file(**more):
    """Writes a connection file with free ports; returns its path and what it says."""
    path, info = jupyter_client.write_connection_file(str(HOME / "runtime" / f"kernel-{time.monotonic_ns()}.json"), key=b"0123456789abcdef")
    info = json.loads(pathlib.Path(path).read_text()) | more
    pathlib.Path(path).write_text(json.dumps(info))
    return path, info


class Kernel:
    """A kernel process and a client with all channels open."""

    def __init__(self, argv=None, env=None, **more):
        self.path, self.info = connection_file(**more)
        self.argv = argv
        self.log = tempfile.TemporaryFile("w+")
        self.kept = []
        self.started = time.perf_counter()
        self.process = subprocess.Popen((argv or [DLSH, "kernel", "run"]) + [self.path], env=dict(os.environ, **(env or {})),
                                        stdout=self.log, stderr=self.log, cwd=HOME)
        self.client = jupyter_client.BlockingKernelClient(connection_file=self.path)
        self.client.load_connection_file()
        self.client.start_channels()
        while True:
            try:
                self.client.wait_for_ready(timeout=TIMEOUT)
                break
            except RuntimeError:  # a kernel that starts slowly has no heartbeat yet
                assert self.process.poll() is None and time.perf_counter() - self.started < TIMEOUT, self.read_log()
        self.ready = time.perf_counter() - self.started

    def __enter__(self):
        return self

    def __exit__(self, kind=None, *_):
        """Ends the kernel as a client does; a sanitizer then says what was leaked. After a failed test it is killed."""
        orderly = self.process.poll() is None and kind is None and not self.argv
        if orderly:
            self.client.shutdown()
            try:
                self.process.wait(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                pass
        self.client.stop_channels()
        if self.process.poll() is None:
            self.process.kill()
        status = self.process.wait()
        assert not orderly or status == 0, f"the kernel ended with status {status}\n{self.read_log()}"
        if any(HOME.glob("sanitizer.*")):
            print(self.read_log(), file=sys.stderr)

    def read_log(self):
        self.log.seek(0)
        return self.log.read() + "".join(path.read_text(errors="replace") for path in HOME.glob("sanitizer.*"))

    def reply(self, msg_id, timeout=TIMEOUT):
        """The reply to a request; replies to others are thrown away."""
        end = time.monotonic() + timeout
        while True:
            m = self.client.get_shell_msg(timeout=max(0.01, end - time.monotonic()))
            if m["parent_header"].get("msg_id") == msg_id:
                return m

    def until(self, msg_id, test, timeout=TIMEOUT):
        """Waits until iopub says of a request what passes the test; what it has said is kept for outputs()."""
        end = time.monotonic() + timeout
        while not any(m["parent_header"].get("msg_id") == msg_id and test(m) for m in self.kept[-1:]):
            self.kept.append(self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic())))

    def begun(self, msg_id, timeout=TIMEOUT):
        """Waits until a cell runs: from then on it can be interrupted."""
        self.until(msg_id, lambda m: m["msg_type"] == "execute_input", timeout)

    def outputs(self, msg_id, timeout=TIMEOUT):
        """What iopub says about a request, from busy to idle; both are checked and left out."""
        got, end = [m for m in self.kept if m["parent_header"].get("msg_id") == msg_id], time.monotonic() + timeout
        self.kept = []
        while True:
            m = self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic()))
            if m["parent_header"].get("msg_id") != msg_id:
                continue
            if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
                assert got and got[0]["msg_type"] == "status", "busy comes first"
                return got[1:]
            got.append(m)

    def run(self, code, timeout=TIMEOUT, **more):
        """Runs a cell; returns its reply's content and its outputs as (type, content), execute_input left out."""
        msg_id = self.client.execute(code, **more)
        out = self.outputs(msg_id, timeout)
        reply = self.reply(msg_id, timeout)
        return reply["content"], [(m["msg_type"], m["content"]) for m in out if m["msg_type"] != "execute_input"]

    def text(self, code, **more):
        """What a cell prints and results in, as one text; an error is raised."""
        reply, out = self.run(code, **more)
        assert reply["status"] == "ok", reply
        return "".join(c["text"] if t == "stream" else c["data"]["text/plain"] for t, c in out if t in ("stream", "execute_result", "display_data"))

    def quiet(self, seconds=0.3):
        """Asserts that nothing more comes on iopub and shell."""
        for get in (self.client.get_iopub_msg, self.client.get_shell_msg):
            try:
                m = get(timeout=seconds)
            except queue.Empty:
                continue
            raise AssertionError(f"unexpected: {m['msg_type']} {m['content']}")

    def asked(self):
        """Waits for a question of the kernel."""
        return self.client.get_stdin_msg(timeout=TIMEOUT)

    def press(self):
        """Sends an interrupt, without waiting for its reply; returns the message."""
        m = self.client.session.msg("interrupt_request", {})
        self.client.control_channel.send(m)
        return m

    def stopwatch(self):
        return Stopwatch(self.process.pid)

    def ends(self):
        """Waits for the process to end; returns its status."""
        return self.process.wait(timeout=TIMEOUT)


class OneKernel(unittest.TestCase):
    """Tests on one kernel, which must outlive each of them."""
    ENV = None  # for its process, beside what every kernel gets
    SETUP = ""  # the first cell

    @classmethod
    def setUpClass(cls):
        cls.k = Kernel(env=cls.ENV)
        cls.c = cls.k.client
        if cls.SETUP:
            reply, _ = cls.k.run(cls.SETUP)
            assert reply["status"] == "ok", reply

    @classmethod
    def tearDownClass(cls):
        cls.k.__exit__()

    def tearDown(self):
        self.assertIsNone(self.k.process.poll(), "the kernel died: " + self.k.read_log())
