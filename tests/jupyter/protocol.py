"""The messaging protocol beyond jupyter_kernel_test: order, flags of execute, positions, input, displays, interrupts, queues,
what is refused, the end."""
import hashlib
import hmac
import json
import os
import pathlib
import random
import re
import signal
import sys
import time
import unittest
import xml.etree.ElementTree as ET
import uuid

sys.path.insert(0, "tests/support")
import kernel
import zmq


class Raw:
    """A DEALER that sends frames as they are."""

    def __init__(self, info, port="shell_port"):
        self.key = info["key"].encode()
        self.session = uuid.uuid4().hex
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(f"tcp://{info['ip']}:{info[port]}")

    def frames(self, msg_type, content, key=None, **header):
        head = {"msg_id": uuid.uuid4().hex, "session": self.session, "username": "t", "date": "2026-01-01T00:00:00Z",
                "msg_type": msg_type, "version": "5.3"} | header
        parts = [json.dumps(p).encode() for p in (head, {}, {}, content)]
        return [b"<IDS|MSG>", sign(key or self.key, parts), *parts]

    def ask(self, frames, timeout=1000 * kernel.TIMEOUT):
        """The reply's frames as (header, parent, content), None when none comes within so many ms."""
        self.socket.send_multipart(frames)
        return self.read(timeout)

    def read(self, timeout=1000 * kernel.TIMEOUT):
        if not self.socket.poll(timeout):
            return None
        back = self.socket.recv_multipart()
        i = back.index(b"<IDS|MSG>")
        assert back[i + 1] == sign(self.key, back[i + 2:i + 6]), "the reply is not signed"
        return tuple(json.loads(back[i + k]) for k in (2, 3, 5))

    def close(self):
        self.socket.close()


def sign(key, parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).hexdigest().encode()


