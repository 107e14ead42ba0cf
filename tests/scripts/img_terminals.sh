# Pictures in terminals: by the protocols of kitty and iTerm2 and as sixel, which are decoded here; blocks elsewhere.
for python in python3 /usr/bin/python3; do
    $python -c 'import PIL, pty; pty.openpty()' 2>/dev/null && py=$python
done
[ "${py:-}" ] || { echo "skipped: no Python with Pillow, or no pseudo-terminals" >&2; exit 77; }
cat > p.dlsh <<'END'
x = stack([linspace(0, 1, 60).repeat([20, 1]), linspace(1, 0, 60).repeat([20, 1]), zeros([20, 60])]).unsqueeze(0)
img x
seed 1
img rand([1, 3, 100, 100])
img zeros([3, 1, 8, 8]) captions=["a", "b", "c"]
END
for how in kitty iterm sixel blocks; do
    { echo "set pictures $how"; cat p.dlsh; } > $how.dlsh
    dlsh -n --db none $how.dlsh > $how.out
done
{ echo "set mode json"; cat kitty.dlsh; } > json.dlsh
dlsh -n --db none json.dlsh | grep -c "$(printf '\033')" || true # no line has an escape sequence
echo "set pictures paper" > wrong.dlsh
dlsh -n --db none wrong.dlsh || true
$py - <<'P'
import base64, io, os, pty, re
from PIL import Image

def kitty(data):
    pieces = re.findall(rb"\x1b_G([^;]*);([^\x1b]*)\x1b\\", data)
    pictures, kept = [], b""
    for keys, text in pieces:
        assert len(text) <= 4096
        assert keys.startswith(b"a=T,f=100") == (not kept), keys
        kept += text
        if keys.endswith(b"m=0"):
            pictures.append(Image.open(io.BytesIO(base64.b64decode(kept))))
            kept = b""
    return pictures

def iterm(data):
    found = re.findall(rb"\x1b\]1337;File=inline=1;size=(\d+):([^\a]*)\a", data)
    files = [(int(n), base64.b64decode(text)) for n, text in found]
    assert all(n == len(f) for n, f in files)
    return [Image.open(io.BytesIO(f)) for _, f in files]

def sixel(data):
    pictures = []
    for body in re.findall(rb"\x1bP[^q]*q(.*?)\x1b\\", data, re.S):
        w, h = map(int, re.match(rb'"\d+;\d+;(\d+);(\d+)', body).groups())
        picture, palette, x, y, now = Image.new("RGB", (w, h)), {}, 0, 0, 0
        for t in re.finditer(rb'#(\d+);2;(\d+);(\d+);(\d+)|#(\d+)|!(\d+)([?-~])|([$-])|([?-~])', body):
            if t[1]: palette[int(t[1])] = tuple(round(int(v) * 2.55) for v in (t[2], t[3], t[4]))
            elif t[5]: now = int(t[5])
            elif t[8]: x, y = 0, y + 6 * (t[8] == b"-")
            else:
                for _ in range(int(t[6] or 1)):
                    for bit in range(6):
                        if ((t[7] or t[9])[0] - 63) >> bit & 1 and y + bit < h: picture.putpixel((x, y + bit), palette[now])
                    x += 1
        pictures.append(picture)
    return pictures

def same(a, b, near):
    a, b = a.convert("RGB"), b.convert("RGB")
    assert a.size == b.size, (a.size, b.size)
    # dithering keeps the means of small squares
    a, b = (i.resize((i.width // 10, i.height // 10), Image.BOX).tobytes() for i in (a, b))
    assert max(abs(p - q) for p, q in zip(a, b)) <= near, max(abs(p - q) for p, q in zip(a, b))

files = {how: open(how + ".out", "rb").read() for how in ("kitty", "iterm", "sixel", "blocks")}
shown = {"kitty": kitty(files["kitty"]), "iterm": iterm(files["iterm"]), "sixel": sixel(files["sixel"])}
print({how: [p.size for p in pictures] for how, pictures in shown.items()})
wide = shown["kitty"][0].convert("RGB")
assert wide.getpixel((0, 0))[:2] == (0, 255) and wide.getpixel((wide.width - 1, 0))[:2] == (255, 0)
same(shown["kitty"][0], shown["iterm"][0], 0)
same(shown["kitty"][0], shown["sixel"][0], 24)
assert all(b"3 pictures of 8 x 8 pixels: a, b, c\n" in files[how] for how in shown)
assert b"\x1b" not in files["blocks"] and b"\n" in files["blocks"]

def in_terminal(answer=b"", **terminal):
    env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "STY", "KITTY_WINDOW_ID", "TERM_PROGRAM", "LC_TERMINAL", "KONSOLE_VERSION")}
    pid, fd = pty.fork()
    if not pid: os.execvpe("dlsh", ["dlsh", "-n", "--db", "none", "p.dlsh"], {**env, **terminal})
    data = b""
    try:
        while True:
            piece = os.read(fd, 65536)
            if not piece: break
            data += piece
            if b"\x1b[c" in piece and answer: os.write(fd, answer)
    except OSError: pass
    os.waitpid(pid, 0)
    missing = [line.split(":")[0] for line in data.decode().splitlines() if "libsixel" in line]
    return [how for how, read in (("kitty", kitty), ("iterm", iterm), ("sixel", sixel)) if read(data)] + missing[:1]
for terminal in ({"TERM": "xterm-kitty"}, {"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, {"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, {"TERM": "dumb", "KITTY_WINDOW_ID": "1"}):
    print(terminal, in_terminal(**terminal))
# one that is not known is asked what it is: 4 among the attributes is sixel
for answer in (b"\x1b[?62;4;22c", b"\x1b[?64;1;2;4c", b"\x1b[?62;22;44c", b"\x1b[?c", b""):
    print(answer, in_terminal(answer, TERM="xterm-256color"))
# without the library: blocks, unless sixel was asked for
os.mkdir("nolib")
open("nolib/libsixel.so.1", "w").write("none")
print(in_terminal(b"\x1b[?62;4c", TERM="foot", LD_LIBRARY_PATH="nolib:" + os.environ.get("LD_LIBRARY_PATH", "")))
P
LD_LIBRARY_PATH="nolib:${LD_LIBRARY_PATH:-}" dlsh -n --db none sixel.dlsh 2>&1 | sed 's/so\.1:.*/so.1: .../'
