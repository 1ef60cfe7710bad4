// The generated tables, for unicode.cpp and nfc.cpp alone.
#pragma once

#include <cstdint>
#include <span>

namespace zeroulp::tokenizer {

struct CodePointRange {
  uint32_t first, last;
};
struct CombiningRange {
  uint32_t first, last, combining_class;
};
struct Decomposition {
  uint32_t code_point, parts[4];  // 0 ends a shorter one
};
struct Composition {
  uint32_t first, second, composed;
};

struct UnicodeTables {
  std::span<const CodePointRange> letters, numbers, spaces, digits, words;
  std::span<const CombiningRange> combining;
  std::span<const Decomposition> decomposed;
  std::span<const Composition> composed;  // sorted by (first, second)
};
const UnicodeTables& unicode_tables();

}  // namespace zeroulp::tokenizer
