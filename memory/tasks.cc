#include "memory/tasks.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace snug::core::memory {
namespace {

// Calls `visit(before, after)` for each precedence, possibly more than once for a pair.
template <typename Visit>
void ForEachEdge(const Tasks& tasks, const Visit& visit) {
  for (const TaskValue& value : tasks.values) {
    if (value.producer < 0 || value.resident) continue;
    for (const int32_t reader : value.readers) visit(value.producer, reader);
  }
  for (const auto& [before, after] : tasks.edges) visit(before, after);
}

std::string Name(const Tasks& tasks, int32_t task) {
  return absl::StrCat("\"", tasks.names[static_cast<size_t>(task)], "\"");
}

bool IsTask(const Tasks& tasks, int32_t task) { return task >= 0 && task < tasks.size(); }

absl::Status CheckIds(const Tasks& tasks) {
  for (size_t v = 0; v < tasks.values.size(); ++v) {
    const TaskValue& value = tasks.values[v];
    const auto wrong = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("value ", v, " \"", value.name, "\": ", what));
    };
    if (value.size_bytes < 0) return wrong(absl::StrCat("expected a size >= 0, found ", value.size_bytes));
    if (value.alignment < 1) return wrong(absl::StrCat("expected an alignment >= 1, found ", value.alignment));
    if (value.producer != -1 && !IsTask(tasks, value.producer)) {
      return wrong(absl::StrCat("there is no task ", value.producer, ", its producer"));
    }
    for (const int32_t reader : value.readers) {
      if (!IsTask(tasks, reader)) return wrong(absl::StrCat("there is no task ", reader, ", its reader"));
    }
  }
  for (const auto& [before, after] : tasks.edges) {
    if (!IsTask(tasks, before) || !IsTask(tasks, after)) {
      return absl::InvalidArgumentError(absl::StrCat("edge ", before, " -> ", after, ": no such task"));
    }
  }
  const auto is_value = [&](int32_t v) { return v >= 0 && static_cast<size_t>(v) < tasks.values.size(); };
  for (const TaskInPlace& pair : tasks.in_place) {
    if (!is_value(pair.output) || !is_value(pair.input)) {
      return absl::InvalidArgumentError(
          absl::StrCat("in place: value ", pair.output, " over ", pair.input, ": no such value"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTasks(const Tasks& tasks) {
  if (const absl::Status ids = CheckIds(tasks); !ids.ok()) return ids;
  // Kahn's algorithm: the tasks that are left over lie on a cycle or behind one.
  const size_t n = tasks.names.size();
  std::vector<std::vector<int32_t>> followers(n);
  std::vector<int32_t> waiting_for(n, 0);
  ForEachEdge(tasks, [&](int32_t before, int32_t after) {
    followers[static_cast<size_t>(before)].push_back(after);
    ++waiting_for[static_cast<size_t>(after)];
  });
  std::vector<int32_t> ready;
  for (int32_t t = 0; t < tasks.size(); ++t) {
    if (waiting_for[static_cast<size_t>(t)] == 0) ready.push_back(t);
  }
  size_t done = 0;
  for (; done < ready.size(); ++done) {
    for (const int32_t follower : followers[static_cast<size_t>(ready[done])]) {
      if (--waiting_for[static_cast<size_t>(follower)] == 0) ready.push_back(follower);
    }
  }
  if (done == n) return absl::OkStatus();
  const auto stuck = std::find_if(waiting_for.begin(), waiting_for.end(), [](int32_t count) { return count > 0; });
  return absl::InvalidArgumentError(absl::StrCat("the tasks wait for each other in a cycle; ",
                                                 Name(tasks, static_cast<int32_t>(stuck - waiting_for.begin())),
                                                 " lies on it or behind it"));
}

absl::Status CheckOrder(const Tasks& tasks, const TaskOrder& order) {
  const size_t n = tasks.names.size();
  if (order.size() != n) {
    return absl::InvalidArgumentError(absl::StrCat("the order has ", order.size(), " tasks, expected ", n));
  }
  std::vector<int32_t> position(n, -1);
  for (size_t at = 0; at < n; ++at) {
    const int32_t task = order[at];
    if (!IsTask(tasks, task)) return absl::InvalidArgumentError(absl::StrCat("order: there is no task ", task));
    if (position[static_cast<size_t>(task)] >= 0) {
      return absl::InvalidArgumentError(absl::StrCat("order: task ", Name(tasks, task), " appears twice"));
    }
    position[static_cast<size_t>(task)] = static_cast<int32_t>(at);
  }
  absl::Status status;
  ForEachEdge(tasks, [&](int32_t before, int32_t after) {
    if (position[static_cast<size_t>(before)] < position[static_cast<size_t>(after)] || !status.ok()) return;
    status = absl::InvalidArgumentError(
        absl::StrCat("order: task ", Name(tasks, after), " must run after ", Name(tasks, before)));
  });
  return status;
}

Problem LifetimesOf(const Tasks& tasks, const TaskOrder& order) {
  std::vector<int32_t> position(tasks.names.size());
  for (size_t at = 0; at < order.size(); ++at) position[static_cast<size_t>(order[at])] = static_cast<int32_t>(at);
  const int32_t end = tasks.size();  // fetched values are read here, after the last task
  Problem problem;
  problem.buffers.reserve(tasks.values.size());
  for (const TaskValue& value : tasks.values) {
    Buffer buffer{.name = value.name, .size_bytes = value.size_bytes, .alignment = value.alignment};
    if (!value.resident && value.producer >= 0) buffer.first = position[static_cast<size_t>(value.producer)];
    buffer.last = value.resident || value.fetched ? end : buffer.first;
    for (const int32_t reader : value.readers) {
      buffer.last = std::max(buffer.last, position[static_cast<size_t>(reader)]);
    }
    problem.buffers.push_back(std::move(buffer));
  }
  for (const TaskInPlace& pair : tasks.in_place) {
    const Buffer& output = problem.buffers[static_cast<size_t>(pair.output)];
    const Buffer& input = problem.buffers[static_cast<size_t>(pair.input)];
    if (output.first != input.last || output.size_bytes > input.size_bytes) continue;
    problem.in_place.push_back({pair.output, pair.input});
  }
  return problem;
}

int64_t PeakOf(const Tasks& tasks, const TaskOrder& order) {
  const Problem problem = LifetimesOf(tasks, order);
  std::vector<int64_t> change(tasks.names.size() + 2, 0);
  for (const Buffer& buffer : problem.buffers) {
    change[static_cast<size_t>(buffer.first)] += buffer.size_bytes;
    change[static_cast<size_t>(buffer.last) + 1] -= buffer.size_bytes;
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (const int64_t delta : change) peak = std::max(peak, live += delta);
  return peak;
}

}  // namespace snug::core::memory
