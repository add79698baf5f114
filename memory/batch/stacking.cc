#include "memory/batch/stacking.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "engine/base/status.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

struct LifeChange {
  int32_t time;
  bool ends;  // an end at `time` comes after all begins there
  int32_t buffer;
};

std::vector<LifeChange> LifeChangesOf(const Problem& problem) {
  std::vector<LifeChange> events;
  events.reserve(2 * problem.buffers.size());
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    ForEachLiveSpan(problem.buffers[i], [&](int32_t first, int32_t last) {
      events.push_back({first, false, static_cast<int32_t>(i)});
      events.push_back({last, true, static_cast<int32_t>(i)});
    });
  }
  std::sort(events.begin(), events.end(), [](const LifeChange& a, const LifeChange& b) {
    return a.time != b.time ? a.time < b.time : a.ends != b.ends ? b.ends : a.buffer < b.buffer;
  });
  return events;
}

// Goes through time and notes which buffers become neighbours. Of those that are live at once each lies above the next
// lower one, and so above all that are lower.
class NeighborSweep {
 public:
  NeighborSweep(const Problem& problem, const Plan& plan) : plan_(plan), chain_(problem.buffers.size()) {
    std::iota(chain_.begin(), chain_.end(), 0);
    for (const LifeChange& event : LifeChangesOf(problem)) {
      if (event.ends) {
        End(event.buffer);
      } else {
        Begin(event.buffer);
      }
    }
  }

  int32_t ChainOf(int32_t buffer) {
    while (chain_[Index(buffer)] != buffer) {
      buffer = chain_[Index(buffer)] = chain_[Index(chain_[Index(buffer)])];
    }
    return buffer;
  }

  const std::vector<std::pair<int32_t, int32_t>>& rests() const { return rests_; }  // (lower, upper)

 private:
  // By offset: the buffers that are live there. While an output is written over an input there are two.
  using Live = std::map<int64_t, std::vector<int32_t>>;

  static size_t Index(int32_t buffer) { return static_cast<size_t>(buffer); }

  void Begin(int32_t buffer) {
    const auto [at, is_new] = live_.try_emplace(plan_.offsets[Index(buffer)]);
    if (!is_new) chain_[Index(ChainOf(buffer))] = ChainOf(at->second.front());  // legal: it is written over this one
    at->second.push_back(buffer);
    if (const auto above = std::next(at); above != live_.end()) rests_.emplace_back(buffer, above->second.front());
    if (at == live_.begin()) return;
    for (const int32_t below : std::prev(at)->second) rests_.emplace_back(below, buffer);
  }

  void End(int32_t buffer) {
    const auto at = live_.find(plan_.offsets[Index(buffer)]);
    std::erase(at->second, buffer);
    if (!at->second.empty()) return;
    const auto above = live_.erase(at);
    if (above == live_.end() || above == live_.begin()) return;
    for (const int32_t below : std::prev(above)->second) rests_.emplace_back(below, above->second.front());
  }

  const Plan& plan_;
  std::vector<int32_t> chain_;
  std::vector<std::pair<int32_t, int32_t>> rests_;
  Live live_;
};

}  // namespace

absl::StatusOr<Stacking> Stacking::Of(const Problem& problem, const Plan& plan) {
  for (const Buffer& buffer : problem.buffers) {
    if (buffer.fixed_offset < 0 && buffer.size_bytes > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "stacking: buffer \"", buffer.name, "\": expected at least a byte and no fixed offset, found ",
        buffer.size_bytes, " bytes", buffer.fixed_offset < 0 ? "" : absl::StrCat(" at ", buffer.fixed_offset)));
  }
  SNUG_RETURN_IF_ERROR(Annotate(Verify(problem, plan), "stacking"));
  NeighborSweep sweep(problem, plan);

  // Whatever rests on something has a higher offset: in the sequence of offsets, chains come after what is beneath.
  const auto n = static_cast<int32_t>(problem.buffers.size());
  std::vector<int32_t> heads;
  for (int32_t i = 0; i < n; ++i) {
    if (sweep.ChainOf(i) == i) heads.push_back(i);
  }
  std::sort(heads.begin(), heads.end(), [&](int32_t a, int32_t b) {
    return std::pair(plan.offsets[static_cast<size_t>(a)], a) < std::pair(plan.offsets[static_cast<size_t>(b)], b);
  });
  std::vector<int32_t> number(problem.buffers.size(), -1);  // of the chain that a buffer heads
  for (size_t chain = 0; chain < heads.size(); ++chain) {
    number[static_cast<size_t>(heads[chain])] = static_cast<int32_t>(chain);
  }
  Stacking stacking;
  stacking.alignment_.resize(heads.size(), 1);
  for (int32_t i = 0; i < n; ++i) {
    const int32_t chain = number[static_cast<size_t>(sweep.ChainOf(i))];
    stacking.chain_of_.push_back(chain);
    int64_t& alignment = stacking.alignment_[static_cast<size_t>(chain)];
    alignment = std::lcm(alignment, problem.buffers[static_cast<size_t>(i)].alignment);
  }
  std::vector<std::pair<int32_t, int32_t>> rests;  // (chain, a buffer beneath it)
  rests.reserve(sweep.rests().size());
  for (const auto& [lower, upper] : sweep.rests()) {
    rests.emplace_back(stacking.chain_of_[static_cast<size_t>(upper)], lower);
  }
  std::sort(rests.begin(), rests.end());
  rests.erase(std::unique(rests.begin(), rests.end()), rests.end());
  for (const auto& [chain, lower] : rests) {
    stacking.begin_.resize(static_cast<size_t>(chain) + 1, stacking.beneath_.size());
    stacking.beneath_.push_back(lower);
  }
  stacking.begin_.resize(heads.size() + 1, stacking.beneath_.size());
  return stacking;
}

Plan Stacking::PlanFor(absl::Span<const int64_t> sizes) const {
  SNUG_CHECK(sizes.size() == buffers());
  std::vector<int64_t> base(alignment_.size(), 0);  // by chain
  for (size_t chain = 0; chain < base.size(); ++chain) {
    int64_t end = 0;
    for (size_t i = begin_[chain]; i < begin_[chain + 1]; ++i) {
      const auto lower = static_cast<size_t>(beneath_[i]);
      end = std::max(end, base[static_cast<size_t>(chain_of_[lower])] + sizes[lower]);
    }
    base[chain] = AlignUp(end, alignment_[chain]);
  }
  Plan plan;
  plan.offsets.reserve(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    plan.offsets.push_back(base[static_cast<size_t>(chain_of_[i])]);
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets.back() + sizes[i]);
  }
  return plan;
}

}  // namespace snug::core::memory
