"""docs/spec/codec.md, read by tools/spec/codec_decode.py, which shares nothing with src/codec: golden frames, the page's examples, frames made
here by hand, every bit flipped in a small frame, and a frame for each rule that breaks it.
"""

import hashlib
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/codec"
DECODER = ROOT / "tools/spec/codec_decode.py"
sys.path.insert(0, str(DECODER.parent))
import codec_decode as codec  # noqa: E402
from xxh3 import xxh3_64  # noqa: E402

BF16, F16, F32, F8_E4M3, F8_E5M2, BYTES = range(1, 7)
RAW, CONST, W4, W3, T22, T23, T33, RANS = range(8)
HASHES, RAGGED = 1, 2

# By xxHash 0.8.4, of the bytes 7ii + 3i + 1 mod 256.
XXH3 = {
    0: 0x2d06800538d394c2, 1: 0xe12ef9d2eb86ceeb, 3: 0x35488fe719dc1021, 4: 0x26203d6789a9cf24,
    8: 0x83ed104630ad987d, 9: 0xf65936fd5fbbb6ba, 16: 0xaf8cc67768149561, 17: 0xc3d904afc08445b8,
    64: 0x57456dfb31fa9398, 128: 0x0ba2552c334a2c90, 129: 0xcb8dcdd37cea0bd5, 240: 0x4fe0949fa7ed254c,
    241: 0x7a44fe8d013626bf, 1024: 0x5365687a61dc04af, 1025: 0x0ede97ab153d6aa2, 3000: 0x13d44ac3e2ea45da,
}


def golden(name):
    return (GOLDEN / f"{name}.zupk").read_bytes()


def sealed(frame):
    return frame[:40] + struct.pack("<Q", xxh3_64(frame[:40])) + frame[48:]


def patched(frame, at, fmt, value):
    """The frame with one field changed, and header_hash made to fit."""
    data = struct.pack("<" + fmt, value)
    return sealed(frame[:at] + data + frame[at + len(data) :])


def padded(data):
    return data + bytes(-len(data) % 16)


