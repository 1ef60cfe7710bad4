// One case of an op as data: named tensors and attributes that a kernel in any language can be given, in logical order and without strides.
// The ops' cases.cpp files are the one source of cases; forms.h turns their calls into these and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/check.h"
#include "ops/conformance.h"
#include "tensor/dtype.h"

namespace zeroulp::cases {

// What tensors of a case may be, with their numbers in streams and in zeroulp.h. None is packed.
struct WireDtype {
  Dtype dtype;
  uint32_t number;
};
inline constexpr WireDtype kWireDtypes[] = {{Dtype::kBF16, 1}, {Dtype::kF32, 3},  {Dtype::kI8, 7},  {Dtype::kU8, 8},
                                            {Dtype::kI16, 9},  {Dtype::kI32, 10}, {Dtype::kI64, 11}};
inline constexpr size_t kMaxRank = 4;

constexpr uint32_t wire_number(Dtype dtype) {
  for (const WireDtype& w : kWireDtypes)
    if (w.dtype == dtype) return w.number;
  return 0;
}
constexpr std::optional<Dtype> dtype_of_wire(uint32_t number) {
  for (const WireDtype& w : kWireDtypes)
    if (w.number == number) return w.dtype;
  return std::nullopt;
}

struct Spec {
  std::string name;
  Dtype dtype = Dtype::kU8;
  std::vector<int64_t> shape;

  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t d : shape) count *= d;
    return count;
  }
  int64_t bytes() const { return elements() * dtype_bits(dtype) / 8; }
  bool operator==(const Spec&) const = default;
};

struct Tensor : Spec {
  std::vector<std::byte> data;

  template <class T>
  const T* as() const {
    ZU_CHECK(sizeof(T) * 8 == static_cast<size_t>(dtype_bits(dtype)));
    return reinterpret_cast<const T*>(data.data());
  }
  template <class T>
  T* as() {
    return const_cast<T*>(static_cast<const Tensor*>(this)->as<T>());
  }
  bool operator==(const Tensor&) const = default;
};

struct Attribute {
  std::string name;
  std::variant<int64_t, double, std::string> value;
  bool operator==(const Attribute&) const = default;
};

// Conformance's kinds, with their numbers in streams, and inputs that a model gave.
enum class Kind : uint32_t { kExhaustive = 1, kHard = 2, kRandom = 3, kCaptured = 4 };
inline constexpr std::string_view kKindNames[] = {"", "exhaustive", "hard", "random", "captured"};
constexpr Kind kind_of(ops::conformance::Kind kind) {
  return kind == ops::conformance::Kind::kExhaustive ? Kind::kExhaustive : kind == ops::conformance::Kind::kHard ? Kind::kHard : Kind::kRandom;
}
constexpr std::string_view kind_name(Kind kind) { return kKindNames[static_cast<uint32_t>(kind)]; }

struct Case {
  std::string op;
  int64_t index = 0;  // among all of the op's cases of every kind; among those captured
  Kind kind = Kind::kHard;
  std::string name, catches;  // what it is, and the faults that it is there to catch
  std::vector<Attribute> attributes;
  std::vector<Tensor> inputs;
  std::vector<Spec> outputs;  // what is asked for

  const Tensor* input(std::string_view wanted) const {
    for (const Tensor& t : inputs)
      if (t.name == wanted) return &t;
    return nullptr;
  }
  const Attribute* attribute(std::string_view wanted) const {
    for (const Attribute& a : attributes)
      if (a.name == wanted) return &a;
    return nullptr;
  }
  bool operator==(const Case&) const = default;
};

}  // namespace zeroulp::cases
