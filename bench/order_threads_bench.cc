// What threads bring to the default orderer, on graphs that need search.
//
//   order_threads_bench [--rounds=N] [--work=N] [FILE.graph ...]
//
// Without files: networks with randomly wired stages (Xie et al., "Exploring Randomly Wired Neural Networks", ICCV
// 2019), forward alone and in training, and thickets of random tasks. A row for each graph: tasks, peak, bound, work,
// the least seconds of all rounds with 1, 2 and 4 threads, and the gain of two. On a machine that is busy with other
// things seconds say little: the last columns are the CPU seconds of the busiest thread, with 1 and 2. Fails if
// anything depends on threads.
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "memory/formats/formats.h"
#include "memory/order/order_search.h"

namespace snug::core::memory {
namespace {

constexpr int kThreads[] = {1, 2, 4};

struct Named {
  std::string name;
  Tasks tasks;
};

class Builder {
 public:
  int32_t Do(int64_t bytes, const std::vector<int32_t>& inputs) {
    const int32_t task = tasks_.size();
    tasks_.names.push_back(absl::StrCat("t", task));
    for (const int32_t input : inputs) Read(input, task);
    tasks_.values.push_back({.size_bytes = bytes, .alignment = 1, .producer = task});
    return task;  // and the number of the value that it writes
  }
  void Read(int32_t value, int32_t task) {
    std::vector<int32_t>& readers = tasks_.values[static_cast<size_t>(value)].readers;
    if (std::find(readers.begin(), readers.end(), task) == readers.end()) readers.push_back(task);
  }
  Tasks Finish() { return std::move(tasks_); }

