#include "snug/internal/plan_report.h"

#include "engine/base/text/json.h"
#include "engine/compile/memory/memory_report.h"

namespace snug {
inline namespace v0 {
namespace embed {
namespace {

// Whatever is written after this is beside the buffer's name, kind, size and place.
void BeginBuffer(core::Json& json, const core::memory::Buffer& buffer, core::MemoryKind kind, int64_t offset,
                 absl::string_view op) {
  json.Object().Key("name").String(buffer.name).Key("op").String(op).Key("kind").String(core::MemoryKindName(kind));
  json.Key("bytes").Number(buffer.size_bytes).Key("offset").Number(offset);
}

void WriteVariables(core::Json& json, const core::Compiled& compiled) {
  const core::MemoryPlan& plan = compiled.executable.memory;
  json.Key("variables").Array();
  for (size_t i = 0; i < plan.state_problem.buffers.size(); ++i) {
    BeginBuffer(json, plan.state_problem.buffers[i], compiled.tasks.kind_of_variable[i], plan.state_plan.offsets[i],
                "variable");
    json.End();
  }
  json.End();
}

void WriteBuffers(core::Json& json, const core::Compiled& compiled) {
  const core::memory::TaskPlan& step = compiled.executable.memory.step;
  json.Key("buffers").Array();
  for (size_t i = 0; i < step.problem.buffers.size(); ++i) {
    const core::memory::Buffer& buffer = step.problem.buffers[i];
    const int32_t task = compiled.tasks.tasks.values[i].producer;
    const absl::string_view op =
        task < 0 ? absl::string_view("input")
                 : absl::string_view(compiled.graph.node(compiled.tasks.node_of_task[static_cast<size_t>(task)]).op);
    BeginBuffer(json, buffer, compiled.tasks.kind_of_buffer[i], step.placement.plan.offsets[i], op);
    json.Key("first").Number(static_cast<int64_t>(buffer.first));
    json.Key("last").Number(static_cast<int64_t>(buffer.last)).End();
  }
  json.End();
}

}  // namespace

std::string PlanReport(const core::Compiled& compiled) {
  const core::MemoryPlan& plan = compiled.executable.memory;
  const core::MemoryReport report = core::ReportOf(compiled.tasks, plan);
  core::Json json;
  json.Object().Key("network").String(compiled.graph.name).Key("batch").Number(compiled.batch);
  json.Key("mode").String(compiled.training ? "training" : "forward").Key("strategy").String(plan.strategy);
  json.Key("state").Number(plan.state_plan.arena_bytes).Key("step").Number(plan.step_bytes());
  json.Key("total").Number(plan.total_bytes()).Key("lower_bound").Number(plan.lower_bound());
  json.Key("proven").Bool(plan.proven()).Key("seconds").Number(plan.seconds);
  // What is live at the peak, by what it is for.
  for (int kind = 0; kind < core::kMemoryKinds; ++kind) {
    json.Key(core::MemoryKindName(static_cast<core::MemoryKind>(kind))).Number(report.bytes[static_cast<size_t>(kind)]);
  }
  json.Key("peak").Object().Key("position").Number(static_cast<int64_t>(report.peak)).End();
  // Dynamic memory has no addresses to tell.
  json.Key("planned").Bool(!plan.dynamic.has_value());
  if (!plan.dynamic.has_value()) {
    WriteVariables(json, compiled);
    WriteBuffers(json, compiled);
    json.Key("order").Array();
    for (const int32_t task : plan.step.order) json.String(compiled.tasks.tasks.names[static_cast<size_t>(task)]);
    json.End();
  }
  json.End();
  return json.text();
}

}  // namespace embed
}  // namespace v0
}  // namespace snug
