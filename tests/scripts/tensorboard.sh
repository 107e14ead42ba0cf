# Files of events: checksums and messages decoded here, and read by TensorBoard itself where it is installed.
cat > fill.dlsh <<'END2'
r = start_run("a/b run"); for s in range(300) { r.log("train/loss", exp(-s / 100.0), step=s) }
r.log("odd", nan, step=1); r.log("odd", inf, step=5000000000); r.end()
r = start_run("second"); r.log(acc=0.5); r.end()
END2
dlsh -n --db runs.db fill.dlsh
dlsh -n --db runs.db -k -c 'export logs/; export one/ second; export gone/below/' 2>&1
find logs one -type f | sed 's/[0-9]\{10\}/SECONDS/' | sort
before=$(cat logs/*/* | cksum); dlsh -n --db runs.db -c 'export logs/;'; [ "$(cat logs/*/* | cksum)" = "$before" ] && echo "the same again"
python3 - <<'END2'
import glob, struct
def crc(data):
    c = 0xffffffff
    for b in data:
        c ^= b
        for _ in range(8): c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    c ^= 0xffffffff
    return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
def varint(b, i):
    v = k = 0
    while True:
        v |= (b[i] & 127) << k; k += 7; i += 1
        if not b[i - 1] & 128: return v, i
def message(b):
    out, i = {}, 0
    while i < len(b):
        tag, i = varint(b, i)
        if tag & 7 == 0: v, i = varint(b, i)
        elif tag & 7 == 1: v, i = struct.unpack("<d", b[i:i + 8])[0], i + 8
        elif tag & 7 == 5: v, i = struct.unpack("<f", b[i:i + 4])[0], i + 4
        else:
            n, i = varint(b, i); v, i = b[i:i + n], i + n
        out[tag >> 3] = v
    return out
data, at, events = open(glob.glob("logs/1-*/*")[0], "rb").read(), 0, []
while at < len(data):
    n, c = struct.unpack("<QI", data[at:at + 12]); body = data[at + 12:at + 12 + n]
    assert crc(data[at:at + 8]) == c and crc(body) == struct.unpack("<I", data[at + 12 + n:at + 16 + n])[0]
    events.append(message(body)); at += 16 + n
print(events[0][3], len(events))
for e in (events[1], events[2], events[3], events[-1]):
    v = message(message(e[5])[1]); print(v[1], e[2], round(v[2], 6), 1e9 < e[1] < 1e10)
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("TensorBoard is not installed: not asked")
else:
    a = EventAccumulator("logs/1-a_b run", {"scalars": 0}); a.Reload()
    assert a.Tags()["scalars"] == ["odd", "train/loss"] and [s.step for s in a.Scalars("train/loss")] == list(range(300))
    print("TensorBoard is not installed: not asked".replace("is not installed: not asked", "reads it"))
END2
