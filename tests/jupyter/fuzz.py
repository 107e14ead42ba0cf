"""Messages with valid signatures and broken insides, on all channels: the kernel answers or drops them, and lives.
fuzz.py [MESSAGES [SEED]]: 2000, and a seed by the clock."""
import json
import random
import sys
import time

sys.path.insert(0, "tests/support")
sys.path.insert(0, "tests/jupyter")
import kernel
from protocol import Raw, sign

MESSAGES = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else int(time.time())
pick = random.Random(SEED)

CODE = ["1 + 1", "x = randn(3, 4)\nx", 'print("ü 😀", 1)', "help seed", "[1, record(a=none)]", "net m { conv 4 k=3 -> relu }", "m.conv0.weight",
        "fn f(a, b=1) { return a * b }\nf(2)", 'extern "libm.so.6" double cos(double x);\ncos(0)', "for i in range(5) { print(i) }", "zeros(2, 0)",
        "if x { 1 } else {", "%time y = 2", "%%time\n3", "%%c", "a.b.c[1:2, ...]", "try { nothing } catch e { e }", "runs", "show", "\u2028\u200b\u0301", ""]
CONTENT = {
    "execute_request": {"code": "1", "silent": False, "store_history": True, "user_expressions": {"a": "x"}, "allow_stdin": False, "stop_on_error": False},
    "complete_request": {"code": "m.con", "cursor_pos": 5},
    "inspect_request": {"code": "seed", "cursor_pos": 2, "detail_level": 1},
    "is_complete_request": {"code": "for i in x {"},
    "history_request": {"output": True, "raw": True, "hist_access_type": "tail", "session": 0, "start": 0, "stop": 9, "n": 3, "pattern": "*", "unique": True},
    "kernel_info_request": {},
    "comm_info_request": {"target_name": "t"},
    "comm_open": {"comm_id": "c", "target_name": "t", "data": {}},
    "comm_msg": {"comm_id": "c", "data": {}},
    "comm_close": {"comm_id": "c", "data": {}},
    "interrupt_request": {},
    "input_reply": {"value": "v", "status": "ok"},
    "nothing_request": {},
}
CHANNELS = ("shell_port", "control_port", "stdin_port")


def text():
    code = pick.choice(CODE)
    for _ in range(pick.choice((0, 0, 1, 3))):
        other, at, to = pick.choice(CODE), pick.randint(0, len(code)), pick.randint(0, len(code))
        code = code[:at] + pick.choice(("", "\0", "\n", "\t{", other, "\ud800", chr(pick.randint(1, 0x10ffff)))) + code[to:]
    return code if "while" not in code else ""


def value(depth=0):
    kind = pick.randint(0, 9 if depth < 3 else 6)
    if kind <= 2:
        return text()
    if kind <= 4:
        return pick.choice((0, -1, 1, 5, 2**31, -2**63, 2**63, 10**30, 1e308, -0.0, 2.5))
    if kind <= 6:
        return pick.choice((None, True, False, "", "x" * 10000))
    if kind == 7:
        return [value(depth + 1) for _ in range(pick.randint(0, 4))]
    return {text()[:20]: value(depth + 1) for _ in range(pick.randint(0, 4))}


def content(msg_type):
    c = dict(CONTENT[msg_type])
    if "code" in c:
        c["code"] = text()
    for name in list(c):
        if pick.random() < 0.2:
            c[name] = value()
        elif pick.random() < 0.05:
            del c[name]
    if msg_type == "execute_request":
        c["allow_stdin"] = False
    return c if pick.random() < 0.97 else value()


def message(raw):
    msg_type = pick.choice(list(CONTENT))
    header = {"msg_id": str(pick.random()), "session": "f", "username": "u", "date": "", "msg_type": msg_type, "version": "5.3"}
    if pick.random() < 0.1:
        header[pick.choice(list(header) + ["more"])] = value()
    parts = [json.dumps(p).encode() for p in (header, value() if pick.random() < 0.05 else {}, value() if pick.random() < 0.1 else {}, content(msg_type))]
    if pick.random() < 0.2:  # bytes of a part: no JSON any more, or other JSON
        i, part = pick.randrange(4), None
        part = bytearray(parts[i])
        for _ in range(pick.randint(1, 4)):
            part[pick.randrange(len(part))] = pick.randrange(256)
        parts[i] = bytes(part[: pick.randint(0, len(part))] if pick.random() < 0.2 else part)
    frames = [b"<IDS|MSG>", sign(raw.key, parts), *parts] + [b"buffer"] * pick.choice((0, 0, 0, 2))
    if pick.random() < 0.05:
        del frames[pick.randrange(len(frames))]
    if pick.random() < 0.05:
        frames.insert(0, b"another identity")
    return frames


def main():
    with kernel.Kernel() as k:
        raws = [Raw(k.info, channel) for channel in CHANNELS]
        for i in range(MESSAGES):
            raw = raws[pick.choice((0, 0, 0, 0, 0, 1, 2))]
            raw.socket.send_multipart(message(raw))
            if i % 20 == 19:  # and still it answers, on both
                for raw in raws[:2]:
                    while raw.socket.poll(0):
                        raw.socket.recv_multipart()
                    raw.socket.send_multipart(raw.frames("kernel_info_request", {}))
                    end = time.monotonic() + kernel.TIMEOUT
                    while True:
                        assert raw.socket.poll(1000 * max(0, end - time.monotonic())), f"no answer after message {i}\n{k.read_log()[-3000:]}"
                        frames = raw.socket.recv_multipart()
                        header = frames[frames.index(b"<IDS|MSG>") + 2]
                        if json.loads(header)["msg_type"] == "kernel_info_reply":
                            break
                assert k.process.poll() is None, k.read_log()
            while raw.socket.poll(0):
                raw.socket.recv_multipart()
        for raw in raws:
            raw.close()
        k.run("0")  # cells queued after a failed one are not run, nor is this one
        assert k.text("20 + 1") == "21"
    print(f"{MESSAGES} messages (seed {SEED})")


if __name__ == "__main__":
    main()
