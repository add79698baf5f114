#include "engine/compile/memory/dynamic_memory.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "engine/base/status.h"
#include "memory/in_place.h"
#include "memory/share/blocks.h"

namespace snug::core {
namespace {

// Chunks of the first step influence those of the second; after that nothing changes, as a rule.
constexpr int kPredictedSteps = 8;

// Makes values that the user holds resident: they are there from the first task to the last, and nobody shares their
// bytes.
memory::Tasks WithHeld(const memory::Tasks& tasks, bool inplace) {
  memory::Tasks result = tasks;
  for (memory::TaskValue& value : result.values) value.resident |= value.producer < 0 || value.fetched;
  if (!inplace) result.in_place.clear();
  std::erase_if(result.in_place, [&](const memory::TaskInPlace& pair) {
    return result.values[static_cast<size_t>(pair.output)].resident ||
           result.values[static_cast<size_t>(pair.input)].resident;
  });
  return result;
}

absl::string_view HeldAs(const memory::TaskValue& value) {
  if (value.producer >= 0) return "fetched";
  return value.fetched ? "fed and fetched" : "fed";
}

std::vector<DynamicMemory::ValueBlock> BlocksOf(const memory::Tasks& tasks, const memory::Problem& problem,
                                                const memory::Folded& folded) {
  std::vector<DynamicMemory::ValueBlock> blocks(folded.problem.buffers.size());
  std::vector<const memory::Buffer*> first(blocks.size()), last(blocks.size());  // the first and the last value of each
                                                                                 // block
  for (size_t v = 0; v < tasks.values.size(); ++v) {
    const auto b = static_cast<size_t>(folded.buffer_of[v]);
    const memory::Buffer* const buffer = &problem.buffers[v];
    if (first[b] == nullptr || buffer->first < first[b]->first) first[b] = buffer;
    if (last[b] == nullptr || buffer->first > last[b]->first) last[b] = buffer;
    blocks[b].held |= tasks.values[v].resident;
    if (tasks.values[v].resident) blocks[b].held_as = HeldAs(tasks.values[v]);
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    blocks[b].name = first[b] == last[b] ? first[b]->name : absl::StrCat(first[b]->name, " .. ", last[b]->name);
    blocks[b].bytes = folded.problem.buffers[b].size_bytes;
  }
  return blocks;
}

std::vector<int64_t> BytesOf(const DynamicMemory& memory) {
  std::vector<int64_t> bytes;
  for (const DynamicMemory::ValueBlock& block : memory.blocks) bytes.push_back(block.uses == 0 ? 0 : block.bytes);
  return bytes;
}

absl::Status WithVariables(const absl::Status& status, int64_t state_bytes, int64_t limit) {
  if (limit == 0 || !absl::IsResourceExhausted(status)) return status;
  return absl::ResourceExhaustedError(absl::StrCat(status.message(), "\n  the Variables take ", state_bytes,
                                                   " bytes more of the limit, which is ", limit, " bytes in all"));
}

}  // namespace

memory::Place PlaceOf(Device device) {
  return device.kind == Device::Kind::kCuda ? memory::Place::Cuda(device.index) : memory::Place::Cpu();
}

DynamicMemory FindBlocks(const StepTasks& tasks, const memory::TaskOrder& given, const DynamicMemoryOptions& options,
                         memory::TaskPlan* step) {
  const memory::Tasks held = WithHeld(tasks.tasks, options.inplace);
  step->order = given;
  step->problem = memory::LifetimesOf(held, given);
  const memory::Folded folded = memory::Fold(step->problem, memory::SmallerOutputs::kAlways);
  step->placement = memory::WithBound(step->problem, memory::Unfold(folded, memory::PlanNone(folded.problem)));

  DynamicMemory result{
      .options = options, .blocks = BlocksOf(held, step->problem, folded), .block_of_buffer = folded.buffer_of};
  result.steps.resize(given.size());
  std::vector<int32_t> position(given.size());
  for (size_t at = 0; at < given.size(); ++at) position[static_cast<size_t>(given[at])] = static_cast<int32_t>(at);
  const auto step_of = [&](int32_t task) -> DynamicMemory::StepBlocks& {
    return result.steps[static_cast<size_t>(position[static_cast<size_t>(task)])];
  };
  for (size_t v = 0; v < held.values.size(); ++v) {
    const memory::TaskValue& value = held.values[v];
    const int32_t block = folded.buffer_of[v];
    if (tasks.kind_of_buffer[v] == MemoryKind::kWorkspace) {
      step_of(value.producer).workspace = block;
      continue;
    }
    if (result.blocks[static_cast<size_t>(block)].held) continue;
    step_of(value.producer).uses.push_back(block);
    for (const int32_t reader : value.readers) step_of(reader).uses.push_back(block);
  }
  for (DynamicMemory::StepBlocks& blocks : result.steps) {
    std::sort(blocks.uses.begin(), blocks.uses.end());
    blocks.uses.erase(std::unique(blocks.uses.begin(), blocks.uses.end()), blocks.uses.end());
    for (const int32_t block : blocks.uses) ++result.blocks[static_cast<size_t>(block)].uses;
  }
  for (size_t b = 0; b < result.blocks.size(); ++b) {
    if (result.blocks[b].held) continue;
    result.steps[static_cast<size_t>(folded.problem.buffers[b].first)].takes.push_back(static_cast<int32_t>(b));
  }
  const auto size_first = [&](int32_t block) {
    return std::tuple(-result.blocks[static_cast<size_t>(block)].bytes, block);
  };
  for (DynamicMemory::StepBlocks& blocks : result.steps) {
    std::sort(blocks.takes.begin(), blocks.takes.end(),
              [&](int32_t a, int32_t b) { return size_first(a) < size_first(b); });
  }
  return result;
}

BlockCounts::BlockCounts(const DynamicMemory& memory)
    : memory_(memory), counts_(memory.blocks.size()), collector_(memory.options.garbage, BytesOf(memory)) {
  Reset();
}

void BlockCounts::Reset() {
  for (size_t b = 0; b < counts_.size(); ++b) counts_[b].store(memory_.blocks[b].uses, std::memory_order_relaxed);
}

std::vector<memory::AllocatorEvent> EventsOf(const DynamicMemory& memory, int steps) {
  using Action = memory::AllocatorEvent::Action;
  std::vector<memory::AllocatorEvent> events;
  const auto take = [&](int32_t block) {
    const DynamicMemory::ValueBlock& taken = memory.blocks[static_cast<size_t>(block)];
    events.push_back({.action = Action::kAllocate,
                      .block = block,
                      .bytes = taken.bytes,
                      .name = taken.name,
                      .held_as = taken.held_as});
  };
  const auto free = [&](int32_t block) { events.push_back({.action = Action::kFree, .block = block}); };
  for (size_t b = 0; b < memory.blocks.size(); ++b) {
    if (memory.blocks[b].held) take(static_cast<int32_t>(b));
  }
  BlockCounts counts(memory);
  for (int i = 0; i < steps; ++i) {
    for (size_t step = 0; step < memory.steps.size(); ++step) {
      for (const int32_t block : memory.steps[step].takes) take(block);
      counts.StepDone(step, free);
    }
    counts.EndRun(free);
  }
  return events;
}

absl::StatusOr<memory::AllocatorOptions> OptionsBeside(const memory::AllocatorOptions& options, int64_t state_bytes) {
  memory::AllocatorOptions result = options;
  if (options.memory_limit == 0) return result;
  if (options.memory_limit <= state_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("out of memory: the Variables take ", state_bytes,
                                                     " bytes, the memory limit is ", options.memory_limit, " bytes"));
  }
  result.memory_limit -= state_bytes;
  return result;
}

absl::StatusOr<memory::AllocatorStatistics> Predict(const DynamicMemory& memory, int64_t state_bytes,
                                                    int64_t free_bytes) {
  const memory::AllocatorOptions& options = memory.options.allocator;
  SNUG_ASSIGN_OR_RETURN(const memory::AllocatorOptions beside, OptionsBeside(options, state_bytes));
  absl::StatusOr<memory::AllocatorStatistics> statistics =
      memory::Simulate(EventsOf(memory, kPredictedSteps), beside, {memory.place, free_bytes});
  if (!statistics.ok()) return WithVariables(statistics.status(), state_bytes, options.memory_limit);
  return statistics;
}

}  // namespace snug::core
