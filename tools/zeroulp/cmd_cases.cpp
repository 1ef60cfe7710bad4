// Your own kernel against the contract: `cases emit OP | ./kernel | cases check`.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "args.h"
#include "base/cpu.h"
#include "base/fp_env.h"
#include "base/text.h"
#include "cases/check.h"
#include "cases/tensor_files.h"
#include "model/quantized_model.h"
#include "model_text.h"
#include "report/json.h"
#include "report/table.h"
#include "report/text.h"
#include "verbs.h"
#include "verify/captured_cases.h"
#include "verify/signature.h"

namespace zeroulp::cli {
namespace {

constexpr std::string_view kPipe = "-";

Result<std::vector<cases::Kind>> parse_kinds(const std::vector<std::string>& names) {
  std::vector<cases::Kind> kinds;
  for (size_t i = 1; i < std::size(cases::kKindNames); ++i)
    if (std::find(names.begin(), names.end(), cases::kKindNames[i]) != names.end()) kinds.push_back(static_cast<cases::Kind>(i));
  for (const std::string& name : names) {
    const bool all = name == "all";
    if (all)
      for (const cases::Kind k : {cases::Kind::kExhaustive, cases::Kind::kHard, cases::Kind::kRandom})
        if (std::find(kinds.begin(), kinds.end(), k) == kinds.end()) kinds.push_back(k);
    if (!all && std::find(std::begin(cases::kKindNames) + 1, std::end(cases::kKindNames), name) == std::end(cases::kKindNames))
      return usage_error(fmt::format("--kind {}: one of exhaustive, hard, random, captured, all", name));
  }
  if (kinds.empty()) kinds = {cases::Kind::kHard};
  std::sort(kinds.begin(), kinds.end());
  return kinds;
}

Result<const cases::Form*> form_of(const std::string& op) {
  if (const cases::Form* form = cases::find_form(op)) return form;
  std::vector<std::string_view> ops;
  for (const cases::Form& f : cases::forms()) ops.push_back(f.op);
  return usage_error(fmt::format("there is no op '{}'; one of {}", op, fmt::join(ops, ", ")));
}

Status write_all(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return {};
  return bad_input("cannot write to standard output: did the kernel stop?");
}

cases::ReadFn reader_of(std::FILE* file, const std::string& name) {
  return [file, name](std::byte* to, size_t count) -> Result<size_t> {
    const size_t got = std::fread(to, 1, count, file);
    if (got == 0 && std::ferror(file)) return bad_input(fmt::format("{}: cannot be read", name));
    return got;
  };
}

struct Closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Closer>;

// The stream in a file, or on standard input.
template <class Use>
auto with_input(const std::string& path, const Use& use) -> decltype(use(cases::ReadFn(), std::string())) {
  if (path == kPipe) return use(reader_of(stdin, "standard input"), std::string("standard input"));
  const File file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) return bad_input(fmt::format("{}: cannot be opened", path));
  return use(reader_of(file.get(), path), path);
}

// emit

struct EmitOptions {
  std::string op, model, text, format = "stream", out;
  std::vector<std::string> kinds;
  int64_t first = 0, count = 0, tokens = 24;
  bool force = false;
};

using Each = std::function<Status(const cases::Sink&)>;

Status emit_stream(const cases::StreamHeader& header, const Each& each) {
  ZU_TRY(write_all(cases::encode_header(header)));
  cases::CaseDigest digest;
  Status status;
  int64_t cases_written = 0;
  ZU_TRY(each([&](cases::Case&& c) {
    const std::string payload = cases::encode_case(c);
    digest.add(payload);
    status = write_all(cases::encode_frame(cases::FrameType::kCase, payload));
    ++cases_written;
    return status.has_value();
  }));
  ZU_TRY(status);
  return write_all(cases::encode_frame(cases::FrameType::kEnd, cases::encode_end(digest.end())));
}

Status run_emit(const EmitOptions& o) {
  ZU_TRY_ASSIGN(const cases::Form* form, form_of(o.op));
  cases::StreamHeader header{o.op, {}, o.first, o.count, ""};
  ZU_TRY_ASSIGN(header.kinds, parse_kinds(o.kinds));
  const bool captured = header.kinds.back() == cases::Kind::kCaptured;
  if (captured && header.kinds.size() > 1) return usage_error("--kind captured makes a stream of its own: give no other kind beside it");
  if (captured == o.model.empty()) return usage_error(captured ? "--kind captured needs --model: the model whose inputs are taken" : "--model is for --kind captured");
  Each each = [&](const cases::Sink& sink) -> Status {
    cases::each_wanted(*form, header, sink);
    return {};
  };
  std::vector<cases::Case> taken;
  if (captured) {
    ZU_TRY_ASSIGN(const model::QuantizedModel model, model::QuantizedModel::open(o.model));
    ZU_TRY_ASSIGN(ModelText text, read_model_text("cases", o.model, o.text));
    if (static_cast<int64_t>(text.tokens.size()) < o.tokens) return bad_input(fmt::format("the text has {} tokens; --tokens asks for {}", text.tokens.size(), o.tokens));
    text.tokens.resize(static_cast<size_t>(o.tokens));
    header.model = model.identity();
    ZU_TRY_ASSIGN(taken, verify::captured_cases(model, text.tokens, *form, o.first, o.count == 0 ? verify::kCapturedCases : o.count));
    each = [&](const cases::Sink& sink) -> Status {
      for (const cases::Case& c : taken)
        if (!sink(cases::Case(c))) break;
      return {};
    };
  }
  if (o.format == "stream") return emit_stream(header, each);
  return cases::write_case_file(o.out, header, each, o.force);
}

int cmd_emit(int argc, char** argv) {
  EmitOptions o;
  Args args("cases emit", "Inputs that a kernel of this op must get right, as a stream on standard output or as a safetensors file.",
            {"zeroulp cases emit linear_s8 --kind all | ./my_kernel | zeroulp cases check",
             "zeroulp cases emit rmsnorm --kind captured --model models/smollm2-w8a15 | ./my_kernel | zeroulp cases check",
             "zeroulp cases emit silu_mul --format safetensors -o cases.safetensors"});
  args.positional("OP", o.op, "an op of the contract; zeroulp cases list names them");
  args.option("--kind", o.kinds, "exhaustive, hard, random, all of these, or captured; may be repeated. Without it: hard");
  args.input("--model", o.model, "folder of a quantised model whose op inputs are captured");
  args.input("--text", o.text, "what the model reads for that; without it a short built-in text");
  args.option("--tokens", o.tokens, "how much of it", 1, 4096);
  args.option("--first", o.first, "leave out cases with a lower number", 0, INT64_MAX);
  args.option("--count", o.count, "at most so many cases; 0: all, or 64 captured ones spread over the model", 0, INT64_MAX);
  args.choice("--format", o.format, {"stream", "safetensors"}, "docs/spec/cases.md");
  args.output("-o,--out", o.out, "the safetensors file");
  args.force(o.force, "replace it if it exists");
  args.needs({"--text", "--tokens"}, "--model");
  args.needs({"--out"}, [&o] { return o.format == "safetensors"; }, "--format safetensors");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  if (o.format == "safetensors" && o.out.empty()) return fail("cases emit", usage_error("--format safetensors needs -o FILE"));
  const Status status = run_emit(o);
  return status ? 0 : fail("cases emit", status.error());
}

// check

struct CheckOptions {
  std::string in{kPipe}, cases, answers, json;
  bool allow_declined = false, force = false;
};

verify::Element element_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBF16: return verify::Element::kBf16;
    case Dtype::kF32: return verify::Element::kF32;
    case Dtype::kI8: return verify::Element::kI8;
    case Dtype::kU8: return verify::Element::kU8;
    case Dtype::kI16: return verify::Element::kI16;
    case Dtype::kI32: return verify::Element::kI32;
    default: return verify::Element::kI64;
  }
}

