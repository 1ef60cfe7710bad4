#!/usr/bin/env python3
"""Measures the Unicode tables of the Python package `tokenizers` and writes them as C++ arrays.

Token ids depend on them, and the package mixes several Unicode versions (its regular expressions, its digit splitter and
its normaliser come from different libraries). So the tables are not taken from a Unicode release: every code point is put
through the pinned package and the answer is written down.

    python tools/unicode/make_unicode_tables.py src/tokenizer/unicode_tables.inc

Needs the version pinned in tools/golden/requirements.txt.
"""

import importlib.metadata
import sys
import unicodedata

from cpp_arrays import write_array
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
ALL_TEXT = "".join(map(chr, CODE_POINTS))
HANGUL = range(0xAC00, 0xAC00 + 11172)


def regex_class(pattern):
    split = pre_tokenizers.Split(Regex(pattern), "removed")
    outside = set()
    for _, (begin, end) in split.pre_tokenize_str(ALL_TEXT):
        outside.update(CODE_POINTS[begin:end])
    return set(CODE_POINTS) - outside


def digits_class():
    """What the Digits pre-tokeniser isolates (Rust's char::is_numeric)."""
    text = "".join("ab" + chr(c) for c in CODE_POINTS)
    pieces = pre_tokenizers.Digits(individual_digits=True).pre_tokenize_str(text)
    return {CODE_POINTS[begin // 3] for _, (begin, end) in pieces if end - begin == 1 and begin % 3 == 2}


def added_token_classes():
    """Word characters of single_word, and the white space that lstrip takes."""
    def encode(**flags):
        tokenizer = Tokenizer(models.BPE(vocab={"\u0378": 0}, merges=[]))
        tokenizer.add_tokens([AddedToken("+-+", normalized=False, **flags)])
        text = "".join(chr(c) + "+-+!" for c in CODE_POINTS)
        return [offset for offset, token in zip(*(lambda e: (e.offsets, e.tokens))(tokenizer.encode(text)))
                if token.endswith("+-+")]
    matched = {CODE_POINTS[begin // 5] for begin, _ in encode(single_word=True)}
    stripped = {CODE_POINTS[begin // 5] for begin, _ in encode(lstrip=True) if begin % 5 == 0}
    return set(CODE_POINTS) - matched, stripped


def decompositions():
    nfd = normalizers.NFD()
    found = {}
    for c in CODE_POINTS:
        if c not in HANGUL and (d := nfd.normalize_str(chr(c))) != chr(c):
            found[c] = [ord(x) for x in d]
    return found


def combining_classes(decomposed):
    """The canonical combining class of every code point, from the order in which NFD puts it beside known marks."""
    nfd = normalizers.NFD().normalize_str
    low, high = "\u0334", "\u0345"  # classes 1 and 240, the ends of the scale

    def moves_before(x, mark):
        return x != mark and nfd(mark + x) == x + mark

    def moves_after(x, mark):
        return x != mark and nfd(x + mark) == mark + x

    marks = {1: low, 240: high}
    for c in CODE_POINTS:  # one mark of each class that the package knows as a mark
        k = unicodedata.combining(chr(c))
        if k and c not in decomposed and moves_before(chr(c), high) and (k == 1 or moves_after(chr(c), low)):
            marks.setdefault(k, chr(c))
    classes = {}
    for c in CODE_POINTS:
        x = chr(c)
        if c in decomposed or c in HANGUL or not (moves_before(x, high) or moves_after(x, low)):
            continue
        equal = [k for k, mark in marks.items() if not moves_before(x, mark) and not moves_after(x, mark)]
        assert len(equal) == 1, (hex(c), equal)
        classes[c] = equal[0]
    for k in (1, 240):  # the probes themselves sort as equal to marks of their own class
        for c in CODE_POINTS:
            if unicodedata.combining(chr(c)) == k and c not in decomposed:
                other = marks[230]
                if moves_before(chr(c), other) if k < 230 else moves_after(chr(c), other):
                    classes[c] = k
    return classes


def compositions(decomposed):
    nfc = normalizers.NFC().normalize_str
    pairs = {}
    for c, d in decomposed.items():
        if len(d) < 2 or nfc(chr(c)) != chr(c):
            continue
        first = nfc("".join(map(chr, d[:-1])))
        assert len(first) == 1 and nfc(first + chr(d[-1])) == chr(c), hex(c)
        pairs[ord(first), d[-1]] = c
    return pairs


def ranges(members):
    out = []
    for c in sorted(members):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def class_ranges(classes):
    out = []
    for c in sorted(classes):
        if out and out[-1][1] == c - 1 and out[-1][2] == classes[c]:
            out[-1][1] = c
        else:
            out.append([c, c, classes[c]])
    return out


def main():
    space = regex_class(r"\s")
    word, stripped = added_token_classes()
    assert stripped == space, ranges(stripped ^ space)
    assert regex_class(r"\S") == set(CODE_POINTS) - space
    decomposed = decompositions()
    with open(sys.argv[1], "w", encoding="ascii") as out:
        out.write("// Generated by tools/unicode/make_unicode_tables.py from the Python package tokenizers "
                  f"{importlib.metadata.version('tokenizers')}. Do not edit.\n")
        for name, members, comment in (
                ("kLetters", regex_class(r"\p{L}"), r"\p{L} of its regular expressions"),
                ("kNumbers", regex_class(r"\p{N}"), r"\p{N} of its regular expressions"),
                ("kSpaces", space, r"\s of its regular expressions, and what lstrip and rstrip take"),
                ("kDigits", digits_class(), "what the Digits pre-tokeniser isolates"),
                ("kWords", word, "word characters for single_word")):
            write_array(out, name, "CodePointRange", ranges(members), comment)
        write_array(out, "kCombining", "CombiningRange", class_ranges(combining_classes(decomposed)),
                    "canonical combining classes other than 0")
        write_array(out, "kDecomposed", "Decomposition",
                    [[c, d + [0] * (4 - len(d))] for c, d in sorted(decomposed.items())],
                    "full canonical decompositions, Hangul syllables left out; 0 ends a shorter one")
        write_array(out, "kComposed", "Composition", [[a, b, c] for (a, b), c in sorted(compositions(decomposed).items())],
                    "canonical compositions of two, Hangul left out")


if __name__ == "__main__":
    main()
