#include "io/gguf.h"

#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "io/gguf_builder.h"
#include "io/json.h"
#include "io/temporary_folder.h"
#include "source_dir.h"

namespace zeroulp::io {
namespace {

namespace fs = std::filesystem;

std::string error_of(const std::string& file) {
  auto r = parse_gguf(std::as_bytes(std::span(file.data(), file.size())), "f");
  if (!r) {
    EXPECT_EQ(r.error().code, ExitCode::kBadInput);
    EXPECT_EQ(r.error().text.find('\n'), std::string::npos);
  }
  return r ? "" : r.error().text;
}
#define EXPECT_ERROR(file, part) EXPECT_NE(error_of(file).find(part), std::string::npos) << "gave: " << error_of(file)

// The 24 bytes before the first key.
GgufBytes start(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
  return GgufBytes().raw("GGUF").number(version).number(tensors).number(keys);
}

TEST(Gguf, AWellFormedFileIsRead) {
  for (const uint32_t version : {2u, 3u}) {
    GgufBuilder b;
    b.version = version;
    b.text("general.architecture", "llama").u32("n", 7).f32("x", 2.5f).boolean("yes", 1);
    b.texts("words", {"a", "", "\xc3\xa9"}).i32s("ids", {1, -2});
    b.f32_tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6}).tensor("h", {1}, 1, std::string("\0\x3c", 2));
    const std::string file = b.build();
    auto r = parse_gguf(std::as_bytes(std::span(file.data(), file.size())), "f");
    ASSERT_TRUE(r) << r.error().text;
    EXPECT_EQ(r->version, version);
    EXPECT_EQ(r->metadata.at("general.architecture").text, "llama");
    EXPECT_EQ(r->metadata.at("n").integer(), 7);
    EXPECT_EQ(r->metadata.at("x").number(), 2.5);
    EXPECT_EQ(r->metadata.at("yes").boolean(), true);
    EXPECT_EQ(r->metadata.at("words").texts, (std::vector<std::string_view>{"a", "", "\xc3\xa9"}));
    EXPECT_EQ(r->metadata.at("ids").integer_at(1), -2);
    EXPECT_EQ(r->metadata.at("ids").integer_at(2), std::nullopt);
    EXPECT_EQ(r->metadata.at("x").integer(), std::nullopt);
    ASSERT_EQ(r->tensors.size(), 2u);
    EXPECT_EQ(r->tensors[0].shape, (std::vector<int64_t>{3, 2})) << "outermost first";
    EXPECT_EQ(r->tensors[1].data.size(), 2u);
  }
}

TEST(Gguf, OnlyLittleEndianVersions2And3) {
  EXPECT_ERROR("", "the magic needs 4 bytes");
  EXPECT_ERROR("GGML", "is not a GGUF file");
  EXPECT_ERROR(start(0, 0, 1).text(), "version 1 is not supported");
  EXPECT_ERROR(start(0, 0, 4).text(), "version 4 is not supported");
  EXPECT_ERROR(start(0, 0, 0x03000000).text(), "big-endian");
  EXPECT_EQ(error_of(start(0, 0).text()), "");
}

TEST(Gguf, CountsAreHeldAgainstTheBytesLeft) {
  EXPECT_ERROR(start(0, 1).number<uint64_t>(0xFFFFFFFFFFFF).text(), "1 keys do not fit into the 8 bytes");
  EXPECT_ERROR(start(0, 1).number<uint64_t>(0xFFFFFFFFFFFF).raw(std::string(100, 'x')).text(), "above the limit of 65535");
  EXPECT_ERROR(start(0, 1).number<uint64_t>(60000).raw(std::string(100, 'x')).text(), "needs 60000 bytes, but only 100");
  EXPECT_ERROR(start(0, uint64_t{1} << 63).text(), "keys, above the limit");
  EXPECT_ERROR(start(uint64_t{1} << 63, 0).text(), "tensors, above the limit");
  EXPECT_ERROR(start(0, 65536).text(), "65536 keys do not fit");
  EXPECT_ERROR(start(65536, 0).text(), "65536 tensors do not fit");
  for (const uint32_t element : {0u, 6u, 8u, 12u}) {
    const std::string array = GgufBytes().number(element).number(uint64_t{1} << 63).text();
    EXPECT_ERROR(GgufBuilder().key("a", GgufKind::kArray, array).build(), "above the limit");
    const std::string large = GgufBytes().number(element).number(uint64_t{1} << 22).text();
    EXPECT_ERROR(GgufBuilder().key("a", GgufKind::kArray, large).build(), "do not fit");
  }
}

