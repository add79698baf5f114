#include "engine/run/observe/profiler.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "engine/run/observe/columns.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

double Seconds(int64_t begin_ns, int64_t end_ns) { return static_cast<double>(end_ns - begin_ns) * 1e-9; }

// A coarse clock may show no time at all.
double Per(double amount, double seconds) { return seconds > 0 ? amount / seconds : 0; }

template <class Timing>
void SlowestFirst(std::vector<Timing>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const Timing& a, const Timing& b) { return a.seconds > b.seconds; });
}

std::string Milliseconds(double seconds) { return absl::StrFormat("%.3f", seconds * 1e3); }
std::string Percent(double part) { return absl::StrFormat("%.1f%%", part * 100); }

// Appends ms, share, GFLOP/s and GB/s.
template <class Timing>
std::vector<std::string> WithRates(std::vector<std::string> words, const Timing& row, double total) {
  words.push_back(Milliseconds(row.seconds));
  words.push_back(Percent(Per(row.seconds, total)));
  words.push_back(absl::StrFormat("%.1f", Per(row.flops, row.seconds) * 1e-9));
  words.push_back(absl::StrFormat("%.1f", Per(row.bytes, row.seconds) * 1e-9));
  return words;
}

template <class Timing>
void WriteRow(const Timing& row, double total, Json& json) {
  json.Key("calls").Number(row.calls).Key("seconds").Number(row.seconds);
  json.Key("share").Number(Per(row.seconds, total)).Key("flops").Number(row.flops).Key("bytes").Number(row.bytes);
  json.Key("gflops_per_second").Number(Per(row.flops, row.seconds) * 1e-9);
  json.Key("gb_per_second").Number(Per(row.bytes, row.seconds) * 1e-9);
}

}  // namespace

Profiler::Profiler(const Compiled& compiled, const OpRegistry& registry)
    : held_(HeldByUser(compiled.executable)),
      traffic_(TrafficOf(compiled.executable)),
      streams_(static_cast<size_t>(compiled.executable.schedule.count())) {
  for (const Step& step : compiled.executable.steps) {
    const Node& node = compiled.graph.node(step.node);
    const Cost cost = CostOf(registry.Get(node.op), step.types);
    sums_.push_back({.name = node.name,
                     .op = node.op,
                     .kernel = compiled.kernels[static_cast<size_t>(step.node.index)].Name(),
                     .calls = 1,
                     .flops = cost.flops,
                     .bytes = cost.bytes});
  }
}

void Profiler::AddStep(absl::Span<const StepTime> times) {
  ++steps_;
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    const StepTime& time = times[i];
    const double busy = core::Seconds(time.begin_ns, time.end_ns);
    sums_[i].seconds += busy;
    sums_[i].stream = time.stream;
    streams_[static_cast<size_t>(time.stream)].busy += busy;
    streams_[static_cast<size_t>(time.stream)].waiting += core::Seconds(time.turn_ns, time.begin_ns);
    begin = std::min(begin, time.turn_ns);
    end = std::max(end, time.end_ns);
  }
  if (!times.empty()) seconds_ += core::Seconds(begin, end);
}

double Profiler::Seconds() const { return seconds_ / static_cast<double>(std::max<int64_t>(steps_, 1)); }

std::vector<double> Profiler::StepSeconds() const {
  std::vector<double> seconds;
  for (const Timing& node : Nodes()) seconds.push_back(node.seconds);
  return seconds;
}

std::vector<Profiler::Timing> Profiler::Nodes() const {
  std::vector<Timing> rows = sums_;
  for (Timing& row : rows) row.seconds /= static_cast<double>(std::max<int64_t>(steps_, 1));
  return rows;
}

std::vector<Profiler::Timing> Profiler::Ops() const {
  std::map<std::string, Timing> by_op;
  for (const Timing& node : Nodes()) {
    Timing& row = by_op[node.op];
    row.name = node.op;
    ++row.calls;
    row.seconds += node.seconds;
    row.flops += node.flops;
    row.bytes += node.bytes;
  }
  std::vector<Timing> rows;
  for (auto& [op, row] : by_op) rows.push_back(std::move(row));
  SlowestFirst(rows);
  return rows;
}

