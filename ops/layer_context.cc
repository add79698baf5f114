#include "ops/layer_context.h"

#include <absl/strings/str_cat.h>

namespace snug::core {

absl::Status LayerContext::CheckInputs(int expected) const {
  if (num_inputs() == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("expected ", expected, expected == 1 ? " input" : " inputs", ", found ", num_inputs()));
}

}  // namespace snug::core
