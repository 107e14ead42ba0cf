"""Random interrupts of random cells: the kernel lives, no variable is lost or half changed, nothing comes behind idle, nothing
printed is missing. interrupts.py [ROUNDS [SEED]]: 60, and a seed by the clock; 1000 for a long test."""
import os
import random
import signal
import sys
import time

sys.path.insert(0, "tests/support")
import kernel

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())

SETUP = """seed 1
a = 0; b = 0; printed = 0; steps = 0
d = dataset("digits")
net m { flatten -> linear 16 -> relu -> linear 10 }
t = trainer(m, d, opt=adam(lr=1e-3), batch=32)
step t;
w = param(randn(64, 64))
fn deep(n) { if n == 0 { return 0 }
    return 1 + deep(n - 1) }
extern "libc.so.6" { int puts(const char *s); int usleep(unsigned us); }
C { #include <stdlib.h>
    int spin(void) { for (volatile long x = 0;; x++) ; return 0; }
    int sort(int n, int (*f)(const void *, const void *)) { static int p[200]; for (;;) qsort(p, n, sizeof *p, f); return 0; } }"""
CELLS = {
    "loop": "while true { a = a + 1; b = a }",
    "printing": "while true { printed = printed + 1; print(printed) }",
    "training": "train t epochs=100000",
    "backward": "while true { l = sum(tanh(w @ w)); backward l; w.grad = none }",
    "recursion": "while true { deep(200) }",
    "products": "x = randn(200, 200)\nwhile true { x = x @ x / 15 }",
    "C": "while true { usleep(1000) }",
    "C loop": "spin()",
    "C callback": "sort(200, fn (x, y) { return 1 })",
    "C printing": 'while true { printed = printed + 1; puts(format("%d", printed)) }',
    "lines": "\n".join("a = a + 1; b = a" for _ in range(3000)),
}

if not kernel.C_IS_INTERRUPTED:
    del CELLS["C loop"]


def interrupt(k, by_message):
    if by_message:
        k.press()
        while k.client.get_control_msg(timeout=kernel.TIMEOUT)["msg_type"] != "interrupt_reply":
            pass
    else:
        os.kill(k.process.pid, signal.SIGINT)


def until_idle(k, msg_id, done):
    """The text printed by the request. Nothing may come for one that is done."""
    text = ""
    while True:
        m = k.client.get_iopub_msg(timeout=kernel.TIMEOUT)
        parent = m["parent_header"].get("msg_id")
        assert parent not in done, f"{m['msg_type']} behind idle"
        if parent != msg_id:
            continue
        if m["msg_type"] == "stream":
            text += m["content"]["text"]
        if m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
            done.add(msg_id)
            return text


def wait(k, msg_id, signals, pick):
    """The reply. An interrupt that came before the cell began counts for nothing, as anywhere; then another is sent."""
    while True:
        try:
            return k.reply(msg_id, 0.4)["content"]
        except Exception as e:
            if type(e).__name__ != "Empty":
                raise
            interrupt(k, pick.random() < 0.5)
            signals.append(1)


def main():
    pick, done, again, stopped = random.Random(SEED), set(), [], 0
    last = 0
    with kernel.Kernel() as k:
        reply, _ = k.run(SETUP)
        assert reply["status"] == "ok", reply
        for i in range(ROUNDS):
            name = pick.choice(list(CELLS))
            msg_id = k.client.execute(CELLS[name])
            time.sleep(pick.choice((0, pick.random() * 0.003, pick.random() * 0.05)))
            interrupt(k, pick.random() < 0.5)
            content = wait(k, msg_id, again, pick)
            text = until_idle(k, msg_id, done)
            ok = name == "lines" and content["status"] == "ok"
            assert ok or content["ename"] == "interrupted", (name, content)
            stopped += not ok
            if "printing" in name:
                numbers = [int(n) for n in text.split()]
                assert numbers == list(range(last + 1, last + 1 + len(numbers))), f"{name}: a line is missing"
                state = int(k.text("printed"))
                assert state - last - len(numbers) in (0, 1), (state, last, len(numbers))  # stopped before it printed
                last = state
            a, b = (int(n) for n in k.text('print(a, b)').split())
            assert a - b in ((0, 1) if name == "lines" else (0,)), (a, b)
            if a != b:
                k.run("b = a")
            assert k.text("x = m.linear0.weight\nsum(x != x).item()") == "0", "a weight is NaN"
            assert k.process.poll() is None, k.read_log()
            if i % 100 == 99:
                print(f"{i + 1} rounds", flush=True)
        step = int(k.text("t.step"))
        assert k.run("step t 2")[0]["status"] == "ok" and int(k.text("t.step")) == step + 2
    print(f"{ROUNDS} rounds (seed {SEED}): {stopped} cells stopped, {len(again)} interrupts came before their cell")


if __name__ == "__main__":
    main()
