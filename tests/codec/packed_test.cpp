#include "codec/packed.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "codec/samples.h"
#include "io/temporary_folder.h"

namespace zeroulp::codec {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(in)), {}};
}
void write(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// A checkpoint with tensors of several types, an empty one, odd sizes and a header with blanks and escapes.
fs::path make_source(const TemporaryFolder& tmp) {
  const fs::path folder = tmp.path() / "model";
  fs::create_directories(folder / "sub");
  std::string data;
  const auto add = [&](const ByteVector& bytes) { data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()); };
  add(exponent_data(Type::kF32, 5000, 120, 9, 3, 1, Shape::kBell));
  add(exponent_data(Type::kBF16, 20001, 120, 9, 3, 2, Shape::kBell));
  add(random_bytes(77, 3));
  const std::string header = "{ \"__metadata__\":{\"a\\u0041\":\"\\n\"}, \"w\":{\"dtype\":\"F32\",\"shape\":[50,100],\"data_offsets\":[0,20000]},\n"
                             "\"b\":{\"dtype\":\"BF16\",\"shape\":[20001],\"data_offsets\":[20000,60002]},"
                             "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[60002,60002]},"
                             "\"u\":{\"dtype\":\"U8\",\"shape\":[7,11],\"data_offsets\":[60002,60079]}}   ";
  const uint64_t length = header.size();
  write(folder / "model.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + header + data);
  write(folder / "config.json", "{}\n");
  write(folder / "sub/note.txt", "kept");
  return folder;
}

TEST(Packed, AFolderComesBackByteForByteAtEveryLevel) {
  const TemporaryFolder tmp;
  const fs::path source = make_source(tmp);
  for (const Level level : {Level::kFast, Level::kBalanced, Level::kRest})
    for (const int threads : {1, 3}) {
      PackOptions o;
      o.level = level;
      o.threads = threads;
      o.block_bytes = 4096;
      o.channels = threads == 3;
      const std::string run = std::to_string(static_cast<int>(level)) + "-" + std::to_string(threads);
      const fs::path small = tmp.path() / ("packed-" + run), again = tmp.path() / ("back-" + run);
      auto packed = pack(source, small, o);
      ASSERT_TRUE(packed) << packed.error().text;
      EXPECT_EQ(packed->files, 1u);
      EXPECT_EQ(packed->copied, 2u);
      EXPECT_LT(packed->bytes_out, packed->bytes_in);
      auto back = unpack(small, again, o);
      ASSERT_TRUE(back) << back.error().text;
      for (const char* name : {"model.safetensors", "config.json", "sub/note.txt"}) EXPECT_EQ(read(again / name), read(source / name)) << name;
    }
}

TEST(Packed, WhatCannotBeCopiedIsNotLeftOut) {
  const TemporaryFolder tmp;
  const fs::path source = make_source(tmp);
  fs::create_directory_symlink(source / "sub", source / "link");
  const auto packed = pack(source, tmp.path() / "packed", {});
  ASSERT_FALSE(packed);
  EXPECT_NE(packed.error().text.find("cannot be copied"), std::string::npos) << packed.error().text;
  EXPECT_FALSE(fs::exists(tmp.path() / "packed"));
}

// As the caches of model hubs are laid out: the files of a snapshot are links to blobs beside it.
TEST(Packed, LinkedFilesAreReadThroughAndNeverWritten) {
  const TemporaryFolder tmp;
  const fs::path source = make_source(tmp), blobs = tmp.path() / "blobs", snapshot = tmp.path() / "snapshot";
  fs::create_directories(blobs);
  fs::create_directories(snapshot);
  const char* names[] = {"model.safetensors", "config.json"};
  for (const char* name : names) {
    fs::copy_file(source / name, blobs / (std::string("of-") + name));
    fs::create_symlink(fs::path("../blobs") / (std::string("of-") + name), snapshot / name);
  }
  for (const bool force : {false, true}) {
    PackOptions o;
    o.force = force;
    const fs::path packed = tmp.path() / (force ? "packed-f" : "packed"), again = tmp.path() / (force ? "again-f" : "again");
    auto p = pack(snapshot, packed, o);
    ASSERT_TRUE(p) << p.error().text;
    auto u = unpack(packed, again, o);
    ASSERT_TRUE(u) << u.error().text;
    for (const char* name : names) {
      EXPECT_EQ(read(blobs / (std::string("of-") + name)), read(source / name)) << "the blob was written";
      EXPECT_EQ(read(again / name), read(source / name));
      EXPECT_FALSE(fs::is_symlink(packed / name));
    }
    // A packed snapshot of links too.
    const fs::path hub = tmp.path() / (force ? "hub-f" : "hub");
    fs::create_directories(hub);
    fs::create_symlink(fs::absolute(packed / "model.safetensors"), hub / "model.safetensors");
    const std::string before = read(packed / "model.safetensors");
    ASSERT_TRUE(unpack(hub, tmp.path() / (force ? "un-f" : "un"), o));
    EXPECT_EQ(read(packed / "model.safetensors"), before);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(blobs), fs::directory_iterator()), 2) << "something landed beside the blobs";
}

