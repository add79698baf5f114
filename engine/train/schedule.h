// The learning rate over a training: what the optimizer's is multiplied by. A pure function of the step, so a training
// that is resumed goes on as it would have.
#pragma once

#include <cstdint>

namespace snug {

namespace proto {
class Schedule;
}

// Of step `step` of `steps`, from 0. In the warm-up, step s of w is (s + 1) / w of what the schedule says at its start.
double LearningRateFactor(const proto::Schedule& schedule, int64_t step, int64_t steps);

}  // namespace snug
