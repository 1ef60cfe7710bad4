// Charts over two axes: PointChart, HeatMap.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "report/chart.h"
#include "report/svg.h"
#include "report/text.h"

namespace zeroulp::report {
namespace {

constexpr double kNarrow = 480;

struct Bounds {
  double low = HUGE_VAL, high = -HUGE_VAL;
  void add(double value, Scale scale) {
    if (!std::isfinite(value) || (scale == Scale::kLog && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

Axis axis_of(Bounds b, Scale scale, int target) {
  return scale == Scale::kLog ? log_axis(b.low, b.high, target) : linear_axis(b.low, b.high, target);
}

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& t : texts) width = std::max(width, text_width(t));
  return width;
}

std::string cell_text(const HeatMap& chart, size_t row, size_t column) {
  if (row < chart.texts.size() && column < chart.texts[row].size()) return chart.texts[row][column];
  const double v = chart.values[row][column];
  return std::isnan(v) ? "\u2013" : significant(v, 3);
}

}  // namespace

std::string svg(const PointChart& chart, int width) {
  Bounds x_bounds, y_bounds;
  std::vector<std::string> names;
  for (const auto& s : chart.series) {
    names.push_back(s.name);
    for (const auto& p : s.points) x_bounds.add(p.x, chart.x_scale), y_bounds.add(p.y, chart.y_scale);
  }
  for (const Reference& r : chart.references) y_bounds.add(r.value, chart.y_scale);
  const bool narrow = width < kNarrow;
  const Axis x_axis = axis_of(x_bounds, chart.x_scale, narrow ? 4 : 8), y_axis = axis_of(y_bounds, chart.y_scale, 5);
  std::vector<std::string> tick_labels;
  for (const Tick& t : y_axis.ticks) tick_labels.push_back(t.label);

  Svg out(width, chart.y_label + " by " + chart.x_label);
  const double top = out.legend(0, names.size() > 1 ? names : std::vector<std::string>{}) + 10;
  const double left = widest(tick_labels) + 30, plot = width - left - text_width(x_axis.ticks.back().label) / 2 - 2,
               height = narrow ? 200 : 280, bottom = top + height;
  const auto x_of = [&](double v) { return left + plot * x_axis.position(v); };
  const auto y_of = [&](double v) { return bottom - height * y_axis.position(v); };
  for (const Tick& t : y_axis.ticks) {
    out.line(left, y_of(t.value), left + plot, y_of(t.value), t.value == y_axis.low ? "axis" : "grid");
    out.text(left - 7, y_of(t.value) + 4, t.label, Anchor::kEnd, "tick");
  }
  for (const Tick& t : x_axis.ticks) {
    out.line(x_of(t.value), bottom, x_of(t.value), bottom + 4, "axis");
    out.text(x_of(t.value), bottom + 18, t.label, Anchor::kMiddle, "tick");
  }
  for (const Reference& r : chart.references) {
    out.line(left, y_of(r.value), left + plot, y_of(r.value), "reference");
    out.text(left + plot - 2, y_of(r.value) - 5, r.label, Anchor::kEnd, "reference-label");
  }
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const auto& points = chart.series[s].points;
    const auto drawable = [&](const PointChart::Point& p) {
      return std::isfinite(p.x) && std::isfinite(p.y) && (chart.x_scale == Scale::kLinear || p.x > 0) &&
             (chart.y_scale == Scale::kLinear || p.y > 0);
    };
    std::string commands;
    bool pen_down = false;
    for (const auto& p : points) {
      if (drawable(p)) commands += fmt::format("{}{} {}", pen_down ? 'L' : 'M', coordinate(x_of(p.x)), coordinate(y_of(p.y)));
      pen_down = drawable(p);
    }
    if (chart.draw != PointChart::Draw::kPoints && !commands.empty()) out.path(commands, series_class(s) + " curve");
    if (chart.draw == PointChart::Draw::kLine) continue;
    for (const auto& p : points)
      if (drawable(p))
        out.circle(x_of(p.x), y_of(p.y), 3, series_class(s) + " dot",
                   fmt::format("{}: {}, {}", chart.series[s].name, significant(p.x, 4), significant(p.y, 4)));
  }
  out.text(left + plot / 2, bottom + 38, chart.x_label, Anchor::kMiddle, "label");
  out.vertical_text(12, top + height / 2, chart.y_label);
  return out.finish(bottom + 46);
}

std::string svg(const HeatMap& chart, int width) {
  ZU_CHECK(chart.values.size() == chart.rows.size());
  Bounds bounds;
  double widest_cell = 0;
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    ZU_CHECK(chart.values[r].size() == chart.columns.size());
    for (size_t c = 0; c < chart.columns.size(); ++c) {
      bounds.add(chart.values[r][c], chart.scale);
      widest_cell = std::max(widest_cell, text_width(cell_text(chart, r, c)));
    }
  }
  Svg out(width, chart.value_label);
  const double columns = static_cast<double>(std::max<size_t>(chart.columns.size(), 1));
  const double label = std::min(widest(chart.rows) + 12, 0.3 * width);
  const double left = (chart.row_label.empty() ? 0 : 18) + label;
  double cell = std::min((width - left) / columns, 96.0);
  const bool slanted = widest(chart.columns) + 6 > cell;
  // The last slanted name leans out over the right edge.
  if (slanted)
    cell = std::min(cell, (width - left - std::min(0.85 * text_width(chart.columns.back()), 110.0)) / (columns - 0.5));
  const double tall = std::min(std::max(cell, 18.0), 30.0);
  const bool readable = widest_cell + 6 <= cell;
  const double head =
      (chart.column_label.empty() ? 0 : 18) + (slanted ? std::min(0.75 * widest(chart.columns), 110.0) + 14 : 20);

