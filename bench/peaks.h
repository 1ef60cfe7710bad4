// What this machine can do at most, measured in the same run as the kernels that are held against it. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

namespace zeroulp::bench {

// Processor seconds of one call on this thread: the least over batches of about a millisecond, `budget` seconds in all. The thread's own
// time, not the clock's: other programs that take turns on the core do not count (what they do to its caches does).
double seconds_of(const std::function<void()>& call, double budget = 0.25);

// 10^9 multiply-adds a second, from registers, of int8 pairs (tdpbssd, 16384 to an instruction; vpdpbusd, 64) and of int16 pairs (vpmaddwd and
// vpaddd, 16 to a pair of instructions); 0 where the processor has no such instruction.
double peak_amx_gmacs();
double peak_vnni_gmacs();
double peak_maddwd_gmacs();

// Bytes a second of reading these bytes with wide loads, again and again: cache or memory bandwidth, as their number has it.
double read_bandwidth(std::span<const int8_t> bytes);

// The same by several threads, each its own part, in four places at once: the best of several passes by the clock.
double read_bandwidth(std::span<const int8_t> bytes, int threads);

}  // namespace zeroulp::bench