def string(k, codes):
    """The page's string of k-bit codes."""
    return sum(code << (i * k) for i, code in enumerate(codes)).to_bytes((k * len(codes) + 7) // 8, "little")


def rotated_back(kind, exponent, rest):
    """An element's bytes."""
    bits, e = codec.TYPES[kind].bits, codec.TYPES[kind].exponent_bits
    x = exponent << (bits - e) | rest
    return (x >> 1 | (x & 1) << (bits - 1)).to_bytes(bits // 8, "little")


def block(mode, raw, content, escapes=0, shift=0, base=0):
    return {"mode": mode, "raw": raw, "payload": padded(content), "escapes": escapes, "shift": shift, "base": base}


def make(kind, block_bytes, blocks, flags=HASHES, table=b""):
    """A frame of blocks that are coded already."""
    directory, offset = b"", 0
    for b in blocks:
        values = len(b["raw"]) * 8 // codec.TYPES[kind].bits
        directory += struct.pack("<IHHHBB", offset, len(b["payload"]) // 16, values - 1, b["escapes"], b["mode"] | b["shift"] << 4, b["base"])
        directory += struct.pack("<Q", xxh3_64(b["raw"]) if flags & HASHES else 0)
        offset += len(b["payload"]) // 16
    header = b"ZUPK" + struct.pack(
        "<BBHIIQQII", 1, kind, flags, block_bytes, len(blocks), sum(len(b["raw"]) for b in blocks), 16 * offset, len(table),
        xxh3_64(table) & 0xFFFFFFFF if table else 0,
    )
    return sealed(header + bytes(8)) + padded(table) + padded(directory) + b"".join(b["payload"] for b in blocks)


def rans(symbols, first, frequency):
    """first, last, frequencies, states and words of RANS: the page's steps backwards."""
    start = [sum(frequency[:s]) for s in range(len(frequency))]
    x, words = [65536] * 32, []
    for i in reversed(range(len(symbols))):
        s, j = symbols[i] - first, i % 32
        if x[j] >= frequency[s] << 20:
            words.append(x[j] & 0xFFFF)
            x[j] >>= 16
        x[j] = (x[j] // frequency[s] << 12) + x[j] % frequency[s] + start[s]
    codes = string(12, frequency) if len(frequency) > 1 else b""
    ends = bytes([first, first + len(frequency) - 1])
    return ends + codes + struct.pack("<32I", *x) + struct.pack(f"<{len(words)}H", *reversed(words))


class Spec(unittest.TestCase):
    def accepted(self, frame, raw):
        self.assertEqual(codec.decode(frame)[2].hex(), raw.hex())

    def refused(self, frame, why):
        with self.assertRaisesRegex(codec.Refused, why):
            codec.decode(frame)

    def test_xxh3(self):
        for n, value in XXH3.items():
            self.assertEqual(xxh3_64(bytes((7 * i * i + 3 * i + 1) & 255 for i in range(n))), value, n)

    def test_golden_frames(self):
        lines = [line.split() for line in (GOLDEN / "frames.txt").read_text().splitlines()]
        self.assertEqual(sorted(name for name, _, _ in lines), sorted(path.name for path in GOLDEN.glob("*.zupk")))
        for name, size, sha in lines:
            raw = codec.decode((GOLDEN / name).read_bytes())[2]
            self.assertEqual((len(raw), hashlib.sha256(raw).hexdigest()), (int(size), sha), name)

    def test_worked_examples(self):
        page = (ROOT / "docs/spec/codec.md").read_text(encoding="utf-8").split("## Worked example")[1]
        first, second = page.split("The third block")
        for text, data, least in ((first, golden("bf16-const"), 100), (second, golden("bf16-t23")[-112:], 60)):
            shown = 0
            for at, row in re.findall(r"^    ([0-9a-f]{2}) +((?:[0-9a-f]{2} {1,2})*[0-9a-f]{2})(?= {3}|$)", text, re.M):
                row = bytes.fromhex(row)
                self.assertEqual(data[int(at, 16) :][: len(row)].hex(" "), row.hex(" "), at)
                shown += len(row)
            self.assertGreater(shown, least)

    def test_every_bit_of_a_frame(self):
        """A flipped bit is refused, but for one: RAW and CONST are the same for a block of one value."""
        frame = golden("bf16-const")
        raw, accepted = codec.decode(frame)[2], []
        for bit in range(8 * len(frame)):
            flipped = bytearray(frame)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                self.assertEqual(codec.decode(bytes(flipped))[2], raw)
                accepted.append(bit)
            except codec.Refused:
                pass
        self.assertEqual(accepted, [8 * 0x4E])

    def test_every_bit_of_a_payload(self):
        """Every bit of a payload is used: flipped it is refused, or gives other bytes, which the hash tells."""
        frame = golden("bf16-t23")
        entry, payload = codec.decode(frame)[1][2], frame[-112:]
        outcomes = {"refused": 0, "other": 0, "same": 0}
        raw = codec.decode_block(codec.TYPES[BF16], b"", entry, payload)
        for bit in range(8 * len(payload)):
            flipped = bytearray(payload)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                outcomes["same" if codec.decode_block(codec.TYPES[BF16], b"", entry, bytes(flipped)) == raw else "other"] += 1
            except codec.Refused:
                outcomes["refused"] += 1
        self.assertEqual(outcomes["same"], 0)
        self.assertGreaterEqual(outcomes["other"], 8 * 76)  # the rest plane at least
        self.assertGreaterEqual(outcomes["refused"], 8 * 10)  # the padding at least

    def test_ragged_and_without_hashes(self):
        blocks = [block(CONST, b"\x11" * 3, b"\x11"), block(RAW, bytes(range(8)), bytes(range(8))), block(RAW, b"\x80", b"\x80")]
        raw = b"\x11" * 3 + bytes(range(8)) + b"\x80"
        for flags in (RAGGED, RAGGED | HASHES):
            self.accepted(make(F8_E4M3, 8, blocks, flags), raw)
        self.refused(make(F8_E4M3, 8, blocks), "blocks is 3 for 12")
        self.refused(make(F8_E4M3, 8, blocks[:2]), "block 0: 3 values though the frame is not ragged")
        self.accepted(make(F8_E4M3, 8, blocks[1:], 0), raw[3:])

    def test_no_blocks(self):
        self.accepted(make(BF16, 8, [], table=b"\x05\x06"), b"")
        self.refused(make(BF16, 8, []) + bytes(16), "the file has 64 bytes, the header says 48")
        self.refused(patched(make(BF16, 8, []), 24, "Q", 16) + bytes(16), "the payloads end at 0")

    def test_windows_by_hand(self):
        # E4M3, W4: the only base is 0, and 15, the highest symbol, is in no window.
        raw = b"".join(rotated_back(F8_E4M3, e, 9) for e in (0, 14, 15))
        rest = string(4, [9, 9, 9])
        w4 = block(W4, raw, rest + string(4, [0, 14, 15]) + b"\x0f", escapes=1)
        self.accepted(make(F8_E4M3, 3, [w4]), raw)
        self.refused(make(F8_E4M3, 3, [{**w4, "base": 1}]), "base 1 is too high for W4")
        self.refused(make(F8_E4M3, 3, [{**w4, "shift": 1}]), "shift is 1 but at most 0 in W4")
        self.refused(make(F8_E4M3, 3, [block(W4, raw, rest + string(4, [0, 14, 15]) + b"\x10", escapes=1)]), "a raw exponent is not below 16")
        self.refused(make(BYTES, 3, [w4]), "W4 in a frame of BYTES")
        # A symbol of a window may be escaped all the same.
        self.accepted(make(F8_E4M3, 3, [block(W4, raw, rest + string(4, [0, 15, 15]) + b"\x0e\x0f", escapes=2)]), raw)
        # E5M2, T22 with shift 1: first window 5 6 7, second 4 8 9; a table of 2 channels, of whose 2nd only 31 (-1) counts.
        symbols = [5, 6, 7, 4, 8, 9, 30]
        raw = b"".join(rotated_back(F8_E5M2, (s - i % 2) % 32, i) for i, s in enumerate(symbols))
        content = string(3, range(7)) + string(2, [0, 1, 2, 3, 3, 3, 3]) + string(2, [0, 1, 2, 3]) + b"\x1e"
        t22 = block(T22, raw, content, escapes=1, shift=1, base=4)
        for second in (0x1F, 0xFF):
            self.accepted(make(F8_E5M2, 8, [t22], table=bytes([0x20, second])), raw)
        self.refused(make(F8_E5M2, 8, [t22], table=bytes(2)), "block 0: the hash")
        self.refused(make(F8_E5M2, 8, [{**t22, "shift": 4}]), "shift is 4 but at most 3 in T22")
        bad = make(F8_E5M2, 8, [t22], table=bytes([0, 31]))
        self.refused(patched(bad, 50, "B", 1), "the table's padding")
        self.refused(patched(bad, 49, "B", 30), "table_check does not fit")
        for at, where in ((2, "the string of rests"), (4, "the first codes")):
            damaged = bytearray(t22["payload"])
            damaged[at] |= 0x80
            self.refused(make(F8_E5M2, 8, [{**t22, "payload": bytes(damaged)}]), f"unused bits of {where}")

    def test_rans_by_hand(self):
        for kind, size in ((F16, 2), (F32, 4)):
            e, r = codec.TYPES[kind].exponent_bits, codec.TYPES[kind].bits - codec.TYPES[kind].exponent_bits
            top = (1 << e) - 1
            symbols = [top - (i * i % 7 > 3) - (i % 5 == 0) for i in range(1000)]
            rests = [i * 0x9E3779B1 % (1 << r) for i in range(1000)]
            raw = b"".join(rotated_back(kind, s, x) for s, x in zip(symbols, rests))
            planes = b"".join(bytes(x >> 8 * p & 255 for x in rests) for p in range(r // 8))
            planes += string(r % 8, [x >> (r // 8 * 8) for x in rests]) if r % 8 else b""
            self.accepted(make(kind, 1000 * size, [block(RANS, raw, planes + rans(symbols, top - 2, [100, 1900, 2096]))]), raw)
        # Fewer values than states, one symbol, and a table that modes of bytes do not use.
        for kind, table in ((BYTES, b""), (F8_E4M3, b"\x07")):
            raw = b"\xfe" * 200
            self.accepted(make(kind, 200, [block(RANS, raw, rans(raw, 0xFE, [4096]))], table=table), raw)

    def test_rans_rules(self):
        raw = bytes([3, 5, 3, 3, 5] * 300)
        good = rans(raw, 3, [2048, 0, 2048])  # 2 + 5 + 128 bytes, then words
        words = (len(good) - 135) // 2
        self.assertGreater(words, 0)

        def refused(content, why):
            self.refused(make(BYTES, 1500, [block(RANS, raw, content)]), why)

        self.accepted(make(BYTES, 1500, [block(RANS, raw, good)]), raw)
        refused(b"\x05\x03" + good[2:], "symbols 5 to 3 of 256")
        refused(good[:2] + string(12, [0, 2048, 2048]) + good[7:], "the frequency of 3 or 5 is 0")
        refused(good[:2] + string(12, [2048, 0, 2047]) + good[7:], "sum is 4095")
        refused(good[:6] + bytes([good[6] | 0x80]) + good[7:], "unused bits of the frequencies")
        refused(good[:7] + struct.pack("<I", 65535) + good[11:], "a state is below")
        refused(good[:7] + struct.pack("<I", struct.unpack_from("<I", good, 7)[0] + (1 << 12)) + good[11:], "a state does not end|the hash|a word")
        refused(good + b"\x01\x00", "the payload's padding|the content is")
        refused(good[: len(good) // 16 * 16 - 16], "a word ends behind the payload")
        one = rans([0] * 1500, 0, [4096])
        self.accepted(make(BYTES, 1500, [block(RANS, bytes(1500), one)]), bytes(1500))
        self.refused(make(BYTES, 1500, [block(RANS, bytes(1500), one[:2] + struct.pack("<I", 65537) + one[6:])]), "a state does not end as 65536")
        values = rotated_back(F16, 31, 0) * 1000
        for s, why in ((31, None), (32, "symbols 32 to 32 of 32")):
            frame = make(F16, 2000, [block(RANS, values, bytes(1375) + rans([s] * 1000, s, [4096]))])
            self.refused(frame, why) if why else self.accepted(frame, values)

    def test_header_rules(self):
        frame = golden("bf16-const")
        for at, fmt, value, why in (
            (0, "B", 0x5B, "does not begin with ZUPK"), (4, "B", 2, "version is 2"), (5, "B", 0, "type is 0"), (5, "B", 7, "type is 7"),
            (6, "H", 5, "flags are 0x0005"), (6, "H", 0x8001, "flags are 0x8001"), (8, "I", 0, "block_bytes is 0"), (8, "I", 1023, "block_bytes is 1023"),
            (8, "I", 131074, "block_bytes is 131074"), (12, "I", 3, "blocks is 3"), (16, "Q", 1025, "raw_bytes is 1025"), (16, "Q", 2050, "raw_bytes is 2050"),
            (24, "Q", 33, "payload_bytes is 33"), (24, "Q", (1 << 36) + 16, "payload_bytes is 68719476752"), (32, "I", 3, "period is 3"),
            (32, "I", 1024, "period is 1024"), (36, "I", 1, "table_check is not 0"), (5, "B", 6, "blocks is|values|block 0"),
        ):
            self.refused(patched(frame, at, fmt, value), why)
        self.refused(frame[:40] + bytes([frame[40] ^ 1]) + frame[41:], "header_hash")
        self.refused(frame[:47], "the file has 47 bytes, a header 48")
        self.refused(frame + b"\0", "the file has 129 bytes, the header says 128")
        self.refused(frame[:-16], "the file has 112 bytes, the header says 128")
        self.refused(make(BYTES, 8, [], table=b"\1"), "a table in a frame of BYTES")

    def test_entry_rules(self):
        frame, first, second = golden("bf16-const"), 48, 68
        for at, fmt, value, why in (
            (first, "I", 1, "block 0: the payload's offset is 16 but the sizes before make 0"), (second, "I", 0, "block 1: the payload's offset"),
            (first + 4, "H", 0, "block 0: the payload's size is 0"), (first + 4, "H", 65, "block 0: the payload's size is 1040"),
            (first + 4, "H", 2, "block 0: the content is 2 bytes, the payload 32"), (first + 4, "H", 3, "block 0: the payload ends behind"),
            (first + 6, "H", 512, "block 0: 513 values are more than a full block"), (first + 6, "H", 510, "block 0: 511 values though"),
            (second + 6, "H", 1, "block 1: the blocks hold more"), (first + 8, "H", 1, "block 0: escapes, shift or base"),
            (first + 10, "B", 0x11, "block 0: escapes, shift or base"), (first + 11, "B", 1, "block 0: escapes, shift or base"),
            (first + 10, "B", 0x81, "block 0: bit 7"), (first + 10, "B", 8, "block 0: mode is 8"), (first + 10, "B", 15, "block 0: mode is 15"),
            (first + 12, "Q", 0, "block 0: the hash"), (6, "H", 0, "block 0: a hash though"), (88, "B", 1, "the directory's padding"),
            (98, "B", 1, "block 0: the payload's padding"), (16, "Q", 1028, "block 1: 1 values though"),
        ):
            self.refused(patched(frame, at, fmt, value), why)
        ragged = patched(frame, 6, "H", 3)
        self.accepted(ragged, b"\x3f\x3f" * 513)
        self.refused(patched(ragged, 16, "Q", 1028), "the blocks hold 1026 bytes, the header says 1028")
        frame = golden("bf16-t22")
        for at, fmt, value, why in (
            (first + 11, "B", 250, "block 0: base 250 is too high"), (first + 10, "B", 0x44, "block 0: shift is 4"),
            (first + 8, "H", 1, "block 0: there are 0 escapes, the entry says 1"), (first + 10, "B", 0x24, "block 0: the hash"),
        ):
            self.refused(patched(frame, at, fmt, value), why)

    def test_command(self):
        def run(*arguments):
            return subprocess.run([sys.executable, str(DECODER), *map(str, arguments)], capture_output=True, text=True)

        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            done = run(GOLDEN / "bf16-const.zupk", "-o", folder / "raw", "--json")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual((folder / "raw").read_bytes(), b"\x3f\x3f" * 513)
            said = json.loads(done.stdout)
            self.assertEqual((said["header"]["raw_bytes"], said["blocks"][1]["mode"]), (1026, "CONST"))
            (folder / "bad").write_bytes(golden("bf16-const")[:-1])
            done = run(folder / "bad", "-o", folder / "none")
            self.assertEqual((done.returncode, done.stderr.count("\n"), done.stdout), (3, 1, ""))
            self.assertFalse((folder / "none").exists())
            done = run(folder / "absent")
            self.assertEqual((done.returncode, done.stderr.count("\n")), (3, 1))
            self.assertEqual(run().returncode, 2)
            self.assertEqual(run(GOLDEN / "empty.zupk", "-o", folder / "absent" / "raw").returncode, 4)


if __name__ == "__main__":
    unittest.main()
