// The factor of the optimizer's learning rate over a training. It depends on the step alone, so a training that is
// resumed goes on as it would have.
#pragma once

#include <cstdint>

namespace snug::proto {
class Schedule;
}

namespace snug::core {

// Returns the factor for step `step`, from 0, of `steps`. In a warm-up of w steps, step s has (s + 1) / w of the
// schedule's first factor.
double LearningRateFactor(const proto::Schedule& schedule, int64_t step, int64_t steps);

}  // namespace snug::core
