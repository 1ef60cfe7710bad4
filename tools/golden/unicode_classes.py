#!/usr/bin/env python3
"""The Unicode facts that the pinned `tokenizers` works with, read off by trying every code point.

    python tools/golden/unicode_classes.py tests/golden/unicode_classes.json

Its three parts follow three Unicode versions: the regex engine, the Digits pre-tokeniser (Rust's standard library) and
the normaliser each bring their own tables. Token ids depend on all of them, so they are recorded rather than assumed.
"""

import hashlib
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from golden_common import provenance, write_json

CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
NFC, NFD = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str
HANGUL_FIRST, HANGUL_LAST = 0xAC00, 0xD7A3


def ranges(code_points):
    out = []
    for c in sorted(code_points):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return " ".join(f"{a:x}" if a == b else f"{a:x}-{b:x}" for a, b in out)


def isolated_by(pre_tokenizer):
    """Code points that the pre-tokeniser cuts out from between two NULs."""
    return {c for c in CODE_POINTS if len(pre_tokenizer.pre_tokenize_str(f"\0{chr(c)}\0")) == 3}


def regex_class(pattern):
    return isolated_by(pre_tokenizers.Split(Regex(pattern), "isolated"))


def contraction_members(suffix, prefix=""):
    """Code points c for which the case-insensitive contractions match an apostrophe, prefix, c and suffix whole."""
    split = pre_tokenizers.Split(Regex(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"), "isolated")
    hit = lambda c: f"'{prefix}{chr(c)}{suffix}" in [p for p, _ in split.pre_tokenize_str(f"\0'{prefix}{chr(c)}{suffix}\0")]
    return ranges(c for c in CODE_POINTS if hit(c))


def added_token_classes():
    """What stops a single_word token from matching, and what an lstrip or rstrip token swallows, on either side."""
    tokenizer = Tokenizer(models.BPE(vocab={"?": 0}, merges=[], unk_token="?"))
    tokenizer.add_tokens([AddedToken("<|w|>", single_word=True, normalized=False),
                          AddedToken("<|b|>", lstrip=True, rstrip=True, normalized=False)])
    word, blank = tokenizer.token_to_id("<|w|>"), tokenizer.token_to_id("<|b|>")
    words, blanks = set(), set()
    for c in CODE_POINTS:
        ids = lambda text: tokenizer.encode(text).ids
        before, after = word not in ids(f"{chr(c)}<|w|>"), word not in ids(f"<|w|>{chr(c)}")
        assert before == after, hex(c)
        if before:
            words.add(c)
        before, after = ids(f"{chr(c)}<|b|>") == [blank], ids(f"<|b|>{chr(c)}") == [blank]
        assert before == after, hex(c)
        if before:
            blanks.add(c)
    return words, blanks


def check_gpt2_pattern(letters, numbers, spaces):
    """The pattern built into ByteLevel must see the same classes."""
    pre = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    pieces = lambda s: len(pre.pre_tokenize_str(s))
    named = letters | numbers | spaces
    for c in CODE_POINTS:
        ch = chr(c)
        assert (pieces("a" + ch) == 1) == (c in letters), hex(c)
        assert (pieces("1" + ch) == 1) == (c in numbers), hex(c)
        assert (pieces("!" + ch) == 1) == (c not in named), hex(c)


def sorts_before(a, b):
    """True if the normaliser moves mark a in front of mark b."""
    return a != b and NFD(f"\u0915{chr(b)}{chr(a)}") == f"\u0915{chr(a)}{chr(b)}"


def combining_classes():
    """Canonical combining classes as the normaliser orders by them.

    One reference mark per class is taken from Python's tables (of any version: classes never change). Then a mark's
    class is that of the one reference which it neither moves in front of nor is moved behind. Marks that never move
    have class 0 here, whatever newer tables say.
    """
    marks = [c for c in CODE_POINTS if sorts_before(c, 0x315) or sorts_before(0x334, c)]  # classes 232 and 1
    reference = {}
    for c in marks:
        reference.setdefault(unicodedata.combining(chr(c)), c)
    table = {}
    for c in marks:
        same = [k for k, r in reference.items() if not sorts_before(c, r) and not sorts_before(r, c)]
        assert same == [unicodedata.combining(chr(c))], (hex(c), same)
        table.setdefault(same[0], []).append(c)
    return {str(k): ranges(v) for k, v in sorted(table.items())}


def decompositions():
    points = lambda s: " ".join(f"{ord(x):x}" for x in s)
    table, composed = {}, []
    for c in CODE_POINTS:
        d = NFD(chr(c))
        if d == chr(c) or HANGUL_FIRST <= c <= HANGUL_LAST:
            continue
        table[f"{c:x}"] = points(d)
        if NFC(chr(c)) == chr(c):
            composed.append(c)
    return table, composed


DIGEST_FORMS = {
    "{c}": "alone",
    "a{c}": "after a letter",
    "{c}\u0301": "before an acute accent (class 230)",
    "{c}\u0338": "before a solidus overlay (class 1)",
    "\u0915\u0315{c}": "after a mark of class 232",
    "\u0915{c}\u0334": "before a mark of class 1",
    "\u1100{c}": "after a leading Hangul jamo",
    "\uac00{c}": "after a Hangul syllable",
}


def nfc_digests():
    rows = []
    for form, where in DIGEST_FORMS.items():
        h = hashlib.sha256()
        for c in CODE_POINTS:
            h.update(NFC(form.replace("{c}", chr(c))).encode() + b"\n")
        rows.append({"form": form, "where": where, "sha256": h.hexdigest()})
    return rows


def main():
    letters, numbers, spaces = regex_class(r"\p{L}"), regex_class(r"\p{N}"), regex_class(r"\s")
    digits = isolated_by(pre_tokenizers.Digits(individual_digits=True))
    check_gpt2_pattern(letters, numbers, spaces)
    words, blanks = added_token_classes()
    assert blanks == spaces
    decomposition, composed = decompositions()
    write_json(sys.argv[1], {
        "provenance": provenance("tokenizers"),
        "versions_found": {"regex_classes": "16.0.0", "digits": "17.0.0", "normalisation": "9.0.0"},
        "L": ranges(letters), "N": ranges(numbers), "S": ranges(spaces),
        "digits": ranges(digits), "word": ranges(words),
        "contractions": {"'{c}": contraction_members(""), "'{c}e": contraction_members("e"),
                         "'{c}l": contraction_members("l"), "'l{c}": contraction_members("", "l"),
                         "'r{c}": contraction_members("", "r"), "'v{c}": contraction_members("", "v")},
        "combining_classes": combining_classes(),
        "decompositions": decomposition,
        "recomposed": ranges(composed),
        "nfc_digests": nfc_digests(),
    })


if __name__ == "__main__":
    main()
