#include "cases/stream.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "cases/pipes.h"
#include "source_dir.h"

namespace zeroulp::cases {
namespace {

StreamHeader few(const std::string& op, int64_t count) { return {op, {Kind::kHard}, 0, count, ""}; }

// The bytes of a page's example: hexadecimal numbers before a bar, on indented lines.
std::string example_of(const std::string& page) {
  std::ifstream file(source_dir() + page);
  std::string line, bytes;
  while (std::getline(file, line)) {
    const size_t bar = line.find(" | ");
    if (!line.starts_with("    ") || bar == std::string::npos) continue;
    std::istringstream words(line.substr(4, bar - 4));
    for (std::string word; words >> word;) {
      if (word.size() != 2) break;
      bytes += static_cast<char>(std::stoi(word, nullptr, 16));
    }
  }
  return bytes;
}

std::string as_page(const std::string& bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 16) {
    out += "    ";
    std::string text;
    for (size_t j = i; j < i + 16; ++j) {
      char two[4] = "   ";
      if (j < bytes.size()) std::snprintf(two, sizeof two, "%02x ", static_cast<unsigned char>(bytes[j]));
      out += two;
      if (j < bytes.size()) text += bytes[j] >= 0x20 && bytes[j] < 0x7F ? bytes[j] : '.';
    }
    out += " | " + text + "\n";
  }
  return out;
}

TEST(Stream, TheExampleOfThePageIsWhatIsWritten) {
  const auto stream = answered(emitted(few("argmax", 1)), by_reference);
  ASSERT_TRUE(stream) << stream.error().text;
  EXPECT_EQ(example_of("/docs/spec/cases.md"), *stream) << "the page should say:\n" << as_page(*stream);
  const auto result = check_stream(reading(*stream), "example");
  ASSERT_TRUE(result) << result.error().text;
  EXPECT_EQ(result->cases, 1);
  EXPECT_EQ(result->wrong, 0);
}

TEST(Stream, CasesOfEveryOpComeBackAsTheyWere) {
  for (const Form& form : forms()) {
    int64_t seen = 0;
    each_wanted(form, {std::string(form.op), {Kind::kHard, Kind::kRandom}, 0, 40, ""}, [&](Case&& c) {
      const auto back = decode_case(encode_case(c));
      EXPECT_TRUE(back) << form.op << ": " << back.error().text;
      EXPECT_TRUE(back && *back == c) << form.op << ", case " << c.index;
      const auto bound = bind(form, c);
      EXPECT_TRUE(bound) << form.op << ", case " << c.index << " '" << c.name << "': " << bound.error().text;
      ++seen;
      return bound.has_value();
    });
    EXPECT_GT(seen, 3) << form.op;
  }
}

// The first hard cases of argmax as if a model had given them: those need not be made again for every check.
std::string as_captured(int64_t count) {
  std::string out = encode_header({"argmax", {Kind::kCaptured}, 0, 0, "model"});
  CaseDigest digest;
  each_wanted(*find_form("argmax"), few("argmax", count), [&](Case&& c) {
    c.kind = Kind::kCaptured;
    const std::string payload = encode_case(c);
    digest.add(payload);
    out += encode_frame(FrameType::kCase, payload);
    return true;
  });
  return *answered(out + encode_frame(FrameType::kEnd, encode_end(digest.end())), by_reference);
}

TEST(Stream, EveryCutIsRefused) {
  const std::string stream = as_captured(2);
  for (size_t length = 0; length < stream.size(); ++length) {
    const auto result = check_stream(reading(stream.substr(0, length), 7), "cut");
    ASSERT_FALSE(result) << length;
    EXPECT_EQ(result.error().code, ExitCode::kBadInput);
    EXPECT_EQ(result.error().text.find('\n'), std::string::npos);
  }
  EXPECT_FALSE(check_stream(reading(stream + std::string(16, '\0')), "longer"));
}

// A changed byte is refused or found: only the bits of an answer may change what is found, and none passes. The header says which model and which
// cases were asked for, which a stream of captured cases is not held against.
TEST(Stream, EveryChangedByteIsRefusedOrFound) {
  const std::string stream = as_captured(1);
  const size_t header = 16 + static_cast<size_t>(static_cast<unsigned char>(stream[12]));
  for (size_t at = 0; at < stream.size(); ++at)
    for (const char flip : {'\x01', '\x20', '\x80'}) {
      std::string changed = stream;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const auto result = check_stream(reading(changed), "changed");
      if (result)
        EXPECT_EQ(result->wrong, at < header ? 0 : 1) << "byte " << at;
      else
        EXPECT_EQ(result.error().code, ExitCode::kBadInput) << result.error().text;
    }
}

TEST(Stream, LengthsFromElsewhereAllocateNothing) {
  std::string stream = encode_header(few("argmax", 0));
  const uint64_t lengths[] = {kMaxFrameBytes, kMaxFrameBytes + 8, ~uint64_t{7}, 24};
  for (const uint64_t length : lengths) {
    std::string frame(16, '\0');
    frame[0] = 1;
    std::memcpy(frame.data() + 8, &length, 8);
    const auto result = check_stream(reading(stream + frame + std::string(24, '\xFF')), "hostile");
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ExitCode::kBadInput);
  }
}

TEST(Stream, ADifferentVersionOpOrContractIsRefused) {
  const std::string stream = emitted(few("argmax", 1));
  std::string version = stream, flags = stream, op = stream, contract = stream;
  version[8] = 2;
  flags[10] = 1;
  op.replace(op.find("argmax"), 6, "argmin");
  contract.replace(contract.find("ZNC-1"), 5, "ZNC-9");
  for (const auto& [bytes, word] : {std::pair{version, "version 2"}, {flags, "flags"}, {op, "argmin"}, {contract, "ZNC-9"}}) {
    const auto result = check_stream(reading(bytes), "other");
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().text.find(word), std::string::npos) << result.error().text;
  }
}

}  // namespace
}  // namespace zeroulp::cases
