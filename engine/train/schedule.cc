#include <algorithm>
#include <cmath>

#include "engine/train/training_options.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

// Goes from `a` at 0 to `b` at 1 along half a cosine.
double CosineBetween(double a, double b, double at) { return b + (a - b) * 0.5 * (1 + std::cos(std::acos(-1.0) * at)); }

double OneCycleAt(const proto::OneCycleRate& cycle, double at) {
  const double peak = cycle.peak_at();
  if (at < peak) return CosineBetween(cycle.initial(), 1, at / peak);
  return peak >= 1 ? 1 : CosineBetween(1, cycle.final(), (at - peak) / (1 - peak));
}

// `at` is the share of the training that is done, from 0 to 1.
double FactorAt(const proto::Schedule& schedule, double at) {
  switch (schedule.kind_case()) {
    case proto::Schedule::kStaircase: {
      double factor = 1;
      for (const double fall : schedule.staircase().at()) factor *= at >= fall ? schedule.staircase().factor() : 1;
      return factor;
    }
    case proto::Schedule::kCosine:
      return CosineBetween(1, schedule.cosine().final(), at);
    case proto::Schedule::kLinear:
      return 1 + (schedule.linear().final() - 1) * at;
    case proto::Schedule::kOneCycle:
      return OneCycleAt(schedule.one_cycle(), at);
    case proto::Schedule::kConstant:
    case proto::Schedule::kPlateau:
    case proto::Schedule::KIND_NOT_SET:
      break;
  }
  return 1;
}

}  // namespace

double LearningRateFactor(const proto::Schedule& schedule, int64_t step, int64_t steps) {
  const int64_t warm_up = std::min(schedule.warm_up(), steps);
  if (step < warm_up) {
    return FactorAt(schedule, 0) * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  }
  const int64_t rest = steps - warm_up;
  // The last step is at 1, so that the schedule's final value is used once.
  const double at = rest <= 1 ? 0 : static_cast<double>(step - warm_up) / static_cast<double>(rest - 1);
  return FactorAt(schedule, std::min(at, 1.0));
}

}  // namespace snug::core
