#include "engine/compile/control/stash_limit.h"

#include <absl/strings/cord.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

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
constexpr absl::string_view kPayload = "snug.stash_limit";

// Lengths of chunks of n rounds, from small to large, of which each is the shortest for its number of chunks. All
// divisors are there, all lengths up to kAllUpTo and all for as many chunks; between these, lengths are a thirty-second
// apart.
std::set<int64_t> ChunkLengths(int64_t n) {
  constexpr int64_t kAllUpTo = 64;
  std::set<int64_t> lengths;
  const auto in_chunks = [&](int64_t count) { lengths.insert((n + count - 1) / count); };
  for (int64_t length = 1; length <= std::min(kAllUpTo, n); ++length) in_chunks((n + length - 1) / length);
  for (int64_t count = 1; count <= n; count += std::max<int64_t>(count / 32, 1)) {
    if (count <= kAllUpTo || n / count >= kAllUpTo) in_chunks(count);
  }
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d == 0) lengths.insert({d, n / d});
  }
  return lengths;
}

// A loop and the ways in which it can be run, by length of chunk: what is kept falls from way to way, what is there at
// once grows.
struct Loop {
  struct Way {
    int64_t chunk = 0;
    int64_t kept = 0;     // until its gradient
    int64_t at_once = 0;  // while that is computed
  };

  Loop(const LoopStash& all, const LoopStash& anew) : stash(all) {
    ways.push_back({.chunk = 0, .kept = all.kept, .at_once = all.again + all.within});
    if (anew.chunk == 0) return;
    for (const int64_t chunk : ChunkLengths(all.rounds)) {
      const int64_t chunks = (all.rounds + chunk - 1) / chunk;
      ways.push_back(
          {.chunk = chunk, .kept = anew.kept_by_chunk * chunks, .at_once = anew.again_by_round * chunk + anew.within});
    }
  }

  bool has_chunks() const { return ways.size() > 1; }
  const Way& all() const { return ways[0]; }

  // The longest chunk that takes at most so much at once: it keeps least. Null: there is none.
  const Way* Longest(int64_t at_once) const {
    const auto behind =
        std::partition_point(ways.begin() + 1, ways.end(), [&](const Way& way) { return way.at_once <= at_once; });
    return behind == ways.begin() + 1 ? nullptr : &behind[-1];
  }

  // The longest chunk that divides the rounds, of those up to a third shorter than a way's; or that way, if there is
  // none.
  const Way* Dividing(const Way* way) const {
    for (const Way* shorter = way; shorter->chunk > 0 && shorter->chunk * 3 >= way->chunk * 2; --shorter) {
      if (stash.rounds % shorter->chunk == 0) return shorter;
    }
    return way;
  }

  // Of all ways that take at most so much at once. Null: there is none.
  const Way* KeepsLeast(int64_t at_once) const {
    const Way* const longest = Longest(at_once);
    if (all().at_once > at_once || (longest != nullptr && longest->kept < all().kept)) return longest;
    return &all();
  }

  const LoopStash& stash;
  std::vector<Way> ways;
};

// What all loops take is what each keeps, and the most that one of them takes at once. Once that is given, each loop
// has its best chunk. There are as many numbers to try as loops have ways, for each of up to 4096 sets of loops: so
// they are tried in sequence, from one to the next of which only those loops change that have a way of that size.
class Chooser {
 public:
  Chooser(int64_t limit, const std::vector<LoopStash>& kept, const std::vector<LoopStash>& anew) : limit_(limit) {
    for (size_t i = 0; i < kept.size(); ++i) {
      loops_.emplace_back(kept[i], anew[i]);
      if (loops_.back().has_chunks()) with_chunks_.push_back(i);
      for (size_t way = 0; way < loops_.back().ways.size(); ++way) {
        sizes_.push_back({.at_once = loops_.back().ways[way].at_once, .loop = i, .way = way});
      }
    }
    std::sort(sizes_.begin(), sizes_.end(), [](const Size& a, const Size& b) { return a.at_once < b.at_once; });
  }

  int64_t LeastBytes() const { return loops_.empty() ? 0 : FindLeast().bytes; }

  absl::StatusOr<Chunks> Run(absl::string_view remark) const {
    const Least least = FindLeast();
    if (least.bytes > limit_) return TooLittle(least, remark);
    std::vector<bool> split = with_chunks_.size() <= kAllCombinations ? Cheapest() : ByBytesForOperations();
    if (!LargestAtOnce(split).has_value()) {
      for (size_t i = 0; i < loops_.size(); ++i) split[i] = loops_[i].KeepsLeast(least.at_once)->chunk > 0;
    }
    const int64_t at_once = *LargestAtOnce(split);
    std::vector<const Loop::Way*> ways, dividing;
    for (size_t i = 0; i < loops_.size(); ++i) {
      ways.push_back(split[i] ? loops_[i].Longest(at_once) : &loops_[i].all());
      dividing.push_back(loops_[i].Dividing(ways.back()));
    }
    if (BytesOf(dividing) <= limit_) ways = std::move(dividing);
    Chunks chunks;
    for (size_t i = 0; i < loops_.size(); ++i) {
      if (split[i]) chunks[loops_[i].stash.loop] = ways[i]->chunk;
    }
    return chunks;
  }

