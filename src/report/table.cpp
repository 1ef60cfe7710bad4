#include "report/table.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "report/text.h"

namespace zeroulp::report {
namespace {

// A bar would end the cell in Markdown, a line break the row, and other control characters steer a terminal.
std::string cell_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
  }
  return on_one_line(out);
}

std::string padded(const std::string& text, size_t width, Align align) {
  const size_t own = static_cast<size_t>(display_width(text));
  const std::string space(width > own ? width - own : 0, ' ');
  return align == Align::kLeft ? text + space : space + text;
}

}  // namespace

void Table::row(std::vector<Cell> cells) {
  ZU_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<std::vector<std::string>> lines(1);
  for (const Column& c : columns_) lines[0].push_back(cell_text(c.title));
  for (const auto& cells : rows_) {
    auto& line = lines.emplace_back();
    for (const Cell& c : cells) line.push_back(cell_text(c.text));
  }
  std::vector<size_t> widths(columns_.size(), 1);
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], static_cast<size_t>(display_width(line[i])));

  std::string out;
  for (size_t r = 0; r < lines.size(); ++r) {
    out += '|';
    for (size_t i = 0; i < columns_.size(); ++i) out += ' ' + padded(lines[r][i], widths[i], columns_[i].align) + " |";
    out += '\n';
    if (r > 0) continue;
    out += '|';
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string dashes(widths[i] + 1, '-');
      out += columns_[i].align == Align::kLeft ? ':' + dashes + '|' : dashes + ":|";
    }
    out += '\n';
  }
  return out;
}

}  // namespace zeroulp::report
