// A Diff as text, JSON and page.
#pragma once

#include <string>

#include "report/html.h"
#include "report/json.h"
#include "verify/diff.h"

namespace zeroulp::verify {

// `rows`: at most so many differing tensors or sequences are listed; 0 lists all.
std::string diff_text(const Diff& diff, int64_t rows);
// Adds "equal", "compared" and the findings to an envelope.
void add_diff(const Diff& diff, report::Json& body);
report::Page diff_page(const Diff& diff, const std::string& name_a, const std::string& name_b);

}  // namespace zeroulp::verify
