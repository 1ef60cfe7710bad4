#include "cases/forms.h"

#include "cases/form_tools.h"

namespace zeroulp::cases {
namespace {

thread_local Recording* t_recording = nullptr;

// Sizes are counts of elements of data that is there, so none can pass this; products of four then stay inside 128 bits.
constexpr int64_t kMaxDim = int64_t{1} << 40;
constexpr uint64_t kMaxOutputBytes = uint64_t{1} << 29;  // of one output: an answer must fit a frame

std::vector<std::string_view> dim_names(std::string_view dims) {
  std::vector<std::string_view> names;
  while (!dims.empty()) {
    const std::string_view name = dims.substr(0, dims.find(','));
    names.push_back(name);
    dims.remove_prefix(std::min(dims.size(), name.size() + 1));
  }
  return names;
}

// Sizes by their names; a name met again must have the same size, and a number is itself.
Status bind_dims(std::string_view what, std::string_view dims, const std::vector<int64_t>& shape, Bound& b) {
  const std::vector<std::string_view> names = dim_names(dims);
  if (shape.size() != names.size()) return bad_input(fmt::format("{} has {} dimensions; it is [{}]", what, shape.size(), dims));
  for (size_t i = 0; i < names.size(); ++i) {
    if (shape[i] < 1 || shape[i] > kMaxDim) return bad_input(fmt::format("{} has a dimension of {}", what, shape[i]));
    const int64_t expected = names[i] == "1" ? 1 : b.dims.emplace(names[i], shape[i]).first->second;
    if (expected != shape[i]) return bad_input(fmt::format("{} has {} = {}, elsewhere it is {}", what, names[i], shape[i], expected));
  }
  return {};
}

Status check_bytes(std::string_view what, const Tensor& t) {
  __extension__ using u128 = unsigned __int128;
  u128 bytes = static_cast<u128>(dtype_bits(t.dtype) / 8);
  for (const int64_t d : t.shape) {
    bytes *= static_cast<u128>(d);
    if (bytes > t.data.size()) break;
  }
  if (bytes == t.data.size()) return {};
  return bad_input(fmt::format("{} has {} bytes, which its type and shape do not give", what, t.data.size()));
}

Status bind_inputs(const Form& form, const Case& c, Bound& b) {
  size_t next = 0;
  for (const TensorForm& f : form.inputs) {
    const bool there = next < c.inputs.size() && c.inputs[next].name == f.name;
    if (!there && f.optional) continue;
    if (!there) return bad_input(fmt::format("input {} should be '{}'", next, f.name));
    const Tensor& t = c.inputs[next++];
    const std::string what = fmt::format("input '{}'", f.name);
    if (t.dtype != f.dtype) return bad_input(fmt::format("{} is {}; it must be {}", what, dtype_name(t.dtype), dtype_name(f.dtype)));
    ZU_TRY(bind_dims(what, f.dims, t.shape, b));
    ZU_TRY(check_bytes(what, t));
  }
  if (next != c.inputs.size()) return bad_input(fmt::format("input '{}' is not one of {}'s", c.inputs[next].name, form.op));
  return {};
}

Status bind_attributes(const Form& form, const Case& c) {
  if (c.attributes.size() != form.attributes.size()) return bad_input(fmt::format("has {} attributes; {} has {}", c.attributes.size(), form.op, form.attributes.size()));
  for (size_t i = 0; i < form.attributes.size(); ++i) {
    const AttributeForm& f = form.attributes[i];
    const Attribute& a = c.attributes[i];
    if (a.name != f.name || a.value.index() + 1 != static_cast<size_t>(f.type))
      return bad_input(fmt::format("attribute {} should be '{}'{}", i, f.name, a.name == f.name ? ", of another type" : ""));
  }
  return {};
}

bool applies(const Form&, const Bound& b, const OutputForm& f) { return f.only_if.empty() || b.text("output") == f.only_if; }

}  // namespace

Recording::Recording(std::function<void(Case&&)> sink) : sink_(std::move(sink)), outer_(t_recording) { t_recording = this; }
Recording::~Recording() { t_recording = outer_; }

void hand_over(Case&& c) {
  if (t_recording != nullptr) t_recording->sink_(std::move(c));
}

std::span<const Form> forms() {
  static const std::vector<Form> all = {quant_rows_form(), linear_s8_form(), rmsnorm_form(), residual_form(),  embedding_form(), silu_mul_form(),
                                        rope_form(),       kv_cache_form(),  attention_form(), argmax_form(), nll_form(),       sample_form()};
  return all;
}

const Form* find_form(std::string_view op) {
  for (const Form& f : forms())
    if (f.op == op) return &f;
  return nullptr;
}

std::vector<Spec> output_specs(const Form& form, const Bound& b) {
  std::vector<Spec> specs;
  for (const OutputForm& f : form.outputs) {
    if (!applies(form, b, f)) continue;
    Spec s{std::string(f.name), f.dtype, {}};
    for (const std::string_view name : dim_names(f.dims)) s.shape.push_back(name == "1" ? 1 : b.dim(name));
    specs.push_back(std::move(s));
  }
  return specs;
}

Result<Bound> bind(const Form& form, const Case& c) {
  Bound b{&c, {}};
  if (c.op != form.op) return bad_input(fmt::format("is of op '{}', not '{}'", c.op, form.op));
  ZU_TRY(bind_attributes(form, c));
  ZU_TRY(bind_inputs(form, c, b));
  ZU_TRY(form.admit(b));
  if (c.outputs != output_specs(form, b)) return bad_input("asks for other outputs than the op has");
  __extension__ using u128 = unsigned __int128;
  for (const Spec& s : c.outputs) {
    u128 bytes = static_cast<u128>(dtype_bits(s.dtype) / 8);
    for (const int64_t d : s.shape) bytes = std::min(bytes * static_cast<u128>(d), static_cast<u128>(kMaxOutputBytes) + 1);
    if (bytes > kMaxOutputBytes) return bad_input(fmt::format("asks for more than {} bytes of '{}'", kMaxOutputBytes, s.name));
  }
  return b;
}

std::string rule_text(const Form& form, const Bound& b, std::string_view output) {
  for (const OutputForm& f : form.outputs)
    if (f.name == output && applies(form, b, f)) return fmt::format("docs/contract.md, section {} ({}): {}", form.section, form.title, f.rule);
  return fmt::format("docs/contract.md, section {} ({})", form.section, form.title);
}

}  // namespace zeroulp::cases
