// The C side of the check (include/zeroulp.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <exception>

#include "cases/check.h"
#include "zeroulp.h"

namespace {

using namespace zeroulp;
using namespace zeroulp::cases;

static_assert(ZU_BF16 == wire_number(Dtype::kBF16) && ZU_F32 == wire_number(Dtype::kF32) && ZU_I8 == wire_number(Dtype::kI8) && ZU_U8 == wire_number(Dtype::kU8) &&
              ZU_I16 == wire_number(Dtype::kI16) && ZU_I32 == wire_number(Dtype::kI32) && ZU_I64 == wire_number(Dtype::kI64));
static_assert(ZU_INTEGER == static_cast<int>(AttributeType::kInteger) && ZU_TEXT == static_cast<int>(AttributeType::kText));

zu_tensor view(const Spec& s, const std::byte* data) {
  zu_tensor t{s.name.c_str(), static_cast<int>(wire_number(s.dtype)), static_cast<int>(s.shape.size()), {1, 1, 1, 1}, const_cast<std::byte*>(data)};
  std::copy(s.shape.begin(), s.shape.end(), t.shape);
  return t;
}

zu_attribute view(const Attribute& a) {
  zu_attribute v{a.name.c_str(), static_cast<int>(a.value.index() + 1), 0, 0, ""};
  if (const auto* i = std::get_if<int64_t>(&a.value)) v.integer = *i;
  if (const auto* d = std::get_if<double>(&a.value)) v.real = *d;
  if (const auto* s = std::get_if<std::string>(&a.value)) v.text = s->c_str();
  return v;
}

// An output with a margin on both sides that nobody may touch.
class Margined {
 public:
  explicit Margined(const Spec& spec) : spec_(&spec), bytes_(static_cast<size_t>(spec.bytes()) + 2 * kMargin, kUntouched) {}
  std::byte* data() { return bytes_.data() + kMargin; }
  Tensor tensor() const { return {*spec_, {bytes_.begin() + kMargin, bytes_.end() - kMargin}}; }
  // The element, counted from the output's first, in which a byte outside it was written; nothing: none was.
  std::optional<int64_t> written_outside() const {
    const int64_t size = dtype_bits(spec_->dtype) / 8, inside = spec_->bytes();
    for (size_t i = 0; i < bytes_.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i) - kMargin;
      if ((at < 0 || at >= inside) && bytes_[i] != kUntouched) return at < 0 ? -((-at + size - 1) / size) : at / size;
    }
    return std::nullopt;
  }
  const std::string& name() const { return spec_->name; }

 private:
  static constexpr int64_t kMargin = 256;
  static constexpr std::byte kUntouched{0x5A};
  const Spec* spec_;
  std::vector<std::byte> bytes_;
};

template <size_t N>
void put(char (&to)[N], std::string_view text) {
  const size_t n = std::min(text.size(), N - 1);
  std::memcpy(to, text.data(), n);
  to[n] = '\0';
}

std::optional<std::vector<Kind>> parse_kinds(std::string_view text) {
  if (text == "all") return std::vector<Kind>{Kind::kExhaustive, Kind::kHard, Kind::kRandom};
  std::vector<Kind> kinds;
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    const auto* at = std::find(std::begin(kKindNames) + 1, std::end(kKindNames), name);
    if (at == std::end(kKindNames) || *at == "captured") return std::nullopt;
    kinds.push_back(static_cast<Kind>(at - std::begin(kKindNames)));
  }
  return kinds.empty() ? std::nullopt : std::optional(kinds);
}

class Check {
 public:
  Check(const Form& form, zu_kernel kernel, void* user, zu_check_report& report) : form_(form), kernel_(kernel), user_(user), report_(report) {}

  int run(const std::vector<Kind>& kinds) {
    form_.each(kinds, [&](Case&& c) { return one(c); });
    report_.cases = result_.cases;
    report_.declined = result_.declined;
    report_.elements = result_.elements;
    report_.wrong = result_.wrong;
    report_.wrong_cases = result_.wrong_cases;
    if (code_ == ZU_CHECK_EQUAL && result_.elements == 0) {
      put(report_.text, "the kernel declined every case: nothing was checked");
      return ZU_CHECK_NOTHING;
    }
    return code_;
  }

