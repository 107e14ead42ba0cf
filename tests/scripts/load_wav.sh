# WAV files of every kind of sample, and files that are damaged.
python3 - <<'P'
import struct, wave
def wav(name, format, channels, bits, data, rate=8000, extra=b"", extensible=False):
    frame = channels * bits // 8
    fmt = struct.pack("<HHIIHH", 0xfffe if extensible else format, channels, rate, rate * frame, frame, bits)
    if extensible: fmt += struct.pack("<HHIH14s", 22, bits, 0, format, bytes.fromhex("000000001000800000aa00389b71"))
    body = b"WAVE" + extra + b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    open(name, "wb").write(b"RIFF" + struct.pack("<I", len(body)) + body)
with wave.open("mono16.wav", "wb") as w:
    w.setnchannels(1); w.setsampwidth(2); w.setframerate(16000)
    w.writeframes(struct.pack("<4h", 0, 16384, -32768, 32767))
wav("stereo8.wav", 1, 2, 8, bytes([128, 0, 255, 64]))
wav("mono24.wav", 1, 1, 24, bytes([0, 0, 64, 0, 0, 192]))
wav("mono32.wav", 1, 1, 32, struct.pack("<2i", 2**30, -2**31))
wav("f32.wav", 3, 2, 32, struct.pack("<4f", 0.5, -0.25, 1, 0), extra=b"LIST" + struct.pack("<I", 3) + b"abc\0")
wav("f64.wav", 3, 1, 64, struct.pack("<2d", 0.5, -0.25))
wav("extensible.wav", 1, 1, 16, struct.pack("<2h", 1, -1), extensible=True)
wav("none.wav", 1, 1, 16, b"")
wav("law.wav", 7, 1, 8, b"abcd")
wav("odd.wav", 1, 2, 16, b"abcdef")
wav("channels.wav", 1, 0, 16, b"")
whole = open("mono16.wav", "rb").read()
open("cut.wav", "wb").write(whole[:-3])
open("head.wav", "wb").write(whole[:10])
open("bare.wav", "wb").write(whole[:36])
open("huge.wav", "wb").write(whole[:40] + b"\xff\xff\xff\x7f" + whole[44:])
open("late.wav", "wb").write(whole[:12] + b"data" + struct.pack("<I", 2) + b"ab" + whole[12:])
open("nothing.wav", "wb")
P
run() { dlsh -n --db none --device cpu "$@" 2>&1; }
for f in mono16 stereo8 mono24 mono32 f32 f64 extensible none; do run -c "r = load(\"$f.wav\"); print(r.rate, r.samples)"; done
for f in law odd channels cut head bare huge late nothing; do run -c "load(\"$f.wav\")"; done | grep -v '^    '
run -c 'x = randn([1, 8]); save x "x.wav"' | grep -v '^    '
