#include "tools/cli/bench/scaling.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/run/observe/scaling.h"
#include "ops/graph_builder.h"
#include "ops/machine_rates.h"
#include "ops/registry.h"

namespace snug::core::cli {
namespace {

// Adds up the times of Steps under the nodes that wanted them: with other threads, other reorders may be needed.
std::map<std::string, NodeTimes> TimesByNode(const StepTimer& timer) {
  const Compiled& compiled = timer.session().compiled();
  const std::vector<double> seconds = timer.Fastest().kernel_seconds;
  std::map<std::string, NodeTimes> nodes;
  for (size_t i = 0; i < seconds.size(); ++i) {
    const Step& step = compiled.executable.steps[i];
    const NodeId wanted = compiled.kernels[static_cast<size_t>(step.node.index)].inserted_for;
    const Node& node = compiled.graph.node(wanted.valid() ? wanted : step.node);
    NodeTimes& times = nodes[node.name];
    times.op = node.op;
    times.seconds.one += seconds[i];
    times.bytes += CostOf(OpRegistry::Builtin().Get(compiled.graph.node(step.node).op), step.types).bytes;
  }
  return nodes;
}

}  // namespace

absl::Status BenchScaling(const std::string& network,
                          const std::function<absl::StatusOr<std::unique_ptr<StepTimer>>(int threads)>& timer,
                          int threads, double seconds, bool json) {
  constexpr int kLeastSteps = 5;
  threads = std::max(threads, 2);
  std::vector<int> counts = {1, 2};
  if (threads > 2) counts.push_back(threads);
  std::vector<std::unique_ptr<StepTimer>> timers;
  std::vector<StepTimer*> all;
  for (const int count : counts) {
    SNUG_ASSIGN_OR_RETURN(timers.emplace_back(), timer(count));
    timers.back()->TimeKernels();
    all.push_back(timers.back().get());
  }
  SNUG_RETURN_IF_ERROR(StepInTurn(all, seconds * static_cast<double>(all.size()), kLeastSteps));

  std::map<std::string, NodeTimes> nodes = TimesByNode(*timers[0]);
  for (const auto& [name, times] : TimesByNode(*timers[1])) nodes[name].seconds.two = times.seconds.one;
  for (const auto& [name, times] : TimesByNode(*timers.back())) nodes[name].seconds.all = times.seconds.one;
  std::vector<NodeTimes> rows;
  for (auto& [name, times] : nodes) rows.push_back(std::move(times));
  ByThreads copy = {.one = CopyBytesPerSecond(1, kBeyondCaches), .two = CopyBytesPerSecond(2, kBeyondCaches)};
  copy.all = threads > 2 ? CopyBytesPerSecond(threads, kBeyondCaches) : copy.two;
  const ByThreads step = {timers[0]->Fastest().seconds, timers[1]->Fastest().seconds, timers.back()->Fastest().seconds};
  const Scaling scaling(rows, step, threads, copy);

  const Compiled& compiled = timers[0]->session().compiled();
  if (json) {
    Json out;
    out.Object().Key("network").String(network).Key("batch").Number(compiled.batch);
    out.Key("threads").Number(int64_t{threads});
    scaling.WriteJson(out);
    out.End();
    std::puts(out.text().c_str());
  } else {
    absl::PrintF("%s, batch %d; the fastest steps, in turn on %s threads\n%s", network, compiled.batch,
                 threads > 2 ? absl::StrFormat("1, 2 and %d", threads) : "1 and 2", scaling.Table());
  }
  return absl::OkStatus();
}

}  // namespace snug::core::cli
