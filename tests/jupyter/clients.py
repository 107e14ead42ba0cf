"""What clients do beside running one cell after the other: cells sent in one go, requests on the control channel, other addresses
and digests, the lines of a terminal instead of displays that change, magics."""
import json
import re
import shutil
import subprocess
import sys
import time
import unittest

sys.path.insert(0, "tests/support")
sys.path.insert(0, "tests/jupyter")
import kernel
import zmq
from protocol import Raw


def date(seconds, digits=6):
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f"{seconds - whole:.{digits}f}"[1:] + "Z"


class Shared(kernel.OneKernel):
    # ---------------------------------------------------------------- cells sent in one go

    def test_a_burst_stops_at_the_first_error(self):
        """The first fails before the second has come, which was sent at the same time by the clock of the client."""
        for i in range(50):
            cells = [self.c.session.msg("execute_request", {"code": code}) for code in (f"burst_{i}_missing", f"burst_ran = {i}", "1")]
            for m in cells:
                m["header"]["date"] = cells[0]["header"]["date"]
                self.c.shell_channel.send(m)
            contents = [self.k.reply(m["header"]["msg_id"])["content"] for m in cells]
            self.assertEqual([c.get("ename") for c in contents], ["name error", "aborted", "aborted"])
            self.assertNotIn("execution_count", contents[1])  # clients would number it

    def test_who_waits_for_the_reply_goes_on(self):
        for i in range(50):
            self.assertEqual(self.k.run("missing_again")[0]["ename"], "name error")
            self.assertEqual(self.k.run("1 + 1")[0]["status"], "ok")

    def ask(self, raw, code, when, digits=3):
        return raw.ask(raw.frames("execute_request", {"code": code}, date=date(when, digits)))[2]

    def test_a_browser_sends_over_many_milliseconds(self):
        raw, clock = Raw(self.k.info), 1.8e9  # the clock of the client, which may differ from the kernel's
        self.assertEqual(self.ask(raw, "missing_one", clock)["ename"], "name error")
        for after in (0.02, 0.05, 0.08, 0.11):
            self.assertEqual(self.ask(raw, "late = 1", clock + after)["ename"], "aborted", after)
        self.assertEqual(self.ask(raw, "late = 2", clock + 0.5)["status"], "ok")
        self.assertEqual(self.ask(raw, "late = 3", clock + 0.51)["status"], "ok")
        # another client, and one that counts microseconds, have seen the error when they send
        self.assertEqual(self.ask(raw, "missing_two", clock + 1, 6)["ename"], "name error")
        self.assertEqual(self.ask(raw, "late = 4", clock + 1.05, 6)["status"], "ok")
        self.assertEqual(self.ask(raw, "missing_three", clock + 2)["ename"], "name error")
        other = Raw(self.k.info)
        self.assertEqual(self.ask(other, "late = 5", clock + 2.01)["status"], "ok")
        # and a date that is none is no reason to abort
        self.assertEqual(self.ask(raw, "missing_four", clock + 3)["ename"], "name error")
        self.assertEqual(raw.ask(raw.frames("execute_request", {"code": "1"}, date="today"))[2]["status"], "ok")
        raw.close(), other.close()

    def test_silent_errors_and_those_that_do_not_stop(self):
        raw, clock = Raw(self.k.info), 1.8e9
        for flags in ({"silent": True}, {"stop_on_error": False}):
            frames = raw.frames("execute_request", {"code": "missing_five", **flags}, date=date(clock, 3))
            self.assertEqual(raw.ask(frames)[2]["status"], "error")
            self.assertEqual(self.ask(raw, "1", clock + 0.001)["status"], "ok")
        raw.close()

    # ---------------------------------------------------------------- control

    def test_control_takes_what_shell_takes(self):
        raw = Raw(self.k.info, "control_port")
        self.assertEqual(raw.ask(raw.frames("is_complete_request", {"code": "f("}))[2]["status"], "incomplete")
        self.assertEqual(raw.ask(raw.frames("complete_request", {"code": "cross_en", "cursor_pos": 8}))[2]["matches"], ["cross_entropy"])
        self.assertEqual(raw.ask(raw.frames("execute_request", {"code": "by_control = 5"}))[2]["status"], "ok")
        self.assertEqual(raw.ask(raw.frames("history_request", {"hist_access_type": "tail", "n": 1}))[2]["status"], "ok")
        self.assertIsNone(raw.ask(raw.frames("dance_request", {}), 100))
        raw.close()
        self.assertEqual(self.k.text("by_control"), "5")

    def test_control_comes_before_what_waits(self):
        self.k.text('extern "libc.so.6" { int access(const char *path, int mode); int usleep(unsigned int us); }')
        first = self.c.execute('while access("all is sent", 0) != 0 { usleep(1000) }; order = 0')
        later = [self.c.execute(f"order = order * 10 + {i}") for i in (2, 3)]
        self.k.begun(first)
        raw = Raw(self.k.info, "control_port")
        raw.socket.send_multipart(raw.frames("execute_request", {"code": "order = order * 10 + 1"}))
        self.assertEqual(raw.ask(raw.frames("kernel_info_request", {}))[0]["msg_type"], "kernel_info_reply")  # so the cell is there
        (kernel.HOME / "all is sent").touch()
        self.assertEqual(raw.read()[2]["status"], "ok")
        for m in (first, *later):
            self.assertEqual(self.k.reply(m)["content"]["status"], "ok")
        raw.close()
        self.assertEqual(self.k.text("order"), "123")

    def test_connect(self):
        raw = Raw(self.k.info)
        content = raw.ask(raw.frames("connect_request", {}))[2]
        for name in ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port"):
            self.assertEqual(content[name], self.k.info[name])
        raw.close()

    # ---------------------------------------------------------------- text

    def test_frames_of_a_traceback(self):
        """An entry a place, with its lines: clients put entries apart."""
        self.k.run("fn inner(x) {\n    return x + nowhere_set\n}")
        frames = [re.sub(r"\x1b\[[0-9;]*m", "", f) for f in self.k.run("inner(2)")[0]["traceback"]]
        self.assertRegex(frames[0], r"^In \[\d+\]:2:16: error: .*\n +return x \+ nowhere_set\n +\^~+")
        self.assertTrue(all(not f.startswith(" ") for f in frames), frames)

    def test_questions(self):
        pages = [self.k.run(code)[0]["payload"][0]["data"]["text/plain"] for code in ("help train", "train?", "?train", " train??\n")]
        self.assertEqual(pages, pages[:1] * 4)
        self.assertEqual(self.k.reply(self.c.is_complete("train?"))["content"]["status"], "complete")
        self.k.run("fn twice_of(x, by=2) {\n    # by how much\n    return by * x\n}")
        page = self.k.run("twice_of?")[0]["payload"][0]["data"]["text/plain"]
        self.assertIn("    fn twice_of(x, by=2) {\n        # by how much\n", page)  # code is set apart
        self.assertIn("by * x", self.k.reply(self.c.inspect("twice_of(3)", 4))["content"]["data"]["text/plain"])
        self.k.run("an_int = 4")
        self.assertIn("an_int is an int.", self.k.run("an_int?")[0]["payload"][0]["data"]["text/plain"])

    def test_magics_are_offered_where_they_can_stand(self):
        ask = lambda code: self.k.reply(self.c.complete(code, len(code)))["content"]
        self.assertEqual(ask("%%")["matches"], ["%%c", "%%time"])
        self.assertEqual(ask("x = 1\n  %t"), {"status": "ok", "matches": ["%time"], "cursor_start": 8, "cursor_end": 10, "metadata": {
            "_jupyter_types_experimental": [{"text": "%time", "type": "magic", "signature": "", "start": 8, "end": 10}]}})
        self.assertIn("train", ask("x = 7 % tr")["matches"])
        reply, _ = self.k.run("%matplotlib inline")
        self.assertIn("%time, %%time and %%c", "".join(reply["traceback"]))


    def test_names_of_arguments(self):
        self.k.run("fn scaled(x, by=2) { return by * x }")
        for code, wanted in (("adam(l", "lr="), ("t = trainer(m, d, opt=sgd(mom", "momentum="), ("scaled(x, b", "by="), ("cross_entropy(a, b, lab", "label_smoothing=")):
            self.assertIn(wanted, self.k.reply(self.c.complete(code, len(code)))["content"]["matches"], code)


