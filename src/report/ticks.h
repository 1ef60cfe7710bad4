// Where an axis carries marks, and what they say.
#pragma once

#include <string>
#include <vector>

namespace zeroulp::report {

enum class Scale { kLinear, kLog };

struct Tick {
  double value;
  std::string label;
};

// An axis from `low` to `high` in data units, widened to round numbers.
struct Axis {
  Scale scale = Scale::kLinear;
  double low = 0, high = 1;
  std::vector<Tick> ticks;

  // 0 at low, 1 at high; outside values go outside. On a log axis what is not positive is at or below 0.
  double position(double value) const;
};

// About `target` ticks at multiples of 1, 2 or 5 times a power of ten. Non-finite or equal bounds give a unit-wide axis.
Axis linear_axis(double low, double high, int target);
// Ends at 1, 2 or 5 times a power of ten; ticks at powers of ten, thinned to about `target`, or at all of the former where there is
// room. `low` and `high` must be positive; else a decade from 1.
Axis log_axis(double low, double high, int target);

}  // namespace zeroulp::report
