// Plots as inline SVG. Colours come from the page's style sheet (html.h), so that one drawing serves light, dark and print; each
// chart is laid out for the width it is given. The same data gives the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/table.h"
#include "report/ticks.h"

namespace zeroulp::report {

// A line across the plot with its name: a goal, a noise floor.
struct Reference {
  double value;
  std::string label;
};

// Horizontal bars from zero, grouped by label.
struct BarChart {
  struct Bar {
    std::string label;
    std::vector<double> values;      // one per series; NaN: not measured
    std::vector<std::string> texts;  // what stands at the end of the bars; empty: the numbers
  };
  std::string value_label;          // what is measured, with its unit
  std::vector<std::string> series;  // at most 6; a single one needs no name
  std::vector<Bar> bars;
  std::vector<Reference> references;
};

// Vertical bars over named bins in order. Counts of zero draw nothing.
struct Histogram {
  std::string bin_label, count_label;
  std::vector<std::string> series;
  std::vector<std::string> bins;
  std::vector<std::vector<double>> counts;  // [series][bin]
  Scale scale = Scale::kLog;
};

// A matrix whose cells are shaded by value.
struct HeatMap {
  std::string row_label, column_label, value_label;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> values;      // [row][column]; NaN: no value
  std::vector<std::vector<std::string>> texts;  // what stands in the cells; empty: the numbers
  Scale scale = Scale::kLinear;
};

struct PointChart {
  struct Point {
    double x, y;
  };
  struct Series {
    std::string name;
    std::vector<Point> points;  // a NaN breaks a line
  };
  enum class Draw { kLine, kLineAndPoints, kPoints };
  std::string x_label, y_label;
  Scale x_scale = Scale::kLinear, y_scale = Scale::kLinear;
  Draw draw = Draw::kLine;
  std::vector<Series> series;
  std::vector<Reference> references;  // across, at a y
};

// For each sequence, up to which token two runs agree. Several series compare several pairs of runs.
struct DivergenceChart {
  struct Row {
    std::string label;
    std::vector<int64_t> first_difference;  // one per series, 0-based token; -1: never
  };
  int64_t length = 0;  // tokens compared
  std::vector<std::string> series;
  std::vector<Row> rows;
};

std::string svg(const BarChart& chart, int width);
std::string svg(const Histogram& chart, int width);
std::string svg(const HeatMap& chart, int width);
std::string svg(const PointChart& chart, int width);
std::string svg(const DivergenceChart& chart, int width);

}  // namespace zeroulp::report
