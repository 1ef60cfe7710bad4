// The identity of a quantised model (docs/spec/model.md) and its check against the files.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.h"
#include "model/quantized_model.h"

namespace zeroulp::model {

// SHA-256 over the header's text and the tensors by name. Gives up, with an empty text, once `stop` is set.
std::string identity_of(std::string_view header_text, const TensorMap& tensors, const std::atomic<bool>* stop = nullptr);

// Refuses a code of -128, which the contract reserves, naming tensor and element.
Status check_codes(const TensorMap& tensors, const std::string& name);

// Reads a model's tensors once, on a thread of its own, so that opening a model does not wait for 135 MB to be hashed: by the time a first
// pass has been computed the answer is there. Ends early when nobody waits any more.
class IdentityCheck {
 public:
  // `file` keeps the tensors' bytes mapped; `name` opens error lines; `claimed` is what the header says.
  IdentityCheck(std::string header_text, TensorMap tensors, std::shared_ptr<const io::SafetensorsFile> file, std::string claimed, std::string name);
  ~IdentityCheck();
  IdentityCheck(const IdentityCheck&) = delete;
  IdentityCheck& operator=(const IdentityCheck&) = delete;

  // Waits for the answer; any number of callers, any number of times.
  const Status& result();

 private:
  Status check() const;

  const std::string header_text_, claimed_, name_;
  const TensorMap tensors_;
  const std::shared_ptr<const io::SafetensorsFile> file_;
  std::atomic<bool> stop_ = false;
  Status status_;
  std::once_flag joined_;
  std::thread thread_;  // last: it reads the rest
};

}  // namespace zeroulp::model
