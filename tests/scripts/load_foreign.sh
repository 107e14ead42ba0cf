# Tensors that no dtype can hold do not keep the others from being loaded.
python3 - <<'P'
import json, struct
head = {"half": {"dtype": "U16", "shape": [2], "data_offsets": [0, 4]},
        "wave": {"dtype": "F8_E8M0", "shape": [8], "data_offsets": [4, 12]},
        "small": {"dtype": "I8", "shape": [3], "data_offsets": [12, 15]}}
text = json.dumps(head).encode()
open("mixed.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + struct.pack("<HH8x3b", 1, 65535, -1, 0, 127))
P
dlsh -n --db none -c 'r = load("mixed.safetensors"); print(r.half, r.half.dtype, r.small, r.small.dtype); r.wave' 2>&1; true
