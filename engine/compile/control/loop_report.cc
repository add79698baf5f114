#include "engine/compile/control/loop_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/pipeline.h"

namespace snug::core {
namespace {

std::string ChoiceText(const LoopChoice& loop, const Compiled& compiled) {
  std::string text =
      absl::StrCat("loop \"", loop.name, "\": ", loop.rounds, loop.rounds == 1 ? " round of " : " rounds of ",
                   loop.nodes, loop.nodes == 1 ? " node, " : " nodes, ", loop.rolled ? "rolled" : "unrolled");
  if (!loop.rolled && compiled.device.kind == Device::Kind::kCuda) absl::StrAppend(&text, ", as a GPU runs no rounds");
  if (loop.chunk > 0) absl::StrAppend(&text, "; gradients compute ", loop.chunk, " rounds at a time anew");
  if (!loop.why_not.empty()) absl::StrAppend(&text, "; gradients compute no rounds anew: ", loop.why_not);
  return text + "\n";
}

void AddNodes(const Compiled& compiled, const std::string& around, std::string* text) {
  for (const NodeId id : compiled.graph.ProgramOrder()) {
    const RolledLoop* const loop = RolledLoopOf(compiled.kernels[static_cast<size_t>(id.index)]);
    if (loop == nullptr) continue;
    const std::string name = absl::StrCat(around, compiled.graph.node(id).name);
    absl::StrAppend(text, "node \"", name, "\": ", loop->body().executable.steps.size(), " Steps a round, workspace ",
                    loop->workspace_bytes(), " bytes, of which the body's arena ",
                    loop->body().executable.memory.step_bytes(), " and carries ", loop->carry_bytes(),
                    "; carries alternate between [", absl::StrJoin(loop->CarryBuffers(), ", "), "] buffers\n");
    AddNodes(loop->body(), name + "/", text);
  }
}

}  // namespace

std::string LoopsText(const Compiled& compiled) {
  std::string text;
  for (const LoopChoice& loop : compiled.loops) absl::StrAppend(&text, ChoiceText(loop, compiled));
  AddNodes(compiled, "", &text);
  return text;
}

}  // namespace snug::core
