#include "engine/compile/memory/put_off_updates.h"

#include <absl/algorithm/container.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/compile/schedule/launch_groups.h"
#include "engine/compile/schedule/streams.h"
#include "ops/graph_builder.h"

namespace snug::core {
namespace {

class Mover {
 public:
  Mover(const Compiled& compiled, int streams, MemoryPlan* plan)
      : compiled_(compiled),
        order_(plan->step.order),
        problem_(plan->step.problem),
        plan_(plan->step.placement.plan),
        held_until_(problem_.buffers.size(), -1),
        read_at_(order_.size()),
        stream_of_buffer_(problem_.buffers.size(), 0) {
    std::vector<size_t> position(order_.size());
    for (size_t i = 0; i < order_.size(); ++i) position[static_cast<size_t>(order_[i])] = i;
    const std::vector<memory::TaskValue>& values = compiled.tasks.tasks.values;
    for (size_t value = 0; value < values.size(); ++value) {
      for (const int32_t reader : values[value].readers) {
        read_at_[position[static_cast<size_t>(reader)]].push_back(value);
      }
    }
    if (streams == 1) return;
    const std::vector<int32_t> stream_of = AssignStreams(compiled.tasks.tasks, order_, streams);
    const auto stream_of_task = [&](int32_t task) { return stream_of[position[static_cast<size_t>(task)]]; };
    for (size_t i = 0; i < values.size(); ++i) {
      const memory::TaskValue& value = values[i];
      stream_of_buffer_[i] = value.producer < 0 || value.fetched ? kSeveral : stream_of_task(value.producer);
      for (const int32_t reader : value.readers) {
        if (stream_of_task(reader) != stream_of_buffer_[i]) stream_of_buffer_[i] = kSeveral;
      }
    }
  }

  void Run() {
    std::vector<Group> groups;  // the newest of each kernel
    for (size_t i = 0; i < order_.size(); ++i) {
      const NodeId node = compiled_.tasks.node_of_task[static_cast<size_t>(order_[i])];
      const KernelRow* row = compiled_.kernels[static_cast<size_t>(node.index)].kernel.get();
      NodeTypes types = TypesOf(compiled_.graph, compiled_.graph.node(node));
      if (!CanJoin(*row, types)) continue;
      const auto group =
          absl::c_find_if(groups, [&](const Group& one) { return one.row == row && SameElements(one.types, types); });
      if (group == groups.end()) {
        groups.push_back({row, std::move(types), read_at_[i], 1});
        continue;
      }
      const bool joins = group->updates < kMostTogether && Hold(group->buffers, static_cast<int32_t>(i));
      if (!joins) *group = {row, std::move(types), {}, 0};
      group->buffers.insert(group->buffers.end(), read_at_[i].begin(), read_at_[i].end());
      ++group->updates;
    }
  }

 private:
  static constexpr int32_t kSeveral = -1;
  struct Group {
    const KernelRow* row;
    NodeTypes types;              // of its first update
    std::vector<size_t> buffers;  // that its updates read
    int updates;
  };

  // Makes what lies in these buffers stay to position `until`, and returns whether it does.
  bool Hold(const std::vector<size_t>& buffers, int32_t until) {
    for (const size_t buffer : buffers) {
      if (problem_.buffers[buffer].last < until && !IsFree(buffer, until) && !Move(buffer, until)) return false;
    }
    for (const size_t buffer : buffers) held_until_[buffer] = std::max(held_until_[buffer], until);
    return true;
  }

  // Says whether another buffer has bytes that are needed between these positions, by it or by an update that waits.
  bool IsNeeded(size_t other, int32_t from, int32_t until) const {
    const memory::Buffer& buffer = problem_.buffers[other];
    bool needed = buffer.first <= until && held_until_[other] >= from;
    memory::ForEachLiveSpan(buffer,
                            [&](int32_t first, int32_t last) { needed = needed || (first <= until && last >= from); });
    return needed && buffer.size_bytes > 0;
  }

  bool IsFree(size_t buffer, int32_t until) const {
    const int64_t begin = plan_.offsets[buffer];
    const int64_t end = begin + problem_.buffers[buffer].size_bytes;
    for (size_t other = 0; other < problem_.buffers.size(); ++other) {
      const int64_t at = plan_.offsets[other];
      if (other == buffer || at >= end || at + problem_.buffers[other].size_bytes <= begin) continue;
      if (IsNeeded(other, problem_.buffers[buffer].last + 1, until)) return false;
    }
    return true;
  }

  // Moves a buffer to the lowest place that is free from its first use to `until`.
  bool Move(size_t moved, int32_t until) {
    const memory::Buffer& buffer = problem_.buffers[moved];
    const int32_t stream = stream_of_buffer_[moved];
    if (buffer.fixed_offset >= 0 || !buffer.gaps.empty() || stream == kSeveral) return false;
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t other = 0; other < problem_.buffers.size(); ++other) {
      const bool of_others = stream_of_buffer_[other] != stream;
      if (other == moved || (!of_others && !IsNeeded(other, buffer.first, until))) continue;
      taken.emplace_back(plan_.offsets[other], plan_.offsets[other] + problem_.buffers[other].size_bytes);
    }
    absl::c_sort(taken);
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin >= at + buffer.size_bytes) break;
      at = std::max(at, memory::AlignUp(end, buffer.alignment));
    }
    if (at + buffer.size_bytes > plan_.arena_bytes) return false;
    plan_.offsets[moved] = at;
    return true;
  }

  const Compiled& compiled_;
  const memory::TaskOrder& order_;
  const memory::Problem& problem_;
  memory::Plan& plan_;
  std::vector<int32_t> held_until_;           // by buffer: the last update that waits with one that reads it, or -1
  std::vector<std::vector<size_t>> read_at_;  // by position
  std::vector<int32_t> stream_of_buffer_;     // the stream that alone uses it, or kSeveral
};

}  // namespace

void PutOffUpdates(const Compiled& compiled, int streams, MemoryPlan* plan) { Mover(compiled, streams, plan).Run(); }

}  // namespace snug::core
