// Cases as a stream of bytes (docs/spec/cases.md): what `zeroulp cases emit` writes, what a kernel under test copies and answers, and what
// `zeroulp cases check` reads.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "cases/forms.h"
#include "num/digest.h"

namespace zeroulp::cases {

inline constexpr uint16_t kStreamVersion = 1;
inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 30, kMaxHeaderBytes = 64 << 10;
inline constexpr uint32_t kMaxText = 4096, kMaxEntries = 64;
enum class FrameType : uint32_t { kCase = 1, kAnswer = 2, kEnd = 3 };

// What the stream holds: what `check` needs to make the same cases again.
struct StreamHeader {
  std::string op;
  std::vector<Kind> kinds;  // or captured alone
  int64_t first = 0;        // cases with a lower index are left out
  int64_t count = 0;        // at most so many; 0: all
  std::string model;        // identity of the model that the inputs were captured from; empty otherwise
  bool operator==(const StreamHeader&) const = default;
};

struct Answer {
  int64_t index = 0;
  Outputs outputs;  // none: the kernel does not do this case
};

struct End {
  int64_t cases = 0;
  std::string digest;  // SHA-256 of the payloads of all case frames, 32 bytes
  bool operator==(const End&) const = default;
};

std::string encode_header(const StreamHeader& header);
// Payloads of frames, and a frame's 16 bytes in front of one.
std::string encode_case(const Case& c);
std::string encode_answer(const Answer& answer);
std::string encode_end(const End& end);
std::string encode_frame(FrameType type, std::string_view payload);

// Nothing is allocated beyond a small multiple of the payload's size.
Result<Case> decode_case(std::string_view payload);
Result<Answer> decode_answer(std::string_view payload);
Result<End> decode_end(std::string_view payload);

// Up to `count` bytes of what is read; 0 at its end.
using ReadFn = std::function<Result<size_t>(std::byte* to, size_t count)>;

// Reads frames one after another. A frame's memory grows with the bytes that arrive, never with the length that it claims.
class StreamReader {
 public:
  // `name` opens error lines.
  static Result<StreamReader> open(ReadFn read, std::string name);

  const StreamHeader& header() const { return header_; }
  const std::string& header_bytes() const { return header_bytes_; }  // as they came
  const std::string& name() const { return name_; }

  struct Frame {
    FrameType type;
    std::string payload;
  };
  // Nothing at the end of the stream.
  Result<std::optional<Frame>> next();

 private:
  StreamReader(ReadFn read, std::string name) : read_(std::move(read)), name_(std::move(name)) {}
  Result<std::string> take(uint64_t count, bool may_end);
  Error wrong(std::string_view what) const;

  ReadFn read_;
  std::string name_, header_bytes_;
  StreamHeader header_;
};

// Adds case payloads as they go by.
class CaseDigest {
 public:
  void add(std::string_view payload);
  End end();

 private:
  int64_t cases_ = 0;
  num::Sha256 sha_;
};

}  // namespace zeroulp::cases
