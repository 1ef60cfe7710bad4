// Canonical decomposition, ordering and composition, by the Unicode Standard section 3.11.
#include <algorithm>
#include <tuple>

#include "tokenizer/unicode.h"
#include "tokenizer/unicode_tables.h"

namespace zeroulp::tokenizer {
namespace {

constexpr uint32_t kHangulBase = 0xAC00, kHangulCount = 11172;
constexpr uint32_t kLeadBase = 0x1100, kLeadCount = 19, kVowelBase = 0x1161, kVowelCount = 21;
constexpr uint32_t kTailBase = 0x11A7, kTailCount = 28;  // the first tail number means "none"

struct Unit {
  uint32_t code_point;
  uint8_t combining_class;
  bool marked;
};

uint8_t combining_class(uint32_t c) {
  const auto& table = unicode_tables().combining;
  auto it = std::upper_bound(table.begin(), table.end(), c, [](uint32_t v, const CombiningRange& r) { return v < r.first; });
  if (it == table.begin()) return 0;
  --it;
  return c <= it->last ? static_cast<uint8_t>(it->combining_class) : 0;
}

void put(std::vector<Unit>& out, uint32_t c, bool marked) { out.push_back({c, combining_class(c), marked}); }

void put_decomposed(std::vector<Unit>& out, uint32_t c, bool marked) {
  if (c - kHangulBase < kHangulCount) {
    const uint32_t s = c - kHangulBase;
    put(out, kLeadBase + s / (kVowelCount * kTailCount), marked);
    put(out, kVowelBase + s / kTailCount % kVowelCount, marked);
    if (s % kTailCount != 0) put(out, kTailBase + s % kTailCount, marked);
    return;
  }
  const auto& table = unicode_tables().decomposed;
  const auto it =
      std::lower_bound(table.begin(), table.end(), c, [](const Decomposition& d, uint32_t v) { return d.code_point < v; });
  if (it == table.end() || it->code_point != c) return put(out, c, marked);
  for (uint32_t part : it->parts)
    if (part != 0) put(out, part, marked);
}

// The composition of two code points, or 0.
uint32_t compose(uint32_t a, uint32_t b) {
  if (a - kLeadBase < kLeadCount && b - kVowelBase < kVowelCount)
    return kHangulBase + ((a - kLeadBase) * kVowelCount + (b - kVowelBase)) * kTailCount;
  if (a - kHangulBase < kHangulCount && (a - kHangulBase) % kTailCount == 0 && b > kTailBase && b < kTailBase + kTailCount)
    return a + (b - kTailBase);
  const auto& table = unicode_tables().composed;
  const auto it = std::lower_bound(table.begin(), table.end(), std::pair{a, b}, [](const Composition& c, const auto& v) {
    return std::pair{c.first, c.second} < v;
  });
  return it != table.end() && it->first == a && it->second == b ? it->composed : 0;
}

void order_marks(std::vector<Unit>& units) {
  const auto is_mark = [](const Unit& u) { return u.combining_class != 0; };
  for (auto it = units.begin(); it != units.end();) {
    it = std::find_if(it, units.end(), is_mark);
    const auto end = std::find_if_not(it, units.end(), is_mark);
    std::stable_sort(it, end, [](const Unit& a, const Unit& b) { return a.combining_class < b.combining_class; });
    it = end;
  }
}

void compose_all(std::vector<Unit>& units) {
  size_t kept = 0;
  size_t starter = SIZE_MAX;
  for (size_t i = 0; i < units.size(); ++i) {
    const Unit u = units[i];
    if (starter != SIZE_MAX) {
      // Blocked if what stands last between the starter and this has the same or a higher class.
      if (kept == starter + 1 || units[kept - 1].combining_class < u.combining_class) {
        if (const uint32_t c = compose(units[starter].code_point, u.code_point)) {
          units[starter].code_point = c;
          units[starter].marked |= u.marked;
          continue;
        }
      }
    }
    if (u.combining_class == 0) starter = kept;
    units[kept++] = u;
  }
  units.resize(kept);
}

bool composed_already(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto [c, length] = decode_valid_utf8(text, at);
    if (c >= 0x80 && code_point_classes(c) & kCanonical) return false;
    at += length;
  }
  return true;
}

class SpanCursor {
 public:
  explicit SpanCursor(const std::vector<ByteSpan>* spans) : spans_(spans) {}
  // `at` must not decrease from call to call.
  bool contains(size_t at) {
    if (spans_ == nullptr) return false;
    while (next_ < spans_->size() && (*spans_)[next_].end <= at) ++next_;
    return next_ < spans_->size() && (*spans_)[next_].begin <= at;
  }

 private:
  const std::vector<ByteSpan>* spans_;
  size_t next_ = 0;
};

}  // namespace

std::string normalize_nfc(std::string_view text, std::vector<ByteSpan>* marked) {
  if (composed_already(text)) return std::string(text);
  std::vector<Unit> units;
  units.reserve(text.size());
  SpanCursor cursor(marked);
  for (size_t at = 0; at < text.size();) {
    const auto [c, length] = decode_valid_utf8(text, at);
    put_decomposed(units, c, cursor.contains(at));
    at += length;
  }
  order_marks(units);
  compose_all(units);

  std::string out;
  out.reserve(text.size());
  std::vector<ByteSpan> spans;
  for (const Unit& u : units) {
    const size_t begin = out.size();
    append_utf8(out, u.code_point);
    if (!u.marked) continue;
    if (!spans.empty() && spans.back().end == begin) {
      spans.back().end = out.size();
    } else {
      spans.push_back({begin, out.size()});
    }
  }
  if (marked != nullptr) *marked = std::move(spans);
  return out;
}

}  // namespace zeroulp::tokenizer
