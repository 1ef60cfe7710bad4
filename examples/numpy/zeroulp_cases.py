"""Streams of cases (docs/spec/cases.md) in Python: NumPy alone.

    import sys, zeroulp_cases
    for case in zeroulp_cases.answering(sys.stdin.buffer, sys.stdout.buffer):
        case.answer(y=my_kernel(case.inputs["codes"], ..., case.attributes["width"]))   # or case.decline()

A bf16 tensor is an array of uint16: its bits.
"""

import struct

import numpy as np

TYPES = {1: np.dtype("<u2"), 3: np.dtype("<f4"), 7: np.dtype("i1"), 8: np.dtype("u1"), 9: np.dtype("<i2"), 10: np.dtype("<i4"), 11: np.dtype("<i8")}
BF16, F32, I8, U8, I16, I32, I64 = TYPES
KINDS = ("", "exhaustive", "hard", "random", "captured")
MAGIC = b"\x89ZUCAS\r\n"


class Fields:
    """Takes fields off a payload."""

    def __init__(self, payload):
        self.payload, self.at = payload, 0

    def number(self, form):
        value = struct.unpack_from("<" + form, self.payload, self.at)[0]
        self.at += struct.calcsize(form)
        return value

    def bytes(self, count):
        value = self.payload[self.at:self.at + count]
        self.at += -(-count // 8) * 8
        return value

    def text(self):
        length = self.number("I")
        value = self.payload[self.at:self.at + length].decode()
        self.at += length + -(length + 4) % 8
        return value

    def spec(self):
        name, wire, rank = self.text(), self.number("I"), self.number("I")
        return name, wire, tuple(self.number("q") for _ in range(rank))


def padded(data):
    return data + bytes(-len(data) % 8)


def text_bytes(text):
    return padded(struct.pack("<I", len(text.encode())) + text.encode())


class Case:
    """inputs: arrays by name; attributes: int, float or str by name; outputs: (type number, shape) by name, in the order asked for."""

    def __init__(self, payload, to=None):
        fields = Fields(payload)
        self.index, kind, attributes, inputs, outputs = (fields.number(f) for f in "qIIII")
        self.kind = KINDS[kind]
        self.op, self.name, self.catches = fields.text(), fields.text(), fields.text()
        self.attributes, self.inputs, self.outputs, self.to, self.answered = {}, {}, {}, to, False
        for _ in range(attributes):
            name, wire, _ = fields.text(), fields.number("I"), fields.number("I")
            self.attributes[name] = fields.text() if wire == 3 else fields.number("q" if wire == 1 else "d")
        for _ in range(inputs):
            name, wire, shape = fields.spec()
            size = fields.number("Q")
            self.inputs[name] = np.frombuffer(fields.bytes(size), TYPES[wire]).reshape(shape)
        for _ in range(outputs):
            name, wire, shape = fields.spec()
            self.outputs[name] = (wire, shape)

    def answer(self, **tensors):
        """One array per output; its values are taken as they are, so types must be right."""
        payload = struct.pack("<qII", self.index, len(self.outputs), 0)
        for name, (wire, shape) in self.outputs.items():
            array = np.ascontiguousarray(tensors[name]).reshape(shape)
            if array.dtype != TYPES[wire]:
                raise TypeError(f"{self.op}: output {name} is {array.dtype}; it must be {TYPES[wire]}")
            payload += text_bytes(name) + struct.pack(f"<II{len(shape)}qQ", wire, len(shape), *shape, array.nbytes) + padded(array.tobytes())
        self.send(payload)

    def decline(self):
        self.send(struct.pack("<qII", self.index, 0, 0))

    def send(self, payload):
        self.to.write(struct.pack("<IIQ", 2, 0, len(payload)) + payload)
        self.answered = True


def read(source, count):
    data = source.read(count)
    if len(data) != count:
        raise EOFError("the stream of cases is cut off")
    return data


def answering(source, to):
    """The cases of a stream, one after another; copies what it reads. Each must be answered or declined."""
    fixed = read(source, 16)
    if fixed[:8] != MAGIC:
        raise ValueError("not a stream of cases")
    to.write(fixed + read(source, struct.unpack_from("<I", fixed, 12)[0]))
    while True:
        prefix = read(source, 16)
        kind, _, length = struct.unpack("<IIQ", prefix)
        payload = read(source, length)
        to.write(prefix + payload)
        if kind == 3:
            to.flush()
            return
        case = Case(payload, to)
        yield case
        if not case.answered:
            raise RuntimeError(f"case {case.index} was neither answered nor declined")
