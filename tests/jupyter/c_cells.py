"""C in notebooks: what it prints comes in order, %%c with errors at the cell's lines, questions by scanf, interrupts, crashes."""
import os
import re
import signal
import sys
import time
import unittest

sys.path.insert(0, "tests/support")
import kernel

HELLO = '%%c\n#include <stdio.h>\nint hello(int n) {\n    printf("hello %d\\n", n);\n    return n;\n}'

ENDLESS = """%%c
#include <stdio.h>
#include <stdlib.h>
static int cmp(const void *a, const void *b) { return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b); }
static int numbers[1 << 20];
int spin(void) { for (volatile long x = 0;; x++) ; return 0; }
int sort_c(void) {
    for (;;) {
        for (int i = 0; i < 1 << 20; i++) numbers[i] ^= rand();
        qsort(numbers, 1 << 20, sizeof(int), cmp);
    }
    return 0;
}
int sort(int n, int (*f)(const void *, const void *)) { for (;;) qsort(numbers, n, sizeof(int), f); return 0; }
int complain(void) { for (long i = 0;; i++) fprintf(i % 500 ? stderr : stdout, "%ld\\n", i); return 0; }
int shout(void) { for (long i = 0;; i++) printf("%ld\\n", i); return 0; }"""

BOTH = """%%c
#include <stdio.h>
void both(int n) {
    for (int i = 0; i < n; i++) {
        printf("out %d\\n", i);
        fprintf(stderr, "err %d\\n", i);
        fprintf(stderr, "again %d\\n", i);
    }
}
void warn(int i) { fprintf(stderr, "err %d\\n", i); }
static void fill(FILE *f, int c) {
    static char line[3000001];
    for (int i = 0; i < 3000000; i++) line[i] = c;
    line[3000000] = 10;
    fwrite(line, 1, sizeof line, f);
}
void large(int n) {
    for (int i = 0; i < n; i++) {
        fill(stdout, 'o');
        fill(stderr, 'e');
    }
}"""


class Shared(kernel.OneKernel):
    SETUP = 'extern "libc.so.6" { int puts(const char *s); int printf(const char *fmt, ...); int getchar(void); int usleep(unsigned us); }'


class Prototypes(Shared):
    def test_order_with_the_language(self):
        _, out = self.k.run('print("a")\nputs("b");\nprint("c")\nprintf("d %d\\n", 7);\n[1]\nputs("e");\nprint("f", err=true)\nputs("g");\n3')
        kinds = [(t, c.get("text") or c["data"]["text/plain"]) for t, c in out]
        self.assertEqual(kinds, [("stream", "a\nb\nc\nd 7\n"), ("display_data", "[1]"), ("stream", "e\n"), ("stream", "f\n"), ("stream", "g\n"),
                                 ("execute_result", "3")])

    def test_order_of_stdout_and_stderr(self):
        """Exact for all that goes through stdio, within one call of C, and with what the language prints."""
        self.k.run(BOTH)
        _, out = self.k.run("both(50)")
        self.assertEqual([(c["name"], c["text"]) for t, c in out if t == "stream"],
                         [s for i in range(50) for s in (("stdout", f"out {i}\n"), ("stderr", f"err {i}\nagain {i}\n"))])
        _, out = self.k.run('for i in range(30) { print("a", i); warn(i); print("b", i) }')
        text = "".join(c["text"] for t, c in out if t == "stream")
        self.assertEqual(text, "".join(f"a {i}\nerr {i}\nb {i}\n" for i in range(30)))
        _, out = self.k.run("large(3)")  # more than pipes and buffers hold
        text = "".join(c["text"] for t, c in out if t == "stream")
        self.assertEqual(text, "".join(c * 3000000 + "\n" for c in "oeoeoe"))

    def test_a_forked_child_prints(self):
        """It has the streams and not the threads of the kernel."""
        self.k.run("""%%c
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int child(void) {
    int status;
    for (int i = 0; i < 300; i++) printf("%0999d\\n", i);
    pid_t p = fork();
    if (!p) {
        fprintf(stderr, "from the child\\n");
        _exit(7);
    }
    waitpid(p, &status, 0);
    return WEXITSTATUS(status);
}""")
        reply, out = self.k.run("child()")
        self.assertEqual((reply["status"], out[-1][1]["data"]["text/plain"]), ("ok", "7"))
        self.assertIn("from the child\n", [c.get("text") for _, c in out])

    def test_exit_is_told(self):
        with kernel.Kernel() as k:
            k.run("%%c\n#include <stdio.h>\n#include <stdlib.h>\nint leave(void) { printf(\"last words\"); exit(3); }")
            reply, out = k.run("leave()")
            self.assertEqual([t for t, _ in out], ["stream", "error"])
            self.assertEqual((out[0][1]["text"], reply["ename"], reply["status"]), ("last words", "exit", "error"))
            self.assertIn("exit(3) was called in C", reply["evalue"])
            self.assertEqual(k.ends(), 3)

    def test_closed_descriptors_come_back(self):
        self.k.run("%%c\n#include <unistd.h>\nint shut(int fd) { return close(fd); }")
        for fd in (1, 2):
            self.assertEqual(self.k.text(f"shut({fd})"), "0")
            self.assertEqual(self.k.text('print("out")\nprint("err", err=true)'), "out\nerr\n")
        ticks = lambda: sum(int(n) for n in open(f"/proc/{self.k.process.pid}/stat").read().rsplit(")", 1)[1].split()[11:13])
        before = ticks()
        time.sleep(0.5)
        self.assertLess(ticks() - before, 10, "the kernel computes while nothing runs")

    def test_much_on_stderr(self):
        self.k.run(BOTH)
        watch = self.k.stopwatch()
        _, out = self.k.run("for i in range(50000) { warn(i) }")
        text = "".join(c["text"] for t, c in out if t == "stream")
        self.assertEqual(text, "".join(f"err {i}\n" for i in range(50000)))
        self.assertLess(watch.took(), 20)

    def test_getchar_asks(self):
        msg_id = self.k.client.execute("a = getchar(); b = getchar(); record(a=a, b=b)", allow_stdin=True)
        self.k.asked()
        self.k.client.input("z")
        out = self.k.outputs(msg_id)
        self.k.reply(msg_id)
        self.assertEqual(out[-1]["content"]["data"]["text/plain"], "{a: 122, b: 10}")
        self.assertEqual(self.k.run("getchar()", allow_stdin=False)[1][0][1]["data"]["text/plain"], "-1")

    def test_much_output(self):
        text = self.k.text('for i in range(20000) { printf("%d\\n", i); print(-i) }')
        self.assertEqual(text.split(), [w for i in range(20000) for w in (str(i), str(-i))])

    def test_bytes_that_are_no_text(self):
        text = self.k.text('printf("%c%c ok %c\\n", 195, 40, 255);')
        self.assertEqual(text, "\ufffd( ok \ufffd\n")
        self.assertEqual(self.k.text('for b in [226, 130, 172, 10] { printf("%c", b) }'), "€\n")

    def test_interrupt_in_c(self):
        msg_id = self.k.client.execute("usleep(20000000)\nafter_it = 1")
        self.k.begun(msg_id)
        time.sleep(0.3)
        watch = self.k.stopwatch()
        self.k.press()
        self.assertEqual(self.k.reply(msg_id)["content"]["ename"], "interrupted")
        self.assertLess(watch.took(), 5)
        self.assertEqual(self.k.run("after_it")[0]["ename"], "name error")

    def test_interrupted_in_the_last_call(self):
        """C that returns early from its sleep ends the cell as interrupted, and the cells that wait are not run."""
        first, second = self.k.client.execute("usleep(20000000)"), self.k.client.execute("not_run = 1")
        self.k.begun(first)
        time.sleep(0.3)
        self.k.press()
        replies = [self.k.reply(m)["content"]["ename"] for m in (first, second)]
        self.assertEqual(replies, ["interrupted", "aborted"])


