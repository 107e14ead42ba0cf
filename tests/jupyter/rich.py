"""What cells show beside text: forms of values, tables, pictures, plots and graphs; training as one display."""
import base64
import json
import re
import shutil
import struct
import sys
import time
import unittest
import xml.etree.ElementTree as ET
import zlib

sys.path.insert(0, "tests/support")
import kernel

SETUP = '''seed 1
d = dataset("digits", n=640, test=64)
net m { conv 4 k=3 -> relu -> conv 6 k=3 -> maxpool 4 -> flatten -> head: linear 10 }
t = trainer(m, d, opt=adam(lr=1e-3), batch=64)
step t;'''
# a cell, and the forms of each thing it displays
VALUE = "application/vnd.dlsh.value+json"
FORMS = [
    ("1 + 1", [{"text/plain", VALUE}]),
    ('"a"', [{"text/plain", VALUE}]),
    ("tensor(2.5)", [{"text/plain", VALUE}]),
    ("randn(3, 4)", [{"text/plain", "text/html", VALUE}]),
    ("zeros(1000, 1000)", [{"text/plain", "text/html", VALUE}]),
    ("randn(2, 3) > 0", [{"text/plain", "text/html", VALUE}]),
    ("[1, 2.5, none]", [{"text/plain", "application/json"}]),
    ("[zeros(1000, 1000)]", [{"text/plain"}]),
    ('record(a=1, b="<x>")', [{"text/plain", "application/json"}]),
    ("zeros(2, 2)\nones(3)", [{"text/plain", "text/html", VALUE}, {"text/plain", "text/html", VALUE}]),
    ("img d n=3", [{"text/plain", "text/html", "image/png"}]),
    ("img m.conv1.weight", [{"text/plain", "image/png"}]),
    ("img randn(3, 8, 8)", [{"text/plain", "image/png"}]),
    ("stat m.head.weight", [{"text/plain", "text/html"}]),
    ("show m", [{"text/plain", "text/html", VALUE}]),
    ("runs", [{"text/plain", "text/html", VALUE}]),
    ("graph t", [{"text/plain", "image/svg+xml", "text/html"}]),
    ("fn (x) { return x }", [{"text/plain"}]),
]
DRAWN = [("hist randn(100)", [{"text/plain", "image/svg+xml", "text/html"}]),
         ("losses = [3.0, 2, 1.5]; plot losses", [{"text/plain", "image/svg+xml", "text/html"}])]


def shown(out):
    return [c for t, c in out if t in ("execute_result", "display_data")]