TEST(Gguf, StringsHaveALimit) {
  EXPECT_EQ(error_of(GgufBuilder().text("a", std::string(1 << 20, 'x')).build()), "");
  EXPECT_ERROR(GgufBuilder().text("a", std::string((1 << 20) + 1, 'x')).build(), "1048577 bytes long, above the limit");
  EXPECT_ERROR(start(0, 1).string("a").number<uint32_t>(8).number<uint64_t>(9).raw("short").text(),
               "needs 9 bytes, but only 5");
}

TEST(Gguf, KeysAndValuesOfTheWrongFormAreRefused) {
  EXPECT_ERROR(GgufBuilder().u32("", 1).build(), "is empty");
  EXPECT_ERROR(GgufBuilder().u32("\xff", 1).build(), "not UTF-8");
  EXPECT_ERROR(GgufBuilder().u32("a", 1).u32("a", 1).build(), "\"a\" stands twice");
  EXPECT_ERROR(GgufBuilder().boolean("a", 2).build(), "2 is not a boolean");
  EXPECT_ERROR(GgufBuilder().key("a", static_cast<GgufKind>(13), "xxxxxxxx").build(), "unknown type 13");
  const auto array_of = [](uint32_t element) { return GgufBytes().number(element).number<uint64_t>(1).raw("\x02").text(); };
  EXPECT_ERROR(GgufBuilder().key("a", GgufKind::kArray, array_of(7)).build(), "2 is not a boolean");
  EXPECT_ERROR(GgufBuilder().key("a", GgufKind::kArray, array_of(9)).build(), "arrays of arrays");
  EXPECT_ERROR(GgufBuilder().key("a", GgufKind::kArray, array_of(13)).build(), "unknown type 13");
}

TEST(Gguf, AlignmentIsASmallPowerOfTwo) {
  const auto with = [](uint32_t alignment) {
    return GgufBuilder().u32("general.alignment", alignment).f32_tensor("w", {1}, {1}).build();
  };
  EXPECT_EQ(error_of(with(32)), "");
  for (const uint32_t bad : {0u, 3u, 48u, 1u << 21, 1u << 31}) EXPECT_ERROR(with(bad), "general.alignment is not");
  EXPECT_ERROR(GgufBuilder().key("general.alignment", GgufKind::kU64, GgufBytes().number<uint64_t>(32).text()).build(),
               "not a u32");
  GgufBuilder wide;
  wide.alignment = 256;
  wide.u32("general.alignment", 256).f32_tensor("v", {1}, {1}).f32_tensor("w", {1}, {2});
  EXPECT_EQ(error_of(wide.build()), "");
}

TEST(Gguf, DimensionsAreCheckedBeforeUse) {
  const auto one = [](std::vector<uint64_t> dims) { return GgufBuilder().tensor("w", dims, 0, "").build(); };
  EXPECT_EQ(error_of(one({0})), "") << "a dimension of 0 is legal";
  EXPECT_EQ(error_of(one({4, 0})), "");
  EXPECT_EQ(error_of(GgufBuilder().f32_tensor("w", {}, {1}).build()), "");
  EXPECT_ERROR(one({1, 1, 1, 1, 1}), "5 dimensions");
  EXPECT_ERROR(start(1, 0).string("w").number<uint32_t>(0x7FFFFFFF).raw(std::string(64, '\1')).text(), "2147483647 dimensions");
  EXPECT_ERROR(one({uint64_t{1} << 63}), "overflows");
  EXPECT_ERROR(one({uint64_t{1} << 32, uint64_t{1} << 32}), "overflows");
  EXPECT_ERROR(one({uint64_t{1} << 32, uint64_t{1} << 32, 0}), "overflows");
  EXPECT_ERROR(one({uint64_t{1} << 60}), "overflows");
}

TEST(Gguf, TypesThatAreNotReadAreNamed) {
  const auto of_type = [](uint32_t type) { return GgufBuilder().tensor("w", {256}, type, std::string(256, '\0')).build(); };
  for (const uint32_t removed : {4u, 5u, 31u, 32u, 33u, 36u, 37u, 38u})
    EXPECT_ERROR(of_type(removed), "which was removed from the format");
  EXPECT_ERROR(of_type(10), "\"w\": type 10 (Q2_K)");
  EXPECT_ERROR(of_type(39), "type 39 (MXFP4)");
  EXPECT_ERROR(of_type(1000), "type 1000, which is unknown");
}