std::vector<Profiler::Stream> Profiler::Streams() const {
  const double steps = static_cast<double>(std::max<int64_t>(steps_, 1));
  std::vector<Stream> streams;
  for (const Stream& sum : streams_) {
    streams.push_back(
        {sum.busy / steps, sum.waiting / steps, std::max(0.0, seconds_ - sum.busy - sum.waiting) / steps});
  }
  return streams;
}

std::string Profiler::Table(size_t most_nodes) const {
  std::vector<Timing> ops = Ops(), nodes = Nodes();
  SlowestFirst(nodes);
  Timing all{.name = "all"};
  for (const Timing& op : ops) {
    all.calls += op.calls;
    all.seconds += op.seconds;
    all.flops += op.flops;
    all.bytes += op.bytes;
  }
  ops.push_back(all);
  Columns op_table({"op", "calls", "ms/step", "share", "GFLOP/s", "GB/s"});
  for (const Timing& op : ops) op_table.Add(WithRates({op.name, absl::StrCat(op.calls)}, op, all.seconds));

  const bool shortened = most_nodes < nodes.size();
  Columns node_table({shortened ? absl::StrCat("node (the ", most_nodes, " slowest of ", nodes.size(), ")") : "node",
                      "op", "kernel", "stream", "ms/step", "share", "GFLOP/s", "GB/s"});
  if (shortened) nodes.resize(most_nodes);
  for (const Timing& node : nodes) {
    node_table.Add(WithRates({node.name, node.op, node.kernel, absl::StrCat(node.stream)}, node, all.seconds));
  }

  Columns stream_table({"stream", "busy ms", "waiting ms", "idle ms", "busy"});
  const std::vector<Stream> streams = Streams();
  for (size_t s = 0; s < streams.size(); ++s) {
    const Stream& stream = streams[s];
    stream_table.Add({absl::StrCat(s), Milliseconds(stream.busy), Milliseconds(stream.waiting),
                      Milliseconds(stream.idle), Percent(Per(stream.busy, Seconds()))});
  }
  Columns held_table({"held by the user", "as", "bytes"});
  for (const HeldValue& value : held_) held_table.Add({value.name, value.as, absl::StrCat(value.bytes)});
  return absl::StrCat("profile of ", steps_, steps_ == 1 ? " step, " : " steps, ", Milliseconds(Seconds()),
                      " ms each\n\n", op_table.Text(1), "\n", node_table.Text(3), "\n", stream_table.Text(1),
                      absl::StrFormat("\na step moves at least %.1f MB; with each value written and read once, %.1f\n",
                                      traffic_.moved * 1e-6, traffic_.least * 1e-6),
                      held_.empty() ? "" : "\n", held_.empty() ? "" : held_table.Text(2));
}

void Profiler::WriteJson(Json& json) const {
  const std::vector<Timing> ops = Ops();
  double total = 0;
  for (const Timing& op : ops) total += op.seconds;
  json.Object().Key("steps").Number(steps_).Key("seconds").Number(Seconds()).Key("ops").Array();
  for (const Timing& row : ops) {
    json.Object().Key("op").String(row.name);
    WriteRow(row, total, json);
    json.End();
  }
  json.End().Key("nodes").Array();
  for (const Timing& row : Nodes()) {
    json.Object().Key("node").String(row.name).Key("op").String(row.op).Key("kernel").String(row.kernel);
    json.Key("stream").Number(int64_t{row.stream});
    WriteRow(row, total, json);
    json.End();
  }
  json.End().Key("streams").Array();
  for (const Stream& stream : Streams()) {
    json.Object().Key("busy").Number(stream.busy).Key("waiting").Number(stream.waiting);
    json.Key("idle").Number(stream.idle).End();
  }
  json.End().Key("moved_bytes").Number(traffic_.moved).Key("least_bytes").Number(traffic_.least);
  json.Key("held").Array();
  for (const HeldValue& value : held_) {
    json.Object().Key("name").String(value.name).Key("as").String(value.as).Key("bytes").Number(value.bytes).End();
  }
  json.End().End();
}

}  // namespace snug::core
