// Checks that an optimizer's numbers make sense: with a learning rate of nan, training would fail silently.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include "engine/base/dtype.h"
#include "proto/option_places.h"

namespace snug::proto {
class Optimizer;
}

namespace snug::core {

// What Optimizer.state is for 8 bits a number; the others are names of types.
inline constexpr absl::string_view kStateIn8Bits = "8bit";

// Fails with InvalidArgument that names the option, and where it was written: `optimizer.sgd.momentum: expected ...,
// found ...`.
absl::Status CheckOptimizer(const proto::Optimizer& optimizer, const OptionPlaces& places);
// Checks what an optimizer keeps beside parameters that are computed with in `precision`: once the options are
// complete.
absl::Status CheckState(const proto::Optimizer& optimizer, DType precision, const OptionPlaces& places);

}  // namespace snug::core
