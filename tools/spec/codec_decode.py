"""A decoder of the lossless codec's frames, written from docs/spec/codec.md alone: it shares nothing with src/codec and checks every rule.

Usage: codec_decode.py FRAME [-o RAW] [--json]

Decodes and checks the whole frame. -o writes the raw bytes, --json prints the fields of the header and of the blocks. A frame that is refused,
or a file that cannot be read, is one line on stderr and exit code 3; bad arguments are 2, and an output that cannot be written is 4.
"""

import argparse
import hashlib
import json
import pathlib
import struct
import sys
from collections import namedtuple

from xxh3 import xxh3_64

HEADER, ENTRY, UNIT = 48, 20, 16
HASHES, RAGGED = 1, 2
MAX_VALUES, MAX_PERIOD, MAX_PAYLOADS = 65536, 65536, 1 << 36

# W and E of the page: bits of an element, bits of its exponent (BYTES has none).
Type = namedtuple("Type", "name bits exponent_bits")
TYPES = {
    1: Type("BF16", 16, 8), 2: Type("F16", 16, 5), 3: Type("F32", 32, 8),
    4: Type("F8_E4M3", 8, 4), 5: Type("F8_E5M2", 8, 5), 6: Type("BYTES", 8, None),
}

RAW, CONST, RANS = 0, 1, 7
Windows = namedtuple("Windows", "name k1 width1 k2 width2")
WINDOWS = {
    2: Windows("W4", 4, 15, 0, 0), 3: Windows("W3", 3, 7, 0, 0), 4: Windows("T22", 2, 3, 2, 3),
    5: Windows("T23", 2, 3, 3, 7), 6: Windows("T33", 3, 7, 3, 7),
}
MODE_NAMES = {RAW: "RAW", CONST: "CONST", RANS: "RANS", **{mode: w.name for mode, w in WINDOWS.items()}}

STATES, TOTAL_BITS, STATE_MIN = 32, 12, 65536
TOTAL = 1 << TOTAL_BITS

Header = namedtuple("Header", "version type flags block_bytes blocks raw_bytes payload_bytes period table_check header_hash")
Entry = namedtuple("Entry", "offset size values escapes mode shift base hash")


class Refused(Exception):
    """The page says that this must not be accepted."""


def need(holds, *what):
    if not holds:
        raise Refused(" ".join(str(w) for w in what))


def ceil16(x):
    return (x + 15) // 16 * 16


def ceil8(bits):
    return (bits + 7) // 8


class Content:
    """A payload, read from its start."""

    def __init__(self, payload):
        self.payload = payload
        self.at = 0

    def take(self, size, what):
        need(self.at + size <= len(self.payload), what, "ends behind the payload")
        self.at += size
        return self.payload[self.at - size : self.at]

    def codes(self, k, count, what):
        """A string of count codes of k bits: code i at bits ik to ik + k - 1, low bits of a byte first."""
        data = self.take(ceil8(k * count), what)
        out = []
        for first in range(0, len(data), k):  # 8 codes
            bits = int.from_bytes(data[first : first + k], "little")
            for _ in range(min(8, count - len(out))):
                out.append(bits & ((1 << k) - 1))
                bits >>= k
            need(bits == 0, "unused bits of", what, "are not 0")
        return out

    def finish(self):
        need(len(self.payload) == ceil16(self.at), "the content is", self.at, "bytes, the payload", len(self.payload))
        need(not any(self.payload[self.at :]), "the payload's padding is not 0")


