#include <absl/strings/str_cat.h>
#include <absl/strings/string_view.h>

#include <set>
#include <utility>

#include "engine/base/status.h"
#include "engine/compile/control/compile_loop.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/memory/memory_report.h"
#include "engine/compile/memory/tasks.h"
#include "tools/cli/plan.h"

namespace snug::core::cli {
namespace {

// These search for minutes on a real network, so they are drawn only when they are asked for.
bool SearchesLong(absl::string_view strategy) { return strategy == "exact" || strategy == "olla"; }

PictureStrategy DrawStrategy(const Compiled& compiled, const MemoryPlan& plan) {
  const memory::TaskPlan& step = plan.step;
  const memory::Tasks& tasks = compiled.tasks.tasks;
  PictureStrategy picture{.name = plan.strategy,
                          .total = step.placement.plan.arena_bytes,
                          .lower_bound = step.placement.report.lower_bound,
                          .proven = plan.proven(),
                          .seconds = plan.seconds};
  std::vector<int32_t> position(step.order.size());
  for (size_t at = 0; at < step.order.size(); ++at) {
    position[static_cast<size_t>(step.order[at])] = static_cast<int32_t>(at);
    picture.nodes.push_back(tasks.names[static_cast<size_t>(step.order[at])]);
  }
  const std::vector<char> written_over = WrittenOver(step);
  for (size_t i = 0; i < step.problem.buffers.size(); ++i) {
    const memory::Buffer& buffer = step.problem.buffers[i];
    const memory::TaskValue& value = tasks.values[i];
    PictureBuffer drawn{.name = buffer.name,
                        .op = "input",
                        .kind = MemoryKindName(compiled.tasks.kind_of_buffer[i]),
                        .size_bytes = buffer.size_bytes,
                        .offset = step.placement.plan.offsets[i],
                        .first = buffer.first,
                        .last = buffer.last,
                        .written_over = written_over[i] != 0};
    if (value.producer >= 0) {
      const NodeId node = compiled.tasks.node_of_task[static_cast<size_t>(value.producer)];
      drawn.op = compiled.graph.node(node).op;
      drawn.producer = position[static_cast<size_t>(value.producer)];
    }
    std::set<int32_t> readers;
    for (const int32_t reader : value.readers) readers.insert(position[static_cast<size_t>(reader)]);
    drawn.readers.assign(readers.begin(), readers.end());
    picture.buffers.push_back(std::move(drawn));
  }
  return picture;
}

void DrawBodies(const Compiled& compiled, const std::string& around, std::vector<PictureBody>* bodies) {
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
    if (loop == nullptr) continue;
    const std::string name = absl::StrCat(around, compiled.graph.node(id).name);
    bodies->push_back({.loop = name,
                       .rounds = loop->rounds(),
                       .bound = !loop->ends_known(),
                       .workspace_bytes = loop->workspace_bytes(),
                       .plan = DrawStrategy(loop->body(), loop->body().executable.memory)});
    DrawBodies(loop->body(), name + "/", bodies);
  }
}

}  // namespace

absl::StatusOr<Picture> MakePicture(const Compiled& compiled, const MemoryOptions& options, bool beside) {
  const MemoryPlan& chosen = compiled.executable.memory;
  Picture picture{.network = compiled.graph.name,
                  .batch = compiled.batch,
                  .mode = compiled.training ? "training" : "forward only",
                  .state_bytes = chosen.state_plan.arena_bytes,
                  .chosen = chosen.strategy};
  bool drawn = false;
  for (const memory::Strategy& strategy : memory::Strategies()) {
    if (strategy.name == chosen.strategy) {
      picture.strategies.push_back(DrawStrategy(compiled, chosen));
      drawn = true;
    } else if (beside && !SearchesLong(strategy.name)) {
      MemoryOptions other = options;
      other.strategy = std::string(strategy.name);
      other.plan_file.clear();
      Compiled so = compiled;  // with bodies that are planned by the other strategy too
      SNUG_RETURN_IF_ERROR(PlanBodies(so, other.strategy));
      SNUG_ASSIGN_OR_RETURN(const MemoryPlan plan,
                            PlanMemory(so.tasks, GivenOrder(so.graph, so.tasks), so.device, other));
      picture.strategies.push_back(DrawStrategy(so, plan));
    }
  }
  if (!drawn) picture.strategies.push_back(DrawStrategy(compiled, chosen));
  DrawBodies(compiled, "", &picture.bodies);
  return picture;
}

}  // namespace snug::core::cli