TEST(Gguf, RowsAreWholeBlocks) {
  const auto rows = [](uint32_t type, uint64_t columns, size_t bytes) {
    return GgufBuilder().tensor("w", {columns, 2}, type, std::string(bytes, '\0')).build();
  };
  EXPECT_EQ(error_of(rows(12, 256, 2 * 144)), "");
  EXPECT_ERROR(rows(12, 128, 144), "rows of 128 are not whole blocks of 256 (Q4_K)");
  EXPECT_ERROR(rows(14, 255, 210), "rows of 255");
  EXPECT_EQ(error_of(rows(8, 32, 2 * 34)), "");
  EXPECT_ERROR(rows(8, 16, 34), "rows of 16 are not whole blocks of 32 (Q8_0)");
}

TEST(Gguf, TensorsFollowOneAnother) {
  const auto two = [] { return GgufBuilder().f32_tensor("v", {2}, {1, 2}).f32_tensor("w", {2}, {3, 4}); };
  EXPECT_EQ(error_of(two().build()), "");
  EXPECT_ERROR(two().move_last(32).build(), "begins at byte 64 of the data, but 32 was due");
  EXPECT_ERROR(two().move_last(-32).build(), "begins at byte 0 of the data, but 32 was due");
  EXPECT_ERROR(two().move_last(-28).build(), "begins at byte 4");
  EXPECT_ERROR(two().build() + "x", "1 bytes follow the last tensor");
  EXPECT_ERROR(GgufBuilder().tensor("w", {8}, 0, "").build(), "needs 32 bytes at 0, but the data has 0");
  EXPECT_ERROR(GgufBuilder().f32_tensor("v", {1}, {1}).f32_tensor("v", {1}, {1}).build(), "two tensors are named \"v\"");
  EXPECT_ERROR(GgufBuilder().f32_tensor(std::string(64, 'n'), {1}, {1}).build(), "64 bytes long, above the limit of 63");
  EXPECT_ERROR(GgufBuilder().f32_tensor("", {1}, {1}).build(), "is empty");
}

TEST(Gguf, EveryPrefixOfAFileIsRefused) {
  const std::string file =
      GgufBuilder().text("k", "v").texts("l", {"a", "b"}).f32_tensor("w", {8}, std::vector<float>(8, 1)).build();
  ASSERT_EQ(error_of(file), "");
  for (size_t n = 0; n < file.size(); ++n) EXPECT_NE(error_of(file.substr(0, n)), "") << n;
}

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

TEST(GgufBlocks, ValuesEqualTheGgufPackageBitForBit) {
  auto golden = read_json_file(source_dir() + "/tests/golden/dequant.json");
  ASSERT_TRUE(golden) << golden.error().text;
  ASSERT_GE((*golden)["blocks"].size(), 200u);
  std::map<std::string, int> blocks;
  for (const Json& row : (*golden)["blocks"]) {
    const std::string name = row["type"];
    const GgufTypeInfo* type = gguf_type_info((*golden)["type_ids"][name].get<uint32_t>());
    ASSERT_NE(type, nullptr) << name;
    EXPECT_EQ(type->name, name);
    EXPECT_EQ(Json({type->block_elements, type->block_bytes}), (*golden)["block_elements_and_bytes"][name]);
    const std::string raw = from_hex(row["raw"]);
    std::vector<float> values(raw.size() / type->block_bytes * type->block_elements);
    gguf_dequantise(*type, reinterpret_cast<const std::byte*>(raw.data()), values.size(), values.data());
    std::istringstream words(row["values"].get<std::string>());
    size_t i = 0;
    for (std::string word; words >> word; ++i) {
      ASSERT_LT(i, values.size());
      if (word == "nan") {
        EXPECT_TRUE(values[i] != values[i]) << row["case"] << " element " << i;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::stoul(word, nullptr, 16))
            << name << ' ' << row["case"] << " element " << i;
      }
    }
    EXPECT_EQ(i, values.size());
    ++blocks[name];
  }
  EXPECT_EQ(blocks.size(), 11u) << "every type";
}

