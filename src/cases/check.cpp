#include "cases/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "base/fp_env.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "num/bf16.h"
#include "num/bits.h"

namespace zeroulp::cases {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string element_text(Dtype dtype, const std::byte* at) {
  switch (dtype) {
    case Dtype::kBF16: return fmt::format("{} (0x{:04x})", num::bf16_to_float(load<uint16_t>(at)), load<uint16_t>(at));
    case Dtype::kF32: return fmt::format("{} (0x{:08x})", load<float>(at), load<uint32_t>(at));
    case Dtype::kI8: return fmt::format("{} (0x{:02x})", load<int8_t>(at), load<uint8_t>(at));
    case Dtype::kU8: return fmt::format("{} (0x{:02x})", load<uint8_t>(at), load<uint8_t>(at));
    case Dtype::kI16: return fmt::format("{} (0x{:04x})", load<int16_t>(at), load<uint16_t>(at));
    case Dtype::kI32: return fmt::format("{} (0x{:08x})", load<int32_t>(at), load<uint32_t>(at));
    default: return fmt::format("{} (0x{:016x})", load<int64_t>(at), load<uint64_t>(at));
  }
}

std::vector<int64_t> place(const std::vector<int64_t>& shape, int64_t flat) {
  std::vector<int64_t> at(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    at[i] = flat % shape[i];
    flat /= shape[i];
  }
  return at;
}

std::string spec_text(const Spec& s) { return fmt::format("{} {}[{}]", s.name, dtype_name(s.dtype), fmt::join(s.shape, ", ")); }

// What a program between emit and check changed.
std::string first_change(const Case& own, const Case& given) {
  if (own.index != given.index) return fmt::format("it is case {}", given.index);
  for (size_t i = 0; i < own.inputs.size() && i < given.inputs.size(); ++i) {
    const Tensor &a = own.inputs[i], &b = given.inputs[i];
    if (static_cast<const Spec&>(a) != static_cast<const Spec&>(b)) return fmt::format("its input {} is {}", i, in_quotes(spec_text(b)));
    if (a.data == b.data) continue;
    const size_t size = static_cast<size_t>(dtype_bits(a.dtype)) / 8;
    size_t byte = 0;
    while (a.data[byte] == b.data[byte]) ++byte;
    return fmt::format("its input '{}' differs from element {} on", a.name, byte / size);
  }
  return "its names, attributes or outputs differ";
}

class StreamPairs : public PairSource {
 public:
  explicit StreamPairs(StreamReader reader) : in_(std::move(reader)) {}
  const StreamHeader& header() const override { return in_.header(); }
  const std::string& name() const override { return in_.name(); }

  Result<std::optional<Pair>> next() override {
    ZU_TRY_ASSIGN(auto frame, in_.next());
    if (!frame) return bad_input(fmt::format("{}: ends without an end frame: the kernel stopped early, or did not copy it", name()));
    if (frame->type == FrameType::kEnd) {
      ZU_TRY(finish(frame->payload));
      return std::optional<Pair>();
    }
    if (frame->type == FrameType::kAnswer) return bad_input(fmt::format("{}: an answer without a case before it: case frames must be copied, each before its answer", name()));
    Pair p;
    auto decoded = decode_case(frame->payload);
    if (!decoded) return bad_input(fmt::format("{}: case frame {}: {}", name(), seen_, decoded.error().text));
    p.given = std::move(*decoded);
    digest_.add(frame->payload);
    p.payload = std::move(frame->payload);
    ZU_TRY_ASSIGN(frame, in_.next());
    if (!frame || frame->type != FrameType::kAnswer) return bad_input(fmt::format("{}: case {} has no answer frame behind it", name(), p.given.index));
    auto answer = decode_answer(frame->payload);
    if (!answer) return bad_input(fmt::format("{}: the answer to case {}: {}", name(), p.given.index, answer.error().text));
    p.answer = std::move(*answer);
    ++seen_;
    return std::optional<Pair>(std::move(p));
  }

 private:
  Status finish(std::string_view payload) {
    const auto end = decode_end(payload);
    if (!end) return bad_input(fmt::format("{}: {}", name(), end.error().text));
    const End own = digest_.end();
    if (end->cases != own.cases) return bad_input(fmt::format("{}: has {} cases; {} were emitted", name(), own.cases, end->cases));
    if (*end != own) return bad_input(fmt::format("{}: its cases are not those that were emitted: case frames must be copied unchanged", name()));
    ZU_TRY_ASSIGN(const auto more, in_.next());
    if (more) return bad_input(fmt::format("{}: has frames behind its end", name()));
    return {};
  }

  StreamReader in_;
  CaseDigest digest_;
  int64_t seen_ = 0;
};

class Checker {
 public:
  Checker(PairSource& source, const Form& form) : source_(source), form_(form) { result_.header = source.header(); }

  Result<CheckResult> run() {
    const bool captured = result_.header.kinds.front() == Kind::kCaptured;
    if (captured)
      while (more_) ZU_TRY(take(nullptr));
    else
      ZU_TRY(take_known());
    return std::move(result_);
  }

 private:
  Status take_known() {
    Status status;
    each_wanted(form_, result_.header, [&](Case&& own) {
      status = take(&own);
      return status.has_value() && more_;
    });
    ZU_TRY(status);
    if (!more_) return bad_input(fmt::format("{}: ends before the last case: {} were expected to follow", source_.name(), "more"));
    ZU_TRY_ASSIGN(const auto extra, source_.next());
    if (extra) return bad_input(fmt::format("{}: case {} is one too many", source_.name(), extra->given.index));
    return {};
  }

