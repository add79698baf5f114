#include "engine/run/profiler.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "ops/graph_builder.h"

namespace snug {
namespace {

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Profiler::Profiler(Session& session, const OpRegistry& registry) : session_(session) {
  const Graph& graph = session.compiled().graph;
  for (const Step& step : session.compiled().executable.steps) {
    const Node& node = graph.node(step.node);
    const Cost cost = CostOf(registry.Get(node.op), step.types);
    steps_.push_back({.name = node.name, .calls = 1, .flops = cost.flops, .bytes = cost.bytes});
    ops_.push_back(node.op);
  }
  session.executor().SetObserver([this](size_t step) {
    const int64_t now = Now();
    steps_[step].seconds += static_cast<double>(now - last_ns_) * 1e-9;
    last_ns_ = now;
  });
}

Profiler::~Profiler() { session_.executor().SetObserver(nullptr); }

void Profiler::BeginStep() {
  ++runs_;
  last_ns_ = Now();
}

std::string Profiler::Format(std::vector<Row> rows, size_t most) const {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  double total = 0;
  for (const Row& row : rows) total += row.seconds;
  std::string text =
      absl::StrFormat("%-44s %6s %11s %7s %9s %8s\n", "", "calls", "ms/step", "share", "GFLOP/s", "GB/s");
  for (size_t i = 0; i < std::min(most, rows.size()); ++i) {
    const Row& row = rows[i];
    const double seconds = row.seconds / static_cast<double>(std::max<int64_t>(runs_, 1));
    absl::StrAppendFormat(&text, "%-44s %6d %11.3f %6.1f%% %9.1f %8.1f\n", row.name.substr(0, 44), row.calls,
                          seconds * 1e3, 100 * row.seconds / total, row.flops / seconds * 1e-9,
                          row.bytes / seconds * 1e-9);
  }
  return text;
}

std::string Profiler::Table(size_t most_nodes) const {
  std::map<std::string, Row> by_op;
  for (size_t i = 0; i < steps_.size(); ++i) {
    Row& row = by_op[ops_[i]];
    row.name = ops_[i];
    ++row.calls;
    row.seconds += steps_[i].seconds;
    row.flops += steps_[i].flops;
    row.bytes += steps_[i].bytes;
  }
  std::vector<Row> ops;
  for (auto& [name, row] : by_op) ops.push_back(row);
  const size_t all = ops.size();
  return Format(std::move(ops), all) + "\n" + Format(steps_, most_nodes);
}

}  // namespace snug