def lives(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Shared(kernel.OneKernel):
    def kinds(self, code, **more):
        return [t for t, _ in self.k.run(code, **more)[1]]

    # ---------------------------------------------------------------- order and flags

    def test_order(self):
        msg_id = self.c.execute('print("a")\n[1]\nprint("b", err=true)\nprint("c")\n7')
        out = self.k.outputs(msg_id)
        self.assertEqual([m["msg_type"] for m in out], ["execute_input", "stream", "display_data", "stream", "stream", "execute_result"])
        self.assertEqual([m["content"]["text"] for m in out if m["msg_type"] == "stream"], ["a\n", "b\n", "c\n"])
        self.assertEqual(out[-1]["content"]["data"]["text/plain"], "7")
        for m in out:
            self.assertEqual(m["parent_header"]["msg_id"], msg_id)

    def test_values_in_loops_are_displays(self):
        _, out = self.k.run("for i in range(3) { i }")
        self.assertEqual([(t, c["data"]["text/plain"]) for t, c in out], [("display_data", str(i)) for i in range(3)])
        _, out = self.k.run("if true { 4 }\nno_grad { 5\n6 }")
        self.assertEqual([(t, c["data"]["text/plain"]) for t, c in out], [("display_data", str(i)) for i in (4, 5, 6)])
        _, out = self.k.run("7\n8")
        self.assertEqual([t for t, _ in out], ["display_data", "execute_result"])

    def test_client_that_reads_late(self):
        msg_id = self.c.execute("for i in range(12500) { i }")
        self.assertEqual(self.k.reply(msg_id)["content"]["status"], "ok")
        shown = [int(m["content"]["data"]["text/plain"]) for m in self.k.outputs(msg_id)[1:]]
        self.assertEqual(shown, list(range(12500)))

    def test_counter(self):
        n = self.k.run("1")[0]["execution_count"]
        self.assertEqual(self.k.run("1", store_history=False)[0]["execution_count"], n)
        self.assertEqual(self.k.run("1", silent=True)[0]["execution_count"], n)
        reply, out = self.k.run("2")
        self.assertEqual(reply["execution_count"], n + 1)
        self.assertEqual(out[0][1]["execution_count"], n + 1)

    def test_silent(self):
        msg_id = self.c.execute('print("x"); silent_a = 5\n[1]\n3', silent=True)
        self.assertEqual(self.k.outputs(msg_id), [])
        self.assertEqual(self.k.reply(msg_id)["content"]["status"], "ok")
        self.assertEqual(self.k.text("silent_a"), "5")
        reply, out = self.k.run("nope_nope", silent=True)
        self.assertEqual((reply["status"], out), ("error", []))

    def test_user_expressions(self):
        reply, _ = self.k.run("ue = 4", user_expressions={"good": "ue + 1", "bad": "ue +", "none": "ue = 5"})
        e = reply["user_expressions"]
        self.assertEqual(e["good"]["data"]["text/plain"], "5")
        self.assertEqual((e["bad"]["status"], bool(e["bad"]["ename"]), bool(e["bad"]["traceback"])), ("error", True, True))
        self.assertEqual(e["none"]["status"], "ok")
        self.assertEqual(self.k.run("1 / nothing_there", user_expressions={"a": "1"})[0]["user_expressions"], {})

    def test_error(self):
        reply, out = self.k.run('ok = 1\nprint("before")\nok + unknown_name\nprint("after")')
        self.assertEqual([t for t, _ in out], ["stream", "error"])
        error = out[1][1]
        self.assertEqual({k: reply[k] for k in ("ename", "evalue", "traceback")}, error)
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))
        self.assertRegex(text, r"^In \[\d+\]:3:6: error: .*unknown_name.*\n    ok \+ unknown_name\n         \^~~~")
        self.assertNotEqual(text, "\n".join(error["traceback"]), "no colours")

    def test_nested_error_names_both_lines(self):
        reply, _ = self.k.run("fn inner(x) {\n    return x + nowhere_set\n}")
        reply, _ = self.k.run("\ninner(2)")
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))
        self.assertRegex(text, r"In \[\d+\]:2:16: error")
        self.assertRegex(text, r"In \[\d+\]:2")

    def test_silenced(self):
        self.assertEqual(self.kinds("5;"), [])
        self.assertEqual(self.kinds("a = 5"), [])
        self.assertEqual(self.kinds(""), [])
        self.assertEqual(self.kinds("# nothing"), [])

    # ---------------------------------------------------------------- queues

    def test_queue_is_aborted_after_an_error(self):
        first = self.c.execute("for i in range(300000) { q_x = i }\nq_missing")
        later = [self.c.execute("q_ran = 1"), self.c.execute("q_ran = 2")]
        info = self.c.kernel_info()
        self.assertEqual(self.k.reply(first)["content"]["status"], "error")
        for msg_id in later:
            content = self.k.reply(msg_id)["content"]
            self.assertEqual((content["status"], content["ename"]), ("error", "aborted"))
            self.assertEqual(self.k.outputs(msg_id), [])
        self.assertEqual(self.k.reply(info)["content"]["status"], "ok")
        self.assertEqual(self.k.run("q_ran")[0]["status"], "error")

    def test_queue_goes_on_without_stop_on_error(self):
        first = self.c.execute("for i in range(100000) { q_x = i }\nq_missing", stop_on_error=False)
        second = self.c.execute("q_after = 2")
        self.assertEqual(self.k.reply(first)["content"]["status"], "error")
        self.assertEqual(self.k.reply(second)["content"]["status"], "ok")

    # ---------------------------------------------------------------- positions

    def test_positions_are_code_points(self):
        self.k.run("alpha_beta = 1")
        code = 'x = "ü€😀"; alpha_b'
        reply = self.k.reply(self.c.complete(code, len(code)))["content"]
        self.assertEqual((reply["matches"], reply["cursor_start"], reply["cursor_end"]), (["alpha_beta"], len(code) - 7, len(code)))
        reply = self.k.reply(self.c.inspect(code + "eta # ü", len(code) + 3))["content"]
        self.assertTrue(reply["found"])
        self.assertIn("int", reply["data"]["text/plain"])
        reply = self.k.reply(self.c.complete(code, 10 ** 9))["content"]
        self.assertEqual(reply["cursor_end"], len(code))

    def test_names_are_offered_once(self):
        """train is a command and a function."""
        for code in ("tra", "s", "se", ""):
            matches = self.k.reply(self.c.complete(code, len(code)))["content"]["matches"]
            self.assertEqual(len(matches), len(set(matches)), matches)
            self.assertIn("train" if code in ("tra", "") else "seed", matches)

    def test_options_come_first_and_names_have_types(self):
        self.k.run("lr_best = 1\nfn scaled(x, lr_scale=2) { return x }\nr = record(alpha=1)")
        def asked(code):
            content = self.k.reply(self.c.complete(code, len(code)))["content"]
            types = content["metadata"]["_jupyter_types_experimental"]
            self.assertEqual([t["text"] for t in types], content["matches"])
            self.assertTrue(all((t["start"], t["end"]) == (content["cursor_start"], content["cursor_end"]) for t in types))
            return {t["text"]: t["type"] for t in types}
        first = lambda code: next(iter(asked(code)))
        self.assertEqual([first("adam(l"), first("x = adam(0.1, "), first("scaled(1, lr")], ["lr=", "amsgrad=", "lr_scale="])
        self.assertEqual(first("conv2d(x, w, s"), "stride=")
        found = asked("adam(l")
        self.assertEqual((found["lr="], found["lr_best"], found["linspace"]), ("param", "instance", "function"))
        self.assertEqual([asked("whil")["while"], asked("r.al")["alpha"], asked("%%ti")["%%time"]], ["keyword", "property", "magic"])
        self.assertEqual(asked("net m { conv 3 -> rel")["relu"], "class")
        self.assertEqual(asked('read("/et')["/etc"] if "/etc" in asked('read("/et') else "path", "path")

    def test_help_is_html_and_markdown(self):
        pages = [self.k.run("help adam")[0]["payload"][0]["data"], self.k.reply(self.c.inspect("adam"))["content"]["data"]]
        for data in pages:
            self.assertEqual(set(data), {"text/plain", "text/html", "text/markdown"})
            self.assertIn("- **lr=0.001**: learning rate\n", data["text/markdown"])
            self.assertIn("```\nopt = adam(lr=1e-3)\n```", data["text/markdown"])
            cells = [e.text for e in ET.fromstring(f"<all>{data['text/html']}</all>").iter("td")]
            self.assertIn("learning rate", cells)
        self.k.run("fn is_below(a, b) {\n    return a < b\n}")
        page = self.k.reply(self.c.inspect("is_below"))["content"]["data"]
        self.assertIn("return a &lt; b", page["text/html"])
        parts = ET.fromstring(f"<all>{page['text/html']}</all>")
        self.assertEqual([e.text for e in parts.iter("pre")], ["fn is_below(a, b) {\n    return a < b\n}\n"])
        parts = ET.fromstring("<all>%s</all>" % self.k.run("help slices")[0]["payload"][0]["data"]["text/html"])
        self.assertEqual(len(list(parts.iter("h4"))), 1)
        self.assertIn("x[1:3]", next(parts.iter("pre")).text)
        self.assertTrue(next(parts.iter("p")).text.startswith("Indices count from 0"))
        for topic in ("", "train", "ops", "layers", "settings"):
            ET.fromstring("<all>%s</all>" % self.k.run(f"help {topic}")[0]["payload"][0]["data"]["text/html"])

    def test_inspect(self):
        self.k.run("mean_of = zeros(3)")
        page = lambda code, pos=None: self.k.reply(self.c.inspect(code, pos))["content"]
        self.assertIn("tensor([0., 0., 0.]", page("mean_of")["data"]["text/plain"])
        self.assertIn("label_smoothing", page("cross_entropy(a, ")["data"]["text/plain"])
        self.assertIn("Runs N training steps", page("step t 100", 7)["data"]["text/plain"])
        self.assertEqual(page("zzz_nothing")["found"], False)
        self.assertEqual(page("zzz_nothing")["data"], {})
        self.assertEqual(page("")["status"], "ok")

    def test_is_complete(self):
        ask = lambda code: self.k.reply(self.c.is_complete(code))["content"]
        self.assertEqual(ask("for i in x { if i {"), {"status": "incomplete", "indent": "        "})
        self.assertEqual(ask("f(1,"), {"status": "incomplete", "indent": "    "})
        self.assertEqual(ask("%time x = 1"), {"status": "complete"})
        self.assertEqual(ask("%%c\nint f(void) { return 1; }")["status"], "incomplete")
        self.assertEqual(ask("%%c\nint f(void) { return 1; }\n\n")["status"], "complete")

    # ---------------------------------------------------------------- displays

    def test_bundles(self):
        reply, out = self.k.run('[1, record(a="<b>")]\nimg zeros(4, 4)\nzeros(2, 2)')
        kinds = [t for t, _ in out]
        self.assertEqual(kinds, ["display_data", "display_data", "execute_result"])
        self.assertEqual(out[0][1]["data"]["application/json"], [1, {"a": "<b>"}])
        self.assertTrue(out[1][1]["data"]["image/png"].startswith("iVBOR"))
        for _, content in out:
            self.assertIn("text/plain", content["data"])
            self.assertFalse(content["data"]["text/plain"].endswith("\n\n"))

    def test_training_is_one_display_updated(self):
        code = 'seed 1\nd = dataset("digits")\nnet m { flatten -> linear 16 -> relu -> linear 10 }\nt = trainer(m, d, opt=adam(lr=1e-3), batch=32)\ntrain t epochs=3'
        reply, out = self.k.run(code)
        self.assertEqual(reply["status"], "ok")
        shown = [c for t, c in out if t == "display_data" and c["transient"].get("display_id")]
        self.assertEqual([t for t, _ in self.k.run("eval t")[1]], ["execute_result"])
        updates = [c for t, c in out if t == "update_display_data"]
        ids = {c["transient"]["display_id"] for c in shown}
        self.assertTrue(ids)
        self.assertTrue(all(c["transient"]["display_id"] in ids for c in updates))
        self.assertTrue(all("text/plain" in c["data"] for c in shown + updates))

    def test_clear_and_pages(self):
        _, out = self.k.run("print(1)\nclear wait\nprint(2)")
        self.assertEqual([(t, c.get("wait")) for t, c in out], [("stream", None), ("clear_output", True), ("stream", None)])
        reply, out = self.k.run("help seed\nhelp clear")
        self.assertEqual((out, len(reply["payload"])), ([], 1))
        text = reply["payload"][0]["data"]["text/plain"]
        self.assertTrue("seed [N]" in text and "clear [wait]" in text)

    # ---------------------------------------------------------------- input

    def answer(self, code, *values):
        msg_id = self.c.execute(code, allow_stdin=True)
        asked = []
        for value in values:
            m = self.k.asked()
            self.assertEqual((m["msg_type"], m["parent_header"]["msg_id"]), ("input_request", msg_id))
            asked.append((m["content"]["prompt"], m["content"]["password"]))
            self.c.input(value)
        out = [m["content"] for m in self.k.outputs(msg_id)][1:]
        return self.k.reply(msg_id)["content"], out, asked

    def test_input(self):
        reply, out, asked = self.answer('a = input("Wie heißt du? ")\nb = input("pw", secret=true)\na + b', "Åse ", "x")
        self.assertEqual((reply["status"], asked), ("ok", [("Wie heißt du? ", False), ("pw", True)]))
        self.assertEqual(out[0]["data"]["text/plain"], '"Åse x"')

    def test_input_refused(self):
        reply, _ = self.k.run('input("?")', allow_stdin=False)
        self.assertEqual(reply["status"], "error")
        self.assertIn("cannot be asked", reply["evalue"])

    def test_input_is_interrupted(self):
        msg_id = self.c.execute('input("?")', allow_stdin=True)
        self.k.asked()
        self.interrupt()
        self.assertEqual(self.k.reply(msg_id)["content"]["ename"], "interrupted")
        self.c.input("late")  # belongs to no question any more
        self.assertEqual(self.answer('input("again")', "new")[1][0]["data"]["text/plain"], '"new"')

    # ---------------------------------------------------------------- interrupts

    def interrupt(self):
        self.k.press()
        while self.c.get_control_msg(timeout=kernel.TIMEOUT)["msg_type"] != "interrupt_reply":
            pass

    def interrupted(self, code, by, after=0.3):
        msg_id = self.c.execute(code)
        self.k.begun(msg_id)
        time.sleep(after)
        watch = self.k.stopwatch()
        by()
        content = self.k.reply(msg_id)["content"]
        self.assertLess(watch.took(), 5)
        self.k.outputs(msg_id)
        return content

    def test_interrupts(self):
        kill = lambda: os.kill(self.k.process.pid, signal.SIGINT)
        for by in (self.interrupt, kill):
            for code in ("while true { x = 1 }", "fn fib(n) { if n < 2 { return n }\n return fib(n-1) + fib(n-2) }\nfib(60)",
                         "x = randn(400, 400)\nwhile true { x = x @ x / 20 }"):
                content = self.interrupted(code, by)
                self.assertEqual((content["status"], content["ename"]), ("error", "interrupted"), code)
        by()  # nothing runs: nothing happens
        self.assertEqual(self.k.text("1 + 1"), "2")

    def test_a_cell_that_has_begun_can_be_interrupted(self):
        """However soon after its execute_input: no interrupt is lost."""
        for i in range(100):
            msg_id = self.c.execute("while true { }")
            self.k.begun(msg_id)
            self.k.press() if i % 2 else os.kill(self.k.process.pid, signal.SIGINT)
            self.assertEqual(self.k.reply(msg_id)["content"]["ename"], "interrupted")
            self.k.outputs(msg_id)

    def test_an_interrupt_is_for_one_cell(self):
        """Sent about when a cell ends and the next begins, it stops one of them at most, and none that began after it was served."""
        code, start, stopped = "for i in range(100000) { }", time.monotonic(), []
        for i in range(20):
            self.k.run(code)
        usual = (time.monotonic() - start) / 20
        for i in range(1000):
            if i >= 200 and len(stopped) > 20:  # on a busy machine fewer meet a cell
                break
            cells = [self.c.execute(code, stop_on_error=False) for _ in range(3)]
            time.sleep(random.random() * 3 * usual)
            m = self.k.press()
            self.c.get_control_msg(timeout=kernel.TIMEOUT)
            states = []
            while any((of, "idle") not in states for of in (cells[-1], m["header"]["msg_id"])):
                got = self.c.get_iopub_msg(timeout=kernel.TIMEOUT)
                if got["msg_type"] == "status":
                    states.append((got["parent_header"]["msg_id"], got["content"]["execution_state"]))
            names = [self.k.reply(cell)["content"].get("ename", "ok") for cell in cells]
            served = states.index((m["header"]["msg_id"], "idle"))
            self.assertLessEqual(names.count("interrupted"), 1, f"round {i}: {names}")
            for name, cell in zip(names, cells):
                self.assertTrue(name == "ok" or states.index((cell, "busy")) < served, f"round {i}: {names}")
            stopped += [name for name in names if name != "ok"]
        self.assertGreater(len(stopped), 20)

    def test_training_is_interrupted_after_a_step(self):
        self.k.run('seed 1\nd = dataset("digits")\nnet mi { flatten -> linear 16 -> relu -> linear 10 }\nti = trainer(mi, d, opt=adam(lr=1e-3), batch=32)')
        content = self.interrupted("train ti epochs=100000", self.interrupt, 0.5)
        self.assertEqual(content["ename"], "interrupted")
        self.assertEqual(self.k.text("w = mi.linear0.weight\nsum(w != w).item()"), "0")
        self.assertEqual(self.k.run("step ti 3")[0]["status"], "ok")

    def test_interrupt_during_output_loses_nothing_before(self):
        content = self.interrupted('n_out = 0\nwhile true { n_out = n_out + 1; print(n_out) }', self.interrupt, 0.3)
        self.assertEqual(content["ename"], "interrupted")

    # ---------------------------------------------------------------- what is refused

    def test_bad_messages(self):
        raw = Raw(self.k.info)
        good = raw.frames("kernel_info_request", {})
        self.assertEqual(raw.ask(good)[0]["msg_type"], "kernel_info_reply")
        wrong = {
            "wrong key": raw.frames("kernel_info_request", {}, key=b"another"),
            "no signature": [good[0], b"", *good[2:]],
            "changed content": [*good[:5], b'{"a": 1}'],
            "no delimiter": good[1:],
            "frames missing": good[:4],
            "only a delimiter": [b"<IDS|MSG>"],
            "one empty frame": [b""],
            "header no JSON": [good[0], sign(raw.key, [b"{", b"{}", b"{}", b"{}"]), b"{", b"{}", b"{}", b"{}"],
            "header a list": [good[0], sign(raw.key, [b"[]", b"{}", b"{}", b"{}"]), b"[]", b"{}", b"{}", b"{}"],
            "no msg_type": [good[0], sign(raw.key, [b"{}", b"{}", b"{}", b"{}"]), b"{}", b"{}", b"{}", b"{}"],
            "deep": [good[0], sign(raw.key, [b"[" * 100000] * 4), *[b"[" * 100000] * 4],
            "thousands of frames": [b"x"] * 3000,
        }
        for what, frames in wrong.items():
            self.assertIsNone(raw.ask(frames, 100), what)
        self.assertEqual(raw.ask(raw.frames("kernel_info_request", {}))[0]["msg_type"], "kernel_info_reply")
        for name, content in (("execute_request", {}), ("execute_request", {"code": 5}), ("complete_request", {"code": None}),
                              ("inspect_request", {}), ("is_complete_request", {"code": []}), ("history_request", {"hist_access_type": "all"})):
            self.assertEqual(raw.ask(raw.frames(name, content))[2]["status"], "error", name)
        self.assertIsNone(raw.ask(raw.frames("dance_request", {}), 100))
        self.assertEqual(raw.ask(raw.frames("execute_request", {"code": "1+1", "silent": "yes", "user_expressions": [1]}))[2]["status"], "ok")
        self.assertEqual(raw.ask(raw.frames("execute_request", {"code": "\0\x01", "store_history": False}))[2]["status"], "error")
        raw.close()

    def test_oversized_message_cuts_its_sender_off(self):
        raw = Raw(self.k.info)
        self.assertIsNone(raw.ask(raw.frames("execute_request", {"code": "#" + "x" * (65 << 20)}), 500))
        raw.close()
        self.assertEqual(self.k.text("2 + 2"), "4")
        self.assertEqual(len(self.k.text('s = "' + "y" * (8 << 20) + '"\nlen(s)')), 7)

    def test_parent_header_is_verbatim(self):
        raw = Raw(self.k.info)
        extra = {"date": "2026-01-01T00:00:00.123456+02:00", "odd": {"ü": [1, 2.50]}}
        _, parent, _ = raw.ask(raw.frames("kernel_info_request", {}, **extra))
        self.assertEqual((parent["odd"], parent["date"]), (extra["odd"], extra["date"]))
        raw.close()

    # ---------------------------------------------------------------- the rest

    def test_comms(self):
        self.assertEqual(self.k.reply(self.c.comm_info())["content"], {"status": "ok", "comms": {}})
        m = self.c.session.msg("comm_open", {"comm_id": "c1", "target_name": "widget", "data": {}})
        self.c.shell_channel.send(m)
        out = self.k.outputs(m["header"]["msg_id"])
        self.assertEqual([(o["msg_type"], o["content"]["comm_id"]) for o in out], [("comm_close", "c1")])

    def test_control_answers_while_a_cell_runs(self):
        msg_id = self.c.execute("while true { x = 1 }")
        self.k.begun(msg_id)
        raw = Raw(self.k.info, "control_port")
        self.assertEqual(raw.ask(raw.frames("kernel_info_request", {}))[2]["implementation"], "dlsh")
        raw.close()
        self.interrupt()
        self.assertEqual(self.k.reply(msg_id)["content"]["status"], "error")

    def test_heartbeat_while_a_cell_runs(self):
        msg_id = self.c.execute("while true { x = 1 }")
        self.k.begun(msg_id)
        s = zmq.Context.instance().socket(zmq.REQ)
        s.linger = 0
        s.connect(f"tcp://{self.k.info['ip']}:{self.k.info['hb_port']}")
        for beat in (b"ping", b"", b"\0\xff" * 1000):
            s.send(beat)
            self.assertTrue(s.poll(1000 * kernel.TIMEOUT))
            self.assertEqual(s.recv(), beat)
        s.close()
        self.interrupt()
        self.assertEqual(self.k.reply(msg_id)["content"]["status"], "error")

    def test_welcome(self):
        s = zmq.Context.instance().socket(zmq.SUB)
        s.linger = 0
        s.connect(f"tcp://{self.k.info['ip']}:{self.k.info['iopub_port']}")
        s.subscribe(b"")
        self.assertTrue(s.poll(1000 * kernel.TIMEOUT))
        frames = s.recv_multipart()
        self.assertEqual(json.loads(frames[3])["msg_type"], "iopub_welcome")
        self.assertEqual((json.loads(frames[4]), json.loads(frames[6])), ({}, {"subscription": ""}))
        s.close()

    def test_history(self):
        self.k.run("hist_one = 1\nhist_one")
        self.k.run("hist_one + 41")
        self.k.run("hidden", store_history=False)
        ask = lambda **q: self.k.reply(self.c.history(**q))["content"]["history"]
        tail = ask(hist_access_type="tail", n=2, output=True)
        self.assertEqual([t[2] for t in tail], [["hist_one = 1\nhist_one", "1"], ["hist_one + 41", "42"]])
        session, line = tail[0][:2]
        self.assertEqual(len(ask(hist_access_type="range", session=0, start=line, stop=line + 2)), 2)
        self.assertEqual([t[2] for t in ask(hist_access_type="range", session=session, start=line, stop=line + 1)], ["hist_one = 1\nhist_one"])
        self.assertEqual(len(ask(hist_access_type="search", pattern="hist_one + 4?")), 1)
        self.assertEqual(ask(hist_access_type="search", pattern="zzz*"), [])

    def test_magics(self):
        self.assertRegex(self.k.text("  %time y = 3\ny"), r"^[\d.]+ [mu]?s .*\n3$")
        self.assertRegex(self.k.text("%%time\nz = 4"), r"^\(.*s\)\n$")
        reply, _ = self.k.run("%%time\n1 + nothing_here")
        self.assertRegex(reply["traceback"][0], r":2:5:")
        self.assertEqual(self.k.text("(7\n% 2)"), "1")

    def test_mode_json(self):
        self.assertEqual(self.k.text('set mode json\nprint(1, "a")\nset mode table'), '1\n"a"\n')


