// What `zeroulp verify` found, as JSON, as tables and as a page.
#pragma once

#include "report/html.h"
#include "report/json.h"
#include "report/table.h"
#include "verify/verify.h"

namespace zeroulp::verify {

report::Table digest_table(const DigestTable& table);
report::Table order_table(const Answer& answer);
report::Table generation_table(const Answer& answer);
report::Table quality_table(const engine::Quality& quality);

// Fills the keys of the envelope's body.
void to_json(const Request& request, const Answer& answer, report::Json& body);
report::Page to_page(const Request& request, const Answer& answer, const report::Json& finished_report);

}  // namespace zeroulp::verify
