#include "engine/run/observe/traffic.h"

#include <absl/algorithm/container.h>

#include <set>
#include <tuple>

namespace snug::core {
namespace {

using Place = std::tuple<Arena, int32_t, int64_t>;  // arena, block, offset

Place PlaceOf(const Slot& slot) { return {slot.arena, slot.block, slot.offset}; }

// Variables are inputs that a Step may also write.
bool Mutates(const Step& step, const Slot& input) {
  return input.arena == Arena::kState && absl::c_any_of(step.accesses, [&](const Access& access) {
           return access.write && access.region.arena == static_cast<int32_t>(Arena::kState) &&
                  access.region.begin == input.offset;
         });
}

}  // namespace

Traffic TrafficOf(const Executable& executable) {
  Traffic traffic;
  std::set<Place> read;  // since something was written there
  for (const Step& step : executable.steps) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i].offset < 0) continue;
      const auto bytes = static_cast<double>(step.types.inputs[i].size_bytes());
      traffic.moved += bytes;
      if (read.insert(PlaceOf(step.inputs[i])).second) traffic.least += bytes;
      if (!Mutates(step, step.inputs[i])) continue;
      traffic.moved += bytes;
      traffic.least += bytes;
      read.erase(PlaceOf(step.inputs[i]));
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      const auto bytes = static_cast<double>(step.types.outputs[i].size_bytes());
      traffic.moved += bytes;
      traffic.least += bytes;
      read.erase(PlaceOf(step.outputs[i]));
    }
  }
  return traffic;
}

}  // namespace snug::core
