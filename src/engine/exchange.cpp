#include "engine/exchange.h"

#include <algorithm>

namespace zeroulp::engine {

class LocalGroup::Rank : public Exchange {
 public:
  Rank(LocalGroup& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_.ranks_.size()); }

  void max(std::span<uint16_t> values) override {
    reduce(values, shared_u16_, &Rank::shared_u16_, [](uint16_t a, uint16_t b) { return std::max(a, b); });
  }
  void sum(std::span<int64_t> values) override {
    reduce(values, shared_i64_, &Rank::shared_i64_, [](int64_t a, int64_t b) { return a + b; });
  }
  void gather(std::span<const float> mine, std::span<const int64_t> counts, std::span<float> all) override {
    shared_f32_ = mine.data();
    group_.barrier_.arrive_and_wait();
    auto out = all.begin();
    for (size_t r = 0; r < group_.ranks_.size(); ++r) out = std::copy_n(group_.ranks_[r]->shared_f32_, counts[r], out);
    group_.barrier_.arrive_and_wait();
  }

 private:
  // Publishes a copy, combines all ranks' copies, and waits until every rank has read them.
  template <class T, class Op>
  void reduce(std::span<T> values, std::vector<T>& mine, std::vector<T> Rank::*member, Op op) {
    mine.assign(values.begin(), values.end());
    group_.barrier_.arrive_and_wait();
    for (const auto& other : group_.ranks_)
      if (other.get() != this)
        for (size_t i = 0; i < values.size(); ++i) values[i] = op(values[i], ((*other).*member)[i]);
    group_.barrier_.arrive_and_wait();
  }

  LocalGroup& group_;
  int rank_;
  std::vector<uint16_t> shared_u16_;
  std::vector<int64_t> shared_i64_;
  const float* shared_f32_ = nullptr;
};

LocalGroup::LocalGroup(int size) : barrier_(size) {
  for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r));
}
LocalGroup::~LocalGroup() = default;
Exchange& LocalGroup::rank(int r) { return *ranks_[static_cast<size_t>(r)]; }

}  // namespace zeroulp::engine