  if (!chart.column_label.empty()) out.text(left + cell * columns / 2, 12, chart.column_label, Anchor::kMiddle, "label");
  for (size_t c = 0; c < chart.columns.size(); ++c) {
    const double x = left + cell * (static_cast<double>(c) + 0.5);
    if (slanted)
      out.slanted_text(x + 3, head - 6, shorten(chart.columns[c], 22));
    else
      out.text(x, head - 6, chart.columns[c], Anchor::kMiddle, "tick");
  }
  const auto shade = [&](double v) {
    if (bounds.high <= bounds.low) return 0.5;
    const Axis range{.scale = chart.scale, .low = bounds.low, .high = bounds.high, .ticks = {}};
    return std::min(std::max(range.position(v), 0.0), 1.0);
  };
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const double y = head + tall * static_cast<double>(r);
    out.text(left - 8, y + tall / 2 + 4, shorten(chart.rows[r], static_cast<int>(label / 6.7)), Anchor::kEnd, "tick");
    for (size_t c = 0; c < chart.columns.size(); ++c) {
      const double v = chart.values[r][c], x = left + cell * static_cast<double>(c);
      const std::string text = cell_text(chart, r, c), hint = fmt::format("{}, {}: {}", chart.rows[r], chart.columns[c], text);
      const bool shaded = std::isfinite(v);
      const double strength = shaded ? 0.06 + 0.94 * shade(v) : 0;
      out.rect(x + 1, y + 1, cell - 2, tall - 2, shaded ? "heat" : "heat-none", hint,
               shaded ? fmt::format("fill-opacity:{}", coordinate(strength)) : "");
      if (readable) out.text(x + cell / 2, y + tall / 2 + 4, text, Anchor::kMiddle, strength > 0.55 ? "on-heat" : "");
    }
  }
  double bottom = head + tall * static_cast<double>(chart.rows.size());
  if (!chart.row_label.empty()) out.vertical_text(12, (head + bottom) / 2, chart.row_label);
  bottom += 14;
  // The key: what is shaded, and five shades from the least to the greatest value.
  if (bounds.low <= bounds.high) {
    const std::string low = significant(bounds.low, 3);
    double x = left;
    const auto put = [&](std::string_view text) {
      out.text(x, bottom + 10, text, Anchor::kStart, "tick");
      x += text_width(text) + 8;
    };
    if (x + text_width(chart.value_label + low) + 180 < width) {
      put(chart.value_label + ":");
    } else {
      out.text(x, bottom + 10, chart.value_label + ":", Anchor::kStart, "tick");
      bottom += 18;
    }
    put(low);
    for (int i = 0; i < 5; ++i, x += 18)
      out.rect(x, bottom, 18, 12, "heat", "", fmt::format("fill-opacity:{}", coordinate(0.06 + 0.94 * i / 4)));
    x += 8;
    put(significant(bounds.high, 3));
    bottom += 20;
  }
  return out.finish(bottom);
}

}  // namespace zeroulp::report
