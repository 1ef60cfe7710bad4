// Values to symbols and rest planes, and back, for every type.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/block.h"

namespace zeroulp::codec {

// Writes the rest planes (rest_bytes of them) to `rest`, one symbol per value to `symbols`. `bits` is working memory.
void split(const Kernels& kernels, const Coding& coding, const std::byte* raw, uint32_t n, std::byte* rest, uint8_t* symbols, uint8_t* bits);
// The inverse. False if the last byte of the string of rest bits has unused bits that are set. May change `symbols`.
bool merge(const Kernels& kernels, const Coding& coding, const std::byte* rest, uint8_t* symbols, uint32_t n, std::byte* raw, uint8_t* bits);

// Counts the symbols of the sampled rows (choose.h) into histogram[256]; returns how many there are.
uint32_t sample(const Kernels& kernels, const Coding& coding, const std::byte* raw, uint32_t n, uint32_t* histogram, Soon& soon);

// False if the unused bits of the last byte of a string of n codes are set.
bool string_ends_clean(const std::byte* string, uint32_t n, int bits);

}  // namespace zeroulp::codec
