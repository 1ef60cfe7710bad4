#include "report/svg.h"

#include <fmt/format.h>

#include "report/text.h"

namespace zeroulp::report {
namespace {

std::string closed(std::string_view element, std::string_view hint) {
  if (hint.empty()) return "/>\n";
  return fmt::format("><title>{}</title></{}>\n", escape_html(hint), element);
}

}  // namespace

double text_width(std::string_view text) { return 0.56 * kFontSize * display_width(text); }

std::string coordinate(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::string series_class(size_t index) { return fmt::format("s{}", index % 6); }

void Svg::rect(double x, double y, double width, double height, std::string_view css, std::string_view hint,
               std::string_view style) {
  body_ += fmt::format(R"(<rect class="{}" x="{}" y="{}" width="{}" height="{}")", css, coordinate(x), coordinate(y),
                       coordinate(width), coordinate(height));
  if (!style.empty()) body_ += fmt::format(R"( style="{}")", style);
  body_ += closed("rect", hint);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view css) {
  body_ += fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", css, coordinate(x1), coordinate(y1),
                       coordinate(x2), coordinate(y2));
}

void Svg::circle(double x, double y, double radius, std::string_view css, std::string_view hint) {
  body_ += fmt::format(R"(<circle class="{}" cx="{}" cy="{}" r="{}")", css, coordinate(x), coordinate(y), coordinate(radius));
  body_ += closed("circle", hint);
}

void Svg::path(std::string_view commands, std::string_view css) {
  body_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", css, commands);
}

void Svg::text(double x, double y, std::string_view content, Anchor anchor, std::string_view css) {
  constexpr const char* kAnchors[] = {"start", "middle", "end"};
  body_ += fmt::format(R"(<text x="{}" y="{}")", coordinate(x), coordinate(y));
  if (anchor != Anchor::kStart) body_ += fmt::format(R"( text-anchor="{}")", kAnchors[static_cast<int>(anchor)]);
  if (!css.empty()) body_ += fmt::format(R"( class="{}")", css);
  body_ += fmt::format(">{}</text>\n", escape_html(content));
}

void Svg::vertical_text(double x, double y, std::string_view content) {
  body_ += fmt::format("<text class=\"label\" text-anchor=\"middle\" transform=\"translate({} {}) rotate(-90)\">{}</text>\n",
                       coordinate(x), coordinate(y), escape_html(content));
}

void Svg::slanted_text(double x, double y, std::string_view content) {
  body_ += fmt::format("<text class=\"tick\" transform=\"translate({} {}) rotate(-45)\">{}</text>\n", coordinate(x),
                       coordinate(y), escape_html(content));
}

double Svg::legend(double y, const std::vector<std::string>& names) {
  constexpr double kMark = 10, kGap = 6, kBetween = 18, kLine = 18;
  double x = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const double needed = kMark + kGap + text_width(names[i]);
    if (x > 0 && x + needed > width_) {
      x = 0;
      y += kLine;
    }
    rect(x, y + 2, kMark, kMark, series_class(i));
    text(x + kMark + kGap, y + 11, names[i]);
    x += needed + kBetween;
  }
  return names.empty() ? y : y + kLine + 4;
}

std::string Svg::finish(double height) const {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" width=\"{}\" height=\"{}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
                     coordinate(width_), coordinate(height), coordinate(width_), coordinate(height), escape_html(description_),
                     body_);
}

}  // namespace zeroulp::report