 private:
  Tasks tasks_;
};

// Watts and Strogatz's small world of `n` nodes, each joined to `k` neighbours, of which three in four are then drawn
// anew; edges go from the lower number to the higher.
std::vector<std::vector<int32_t>> SmallWorld(std::mt19937& random, int32_t n, int32_t k) {
  std::vector<std::vector<int32_t>> inputs(static_cast<size_t>(n));
  for (int32_t node = 0; node < n; ++node) {
    for (int32_t step = 1; step <= k / 2; ++step) {
      int32_t other = (node + step) % n;
      if (random() % 4 != 0) other = static_cast<int32_t>(random() % static_cast<uint32_t>(n));
      if (other == node) continue;
      std::vector<int32_t>& to = inputs[static_cast<size_t>(std::max(node, other))];
      if (std::find(to.begin(), to.end(), std::min(node, other)) == to.end()) to.push_back(std::min(node, other));
    }
  }
  return inputs;
}

// Stages one after the other, each with values half as large. A node is one task forward, and one backward, which reads
// what the forward one read and the gradients of all that read its value.
Tasks WiredNetwork(uint32_t seed, int32_t stages, int32_t nodes, bool training) {
  std::mt19937 random(seed);
  Builder net;
  struct Done {
    int32_t value;
    int64_t bytes;
    std::vector<int32_t> inputs;  // places in `all`
  };
  std::vector<Done> all;
  const auto run = [&](int64_t bytes, std::vector<int32_t> inputs) {
    std::vector<int32_t> values;
    for (const int32_t input : inputs) values.push_back(all[static_cast<size_t>(input)].value);
    all.push_back({net.Do(bytes, values), bytes, std::move(inputs)});
    return static_cast<int32_t>(all.size()) - 1;
  };
  int64_t bytes = 1 << 20;
  int32_t last = run(bytes, {});
  for (int32_t stage = 0; stage < stages; ++stage, bytes /= 2) {
    const std::vector<std::vector<int32_t>> wires = SmallWorld(random, nodes, 4);
    const int32_t first = static_cast<int32_t>(all.size());
    std::vector<char> read(wires.size(), 0);
    for (const std::vector<int32_t>& from : wires) {
      std::vector<int32_t> inputs;
      for (const int32_t node : from) {
        inputs.push_back(first + node);
        read[static_cast<size_t>(node)] = 1;
      }
      if (inputs.empty()) inputs.push_back(last);
      // Widths differ, as those of cells that were searched for do.
      run(bytes * static_cast<int64_t>(2 + random() % 3) / 2, inputs);
    }
    std::vector<int32_t> ends;
    for (size_t node = 0; node < wires.size(); ++node) {
      if (read[node] == 0) ends.push_back(first + static_cast<int32_t>(node));
    }
    last = run(bytes, ends);
  }
  if (!training) return net.Finish();
  std::vector<std::vector<int32_t>> gradients(all.size());  // of what each forward task writes: parts of its sum
  gradients.back().push_back(net.Do(64, {all.back().value}));
  for (size_t at = all.size(); at-- > 1;) {
    for (const int32_t input : all[at].inputs) {
      const Done& source = all[static_cast<size_t>(input)];
      std::vector<int32_t> reads = gradients[at];
      reads.push_back(source.value);
      gradients[static_cast<size_t>(input)].push_back(net.Do(source.bytes, reads));
    }
  }
  return net.Finish();
}

Tasks Thicket(uint32_t seed, int32_t size) {
  std::mt19937 random(seed);
  Builder net;
  for (int32_t t = 0; t < size; ++t) {
    std::vector<int32_t> inputs;
    for (int32_t i = 0; t > 0 && i < 2; ++i) {
      inputs.push_back(t - 1 - static_cast<int32_t>(random() % static_cast<uint32_t>(std::min(t, 25))));
    }
    net.Do(1 + static_cast<int64_t>(random() % 100), inputs);
  }
  return net.Finish();
}

std::vector<Named> Graphs() {
  std::vector<Named> graphs;
  for (const uint32_t seed : {1u, 2u, 3u}) {
    for (const int32_t nodes : {32, 64}) {
      graphs.push_back({absl::StrCat("wired, 3 x ", nodes, ", seed ", seed), WiredNetwork(seed, 3, nodes, false)});
    }
    graphs.push_back({absl::StrCat("wired, 3 x 16, training, seed ", seed), WiredNetwork(seed, 3, 16, true)});
    for (const int32_t size : {60, 120, 240}) {
      graphs.push_back({absl::StrCat("thicket of ", size, ", seed ", seed), Thicket(seed, size)});
    }
  }
  return graphs;
}

bool Same(const Ordering& a, const Ordering& b) {
  return a.order == b.order && a.peak == b.peak && a.report.work == b.report.work &&
         a.report.lower_bound == b.report.lower_bound && a.report.proven == b.report.proven;
}

// The CPU time of the calling thread, which does its part of what is shared and all that is not.
double OwnCpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

bool Row(const Named& graph, int rounds, int64_t work) {
  std::vector<double> least(std::size(kThreads), std::numeric_limits<double>::max());
  std::vector<double> least_own = least;
  Ordering first;
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < std::size(kThreads); ++i) {
      const double before = OwnCpuSeconds();
      const absl::StatusOr<Ordering> ordering = OrderBest(graph.tasks, {.work_limit = work, .threads = kThreads[i]});
      if (!ordering.ok()) {
        absl::FPrintF(stderr, "%s: %s\n", graph.name, ordering.status().ToString());
        return false;
      }
      if (first.order.empty()) first = *ordering;
      if (!Same(first, *ordering)) {
        absl::FPrintF(stderr, "%s: %d threads change the result\n", graph.name, kThreads[i]);
        return false;
      }
      least[i] = std::min(least[i], ordering->report.seconds);
      least_own[i] = std::min(least_own[i], OwnCpuSeconds() - before);
    }
  }
  absl::PrintF("| %s | %d | %d | %d | %d | %.3f | %.3f | %.3f | %.2f | %.3f | %.3f | %.2f |\n", graph.name,
               graph.tasks.size(), first.peak, first.report.lower_bound, first.report.work, least[0], least[1],
               least[2], least[0] / least[1], least_own[0], least_own[1], least_own[0] / least_own[1]);
  std::fflush(stdout);
  return true;
}

int Run(int argc, char** argv) {
  int64_t rounds = 3;
  int64_t work = 0;
  std::vector<Named> graphs;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (absl::ConsumePrefix(&argument, "--rounds=") && absl::SimpleAtoi(argument, &rounds)) continue;
    if (absl::ConsumePrefix(&argument, "--work=") && absl::SimpleAtoi(argument, &work)) continue;
    absl::StatusOr<GraphFile> file = ReadGraphFile(argv[i]);
    if (!file.ok()) {
      absl::FPrintF(stderr, "%s\n", file.status().ToString());
      return 2;
    }
    graphs.push_back({argv[i], std::move(file->tasks)});
  }
  if (graphs.empty()) graphs = Graphs();
  std::puts("| graph | tasks | peak | bound | work | s, 1 thread | 2 | 4 | gain of 2 | CPU s, 1 thread | 2 | gain |");
  std::puts("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
  bool good = true;
  for (const Named& graph : graphs) good = Row(graph, static_cast<int>(rounds), work) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace snug::core::memory

int main(int argc, char** argv) { return snug::core::memory::Run(argc, argv); }