class Lives(unittest.TestCase):
    """Beginnings and ends."""

    def test_shutdown_and_restart(self):
        for restart in (False, True):
            with kernel.Kernel() as k:
                k.begun(k.client.execute("while true { x = 1 }" if restart else "1"))
                m = k.client.session.msg("shutdown_request", {"restart": restart})
                k.client.control_channel.send(m)
                reply = k.client.get_control_msg(timeout=kernel.TIMEOUT)
                self.assertEqual(reply["content"], {"status": "ok", "restart": restart})
                self.assertEqual(k.ends(), 0)

    def test_shutdown_on_shell(self):
        with kernel.Kernel() as k:
            m = k.client.session.msg("shutdown_request", {"restart": False})
            k.client.shell_channel.send(m)
            self.assertEqual(k.reply(m["header"]["msg_id"])["content"], {"status": "ok", "restart": False})
            self.assertEqual(k.ends(), 0)

    def test_quit(self):
        with kernel.Kernel() as k:
            reply, _ = k.run("quit")
            self.assertEqual([p["source"] for p in reply["payload"]], ["ask_exit"])
            self.assertEqual(k.ends(), 0)

    def test_terminate(self):
        with kernel.Kernel() as k:
            k.process.send_signal(signal.SIGTERM)
            self.assertEqual(k.ends(), 0)

    def test_orphan_ends(self):
        script = f"import subprocess, sys, os, time; p = subprocess.Popen([{kernel.DLSH!r}, 'kernel', 'run', sys.argv[1]], env=dict(os.environ, JPY_PARENT_PID=str(os.getpid()))); print(p.pid, flush=True); time.sleep(60)"
        with kernel.Kernel(argv=[sys.executable, "-c", script]) as k:
            pid = int(k.read_log().split()[0])
            self.assertEqual(k.text("1"), "1")
            k.process.kill()
            k.process.wait()
            end = time.monotonic() + kernel.TIMEOUT
            while time.monotonic() < end and lives(pid):
                time.sleep(0.05)
            self.assertFalse(lives(pid), "the orphan lives on")

    def test_ipc_and_no_key(self):
        with kernel.Kernel(transport="ipc", ip=str(kernel.HOME / "s"), key="") as k:
            self.assertEqual(k.text("6 * 7"), "42")

    def test_two_kernels_on_one_database(self):
        env = {"DLSH_DB": str(kernel.HOME / "shared.db")}
        code = 'seed 1\nd = dataset("digits")\nnet m {{ flatten -> linear 10 }}\nt = trainer(m, d, opt=sgd(lr=0.1), batch=32, name="{}")\nstep t 50;'
        with kernel.Kernel(env=env) as a, kernel.Kernel(env=env) as b:
            ids = [(k, k.client.execute(code.format(name))) for k, name in ((a, "one"), (b, "two"))]
            for k, msg_id in ids:
                content = k.reply(msg_id)["content"]
                self.assertEqual(content["status"], "ok", content)
            for k in (a, b):
                self.assertIn("2", k.text('sql "select count(*) as n from run"'))


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
