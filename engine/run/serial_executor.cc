#include "engine/run/serial_executor.h"

#include "engine/base/parallel.h"

namespace snug {

SerialExecutor::SerialExecutor(const Executable& executable, std::byte* state_arena, std::byte* step_arena)
    : executable_(executable), state_arena_(state_arena), step_arena_(step_arena) {
  size_t total = 0;
  for (const Step& step : executable.steps) total += step.inputs.size() + step.outputs.size();
  pointers_.reserve(total);  // never grows after this: the spans below stay valid
  calls_.reserve(executable.steps.size());
  for (const Step& step : executable.steps) {
    const size_t first = pointers_.size();
    for (const Slot& slot : step.inputs) pointers_.push_back(Address(slot));
    for (const Slot& slot : step.outputs) pointers_.push_back(Address(slot));
    void* const* pointers = pointers_.data() + first;
    calls_.push_back(
        {step.kernel, KernelContext(&step.types, {pointers, step.inputs.size()},
                                    {pointers + step.inputs.size(), step.outputs.size()}, Address(step.workspace),
                                    step.prepared.get(), executable.threads, step.random_id)});
  }
}

std::byte* SerialExecutor::Address(const Slot& slot) const {
  if (slot.offset < 0) return nullptr;
  return (slot.arena == Arena::kState ? state_arena_ : step_arena_) + slot.offset;
}

absl::Status SerialExecutor::Run(size_t* failed) {
  SetThreadsPerOp(executable_.threads);
  if (poison_ != nullptr) poison_->BeforeSteps();
  for (size_t i = 0; i < calls_.size(); ++i) {
    absl::Status status = calls_[i].kernel(calls_[i].context);
    if (!status.ok()) {
      if (failed != nullptr) *failed = i;
      return status;
    }
    if (observer_) observer_(i);
    if (poison_ != nullptr) poison_->AfterStep(i);
  }
  return absl::OkStatus();
}

}  // namespace snug
