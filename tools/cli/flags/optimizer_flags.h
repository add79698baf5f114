// Flags for another optimizer than the model file's, for commands that compile training steps but train nothing: what
// it keeps takes memory, and its updates take time. `snug train` has the same flags and more (training_options.h).
#pragma once

#include <absl/status/status.h>

#include <memory>

#include "engine/compile/pipeline.h"
#include "proto/text_loader.h"  // with the messages
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/proto_flags.h"

namespace snug::core::cli {

class OptimizerFlags {
 public:
  void AddTo(Flags& flags);
  // For commands that train unless --forward is given.
  absl::Status CheckForwardOnly(bool forward) const;
  // Makes `options` refer to the model file's optimizer with what the command line says, if it says anything. This must
  // outlive its use.
  absl::Status SetIn(const LoadedNetwork& model, CompileOptions* options);

 private:
  proto::Optimizer given_, complete_;
  std::shared_ptr<const ImpliedChoices> implied_;
};

}  // namespace snug::core::cli
