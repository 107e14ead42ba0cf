#!/usr/bin/env python3
"""Reads what tests/view/test_rich.c wrote: HTML and SVG must be well-formed, a PNG must hold the pixels of its .pgm or .ppm.

check_forms.py FOLDER
"""
import base64
import pathlib
import re
import struct
import sys
import xml.etree.ElementTree as ET
import zlib


def check_markup(text, name):
    """HTML is written so that an XML parser reads it too; its only entities are XML's and numbers."""
    if name.endswith(".svg") and not text.startswith("<svg"):
        raise ValueError("nbconvert takes only SVG without declarations")
    root = ET.fromstring("<all>" + text + "</all>")
    if name.endswith(".svg") and not root[0].tag.endswith("}svg"):
        raise ValueError("no svg element")
    for image in root.iter("img"):  # notebooks take SVG elements out of HTML that is not trusted
        kind, data = image.get("src").split(";base64,")
        if kind == "data:image/svg+xml":
            check_markup(base64.b64decode(data).decode(), "embedded.svg")
    if root.findall(".//script"):
        raise ValueError("a script element")


def paeth(a, b, c):
    p = a + b - c
    return min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]


def read_png(data):
    """Width, height, channels and samples of an 8-bit PNG, checksums checked."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        raise ValueError("no signature")
    at, parts, head = 8, b"", None
    while at < len(data):
        n, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + n]
        if zlib.crc32(kind + body) != struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0]:
            raise ValueError(f"checksum of {kind}")
        if kind == b"IHDR":
            head = struct.unpack(">IIBBBBB", body)
        elif kind == b"IDAT":
            parts += body
        at += 12 + n
    width, height, depth, colour = head[:4]
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    if depth != 8:
        raise ValueError(f"depth {depth}")
    raw, stride, rows, above = zlib.decompress(parts), width * channels, [], bytearray(width * channels)
    if len(raw) != height * (stride + 1):
        raise ValueError("length of the pixels")
    for y in range(height):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for x in range(stride):
            left, up = line[x - channels] if x >= channels else 0, above[x]
            corner = above[x - channels] if x >= channels else 0
            line[x] = (line[x] + (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]) & 255
        rows.append(bytes(line))
        above = line
    return width, height, channels, b"".join(rows)


def check_png(file):
    width, height, channels, pixels = read_png(file.read_bytes())
    wanted = file.with_suffix(".pnm").read_bytes()
    m = re.match(rb"P([56])\n(\d+) (\d+)\n255\n", wanted)
    if (width, height) != (int(m[2]), int(m[3])) or channels - (channels in (2, 4)) != (3 if m[1] == b"6" else 1):
        raise ValueError(f"{width} by {height}, {channels} channels")
    if channels in (2, 4):  # with opacity, which the wanted pixels lack
        if set(pixels[channels - 1::channels]) != {255}:
            raise ValueError("not opaque")
        pixels = bytes(v for i, v in enumerate(pixels) if i % channels < channels - 1)
    if pixels != wanted[m.end():]:
        raise ValueError("pixels differ")


def main():
    bad = count = 0
    for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        try:
            if file.suffix == ".png":
                check_png(file)
            elif file.suffix in (".html", ".svg"):
                check_markup(file.read_text(encoding="utf-8"), file.name)
            else:
                continue
            count += 1
        except Exception as e:
            bad += 1
            print(f"{file}: {type(e).__name__}: {e}")
    print(f"{count} forms read, {bad} wrong")
    sys.exit(1 if bad or not count else 0)


main()
