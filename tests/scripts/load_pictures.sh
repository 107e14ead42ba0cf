# Pictures of every kind of PNG and JPEG against Pillow's reader, writing, and files that are damaged.
py=
for python in python3 /usr/bin/python3; do
    $python -c 'import numpy, PIL' 2>/dev/null && py=$python
done
[ "$py" ] || { echo "no Python with numpy and Pillow" >&2; exit 77; }
$py - <<'P'
import io, struct, zlib
import numpy as np
from PIL import Image
rng = np.random.default_rng(0)
y, x = np.mgrid[0:23, 0:37]
rgb = np.stack([x * 6, y * 11, (x + y) * 4], 2).astype(np.uint8)
rgba = np.dstack([rgb, 255 - (x * 5).astype(np.uint8)])
list_ = open("list.txt", "w")
def want(name, mode, image, dtype=np.uint8):
    a = np.asarray(image).astype(dtype)
    a = a[None] if a.ndim == 2 else a.transpose(2, 0, 1)
    np.save(f"{name}.{mode}.npy", np.ascontiguousarray(a))
    print(name, mode, file=list_)
def all_modes(name, rgb_of=None):
    i = Image.open(name); i.load()
    rgba = i.convert("RGBA")
    want(name, "rgba", rgba)
    want(name, "rgb", np.asarray(rgba)[:, :, :3])
    want(name, "gray", Image.fromarray(np.asarray(rgba)[:, :, :3]).convert("L"))
    return i, rgba
# PNG
Image.fromarray(rgb).save("rgb.png"); i, _ = all_modes("rgb.png"); want("rgb.png", "unchanged", i)
Image.fromarray(rgba).save("rgba.png"); i, _ = all_modes("rgba.png"); want("rgba.png", "unchanged", i)
Image.fromarray(rgb[:, :, 0]).save("gray.png"); i, _ = all_modes("gray.png"); want("gray.png", "unchanged", i)
Image.fromarray(rgba[:, :, [0, 3]]).save("ga.png"); i, _ = all_modes("ga.png"); want("ga.png", "unchanged", i)
Image.fromarray(rgb).quantize(20).save("palette.png"); i, c = all_modes("palette.png"); want("palette.png", "unchanged", i.convert("RGB"))
Image.fromarray(rgb).quantize(4).save("palette2.png", bits=2); i, c = all_modes("palette2.png"); want("palette2.png", "unchanged", i.convert("RGB"))
p = Image.fromarray(rgb).quantize(20); p.save("palette_trns.png", transparency=bytes(range(0, 200, 10))); i, c = all_modes("palette_trns.png"); want("palette_trns.png", "unchanged", c)
Image.fromarray(rgb).save("rgb_trns.png", transparency=tuple(int(v) for v in rgb[3, 4])); i, c = all_modes("rgb_trns.png"); want("rgb_trns.png", "unchanged", c)
Image.fromarray(rgb[:, :, 0] > 100).save("bit.png"); i, _ = all_modes("bit.png"); want("bit.png", "unchanged", i.convert("L"))
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
def png(name, w, h, depth, color, raw, interlace=0, more=b"", end=True):
    b = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, color, 0, 0, interlace)) + more
    b += chunk(b"IDAT", zlib.compress(raw)) + (chunk(b"IEND", b"") if end else b"")
    open(name, "wb").write(b)
    return b
deep = (rng.integers(0, 65536, (23, 37, 3))).astype(np.uint16)
png("rgb16.png", 37, 23, 16, 2, b"".join(b"\0" + r.astype(">u2").tobytes() for r in deep))
want("rgb16.png", "unchanged", deep, np.int32); want("rgb16.png", "rgb", deep >> 8)
png("gray16.png", 37, 23, 16, 0, b"".join(b"\0" + r.astype(">u2").tobytes() for r in deep[:, :, 0]))
want("gray16.png", "unchanged", deep[:, :, 0], np.int32); want("gray16.png", "gray", deep[:, :, 0] >> 8)
passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
raw = b""
for y0, x0, dy, dx in passes:
    for r in rgb[y0::dy, x0::dx]:
        if len(r): raw += b"\0" + r.tobytes()
