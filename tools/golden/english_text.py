#!/usr/bin/env python3
"""Ordinary English text for evaluation, out of two Debian packages. Needs nothing but Python's standard library.

    apt-get download developers-reference r-cran-janeaustenr
    for d in developers-reference_*.deb r-cran-janeaustenr_*.deb; do dpkg -x "$d" unpacked; done
    python3 tools/golden/english_text.py unpacked --novel text-novel.txt --technical text-technical.txt

The novels (public domain) are stored as one serialised R character vector each, in zlib blocks; the technical prose is
the English HTML manual. Paragraphs come out as one line each, with an empty line between them.
"""

import argparse
import hashlib
import pathlib
import re
import struct
import sys
import zlib
from html.parser import HTMLParser

R_STRING_VECTOR, R_STRING = 16, 9


class RReader:
    """Just enough of R's XDR serialisation (version 2 or 3) to read one character vector."""

    def __init__(self, data):
        self.data, self.at = data, 0
        if self.take(2) != b"X\n":
            raise ValueError("not an XDR-serialised R object")
        version, _, _ = self.int(), self.int(), self.int()
        if version == 3:
            self.take(self.int())  # native encoding

    def take(self, n):
        if n < 0 or self.at + n > len(self.data):
            raise ValueError("serialised R object ends early")
        self.at += n
        return self.data[self.at - n:self.at]

    def int(self):
        return struct.unpack(">i", self.take(4))[0]

    def strings(self):
        if self.int() & 0xFF != R_STRING_VECTOR:
            raise ValueError("the R object is not a character vector")
        for _ in range(self.int()):
            if self.int() & 0xFF != R_STRING:
                raise ValueError("an element of the character vector is not a string")
            n = self.int()
            yield "" if n < 0 else self.take(n).decode("utf-8")


def r_database_blocks(data):
    """The objects of an .rdb file, in file order: each is a big-endian length and a zlib stream."""
    while data:
        inflate = zlib.decompressobj()
        block = inflate.decompress(data[4:])
        if len(block) != struct.unpack(">I", data[:4])[0]:
            raise ValueError("an .rdb block has another length than its header says")
        yield block
        data = inflate.unused_data


def novel_text(folder):
    rdb = find(folder, "janeaustenr/data/Rdata.rdb")
    books = []
    for block in r_database_blocks(rdb.read_bytes()):
        lines = "\n".join(line.rstrip() for line in RReader(block).strings())
        books.append(unwrap(re.split(r"\n{2,}", lines)))
    return "\n\n".join(books) + "\n"


class ManualParser(HTMLParser):
    """Text of the main part of a Sphinx page, one entry per block element."""

    BLOCKS = {"p", "li", "dt", "dd", "h1", "h2", "h3", "h4", "pre", "tr", "div", "section", "ul", "ol", "dl", "table"}
    VOID = {"br", "img", "hr", "input", "meta", "link", "col"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.paragraphs, self.text = [], ""
        self.depth = None     # open elements inside the main part, None outside of it
        self.skip_from = None  # depth at which a skipped element began
        self.pre = False
        self.chapter = None

    def flush(self):
        if self.text.strip():
            self.paragraphs.append(self.text.strip("\n") if self.pre else " ".join(self.text.split()))
        self.text = ""

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if self.depth is None:
            if tag == "div" and attrs.get("role") == "main":
                self.depth = 0
            return
        if tag in self.BLOCKS:
            self.flush()
        if tag == "pre":
            self.pre = True
        if tag not in self.VOID:
            if self.skip_from is None and (tag in ("script", "style") or attrs.get("class") == "headerlink"):
                self.skip_from = self.depth
            self.depth += 1

    def handle_endtag(self, tag):
        if self.depth is None or tag in self.VOID:
            return
        if tag in self.BLOCKS:
            self.flush()
        if tag == "pre":
            self.pre = False
        self.depth -= 1
        if self.depth == self.skip_from:
            self.skip_from = None
        if self.depth < 0:
            self.depth = None

    def handle_data(self, data):
        if self.depth is not None and self.skip_from is None:
            self.text += data


def technical_text(folder):
    chapters = []
    for page in find(folder, "share/developers-reference/index.html").parent.glob("*.html"):
        parser = ManualParser()
        parser.feed(page.read_text(encoding="utf-8"))
        number = re.match(r"(\d+)\. ", parser.paragraphs[0]) if parser.paragraphs else None
        if number:
            chapters.append((int(number.group(1)), "\n\n".join(parser.paragraphs)))
    if not chapters:
        raise ValueError("no numbered chapter found in the manual")
    return "\n\n".join(text for _, text in sorted(chapters)) + "\n"


def unwrap(paragraphs):
    joined = (" ".join(p.split()) for p in paragraphs)
    return "\n\n".join(p for p in joined if p)


def find(folder, tail):
    hits = sorted(p for p in pathlib.Path(folder).rglob(tail.rsplit("/", 1)[1]) if p.as_posix().endswith(tail))
    if not hits:
        raise ValueError(f"no {tail} below {folder}: unpack the Debian package there first")
    return hits[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the packages were unpacked")
    parser.add_argument("--novel", metavar="FILE")
    parser.add_argument("--technical", metavar="FILE")
    args = parser.parse_args()
    if not (args.novel or args.technical):
        parser.error("nothing to do: give --novel, --technical or both")
    try:
        for path, extract in ((args.novel, novel_text), (args.technical, technical_text)):
            if path:
                data = extract(args.folder).encode("utf-8")
                pathlib.Path(path).write_bytes(data)
                print(f"{path}: {len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}", file=sys.stderr)
    except (ValueError, OSError, zlib.error, struct.error) as e:
        sys.exit(f"english_text: {e}")


if __name__ == "__main__":
    main()
