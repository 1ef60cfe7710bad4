#include "io/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "io/temporary_folder.h"

namespace zeroulp::io {
namespace {

namespace fs = std::filesystem;

std::string image(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data_bytes, 'x');
}

std::span<const std::byte> bytes_of(const std::string& s) { return std::as_bytes(std::span(s.data(), s.size())); }

std::string error_of(const std::string& file) {
  auto r = parse_safetensors(bytes_of(file), "f");
  return r ? "" : r.error().text;
}

// One BF16 tensor "a" of two elements, with fields replaceable.
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"a\":" + entry(dtype, shape, offsets) + "}";
}

#define EXPECT_ERROR(file, part) EXPECT_NE(error_of(file).find(part), std::string::npos) << "gave: " << error_of(file)

TEST(Safetensors, AWellFormedFileIsRead) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"},\"b\":" + entry("F32", "[2,3]", "[4,28]") +
                             ",\"a\":" + entry("BF16", "[2]", "[0,4]") + "}   ";
  auto r = parse_safetensors(bytes_of(image(header, 28)), "f");
  ASSERT_TRUE(r) << r.error().text;
  ASSERT_EQ(r->tensors.size(), 2u);
  EXPECT_EQ(r->tensors[0].name, "a") << "by offset, not by place in the header";
  EXPECT_EQ(r->tensors[1].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(r->tensors[1].offset, 8 + header.size() + 4);
  EXPECT_EQ(r->tensors[1].bytes, 24u);
  EXPECT_EQ(r->metadata.at("format"), "pt");
}

TEST(Safetensors, HeaderLengthIsCheckedBeforeUse) {
  EXPECT_ERROR("", "too short");
  EXPECT_ERROR("1234567", "too short");
  for (const uint64_t length : {uint64_t{1} << 63, uint64_t{100'000'001}, ~uint64_t{0}}) {
    const std::string file = std::string(reinterpret_cast<const char*>(&length), 8) + "{}";
    EXPECT_ERROR(file, "above the limit");
  }
  const uint64_t three = 3, zero = 0;
  EXPECT_ERROR(std::string(reinterpret_cast<const char*>(&three), 8) + "{}", "does not fit");
  EXPECT_ERROR(std::string(reinterpret_cast<const char*>(&zero), 8), "does not start with");
  EXPECT_ERROR(image(" {}", 0), "does not start with");
  EXPECT_EQ(error_of(image("{}", 0)), "");
  EXPECT_EQ(error_of(image("{}      ", 0)), "");
}

TEST(Safetensors, TensorsTileTheDataExactly) {
  const auto two = [](const char* a, const char* b) {
    return "{\"a\":" + entry("U8", "[4]", a) + ",\"b\":" + entry("U8", "[4]", b) + "}";
  };
  EXPECT_EQ(error_of(image(two("[0,4]", "[4,8]"), 8)), "");
  EXPECT_ERROR(image(two("[0,4]", "[5,9]"), 9), "a hole");
  EXPECT_ERROR(image(two("[1,5]", "[5,9]"), 9), "a hole");
  EXPECT_ERROR(image(two("[0,4]", "[3,7]"), 8), "an overlap");
  EXPECT_ERROR(image(two("[0,4]", "[0,4]"), 4), "an overlap");
  EXPECT_ERROR(image(two("[0,4]", "[4,8]"), 9), "1 bytes follow");
  EXPECT_ERROR(image(two("[0,4]", "[4,8]"), 7), "truncated");
  EXPECT_ERROR(image("{}", 1), "1 bytes follow");
}

TEST(Safetensors, ExtentMustEqualShapeTimesType) {
  EXPECT_ERROR(image(one("F32", "[2]", "[0,4]"), 4), "cover 4 bytes, but dtype and shape need 8");
  EXPECT_ERROR(image(one("F32", "[1]", "[0,8]"), 8), "cover 8 bytes");
  EXPECT_ERROR(image(one("U8", "[4]", "[4,0]"), 4), "backwards");
}

