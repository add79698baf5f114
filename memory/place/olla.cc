#include "memory/place/olla.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/anytime.h"
#include "memory/ilp/budget.h"
#include "memory/ilp/scale.h"
#include "memory/ilp/solver.h"
#include "memory/in_place.h"
#include "memory/place/olla_addresses.h"
#include "memory/place/olla_pack.h"
#include "memory/place/placers.h"
#include "memory/problem.h"
#include "memory/share/pool.h"
#include "memory/verifier.h"

namespace snug::core::memory {
namespace {

constexpr size_t kMostPairs = 100'000;
constexpr size_t kMostBuffers = 20'000;  // it counts the pairs one by one

using BufferPairs = std::vector<std::pair<size_t, size_t>>;

// Returns the pairs of buffers that must not overlap, or more than kMostPairs of them.
BufferPairs ConflictingPairs(const Problem& problem) {
  BufferPairs pairs;
  for (size_t b = 0; b < problem.buffers.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      const Buffer& one = problem.buffers[a];
      const Buffer& other = problem.buffers[b];
      const bool decided = one.fixed_offset >= 0 && other.fixed_offset >= 0;
      if (decided || one.size_bytes == 0 || other.size_bytes == 0 || !LiveTogether(one, other)) continue;
      pairs.emplace_back(a, b);
      if (pairs.size() > kMostPairs) return pairs;
    }
  }
  return pairs;
}

// Offsets are sums of spacings. Where all alignments are equal, a spacing is a size rounded up to it. Where they differ
// it is the size itself; the program is then a relaxation, and its plan is aligned afterwards.
std::vector<int64_t> Spacings(const Problem& problem) {
  const int64_t alignment = problem.buffers.front().alignment;
  const bool uniform = std::all_of(problem.buffers.begin(), problem.buffers.end(),
                                   [&](const Buffer& buffer) { return buffer.alignment == alignment; });
  std::vector<int64_t> spacings;
  for (const Buffer& buffer : problem.buffers) {
    spacings.push_back(uniform ? AlignUp(buffer.size_bytes, alignment) : buffer.size_bytes);
  }
  return spacings;
}

IlpScale ScaleOf(const Problem& problem, const std::vector<int64_t>& spacings) {
  std::vector<int64_t> lengths = spacings;
  for (const Buffer& buffer : problem.buffers) {
    lengths.push_back(buffer.size_bytes);
    if (buffer.fixed_offset > 0) lengths.push_back(buffer.fixed_offset);
  }
  return IlpScale(lengths);
}

// Sorts buffers by address, the lowest first. Buffers without bytes have no address.
std::vector<int32_t> ByAddress(const std::vector<double>& addresses) {
  std::vector<int32_t> sequence(addresses.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(), [&](int32_t a, int32_t b) {
    return addresses[static_cast<size_t>(a)] < addresses[static_cast<size_t>(b)];
  });
  return sequence;
}

// Offers plans that need no solver: greedy lists, and a search within a fraction of a second.
absl::Status OfferFirstPlans(const Problem& problem, const PlannerOptions& options,
                             const std::function<void(const Plan& plan)>& offer) {
  SNUG_ASSIGN_OR_RETURN(const Placement lists, PlaceFolded(problem, {}, PlaceOffset));
  offer(lists.plan);
  if (!options.olla.fast_start) return absl::OkStatus();
  constexpr int64_t kWork = int64_t{1} << 24;
  SNUG_ASSIGN_OR_RETURN(const Placement searched,
                        PlaceFolded(problem, {.work_limit = kWork, .capacity = options.capacity}, PlaceExact));
  offer(searched.plan);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<OffsetsResult> SolveOffsets(const Problem& original, const OffsetsGoal& goal, const OllaOptions& olla,
                                           const std::function<void(const Plan& plan)>& found,
                                           const std::function<void(int64_t bound)>& tighten) {
  const Folded folded = Fold(original);
  const Problem problem = olla.pyramid ? PreplacePyramid(folded.problem) : PreplaceConstant(folded.problem);
  if (problem.buffers.size() > kMostBuffers) {
    return OffsetsResult{.left_out = absl::StrCat(problem.buffers.size(), " buffers, more than ", kMostBuffers)};
  }
  const BufferPairs pairs = ConflictingPairs(problem);
  if (pairs.size() > kMostPairs) {
    return OffsetsResult{.left_out = absl::StrCat("more pairs of buffers that are live together than the solver is "
                                                  "given (",
                                                  kMostPairs, ")")};
  }
  const Plan start = PackLargestFirst(problem);
  const auto offer = [&](const Plan& plan) {
    // Where alignments differ, aligning the solver's plan can push a buffer into a fixed one.
    if (Verify(folded.problem, plan).ok()) found(Unfold(folded, plan));
  };
  offer(start);
  if (pairs.empty()) return OffsetsResult{.solved = true};

  const std::vector<int64_t> spacings = Spacings(problem);
  const IlpScale scale = ScaleOf(problem, spacings);
  IlpModel model;
  const int64_t most = std::max(goal.enough, goal.most);
  const double top = scale.FromBytes(most);
  const int32_t arena = model.AddVariable(scale.FromBytes(goal.enough), top, false, 1);
  OllaAddresses addresses(top, arena, &model);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    addresses.Add(scale.FromBytes(buffer.size_bytes), scale.FromBytes(spacings[i]),
                  buffer.fixed_offset < 0 ? -1 : scale.FromBytes(buffer.fixed_offset));
  }
  for (const auto& [a, b] : pairs) addresses.KeepApart(static_cast<int32_t>(a), static_cast<int32_t>(b));

  IlpOptions options{.work = goal.work, .step = scale.step()};
  if (olla.warm_start && start.arena_bytes <= most) {
    options.start.assign(static_cast<size_t>(model.variables()), 0);
    std::vector<double> offsets;
    for (const int64_t offset : start.offsets) offsets.push_back(scale.FromBytes(offset));
    addresses.Encode(offsets, &options.start);
    options.start[static_cast<size_t>(arena)] = scale.FromBytes(start.arena_bytes);
  }
  const auto decode = [&](absl::Span<const double> values) {
    if (values.empty()) return;
    std::vector<double> solved;
    for (size_t i = 0; i < problem.buffers.size(); ++i) {
      solved.push_back(addresses.Address(static_cast<int32_t>(i), values));
    }
    offer(PackUpwards(problem, ByAddress(solved)));
  };
  // In-place pairs and the pyramid were decided beforehand, so other plans may have less and the bound does not hold.
  const bool exact = !olla.pyramid && original.in_place.empty();
  const auto tighten_to = [&](double bound) {
    if (exact) tighten(scale.BoundToBytes(bound));
  };
  options.on_progress = [&](const IlpProgress& progress) {
    decode(progress.values);
    tighten_to(progress.bound);
  };
  SNUG_ASSIGN_OR_RETURN(const IlpResult result, SolveIlp(model, options));
  decode(result.values);
  if (result.status != IlpStatus::kInfeasible) tighten_to(result.bound);
  return OffsetsResult{.solved = result.status != IlpStatus::kStopped, .work = result.work};
}

absl::StatusOr<Placement> PlaceOlla(const Problem& problem, const PlannerOptions& options) {
  Anytime anytime(options);
  SNUG_RETURN_IF_ERROR(CheckIlpSolver());
  const int64_t least = LowerBound(problem);
  const bool any_fixed = std::any_of(problem.buffers.begin(), problem.buffers.end(),
                                     [](const Buffer& buffer) { return buffer.fixed_offset >= 0; });
  // Whole blocks are by far the quickest, but they cannot keep given offsets.
  SNUG_ASSIGN_OR_RETURN(const Placement quick,
                        any_fixed ? PlaceFolded(problem, {}, PlaceOffset) : PlaceBoth(problem, {}));
  anytime.Take({.total = quick.plan.arena_bytes,
                .offsets = quick.plan.offsets,
                .bound = least,
                .line = 0,
                .note = "the program of the offsets: not begun"});
  SNUG_RETURN_IF_ERROR(anytime.Run([&](const Anytime::Emit& emit) -> absl::Status {
    IlpBudget budget(options);
    int64_t total = quick.plan.arena_bytes;
    int64_t bound = least;
    const auto offer = [&](const Plan& plan) {
      if (plan.arena_bytes >= total) return;
      total = plan.arena_bytes;
      emit({.total = total, .offsets = plan.offsets, .work = budget.spent()});
    };
    const auto tighten = [&](int64_t found) {
      if (found <= bound) return;
      bound = found;
      emit({.bound = bound, .work = budget.spent()});
    };
    const auto note = [&](absl::string_view how_far) {
      emit({.work = budget.spent(), .line = 0, .note = absl::StrCat("the program of the offsets: ", how_far)});
    };
    SNUG_RETURN_IF_ERROR(OfferFirstPlans(problem, options, offer));
    if (total <= bound) note("not begun, as the first plan is proven to be the least");
    if (total > bound && total <= options.capacity) note("not begun, as the first plan fits");
    const auto done = [&] { return total <= std::max(bound, options.capacity) || budget.left() == 0; };
    for (int round = 0; !done(); ++round) {
      note("stopped before its end");
      const OffsetsGoal goal{.enough = bound, .most = total, .work = budget.Slice(round)};
      SNUG_ASSIGN_OR_RETURN(const OffsetsResult result, SolveOffsets(problem, goal, options.olla, offer, tighten));
      budget.Spend(result.work);
      if (!result.left_out.empty()) {
        note(absl::StrCat("left out: ", result.left_out));
        break;
      }
      if (!result.solved) continue;
      note("solved to its end");
      break;
    }
    emit({.work = budget.spent()});
    return absl::OkStatus();
  }));
  const Finding& best = anytime.best();
  return Placement{.plan = {.offsets = best.offsets, .arena_bytes = best.total}, .report = anytime.Report()};
}

}  // namespace snug::core::memory
