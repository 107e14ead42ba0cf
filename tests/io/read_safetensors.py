#!/usr/bin/env python3
"""Reads a safetensors file by the format's description and prints it, one tensor a line; knows nothing of the library."""
import json
import struct
import sys

FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "U8": "B", "BOOL": "?"}

data = open(sys.argv[1], "rb").read()
n = struct.unpack("<Q", data[:8])[0]
head = json.loads(data[8:8 + n])
assert (8 + n) % 8 == 0, "the tensors are not aligned"
body = data[8 + n:]
meta = head.pop("__metadata__", {})
assert sorted(e for t in head.values() for e in t["data_offsets"])[-1:] in ([], [len(body)])
for name in sorted(head):
    t = head[name]
    begin, end = t["data_offsets"]
    raw = body[begin:end]
    if t["dtype"] == "BF16":
        values = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    else:
        values = list(struct.unpack("<%d%s" % (len(raw) // struct.calcsize(FORMATS[t["dtype"]]), FORMATS[t["dtype"]]), raw))
    print(name, t["dtype"], t["shape"], [v + 0 for v in values])
for key in sorted(meta):
    print(key, "=", meta[key])
