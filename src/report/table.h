// Tables that read well on a terminal and are valid Markdown; html.h shows the same table on a page.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace zeroulp::report {

enum class Align { kLeft, kRight };

// How a page marks a statement. Text output does not show it: the words must say it too.
enum class Tone { kPlain, kGood, kBad, kWarn, kMuted };

struct Cell {
  Cell(std::string content, Tone look = Tone::kPlain) : text(std::move(content)), tone(look) {}
  Cell(const char* content) : text(content) {}
  std::string text;
  Tone tone = Tone::kPlain;
};

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // One cell per column.
  void row(std::vector<Cell> cells);

  bool empty() const { return rows_.empty(); }
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<std::vector<Cell>>& rows() const { return rows_; }

  // | name  | value |
  // |:------|------:|
  // | alpha |    12 |
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace zeroulp::report