  Status take(const Case* own) {
    if (interrupt_requested()) return interrupted();
    ZU_TRY_ASSIGN(auto pair, source_.next());
    if (!pair) {
      more_ = false;
      return {};
    }
    const Case& given = pair->given;
    if (own == nullptr && given.kind != Kind::kCaptured)
      return bad_input(fmt::format("{}: case {} is {}, in a header of captured cases: the header was changed", source_.name(), given.index, kind_name(given.kind)));
    if (own != nullptr && pair->payload != encode_case(*own))
      return bad_input(fmt::format("{}: case {} did not come back as it was emitted: {}", source_.name(), own->index, first_change(*own, given)));
    if (pair->answer.index != given.index)
      return bad_input(fmt::format("{}: the answer behind case {} says that it is for case {}", source_.name(), given.index, pair->answer.index));
    const auto bound = bind(form_, given);
    if (!bound) return bad_input(fmt::format("{}: case {}: {}", source_.name(), given.index, bound.error().text));
    if (pair->answer.outputs.empty()) {
      ++result_.declined;
      return {};
    }
    const Status compared = compare_case(form_, *bound, std::move(pair->answer.outputs), result_);
    if (!compared) return bad_input(fmt::format("{}: case {} '{}': {}", source_.name(), given.index, given.name, compared.error().text));
    return {};
  }

  PairSource& source_;
  const Form& form_;
  CheckResult result_;
  bool more_ = true;
};

}  // namespace

Status compare_case(const Form& form, const Bound& c, Outputs given, CheckResult& result) {
  const std::vector<Spec>& asked = c.c->outputs;
  for (size_t i = 0; i < std::max(asked.size(), given.size()); ++i) {
    if (i >= given.size()) return bad_input(fmt::format("the answer lacks the output {}", spec_text(asked[i])));
    if (i >= asked.size()) return bad_input(fmt::format("the answer has an output too many, {}", in_quotes(spec_text(given[i]))));
    if (static_cast<const Spec&>(given[i]) != asked[i]) return bad_input(fmt::format("the answer's output {} is {}; it must be {}", i, in_quotes(spec_text(given[i])), spec_text(asked[i])));
  }
  const FpEnvScope fp_env;
  Outputs wanted = form.reference(c);
  const int64_t before = result.wrong;
  ++result.cases;
  for (size_t o = 0; o < wanted.size(); ++o) {
    const int64_t count = wanted[o].elements();
    result.elements += count;
    if (wanted[o].data == given[o].data) continue;
    const int64_t size = dtype_bits(wanted[o].dtype) / 8;
    for (int64_t i = 0; i < count; ++i) {
      const std::byte *w = wanted[o].data.data() + i * size, *g = given[o].data.data() + i * size;
      if (std::memcmp(w, g, static_cast<size_t>(size)) == 0) continue;
      if (++result.wrong > 1) continue;
      result.first = Wrong{c.c->index, c.c->kind, c.c->name, c.c->catches, wanted[o].name, place(wanted[o].shape, i), element_text(wanted[o].dtype, w),
                           element_text(wanted[o].dtype, g), rule_text(form, c, wanted[o].name), {}, {}, {}};
    }
  }
  result.wrong_cases += result.wrong > before;
  if (before == 0 && result.wrong > 0) {
    result.first->in = *c.c;
    result.first->wanted = std::move(wanted);
    result.first->given = std::move(given);
  }
  return {};
}

void each_wanted(const Form& form, const StreamHeader& header, const Sink& sink) {
  int64_t taken = 0;
  form.each(header.kinds, [&](Case&& c) {
    if (c.index < header.first) return true;
    if (header.count > 0 && taken == header.count) return false;
    ++taken;
    return sink(std::move(c));
  });
}

Result<CheckResult> check_pairs(PairSource& source) { return Checker(source, *find_form(source.header().op)).run(); }

Result<CheckResult> check_stream(ReadFn read, const std::string& name) {
  ZU_TRY_ASSIGN(StreamReader reader, StreamReader::open(std::move(read), name));
  StreamPairs pairs(std::move(reader));
  return check_pairs(pairs);
}

Status answer_stream(ReadFn read, const std::string& name, const std::function<Result<Outputs>(const Form& form, const Bound& c)>& kernel,
                     const std::function<Status(std::string_view)>& write) {
  ZU_TRY_ASSIGN(StreamReader in, StreamReader::open(std::move(read), name));
  const Form& form = *find_form(in.header().op);
  ZU_TRY(write(in.header_bytes()));
  while (true) {
    if (interrupt_requested()) return interrupted();
    ZU_TRY_ASSIGN(const auto frame, in.next());
    if (!frame) return bad_input(fmt::format("{}: ends without an end frame", name));
    if (frame->type == FrameType::kAnswer) continue;
    ZU_TRY(write(encode_frame(frame->type, frame->payload)));
    if (frame->type == FrameType::kEnd) return {};
    auto c = decode_case(frame->payload);
    if (!c) return bad_input(fmt::format("{}: {}", name, c.error().text));
    const auto bound = bind(form, *c);
    if (!bound) return bad_input(fmt::format("{}: case {}: {}", name, c->index, bound.error().text));
    ZU_TRY_ASSIGN(Outputs outputs, kernel(form, *bound));
    ZU_TRY(write(encode_frame(FrameType::kAnswer, encode_answer({c->index, std::move(outputs)}))));
  }
}

}  // namespace zeroulp::cases
