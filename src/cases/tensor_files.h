// Cases and answers as safetensors files (docs/spec/cases.md): for kernels that live in Python, or that are run elsewhere.
//
// Cases: tensors "17.in.codes" of case 17; metadata "header" (that of a stream) and "case.17" (kind, name, attributes, outputs).
// Answers: tensors "17.out.y". A case without any of its outputs was not done.
#pragma once

#include <filesystem>

#include "cases/check.h"

namespace zeroulp::cases {

// The cases of `each`, which is called twice and must give the same both times.
Status write_case_file(const std::filesystem::path& path, const StreamHeader& header, const std::function<Status(const Sink&)>& each, bool force);

Result<CheckResult> check_files(const std::filesystem::path& cases, const std::filesystem::path& answers);

// Answers every case of a file with a kernel of its own, as answer_stream does.
Status answer_file(const std::filesystem::path& cases, const std::filesystem::path& answers,
                   const std::function<Result<Outputs>(const Form& form, const Bound& c)>& kernel, bool force);

}  // namespace zeroulp::cases
