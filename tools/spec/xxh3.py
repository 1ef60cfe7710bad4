"""XXH3-64 with seed 0 and the default secret, for the readers in this folder. Definition: doc/xxhash_spec.md of xxHash 0.8."""

import struct

PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
PRIME64_4, PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRIME_MX1, PRIME_MX2 = 0x165667919E3779F9, 0x9FB21C651E98DF25
MASK32, MASK64 = (1 << 32) - 1, (1 << 64) - 1

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
STRIPE = 64
STRIPES_PER_BLOCK = (len(SECRET) - STRIPE) // 8


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def rotate_left(value, bits):
    return (value << bits | value >> (64 - bits)) & MASK64


def fold(a, b):
    """The 128-bit product, its halves xored."""
    product = a * b
    return (product & MASK64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * PRIME_MX1 & MASK64
    return h ^ h >> 32


def avalanche_xxh64(h):
    h ^= h >> 33
    h = h * PRIME64_2 & MASK64
    h ^= h >> 29
    h = h * PRIME64_3 & MASK64
    return h ^ h >> 32


def mix16(data, at, secret_at):
    return fold(u64(data, at) ^ u64(SECRET, secret_at), u64(data, at + 8) ^ u64(SECRET, secret_at + 8))


def short(data):
    """0 to 16 bytes."""
    n = len(data)
    if n == 0:
        return avalanche_xxh64(u64(SECRET, 56) ^ u64(SECRET, 64))
    if n < 4:
        combined = data[0] << 16 | data[n // 2] << 24 | data[-1] | n << 8
        return avalanche_xxh64(combined ^ u32(SECRET, 0) ^ u32(SECRET, 4))
    if n <= 8:
        h = (u32(data, n - 4) | u32(data, 0) << 32) ^ u64(SECRET, 8) ^ u64(SECRET, 16)
        h ^= rotate_left(h, 49) ^ rotate_left(h, 24)
        h = h * PRIME_MX2 & MASK64
        h ^= (h >> 35) + n
        h = h * PRIME_MX2 & MASK64
        return h ^ h >> 28
    low = u64(data, 0) ^ u64(SECRET, 24) ^ u64(SECRET, 32)
    high = u64(data, n - 8) ^ u64(SECRET, 40) ^ u64(SECRET, 48)
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    return avalanche((n + swapped + high + fold(low, high)) & MASK64)


def medium(data):
    """17 to 240 bytes."""
    n = len(data)
    acc = n * PRIME64_1
    if n <= 128:
        for i in range((n - 1) // 32 + 1):
            acc += mix16(data, 16 * i, 32 * i) + mix16(data, n - 16 * (i + 1), 32 * i + 16)
        return avalanche(acc & MASK64)
    acc += sum(mix16(data, 16 * i, 16 * i) for i in range(8))
    acc = avalanche(acc & MASK64)
    acc += sum(mix16(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, n // 16))
    acc += mix16(data, n - 16, 136 - 17)
    return avalanche(acc & MASK64)


def accumulate(acc, data, at, secret_at):
    values = struct.unpack_from("<8Q", data, at)
    keys = struct.unpack_from("<8Q", SECRET, secret_at)
    for i in range(8):
        key = values[i] ^ keys[i]
        acc[i ^ 1] = (acc[i ^ 1] + values[i]) & MASK64
        acc[i] = (acc[i] + (key & MASK32) * (key >> 32)) & MASK64


def scramble(acc):
    keys = struct.unpack_from("<8Q", SECRET, len(SECRET) - STRIPE)
    for i in range(8):
        acc[i] = (acc[i] ^ acc[i] >> 47 ^ keys[i]) * PRIME32_1 & MASK64


def long(data):
    """More than 240 bytes."""
    n = len(data)
    acc = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    for stripe in range((n - 1) // STRIPE):
        accumulate(acc, data, STRIPE * stripe, 8 * (stripe % STRIPES_PER_BLOCK))
        if stripe % STRIPES_PER_BLOCK == STRIPES_PER_BLOCK - 1:
            scramble(acc)
    accumulate(acc, data, n - STRIPE, len(SECRET) - STRIPE - 7)
    h = n * PRIME64_1
    for i in range(4):
        h += fold(acc[2 * i] ^ u64(SECRET, 11 + 16 * i), acc[2 * i + 1] ^ u64(SECRET, 19 + 16 * i))
    return avalanche(h & MASK64)


def xxh3_64(data):
    if len(data) <= 16:
        return short(data)
    return medium(data) if len(data) <= 240 else long(data)