class Blocks(Shared):
    # C that is interrupted frees nothing; in a child that exits, a leak check complains of the kernel's threads
    ENV = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}

    def test_cell(self):
        self.assertEqual(self.k.run(HELLO)[0]["status"], "ok")
        self.assertEqual(self.k.text('print("a")\nhello(1);\nprint("b")'), "a\nhello 1\nb\n")

    def test_options(self):
        self.assertEqual(self.k.run('%%c flags="-DFIVE=5"\nint five(void) { return FIVE; }')[0]["status"], "ok")
        self.assertEqual(self.k.text("five()"), "5")
        self.assertEqual(self.k.run("%%c -lm\nint six(void) { return 6; }")[0]["status"], "error")

    def test_compiler_error_is_at_the_cells_line(self):
        reply, _ = self.k.run("%%c\nint two(void) { return 2; }\nint bad(int n) {\n    return n + nowhere;\n}")
        text = re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(reply["traceback"]))
        self.assertRegex(text, r"In \[\d+\]:4:16: error: .*nowhere")

    def test_scanf(self):
        self.k.run('%%c\n#include <stdio.h>\nint ask(void) { int a = -1, b = -1; printf("two numbers: "); return scanf("%d %d", &a, &b) == 2 ? a + b : -1; }')
        msg_id = self.k.client.execute("ask()", allow_stdin=True)
        for value in ("3", "4"):
            self.k.asked()
            self.k.client.input(value)
        out = [m["content"] for m in self.k.outputs(msg_id)]
        self.k.reply(msg_id)
        self.assertEqual((out[-2]["text"], out[-1]["data"]["text/plain"]), ("two numbers: ", "7"))

    def test_endless_c_is_interrupted(self):
        """By message and by signal: a loop, sorting with a comparison in C, sorting for ever with one in the language, printing."""
        self.k.run(ENDLESS)
        calls = ["sort(1000, fn (a, b) { return 1 })", "shout()", "complain()"]
        if kernel.C_IS_INTERRUPTED:
            calls += ["spin()", "sort_c()"]
        for by in (self.k.press, lambda: os.kill(self.k.process.pid, signal.SIGINT)):
            for call in calls:
                msg_id = self.k.client.execute(call)
                self.k.begun(msg_id)
                time.sleep(0.3)
                watch = self.k.stopwatch()
                by()
                content = self.k.reply(msg_id)["content"]
                took = watch.took()
                self.k.outputs(msg_id)
                self.assertEqual(content["ename"], "interrupted", call)
                self.assertLess(took, 5, call)
        self.assertEqual(self.k.text("1 + 1"), "2")

    def test_a_forked_child_exits(self):
        """It runs the kernel's exit handlers, which leave the kernel, its streams and its client alone."""
        self.k.run("""%%c
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int child(void) {
    int status;
    pid_t p = fork();
    if (!p) exit(4);
    waitpid(p, &status, 0);
    return WEXITSTATUS(status);
}""")
        self.assertEqual(self.k.text('print("before")\nchild()'), "before\n4")
        self.assertEqual(self.k.text("1 + 1"), "2")

    def test_a_crash_is_contained(self):
        self.k.run('%%c\nint crash(void) { volatile int *p = 0; return *p; }')
        reply, _ = self.k.run("crash()")
        self.assertIn("SIGSEGV", reply["evalue"])
        self.assertEqual(self.k.text("1 + 1"), "2")


if __name__ == "__main__":
    unittest.main(verbosity=2, warnings="ignore")
