// Charts of bars: BarChart, Histogram, DivergenceChart.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "report/chart.h"
#include "report/svg.h"
#include "report/text.h"

namespace zeroulp::report {
namespace {

constexpr double kNarrow = 480;  // below this, labels stand above their bars instead of beside them
constexpr double kThick = 16, kThickGap = 3, kGroupGap = 12, kLabelLine = 17;

std::vector<std::string> legend_names(const std::vector<std::string>& series) {
  return series.size() > 1 ? series : std::vector<std::string>{};
}

std::string value_text(double value) { return std::isnan(value) ? "not measured" : significant(value, 3); }

std::string hint_text(const std::string& label, const std::vector<std::string>& series, size_t s, const std::string& value) {
  return series.size() > 1 ? fmt::format("{}, {}: {}", label, series[s], value) : fmt::format("{}: {}", label, value);
}

double widest(const std::vector<std::string>& texts) {
  double width = 0;
  for (const std::string& t : texts) width = std::max(width, text_width(t));
  return width;
}

// Columns for labels on the left: as wide as they need, but at most 40 % of the chart.
double label_column(const std::vector<std::string>& labels, double width) {
  return width < kNarrow ? 0 : std::min(widest(labels) + 12, 0.4 * width);
}

int columns_in(double pixels) { return std::max(4, static_cast<int>(pixels / (0.56 * kFontSize))); }

void vertical_axis_lines(Svg& out, const Axis& axis, double left, double plot, double top, double bottom) {
  for (const Tick& t : axis.ticks) {
    const double x = left + plot * axis.position(t.value);
    out.line(x, top, x, bottom, t.value == axis.low ? "axis" : "grid");
    out.text(x, bottom + 16, t.label, Anchor::kMiddle, "tick");
  }
}

}  // namespace

std::string svg(const BarChart& chart, int width) {
  std::vector<std::string> labels;
  double low = 0, high = 0, text_room = 0;
  for (const auto& bar : chart.bars) {
    labels.push_back(bar.label);
    for (size_t s = 0; s < bar.values.size(); ++s) {
      const double v = bar.values[s];
      text_room = std::max(text_room, text_width(s < bar.texts.size() ? bar.texts[s] : value_text(v)));
      if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
    }
  }
  for (const Reference& r : chart.references) low = std::min(low, r.value), high = std::max(high, r.value);

  Svg out(width, chart.value_label);
  const bool narrow = width < kNarrow;
  const Axis axis = linear_axis(low, high, narrow ? 3 : 5);
  const double left = std::max(label_column(labels, width) + 6, text_width(axis.ticks.front().label) / 2);
  const double plot = width - left - std::max(text_room + 10, text_width(axis.ticks.back().label) / 2);
  const auto x_of = [&](double v) { return left + plot * axis.position(v); };

  double y = out.legend(0, legend_names(chart.series));
  for (size_t i = 0; i < chart.references.size(); ++i) y += i == 0 ? kLabelLine + 2 : kLabelLine;
  const double top = y;
  double height = kGroupGap / 2;
  for (const auto& bar : chart.bars)
    height += static_cast<double>(bar.values.size()) * (kThick + kThickGap) + kGroupGap + (narrow ? kLabelLine : 0);
  vertical_axis_lines(out, axis, left, plot, top, top + height);

  struct Value {
    double x, y;
    std::string text;
    bool measured;
  };
  std::vector<Value> values;  // written last, over the reference lines
  y = top + kGroupGap / 2;
  for (const auto& bar : chart.bars) {
    const double group = static_cast<double>(bar.values.size()) * (kThick + kThickGap);
    if (narrow) {
      out.text(left, y + 11, shorten(bar.label, columns_in(width - left)), Anchor::kStart, "value");
      y += kLabelLine;
    } else {
      out.text(left - 10, y + group / 2 + 3, shorten(bar.label, columns_in(left - 12)), Anchor::kEnd);
    }
    for (size_t s = 0; s < bar.values.size(); ++s, y += kThick + kThickGap) {
      const double v = bar.values[s];
      const std::string text = s < bar.texts.size() ? bar.texts[s] : value_text(v);
      double end = x_of(0);
      if (std::isfinite(v)) {
        const double x = std::min(x_of(0), x_of(v));
        end = std::max(x_of(0), x_of(v));
        out.rect(x, y, std::max(end - x, v != 0 ? 1.0 : 0.0), kThick, series_class(s),
                 hint_text(bar.label, chart.series, s, text));
      }
      values.push_back({end + 6, y + kThick - 4, text, std::isfinite(v)});
    }
    y += kGroupGap;
  }
  for (size_t i = 0; i < chart.references.size(); ++i) {
    const Reference& r = chart.references[i];
    const double x = x_of(r.value), line_top = top - static_cast<double>(i) * kLabelLine;
    out.line(x, line_top - 3, x, top + height, "reference");
    const bool to_left = x + 6 + text_width(r.label) > width;
    out.text(to_left ? x - 6 : x + 6, line_top - 5, r.label, to_left ? Anchor::kEnd : Anchor::kStart, "reference-label");
  }
  for (const Value& v : values) out.text(v.x, v.y, v.text, Anchor::kStart, v.measured ? "value" : "value muted");
  out.text(left + plot / 2, top + height + 36, chart.value_label, Anchor::kMiddle, "label");
  return out.finish(top + height + 44);
}

std::string svg(const Histogram& chart, int width) {
  double low = HUGE_VAL, high = 0;
  for (const auto& counts : chart.counts) {
    ZU_CHECK(counts.size() == chart.bins.size());
    for (const double c : counts)
      if (c > 0) low = std::min(low, c), high = std::max(high, c);
  }
  const bool narrow = width < kNarrow;
  // On a log axis a bar of the smallest count must still be seen: the axis starts at half of it.
  const Axis axis = chart.scale == Scale::kLog ? log_axis(high > 0 ? low / 2 : 1, std::max(high, 10.0), narrow ? 5 : 8)
                                               : linear_axis(0, high, 5);
  std::vector<std::string> tick_labels;
  for (const Tick& t : axis.ticks) tick_labels.push_back(t.label);

  Svg out(width, chart.count_label + " by " + chart.bin_label);
  const double top = out.legend(0, legend_names(chart.series)) + 10;
  const double left = widest(tick_labels) + 30, plot = width - left - 4, height = narrow ? 180 : 240;
  for (const Tick& t : axis.ticks) {
    const double y = top + height * (1 - axis.position(t.value));
    out.line(left, y, left + plot, y, t.value == axis.low ? "axis" : "grid");
    out.text(left - 7, y + 4, t.label, Anchor::kEnd, "tick");
  }
  const double bins = static_cast<double>(std::max<size_t>(chart.bins.size(), 1)), slot = plot / bins;
  const double series = static_cast<double>(std::max<size_t>(chart.counts.size(), 1));
  const double gap = std::min(8.0, 0.2 * slot), bar = (slot - gap) / series;
  // Bin names that would collide are thinned.
  const auto every = static_cast<size_t>(std::ceil((widest(chart.bins) + 6) / slot));
  for (size_t b = 0; b < chart.bins.size(); ++b) {
    const double x = left + slot * static_cast<double>(b);
    for (size_t s = 0; s < chart.counts.size(); ++s) {
      const double count = chart.counts[s][b];
      if (!(count > 0)) continue;
      const double tall = height * axis.position(count);
      out.rect(x + gap / 2 + bar * static_cast<double>(s), top + height - tall, std::max(bar - 1, 0.5), tall, series_class(s),
               hint_text(chart.bins[b], chart.series, s, significant(count, 6)));
    }
    if (b % std::max<size_t>(every, 1) == 0) out.text(x + slot / 2, top + height + 16, chart.bins[b], Anchor::kMiddle, "tick");
  }
  out.text(left + plot / 2, top + height + 36, chart.bin_label, Anchor::kMiddle, "label");
  out.vertical_text(12, top + height / 2, chart.count_label);
  return out.finish(top + height + 44);
}

std::string svg(const DivergenceChart& chart, int width) {
  std::vector<std::string> labels, texts;
  for (const auto& row : chart.rows) {
    labels.push_back(row.label);
    for (const int64_t first : row.first_difference) texts.push_back(first < 0 ? "same" : fmt::format("{}", first));
  }
  Svg out(width, "tokens up to the first difference");
  const bool narrow = width < kNarrow;
  const double left = label_column(labels, width) + 6, plot = width - left - widest(texts) - 14;
  Axis axis = linear_axis(0, static_cast<double>(std::max<int64_t>(chart.length, 1)), narrow ? 4 : 8);
  axis.high = static_cast<double>(std::max<int64_t>(chart.length, 1));
  std::erase_if(axis.ticks, [&](const Tick& t) { return t.value > axis.high; });
  constexpr double kRow = 10, kRowGap = 3;

  const double top = out.legend(0, legend_names(chart.series));
  double height = kGroupGap / 2;
  for (const auto& row : chart.rows)
    height += static_cast<double>(row.first_difference.size()) * (kRow + kRowGap) + kGroupGap / 2 + (narrow ? kLabelLine : 0);
  vertical_axis_lines(out, axis, left, plot, top, top + height);
  double y = top + kGroupGap / 2;
  for (const auto& row : chart.rows) {
    const double group = static_cast<double>(row.first_difference.size()) * (kRow + kRowGap);
    if (narrow) {
      out.text(left, y + 11, shorten(row.label, columns_in(width - left)), Anchor::kStart, "value");
      y += kLabelLine;
    } else {
      out.text(left - 10, y + group / 2 + 2, shorten(row.label, columns_in(left - 12)), Anchor::kEnd);
    }
    for (size_t s = 0; s < row.first_difference.size(); ++s, y += kRow + kRowGap) {
      const int64_t first = row.first_difference[s];
      const double same = first < 0 ? plot : plot * axis.position(static_cast<double>(first));
      const std::string hint = hint_text(row.label, chart.series, s,
                                         first < 0 ? "the same tokens throughout" : fmt::format("parts at token {}", first));
      out.rect(left, y, same, kRow, series_class(s), hint);
      if (first >= 0) {
        out.rect(left + same, y, plot - same, kRow, series_class(s) + " faded", hint);
        out.line(left + same, y - 2, left + same, y + kRow + 2, "break");
      }
      out.text(left + plot + 7, y + kRow - 1, first < 0 ? "same" : fmt::format("{}", first), Anchor::kStart,
               first < 0 ? "value good" : "value");
    }
    y += kGroupGap / 2;
  }
  out.text(left + plot / 2, top + height + 36, "token", Anchor::kMiddle, "label");
  return out.finish(top + height + 44);
}

}  // namespace zeroulp::report
