#include "memory/share/nnc.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/in_place.h"
#include "memory/share/allocation_graph.h"
#include "memory/share/blocks.h"
#include "memory/share/use_order.h"

namespace snug::core::memory {
namespace {

enum class Ties { kEarlierFirst, kLaterFirst };
enum class Interference { kWithAll, kWithThoseLeft };

// What the two rules choose from. A buffer and its companion are one candidate, named after the smaller id.
struct Tensors {
  const UseOrder& uses;
  std::vector<int64_t> sizes;  // rounded up to the common alignment, so that every offset is aligned
  std::vector<int32_t> companions;

  bool Leads(size_t i) const { return sizes[i] > 0 && (companions[i] < 0 || static_cast<size_t>(companions[i]) > i); }
  int64_t Bytes(size_t i) const {
    return companions[i] < 0 ? sizes[i] : std::max(sizes[i], sizes[static_cast<size_t>(companions[i])]);
  }
};

// Returns the buffer, its companion and its pair, as far as it has them, in the sequence of their use.
std::vector<int32_t> StringOf(const Tensors& tensors, int32_t tensor, int32_t paired) {
  std::vector<int32_t> string = {tensor};
  for (const int32_t other : {tensors.companions[static_cast<size_t>(tensor)], paired}) {
    if (other < 0) continue;
    const auto after = std::find_if(string.begin(), string.end(), [&](int32_t member) {
      return tensors.uses.Before(static_cast<size_t>(other), static_cast<size_t>(member));
    });
    string.insert(after, other);
  }
  return string;
}

AllocationGraph AllocateLargestFirst(const Tensors& tensors) {
  const std::vector<int32_t> interferences = tensors.uses.Interferences();
  std::vector<int32_t> sequence;
  for (size_t i = 0; i < tensors.sizes.size(); ++i) {
    if (tensors.Leads(i)) sequence.push_back(static_cast<int32_t>(i));
  }
  const auto key = [&](int32_t id) {
    const auto i = static_cast<size_t>(id);
    const int32_t companion = tensors.companions[i];
    const int32_t its = companion < 0 ? 0 : interferences[static_cast<size_t>(companion)];
    return std::tuple(tensors.Bytes(i), interferences[i] + its, id);
  };
  std::sort(sequence.begin(), sequence.end(), [&](int32_t a, int32_t b) { return key(a) > key(b); });
  AllocationGraph graph(tensors.uses, tensors.sizes);
  for (const int32_t tensor : sequence) {
    const std::vector<int32_t> string = StringOf(tensors, tensor, -1);
    const int64_t bytes = tensors.Bytes(static_cast<size_t>(tensor));
    graph.Insert(string, bytes, graph.FindEdge(string, graph.EdgesOf(bytes)));
  }
  return graph;
}

// Chooses by the rule of NNC's document.
class SeedRule {
 public:
  SeedRule(const Tensors& tensors, Interference counted, Ties ties)
      : tensors_(tensors),
        counted_(counted),
        ties_(ties),
        interferences_(tensors.uses.Interferences()),
        refused_(tensors.sizes.size(), 0) {
    for (size_t i = 0; i < tensors.sizes.size(); ++i) {
      if (tensors.sizes[i] > 0) left_.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(left_.begin(), left_.end(), [&](int32_t a, int32_t b) {
      return tensors.sizes[static_cast<size_t>(a)] > tensors.sizes[static_cast<size_t>(b)];
    });
  }

  AllocationGraph Allocate() {
    AllocationGraph graph(tensors_.uses, tensors_.sizes);
    while (!left_.empty()) {
      const Choice choice = Choose(graph);
      const std::vector<int32_t> string = StringOf(tensors_, choice.candidate.tensor, choice.candidate.paired);
      graph.Insert(string, choice.candidate.bytes, choice.edge);
      for (const int32_t member : string) Remove(member);
    }
    return graph;
  }

 private:
  struct Candidate {
    int32_t tensor = -1;
    int32_t paired = -1;
    int64_t bytes = 0;
    int32_t interferences = 0;
  };

  // Compares two candidates of one size.
  bool Better(const Candidate& a, const Candidate& b) const {
    if (a.interferences != b.interferences) return a.interferences > b.interferences;
    if ((a.paired < 0) != (b.paired < 0)) return a.paired < 0;
    if (a.tensor != b.tensor) return ties_ == Ties::kLaterFirst ? a.tensor > b.tensor : a.tensor < b.tensor;
    return a.paired < b.paired;
  }

  struct Choice {
    Candidate candidate;
    int32_t edge = -1;
  };

  // Looks at candidates by their size, the largest first, and makes them only when needed: there may be very many.
  Choice Choose(const AllocationGraph& graph) {
    const std::vector<Candidate> singles = Singles();
    Choice choice;
    for (size_t at = 0; at < left_.size();) {
      const int64_t bytes = tensors_.sizes[static_cast<size_t>(left_[at])];
      size_t end = at;
      while (end < left_.size() && tensors_.sizes[static_cast<size_t>(left_[end])] == bytes) ++end;
      const std::vector<int32_t> edges = graph.EdgesOf(bytes);
      if (choice.candidate.tensor < 0 || !edges.empty()) {
        for (const Candidate& candidate : CandidatesOf(bytes, singles, at, end)) {
          if (choice.candidate.tensor < 0) choice.candidate = candidate;
          int64_t unpaired = 0;
          int64_t& refused = candidate.paired < 0 ? refused_[static_cast<size_t>(candidate.tensor)] : unpaired;
          const int32_t edge = graph.FindEdge(StringOf(tensors_, candidate.tensor, candidate.paired), edges, refused);
          if (edge >= 0) return {candidate, edge};
          refused = graph.made();
        }
      }
      at = end;
    }
    return choice;  // no candidate fits an edge, so it is the first of all
  }

  // Returns the buffers with the most interference.
  std::vector<Candidate> Singles() const {
    std::vector<Candidate> singles;
    for (const int32_t id : left_) {
      const auto i = static_cast<size_t>(id);
      if (!tensors_.Leads(i)) continue;
      const int32_t companion = tensors_.companions[i];
      const int32_t its = companion < 0 ? 0 : interferences_[static_cast<size_t>(companion)];
      const Candidate single{id, -1, tensors_.Bytes(i), interferences_[i] + its};
      if (!singles.empty() && single.interferences > singles.front().interferences) singles.clear();
      if (singles.empty() || single.interferences == singles.front().interferences) singles.push_back(single);
    }
    return singles;
  }

  // Returns the candidates of this size, the best first. left_[begin, end) are the buffers of this size.
  std::vector<Candidate> CandidatesOf(int64_t bytes, const std::vector<Candidate>& singles, size_t begin,
                                      size_t end) const {
    std::vector<Candidate> candidates;
    for (const Candidate& single : singles) {
      if (single.bytes == bytes) candidates.push_back(single);
      if (single.bytes >= bytes) continue;
      for (size_t at = begin; at < end; ++at) {
        const auto other = static_cast<size_t>(left_[at]);
        if (!CanPair(single, other)) continue;
        candidates.push_back({single.tensor, left_[at], bytes, single.interferences + interferences_[other]});
      }
    }
    std::sort(candidates.begin(), candidates.end(),
              [this](const Candidate& a, const Candidate& b) { return Better(a, b); });
    return candidates;
  }

  bool CanPair(const Candidate& single, size_t other) const {
    if (tensors_.companions[other] >= 0) return false;
    const auto tensor = static_cast<size_t>(single.tensor);
    if (!tensors_.uses.SameKind(tensor, other) || tensors_.uses.Interfere(tensor, other)) return false;
    const int32_t companion = tensors_.companions[tensor];
    return companion < 0 || !tensors_.uses.Interfere(static_cast<size_t>(companion), other);
  }

  void Remove(int32_t tensor) {
    left_.erase(std::find(left_.begin(), left_.end(), tensor));
    if (counted_ == Interference::kWithAll) return;
    for (const int32_t other : left_) {
      interferences_[static_cast<size_t>(other)] -=
          tensors_.uses.Interfere(static_cast<size_t>(tensor), static_cast<size_t>(other));
    }
  }

  const Tensors& tensors_;
  Interference counted_;
  Ties ties_;
  std::vector<int32_t> interferences_;
  std::vector<int32_t> left_;     // in ascending order
  std::vector<int64_t> refused_;  // by buffer: so many of the edges made first cannot take it on its own
};

Plan Allocate(const Tensors& tensors, NncRule rule) {
  if (rule == NncRule::kLater) return {.offsets = AllocateLargestFirst(tensors).offsets()};
  Plan best;
  for (const Interference counted : {Interference::kWithThoseLeft, Interference::kWithAll}) {
    for (const Ties ties : {Ties::kEarlierFirst, Ties::kLaterFirst}) {
      const AllocationGraph graph = SeedRule(tensors, counted, ties).Allocate();
      if (!best.offsets.empty() && graph.total() >= best.arena_bytes) continue;
      best = {.offsets = graph.offsets(), .arena_bytes = graph.total()};
    }
  }
  return best;
}

// `Buffers` may hold anything with size_bytes and alignment.
template <typename Buffers>
Plan Allocate(const UseOrder& uses, const Buffers& buffers, std::vector<int32_t> companions, NncRule rule) {
  int64_t alignment = 1;
  for (const auto& buffer : buffers) alignment = std::lcm(alignment, buffer.alignment);
  Tensors tensors{.uses = uses, .companions = std::move(companions)};
  for (const auto& buffer : buffers) tensors.sizes.push_back(AlignUp(buffer.size_bytes, alignment));
  Plan plan = Allocate(tensors, rule);
  plan.arena_bytes = 0;  // starts anew: total() contains what the sizes were rounded up by
  for (size_t i = 0; i < buffers.size(); ++i) {
    plan.arena_bytes = std::max(plan.arena_bytes, plan.offsets[i] + buffers[i].size_bytes);
  }
  return plan;
}

absl::StatusOr<Placement> PlaceSerial(const Problem& problem, NncRule rule) {
  SNUG_RETURN_IF_ERROR(CheckNoFixedOffsets(problem, rule == NncRule::kLater ? "nnc" : "nnc-seed"));
  const Folded folded = Fold(problem);
  const std::vector<int32_t> companions(folded.problem.buffers.size(), -1);
  return WithBound(
      problem, Unfold(folded, Allocate(UseOrder::Serial(folded.problem), folded.problem.buffers, companions, rule)));
}

}  // namespace

absl::StatusOr<Placement> PlaceNnc(const Problem& problem, const PlannerOptions&) {
  return PlaceSerial(problem, NncRule::kLater);
}

absl::StatusOr<Placement> PlaceNncSeed(const Problem& problem, const PlannerOptions&) {
  return PlaceSerial(problem, NncRule::kSeed);
}

absl::StatusOr<Plan> PlaceNncPartial(const PartialProblem& problem, NncRule rule) {
  const PartialProblem resolved = WithoutViews(problem);
  SNUG_ASSIGN_OR_RETURN(const UseOrder uses, UseOrder::Partial(resolved));
  std::vector<int32_t> companions;
  for (size_t i = 0; i < resolved.buffers.size(); ++i) {
    companions.push_back(resolved.buffers[i].companion);
    if (companions[i] >= 0 && uses.Interfere(i, static_cast<size_t>(companions[i]))) {
      return absl::InvalidArgumentError(absl::StrCat("buffers \"", resolved.buffers[i].name, "\" and \"",
                                                     resolved.buffers[static_cast<size_t>(companions[i])].name,
                                                     "\" are to share one address, but may be in use at once"));
    }
  }
  Plan plan = Allocate(uses, resolved.buffers, companions, rule);
  PlaceViews(problem, plan);
  return plan;
}

}  // namespace snug::core::memory
