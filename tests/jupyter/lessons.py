"""Lessons as notebooks: a client that answers no questions runs each to its end, and one that does gets hints and praise.
The doctor reads cells together as one text."""
import subprocess
import sys
import unittest

sys.path.insert(0, "tests/support")
import kernel

try:
    import nbclient
    import nbformat
except ImportError as e:
    print(f"skipped: {e} (Debian: python3-nbclient, python3-nbformat)")
    sys.exit(77)

LESSONS = 10
# of the cells of a lesson that ask, what is typed, and what is said to it besides "right"
TYPED = [(["2, 3", "3", "2 * x"], "that is the shape of what was broadcast"), (["3", "2, 2, 2"], ""),
         (["3", "sum(x, dim=1)", "sum(x, dim=0)"], "your shape is [2]"), (["12", "21"], "not yet"), (["[2, 1]", "[[6], [15]]"], "")]
ASKING = 4


def notebook(lesson):
    path = kernel.HOME / f"lesson-{lesson}.ipynb"
    subprocess.run([kernel.DLSH, "-n", "-c", f'lesson {lesson} out="{path}"'], check=True, stdout=subprocess.DEVNULL)
    return nbformat.read(path, 4)


class Lessons(kernel.OneKernel):
    def test_nobody_answers(self):
        for lesson in range(1, LESSONS + 1):
            for cell in notebook(lesson).cells:
                if cell.cell_type == "code":
                    reply, _ = self.k.run(cell.source, allow_stdin=False)
                    self.assertEqual(reply["status"], "ok", f"lesson {lesson}: {cell.source}: {reply}")

    def test_typed_answers(self):
        typed = iter(TYPED)
        for cell in notebook(ASKING).cells:
            if cell.cell_type != "code":
                continue
            answers, hint = next(typed) if "predict" in cell.source else ([], "")
            msg_id = self.c.execute(cell.source, allow_stdin=True)
            for answer in answers:
                self.k.asked()
                self.c.input(answer)
            said = "".join(m["content"]["text"] for m in self.k.outputs(msg_id) if m["msg_type"] == "stream")
            self.assertEqual(self.k.reply(msg_id)["content"]["status"], "ok")
            self.assertIn(hint, said)
            self.assertEqual("right" in said, bool(answers), said)
        self.assertIsNone(next(typed, None))

    def test_doctor_reads_cells_together(self):
        loop = "for i in range(30) {\n    %sl = cross_entropy(m(x), y)\n    backward l\n    o.step()\n}"
        for cell in ("seed 12; x = randn(64, 6); y = argmax(x[:, :3], dim=1)", "net m { linear 12 -> relu -> linear 3 }",
                     "m(x);\no = sgd(m, lr=0.05)", loop % ""):
            self.k.text(cell)
        self.assertRegex(self.k.text("doctor"), r"gradients are not zeroed(.*\n)*.*line +In \[\d+\]:3  backward l")
        self.k.text(loop % "o.zero_grad(); ")  # the cell, changed and run again
        self.assertIn("PASS  gradients are zeroed: each of 30 steps", self.k.text("doctor"))


if __name__ == "__main__":
    kernel.install()
    unittest.main()