TEST(GgufBlocks, AQ6KScaleReadFromTheFrontWouldBeNoticed) {
  auto golden = read_json_file(source_dir() + "/tests/golden/dequant.json");
  ASSERT_TRUE(golden) << golden.error().text;
  const GgufTypeInfo* type = gguf_type_info(14);
  int noticed = 0, cases = 0;
  for (const Json& row : (*golden)["blocks"]) {
    if (row["type"] != "Q6_K") continue;
    std::string raw = from_hex(row["raw"]);
    std::vector<float> right(256), wrong(256);
    gguf_dequantise(*type, reinterpret_cast<const std::byte*>(raw.data()), 256, right.data());
    const std::string scale_first =
        raw.substr(2, 208) + raw.substr(0, 2);  // what a reader of the wrong layout takes for the parts
    gguf_dequantise(*type, reinterpret_cast<const std::byte*>(scale_first.data()), 256, wrong.data());
    ++cases;
    noticed += std::memcmp(right.data(), wrong.data(), sizeof(float) * 256) != 0;
  }
  EXPECT_GT(cases, 0);
  EXPECT_GE(noticed, cases / 2);
}

class GgufSplitTest : public ::testing::Test {
 protected:
  fs::path part(int i, int n) const { return folder_.path() / fmt_name(i, n); }
  static std::string fmt_name(int i, int n) {
    char name[64];
    std::snprintf(name, sizeof(name), "m-%05d-of-%05d.gguf", i, n);
    return name;
  }
  static void write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
  static GgufBuilder keyed(uint16_t number, uint16_t count, uint32_t tensors) {
    GgufBuilder b;
    b.u16("split.no", number).u16("split.count", count).u32("split.tensors.count", tensors);
    return b;
  }
  void write_two() {
    write(part(1, 2), keyed(0, 2, 2).text("general.architecture", "llama").f32_tensor("a", {1}, {1}).build());
    write(part(2, 2), keyed(1, 2, 2).f32_tensor("b", {1}, {2}).build());
  }
  static std::string open_error(const fs::path& path) {
    auto r = GgufModel::open(path);
    return r ? "" : r.error().text;
  }
  TemporaryFolder folder_;
};
#define EXPECT_OPEN_ERROR(path, part) EXPECT_NE(open_error(path).find(part), std::string::npos) << "gave: " << open_error(path)

TEST_F(GgufSplitTest, AnyPartOpensTheWhole) {
  write_two();
  for (const int i : {1, 2}) {
    auto m = GgufModel::open(part(i, 2));
    ASSERT_TRUE(m) << m.error().text;
    EXPECT_EQ(m->parts(), 2u);
    EXPECT_EQ(m->value("general.architecture")->text, "llama") << "metadata stands in the first part";
    EXPECT_NE(m->find("a"), nullptr);
    EXPECT_NE(m->find("b"), nullptr);
    EXPECT_EQ(m->find("c"), nullptr);
  }
}

TEST_F(GgufSplitTest, PartsThatDoNotBelongTogetherAreRefused) {
  write_two();
  fs::remove(part(1, 2));
  EXPECT_OPEN_ERROR(part(2, 2), "m-00001-of-00002.gguf: part 1 of 2 is missing");
  write_two();
  fs::copy_file(part(1, 2), part(2, 2), fs::copy_options::overwrite_existing);
  EXPECT_OPEN_ERROR(part(1, 2), "says that it is part 1 of 2, but its name and the other parts say 2 of 2");
  write_two();
  write(part(2, 2), keyed(1, 2, 2).f32_tensor("a", {1}, {2}).build());
  EXPECT_OPEN_ERROR(part(1, 2), "\"a\" stands in another part too");
  write_two();
  write(part(2, 2), keyed(1, 2, 2).f32_tensor("b", {1}, {2}).f32_tensor("c", {1}, {2}).build());
  EXPECT_OPEN_ERROR(part(1, 2), "hold 3 tensors together, but split.tensors.count is 2");
  write_two();
  fs::rename(part(2, 2), folder_.path() / "other.gguf");
  EXPECT_OPEN_ERROR(folder_.path() / "other.gguf", "its name must end in -00002-of-00002.gguf");
  write(part(1, 3), keyed(0, 2, 2).build());
  EXPECT_OPEN_ERROR(part(1, 3), "its name must end in -00001-of-00002.gguf");
  write(part(1, 2), keyed(2, 2, 2).build());
  EXPECT_OPEN_ERROR(part(1, 2), "split.no 2 is not below");
  write(part(1, 2), keyed(0, 65535, 2).build());
  EXPECT_OPEN_ERROR(part(1, 2), "its name must end in -00001-of-65535.gguf");
}

}  // namespace
}  // namespace zeroulp::io
