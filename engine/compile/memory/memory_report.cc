#include "engine/compile/memory/memory_report.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace snug::core {
namespace {

bool IsLive(const memory::Buffer& buffer, bool written_over, int32_t position) {
  return buffer.first <= position && position <= buffer.last - (written_over ? 1 : 0);
}

}  // namespace

std::vector<char> WrittenOver(const memory::TaskPlan& step) {
  const memory::Problem& problem = step.problem;
  const memory::Plan& plan = step.placement.plan;
  std::vector<char> result(problem.buffers.size(), 0);
  for (const memory::InPlace& pair : problem.in_place) {
    const auto output = static_cast<size_t>(pair.output);
    const auto input = static_cast<size_t>(pair.input);
    const int64_t output_end = plan.offsets[output] + problem.buffers[output].size_bytes;
    const int64_t input_end = plan.offsets[input] + problem.buffers[input].size_bytes;
    if (plan.offsets[output] < input_end && plan.offsets[input] < output_end) result[input] = 1;
  }
  return result;
}

MemoryReport ReportOf(const StepTasks& tasks, const MemoryPlan& plan) {
  const memory::Problem& problem = plan.step.problem;
  const std::vector<char> written_over = WrittenOver(plan.step);
  // Fetched buffers live one position longer than there are tasks, hence one more entry.
  std::vector<int64_t> change(plan.step.order.size() + 2, 0);
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    const memory::Buffer& buffer = problem.buffers[i];
    change[static_cast<size_t>(buffer.first)] += buffer.size_bytes;
    change[static_cast<size_t>(buffer.last + (written_over[i] ? 0 : 1))] -= buffer.size_bytes;
  }
  MemoryReport report;
  int64_t live = 0;
  for (size_t position = 0; position < change.size(); ++position) {
    live += change[position];
    if (live <= report.step_bytes) continue;
    report.step_bytes = live;
    report.peak = static_cast<int32_t>(position);
  }
  for (size_t i = 0; i < problem.buffers.size(); ++i) {
    if (!IsLive(problem.buffers[i], written_over[i] != 0, report.peak)) continue;
    report.bytes[static_cast<size_t>(tasks.kind_of_buffer[i])] += problem.buffers[i].size_bytes;
  }
  for (size_t i = 0; i < plan.state_problem.buffers.size(); ++i) {
    report.bytes[static_cast<size_t>(tasks.kind_of_variable[i])] += plan.state_problem.buffers[i].size_bytes;
  }
  return report;
}

std::vector<HeldValue> HeldByUser(const Executable& executable) {
  std::vector<HeldValue> held;
  std::map<std::tuple<Arena, int32_t, int64_t>, size_t> known;  // keyed by where it lies
  const auto add = [&](const Endpoint& endpoint, const char* as) {
    const Slot& slot = endpoint.slot;
    if (slot.offset < 0 || slot.arena == Arena::kState) return;
    const auto [at, is_new] = known.emplace(std::tuple(slot.arena, slot.block, slot.offset), held.size());
    if (is_new) {
      const bool bound = slot.arena == Arena::kCaller;
      held.push_back({endpoint.name, bound ? "bound" : as, endpoint.type.size_bytes()});
    } else if (held[at->second].as == "fed") {
      held[at->second].as = "fed and fetched";
    }
  };
  for (const Endpoint& input : executable.inputs) {
    if (input.kept || input.slot.arena == Arena::kCaller) add(input, "fed");
  }
  for (const Endpoint& output : executable.outputs) add(output, "fetched");
  return held;
}

std::vector<int32_t> LiveAt(const MemoryPlan& plan, int32_t position) {
  const std::vector<memory::Buffer>& buffers = plan.step.problem.buffers;
  const std::vector<char> written_over = WrittenOver(plan.step);
  std::vector<int32_t> live;
  for (size_t i = 0; i < buffers.size(); ++i) {
    if (IsLive(buffers[i], written_over[i] != 0, position)) live.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(live.begin(), live.end(), [&](int32_t a, int32_t b) {
    return buffers[static_cast<size_t>(a)].size_bytes > buffers[static_cast<size_t>(b)].size_bytes;
  });
  return live;
}

}  // namespace snug::core
