// Writing SVG elements. Coordinates are pixels of the chart's own width; classes are defined in the page's style sheet.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zeroulp::report {

inline constexpr double kFontSize = 12;
// Width of sans-serif text at kFontSize, from its characters; an upper estimate for common text.
double text_width(std::string_view text);
// Two decimals at most, no trailing zeros: "12", "12.5".
std::string coordinate(double value);
// The class of the series with this index: s0 to s5, then again from s0.
std::string series_class(size_t index);

enum class Anchor { kStart, kMiddle, kEnd };

class Svg {
 public:
  Svg(double width, std::string_view description) : width_(width), description_(description) {}

  // `hint` is shown when the pointer rests on it.
  void rect(double x, double y, double width, double height, std::string_view css, std::string_view hint = "",
            std::string_view style = "");
  void line(double x1, double y1, double x2, double y2, std::string_view css);
  void circle(double x, double y, double radius, std::string_view css, std::string_view hint = "");
  void path(std::string_view commands, std::string_view css);
  void text(double x, double y, std::string_view content, Anchor anchor = Anchor::kStart, std::string_view css = "");
  void vertical_text(double x, double y, std::string_view content);  // centred on the point, read upwards
  void slanted_text(double x, double y, std::string_view content);   // from the point up to the right

  // A row of names with their colour marks, wrapped at the width. Returns the y below it.
  double legend(double y, const std::vector<std::string>& names);

  double width() const { return width_; }
  std::string finish(double height) const;

 private:
  double width_;
  std::string description_;
  std::string body_;
};

}  // namespace zeroulp::report