class Rich(kernel.OneKernel):
    ENV = {"DLSH_DB": str(kernel.HOME / "rich.db")}
    SETUP = SETUP

    def cell(self, code):
        reply, out = self.k.run(code)
        self.assertEqual(reply["status"], "ok", (code, reply))
        return out

    def read(self, data):
        """Every form must be what its type says."""
        self.assertTrue(data["text/plain"])
        for form, content in data.items():
            if form == "text/html":
                ET.fromstring(f"<all>{content}</all>")
            elif form == "image/svg+xml":
                self.assertTrue(ET.fromstring(content).tag.endswith("}svg"))
            elif form == "image/png":
                self.assertEqual(base64.b64decode(content)[:8], b"\x89PNG\r\n\x1a\n")
            elif form == "application/json":
                self.assertIsInstance(content, (dict, list))

    def test_forms(self):
        for code, wanted in FORMS:
            with self.subTest(code):
                got = [c["data"] for c in shown(self.cell(code))]
                self.assertEqual([set(data) for data in got], wanted)
                for data in got:
                    self.read(data)

    def test_gnuplot(self):
        for code, wanted in DRAWN:
            reply, out = self.k.run(code)
            if reply["status"] != "ok" and "gnuplot" in reply["evalue"]:
                self.skipTest("no gnuplot")
            got = [c["data"] for c in shown(out)]
            self.assertEqual([set(data) for data in got], wanted)
            for data in got:
                self.read(data)

    def size(self, out):
        """Width, height and channels of the first picture a cell shows, and its bytes."""
        data = base64.b64decode(shown(out)[0]["data"]["image/png"])
        width, height, _, kind = struct.unpack(">IIBB", data[16:26])
        return width, height, {4: 2, 6: 4}[kind], data

    def picture(self, code):
        """The picture as rows of pixels."""
        width, height, channels, data = self.size(self.cell(code))
        rows = zlib.decompress(data[data.index(b"IDAT") + 4:-16])
        step = width * channels
        return [[tuple(rows[y * (step + 1) + 1 + x * channels:y * (step + 1) + 1 + (x + 1) * channels]) for x in range(width)] for y in range(height)]

    def test_pictures(self):
        pixels = self.picture("img tensor([[1.0, 1/0], [0/0, 0.5]])")
        side = len(pixels) // 2
        red = (0xe0, 0x52, 0x4a, 255)
        self.assertEqual([pixels[y * side][x * side] for y in (0, 1) for x in (0, 1)], [(255, 255, 255, 255), red, red, (0, 0, 0, 255)])
        pixels = self.picture("img (tensor([[1e308, -1e308]], dtype=\"f64\"))")
        self.assertEqual((pixels[0][0], pixels[0][-1]), ((255, 255), (0, 255)))
        self.assertEqual(self.size(self.cell("img rand(600, 900)"))[:2], (900, 600))
        for code, note in (("img rand(300, 8, 8)", "the first 256 of 300 pictures\n"), ("img rand(20, 600, 900)", "the first 7 of 20 pictures\n")):
            self.assertEqual([c["text"] for t, c in self.cell(code) if t == "stream"], [note])
        self.assertEqual([t for t, _ in self.cell("img rand(256, 8, 8)")], ["display_data"])
        width, height, *_ = self.size(self.cell("img randn(4, 512, 3, 3)"))  # not one row of all channels, which would be too small to see
        self.assertLess(width, 3 * height)
        self.assertIn("at most 2048", self.k.run("img zeros(3000, 10)")[0]["evalue"])

    def test_the_graph_of_a_deep_net_is_upright(self):
        net = "net deep { repeat %d { residual { linear 8 -> relu -> linear 8 } } -> linear 3 }\ny = deep(randn(2, 8)).sum()\ngraph y"
        width = lambda n: float(ET.fromstring(self.svg(net % n)).get("width"))
        self.assertLess(width(20), 1.1 * width(3))

    def svg(self, code):
        data = shown(self.cell(code))[0]["data"]
        self.read(data)
        return data["image/svg+xml"]

    @unittest.skipUnless(shutil.which("gnuplot"), "no gnuplot")
    def test_plots(self):
        self.assertLess(len(self.svg("x = randn(1000000); plot x")), 300000)  # a page could not hold all points
        whole, thin = self.svg("x = arange(4000) * 0.001; y = sin(x); plot y x=x"), self.svg("x = arange(40000) * 0.0001; y = sin(x); plot y x=x")
        texts = lambda svg: [e.text or "" for e in ET.fromstring(svg).iter() if not e.tag.endswith(("}title", "}desc"))]
        self.assertEqual([t.strip() for t in texts(whole)], [t.strip() for t in texts(thin)])  # the same axes
        spike = self.svg("x = zeros(100000); x[77777] = 5; plot x")
        self.assertIn("5", [t.strip() for t in texts(spike)])
        # points between NaN are not a line, but they are there
        dots = lambda svg: svg.count("#gpPt6")
        self.assertEqual(dots(self.svg("a = [1.0, 2, 3]; plot a")), 0)
        self.assertEqual(dots(self.svg("a = [1.0, 0/0, 3, 1/0, 2, -1/0, 4]; plot a")), 4)
        self.assertEqual(dots(self.svg("a = [1.0, 0.1, 0, 1e-8]; plot a logy")), 1)
        self.assertEqual(dots(self.svg("a = [3.0]; plot a")), 2)  # itself, and in the key
        self.assertIn("value (left out: NaN 1, Inf 1)", self.svg("hist tensor([0/0, 1/0, 1.0, 2.0])"))
        for label, code in (("index", "a = [1.0, 2]; plot a"), ("when", "a = [1.0, 2]; when = [3, 4]; plot a x=when")):
            self.assertIn(label, [t.strip() for t in texts(self.svg(code))])

        for names, code in (({"index", "a"}, "a = [1.0, 2]; plot a"), ({"index", "value"}, "a = [1.0, 2]; b = [3, 4]; plot a b"),
                            ({"step", "train/loss"}, "plot loss"), ({"value", "count"}, "hist rand(9)")):
            self.assertLessEqual(names, {t.strip() for t in texts(self.svg(code))})

    def test_pictures_say_what_they_show(self):
        """In words, for who cannot see them."""
        codes = ["graph t", "img d n=3", "img zeros(2, 8, 8)", "randn(5)", 'img zeros(2, 1, 8, 8) captions=["one", "<two>"]', "train t epochs=1"]
        if shutil.which("gnuplot"):
            codes += ["plot loss", "hist randn(100)"]
        for code in codes:
            content = [c for t, c in self.cell(code) if t in ("execute_result", "display_data", "update_display_data")][-1]
            data = content["data"]
            for tag in re.findall(r"<img\b[^>]*>", data.get("text/html", "")):
                self.assertRegex(tag, r' alt="[^"]+', code)
            if "image/svg+xml" in data:
                root = ET.fromstring(data["image/svg+xml"])
                title = root.find("{http://www.w3.org/2000/svg}title")
                self.assertEqual((root.get("role"), root.get("aria-label")), ("img", title.text), code)
                self.assertNotIn("Gnuplot", title.text)
            if "image/png" in data:
                self.assertIn("picture", content["metadata"]["image/png"]["alt"])
        self.assertIn("&lt;two&gt;", shown(self.cell(codes[4]))[0]["data"]["text/html"])
        self.assertIn("one for each", self.k.run('img zeros(2, 1, 8, 8) captions=["one"]')[0]["evalue"])
        for given in ("[3, 0.5]", "tensor([3, 1])", 'tensor([3.0, 0.5])'):
            self.assertIn('alt="3', shown(self.cell(f"img zeros(2, 1, 8, 8) captions={given}"))[0]["data"]["text/html"])

    def test_warnings_are_no_errors(self):
        out = self.cell("seed_of = 1\nsum = 4\nC { int warned(void) { int x; return x; } }")
        self.assertEqual({t for t, _ in out}, {"display_data"}, out)
        data = shown(out)[-1]["data"]
        self.assertIn("warning: C: ", data["text/plain"])
        self.assertIn("font-family:monospace", data["text/html"])  # the mark is below the text that it points to
        self.assertNotIn("\033", data["text/plain"])
        self.assertEqual(ET.fromstring(data["text/html"]).get("role"), "note")

    def test_tensors_are_whole_up_to_the_threshold(self):
        cells = lambda code: shown(self.cell(code))[0]["data"]["text/html"].count("<td")
        self.assertEqual([cells("rand(28, 28)"), cells("rand(40, 1)"), cells("rand(40)")], [784, 40, 40])
        self.assertLess(cells("rand(40, 40)"), 60)

    def test_json_is_the_value(self):
        data = shown(self.cell("record(a=[1, 2], b=none)"))[0]["data"]
        self.assertEqual(data["application/json"], {"a": [1, 2], "b": None})
        value = lambda code: shown(self.cell(code))[0]["data"][VALUE]
        self.assertEqual([value("1 + 1"), value('"ü"'), value("1 < 2"), value("none"), value("tensor(2.5)")], [2, "ü", True, None, 2.5])
        self.assertEqual(value("tensor([[1, 2], [3, 4]])"), {"shape": [2, 2], "dtype": "i64", "device": "cpu", "data": [[1, 2], [3, 4]]})
        large = value("ones(1000, 2000)")
        self.assertEqual((large["shape"], large["dtype"], large["numel"]), ([1000, 2000], "f32", 2000000))
        self.assertEqual({k: large["figures"][k] for k in ("mean", "std", "min", "max", "zeros", "nan")},
                         {"mean": 1, "std": 0, "min": 1, "max": 1, "zeros": 0, "nan": 0})
        runs = value("runs")
        self.assertEqual(len(runs["rows"]), runs["total"])
        self.assertIn("status", runs["rows"][0])

    def test_json_for_programs(self):
        """What user_expressions ask for is not shown, so its JSON has the plain name."""
        reply, _ = self.k.run("", user_expressions={"a": "6 * 7", "b": "zeros(2)", "c": "[1]"})
        got = {k: v["data"]["application/json"] for k, v in reply["user_expressions"].items()}
        self.assertEqual((got["a"], got["b"]["data"], got["c"]), (42, [0, 0], [1]))

    def test_svg_in_html_is_the_svg(self):
        data = shown(self.cell("graph t"))[0]["data"]
        coded = ET.fromstring(data["text/html"]).get("src").removeprefix("data:image/svg+xml;base64,")
        self.assertEqual(base64.b64decode(coded).decode(), data["image/svg+xml"])

    def test_training_is_one_display(self):
        out = self.cell("train t epochs=3")
        first = [c for t, c in out if t == "display_data"]
        updates = [c for t, c in out if t == "update_display_data"]
        self.assertEqual(len(first), 1)
        self.assertGreaterEqual(len(updates), 1)  # at least the end
        self.assertEqual({c["transient"]["display_id"] for c in first + updates}, {first[0]["transient"]["display_id"]})
        for c in first + updates:
            self.read(c["data"])
        last = updates[-1]["data"]
        self.assertIn("samples/s", last["text/html"])
        self.assertEqual(last["text/plain"].count("epoch "), 3)
        # the next training has a display of its own
        again = [c for t, c in self.cell("train t steps=2") if t == "display_data"]
        self.assertNotEqual(again[0]["transient"]["display_id"], first[0]["transient"]["display_id"])

    def test_short_epochs_are_not_drawn_one_by_one(self):
        start = time.monotonic()
        out = self.cell("net one { flatten -> linear 10 }; s = trainer(one, dataset(\"digits\", n=8, test=8), opt=sgd(lr=1e-3), batch=8)\ntrain s epochs=100")
        shown = [c for t, c in out if t in ("display_data", "update_display_data")]
        self.assertLess(len(shown), 10 * (time.monotonic() - start) + 5)
        self.read(shown[-1]["data"])
        self.assertIn("88 more", shown[-1]["data"]["text/plain"])
        self.assertIn("epoch 100/100", shown[-1]["data"]["text/plain"])

    def test_after_a_failed_training(self):
        """A display that was left in the middle is not taken up by the next cell."""
        reply, out = self.k.run('u = trainer(m.copy(), d, opt=sgd(lr=1e9), batch=64); train u epochs=5')
        self.assertEqual(reply["status"], "error")
        left = [c["transient"]["display_id"] for t, c in out if t == "display_data" and "display_id" in c["transient"]][-1]
        new = [c for t, c in self.cell("train t steps=3") if t == "display_data"]
        self.assertEqual(len(new), 1)
        self.assertNotEqual(new[0]["transient"]["display_id"], left)
        self.assertNotIn("epoch", new[0]["data"]["text/plain"])

    def final(self, out):
        """The last state of the display of a training that did not come to its end."""
        last = [c for t, c in out if t in ("display_data", "update_display_data") and c["transient"].get("display_id")][-1]["data"]
        self.read(last)
        self.assertNotIn("eta", last["text/html"] + last["text/plain"])
        return re.sub(r"\x1b\[[0-9;]*m", "", last["text/plain"]).splitlines(), re.search(r">([^<>]* after step \d+)</b>", last["text/html"])[1]

    def test_a_failed_training_says_so(self):
        code = """fn bad(i) { if i > 25 { return [] }
    return 0.01 }
u = trainer(m.copy(), d, opt=sgd(lr=1e-2), batch=64, schedule=bad)
train u epochs=5"""
        reply, out = self.k.run(code)
        self.assertEqual(reply["status"], "error")
        text, note = self.final(out)
        self.assertRegex(note, r"^failed after step \d+$")
        self.assertEqual(text[-1], note)
        self.assertEqual([line.split()[1] for line in text[:-1]], ["1/5", "2/5", "3/5"])

    def test_an_interrupted_training_says_so(self):
        k = self.k
        msg_id = k.client.execute("train t epochs=100000")
        k.until(msg_id, lambda m: "loss" in m["content"].get("data", {}).get("text/plain", ""))
        k.press()
        out = [(m["msg_type"], m["content"]) for m in k.outputs(msg_id)]
        self.assertEqual(k.reply(msg_id)["content"]["ename"], "interrupted")
        text, note = self.final(out)
        self.assertEqual(note, f"interrupted after step {k.text('t.step').strip()}")
        self.assertEqual(text[-1], note)
        self.assertIn("loss", text[-2])

    def test_tables_of_runs(self):
        data = shown(self.cell("runs"))[0]["data"]
        table = ET.fromstring(f"<all>{data['text/html']}</all>")
        self.assertIn("status", [e.text for e in table.iter("th")])

    def test_tables_follow_each_other(self):
        """The line between them at the prompt would be an output of its own."""
        self.cell('o = trainer(m.copy(), d, opt=sgd(lr=0.01), batch=64); step o;')
        self.assertEqual([t for t, _ in self.cell("compare 1 2")], ["display_data"] * 2)
        out = self.cell("run show 1")
        self.assertEqual([t for t, _ in out], ["stream", "display_data"])
        self.assertFalse(out[0][1]["text"].endswith("\n\n"))

    def test_modes_for_programs(self):
        out = self.cell("set mode json\nzeros(2)\nset mode table")
        self.assertEqual(shown(out), [])
        printed = "".join(c["text"] for t, c in out if t == "stream")
        self.assertEqual(json.loads(printed)["data"], [0.0, 0.0])

    def test_large_tensors_are_short(self):
        data = shown(self.cell("randn(100, 100, 100)"))[0]["data"]
        self.assertLess(len(data["text/html"]), 60000)
        self.assertIn("and 94 more", data["text/html"])


if __name__ == "__main__":
    kernel.install()
    unittest.main(verbosity=2)
