// Frame::parse and decode on arbitrary bytes: refused, or every block decodes to a place of exactly its size or is refused. Every kernel
// that runs here says the same. The first byte chooses whether hashes in the input are made to fit, so that damage gets past them.
#include "codec/frame.h"

#include <xxhash.h>

#include <cstring>

#include "base/check.h"

using namespace zeroulp;
using namespace zeroulp::codec;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1 + kHeaderBytes) return 0;
  std::vector<std::byte> bytes(size - 1);
  std::memcpy(bytes.data(), data + 1, bytes.size());
  if ((data[0] & 1) != 0) {
    const uint64_t hash = XXH3_64bits(bytes.data(), 40);
    std::memcpy(bytes.data() + 40, &hash, 8);
  }
  Frame frame;
  uint32_t at = 0;
  if (Frame::parse(bytes, frame, at) != Fault::kNone) return 0;
  if (uint64_t{frame.header().blocks} * frame.header().block_bytes > (64u << 20)) return 0;
  Scratch scratch(frame.block_values());
  for (uint32_t b = 0; b < frame.header().blocks; ++b) {
    const size_t raw_bytes = size_t{frame.entries()[b].values} * static_cast<size_t>(type_info(frame.header().type).bytes);
    std::vector<std::byte> expected(raw_bytes), raw(raw_bytes);
    const Fault first = frame.decode(kReference, b, expected.data(), scratch);
    for (const Kernels* k : kernel_table()) {
      if (!why_unavailable(k->needs, cpu_features()).empty()) continue;
      const Fault fault = frame.decode(*k, b, raw.data(), scratch);
      ZU_CHECK(fault == first);
      ZU_CHECK(fault != Fault::kNone || raw == expected);
    }
    if (first != Fault::kNone) continue;
    // What was decoded is coded and decoded again.
    std::vector<std::byte> to(round_up16(raw_bytes));
    const Entry e = encode_block(kReference, frame.coding(), Level::kRest, expected.data(), frame.entries()[b].values, to.data(), scratch);
    ZU_CHECK(decode_block(kReference, frame.coding(), e, to.data(), raw.data(), scratch) == Fault::kNone && raw == expected);
  }
  return 0;
}