// The kind of fault that the first wrong case looks like; empty: none comes to mind.
std::string likely_class(const cases::CheckResult& r) {
  for (size_t i = 0; i < r.first->wanted.size(); ++i) {
    const cases::Tensor& want = r.first->wanted[i];
    if (want.name != r.first->output) continue;
    const int64_t width = want.shape.size() < 2 ? want.elements() : want.elements() / want.shape[0];
    const verify::Likely likely = verify::likely_fault({r.header.op, element_of(want.dtype), want.elements() / width, width, want.data.data(), r.first->given[i].data.data()});
    return likely.fault_class == verify::FaultClass::kNone ? "" : likely.text();
  }
  return "";
}

struct Verdict {
  ExitCode code;
  std::string text;
};

Verdict verdict_of(const cases::CheckResult& r, bool allow_declined) {
  if (r.wrong > 0) return {ExitCode::kAnswerIsNo, "DIFFERS"};
  if (r.elements == 0) return {ExitCode::kUnavailable, "nothing was checked"};
  if (r.declined > 0 && !allow_declined) return {ExitCode::kUnavailable, "equal where it was computed; --allow-declined accepts that"};
  return {ExitCode::kHolds, "equal bits"};
}

void print_check(const cases::CheckResult& r, const Verdict& v) {
  std::vector<std::string_view> kinds;
  for (const cases::Kind k : r.header.kinds) kinds.push_back(cases::kind_name(k));
  tell(fmt::format("{}, {} cases: {} of {} elements wrong, in {} of {} cases", r.header.op, fmt::join(kinds, ", "), report::count_text(r.wrong), report::count_text(r.elements),
             report::count_text(r.wrong_cases), report::count_text(r.cases)));
  if (r.declined > 0) fmt::print("not done by the kernel: {} cases\n", report::count_text(r.declined));
  if (r.first) {
    const cases::Wrong& w = *r.first;
    tell(fmt::format("first wrong: {}[{}] of case {} '{}' ({})", w.output, fmt::join(w.at, ", "), w.case_index, w.case_name, cases::kind_name(w.kind)));
    tell(fmt::format("  want {}", w.want));
    tell(fmt::format("  got  {}", w.got));
    tell(fmt::format("  rule broken: {}", w.rule));
    if (!w.catches.empty()) tell(fmt::format("  the case is there to catch: {}", w.catches));
    if (const std::string likely = likely_class(r); !likely.empty()) fmt::print("  looks like: {}\n", likely);
    if (w.kind != cases::Kind::kCaptured)
      fmt::print("  that case alone: zeroulp cases emit {} --kind {} --first {} --count 1 | KERNEL | zeroulp cases check\n", r.header.op, cases::kind_name(w.kind), w.case_index);
  }
  fmt::print("{}\n", v.text);
}

