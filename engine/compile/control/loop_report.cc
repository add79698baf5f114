#include "engine/compile/control/loop_report.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>

#include "engine/base/text/json.h"
#include "engine/compile/control/rolled_loop.h"
#include "engine/compile/pipeline.h"

namespace snug::core {
namespace {

std::string ChoiceText(const LoopChoice& loop, const Compiled& compiled) {
  if (loop.of_branch) {
    return absl::StrCat("body \"", loop.name, "\" of a branch: ", loop.nodes, loop.nodes == 1 ? " node" : " nodes",
                        ", which run if it is taken\n");
  }
  std::string text = absl::StrCat("loop \"", loop.name, "\": ", loop.bound ? "at most " : "", loop.rounds,
                                  loop.rounds == 1 ? " round of " : " rounds of ", loop.nodes,
                                  loop.nodes == 1 ? " node, " : " nodes, ", loop.rolled ? "rolled" : "unrolled");
  if (!loop.rolled && compiled.device.kind == Device::Kind::kCuda) absl::StrAppend(&text, ", as a GPU runs no rounds");
  if (loop.chunk > 0) absl::StrAppend(&text, "; gradients compute ", loop.chunk, " rounds at a time anew");
  if (!loop.why_not.empty()) absl::StrAppend(&text, "; gradients compute no rounds anew: ", loop.why_not);
  return text + "\n";
}

bool HasStash(const LoopChoice& loop) { return loop.stash_bytes + loop.chunk_stash_bytes > 0; }

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
  absl::StrAppend(&text, StashText(compiled));
  AddNodes(compiled, "", &text);
  return text;
}

std::string StashText(const Compiled& compiled) {
  std::string text;
  int64_t kept = 0, at_once = 0;
  for (const LoopChoice& loop : compiled.loops) {
    if (!HasStash(loop)) continue;
    kept += loop.stash_bytes;
    at_once = std::max(at_once, loop.chunk_stash_bytes);
    if (loop.of_branch) {
      absl::StrAppend(&text, "stash of body \"", loop.name, "\": ", loop.stash_bytes, " bytes");
      if (loop.chunk_stash_bytes > 0) absl::StrAppend(&text, ", and ", loop.chunk_stash_bytes, " of loops in it");
      absl::StrAppend(&text, "\n");
      continue;
    }
    const std::string rounds = absl::StrCat(loop.bound ? "at most " : "", loop.rounds, " rounds");
    absl::StrAppend(&text, "stash of loop \"", loop.name, "\": ");
    if (loop.chunk > 0) {
      absl::StrAppend(&text, loop.stash_bytes, " bytes of one in every ", loop.chunk, " of ", rounds, ", and ",
                      loop.chunk_stash_bytes, " while the gradients of ", loop.chunk, " are computed\n");
    } else {
      absl::StrAppend(&text, loop.stash_bytes, " bytes of all of ", rounds);
      if (loop.chunk_stash_bytes > 0) absl::StrAppend(&text, ", and ", loop.chunk_stash_bytes, " within a round");
      absl::StrAppend(&text, "\n");
    }
  }
  if (!text.empty()) absl::StrAppend(&text, "stashes of loops and branches: ", kept + at_once, " bytes at most\n");
  return text;
}

void WriteLoops(const Compiled& compiled, Json& json) {
  json.Key("loops").Array();
  for (const LoopChoice& loop : compiled.loops) {
    json.Object().Key("name").String(loop.name).Key("rounds").Number(loop.rounds).Key("nodes").Number(loop.nodes);
    json.Key("bound").Bool(loop.bound).Key("rolled").Bool(loop.rolled).Key("of_branch").Bool(loop.of_branch);
    json.Key("chunk").Number(loop.chunk);
    json.Key("stash_bytes").Number(loop.stash_bytes).Key("chunk_stash_bytes").Number(loop.chunk_stash_bytes).End();
  }
  json.End();
}

}  // namespace snug::core
