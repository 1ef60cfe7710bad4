"""The identity of a quantised model folder, computed from docs/spec/model.md alone: an independent reader of the format.

Usage: model_identity.py FOLDER; prints the identity and exits with 1 if zeroulp.json says another.
"""

import hashlib
import json
import pathlib
import struct
import sys

HEADER_FIELDS = ("config", "contract", "format", "key_widths", "linear_widths", "row_scales")


def u64(value):
    return struct.pack("<Q", value)


def identity(folder):
    header = json.loads((folder / "zeroulp.json").read_text(encoding="utf-8"))
    file = (folder / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", file[:8])
    index = json.loads(file[8 : 8 + length])
    data = file[8 + length :]
    text = json.dumps({key: header[key] for key in HEADER_FIELDS if key in header}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    text = text.encode("utf-8")
    sha = hashlib.sha256(u64(len(text)) + text)
    for name in sorted(index, key=lambda key: key.encode("utf-8")):
        if name == "__metadata__":
            continue
        tensor = index[name]
        encoded = name.encode("utf-8")
        sha.update(u64(len(encoded)) + encoded + tensor["dtype"].encode("ascii") + u64(len(tensor["shape"])))
        for extent in tensor["shape"]:
            sha.update(u64(extent))
        begin, end = tensor["data_offsets"]
        sha.update(data[begin:end])
    return sha.hexdigest(), header["identity"]


def main():
    computed, stored = identity(pathlib.Path(sys.argv[1]))
    print(computed)
    return 0 if computed == stored else 1


if __name__ == "__main__":
    sys.exit(main())
