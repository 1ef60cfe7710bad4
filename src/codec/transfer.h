// A cache handed from one process to another, raw and coded: real sockets or shared memory, slowed down to a given rate, coding and decoding
// overlapped with the transfer chunk by chunk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "codec/frame.h"

namespace zeroulp::codec {

enum class Link { kTcp, kSharedMemory };

struct TransferOptions {
  Link link = Link::kTcp;
  double bytes_per_second = 0;      // 0: as fast as it goes
  bool coded = true;
  uint64_t chunk_bytes = 4u << 20;  // at most; coded and sent as one frame
  FrameOptions frame;               // without a table
  std::vector<TypedRun> runs;       // as what the bytes are coded, in order; empty: all as frame.type
};

struct TransferResult {
  double seconds = 0;         // from the first byte coded to the receiver's word that all is decoded and hashed
  uint64_t sent_bytes = 0;
};

// The parts of `raw` that are coded as a frame each.
struct Chunk {
  Type type = Type::kBytes;
  std::span<const std::byte> bytes;
};
std::vector<Chunk> chunks_of(const TransferOptions& options, std::span<const std::byte> raw);

// Forks a receiver, sends `raw` to it and compares what it got by hash. Call it while the process has one thread.
Result<TransferResult> transfer(const Kernels& kernels, const TransferOptions& options, std::span<const std::byte> raw);

// How much faster a chunked, overlapped transfer becomes: the slowest of link, encoder and decoder decides. Rates in bytes of raw data
// per second; below 1 the codec must be left off.
constexpr double speedup(double link, double ratio, double encode, double decode) {
  const double slowest = encode < decode ? encode : decode;
  return slowest / link < ratio ? slowest / link : ratio;
}

}  // namespace zeroulp::codec
