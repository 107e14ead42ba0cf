"""The debug adapter on the control channel: breakpoints in cells and files, steps over statements and nodes, the stack, variables,
expressions, what happens when the client or the kernel goes away."""
import sys
import unittest

sys.path.insert(0, "tests/support")
import kernel

LOSS = """fn twice(a) {
    b = a * 2

    return b + 1
}
w = param(tensor([1.0, 2.0]))
t = 0
for i in range(4) {
    t = t + twice(i)
}
l = sum(relu(w * 3))
backward l
done = true
"""


def murmur2(data, seed):
    """MurmurHash2 as JupyterLab computes it."""
    m, mask, n = 0x5bd1e995, 0xffffffff, len(data)
    h = seed ^ n
    at = 0
    while n - at >= 4:
        k = int.from_bytes(data[at:at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
        at += 4
    rest = data[at:]
    for i in range(len(rest) - 1, -1, -1):
        h ^= rest[i] << 8 * i
    if rest:
        h = h * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


class Debugger(unittest.TestCase):
    def setUp(self):
        self.k = kernel.Kernel()
        self.seq = 0
        self.assertTrue(self.k.client.kernel_info(reply=True, timeout=kernel.TIMEOUT)["content"]["debugger"])

    def tearDown(self):
        self.k.__exit__()
        self.k.log.close()

    def send(self, command, **arguments):
        self.seq += 1
        msg = self.k.client.session.msg("debug_request", {"type": "request", "seq": self.seq, "command": command, "arguments": arguments})
        self.k.client.control_channel.send(msg)
        return msg["header"]["msg_id"]

    def answer(self, msg_id):
        while True:
            m = self.k.client.get_control_msg(timeout=kernel.TIMEOUT)
            if m["parent_header"].get("msg_id") == msg_id:
                return m["content"]

    def ask(self, command, **arguments):
        content = self.answer(self.send(command, **arguments))
        self.assertEqual((content["type"], content["command"], content["request_seq"]), ("response", command, self.seq))
        self.assertTrue(content["success"], content)
        return content["body"]

    def refused(self, command, **arguments):
        content = self.answer(self.send(command, **arguments))
        self.assertFalse(content["success"], content)
        return content["message"]

    def event(self, name):
        while True:
            m = self.k.client.get_iopub_msg(timeout=kernel.TIMEOUT)
            if m["msg_type"] == "debug_event" and m["content"]["event"] == name:
                return m["content"]["body"]

    def begin(self, code=LOSS):
        self.ask("initialize", clientID="test", adapterID="dlsh")
        self.ask("attach")
        path = self.ask("dumpCell", code=code)["sourcePath"]
        info = self.ask("debugInfo")
        self.assertEqual((info["isStarted"], info["hashMethod"]), (True, "Murmur2"))
        self.assertEqual(path, f"{info['tmpFilePrefix']}{murmur2(code.encode(), info['hashSeed'])}{info['tmpFileSuffix']}")
        return path

    def breaks(self, path, *lines, **more):
        return [b.get("line") for b in self.ask("setBreakpoints", source={"path": path}, breakpoints=[{"line": n, **more} for n in lines])["breakpoints"]]

    def place(self):
        return [(f["name"].split()[0], f["line"]) for f in self.ask("stackTrace", threadId=1)["stackFrames"]]

    def variables(self, frame=1, scope=0):
        scopes = self.ask("scopes", frameId=frame)["scopes"]
        return {v["name"]: v for v in self.ask("variables", variablesReference=scopes[scope]["variablesReference"])["variables"]}

    def step(self, command):
        self.ask(command, threadId=1)
        self.event("continued")
        self.event("stopped")
        return self.place()

    def finish(self, cell):
        self.ask("continue", threadId=1)
        return self.k.reply(cell)["content"]

    def test_hash(self):
        for text in ("", "a", "ab", "abc", "abcd", "äöü ß 1 + 1\n", LOSS):
            self.begin(text)

    def test_breakpoints_and_steps(self):
        path = self.begin()
        self.assertEqual(self.breaks(path, 3, 9, 14), [4, 9, None])  # an empty line: the next one; behind the end: none
        self.assertEqual(self.breaks(path, 9), [9])
        cell = self.k.client.execute(LOSS)
        self.assertEqual(self.event("stopped")["reason"], "breakpoint")
        self.assertEqual(self.ask("debugInfo")["stoppedThreads"], [1])
        self.assertEqual(self.place(), [("In", 9)])
        self.assertEqual(self.ask("stackTrace", threadId=1)["stackFrames"][0]["source"]["path"], path)
        self.assertEqual(self.step("stepIn"), [("twice", 2), ("In", 9)])
        self.assertEqual({n: v["value"] for n, v in self.variables().items()}, {"a": "0"})
        self.assertEqual(self.step("next"), [("twice", 4), ("In", 9)])
        self.assertEqual(self.variables()["b"]["value"], "0")
        self.assertEqual(self.ask("evaluate", expression="a + 40 + b", frameId=1)["result"], "40")
        self.ask("evaluate", expression="b = 100", frameId=1)
        self.assertEqual(self.variables()["b"]["value"], "100")
        self.assertEqual(self.step("stepOut")[-1], ("In", 9))
        self.assertEqual(self.variables(scope=-1)["t"]["value"], "101")
        self.assertNotIn("b", self.variables(scope=-1))
        self.breaks(path)
        self.assertEqual(self.finish(cell)["status"], "ok")
        self.assertEqual(self.k.text("t"), str(101 + 3 + 5 + 7))

    def test_conditions(self):
        path = self.begin()
        self.breaks(path, 2, condition="a == 2")
        cell = self.k.client.execute(LOSS)
        self.event("stopped")
        self.assertEqual((self.place()[0], self.variables()["a"]["value"]), (("twice", 2), "2"))
        self.assertEqual(self.finish(cell)["status"], "ok")
        self.breaks(path, 2, condition="nobody")  # a wrong condition stops
        cell = self.k.client.execute(LOSS)
        self.event("stopped")
        self.breaks(path)
        self.assertEqual(self.finish(cell)["status"], "ok")

    def test_nodes(self):
        path = self.begin()
        self.breaks(path, 12)
        cell = self.k.client.execute(LOSS)
        self.event("stopped")
        for command in ("stepBack", "reverseContinue"):
            self.assertIn("step into backward", self.refused(command, threadId=1))
        names = [self.step("stepIn")[0]]
        self.assertEqual(self.ask("stackTrace", threadId=1)["stackFrames"][0]["name"], "forward mul")
        node = self.variables(frame=0)
        self.assertEqual(node["op"]["value"], '"mul"')
        for _ in range(4):
            names.append(self.step("next")[0])
        self.assertEqual(names, [("forward", 11)] * 3 + [("backward", 11)] * 2)
        self.assertEqual(self.ask("evaluate", expression="node.op", frameId=0)["result"], '"relu"')
        self.assertEqual(self.ask("evaluate", expression="w.grad", frameId=0)["result"], "none")
        self.assertEqual(self.step("next")[0], ("backward", 11))
        self.assertEqual(self.step("stepBack")[0], ("backward", 11))
        self.assertEqual(self.step("stepOut")[0], ("In", 13))  # the pass is done
        self.assertIn("[3., 3.]", self.ask("evaluate", expression="w.grad", frameId=1)["result"])
        self.assertEqual(self.finish(cell)["status"], "ok")
        self.assertEqual(self.k.text("w.grad.tolist()"), "[3.0, 3.0]")

    def test_values(self):
        self.k.run('r = {a: [1, 2], b: "x"}; x = tensor([[1.0, 2.0]], grad=true); net m { linear 3; relu }')
        self.begin()
        top = {v["name"]: v for v in self.ask("inspectVariables")["variables"]}
        parts = lambda v: {p["name"]: p for p in self.ask("variables", variablesReference=v["variablesReference"])["variables"]}
        fields = parts(top["r"])
        self.assertEqual(fields["b"]["value"], '"x"')
        self.assertEqual([p["value"] for p in parts(fields["a"]).values()], ["1", "2"])
        self.assertEqual(parts(top["x"])["shape"]["value"], "2 items: [1, 2]")
        self.assertEqual(top["m"]["type"], "net")
        parts(top["m"])
        self.assertIn("text/plain", self.ask("richInspectVariables", variableName="x")["data"])
        self.assertIn("not known", self.refused("variables", variablesReference=9999))

    def test_mistakes(self):
        self.begin()
        for command in ("next", "continue", "stackTrace"):
            self.assertIn("nothing stands still", self.refused(command))
        self.assertIn("no command", self.refused("fly"))
        self.send("")
        self.k.client.control_channel.send(self.k.client.session.msg("debug_request", {"seq": "x", "arguments": 3}))
        self.assertIn("not known", self.refused("source", source={"path": "/nowhere"}))
        self.refused("setBreakpoints")
        self.refused("evaluate")
        self.assertIn("nobody", self.refused("evaluate", expression="nobody"))
        path = self.begin()
        self.breaks(path, 9)
        cell = self.k.client.execute(LOSS)
        self.event("stopped")
        self.assertIn("nobody", self.refused("evaluate", expression="nobody", frameId=1))
        self.assertEqual(self.ask("evaluate", expression="i", frameId=1)["result"], "0")
        self.breaks(path)
        self.assertEqual(self.finish(cell)["status"], "ok")

    def test_files(self):
        script = kernel.HOME / "part.dlsh"
        script.write_text("p = 1\nq = p + 1\n")
        self.begin()
        self.assertEqual(self.breaks(str(script.resolve()), 2), [2])
        self.assertEqual(self.ask("source", source={"path": str(script)})["content"], script.read_text())
        cell = self.k.client.execute('read "part.dlsh"')
        self.event("stopped")
        self.assertEqual([line for _, line in self.place()], [2, 1])
        self.assertEqual(self.finish(cell)["status"], "ok")

    def test_errors(self):
        """Stops at the statement that fails, in its function; the error then goes on as it was."""
        code = ("fn inner(a) {\n    b = a + 1\n    return zeros([b]) @ zeros([9])\n}\n"
                "try {\n    inner(1)\n} catch e {\n    c = 1\n}\nc = 2\nx = inner(4)\nc = 3")
        self.assertEqual([f["filter"] for f in self.ask("initialize")["exceptionBreakpointFilters"]], ["raised", "uncaught"])
        self.begin(code)
        self.ask("setExceptionBreakpoints", filters=["raised", "uncaught"])
        cell = self.k.client.execute(code)
        stopped = self.event("stopped")
        self.assertEqual(stopped["reason"], "exception")
        self.assertIn("f32[2], f32[9]", stopped["text"])
        self.assertEqual(self.place(), [("inner", 3), ("In", 6)])
        self.assertEqual({n: v["value"] for n, v in self.variables().items()}, {"a": "1", "b": "2"})
        info = self.ask("exceptionInfo", threadId=1)
        self.assertEqual((info["exceptionId"], info["description"]), ("shape error", stopped["text"]))
        self.refused("evaluate", expression="no_such_name", frameId=1)
        self.ask("setExceptionBreakpoints", filters=["uncaught"])
        self.assertEqual(self.step("continue"), [("inner", 3), ("In", 11)])
        self.assertEqual(self.variables(scope=-1)["c"]["value"], "2")
        reply = self.finish(cell)
        self.assertEqual((reply["status"], reply["ename"]), ("error", "shape error"))
        self.assertIn("f32[5], f32[9]", reply["evalue"])
        self.refused("exceptionInfo", threadId=1)
        self.refused("setExceptionBreakpoints", filters=["some"])
        self.ask("setExceptionBreakpoints", filters=[])
        self.assertEqual(self.k.reply(self.k.client.execute(code))["content"]["status"], "error")

    def test_pause_interrupt_leave(self):
        self.begin()
        self.assertEqual(self.k.reply(self.k.client.execute("n = 0"))["content"]["status"], "ok")  # before any pause
        cell = self.k.client.execute("while n >= 0 {\n    n = n + 1\n}")
        self.k.begun(cell)
        self.ask("pause", threadId=1)
        self.assertEqual(self.event("stopped")["reason"], "pause")
        self.ask("evaluate", expression="n = -5", frameId=1)
        self.assertEqual(self.finish(cell)["status"], "ok")
        path = self.begin()
        self.breaks(path, 9)
        cell = self.k.client.execute(LOSS)
        self.event("stopped")
        self.k.client.control_channel.send(self.k.client.session.msg("interrupt_request", {}))
        self.assertEqual(self.k.reply(cell)["content"]["status"], "error")
        cell = self.k.client.execute(LOSS)
        self.event("stopped")
        self.ask("disconnect")
        self.assertEqual(self.k.reply(cell)["content"]["status"], "ok")
        self.assertEqual(self.ask("debugInfo")["breakpoints"], [])

    def test_end_while_stopped(self):
        path = self.begin()
        self.breaks(path, 9)
        self.k.client.execute(LOSS)
        self.event("stopped")


if __name__ == "__main__":
    unittest.main()
