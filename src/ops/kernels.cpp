#include "ops/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace zeroulp::ops {
namespace {

struct Wanted {
  std::string everywhere;  // a bare name, or empty
  std::map<std::string, std::string, std::less<>> by_op;
};

Result<Wanted> parse_wanted(std::string_view text) {
  Wanted wanted;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t equals = item.find('=');
    if (equals != std::string_view::npos)
      wanted.by_op[std::string(item.substr(0, equals))] = item.substr(equals + 1);
    else if (wanted.everywhere.empty())
      wanted.everywhere = item;
    else
      return usage_error(fmt::format("--kernel: both '{}' and '{}' are meant for every op", wanted.everywhere, item));
  }
  return wanted;
}

// Selects one op's variant and notes which of the wanted names exist.
class Chooser {
 public:
  Chooser(Wanted wanted, const CpuFeatures& cpu) : wanted_(std::move(wanted)), cpu_(cpu) {}

  template <class Fn>
  Status choose(std::string_view op, std::span<const Variant<Fn>> table, Variant<Fn>& out) {
    ZU_TRY_ASSIGN(out, select(op, table, name_for(op, table, best_below(table)), cpu_));
    return {};
  }
  template <class Args, class Fn>
  Status choose(std::string_view op, std::span<const DeviceVariant<Args, Fn>> table, DeviceVariant<Args, Fn>& out) {
    ZU_TRY_ASSIGN(out, select(op, table, name_for(op, table, "")));
    return {};
  }

  // To be called for every op before choose(): learns what the bare name needs.
  template <class Fn>
  void learn(std::span<const Variant<Fn>> table) {
    for (const Variant<Fn>& v : table)
      if (v.name == wanted_.everywhere) level_ = v.needs;
  }

  Status finish() const {
    if (met_ops_ != wanted_.by_op.size()) return usage_error("--kernel: an op before '=' is not one of the contract's ops");
    if (!wanted_.everywhere.empty() && !met_everywhere_)
      return usage_error(fmt::format("--kernel: no op has a variant called '{}' (zeroulp doctor lists them)", wanted_.everywhere));
    return {};
  }

 private:
  // `otherwise`: when the bare name is of no variant of this op.
  template <class Table>
  std::string_view name_for(std::string_view op, const Table& table, std::string_view otherwise) {
    if (const auto it = wanted_.by_op.find(op); it != wanted_.by_op.end()) {
      ++met_ops_;
      return it->second;
    }
    if (wanted_.everywhere.empty()) return "";
    const bool has = std::any_of(table.begin(), table.end(), [&](const auto& v) { return v.name == wanted_.everywhere; });
    met_everywhere_ |= has;
    return has ? std::string_view(wanted_.everywhere) : otherwise;
  }
  template <class Fn>
  std::string_view best_below(std::span<const Variant<Fn>> table) const {
    std::string_view best = "reference";
    for (const Variant<Fn>& v : table)
      if (level_ && v.needs <= *level_ && why_unavailable(v.needs, cpu_).empty()) best = v.name;
    return best;
  }

  Wanted wanted_;
  const CpuFeatures& cpu_;
  size_t met_ops_ = 0;
  bool met_everywhere_ = false;
  std::optional<Needs> level_;  // of the bare name
};

// Calls visit(name, CPU table, GPU table, member) for every op.
template <class K, class Visit>
Status for_each_op(K& k, Visit visit) {
  ZU_TRY(visit("argmax", argmax::variants(), argmax::device_variants(), k.argmax));
  ZU_TRY(visit("attention", attention::variants(), attention::device_variants(), k.attention));
  ZU_TRY(visit("embedding", embedding::variants(), embedding::device_variants(), k.embedding));
  ZU_TRY(visit("linear_s8", linear_s8::variants(), linear_s8::device_variants(), k.linear_s8));
  ZU_TRY(visit("nll", nll::variants(), nll::device_variants(), k.nll));
  ZU_TRY(visit("quant_rows", quant_rows::variants(), quant_rows::device_variants(), k.quant_rows));
  ZU_TRY(visit("residual", residual::variants(), residual::device_variants(), k.residual));
  ZU_TRY(visit("rmsnorm", rmsnorm::variants(), rmsnorm::device_variants(), k.rmsnorm));
  ZU_TRY(visit("rope", rope::variants(), rope::device_variants(), k.rope));
  ZU_TRY(visit("silu_mul", silu_mul::variants(), silu_mul::device_variants(), k.silu_mul));
  return {};
}