 private:
  static int64_t BytesOf(const std::vector<const Loop::Way*>& ways) {
    int64_t kept = 0, at_once = 0;
    for (const Loop::Way* const way : ways) {
      kept += way->kept;
      at_once = std::max(at_once, way->at_once);
    }
    return kept + at_once;
  }

  // The most that one loop may take at once so that all fit, if those that are split have the longest chunks for that.
  // Goes from large to small: shorter chunks keep more, until a loop has none that is short enough.
  std::optional<int64_t> LargestAtOnce(const std::vector<bool>& split) const {
    int64_t kept = 0;
    for (size_t i = 0; i < loops_.size(); ++i) kept += split[i] ? loops_[i].ways.back().kept : loops_[i].all().kept;
    for (size_t n = sizes_.size(); n > 0 && kept <= limit_;) {
      const int64_t at_once = sizes_[n - 1].at_once;
      if (kept + at_once <= limit_) return at_once;
      for (; n > 0 && sizes_[n - 1].at_once == at_once; --n) {
        const auto [size, loop, way] = sizes_[n - 1];
        if (split[loop] ? way == 1 : way == 0) return std::nullopt;
        if (split[loop] && way > 1) kept += loops_[loop].ways[way - 1].kept - loops_[loop].ways[way].kept;
      }
    }
    return std::nullopt;
  }

  // Of all sets of loops whose stashes fit, that with the fewest operations to do again.
  std::vector<bool> Cheapest() const {
    std::vector<bool> best(loops_.size(), false);
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < (uint32_t{1} << with_chunks_.size()); ++set) {
      std::vector<bool> split(loops_.size(), false);
      double flops = 0;
      for (size_t k = 0; k < with_chunks_.size(); ++k) {
        if ((set >> k & 1) == 0) continue;
        split[with_chunks_[k]] = true;
        flops += loops_[with_chunks_[k]].stash.flops;
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
      return static_cast<double>(loops_[i].all().kept) / std::max(loops_[i].stash.flops, 1.0);
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
    int64_t at_once = 0;
  };

  // However much is computed anew. Goes from small to large: longer chunks keep less.
  Least FindLeast() const {
    Least least;
    int64_t kept = 0;
    size_t run = 0;  // so many loops have a way that is small enough
    std::vector<int64_t> kept_by(loops_.size(), -1);
    for (size_t n = 0; n < sizes_.size();) {
      const int64_t at_once = sizes_[n].at_once;
      for (; n < sizes_.size() && sizes_[n].at_once == at_once; ++n) {
        const auto [size, loop, way] = sizes_[n];
        const int64_t by_way = loops_[loop].ways[way].kept;
        int64_t& by_loop = kept_by[loop];
        if (by_loop >= 0 && by_loop <= by_way) continue;
        if (by_loop < 0) ++run;
        kept += by_way - std::max<int64_t>(by_loop, 0);
        by_loop = by_way;
      }
      if (run == loops_.size() && kept + at_once < least.bytes) least = {.bytes = kept + at_once, .at_once = at_once};
    }
    return least;
  }

  absl::Status TooLittle(const Least& least, absl::string_view remark) const {
    const auto bytes_of = [&](const Loop& loop) {
      const Loop::Way& way = *loop.KeepsLeast(least.at_once);
      return way.kept + way.at_once;
    };
    const Loop& largest = *std::max_element(loops_.begin(), loops_.end(),
                                            [&](const Loop& a, const Loop& b) { return bytes_of(a) < bytes_of(b); });
    const LoopStash& stash = largest.stash;
    std::string text =
        absl::StrCat("what loops keep of their rounds for gradients takes at least ", least.bytes,
                     " bytes, of which this one ", bytes_of(largest), " for its ", stash.rounds, " rounds");
    if (!stash.why_not.empty()) absl::StrAppend(&text, ", which are not computed anew: ", stash.why_not);
    absl::StrAppend(&text, "; the limit is ", limit_, "; expected --stash-limit=", least.bytes, " or more");
    if (!remark.empty()) absl::StrAppend(&text, "; ", remark);
    absl::Status status = absl::ResourceExhaustedError(text);
    status.SetPayload(kPayload, absl::Cord());
    return NodeError(stash.loc, stash.loop, "loop", status);
  }

  // A way of a loop, for the most that one loop may take at once.
  struct Size {
    int64_t at_once = 0;
    size_t loop = 0, way = 0;
  };

  const int64_t limit_;
  std::vector<Loop> loops_;
  std::vector<size_t> with_chunks_;
  std::vector<Size> sizes_;  // from small to large
};

}  // namespace

absl::StatusOr<Chunks> ChunksWithin(int64_t limit, const std::vector<LoopStash>& kept,
                                    const std::vector<LoopStash>& anew, absl::string_view remark) {
  if (kept.size() != anew.size()) return absl::InternalError("stash limit: other loops have chunks");
  if (kept.empty()) return Chunks();
  return Chooser(limit, kept, anew).Run(remark);
}

bool IsAboutStashLimit(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

int64_t LeastStashBytes(const std::vector<LoopStash>& kept, const std::vector<LoopStash>& anew) {
  return Chooser(0, kept, anew).LeastBytes();
}

}  // namespace snug::core
