// Checks that Training options make sense, before anything is compiled, opened or written.
#pragma once

#include <absl/status/status.h>

#include "proto/option_places.h"

namespace snug::proto {
class Training;
}

namespace snug::core {

// Fails with InvalidArgument that names the option, and where it was written: `training.checkpoint.keep: expected ...,
// found ...`.
absl::Status CheckTraining(const proto::Training& training, const OptionPlaces& places = {});

}  // namespace snug::core