template <class K>
std::vector<std::string> names_of(const K& kernels) {
  std::vector<std::string> names;
  const Status ok = for_each_op(kernels, [&](std::string_view op, auto, auto, const auto& variant) -> Status {
    names.push_back(fmt::format("{}={}", op, variant.name));
    return {};
  });
  (void)ok;
  return names;
}

// The names of the tables that `pick` chooses, each once, with why_not(variant).
template <class Pick, class WhyNot>
std::vector<VariantStatus> all_names(Pick pick, WhyNot why_not) {
  std::vector<VariantStatus> all;
  Kernels unused;
  const Status ok = for_each_op(unused, [&](std::string_view, auto on_cpu, auto on_device, auto&) -> Status {
    for (const auto& v : pick(on_cpu, on_device))
      if (std::none_of(all.begin(), all.end(), [&](const VariantStatus& s) { return s.name == v.name; })) all.push_back({std::string(v.name), why_not(v)});
    return {};
  });
  (void)ok;
  return all;
}

}  // namespace

std::string why_unavailable(Needs needs, const CpuFeatures& cpu) {
  switch (needs) {
    case Needs::kNothing: return "";
    case Needs::kAvx2: return cpu.avx2 ? "" : "this processor lacks AVX2 with FMA";
    case Needs::kAvx512Vnni: return cpu.avx512_vnni ? "" : "this processor lacks AVX-512 with VNNI";
    case Needs::kAvx512Vbmi: return cpu.avx512_vbmi ? "" : "this processor lacks AVX-512 with VBMI2";
    case Needs::kAmxInt8: return cpu.amx_int8 ? "" : "this processor or system lacks AMX with int8 tiles";
  }
  return "unknown need";
}

std::vector<std::string> Kernels::names() const { return names_of(*this); }
std::vector<std::string> DeviceKernels::names() const { return names_of(*this); }

Result<Kernels> select_kernels(std::string_view wanted, const CpuFeatures& cpu) {
  ZU_TRY_ASSIGN(Wanted parsed, parse_wanted(wanted));
  Chooser chooser(std::move(parsed), cpu);
  Kernels kernels;
  ZU_TRY(for_each_op(kernels, [&](std::string_view, auto table, auto, auto&) -> Status {
    chooser.learn(table);
    return {};
  }));
  ZU_TRY(for_each_op(kernels, [&](std::string_view op, auto table, auto, auto& out) { return chooser.choose(op, table, out); }));
  ZU_TRY(chooser.finish());
  return kernels;
}

Result<DeviceKernels> select_device_kernels(std::string_view wanted) {
  ZU_TRY_ASSIGN(Wanted parsed, parse_wanted(wanted));
  Chooser chooser(std::move(parsed), cpu_features());
  DeviceKernels kernels;
  ZU_TRY(for_each_op(kernels, [&](std::string_view op, auto, auto table, auto& out) { return chooser.choose(op, table, out); }));
  ZU_TRY(chooser.finish());
  return kernels;
}

std::vector<VariantStatus> variant_status(const CpuFeatures& cpu) {
  return all_names([](auto on_cpu, auto) { return on_cpu; }, [&](const auto& v) { return why_unavailable(v.needs, cpu); });
}

std::vector<VariantStatus> device_variant_status(int index) {
  const std::string why = device::why_unavailable(index);
  return all_names([](auto, auto on_device) { return on_device; },
                   [&](const auto& v) { return why.empty() && v.why_not != nullptr ? v.why_not() : why; });
}

}  // namespace zeroulp::ops
