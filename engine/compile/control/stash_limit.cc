#include "engine/compile/control/stash_limit.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/base/status.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

constexpr size_t kAllCombinations = 12;

// Those that are neither 1 nor n, from small to large.
std::set<int64_t> DivisorsWithin(int64_t n) {
  std::set<int64_t> divisors;
  for (int64_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) divisors.insert({d, n / d});
  }
  return divisors;
}

// A loop and the ways in which it can be run.
class Loop {
 public:
  Loop(const LoopStash& kept, const LoopStash& anew) : kept_(kept) {
    ways_.push_back({.chunk = 0, .kept = kept.kept, .at_once = kept.within});
    if (anew.chunk == 0) return;
    for (const int64_t chunk : DivisorsWithin(kept.rounds)) {
      const int64_t chunks = kept.rounds / chunk, probed = kept.rounds / anew.chunk;
      ways_.push_back({.chunk = chunk,
                       .kept = anew.kept / probed * chunks,
                       .at_once = anew.again / anew.chunk * chunk + anew.within});
    }
  }

  struct Way {
    int64_t chunk = 0;
    int64_t kept = 0;     // until its gradient
    int64_t at_once = 0;  // while that is computed
  };

  const LoopStash& stash() const { return kept_; }
  bool has_chunks() const { return ways_.size() > 1; }
  const std::vector<Way>& ways() const { return ways_; }
  const Way& all() const { return ways_[0]; }
  // The longest chunk that takes at most so much at once: it keeps least. Null: there is none.
  const Way* Longest(int64_t at_once) const {
    for (size_t i = ways_.size(); i-- > 1;) {
      if (ways_[i].at_once <= at_once) return &ways_[i];
    }
    return nullptr;
  }

 private:
  const LoopStash& kept_;
  std::vector<Way> ways_;
};

class Chooser {
 public:
  Chooser(int64_t limit, const std::vector<LoopStash>& kept, const std::vector<LoopStash>& anew) : limit_(limit) {
    for (size_t i = 0; i < kept.size(); ++i) {
      loops_.emplace_back(kept[i], anew[i]);
      if (loops_.back().has_chunks()) with_chunks_.push_back(i);
      for (const Loop::Way& way : loops_.back().ways()) at_once_.insert(way.at_once);
    }
  }

  absl::StatusOr<Chunks> Run() const {
    const Least least = FindLeast();
    if (least.bytes > limit_) return TooLittle(least);
    std::vector<bool> split = with_chunks_.size() <= kAllCombinations ? Cheapest() : ByBytesForOperations();
    if (!LargestAtOnce(split).has_value()) split = least.split;
    Chunks chunks;
    const int64_t at_once = *LargestAtOnce(split);
    for (size_t i = 0; i < loops_.size(); ++i) {
      if (split[i]) chunks[loops_[i].stash().loop] = loops_[i].Longest(at_once)->chunk;
    }
    return chunks;
  }

 private:
  // What all loops take if those that are split have the longest chunks for that, or nothing if some have none.
  std::optional<int64_t> Bytes(const std::vector<bool>& split, int64_t at_once) const {
    int64_t bytes = at_once;
    for (size_t i = 0; i < loops_.size(); ++i) {
      const Loop::Way* const way = split[i] ? loops_[i].Longest(at_once) : &loops_[i].all();
      if (way == nullptr || way->at_once > at_once) return std::nullopt;
      bytes += way->kept;
    }
    return bytes;
  }

  // The most that one loop may take at once so that all fit.
  std::optional<int64_t> LargestAtOnce(const std::vector<bool>& split) const {
    for (auto it = at_once_.rbegin(); it != at_once_.rend(); ++it) {
      const std::optional<int64_t> bytes = Bytes(split, *it);
      if (bytes.has_value() && *bytes <= limit_) return *it;
    }
    return std::nullopt;
  }

  std::vector<bool> Cheapest() const {
    std::vector<bool> best(loops_.size(), false);
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < (uint32_t{1} << with_chunks_.size()); ++set) {
      std::vector<bool> split(loops_.size(), false);
      double flops = 0;
      for (size_t k = 0; k < with_chunks_.size(); ++k) {
        if ((set >> k & 1) == 0) continue;
        split[with_chunks_[k]] = true;
        flops += loops_[with_chunks_[k]].stash().flops;
      }
      if (flops >= least || !LargestAtOnce(split).has_value()) continue;
      least = flops;
      best = std::move(split);
    }
    return best;
  }

  // Splits one loop after the other until all fit, and takes back what was not needed.
  std::vector<bool> ByBytesForOperations() const {
    std::vector<size_t> sequence = with_chunks_;
    const auto worth = [&](size_t i) {
      return static_cast<double>(loops_[i].all().kept) / std::max(loops_[i].stash().flops, 1.0);
    };
    std::stable_sort(sequence.begin(), sequence.end(), [&](size_t a, size_t b) { return worth(a) > worth(b); });
    std::vector<bool> split(loops_.size(), false);
    auto next = sequence.begin();
    while (next != sequence.end() && !LargestAtOnce(split).has_value()) split[*next++] = true;
    for (auto it = sequence.begin(); it != next; ++it) {
      split[*it] = false;
      if (!LargestAtOnce(split).has_value()) split[*it] = true;
    }
    return split;
  }

  struct Least {
    int64_t bytes = std::numeric_limits<int64_t>::max();
    std::vector<bool> split;
    const Loop* largest = nullptr;  // it takes most
    int64_t bytes_of_largest = -1;
  };

  // However much is computed anew.
  Least FindLeast() const {
    Least least;
    for (const int64_t at_once : at_once_) {
      Least found{.bytes = at_once};
      for (const Loop& loop : loops_) {
        const Loop::Way* way = loop.all().at_once <= at_once ? &loop.all() : nullptr;
        const Loop::Way* const longest = loop.Longest(at_once);
        if (longest != nullptr && (way == nullptr || longest->kept < way->kept)) way = longest;
        found.split.push_back(way != nullptr && way->chunk > 0);
        if (way == nullptr) break;
        found.bytes += way->kept;
        if (way->kept + way->at_once <= found.bytes_of_largest) continue;
        found.bytes_of_largest = way->kept + way->at_once;
        found.largest = &loop;
      }
      const bool all_run = found.split.size() == loops_.size() && Bytes(found.split, at_once).has_value();
      if (all_run && found.bytes < least.bytes) least = std::move(found);
    }
    return least;
  }

  absl::Status TooLittle(const Least& least) const {
    const LoopStash& stash = least.largest->stash();
    std::string text =
        absl::StrCat("what loops keep of their rounds for gradients takes at least ", least.bytes,
                     " bytes, of which this one ", least.bytes_of_largest, " for its ", stash.rounds, " rounds");
    if (!stash.why_not.empty()) absl::StrAppend(&text, ", which are not computed anew: ", stash.why_not);
    absl::StrAppend(&text, "; the limit is ", limit_, "; expected --stash-limit=", least.bytes, " or more");
    return NodeError(stash.loc, stash.loop, "loop", absl::ResourceExhaustedError(text));
  }

  const int64_t limit_;
  std::vector<Loop> loops_;
  std::vector<size_t> with_chunks_;
  std::set<int64_t> at_once_;
};

}  // namespace

absl::StatusOr<Chunks> ChunksWithin(int64_t limit, const std::vector<LoopStash>& kept,
                                    const std::vector<LoopStash>& anew) {
  if (kept.size() != anew.size()) return absl::InternalError("stash limit: other loops have chunks");
  if (kept.empty()) return Chunks();
  return Chooser(limit, kept, anew).Run();
}

}  // namespace snug::core