void fill(report::Json& body, const cases::CheckResult& r, const Verdict& v) {
  body["op"] = r.header.op;
  body["contract"] = "ZNC-1";
  for (const cases::Kind k : r.header.kinds) body["kinds"].push_back(cases::kind_name(k));
  body["cases"] = r.cases;
  body["declined"] = r.declined;
  body["elements"] = r.elements;
  body["wrong"] = r.wrong;
  body["wrong_cases"] = r.wrong_cases;
  if (r.first)
    body["first_wrong"] = {{"case", r.first->case_index}, {"kind", cases::kind_name(r.first->kind)}, {"name", r.first->case_name}, {"catches", r.first->catches},
                           {"output", r.first->output},   {"index", r.first->at},                    {"want", r.first->want},      {"got", r.first->got},
                           {"rule", r.first->rule},       {"looks_like", likely_class(r)}};
  body["verdict"] = {{"exit_code", static_cast<int>(v.code)}, {"text", v.text}};
}

Result<int> run_check(const CheckOptions& o) {
  report::Report report("cases-check");
  const auto result = o.cases.empty() ? with_input(o.in, [](cases::ReadFn read, const std::string& name) { return cases::check_stream(std::move(read), name); })
                                      : cases::check_files(o.cases, o.answers);
  if (!result) return result.error();
  const Verdict v = verdict_of(*result, o.allow_declined);
  if (o.json != "-") print_check(*result, v);
  fill(report.body, *result, v);
  if (!o.json.empty()) ZU_TRY(report.write(o.json, o.force));
  return static_cast<int>(v.code);
}

int cmd_check(int argc, char** argv) {
  CheckOptions o;
  Args args("cases check", "Are a kernel's answers the contract's, bit for bit? Expected outputs are computed here, from the inputs.",
            {"zeroulp cases emit linear_s8 --kind all | ./my_kernel | zeroulp cases check", "zeroulp cases check --cases cases.safetensors --answers answers.safetensors"});
  args.positional("STREAM", o.in, "file of cases and answers; - for standard input", false);
  args.input("--cases", o.cases, "safetensors file that zeroulp cases emit wrote");
  args.input("--answers", o.answers, "safetensors file with the outputs, named like 17.out.y");
  args.flag("--allow-declined", o.allow_declined, "cases that the kernel does not do are no failure");
  args.output("--json", o.json, "write the findings to this file; - for standard output");
  args.force(o.force, "replace an existing file");
  args.needs({"--cases"}, "--answers");
  args.needs({"--answers"}, "--cases");
  args.excludes({"STREAM"}, {"--cases"});
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Result<int> code = run_check(o);
  return code ? *code : fail("cases check", code.error());
}

// answer

struct AnswerOptions {
  std::string kernel, in{kPipe}, cases, out;
  bool force = false;
};

