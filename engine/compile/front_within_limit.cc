#include "engine/compile/front_within_limit.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/control/stash.h"
#include "engine/compile/control/stash_limit.h"
#include "engine/compile/passes/pass.h"
#include "engine/compile/pipeline.h"

namespace snug::core {
namespace {

// What a network's loops keep of their rounds if they keep all, and if all that can compute rounds anew.
struct ProbedStashes {
  std::vector<LoopStash> kept, anew;
  Chunks inside;  // of loops inside others, which both have; empty: those keep all of their rounds
  int64_t least_bytes = 0;
};

// Chunks of about the square root of their rounds for all loops that lie inside of those that have stashes.
Chunks ChunksInside(const std::vector<LoopChoice>& loops, const std::vector<LoopStash>& stashes) {
  Chunks inside;
  for (const LoopChoice& loop : loops) {
    const bool is_inside = absl::c_any_of(
        stashes, [&](const LoopStash& around) { return absl::StartsWith(loop.name, absl::StrCat(around.loop, "/")); });
    const bool is_around = absl::c_any_of(stashes, [&](const LoopStash& stash) { return stash.loop == loop.name; });
    if (is_inside && !is_around) inside[loop.name] = kSquareRoot;
  }
  return inside;
}

}  // namespace

absl::StatusOr<Front> MakeFrontWithinLimit(const proto::Network& network, const SourceMap& locations,
                                           const OpRegistry& registry, const proto::Optimizer& optimizer,
                                           const CompileOptions& options) {
  if (options.stash_limit == 0 || !options.training) {
    return MakeFront(network, locations, registry, optimizer, nullptr, options);
  }
  CompileOptions how = options;
  const auto make = [&](const Chunks* chunks) {
    CompileOptions quiet = how;
    quiet.observer = nullptr;
    return MakeFront(network, locations, registry, optimizer, chunks, quiet);
  };
  const auto probe = [&](const Chunks& inside) -> absl::StatusOr<ProbedStashes> {
    SNUG_ASSIGN_OR_RETURN(const Front kept, make(&inside));
    Chunks chunks = inside;
    for (const LoopStash& stash : kept.stashes) chunks[stash.loop] = kSquareRoot;
    SNUG_ASSIGN_OR_RETURN(const Front anew, make(&chunks));
    ProbedStashes probed{.kept = kept.stashes, .anew = anew.stashes, .inside = inside};
    for (size_t i = 0; i < probed.kept.size() && i < probed.anew.size(); ++i) {
      probed.kept[i].why_not = probed.anew[i].why_not;
    }
    if (probed.kept.size() != probed.anew.size()) return absl::InternalError("stash limit: other loops have chunks");
    probed.least_bytes = LeastStashBytes(probed.kept, probed.anew);
    return probed;
  };
  SNUG_ASSIGN_OR_RETURN(const Front all, make(nullptr));
  if (StashBytes(all.stashes) <= options.stash_limit) {
    return MakeFront(network, locations, registry, optimizer, nullptr, options);
  }
  SNUG_ASSIGN_OR_RETURN(ProbedStashes probed, probe(Chunks()));
  // What is done to all rounds of a chunk at once is there for all of them: a limit that is too small for that may do
  // without.
  if (probed.least_bytes > options.stash_limit && HoistsLoopInputs(options)) {
    for (const Pass& pass : LoopPasses()) how.disabled_passes.insert(std::string(pass.name));
    SNUG_ASSIGN_OR_RETURN(ProbedStashes in_rounds, probe(Chunks()));
    if (in_rounds.least_bytes < probed.least_bytes) {
      probed = std::move(in_rounds);
    } else {
      how = options;
    }
  }
  const Chunks inside = ChunksInside(all.loops, all.stashes);
  if (probed.least_bytes > options.stash_limit && !inside.empty()) {
    SNUG_ASSIGN_OR_RETURN(ProbedStashes deeper, probe(inside));
    if (deeper.least_bytes < probed.least_bytes) probed = std::move(deeper);
  }
  SNUG_ASSIGN_OR_RETURN(Chunks chunks,
                        ChunksWithin(options.stash_limit, probed.kept, probed.anew,
                                     inside.empty() ? ""
                                                    : "of loops inside others, only chunks of about the square root "
                                                      "of their rounds were tried"));
  chunks.insert(probed.inside.begin(), probed.inside.end());
  SNUG_ASSIGN_OR_RETURN(Front chosen, MakeFront(network, locations, registry, optimizer, &chunks, how));
  if (const int64_t bytes = StashBytes(chosen.stashes); bytes > options.stash_limit) {
    return absl::InternalError(absl::StrCat("stash limit: expected at most ", options.stash_limit, " bytes, found ",
                                            bytes, ": other chunks take other bytes than was foreseen"));
  }
  return chosen;
}

}  // namespace snug::core
