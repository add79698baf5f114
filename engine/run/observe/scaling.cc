#include "engine/run/observe/scaling.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <map>

#include "engine/run/observe/columns.h"

namespace snug::core {
namespace {

constexpr int kPredictedThreads[] = {4, 8, 16, 32, 64, 128};
constexpr int kManyThreads = 64;  // by which ops are sorted, and of which limits are told

// The parts of an op whose times these are. What is slower on two threads than on one gains nothing by more; what is
// more than twice as fast (caches) is taken for wholly parallel. On two threads both come to what was measured.
void FitPart(Scaling::Part& part) {
  part.serial = std::clamp(2 * part.seconds.two - part.seconds.one, 0.0, part.seconds.two);
  part.parallel = 2 * (part.seconds.two - part.serial);
}

const char* LimitName(Scaling::Limit limit) {
  switch (limit) {
    case Scaling::Limit::kSerial:
      return "serial";
    case Scaling::Limit::kMemory:
      return "memory";
    case Scaling::Limit::kThreads:
      break;
  }
  return "threads";
}

std::string InMilliseconds(double seconds) { return absl::StrFormat("%.3f", seconds * 1e3); }
std::string ShareOf(double part, double whole) {
  return absl::StrFormat("%.1f%%", whole > 0 ? 100 * part / whole : 0.0);
}

}  // namespace

double Scaling::Part::Seconds(int threads) const { return std::max(serial + parallel / threads, in_memory); }

Scaling::Limit Scaling::Part::LimitOn(int threads) const {
  if (serial + parallel / threads < in_memory) return Limit::kMemory;
  return serial > parallel / threads ? Limit::kSerial : Limit::kThreads;
}

Scaling::Scaling(absl::Span<const NodeTimes> nodes, ByThreads step, int threads, ByThreads copy)
    : step_(step), copy_(copy), threads_(threads) {
  std::map<std::string, Part> by_op;
  ByThreads between = step;
  for (const NodeTimes& node : nodes) {
    Part& part = by_op[node.op];
    part.op = node.op;
    ++part.nodes;
    part.seconds.one += node.seconds.one;
    part.seconds.two += node.seconds.two;
    part.seconds.all += node.seconds.all;
    // What is faster than memory finds its bytes in a cache.
    if (bound_by_memory()) part.in_memory += std::min(node.bytes / copy.all, node.seconds.all);
    between.one -= node.seconds.one;
    between.two -= node.seconds.two;
    between.all -= node.seconds.all;
  }
  for (auto& [op, part] : by_op) parts_.push_back(std::move(part));
  parts_.push_back({.op = kBetween,
                    .seconds = {std::max(between.one, 0.0), std::max(between.two, 0.0), std::max(between.all, 0.0)}});
  for (Part& part : parts_) FitPart(part);
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const Part& a, const Part& b) { return a.Seconds(kManyThreads) > b.Seconds(kManyThreads); });
}

bool Scaling::bound_by_memory() const { return copy_.all < 0.75 * threads_ * copy_.one; }

double Scaling::Seconds(int threads) const {
  double seconds = 0;
  for (const Part& part : parts_) seconds += part.Seconds(threads);
  return seconds;
}