TEST(Packed, EmptyFoldersStayAndATargetInsideTheSourceIsRefused) {
  const TemporaryFolder tmp;
  const fs::path source = make_source(tmp);
  fs::create_directories(source / "empty");
  ASSERT_TRUE(pack(source, tmp.path() / "packed", {}));
  EXPECT_TRUE(fs::is_directory(tmp.path() / "packed/empty"));
  const auto inside = pack(source, source / "packed", {});
  ASSERT_FALSE(inside);
  EXPECT_EQ(inside.error().code, ExitCode::kUsage);
  EXPECT_FALSE(fs::exists(source / "packed"));
}

TEST(Packed, OpensLikeTheOriginal) {
  const TemporaryFolder tmp;
  const fs::path source = make_source(tmp) / "model.safetensors", packed = tmp.path() / "p.safetensors";
  ASSERT_TRUE(pack(source, packed, {}));
  auto a = open_safetensors(source), b = open_safetensors(packed);
  ASSERT_TRUE(a && b) << b.error().text;
  ASSERT_EQ(a->tensors().size(), b->tensors().size());
  EXPECT_EQ(a->metadata(), b->metadata());
  for (size_t i = 0; i < a->tensors().size(); ++i) {
    EXPECT_EQ(a->tensors()[i].name, b->tensors()[i].name);
    EXPECT_EQ(a->tensors()[i].dtype, b->tensors()[i].dtype);
    const auto x = a->data(a->tensors()[i]), y = b->data(b->tensors()[i]);
    EXPECT_TRUE(std::equal(x.begin(), x.end(), y.begin(), y.end()));
  }
}

TEST(Packed, DamageAndMisuseAreNamedAndNothingIsWritten) {
  const TemporaryFolder tmp;
  const fs::path source = make_source(tmp) / "model.safetensors", packed = tmp.path() / "p.safetensors", out = tmp.path() / "out";
  ASSERT_TRUE(pack(source, packed, {}));
  const std::string good = read(packed);
  const auto error_of = [&](const Result<PackReport>& r) { return r ? std::string("no error") : r.error().text; };

  EXPECT_NE(error_of(pack(source, packed, {})).find("force"), std::string::npos);
  EXPECT_NE(error_of(pack(packed, out, {})).find("packed already"), std::string::npos);
  EXPECT_NE(error_of(unpack(source, out, {})).find("not packed"), std::string::npos);
  EXPECT_NE(error_of(unpack(tmp.path() / "model", out, {})).find("holds no packed"), std::string::npos);

  std::string bad = good;
  bad[good.size() - 30] ^= 1;
  write(packed, bad);
  EXPECT_NE(error_of(unpack(packed, out, {})).find("tensor \"u\""), std::string::npos) << error_of(unpack(packed, out, {}));
  bad = good;
  const size_t sha = good.find("sha256\":\"") + 9;
  bad[sha] = bad[sha] == 'a' ? 'b' : 'a';
  write(packed, bad);
  EXPECT_NE(error_of(unpack(packed, out, {})).find("SHA-256"), std::string::npos);
  EXPECT_FALSE(fs::exists(out));

  // Every byte of the file changed, one in 97: refused, or the change hit a blank.
  int refused = 0;
  for (size_t at = 0; at < good.size(); at += 97) {
    bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write(packed, bad);
    if (auto r = unpack(packed, out, {}); !r) {
      ++refused;
      EXPECT_EQ(r.error().text.find('\n'), std::string::npos);
    } else {
      EXPECT_EQ(read(out), read(source));
      fs::remove(out);
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace zeroulp::codec
