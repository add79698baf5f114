#include "tools/cli/flags/optimizer_flags.h"

#include "engine/base/status.h"
#include "engine/compile/defaults.h"
#include "engine/compile/import/check_optimizer.h"
#include "proto/option_places.h"

namespace snug::core::cli {

void OptimizerFlags::AddTo(Flags& flags) {
  flags.Section("optimizer");
  implied_ = AddProtoFlags("", "optimizer", &given_, flags);
}

absl::Status OptimizerFlags::CheckForwardOnly(bool forward) const {
  if (!forward || given_.ByteSizeLong() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--learning-rate, --clip-norm and the optimizer's other flags are for training: expected no --forward beside "
      "them");
}

absl::Status OptimizerFlags::SetIn(const LoadedNetwork& model, CompileOptions* options) {
  if (given_.ByteSizeLong() == 0) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(CheckOptimizer(given_, OptionPlaces::OnCommandLine()));
  complete_ = model.network.optimizer();
  SNUG_RETURN_IF_ERROR(implied_->CheckAgainst(complete_));
  Override(given_, &complete_);
  SetDefaultKind(&complete_);
  options->optimizer = &complete_;
  return absl::OkStatus();
}

}  // namespace snug::core::cli
