// GGUF files made in memory, right or wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "io/gguf.h"

namespace zeroulp::io {

// Appends little-endian numbers and length-prefixed strings.
class GgufBytes {
 public:
  template <class T>
  GgufBytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  GgufBytes& string(const std::string& s) {
    number<uint64_t>(s.size());
    text_ += s;
    return *this;
  }
  GgufBytes& raw(const std::string& s) {
    text_ += s;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// A well-formed file, unless a part given is wrong.
class GgufBuilder {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;  // of the layout; the key is added only by hand

  GgufBuilder& key(const std::string& name, GgufKind kind, const std::string& value_bytes) {
    keys_.push_back({name, GgufBytes().string(name).number(static_cast<uint32_t>(kind)).raw(value_bytes).text()});
    return *this;
  }
  GgufBuilder& u32(const std::string& name, uint32_t v) { return key(name, GgufKind::kU32, GgufBytes().number(v).text()); }
  GgufBuilder& u16(const std::string& name, uint16_t v) { return key(name, GgufKind::kU16, GgufBytes().number(v).text()); }
  GgufBuilder& f32(const std::string& name, float v) { return key(name, GgufKind::kF32, GgufBytes().number(v).text()); }
  GgufBuilder& boolean(const std::string& name, uint8_t v) { return key(name, GgufKind::kBool, GgufBytes().number(v).text()); }
  GgufBuilder& text(const std::string& name, const std::string& v) {
    return key(name, GgufKind::kString, GgufBytes().string(v).text());
  }
  GgufBuilder& texts(const std::string& name, const std::vector<std::string>& v) {
    GgufBytes b;
    b.number(static_cast<uint32_t>(GgufKind::kString)).number<uint64_t>(v.size());
    for (const std::string& s : v) b.string(s);
    return key(name, GgufKind::kArray, b.text());
  }
  GgufBuilder& i32s(const std::string& name, const std::vector<int32_t>& v) {
    GgufBytes b;
    b.number(static_cast<uint32_t>(GgufKind::kI32)).number<uint64_t>(v.size());
    for (const int32_t i : v) b.number(i);
    return key(name, GgufKind::kArray, b.text());
  }
  GgufBuilder& without(const std::string& name) {
    std::erase_if(keys_, [&](const Key& k) { return k.name == name; });
    return *this;
  }

  // `dims` in the file's order: fastest first.
  GgufBuilder& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type, const std::string& data) {
    tensors_.push_back({name, dims, type, data, offset_});
    offset_ += data.size() + pad(data.size());
    return *this;
  }
  GgufBuilder& f32_tensor(const std::string& name, const std::vector<uint64_t>& dims, const std::vector<float>& values) {
    std::string data(values.size() * 4, '\0');
    std::memcpy(data.data(), values.data(), data.size());
    return tensor(name, dims, 0, data);
  }
  // Offset of the last tensor, to be made wrong.
  GgufBuilder& move_last(int64_t by) {
    tensors_.back().offset += static_cast<uint64_t>(by);
    return *this;
  }

  std::string build() const {
    GgufBytes b;
    b.raw("GGUF").number(version).number<uint64_t>(tensors_.size()).number<uint64_t>(keys_.size());
    for (const Key& k : keys_) b.raw(k.bytes);
    for (const Tensor& t : tensors_) {
      b.string(t.name).number(static_cast<uint32_t>(t.dims.size()));
      for (const uint64_t d : t.dims) b.number(d);
      b.number(t.type).number(t.offset);
    }
    b.raw(std::string(pad(b.text().size()), '\0'));
    for (const Tensor& t : tensors_) b.raw(t.data + std::string(pad(t.data.size()), '\0'));
    return b.text();
  }

 private:
  struct Key {
    std::string name, bytes;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type;
    std::string data;
    uint64_t offset;
  };
  uint64_t pad(uint64_t n) const { return (alignment - n % alignment) % alignment; }

  std::vector<Key> keys_;
  std::vector<Tensor> tensors_;
  uint64_t offset_ = 0;
};

}  // namespace zeroulp::io