 private:
  // False: no more.
  bool one(const Case& c) {
    const auto bound = bind(form_, c);
    ZU_CHECK(bound.has_value());
    std::vector<zu_tensor> inputs, outputs;
    std::vector<zu_attribute> attributes;
    std::vector<Margined> written;
    for (const Tensor& t : c.inputs) inputs.push_back(view(t, t.data.data()));
    for (const Attribute& a : c.attributes) attributes.push_back(view(a));
    for (const Spec& s : c.outputs) written.emplace_back(s);
    for (size_t i = 0; i < written.size(); ++i) outputs.push_back(view(c.outputs[i], written[i].data()));
    const std::string kind(kind_name(c.kind));
    const zu_case given{c.op.c_str(),  kind.c_str(), c.name.c_str(), c.catches.c_str(), c.index, static_cast<int>(inputs.size()), static_cast<int>(outputs.size()),
                        static_cast<int>(attributes.size()), inputs.data(), outputs.data(), attributes.data()};
    const int answer = kernel_(&given, user_);
    if (answer == ZU_DECLINED) {
      ++result_.declined;
      return true;
    }
    if (answer != ZU_DONE) {
      put(report_.text, fmt::format("the kernel gave {} for case {} '{}'", answer, c.index, c.name));
      code_ = ZU_CHECK_KERNEL;
      return false;
    }
    Outputs tensors;
    for (const Margined& m : written) {
      tensors.push_back(m.tensor());
      if (const auto at = m.written_outside()) {
        ++result_.cases, ++result_.wrong, ++result_.wrong_cases;
        return found(c, m.name(), *at, fmt::format("{}[{}] of case {} '{}' ({}) was written, which is outside the output", m.name(), *at, c.index, c.name, kind));
      }
    }
    const Status compared = compare_case(form_, *bound, std::move(tensors), result_);
    ZU_CHECK(compared.has_value());
    if (!result_.first) return true;
    const Wrong& w = *result_.first;
    int64_t flat = 0;
    for (const Spec& s : c.outputs)
      if (s.name == w.output)
        for (size_t i = 0; i < w.at.size(); ++i) flat = flat * s.shape[i] + w.at[i];
    return found(c, w.output, flat, fmt::format("{}[{}] of case {} '{}' ({})\n  want {}\n  got  {}\n  rule broken: {}\n  the case is there to catch: {}", w.output, fmt::join(w.at, ", "),
                                                c.index, c.name, kind, w.want, w.got, w.rule, w.catches));
  }

  bool found(const Case& c, std::string_view output, int64_t element, std::string_view text) {
    report_.first_case = c.index;
    put(report_.first_output, output);
    report_.first_element = element;
    put(report_.text, text);
    code_ = ZU_CHECK_DIFFERS;
    return false;
  }

  const Form& form_;
  zu_kernel kernel_;
  void* user_;
  zu_check_report& report_;
  CheckResult result_;
  int code_ = ZU_CHECK_EQUAL;
};

template <class T>
const T* named(const T* list, int count, const char* name) {
  for (int i = 0; i < count; ++i)
    if (std::strcmp(list[i].name, name) == 0) return list + i;
  return nullptr;
}

const zu_attribute* typed(const zu_case* c, const char* name, int type) {
  const zu_attribute* a = named(c->attribute, c->attributes, name);
  return a != nullptr && a->type == type ? a : nullptr;
}

}  // namespace

const zu_tensor* zu_case_input(const zu_case* c, const char* name) { return named(c->input, c->inputs, name); }
const zu_tensor* zu_case_output(const zu_case* c, const char* name) { return named(c->output, c->outputs, name); }
int64_t zu_case_integer(const zu_case* c, const char* name, int64_t absent) {
  const zu_attribute* a = typed(c, name, ZU_INTEGER);
  return a != nullptr ? a->integer : absent;
}
double zu_case_real(const zu_case* c, const char* name, double absent) {
  const zu_attribute* a = typed(c, name, ZU_REAL);
  return a != nullptr ? a->real : absent;
}
const char* zu_case_text(const zu_case* c, const char* name, const char* absent) {
  const zu_attribute* a = typed(c, name, ZU_TEXT);
  return a != nullptr ? a->text : absent;
}

int zu_check_op(const char* op, const char* kinds, zu_kernel kernel, void* user, zu_check_report* report) {
  zu_check_report unused;
  zu_check_report& r = report != nullptr ? *report : unused;
  r = {};
  r.first_case = -1;
  const Form* form = op == nullptr ? nullptr : find_form(op);
  const auto wanted = kinds == nullptr ? std::nullopt : parse_kinds(kinds);
  if (form == nullptr || !wanted || kernel == nullptr) {
    put(r.text, form == nullptr ? "there is no such op; zeroulp cases list names them" : !wanted ? "kinds are exhaustive, hard, random, or all" : "there is no kernel");
    return ZU_CHECK_USAGE;
  }
  try {
    return Check(*form, kernel, user, r).run(*wanted);
  } catch (const std::exception& e) {
    put(r.text, e.what());
    return ZU_CHECK_KERNEL;
  }
}