def rest_planes(content, kind, n):
    """The rest of each value, R = W - E bits."""
    r = kind.bits - kind.exponent_bits
    rest = [0] * n
    for plane in range(r // 8):
        for i, byte in enumerate(content.take(n, f"rest plane {plane}")):
            rest[i] |= byte << (8 * plane)
    if r % 8:
        for i, code in enumerate(content.codes(r % 8, n, "the string of rests")):
            rest[i] |= code << (r // 8 * 8)
    return rest


def window_symbols(content, entry, e, n):
    w = WINDOWS[entry.mode]
    need(entry.shift <= w.width2, "shift is", entry.shift, "but at most", w.width2, "in", w.name)
    need(entry.base + w.width1 + w.width2 < 1 << e, "base", entry.base, "is too high for", w.name)
    first_window = range(entry.base + entry.shift, entry.base + entry.shift + w.width1)
    second_window = [s for s in range(entry.base, entry.base + w.width1 + w.width2) if s not in first_window]

    first = content.codes(w.k1, n, "the first codes")
    opened = first.count(w.width1)
    # Without a second level (width2 = 0) code 0 is the escape of every opened value.
    second = content.codes(w.k2, opened, "the second codes") if w.k2 else [0] * opened
    need(second.count(w.width2) == entry.escapes, "there are", second.count(w.width2), "escapes, the entry says", entry.escapes)
    raw = content.take(entry.escapes, "the raw exponents")
    need(all(s < 1 << e for s in raw), "a raw exponent is not below", 1 << e)

    raw, second = iter(raw), iter(second)
    symbols = []
    for code in first:
        if code < w.width1:
            symbols.append(first_window[code])
        else:
            code = next(second)
            symbols.append(second_window[code] if code < w.width2 else next(raw))
    return symbols


def rans_symbols(content, alphabet, n):
    first, last = content.take(2, "first and last")
    need(first <= last < alphabet, "symbols", first, "to", last, "of", alphabet)
    if first == last:
        frequency = [TOTAL]
    else:
        frequency = content.codes(TOTAL_BITS, last - first + 1, "the frequencies")
        need(frequency[0] and frequency[-1], "the frequency of", first, "or", last, "is 0")
        need(sum(frequency) == TOTAL, "the frequencies' sum is", sum(frequency), "instead of", TOTAL)
    symbol_of, start = [], []  # by q, by symbol - first
    for s, f in enumerate(frequency):
        start.append(len(symbol_of))
        symbol_of += [s] * f
    x = list(struct.unpack(f"<{STATES}I", content.take(4 * STATES, "the states")))
    need(min(x) >= STATE_MIN, "a state is below", STATE_MIN)
    symbols = []
    for i in range(n):
        j = i % STATES
        q = x[j] % TOTAL
        s = symbol_of[q]
        symbols.append(first + s)
        x[j] = frequency[s] * (x[j] // TOTAL) + q - start[s]
        if x[j] < STATE_MIN:
            x[j] = STATE_MIN * x[j] + int.from_bytes(content.take(2, "a word"), "little")
    need(all(state == STATE_MIN for state in x), "a state does not end as", STATE_MIN)
    return symbols


def decode_block(kind, table, entry, payload):
    """The raw bytes of a block; table has the bytes of all channels, or none."""
    n, e, width = entry.values, kind.exponent_bits, kind.bits // 8
    content = Content(payload)
    if entry.mode not in WINDOWS:
        need(entry.mode in MODE_NAMES, "mode is", entry.mode)
        need((entry.escapes, entry.shift, entry.base) == (0, 0, 0), "escapes, shift or base is not 0 in", MODE_NAMES[entry.mode])
    if entry.mode == RAW:
        raw = content.take(n * width, "the raw bytes")
    elif entry.mode == CONST:
        raw = content.take(width, "the element") * n
    elif entry.mode == RANS and width == 1:
        raw = bytes(rans_symbols(content, 256, n))
    else:
        need(e is not None, MODE_NAMES[entry.mode], "in a frame of", kind.name)
        rest = rest_planes(content, kind, n)
        symbols = rans_symbols(content, 1 << e, n) if entry.mode == RANS else window_symbols(content, entry, e, n)
        raw = bytearray()
        for i in range(n):
            exponent = (symbols[i] + (table[i % len(table)] if table else 0)) % (1 << e)
            rotated = exponent << (kind.bits - e) | rest[i]
            raw += (rotated >> 1 | (rotated & 1) << (kind.bits - 1)).to_bytes(width, "little")
    content.finish()
    return bytes(raw)


def read_header(frame):
    need(len(frame) >= HEADER, "the file has", len(frame), "bytes, a header", HEADER)
    need(frame[:4] == b"ZUPK", "the file does not begin with ZUPK")
    h = Header(*struct.unpack_from("<BBHIIQQIIQ", frame, 4))
    need(h.version == 1, "version is", h.version, "but this reads 1")
    need(h.header_hash == xxh3_64(frame[:40]), "header_hash does not fit the header")
    need(h.type in TYPES, "type is", h.type)
    kind = TYPES[h.type]
    width = kind.bits // 8
    need(h.flags & ~(HASHES | RAGGED) == 0, f"flags are {h.flags:#06x}")
    full, odd = divmod(h.block_bytes, width)
    need(odd == 0 and 1 <= full <= MAX_VALUES, "block_bytes is", h.block_bytes)
    need(h.raw_bytes % width == 0 and h.raw_bytes <= h.blocks * h.block_bytes, "raw_bytes is", h.raw_bytes)
    if not h.flags & RAGGED:
        need(h.blocks == -(-h.raw_bytes // h.block_bytes), "blocks is", h.blocks, "for", h.raw_bytes, "raw bytes")
    need(h.payload_bytes % UNIT == 0 and h.payload_bytes <= MAX_PAYLOADS, "payload_bytes is", h.payload_bytes)
    need(h.period <= MAX_PERIOD and (h.period == 0 or full % h.period == 0), "period is", h.period)
    need(h.period == 0 or kind.exponent_bits, "a table in a frame of", kind.name)
    need(h.period or h.table_check == 0, "table_check is not 0 though there is no table")
    return h, kind


def read_entry(h, kind, frame, at, offset, raw_left):
    """An entry whose payload begins at offset, when raw_left bytes of the tensor are still to come."""
    word, size, values, escapes, mode_shift, base, block_hash = struct.unpack_from("<IHHHBBQ", frame, at)
    entry = Entry(word * UNIT, size * UNIT, values + 1, escapes, mode_shift & 15, mode_shift >> 4 & 7, base, block_hash)
    raw = entry.values * kind.bits // 8
    need(mode_shift >> 7 == 0, "bit 7 of mode and shift is not 0")
    need(entry.offset == offset, "the payload's offset is", entry.offset, "but the sizes before make", offset)
    need(raw <= h.block_bytes, entry.values, "values are more than a full block")
    need(raw <= raw_left, "the blocks hold more than raw_bytes")
    need(h.flags & RAGGED or raw == min(h.block_bytes, raw_left), entry.values, "values though the frame is not ragged")
    need(UNIT <= entry.size <= ceil16(raw), "the payload's size is", entry.size)
    need(h.flags & HASHES or entry.hash == 0, "a hash though the flag is not set")
    return entry


def decode(frame):
    """(header, entries, raw bytes) of a frame; raises Refused."""
    h, kind = read_header(frame)
    directory_at = HEADER + ceil16(h.period)
    payloads_at = directory_at + ceil16(ENTRY * h.blocks)
    need(len(frame) == payloads_at + h.payload_bytes, "the file has", len(frame), "bytes, the header says", payloads_at + h.payload_bytes)
    table = frame[HEADER : HEADER + h.period]
    need(not h.period or h.table_check == xxh3_64(table) & 0xFFFFFFFF, "table_check does not fit the table")
    need(not any(frame[HEADER + h.period : directory_at]), "the table's padding is not 0")
    need(not any(frame[directory_at + ENTRY * h.blocks : payloads_at]), "the directory's padding is not 0")

    entries, raw, offset = [], bytearray(), 0
    for block in range(h.blocks):
        try:
            entry = read_entry(h, kind, frame, directory_at + ENTRY * block, offset, h.raw_bytes - len(raw))
            begin = payloads_at + offset
            offset += entry.size
            need(offset <= h.payload_bytes, "the payload ends behind payload_bytes")
            data = decode_block(kind, table, entry, frame[begin : begin + entry.size])
            need(not h.flags & HASHES or entry.hash == xxh3_64(data), "the hash does not fit the decoded bytes")
        except Refused as why:
            raise Refused(f"block {block}: {why}") from None
        entries.append(entry)
        raw += data
    need(len(raw) == h.raw_bytes, "the blocks hold", len(raw), "bytes, the header says", h.raw_bytes)
    need(offset == h.payload_bytes, "the payloads end at", offset, "but payload_bytes is", h.payload_bytes)
    return h, entries, bytes(raw)


def as_json(h, entries, raw):
    header = h._asdict()
    header.update(type=TYPES[h.type].name, flags={"hashes": bool(h.flags & HASHES), "ragged": bool(h.flags & RAGGED)})
    header.update(table_check=f"{h.table_check:08x}", header_hash=f"{h.header_hash:016x}")
    blocks = [{**e._asdict(), "mode": MODE_NAMES[e.mode], "hash": f"{e.hash:016x}"} for e in entries]
    return json.dumps({"header": header, "blocks": blocks, "sha256": hashlib.sha256(raw).hexdigest()})


def main():
    parser = argparse.ArgumentParser(description="Decodes and checks a frame of the lossless codec.")
    parser.add_argument("frame", metavar="FRAME", type=pathlib.Path)
    parser.add_argument("-o", metavar="RAW", dest="out", type=pathlib.Path, help="write the raw bytes")
    parser.add_argument("--json", action="store_true", help="print the fields of the header and of the blocks")
    arguments = parser.parse_args()
    try:
        h, entries, raw = decode(arguments.frame.read_bytes())
    except Refused as why:
        print(f"{arguments.frame}: refused: {why}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"{arguments.frame}: cannot be read: {error.strerror}", file=sys.stderr)
        return 3
    if arguments.out:
        try:
            arguments.out.write_bytes(raw)
        except OSError as error:
            print(f"{arguments.out}: cannot be written: {error.strerror}", file=sys.stderr)
            return 4
    if arguments.json:
        print(as_json(h, entries, raw))
    else:
        print(f"{TYPES[h.type].name}, {h.blocks} blocks, {len(raw)} bytes, sha256 {hashlib.sha256(raw).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
