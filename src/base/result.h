// Errors of the outside world as values. A bug is ZU_CHECK (base/check.h); a disagreement between kernels is data in a report.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace zeroulp {

// The process exit codes; the same table stands in every help page.
enum class ExitCode : int {
  kHolds = 0,         // the claim holds and something was checked
  kAnswerIsNo = 1,    // ran well, the answer is no (mismatch, refused, range error in a model)
  kUsage = 2,         // wrong command line
  kBadInput = 3,      // a file or its content cannot be used
  kUnavailable = 4,   // a required device or kernel is absent, or nothing was checked
  kInternal = 5,      // a bug in zeroulp
  kInterrupted = 130  // Ctrl-C
};

// One clear line: what, where, how to mend it. No trailing newline.
struct [[nodiscard]] Error {
  ExitCode code = ExitCode::kBadInput;
  std::string text;
};

inline Error bad_input(std::string text) { return {ExitCode::kBadInput, std::move(text)}; }
inline Error usage_error(std::string text) { return {ExitCode::kUsage, std::move(text)}; }
inline Error unavailable(std::string text) { return {ExitCode::kUnavailable, std::move(text)}; }
inline Error answer_is_no(std::string text) { return {ExitCode::kAnswerIsNo, std::move(text)}; }
inline Error interrupted() { return {ExitCode::kInterrupted, "interrupted"}; }

// A value or an Error; member names as in std::expected, which g++ 12 lacks in C++20.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const& { return std::get<1>(state_); }
  Error&& error() && { return std::get<1>(std::move(state_)); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  bool has_value() const { return !error_.has_value(); }
  explicit operator bool() const { return has_value(); }
  const Error& error() const& { return *error_; }
  Error&& error() && { return *std::move(error_); }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

// ZU_TRY(expr): returns the error of a Status or Result from the enclosing function.
// ZU_TRY_ASSIGN(auto x, expr): same, and binds the value.
#define ZU_TRY(expr)                                                    \
  do {                                                                  \
    if (auto zu_status = (expr); !zu_status) return std::move(zu_status).error(); \
  } while (false)
#define ZU_CONCAT2(a, b) a##b
#define ZU_CONCAT(a, b) ZU_CONCAT2(a, b)
#define ZU_TRY_ASSIGN(decl, expr) ZU_TRY_ASSIGN_IMPL(ZU_CONCAT(zu_result_, __LINE__), decl, expr)
#define ZU_TRY_ASSIGN_IMPL(result, decl, expr) \
  auto result = (expr);                        \
  if (!result) return std::move(result).error(); \
  decl = std::move(result).value()

}  // namespace zeroulp
