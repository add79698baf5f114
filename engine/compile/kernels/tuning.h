// Kernel choice as an artefact: for nodes of given types it names the kernel that was measured to be the fastest on one
// kind of machine, and it lists the passes that are better left out there. `snug tune` makes it
// (engine/run/observe/tuner.h), and `--tuning=FILE` gives it to the stage that chooses kernels (choose.h). Entries that
// fit no node of a network do no harm.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <map>
#include <set>
#include <string>

#include "ops/node_types.h"
#include "ops/platform.h"

namespace snug::core {

struct TunedKernel {
  std::string choice;
  double ms = 0, default_ms = 0;
};

struct Tuning {
  Platform platform;
  int threads = 1;  // per op
  std::set<std::string> disabled_passes;
  std::map<std::string, TunedKernel> kernels;  // keyed by TuningKey
  // What was tuned, and the time of its step before and after.
  std::string network;
  int64_t batch = 0;
  double step_ms = 0, tuned_step_ms = 0;

  std::string ChoiceFor(const std::string& key) const;  // empty: the op's own choice
  // Hashes all that changes what is computed: equal tunings give equal bits.
  uint64_t Digest() const;
};

// Identifies what a choice is for: op, types and options as text, and which inputs are kept from step to step
// (CompileOptions::keep_derived): to bring these into the layout that a kernel wants takes no time.
std::string TuningKey(absl::string_view op, const NodeTypes& types, absl::Span<const int> kept_inputs);

// Files named *.pbtxt or *.txt are text, all others are binary. A file that is no tuning, or that was made on another
// platform than `here`, is refused.
absl::StatusOr<Tuning> LoadTuning(const std::string& path, const Platform& here);
absl::Status SaveTuning(const Tuning& tuning, const std::string& path);

}  // namespace snug::core
