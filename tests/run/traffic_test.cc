#include "engine/run/observe/traffic.h"

#include <gtest/gtest.h>

namespace snug::core {
namespace {

Slot At(Arena arena, int64_t offset) { return {.arena = arena, .offset = offset}; }

// A Step over vectors of ten floats.
Step StepOf(std::vector<Slot> inputs, std::vector<Slot> outputs) {
  Step step;
  const ValueType type = {.dtype = DType::kFloat32, .shape = Shape({10})};
  step.types.inputs.assign(inputs.size(), type);
  step.types.outputs.assign(outputs.size(), type);
  step.inputs = std::move(inputs);
  step.outputs = std::move(outputs);
  return step;
}

TEST(Traffic, ASecondReaderIsMoreThanTheLeast) {
  Executable executable;
  const Slot x = At(Arena::kStep, 0), y = At(Arena::kStep, 64), z = At(Arena::kStep, 128);
  executable.steps = {StepOf({}, {x}), StepOf({x}, {y}), StepOf({x, y}, {z})};
  EXPECT_EQ(TrafficOf(executable).moved, 6 * 40);
  EXPECT_EQ(TrafficOf(executable).least, 5 * 40);
}

TEST(Traffic, ReusedBytesHoldAnotherValue) {
  Executable executable;
  const Slot x = At(Arena::kStep, 0), y = At(Arena::kStep, 64);
  executable.steps = {StepOf({}, {x}), StepOf({x}, {y}), StepOf({y}, {x}), StepOf({x}, {y})};
  EXPECT_EQ(TrafficOf(executable).moved, 7 * 40);
  EXPECT_EQ(TrafficOf(executable).least, 7 * 40);
}

TEST(Traffic, AVariableThatIsUpdatedIsReadAndWritten) {
  Executable executable;
  const Slot weight = At(Arena::kState, 0), gradient = At(Arena::kStep, 0), absent = {};
  Step update = StepOf({weight, gradient, absent}, {});
  update.accesses = {{{static_cast<int32_t>(Arena::kState), 0, 40}, /*write=*/true},
                     {{static_cast<int32_t>(Arena::kStep), 0, 40}, /*write=*/false}};
  executable.steps = {StepOf({weight}, {gradient}), update};
  EXPECT_EQ(TrafficOf(executable).moved, 5 * 40);
  EXPECT_EQ(TrafficOf(executable).least, 4 * 40);
}

}  // namespace
}  // namespace snug::core
