#include "memory/place/olla.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/ilp/scale.h"
#include "memory/ilp/search.h"
#include "memory/ilp/solver.h"
#include "memory/in_place.h"
#include "memory/lower_bound.h"
#include "memory/place/olla_addresses.h"
#include "memory/place/olla_pack.h"
#include "memory/place/olla_preplace.h"
#include "memory/verifier.h"

namespace snug::memory {
namespace {

constexpr size_t kMostPairs = 100'000;

using Pairs = std::vector<std::pair<size_t, size_t>>;

// The pairs of buffers that must not overlap, or more than kMostPairs of them.
Pairs ConflictingPairs(const Problem& problem) {
  Pairs pairs;
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

// Offsets are sums of spacings: of sizes rounded up to the alignment where all have one. Where not, of the sizes: the
// program is then a relaxation, and its plan is aligned afterwards.
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

// The lowest buffer first. Those without bytes have no address.
std::vector<int32_t> ByAddress(const std::vector<double>& addresses) {
  std::vector<int32_t> sequence(addresses.size());
  std::iota(sequence.begin(), sequence.end(), 0);
  std::stable_sort(sequence.begin(), sequence.end(), [&](int32_t a, int32_t b) {
    return addresses[static_cast<size_t>(a)] < addresses[static_cast<size_t>(b)];
  });
  return sequence;
}

// Solves for the offsets of a problem without in-place options, and with `start` as the plan to beat.
absl::StatusOr<Plan> Solve(const Problem& problem, const Plan& start, const PlannerOptions& options, bool exact,
                           IlpSearch* search) {
  const Pairs pairs = ConflictingPairs(problem);
  if (pairs.empty() || pairs.size() > kMostPairs) return start;
  const std::vector<int64_t> spacings = Spacings(problem);
  const IlpScale scale = ScaleOf(problem, spacings);

  IlpModel model;
  const double top = scale.FromBytes(start.arena_bytes);
  const int32_t arena = model.AddVariable(scale.FromBytes(search->lower_bound()), top, false, 1);
  OllaAddresses addresses(top, arena, &model);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    addresses.Add(scale.FromBytes(buffer.size_bytes), scale.FromBytes(spacings[i]),
                  buffer.fixed_offset < 0 ? -1 : scale.FromBytes(buffer.fixed_offset));
  }
  for (const auto& [a, b] : pairs) addresses.KeepApart(static_cast<int32_t>(a), static_cast<int32_t>(b));

  IlpOptions ilp = search->Limits(1);
  ilp.solver = options.olla.solver;
  ilp.step = scale.step();
  if (options.olla.warm_start) {
    ilp.start.assign(static_cast<size_t>(model.variables()), 0);
    std::vector<double> offsets;
    for (const int64_t offset : start.offsets) offsets.push_back(scale.FromBytes(offset));
    addresses.Encode(offsets, &ilp.start);
    ilp.start[static_cast<size_t>(arena)] = top;
  }
  ilp.on_progress = [&](const IlpProgress& progress) {
    if (exact) search->Tighten(scale.BoundToBytes(progress.bound));
    if (progress.objective < IlpModel::kInfinity) search->Improve(scale.ToBytes(progress.objective));
  };
  SNUG_ASSIGN_OR_RETURN(const IlpResult result, SolveIlp(model, ilp));
  search->Spend(result);
  if (exact) search->Tighten(scale.BoundToBytes(result.bound));
  if (result.values.empty()) return start;
  std::vector<double> solved;
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    solved.push_back(addresses.Address(static_cast<int32_t>(i), result.values));
  }
  Plan plan = PackUpwards(problem, ByAddress(solved));
  return plan.arena_bytes < start.arena_bytes ? plan : start;
}

}  // namespace

absl::StatusOr<Placement> PlaceOlla(const Problem& original, const PlannerOptions& options) {
  IlpSearch search(options);
  const Folded folded = Fold(original);
  const Problem& problem = folded.problem;
  Plan best = PackLargestFirst(problem);
  search.Tighten(LowerBound(problem));
  search.Improve(best.arena_bytes);
  if (best.arena_bytes > search.lower_bound()) {
    const Problem preplaced = options.olla.pyramid ? PreplacePyramid(problem) : PreplaceConstant(problem);
    const Plan start = PackLargestFirst(preplaced);
    SNUG_ASSIGN_OR_RETURN(Plan plan, Solve(preplaced, start, options, !options.olla.pyramid, &search));
    // Where alignments differ, aligning the solver's plan can push a buffer into a fixed one.
    if (plan.arena_bytes < best.arena_bytes && Verify(problem, plan).ok()) best = std::move(plan);
  }
  return Placement{.plan = Unfold(folded, best), .report = search.Report(best.arena_bytes)};
}

}  // namespace snug::memory
