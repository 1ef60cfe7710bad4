// Chat templates: the part of Jinja that they are written in, rendered as Hugging Face renders it (trim_blocks,
// lstrip_blocks, loop controls, raise_exception, strftime_now, its own tojson), within a budget, because a template comes
// with a model from a stranger.
//
// Supported: print, if, for (with else, filter, loop.*), set (also of attributes and blocks), macro, call, with, filter, raw,
// break, continue, generation; the operators and literals; the filters, tests and methods of filters.cpp, text_methods.cpp and
// methods.cpp. Anything else is an error that names it, as are
// integers beyond 64 bits and title case beyond ASCII.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/jinja/value.h"

namespace zeroulp::tokenizer::jinja {

struct RenderOptions {
  Budget::Limits limits;
  int64_t now = 0;  // seconds since 1970, for strftime_now
  bool utc = false;
};

class Template {
 public:
  static constexpr size_t kMaxSource = 1 << 20;
  // `name` opens error lines.
  static Result<Template> parse(std::string_view source, std::string_view name);
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;
  ~Template();

  // `variables` are what the template can name beside the global functions.
  Result<Text> render(const Dict& variables, const RenderOptions& options) const;

 private:
  struct Impl;
  explicit Template(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// JSON as template values: order of keys kept, every text (keys too) marked as content. Refuses duplicate keys, more than 64
// levels and integers beyond 64 bits.
Result<Value> parse_content_json(std::string_view json, std::string_view name);

}  // namespace zeroulp::tokenizer::jinja
