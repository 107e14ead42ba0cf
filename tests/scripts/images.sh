# Folders of pictures as datasets: against PyTorch's resampling where it is there, at any number of workers, with broken files.
py=
for python in python3 /usr/bin/python3; do
    $python -c 'import numpy, PIL, torch' 2>/dev/null && py=$python
done
[ "$py" ] || { echo "no Python with numpy, Pillow and PyTorch" >&2; exit 77; }
$py - <<'P'
import os, csv
import numpy as np, torch
from PIL import Image
from torch.nn.functional import interpolate
rng = np.random.default_rng(0)
os.makedirs("pets/cat/more"); os.makedirs("pets/dog"); os.makedirs("pets/.hidden"); os.makedirs("val/dog"); os.makedirs("flat")
def picture(h, w, hue):
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([hue + 100 * np.sin(x / 7), 255 * y / h, 128 + 100 * np.cos((x + y) / 9)], 2)
    return np.clip(a + rng.normal(0, 8, a.shape), 0, 255).astype(np.uint8)
n = 0
names = []
for cls, count in (("cat", 7), ("dog", 6)):
    for i in range(count):
        a = picture(40 + 7 * i, 61 - 3 * i, 60 if cls == "cat" else 180)
        sub = "cat/more" if cls == "cat" and i % 3 == 2 else cls
        name = f"pets/{sub}/{i}.{'png' if i % 2 else 'JPG'}"
        Image.fromarray(a).save(name, format="PNG" if i % 2 else "JPEG")
        Image.fromarray(a).save(f"flat/{cls}{i}.png"); names.append((f"{cls}{i}.png", cls))
Image.fromarray(picture(50, 50, 20)).convert("L").save("val/dog/x.jpg")
open("pets/cat/notes.txt", "w").write("no picture")
with open("labels.csv", "w", newline="") as f: csv.writer(f).writerows([("file", "kind")] + names[::-1])
with open("numbers.csv", "w", newline="") as f: csv.writer(f).writerows([(a, {"cat": 10, "dog": 2}[b]) for a, b in names])
with open("wrong.csv", "w", newline="") as f: csv.writer(f).writerows([("file", "kind")] + names[:2] + [("none.png", "cat")])
# the order and the pixels of torchvision's ImageFolder and Resize((24, 32))
samples = []
for label, cls in enumerate(sorted(d.name for d in os.scandir("pets") if d.is_dir() and d.name[0] != ".")):
    for root, _, files in sorted(os.walk(f"pets/{cls}", followlinks=True)):
        for f in sorted(files):
            if f.lower().endswith((".png", ".jpg")): samples.append((os.path.join(root, f), label))
def resized(name, h, w):
    x = torch.from_numpy(np.asarray(Image.open(name).convert("RGB")).transpose(2, 0, 1).astype(np.float32))[None]
    return interpolate(x, (h, w), mode="bilinear", antialias=True, align_corners=False).round().clamp(0, 255)[0].numpy()
np.save("x.npy", np.stack([resized(f, 24, 32) for f, _ in samples]))
np.save("y.npy", np.array([l for _, l in samples]))
def cropped(name, s):
    w, h = Image.open(name).size
    nh, nw = (s, int(s * w / h)) if h <= w else (int(s * h / w), s)
    x = resized(name, nh, nw); t, l = round((nh - s) / 2), round((nw - s) / 2)
    return x[:, t:t + s, l:l + s]
np.save("c.npy", np.stack([cropped(f, 24) for f, _ in samples]))
P
run() { dlsh -n --db none --device cpu "$@" 2>&1; }
cat >t.dlsh <<'D'
d = dataset("images", "pets", size=[24, 32], holdout=0, normalize="none")
print(d, d.names, d.shape, d.train.counts)
x = load("x.npy"); y = load("y.npy")
print((d.train.x - x).abs().max() <= 1.0, (d.train.x != x).to(f32).mean() < 0.001, equal(d.train.y, y))
c = dataset("images", "pets", size=24, fit="crop", holdout=0, normalize="none")
print((c.train.x - load("c.npy")).abs().max() <= 1.0, (c.train.x != load("c.npy")).to(f32).mean() < 0.001)
u = dataset("images", "pets", size=[24, 32], holdout=0)
print((u.train.x * 255.0 - d.train.x).abs().max() < 0.001)
s = dataset("images", "pets", size=[24, 32], holdout=0, normalize="standard")
print(s.train.x.mean(dim=[0, 2, 3]).abs().max() < 0.0001, (s.train.x.std(dim=[0, 2, 3]) - 1).abs().max() < 0.001)
g = dataset("images", "pets", size=24, mode="gray", test_path="val")
print(g, g.shape, g.test.y)
h = dataset("images", "pets", size=8, holdout=0.3, seed=1)
print(h, sum(h.train.counts) + sum(h.test.counts))
f = dataset("images", "flat", labels="labels.csv", size=16, holdout=0)
print(f, f.names, f.train.counts, f.train.y)
k = dataset("images", "flat", labels="numbers.csv", size=16, holdout=0)
print(k.names, k.train.y)
print(d.fingerprint == dataset("images", "pets", size=[24, 32], holdout=0).fingerprint, d.fingerprint == c.fingerprint)
first = []
for workers in [0, 1, 2, 8] {
    l = loader(u, batch=4, shuffle=true, seed=3, workers=workers, transforms="flip, rotate 20")
    sums = []
    for e in range(2) { for a, b in l { sums.append(a.sum().item()); sums.append(b.sum().item()) } }
    if workers == 0 { first = sums }
    print(workers, len(sums), sums == first)
}
seed 0
net m { conv 4 3 -> relu -> flatten -> linear 2 }
t = trainer(m, u, opt=adam(lr=0.01), batch=8)
quiet = train(t, epochs=2)
print(t.step)
D
run t.dlsh | grep -v '^\(epoch\|run\|train\|  \)'
cp -r pets broken; head -c 300 pets/cat/0.JPG >broken/cat/0.JPG; echo text >broken/dog/zz.png
run -c 'd = dataset("images", "broken", size=16, holdout=0); for x, y in loader(d, batch=4) { }' | grep -v '^   '
run -c 'd = dataset("images", "broken", size=16, holdout=0); d.train[0]' | grep -v '^   '
run -c 'd = dataset("images", "broken", size=16, holdout=0, broken="skip"); print(d, d.skipped, d.train.x.shape)' | grep -v '^   '
run -c 'd = dataset("images", "pets", holdout=0); d.train.x' | grep -v '^   '
run -c 'dataset("images", "flat", size=16)' | grep -v '^   '
run -c 'dataset("images", "none", size=16)' | grep -v '^   '
run -c 'dataset("images", "pets", size="big")' | grep -v '^   '
run -c 'dataset("images", "flat", labels="wrong.csv", size=16)' | grep -v '^   '
run -c 'dataset("images", "val", test_path="pets", size=16)' | grep -v '^   '
mkdir -p val/empty; run -c 'dataset("images", "val", size=16)' | grep -v '^   '
touch val/empty/a.webp; run -c 'dataset("images", "val", size=16)' | grep -v '^   '
