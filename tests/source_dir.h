// Where the checkout is: tests read golden files and golden inputs from it.
#pragma once

#include <string>

namespace zeroulp {

// Absolute path of the checkout's root, without a trailing slash. In one object of its own, so that no other object depends on the place.
std::string source_dir();

}  // namespace zeroulp