Status run_answer(const AnswerOptions& o) {
  std::map<std::string, cases::Runner> chosen;  // by op
  const auto kernel = [&](const cases::Form& form, const cases::Bound& c) -> Result<cases::Outputs> {
    auto at = chosen.find(std::string(form.op));
    if (at == chosen.end()) {
      const cases::Runner* best = nullptr;
      const auto variants = form.variants(cpu_features());
      for (const cases::Runner& r : variants)
        if (o.kernel.empty() ? r.why_not.empty() : r.name == o.kernel) best = &r;
      if (best == nullptr) return usage_error(fmt::format("{}: there is no kernel called '{}' (zeroulp doctor lists them)", form.op, o.kernel));
      if (!best->why_not.empty()) return unavailable(fmt::format("{}: kernel '{}' cannot run here: {}", form.op, o.kernel, best->why_not));
      at = chosen.emplace(form.op, *best).first;
    }
    return at->second.run(c);
  };
  if (!o.cases.empty()) return cases::answer_file(o.cases, o.out, kernel, o.force);
  return with_input(o.in, [&](cases::ReadFn read, const std::string& name) -> Status { return cases::answer_stream(std::move(read), name, kernel, write_all); });
}

int cmd_answer(int argc, char** argv) {
  AnswerOptions o;
  Args args("cases answer", "Answers a stream of cases with a kernel of zeroulp: to see how a right one does it.",
            {"zeroulp cases emit rope --kind all | zeroulp cases answer --kernel avx2 | zeroulp cases check"});
  args.positional("STREAM", o.in, "file of cases; - for standard input", false);
  args.option("--kernel", o.kernel, "a variant's name; empty: the fastest");
  args.input("--cases", o.cases, "safetensors file that zeroulp cases emit wrote");
  args.output("-o,--out", o.out, "safetensors file for the answers");
  args.force(o.force, "replace it if it exists");
  args.needs({"--cases"}, "--out");
  args.needs({"--out"}, "--cases");
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  const Status status = run_answer(o);
  return status ? 0 : fail("cases answer", status.error());
}

// list

int cmd_list(int argc, char** argv) {
  std::string op;
  Args args("cases list", "The ops of the contract: what a case of each holds, and the rules of its outputs.", {"zeroulp cases list", "zeroulp cases list attention"});
  args.positional("OP", op, "one op alone", false);
  if (const int code = args.parse(argc, argv); code >= 0) return code;
  if (!op.empty())
    if (const auto form = form_of(op); !form) return fail("cases list", form.error());
  for (const cases::Form& f : cases::forms()) {
    if (!op.empty() && f.op != op) continue;
    fmt::print("{}: {} (section {})\n", f.op, f.title, f.section);
    for (const cases::TensorForm& t : f.inputs) fmt::print("  in   {:<16} {:<4} [{}]{}  {}\n", t.name, dtype_name(t.dtype), t.dims, t.optional ? ", or absent" : "", t.text);
    constexpr std::string_view kTypes[] = {"", "integer", "real", "text"};
    for (const cases::AttributeForm& a : f.attributes) fmt::print("  with {:<16} {}  {}\n", a.name, kTypes[static_cast<size_t>(a.type)], a.text);
    for (const cases::OutputForm& t : f.outputs)
      fmt::print("  out  {:<16} {:<4} [{}]{}\n         {}\n", t.name, dtype_name(t.dtype), t.dims, t.only_if.empty() ? "" : fmt::format(", with output '{}'", t.only_if), t.rule);
    fmt::print("\n");
  }
  return 0;
}

struct Part {
  std::string_view name;
  int (*run)(int argc, char** argv);
  std::string_view summary;
};
constexpr Part kParts[] = {{"emit", cmd_emit, "inputs that a kernel of an op must get right"},
                           {"check", cmd_check, "are the answers the contract's, bit for bit?"},
                           {"answer", cmd_answer, "answers by zeroulp's own kernels, to try a pipe with"},
                           {"list", cmd_list, "what a case of each op holds, and the rules of its outputs"}};

}  // namespace

int cmd_cases(int argc, char** argv) {
  const std::string_view word = argc > 1 ? argv[1] : "--help";
  for (const Part& p : kParts)
    if (p.name == word) return p.run(argc - 1, argv + 1);
  const bool help = word == "-h" || word == "--help";
  if (!help) return fail("cases", usage_error(fmt::format("there is no '{}'; emit, check, answer or list", word)));
  fmt::print("Your own kernel against the contract: zeroulp cases emit OP | ./kernel | zeroulp cases check\n\n");
  for (const Part& p : kParts) fmt::print("  cases {:<8} {}\n", p.name, p.summary);
  fmt::print("\nzeroulp cases PART --help shows the options; docs/spec/cases.md is the stream, examples/ has kernels in C, CUDA, Triton, PyTorch, NumPy.\n");
  return 0;
}

}  // namespace zeroulp::cli