class Lives(unittest.TestCase):
    def test_ipv6(self):
        for ip in ("::1", "[::1]"):
            with self.subTest(ip):
                path, info = kernel.connection_file(ip=ip)
                process = subprocess.Popen([kernel.DLSH, "kernel", "run", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                s = zmq.Context.instance().socket(zmq.REQ)
                s.ipv6, s.linger = True, 0
                s.connect(f"tcp://[::1]:{info['hb_port']}")
                s.send(b"beat")
                heard = s.poll(1000 * kernel.TIMEOUT)
                s.close()
                process.terminate()
                log = process.communicate(timeout=kernel.TIMEOUT)[1]
                if "cannot listen" in log and not zmq.has("ipv6"):
                    self.skipTest(log)
                self.assertTrue(heard, log)

    def test_digests(self):
        import hashlib
        import hmac
        import protocol
        for name in ("sha512", "sha1"):
            with self.subTest(name):
                path, info = kernel.connection_file(signature_scheme=f"hmac-{name}")
                process = subprocess.Popen([kernel.DLSH, "kernel", "run", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                raw, kept = Raw(info), protocol.sign
                try:
                    protocol.sign = lambda key, parts: hmac.new(key, b"".join(parts), getattr(hashlib, name)).hexdigest().encode()
                    self.assertEqual(raw.ask(raw.frames("kernel_info_request", {}))[2]["status"], "ok")
                finally:
                    protocol.sign = kept
                    raw.close()
                    process.terminate()
                    process.wait(timeout=kernel.TIMEOUT)

    def test_help_of_the_command(self):
        for words in (["install", "--help"], ["--help"], ["-h"]):
            p = subprocess.run([kernel.DLSH, "kernel", *words], capture_output=True, text=True)
            self.assertEqual((p.returncode, p.stdout.startswith("usage: dlsh kernel install")), (0, True), p)

    def test_jupyter_run_shows_a_training_as_lines(self):
        if not shutil.which("/usr/bin/jupyter-run"):
            self.skipTest("no jupyter-run (Debian: jupyter-client)")
        kernel.install()
        code = 'seed 1\nd = dataset("digits", n=640, test=64)\nnet m { flatten -> linear 10 }\ntrain trainer(m, d, opt=sgd(lr=0.1), batch=64) epochs=2'
        p = subprocess.run(["/usr/bin/jupyter-run", "--kernel", "dlsh"], input=code, capture_output=True, text=True, timeout=4 * kernel.TIMEOUT)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertEqual(re.findall(r"(?m)^epoch (\d/\d) ", p.stdout), ["1/2", "2/2"])


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