TEST(Safetensors, ProductsThatOverflowAreRefused) {
  EXPECT_ERROR(image(one("U8", "[4294967296,4294967296]", "[0,0]"), 0), "overflows");
  EXPECT_ERROR(image(one("F64", "[2305843009213693952]", "[0,0]"), 0), "overflows");
  EXPECT_ERROR(image(one("U8", "[9223372036854775808]", "[0,0]"), 0), "not a size");
  EXPECT_ERROR(image(one("U8", "[18446744073709551616]", "[0,0]"), 0), "not a size");
  EXPECT_ERROR(image(one("U8", "[4]", "[18446744073709551612,0]"), 0), "not a size");
  EXPECT_ERROR(image(one("U8", "[-1]", "[0,1]"), 1), "not a size");
  EXPECT_ERROR(image(one("U8", "[1.0]", "[0,1]"), 1), "not a size");
  // A zero does not hide the overflow of the other sizes.
  EXPECT_ERROR(image(one("U8", "[4294967296,4294967296,0]", "[0,0]"), 0), "overflows");
}

TEST(Safetensors, DuplicateKeysAreRefusedEvenIfIdentical) {
  const std::string e = entry("U8", "[1]", "[0,1]");
  EXPECT_ERROR(image("{\"a\":" + e + ",\"a\":" + e + "}", 1), "stands twice");
  EXPECT_ERROR(image("{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}}", 0), "stands twice");
  EXPECT_ERROR(image("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1), "stands twice");
}

TEST(Safetensors, MetadataHoldsStringsOnly) {
  EXPECT_EQ(error_of(image("{\"__metadata__\":{}}", 0)), "");
  EXPECT_ERROR(image("{\"__metadata__\":{\"k\":1}}", 0), "not a string");
  EXPECT_ERROR(image("{\"__metadata__\":{\"k\":null}}", 0), "not a string");
  EXPECT_ERROR(image("{\"__metadata__\":{\"k\":{\"l\":\"m\"}}}", 0), "not a string");
  EXPECT_ERROR(image("{\"__metadata__\":[]}", 0), "not an object");
}

TEST(Safetensors, PackedTypesMustEndOnAByte) {
  EXPECT_EQ(error_of(image(one("F4", "[2]", "[0,1]"), 1)), "");
  EXPECT_EQ(error_of(image(one("F6_E2M3", "[4]", "[0,3]"), 3)), "");
  EXPECT_ERROR(image(one("F4", "[3]", "[0,2]"), 2), "ends inside a byte");
  EXPECT_ERROR(image(one("F6_E3M2", "[2]", "[0,2]"), 2), "ends inside a byte");
}

TEST(Safetensors, RankZeroAndEmptyTensorsAreLegal) {
  EXPECT_EQ(error_of(image(one("F32", "[]", "[0,4]"), 4)), "");
  EXPECT_EQ(error_of(image(one("F32", "[0,7]", "[0,0]"), 0)), "");
  EXPECT_EQ(error_of(image("{\"a\":" + entry("U8", "[0]", "[2,2]") + ",\"b\":" + entry("U8", "[2]", "[0,2]") +
                               ",\"c\":" + entry("U8", "[1]", "[2,3]") + "}",
                           3)),
            "");
  EXPECT_EQ(error_of(image(one("U8", "[1,1,1,1,1,1,1,1]", "[0,1]"), 1)), "");
  EXPECT_ERROR(image(one("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1), "rank 9");
}

TEST(Safetensors, EntriesOfTheWrongFormAreRefused) {
  EXPECT_ERROR(image("{\"a\":1}", 0), "not an object");
  EXPECT_ERROR(image("{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1), "dtype is missing");
  EXPECT_ERROR(image("{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1), "shape is missing");
  EXPECT_ERROR(image("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1), "data_offsets is missing");
  EXPECT_ERROR(image("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"scale\":2}}", 1), "fields besides");
  EXPECT_ERROR(image(one("u8", "[1]", "[0,1]"), 1), "unknown dtype \"u8\"");
  EXPECT_ERROR(image(one("U8", "1", "[0,1]"), 1), "shape is not a list");
  EXPECT_ERROR(image(one("U8", "[1]", "[0]"), 1), "not a pair");
  EXPECT_ERROR(image(one("U8", "[1]", "[0,1,1]"), 1), "not a pair");
  EXPECT_ERROR(image("{\"a\":{\"dtype\":\"U8\",\"shape\":[[[1]]],\"data_offsets\":[0,1]}}", 1), "deeper than 4");
  EXPECT_ERROR(image("{\"a\":" + entry("U8", "[1]", "[0,1]") + "", 1), "byte");
  EXPECT_ERROR(image("{\"\xff\":" + entry("U8", "[1]", "[0,1]") + "}", 1), "UTF-8");
}

TEST(Safetensors, ErrorsStayOnOneLine) {
  EXPECT_EQ(error_of(image("{\"a\\nb\\u001b[2J\":1}", 0)), "f: tensor \"a\\x0ab\\x1b[2J\": its entry is not an object");
}

TEST(Safetensors, EveryPrefixOfAFileIsRefused) {
  const std::string file = image(one("BF16", "[2]", "[0,4]"), 4);
  ASSERT_EQ(error_of(file), "");
  for (size_t n = 0; n < file.size(); ++n) EXPECT_NE(error_of(file.substr(0, n)), "") << n;
}

std::string slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "m.safetensors";
  std::vector<TensorSpec> specs = {{"odd", Dtype::kU8, {3}}, {"empty", Dtype::kF32, {0, 2}}, {"w", Dtype::kBF16, {2, 2}}};
  sort_for_alignment(specs);
  EXPECT_EQ(specs[0].name, "empty");
  EXPECT_EQ(specs[2].name, "odd");
  auto writer = SafetensorsWriter::create(path, specs, {{"k", "v\n\"\u00e9"}}, false);
  ASSERT_TRUE(writer) << writer.error().text;
  ASSERT_TRUE(writer->write("w", bytes_of("abc")));
  ASSERT_TRUE(writer->write("w", bytes_of("defgh")));
  ASSERT_TRUE(writer->write("odd", bytes_of("xyz")));
  EXPECT_FALSE(fs::exists(path)) << "nothing stands under the name before commit";
  ASSERT_TRUE(writer->commit());

  auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->metadata().at("k"), "v\n\"\u00e9");
  const TensorInfo* w = file->find("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->offset % 8, 0u);
  const uint64_t data_at = fs::file_size(path) - (w->bytes + 3);
  EXPECT_EQ(data_at % 64, 0u) << "tensor data begins on a cache line";
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file->data(*w).data()), w->bytes), "abcdefgh");
  EXPECT_EQ(file->find("nope"), nullptr);
  EXPECT_EQ(
      slurp(path),
      std::string("\xf8\0\0\0\0\0\0\0", 8) +
          R"({"__metadata__":{"k":"v\n\"é"},"empty":{"dtype":"F32","shape":[0,2],"data_offsets":[0,0]},)"
          R"("w":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]},"odd":{"dtype":"U8","shape":[3],"data_offsets":[8,11]}})" +
          std::string(46, ' ') + "abcdefghxyz");
}

TEST(SafetensorsWriter, RefusesWhatTheReaderWouldRefuse) {
  TemporaryFolder folder;
  const auto error = [&](std::vector<TensorSpec> specs, const Metadata& metadata = {}) {
    auto w = SafetensorsWriter::create(folder.path() / "x", specs, metadata, false);
    return w ? "" : w.error().text;
  };
  EXPECT_NE(error({{"a", Dtype::kU8, {1}}, {"a", Dtype::kU8, {1}}}).find("two tensors"), std::string::npos);
  EXPECT_NE(error({{"__metadata__", Dtype::kU8, {1}}}).find("cannot be the name"), std::string::npos);
  EXPECT_NE(error({{"\xff", Dtype::kU8, {1}}}).find("cannot be the name"), std::string::npos);
  EXPECT_NE(error({{"a", Dtype::kF4, {1}}}).find("inside a byte"), std::string::npos);
  EXPECT_NE(error({{"a", Dtype::kU8, {-1}}}).find("negative"), std::string::npos);
  EXPECT_NE(error({}, {{"k", "\xff"}}).find("UTF-8"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder.path())) << "a refusal leaves nothing behind";
}

}  // namespace
}  // namespace zeroulp::io
