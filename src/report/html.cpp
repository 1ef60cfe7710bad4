#include "report/html.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/text.h"

namespace zeroulp::report {
namespace {

const char* tone_class(Tone tone) {
  constexpr const char* kClasses[] = {"plain", "good", "bad", "warn", "muted"};
  return kClasses[static_cast<int>(tone)];
}

// What a tone says to a reader who sees no colours.
const char* tone_mark(Tone tone) {
  constexpr const char* kMarks[] = {"", "\u2713", "\u2717", "!", ""};
  return kMarks[static_cast<int>(tone)];
}

std::string element(std::string_view tag, std::string_view css, std::string_view text) {
  const std::string attribute = css.empty() ? "" : fmt::format(" class=\"{}\"", css);
  return fmt::format("<{}{}>{}</{}>\n", tag, attribute, escape_html(text), tag);
}

std::string value_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

Page::Page(std::string title, std::string subtitle) : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::verdict(Tone tone, std::string headline, std::string detail) {
  verdict_ = fmt::format("<div class=\"verdict {}\" role=\"status\"><span class=\"mark\" aria-hidden=\"true\">{}</span><div>\n",
                         tone_class(tone), tone_mark(tone)) +
             element("strong", "", headline) + element("p", "", detail) + "</div></div>\n";
}

void Page::facts(const std::vector<Fact>& facts) {
  body_ += "<dl class=\"facts\">\n";
  for (const Fact& f : facts) {
    body_ += fmt::format("<div class=\"{}\">\n", tone_class(f.tone)) + element("dt", "", f.name) + element("dd", "", f.value);
    if (!f.remark.empty()) body_ += element("dd", "remark", f.remark);
    body_ += "</div>\n";
  }
  body_ += "</dl>\n";
}

void Page::section(std::string title, std::string lead) {
  if (!sections_.empty()) body_ += "</section>\n";
  body_ += fmt::format("<section id=\"s{}\">\n", sections_.size() + 1) + element("h2", "", title);
  if (!lead.empty()) body_ += element("p", "lead", lead);
  sections_.push_back(std::move(title));
}

void Page::heading(std::string_view text) { body_ += element("h3", "", text); }
void Page::paragraph(std::string_view text) { body_ += element("p", "", text); }
void Page::code(std::string_view text) { body_ += element("pre", "", text); }
void Page::note(Tone tone, std::string_view text) { body_ += element("p", fmt::format("note {}", tone_class(tone)), text); }

void Page::list(const std::vector<std::string>& items) {
  body_ += "<ul>\n";
  for (const std::string& item : items) body_ += element("li", "", item);
  body_ += "</ul>\n";
}

void Page::append_table(const Table& table, std::string_view caption) {
  // The caption stays put when a narrow screen scrolls the table.
  if (!caption.empty()) body_ += "<figure class=\"table\">\n" + element("figcaption", "", caption);
  body_ += "<div class=\"scroll\" tabindex=\"0\"><table>\n";
  body_ += "<thead><tr>";
  const auto& columns = table.columns();
  const auto side = [&](size_t i) { return columns[i].align == Align::kRight ? " class=\"right\"" : ""; };
  for (size_t i = 0; i < columns.size(); ++i)
    body_ += fmt::format("<th scope=\"col\"{}>{}</th>", side(i), escape_html(columns[i].title));
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows()) {
    body_ += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string text = escape_html(row[i].text);
      body_ += fmt::format("<td{}>", side(i));
      body_ +=
          row[i].tone == Tone::kPlain ? text : fmt::format("<span class=\"tone {}\">{}</span>", tone_class(row[i].tone), text);
      body_ += "</td>";
    }
    body_ += "</tr>\n";
  }
  body_ += caption.empty() ? "</tbody></table></div>\n" : "</tbody></table></div>\n</figure>\n";
}

void Page::table(const Table& table, std::string_view caption) { append_table(table, caption); }

void Page::folded_table(const Table& table, std::string_view summary) {
  body_ += "<details>\n" + element("summary", "", summary);
  append_table(table, "");
  body_ += "</details>\n";
}

void Page::figure(const std::string& wide, const std::string& narrow, std::string_view caption) {
  body_ += "<figure>\n" + element("figcaption", "", caption);
  body_ += "<div class=\"wide\">\n" + wide + "</div>\n<div class=\"narrow\">\n" + narrow + "</div>\n</figure>\n";
}

void Page::provenance(const Json& report) {
  provenance_ = "<footer>\n<h2>How this page was made</h2>\n<dl>\n";
  const auto add = [&](std::string_view name, std::string_view value) {
    provenance_ += "<div>" + element("dt", "", name) + element("dd", "", value) + "</div>\n";
  };
  if (report.contains("schema")) add("report", value_of(report["schema"]));
  for (const char* block : {"zeroulp", "machine", "volatile"}) {
    if (!report.contains(block)) continue;
    for (const auto& [key, value] : report[block].items()) add(key == "version" ? "zeroulp" : key, value_of(value));
  }
  provenance_ += "</dl>\n</footer>\n";
}

std::string Page::html() const {
  std::string contents;
  if (sections_.size() > 1) {
    contents = "<nav aria-label=\"Contents\">\n";
    for (size_t i = 0; i < sections_.size(); ++i)
      contents += fmt::format("<a href=\"#s{}\">{}</a>\n", i + 1, escape_html(sections_[i]));
    contents += "</nav>\n";
  }
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<meta name=\"color-scheme\" content=\"light dark\">\n<title>{}: "
             "{}</title>\n<style>\n{}</style>\n</head>\n<body>\n<main>\n",
             escape_html(title_), escape_html(subtitle_), page_style()) +
         "<header>\n" + element("h1", "", title_) + element("p", "subtitle", subtitle_) + "</header>\n" + verdict_ + contents +
         body_ + (sections_.empty() ? "" : "</section>\n") + provenance_ + "</main>\n</body>\n</html>\n";
}

Status Page::write(const std::string& path, bool force) const { return write_output(path, html(), force); }

}  // namespace zeroulp::report
