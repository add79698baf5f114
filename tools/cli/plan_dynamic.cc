#include <absl/strings/str_format.h>

#include <vector>

#include "engine/base/text/json.h"
#include "engine/compile/memory/memory_settings.h"
#include "tools/cli/plan.h"

namespace snug::core::cli {
namespace {

// Returns the largest values that are live at the step's peak, each block once.
std::vector<int32_t> LargestAt(const Compiled& compiled, int32_t position, int64_t top) {
  std::vector<int32_t> live = LiveAt(compiled.executable.memory, position);
  if (live.size() > static_cast<size_t>(top)) live.resize(static_cast<size_t>(top));
  return live;
}

std::string NodeAt(const Compiled& compiled, int32_t position) {
  const memory::TaskOrder& order = compiled.executable.memory.step.order;
  if (static_cast<size_t>(position) >= order.size()) return "after the last node";
  return compiled.tasks.tasks.names[static_cast<size_t>(order[static_cast<size_t>(position)])];
}

void Write(Json& json, const std::string& value) { json.String(value); }
void Write(Json& json, double value) { json.Number(value); }
void Write(Json& json, int64_t value) { json.Number(value); }
void Write(Json& json, bool value) { json.Bool(value); }

}  // namespace

std::string DynamicPlanText(const Compiled& compiled, const MemoryReport& report, int64_t top) {
  const MemoryPlan& plan = compiled.executable.memory;
  const DynamicMemory& dynamic = *plan.dynamic;
  const memory::AllocatorStatistics& predicted = dynamic.predicted;
  std::string text = absl::StrFormat(
      "%s, batch %d, %s\n\nno plan: %d values in %d blocks\n\nthe peak: position %d of %d, %s; the largest values:\n"
      "         bytes  live        kind        name\n",
      compiled.graph.name, compiled.batch, compiled.training ? "training" : "forward only",
      plan.step.problem.buffers.size(), dynamic.blocks.size(), report.peak, plan.step.order.size(),
      NodeAt(compiled, report.peak));
  for (const int32_t i : LargestAt(compiled, report.peak, top)) {
    const memory::Buffer& buffer = plan.step.problem.buffers[static_cast<size_t>(i)];
    absl::StrAppendFormat(&text, "%14d  %-11s %-11s %s\n", buffer.size_bytes,
                          absl::StrFormat("%d-%d", buffer.first, buffer.last),
                          MemoryKindName(compiled.tasks.kind_of_buffer[static_cast<size_t>(i)]), buffer.name);
  }
  absl::StrAppendFormat(&text, "\nallocator      %s\n", dynamic.options.allocator.allocator);
  absl::StrAppendFormat(&text, "state arena    %14d bytes\n", plan.state_plan.arena_bytes);
  absl::StrAppendFormat(&text, "in use         %14d bytes at most, predicted by simulation\n",
                        predicted.peak_used_bytes);
  absl::StrAppendFormat(&text, "reserved       %14d bytes at most, by simulation\n", predicted.peak_reserved_bytes);
  absl::StrAppendFormat(&text, "total          %14d bytes, %.3f MB\n", plan.total_bytes(),
                        static_cast<double>(plan.total_bytes()) * 1e-6);
  absl::StrAppendFormat(&text, "lower bound    %14d bytes, over this order\n", plan.lower_bound());
  absl::StrAppendFormat(&text, "fragmentation  %14.2f %% of what is reserved\n", 100 * predicted.Fragmentation());
  if (compiled.executable.schedule.count() > 1) {
    absl::StrAppendFormat(&text, "on %d workers more may be live at once than one after the other, as predicted here\n",
                          compiled.executable.schedule.count());
  }
  return text;
}

std::string DynamicPlanJson(const Compiled& compiled, const MemoryReport& report, int64_t top) {
  const MemoryPlan& plan = compiled.executable.memory;
  const memory::AllocatorStatistics& predicted = plan.dynamic->predicted;
  Json json;
  json.Object().Key("network").String(compiled.graph.name).Key("batch").Number(compiled.batch);
  json.Key("mode").String(compiled.training ? "training" : "forward").Key("strategy").String(plan.strategy);
  json.Key("options").Object();
  ForEachOption(plan.dynamic->options, [&json](const char* name, const auto& value) { Write(json.Key(name), value); });
  json.End();
  json.Key("state").Number(plan.state_plan.arena_bytes).Key("used").Number(predicted.peak_used_bytes);
  json.Key("reserved").Number(predicted.peak_reserved_bytes).Key("total").Number(plan.total_bytes());
  json.Key("lower_bound").Number(plan.lower_bound()).Key("fragmentation").Number(predicted.Fragmentation());
  json.Key("peak").Object().Key("position").Number(static_cast<int64_t>(report.peak));
  json.Key("node").String(NodeAt(compiled, report.peak)).Key("top").Array();
  for (const int32_t i : LargestAt(compiled, report.peak, top)) {
    const memory::Buffer& buffer = plan.step.problem.buffers[static_cast<size_t>(i)];
    json.Object().Key("name").String(buffer.name).Key("bytes").Number(buffer.size_bytes).End();
  }
  json.End().End().Key("blocks").Array();
  for (const DynamicMemory::ValueBlock& block : plan.dynamic->blocks) {
    json.Object().Key("name").String(block.name).Key("bytes").Number(block.bytes).Key("held").Bool(block.held).End();
  }
  json.End().End();
  return json.text();
}

}  // namespace snug::core::cli
