#include "engine/run/executors/bound_steps.h"

#include <utility>

#include "engine/base/status.h"

namespace snug::core {

BoundSteps::BoundSteps(const Executable& executable, const ArenaBytes& arenas, Launches launches)
    : executable_(executable),
      arenas_(arenas),
      launches_(std::move(launches)),
      to_caller_(executable.caller_buffers.size()) {
  size_t total = 0;
  for (const Step& step : executable.steps) total += step.inputs.size() + step.outputs.size();
  pointers_.reserve(total);  // keeps spans of it valid, because it never grows beyond this
  calls_.reserve(executable.steps.size());
  for (const Step& step : executable.steps) {
    const size_t first = pointers_.size();
    const size_t first_moving = moving_.size();
    for (const Slot& slot : step.inputs) AddPointer(slot);
    for (const Slot& slot : step.outputs) AddPointer(slot);
    void* const* const pointers = pointers_.data() + first;
    calls_.push_back({&step.kernel->run, step.prepared.get(), Context(calls_.size(), step.prepared.get(), pointers),
                      pointers, first_moving, moving_.size()});
  }
}

KernelContext BoundSteps::Context(size_t i, const void* prepared, void* const* pointers) const {
  const Step& step = executable_.steps[i];
  return KernelContext(&step.types, {pointers, step.inputs.size()},
                       {pointers + step.inputs.size(), step.outputs.size()}, arenas_.Address(step.workspace), prepared,
                       executable_.threads, step.random_id, launches_.empty() ? nullptr : launches_[i]);
}

void BoundSteps::UseInstead(size_t i) {
  const PreparedKernel& instead = executable_.steps[i].instead;
  Call& call = calls_[i];
  call = {&instead.kernel->run, instead.prepared.get(), Context(i, instead.prepared.get(), call.pointers),
          call.pointers,        call.first_moving,      call.last_moving};
}

void BoundSteps::AddPointer(const Slot& slot) {
  const bool moves = slot.arena == Arena::kBlocks && !arenas_.blocks->held(slot.block);
  if (moves) moving_.push_back({pointers_.size(), slot});
  if (slot.arena == Arena::kCaller) to_caller_[static_cast<size_t>(slot.block)].push_back({pointers_.size(), slot});
  pointers_.push_back(moves ? nullptr : arenas_.Address(slot));
}

void BoundSteps::Rebind(size_t caller_buffer) {
  for (const Moving& to : to_caller_[caller_buffer]) pointers_[to.pointer] = arenas_.Address(to.slot);
}

absl::Status BoundSteps::RunOnTaken(size_t i) {
  const Call& call = calls_[i];
  for (size_t m = call.first_moving; m < call.last_moving; ++m) {
    pointers_[moving_[m].pointer] = arenas_.Address(moving_[m].slot);
  }
  SNUG_RETURN_IF_ERROR((*call.kernel)(Context(i, call.prepared, call.pointers)));
  return arenas_.blocks->StepDone(i);
}

}  // namespace snug::core
