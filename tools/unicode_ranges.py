#!/usr/bin/env python3
"""Writes engine/train/data/tokenizer/unicode_ranges.inc: which characters are letters, numbers and blanks.

    python3 tools/unicode_ranges.py            by the package unicodedata2 where it is installed, else by Python's unicodedata
    python3 tools/unicode_ranges.py --check    compares the file with what it would write

The version of Unicode matters for characters that are new in it. The file has 16.0.0, by unicodedata2==16.0.0: the version
that the package tokenizers (0.23) cuts words by. Whoever takes another says so to the tests, which compare with that package.
"""

import pathlib
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

TARGET = pathlib.Path(__file__).resolve().parents[1] / "engine/train/data/tokenizer/unicode_ranges.inc"
# The property White_Space, which general categories do not say; it has been these characters since Unicode 6.3.
WHITE_SPACE = {*range(0x9, 0xE), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}


def ranges(belongs):
    """The first and last of each run of characters."""
    found, first = [], None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and belongs(code)
        if inside and first is None:
            first = code
        if not inside and first is not None:
            found.append((first, code - 1))
            first = None
    return found


def table(name, found):
    lines, line = [], "   "
    for first, last in found:
        entry = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(entry) > 120:
            lines.append(line)
            line = "   "
        line += entry
    return f"constexpr CodeRange {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def text():
    category = lambda code: unicodedata.category(chr(code))[0]
    return (
        "// Written by tools/unicode_ranges.py.\n"
        f'constexpr absl::string_view kUnicodeVersion = "{unicodedata.unidata_version}";\n\n'
        "// General categories L*.\n" + table("kLetters", ranges(lambda code: category(code) == "L")) + "\n"
        "// General categories N*.\n" + table("kNumbers", ranges(lambda code: category(code) == "N")) + "\n"
        "// White_Space.\n" + table("kBlanks", ranges(lambda code: code in WHITE_SPACE))
    )


def main():
    if sys.argv[1:] == ["--check"]:
        if TARGET.read_text(encoding="utf-8") != text():
            sys.exit(f"{TARGET} is not what Unicode {unicodedata.unidata_version} says")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        TARGET.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
