// What this machine can do at most, measured in the same run as the kernels that are held against it. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace zeroulp::bench {

// Processor seconds of one call on this thread: the least over batches of about a millisecond, `budget` seconds in all. The thread's own
// time, not the clock's: other programs that take turns on the core do not count (what they do to its caches does).
double seconds_of(const std::function<void()>& call, double budget = 0.25);

// 10^9 multiply-adds a second of int8 pairs (vpdpbusd, 64 to an instruction) and of int16 pairs (vpmaddwd and vpaddd, 16 to a pair of
// instructions), from registers; 0 where the processor has no such instruction.
double peak_vnni_gmacs();
double peak_maddwd_gmacs();

// Bytes a second of reading these bytes with wide loads, again and again: cache or memory bandwidth, as their number has it.
double read_bandwidth(std::span<const int8_t> bytes);

}  // namespace zeroulp::bench
