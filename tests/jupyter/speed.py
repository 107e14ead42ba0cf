"""Ready soon, quick round trips, much output in order. speed.py [--full]: 100 MB instead of 10, and ipykernel beside it."""
import statistics
import sys
import time

sys.path.insert(0, "tests/support")
import kernel

FULL = "--full" in sys.argv


def round_trips(k, code="1+1", n=200):
    times = []
    for _ in range(n):
        watch = k.stopwatch()
        msg_id = k.client.execute(code)
        k.reply(msg_id)
        times.append(watch.took() * 1e3)
        k.outputs(msg_id)
    return statistics.median(times[20:])


def output(k, megabytes):
    """Lines that count; every one must come, in order, before idle."""
    lines = megabytes << 14  # of 64 bytes
    code = f'pad = "{"x" * 53}"\nfor i in range({lines}) {{ print(format("%09d", i), pad) }}'
    start = time.perf_counter()
    msg_id = k.client.execute(code)
    rest, expected, messages = "", 0, 0
    while True:
        m = k.client.get_iopub_msg(timeout=kernel.TIMEOUT)
        if m["parent_header"].get("msg_id") != msg_id:
            continue
        if m["msg_type"] == "stream":
            messages += 1
            rest += m["content"]["text"]
            whole = rest.split("\n")
            rest = whole.pop()
            for line in whole:
                assert int(line[:9]) == expected and len(line) == 63, (line, expected)
                expected += 1
        elif m["msg_type"] == "status" and m["content"]["execution_state"] == "idle":
            break
    assert expected == lines and not rest, (expected, lines)
    assert k.reply(msg_id)["content"]["status"] == "ok"
    return time.perf_counter() - start, messages


def first_reply():
    """Seconds from the start of the process to its first reply, asked by a socket that is there already."""
    import hashlib
    import hmac
    import json
    import subprocess

    import zmq
    path, info = kernel.connection_file()
    s = zmq.Context.instance().socket(zmq.DEALER)
    s.linger = 0
    s.setsockopt(zmq.RECONNECT_IVL, 1)
    s.connect(f"tcp://{info['ip']}:{info['shell_port']}")
    parts = [json.dumps(p).encode() for p in ({"msg_id": "1", "msg_type": "kernel_info_request", "session": "s", "username": "u",
                                               "date": "", "version": "5.3"}, {}, {}, {})]
    s.send_multipart([b"<IDS|MSG>", hmac.new(info["key"].encode(), b"".join(parts), hashlib.sha256).hexdigest().encode(), *parts])
    watch = kernel.Stopwatch()
    p = subprocess.Popen([kernel.DLSH, "kernel", "run", path], cwd=kernel.HOME)
    watch.add(p.pid)
    assert s.poll(1000 * kernel.TIMEOUT), "no reply"
    took = watch.took()
    p.kill()
    p.wait()
    s.close()
    return took


def main():
    ready = sorted(first_reply() for _ in range(5))
    print(f"ready: {ready[2] * 1e3:.0f} ms (median of 5)")
    with kernel.Kernel() as k:
        ours = round_trips(k)
        print(f"1+1: {ours:.2f} ms, median")
        megabytes = 100 if FULL else 10
        seconds, messages = output(k, megabytes)
        print(f"{megabytes} MB of lines: {seconds:.1f} s in {messages} messages")
        start = time.perf_counter()
        text = k.text("randn(1000, 1000)")
        print(f"a million elements: {(time.perf_counter() - start) * 1e3:.0f} ms, {len(text)} characters")
        assert len(text) < 5000
    if FULL:
        with kernel.Kernel(argv=["/usr/bin/python3", "-m", "ipykernel_launcher", "-f"]) as k:
            print(f"ipykernel 1+1: {round_trips(k):.2f} ms, ready after {k.ready * 1e3:.0f} ms")
    # limits with room for slow machines; the figures aimed at are 150 ms and 5 ms
    assert ready[2] < 1 and ours < 25


if __name__ == "__main__":
    main()
