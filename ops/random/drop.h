// What dropout and stochastic depth have in common.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include "engine/base/error_part.h"
#include "engine/base/status.h"
#include "ops/layer_context.h"

namespace snug::core {

inline absl::Status CheckDropRate(double rate) {
  if (rate >= 0 && rate <= 1) return absl::OkStatus();
  return OptionError("rate", absl::StrCat("expected between 0 and 1, found ", rate));
}

// One node of `op` that also reads the random state; none outside training or where nothing is ever dropped.
inline absl::Status DropLayer(LayerContext& c, absl::string_view op, double rate) {
  SNUG_RETURN_IF_ERROR(c.CheckInputs(1));
  SNUG_RETURN_IF_ERROR(CheckDropRate(rate));
  const bool drops = c.training() && rate > 0;
  c.SetOutput(0, drops ? c.Op(op, {c.input(0), c.RandomState()}, c.options_handle()) : c.input(0));
  return c.status();
}

}  // namespace snug::core
