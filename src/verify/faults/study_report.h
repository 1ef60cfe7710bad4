// The fault study for people and for programs.
#pragma once

#include "report/html.h"
#include "report/json.h"
#include "report/table.h"
#include "verify/faults/study.h"
#include "verify/faults/suite.h"

namespace zeroulp::verify {

report::Table fault_table();                        // the registry: name, class, op, what is wrong, where it was seen
report::Table equivalent_table();                   // what cannot change a bit, and why
report::Table kill_table(const Study& study);       // one letter per gate; a prediction that missed is marked
report::Table distance_table(const Study& study);   // how far the outputs are apart
// A sentence for each finding: how many of the faults that change outputs each gate notices, and how many stay within one spacing.
std::vector<std::string> findings(const Study& study);
std::string headline(const Study& study);

report::Table suite_table(const std::vector<SuiteGates>& gates);  // one letter per gate on outputs
std::vector<std::string> findings(const std::vector<SuiteGates>& gates);
void to_json(const std::vector<SuiteGates>& gates, report::Json& body);

void to_json(const Study& study, report::Json& body);
report::Page to_page(const Study& study, const report::Json& finished);

}  // namespace zeroulp::verify
