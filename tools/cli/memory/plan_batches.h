// `snug plan NET --batch-range=1:256`: plans for every batch from one to another, as few as may be.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"  // with the messages
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {

struct BatchRangeFlags {
  std::string range;             // empty: it is not asked for
  std::optional<double> excess;  // in per cent
  bool every = false;

  void AddTo(Flags& flags);
  bool asked() const { return !range.empty(); }
  // Fails where something is said of a range that is not asked for.
  absl::Status Check() const;
};

// Prints the plans. `options` have the network's, without a batch. `other_flag` is one that was given and is for the
// plan of a single batch; empty: there is none.
absl::StatusOr<int> RunPlanBatches(const BatchRangeFlags& flags, const LoadedNetwork& loaded,
                                   const CompileOptions& options, bool json, const std::string& other_flag);

}  // namespace snug::core::cli
