#!/usr/bin/env python3
"""Writes libcore/data/text/unicode.def: the ranges of letters, numbers and white space of Python's version of Unicode."""
import pathlib
import sys
import unicodedata

WHITE = [0x20, *range(9, 14), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
CLASSES = {"LETTER": lambda c: unicodedata.category(chr(c))[0] == "L", "NUMBER": lambda c: unicodedata.category(chr(c))[0] == "N",
           "SPACE": set(WHITE).__contains__}


def ranges(belongs):
    first = None
    for c in range(0x110001):
        inside = c < 0x110000 and belongs(c)
        if inside and first is None:
            first = c
        if not inside and first is not None:
            yield first, c - 1
            first = None


out = [f"/* Ranges of characters by class, in order, made by tools/make_unicode.py of Unicode {unicodedata.unidata_version}:",
       " * CLASS(first, last). */"]
all_ranges = sorted((a, b, name) for name, belongs in CLASSES.items() for a, b in ranges(belongs))
line = ""
for a, b, name in all_ranges:
    row = f"{name}({a:#x}, {b:#x})"
    if len(line) + len(row) > 118:
        out.append(line)
        line = ""
    line += (" " if line else "") + row
out.append(line)
pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "libcore/data/text/unicode.def").write_text("\n".join(out) + "\n")
