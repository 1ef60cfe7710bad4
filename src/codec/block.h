// One block: its values to a payload and an entry of the directory, and back. Blocks know nothing of each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/format.h"
#include "codec/kernels.h"

namespace zeroulp::codec {

// What all blocks of a frame share. With a table, value i of a block is coded by the symbol
// (exponent - table[i mod period]) mod 2^exponent_bits, which brings channels of different scale into one window.
struct Coding {
  Type type = Type::kBytes;
  std::span<const uint8_t> table;  // one per channel; empty: none
};

// Working memory for blocks of up to `values` values; one per thread.
class Scratch {
 public:
  explicit Scratch(uint32_t values);
  uint8_t* symbols() { return at(0); }
  uint8_t* codes1() { return at(1); }
  uint8_t* left1() { return at(2); }
  uint8_t* codes2() { return at(3); }
  uint8_t* left2() { return at(4); }
  uint8_t* bits() { return at(5); }
  std::vector<uint16_t>& words() { return words_; }
  Soon soon;  // what the kernels ask for meanwhile

 private:
  uint8_t* at(size_t i) { return memory_.data() + i * stride_; }
  size_t stride_;
  std::vector<uint8_t> memory_;
  std::vector<uint16_t> words_;
};

// Codes `values` >= 1 values at `raw`. `to` has room for the raw bytes rounded up to 16; the payload is never longer. The entry is
// complete but for its offset.
Entry encode_block(const Kernels& kernels, const Coding& coding, Level level, const std::byte* raw, uint32_t values, std::byte* to,
                   Scratch& scratch);

// Decodes entry.values values to `raw`, of exactly that size. Checks everything but the hash; the content of `raw` is undefined after a
// fault. `payload` holds entry.size bytes.
Fault decode_block(const Kernels& kernels, const Coding& coding, const Entry& entry, const std::byte* payload, std::byte* raw,
                   Scratch& scratch);

}  // namespace zeroulp::codec