whole = png("adam7.png", 37, 23, 8, 2, raw, interlace=1); want("adam7.png", "unchanged", rgb)
# JPEG
I = Image.fromarray(rgb)
I.save("rgb.jpg", quality=90); want("rgb.jpg", "unchanged", Image.open("rgb.jpg")); want("rgb.jpg", "rgba", Image.open("rgb.jpg").convert("RGBA"))
i = Image.open("rgb.jpg"); i.draft("L", i.size); want("rgb.jpg", "gray", i)
I.save("progressive.jpg", progressive=True, quality=80); want("progressive.jpg", "unchanged", Image.open("progressive.jpg"))
I.save("sub0.jpg", subsampling=0); want("sub0.jpg", "rgb", Image.open("sub0.jpg"))
I.convert("L").save("gray.jpg"); want("gray.jpg", "unchanged", Image.open("gray.jpg")); want("gray.jpg", "rgb", Image.open("gray.jpg").convert("RGB"))
I.convert("CMYK").save("cmyk.jpg"); want("cmyk.jpg", "rgb", Image.open("cmyk.jpg").convert("RGB"))
want("cmyk.jpg", "unchanged", 255 - np.asarray(Image.open("cmyk.jpg")))
from PIL import ImageOps
for turn in range(1, 9):
    e = Image.Exif(); e[0x112] = turn
    for kind in ("jpg", "png"):
        I.save(f"turn{turn}.{kind}", exif=e)
        want(f"turn{turn}.{kind}", "unchanged", Image.open(f"turn{turn}.{kind}"))
        want(f"turn{turn}.{kind}", "upright", ImageOps.exif_transpose(Image.open(f"turn{turn}.{kind}")))
# Damage
b = open("rgb.png", "rb").read(); j = open("rgb.jpg", "rb").read(); g = open("progressive.jpg", "rb").read()
def put(name, data): open(name, "wb").write(data)
put("cut.png", b[:len(b) // 2]); put("head.png", b[:20]); put("bare.png", b[:-12]); put("sum.png", b[:60] + b"\xff" + b[61:])
put("cut.jpg", j[:len(j) // 2]); put("head.jpg", j[:30]); put("bare.jpg", j[:-2]); put("cutp.jpg", g[:len(g) - 60])
put("huff.jpg", j[:-100] + b"\xff\xd9" + j[-98:]); put("text.png", b"hello, this is text\n"); put("empty.png", b"")
put("bomb.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 10000, 10000, 8, 6, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))
put("huge.png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2**31 - 1, 2**31 - 1, 8, 6, 0, 0, 0)) + chunk(b"IEND", b""))
at = j.index(b"\xff\xc0"); put("huge.jpg", j[:at + 5] + b"\xff\xdc\xff\xdc" + j[at + 9:])
put("jpeg_named.png", j)
list_.close()
P
run() { dlsh -n --db none --device cpu "$@" 2>&1; }
cat >compare.dlsh <<'D'
bad = 0
for line in read_lines("list.txt") {
    w = line.split(" ")
    x = w[1] == "upright" ? load(w[0], apply_exif_orientation=true) : load(w[0], mode=w[1])
    y = load(w[0] + "." + w[1] + ".npy")
    if x.shape != y.shape || x.dtype != y.dtype { print(line, x.shape, x.dtype, y.shape, y.dtype); bad += 1 } else { n = (x.to(i64) - y.to(i64)).abs().max().item(); if n > 0 { print(line, "differs by", n); bad += 1 } }
}
print(len(read_lines("list.txt")), "pictures,", bad, "differ")
x = load("rgb.png")
print(x.shape, x.dtype, load("gray16.png").dtype)
save x "out.png"
save (x / 255.0) "float.png"
save x[0] "gray_out.png"
print(equal(load("out.png"), x), equal(load("float.png"), x), equal(load("gray_out.png"), x[:1]))
save load("rgba.png") "rgba_out.png"
save load("ga.png") "ga_out.png"
print(equal(load("rgba_out.png"), load("rgba.png")), equal(load("ga_out.png"), load("ga.png")))
save x "out.jpg" quality=95
save x "low.jpg" quality=20
save x[:1] "gray_out.jpg"
print((load("out.jpg").to(f32) - x.to(f32)).abs().mean() < 3, load("low.jpg").shape, load("gray_out.jpg").shape)
D
run compare.dlsh
$py - <<'P'
import numpy as np, os
from PIL import Image
a = np.asarray(Image.open("out.png")); b = np.asarray(Image.open("rgb.png")); assert (a == b).all()
Image.open("rgb.png").save("pil.jpg", quality=95); assert open("pil.jpg", "rb").read()[-200:] == open("out.jpg", "rb").read()[-200:]
assert os.path.getsize("low.jpg") < os.path.getsize("out.jpg")
print("Pillow reads them")
P
for f in cut.png head.png bare.png sum.png cut.jpg head.jpg bare.jpg cutp.jpg huff.jpg text.png empty.png bomb.png huge.png huge.jpg jpeg_named.png; do
    run -c "load(\"$f\")"
done | grep -v '^    '
run -c 'load("rgb.png", max_pixels=100)' | grep -v '^    '
run -c 'load("rgb.png", mode="bgr")' | grep -v '^    '
run -c 'save zeros(5, 4, 4) "x.png"' | grep -v '^    '
run -c 'save zeros(2, 4, 4) "x.jpg"' | grep -v '^    '
run -c 'save zeros(3, 4, 4).to(i64) "x.png"' | grep -v '^    '
run -c 'save zeros(3, 4, 4) "x.jpg" quality=0' | grep -v '^    '