std::string Scaling::Table() const {
  std::vector<std::string> titles = {"op", "limit", "nodes", "on 1", "on 2"};
  if (threads_ > 2) titles.push_back(absl::StrCat("on ", threads_));
  titles.push_back("serial");
  for (const int threads : kPredictedThreads) titles.push_back(absl::StrCat("~", threads));
  for (const int threads : {1, kManyThreads}) titles.push_back(absl::StrCat("share ", threads));
  Columns table(titles);
  const auto add = [&](const std::string& name, const std::string& limit, int64_t nodes, const ByThreads& measured,
                       double serial, const auto& on) {
    std::vector<std::string> row = {name, limit, absl::StrCat(nodes), InMilliseconds(measured.one),
                                    InMilliseconds(measured.two)};
    if (threads_ > 2) row.push_back(InMilliseconds(measured.all));
    row.push_back(InMilliseconds(serial));
    for (const int threads : kPredictedThreads) row.push_back(InMilliseconds(on(threads)));
    row.push_back(ShareOf(measured.one, step_.one));
    row.push_back(ShareOf(on(kManyThreads), Seconds(kManyThreads)));
    table.Add(row);
  };
  int64_t nodes = 0;
  double serial = 0;
  std::map<Limit, double> left;                       // seconds on kManyThreads threads
  std::map<Limit, std::vector<std::string>> slowest;  // ops, by their limit
  for (const Part& part : parts_) {
    const Limit limit = part.LimitOn(kManyThreads);
    add(part.op, LimitName(limit), part.nodes, part.seconds, part.serial, [&](int n) { return part.Seconds(n); });
    nodes += part.nodes;
    serial += part.serial;
    left[limit] += part.Seconds(kManyThreads);
    if (slowest[limit].size() < 3) slowest[limit].push_back(part.op);
  }
  add("step", "", nodes, step_, serial, [&](int n) { return Seconds(n); });

  std::string text = absl::StrCat("ms of a step; ~N: predicted on N threads\n\n", table.Text(2), "\n");
  if (threads_ > 2) {
    absl::StrAppend(&text, "on ", threads_, " threads predicted ", InMilliseconds(Seconds(threads_)), " ms, measured ",
                    InMilliseconds(step_.all), "\n");
  }
  absl::StrAppend(&text, absl::StrFormat("%d threads: %.1f times as fast as one; what limits it then:\n", kManyThreads,
                                         step_.one / Seconds(kManyThreads)));
  for (const Limit limit : {Limit::kSerial, Limit::kMemory, Limit::kThreads}) {
    if (left[limit] <= 0) continue;
    const char* what = limit == Limit::kSerial   ? "serial parts"
                       : limit == Limit::kMemory ? "memory"
                                                 : "nothing, more threads would help";
    absl::StrAppend(&text, absl::StrFormat("  %6s of the step: %s (%s)\n", ShareOf(left[limit], Seconds(kManyThreads)),
                                           what, absl::StrJoin(slowest[limit], ", ")));
  }
  return absl::StrCat(text, absl::StrFormat("a copy: %.1f GB/s on one thread, %.1f on %d: memory %s\n",
                                            copy_.one * 1e-9, copy_.all * 1e-9, threads_,
                                            bound_by_memory() ? "is a bound, taken as it is here"
                                                              : "serves so many; where it ends is not seen here"));
}

void Scaling::WriteJson(Json& json) const {
  const auto times = [&](const char* key, const ByThreads& by) {
    json.Key(key).Object().Key("1").Number(by.one).Key("2").Number(by.two);
    if (threads_ > 2) json.Key(absl::StrCat(threads_)).Number(by.all);
    json.End();
  };
  const auto predicted = [&](const auto& on) {
    json.Key("predicted_seconds").Object();
    for (const int threads : kPredictedThreads) json.Key(absl::StrCat(threads)).Number(on(threads));
    json.End();
  };
  times("copy_bytes_per_second", copy_);
  json.Key("bound_by_memory").Bool(bound_by_memory());
  times("seconds", step_);
  predicted([&](int n) { return Seconds(n); });
  json.Key("ops").Array();
  for (const Part& part : parts_) {
    json.Object().Key("op").String(part.op).Key("nodes").Number(part.nodes);
    times("seconds", part.seconds);
    json.Key("serial_seconds").Number(part.serial).Key("parallel_seconds").Number(part.parallel);
    json.Key("memory_seconds").Number(part.in_memory);
    predicted([&](int n) { return part.Seconds(n); });
    json.Key("limit").String(LimitName(part.LimitOn(kManyThreads))).End();
  }
  json.End();
}

}  // namespace snug::core
