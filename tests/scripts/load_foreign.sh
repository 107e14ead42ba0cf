# Tensors that no dtype can hold do not keep the others from being loaded.
python3 - <<'P'
import json, struct
head = {"half": {"dtype": "U16", "shape": [2], "data_offsets": [0, 4]},
        "wave": {"dtype": "F8_E8M0", "shape": [8], "data_offsets": [4, 12]},
        "small": {"dtype": "I8", "shape": [3], "data_offsets": [12, 15]}}
text = json.dumps(head).encode()
open("mixed.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + struct.pack("<HH8x3b", 1, 65535, -1, 0, 127))
def array(descr, body):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': (2,), }" % descr).ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + body
import zipfile
with zipfile.ZipFile("mixed.npz", "w") as z:
    for name, data in [("words", array("<U2", bytes(16))), ("w", array("<f4", struct.pack("<2f", 1, 2))),
                       ("days", array("<M8[D]", bytes(16))), ("v", array("<i8", struct.pack("<2q", 3, 4)))]:
        z.writestr(name + ".npy", data)
P
dlsh -n --db none -c 'load("mixed.npz")' 2>&1
dlsh -n --db none -c 'r = load("mixed.safetensors"); print(r.half, r.half.dtype, r.small, r.small.dtype); r.wave' 2>&1; true
