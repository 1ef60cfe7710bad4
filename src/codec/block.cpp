#include "codec/block.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "codec/choose.h"
#include "codec/rans.h"
#include "codec/symbols.h"

namespace zeroulp::codec {
namespace {

Window first_window(Mode mode, uint8_t base, uint8_t shift) {
  return {static_cast<uint8_t>(base + shift), static_cast<uint8_t>(windows_of(mode).width1), 0, 0};
}
Window second_window(Mode mode, uint8_t base, uint8_t shift) {
  const Windows w = windows_of(mode);
  return {base, static_cast<uint8_t>(w.width2), static_cast<uint8_t>(base + shift), static_cast<uint8_t>(w.width1)};
}

bool all_equal(const std::byte* raw, uint32_t values, uint32_t element) {
  return std::memcmp(raw, raw + element, static_cast<size_t>(values - 1) * element) == 0;
}

void store_padded(const std::byte* from, uint32_t bytes, std::byte* to) {
  std::memcpy(to, from, bytes);
  std::memset(to + bytes, 0, round_up16(bytes) - bytes);
}

bool zero(const std::byte* begin, const std::byte* end) {
  return std::all_of(begin, end, [](std::byte b) { return b == std::byte{0}; });
}

struct Coded {
  uint32_t bytes = 0;  // before padding
  uint32_t opened = 0, escapes = 0;
};

// The codes of both levels into the scratch; nothing is written to a payload yet.
Coded code_windows(const Kernels& kernels, const TypeInfo& t, const Choice& c, uint32_t values, Scratch& s) {
  const Windows w = windows_of(c.mode);
  Coded coded;
  coded.opened = kernels.code(s.symbols(), values, first_window(c.mode, c.base, c.shift), s.codes1(), s.left1());
  coded.escapes = coded.opened;
  if (w.bits2 != 0) coded.escapes = kernels.code(s.left1(), coded.opened, second_window(c.mode, c.base, c.shift), s.codes2(), s.left2());
  coded.bytes = rest_bytes(t, values) + string_bytes(values, w.bits1) + string_bytes(coded.opened, w.bits2) + coded.escapes;
  return coded;
}

void write_windows(const Kernels& kernels, const TypeInfo& t, const Choice& c, uint32_t values, const Coded& coded, std::byte* to, Scratch& s) {
  const Windows w = windows_of(c.mode);
  std::byte* at = to + rest_bytes(t, values);
  kernels.pack(s.codes1(), values, w.bits1, at);
  at += string_bytes(values, w.bits1);
  if (w.bits2 != 0) kernels.pack(s.codes2(), coded.opened, w.bits2, at);
  at += string_bytes(coded.opened, w.bits2);
  std::memcpy(at, w.bits2 == 0 ? s.left1() : s.left2(), coded.escapes);
  std::memset(to + coded.bytes, 0, round_up16(coded.bytes) - coded.bytes);
}

// BF16 without a table and in mode W4 goes in one pass over the values.
bool in_one_pass(const Coding& coding, Mode mode) { return coding.type == Type::kBF16 && coding.table.empty() && mode == Mode::kW4; }

Coded encode_in_one_pass(const Kernels& kernels, const Choice& c, const std::byte* raw, uint32_t values, std::byte* to, Scratch& s) {
  Coded coded;
  coded.opened = coded.escapes = kernels.encode_w4(raw, values, c.base, to, to + values, s.left1(), s.soon);
  coded.bytes = values + string_bytes(values, 4) + coded.escapes;
  return coded;
}

Fault decode_windows(const Kernels& kernels, const Coding& coding, const Entry& e, const std::byte* payload, std::byte* raw, Scratch& s) {
  const TypeInfo& t = type_info(coding.type);
  const Windows w = windows_of(e.mode);
  const int symbols = 1 << t.exponent_bits;
  if (t.exponent_bits == 0) return Fault::kMode;
  if (e.base + w.width1 + w.width2 >= symbols) return Fault::kParameters;

  const uint32_t rest = rest_bytes(t, e.values), codes1 = string_bytes(e.values, w.bits1);
  if (rest + codes1 > e.size) return Fault::kSize;
  if (!string_ends_clean(payload + rest, e.values, w.bits1)) return Fault::kPadding;
  if (in_one_pass(coding, e.mode)) {
    const uint32_t bytes = rest + codes1 + e.escapes;
    if (round_up16(bytes) != e.size) return Fault::kSize;
    if (!zero(payload + bytes, payload + e.size)) return Fault::kPadding;
    std::memcpy(s.left2(), payload + rest + codes1, e.escapes);
    return kernels.decode_w4(payload, payload + rest, e.values, e.base, s.left2(), raw, s.soon) == e.escapes ? Fault::kNone : Fault::kEscapes;
  }
  kernels.unpack(payload + rest, e.values, w.bits1, s.codes1());
  const uint32_t opened = kernels.count(s.codes1(), e.values, static_cast<uint8_t>(w.width1));
  const uint32_t codes2 = string_bytes(opened, w.bits2), size = rest + codes1 + codes2 + e.escapes;
  if (round_up16(size) != e.size) return Fault::kSize;

  uint32_t escapes = opened;
  if (w.bits2 != 0) {
    if (!string_ends_clean(payload + rest + codes1, opened, w.bits2)) return Fault::kPadding;
    kernels.unpack(payload + rest + codes1, opened, w.bits2, s.codes2());
    escapes = kernels.count(s.codes2(), opened, static_cast<uint8_t>(w.width2));
  }
  if (escapes != e.escapes) return Fault::kEscapes;
  const uint8_t* raw_symbols = reinterpret_cast<const uint8_t*>(payload) + rest + codes1 + codes2;
  for (uint32_t i = 0; i < escapes; ++i)
    if (raw_symbols[i] >= symbols) return Fault::kSymbol;
  if (!zero(payload + size, payload + e.size)) return Fault::kPadding;

  std::memcpy(s.left2(), raw_symbols, escapes);  // where kernels may read on
  raw_symbols = s.left2();
  if (w.bits2 != 0) {
    kernels.decode(s.codes2(), opened, second_window(e.mode, e.base, e.shift), raw_symbols, s.left1());
    raw_symbols = s.left1();
  }
  kernels.decode(s.codes1(), e.values, first_window(e.mode, e.base, e.shift), raw_symbols, s.symbols());
  return merge(kernels, coding, payload, s.symbols(), e.values, raw, s.bits()) ? Fault::kNone : Fault::kPadding;
}

Fault decode_raw(const Entry& e, uint32_t element, const std::byte* payload, std::byte* raw) {
  const uint32_t bytes = e.values * element;
  if (e.size != round_up16(bytes)) return Fault::kSize;
  if (!zero(payload + bytes, payload + e.size)) return Fault::kPadding;
  std::memcpy(raw, payload, bytes);
  return Fault::kNone;
}

Fault decode_const(const Entry& e, uint32_t element, const std::byte* payload, std::byte* raw) {
  if (e.size != kAlign) return Fault::kSize;
  if (!zero(payload + element, payload + kAlign)) return Fault::kPadding;
  for (uint32_t i = 0; i < e.values; ++i) std::memcpy(raw + i * element, payload, element);
  return Fault::kNone;
}

// Takes the entropy-coded form where it is shorter than `size`, which is that of the best other form. The rest planes are at `to` already;
// where the form has none, it overwrites them.
bool try_rans(const TypeInfo& t, const std::byte* raw, uint32_t values, uint32_t size, std::byte* to, Scratch& s, Entry& e) {
  const uint32_t rest = rans::has_rest(t) ? rest_bytes(t, values) : 0;
  if (rest >= size) return false;
  const uint8_t* symbols = rans::has_rest(t) ? s.symbols() : reinterpret_cast<const uint8_t*>(raw);
  const uint32_t coded = rans::encode(symbols, values, to + rest, size - rest, s.words());
  if (coded == 0 || round_up16(rest + coded) >= size) return false;
  std::memset(to + rest + coded, 0, round_up16(rest + coded) - rest - coded);
  e.mode = Mode::kRans;
  e.size = round_up16(rest + coded);
  e.base = e.shift = 0;
  e.escapes = 0;
  return true;
}

}  // namespace

Scratch::Scratch(uint32_t values) : stride_((values + 2 * kSlack + 63) / 64 * 64), memory_(6 * stride_) {}

Entry encode_block(const Kernels& kernels, const Coding& coding, Level level, const std::byte* raw, uint32_t values, std::byte* to, Scratch& s) {
  const TypeInfo& t = type_info(coding.type);
  const uint32_t element = static_cast<uint32_t>(t.bytes), bytes = values * element;
  Entry e;
  e.values = values;
  e.size = round_up16(bytes);
  if (all_equal(raw, values, element)) {
    e.mode = Mode::kConst;
    e.size = kAlign;
    store_padded(raw, element, to);
    return e;
  }
  Coded coded;
  Choice choice;
  bool one_pass = false;
  if (t.exponent_bits != 0) {
    uint32_t histogram[256];
    const uint32_t samples = sample(kernels, coding, raw, values, histogram, s.soon);
    choice = choose(histogram, samples, t.exponent_bits, level);
    one_pass = in_one_pass(coding, choice.mode) && level != Level::kRest;
    if (one_pass) {
      coded = encode_in_one_pass(kernels, choice, raw, values, to, s);
    } else {
      split(kernels, coding, raw, values, to, s.symbols(), s.bits());
      coded = code_windows(kernels, t, choice, values, s);
    }
    if (round_up16(coded.bytes) < e.size)
      e.mode = choice.mode, e.size = round_up16(coded.bytes), e.base = choice.base, e.shift = choice.shift, e.escapes = coded.escapes;
  }
  if (level == Level::kRest && try_rans(t, raw, values, e.size, to, s, e)) return e;
  if (e.mode == Mode::kRaw) {
    store_padded(raw, bytes, to);
  } else if (one_pass) {
    std::memcpy(to + coded.bytes - coded.escapes, s.left1(), coded.escapes);
    std::memset(to + coded.bytes, 0, e.size - coded.bytes);
  } else {
    if (level == Level::kRest && !rans::has_rest(t)) split(kernels, coding, raw, values, to, s.symbols(), s.bits());
    write_windows(kernels, t, choice, values, coded, to, s);
  }
  return e;
}

Fault decode_block(const Kernels& kernels, const Coding& coding, const Entry& e, const std::byte* payload, std::byte* raw, Scratch& s) {
  const TypeInfo& t = type_info(coding.type);
  const uint32_t element = static_cast<uint32_t>(t.bytes);
  switch (e.mode) {
    case Mode::kRaw: return decode_raw(e, element, payload, raw);
    case Mode::kConst: return decode_const(e, element, payload, raw);
    case Mode::kRans: break;
    default: return decode_windows(kernels, coding, e, payload, raw, s);
  }
  const uint32_t rest = rans::has_rest(t) ? rest_bytes(t, e.values) : 0;
  if (rest > e.size) return Fault::kSize;
  if (const Fault fault = rans::decode(payload + rest, e.size - rest, e.values, rans::symbols(t), s.symbols()); fault != Fault::kNone) return fault;
  if (rest == 0) {
    std::memcpy(raw, s.symbols(), e.values);
    return Fault::kNone;
  }
  return merge(kernels, coding, payload, s.symbols(), e.values, raw, s.bits()) ? Fault::kNone : Fault::kPadding;
}

}  // namespace zeroulp::codec
