#include "memory/order/reduce.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "memory/order/task_net.h"

namespace snug::core::memory {
namespace {

// Of a value that more tasks read, only the last ones are asked whether they surely follow another: asking all, for
// each of them, takes time by the square of their number.
constexpr size_t kMostAsked = 1024;
constexpr int kRounds = 12;  // each round does both kinds of merging; most graphs need three or four

// Does one round of merging. A group is named after one of its tasks, the leader. Late tasks join the group of their
// follower, early ones the group of the task that they wait for.
class Merger {
 public:
  explicit Merger(const TaskNet& net)
      : net_(net), order_(net.ProgramOrder()), reach_(net.after, order_), parent_(static_cast<size_t>(net.size)) {
    std::iota(parent_.begin(), parent_.end(), 0);
    groups_.resize(static_cast<size_t>(net.size));
    for (int32_t t = 0; t < net.size; ++t) {
      Group& group = groups_[Index(t)];
      group.members = {t};
      group.rise = net.write_bytes[Index(t)];
      group.inputs.assign(net.inputs[t].begin(), net.inputs[t].end());
      for (const int32_t v : net.outputs[t]) group.kept += net.values[Index(v)].bytes;
    }
    last_reader_.assign(net.values.size(), -1);
    for (const int32_t task : order_) {
      for (const int32_t v : net.inputs[task]) last_reader_[Index(v)] = task;
    }
  }

  void MergeLate() {
    for (const int32_t task : order_) {
      std::vector<int32_t> late;
      for (const int32_t earlier : net_.before[task]) {
        if (net_.after[earlier].size() == 1 && groups_[Index(earlier)].extra() <= groups_[Index(task)].rise &&
            !MayFree(earlier)) {
          late.push_back(earlier);
        }
      }
      if (!late.empty()) JoinLate(late, task);
    }
  }

  void MergeEarly() {
    for (const int32_t task : order_) {
      if (net_.before[task].size() != 1) continue;
      const int32_t leader = Leader(net_.before[task][0]);
      Group& before = groups_[Index(leader)];
      Group& early = groups_[Index(task)];
      if (before.kept + early.rise > before.rise || early.kept > SurelyFreed(task)) continue;
      parent_[Index(task)] = leader;
      before.members.push_back(task);
      before.kept += early.kept;  // no less than what is live after both
      early.members.clear();
    }
  }

  // Makes the groups tasks of a new net; `members` are those of the tasks that this round began with.
  ReducedNet Finish(const std::vector<TaskOrder>& members) {
    ReducedNet result;
    std::vector<int32_t> id(parent_.size(), -1);
    for (const int32_t task : order_) {
      if (Leader(task) != task) continue;
      id[Index(task)] = result.net.size++;
      result.net.write_bytes.push_back(groups_[Index(task)].rise);
      TaskOrder& all = result.members.emplace_back();
      for (const int32_t member : groups_[Index(task)].members) {
        all.insert(all.end(), members[Index(member)].begin(), members[Index(member)].end());
      }
    }
    const auto group = [&](int32_t task) { return id[Index(Leader(task))]; };
    std::vector<std::pair<int32_t, int32_t>> edges;
    for (int32_t t = 0; t < net_.size; ++t) {
      for (const int32_t follower : net_.after[t]) {
        if (group(t) != group(follower)) edges.emplace_back(group(t), group(follower));
      }
    }
    std::vector<NetValue> values = net_.values;
    std::vector<std::vector<int32_t>> read_by(values.size());
    for (size_t v = 0; v < values.size(); ++v) {
      if (values[v].producer >= 0) values[v].producer = group(values[v].producer);
      for (const int32_t reader : net_.readers[static_cast<int32_t>(v)]) {
        if (group(reader) != values[v].producer) read_by[v].push_back(group(reader));
      }
    }
    result.net.SetValues(values, std::move(read_by));
    result.net.SetEdges(std::move(edges));
    result.net.resident_bytes = net_.resident_bytes;
    return result;
  }

 private:
  struct Group {
    TaskOrder members;
    std::vector<int32_t> inputs;  // values that come from outside the group
    int64_t rise = 0;             // the most bytes it needs beyond what was live before it
    int64_t kept = 0;             // the bytes it leaves beyond that, if it frees nothing from outside
    int64_t extra() const { return rise - kept; }
  };

  template <typename T>
  static size_t Index(T number) {
    return static_cast<size_t>(number);
  }

  int32_t Leader(int32_t task) {
    while (parent_[Index(task)] != task) task = parent_[Index(task)] = parent_[Index(parent_[Index(task)])];
    return task;
  }

  // Tells whether some order has the group with this leader as the last reader of something from outside it. The leader
  // is the group's last task.
  bool MayFree(int32_t leader) const {
    const std::vector<int32_t>& inputs = groups_[Index(leader)].inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](int32_t v) {
      const auto later = [&](int32_t reader) { return reach_.SurelyFollows(reader, leader); };
      if (last_reader_[Index(v)] >= 0 && later(last_reader_[Index(v)])) return false;
      const auto readers = net_.readers[v];
      const auto asked = readers.subspan(readers.size() - std::min(readers.size(), kMostAsked));
      return std::none_of(asked.begin(), asked.end(), later);
    });
  }

  // Returns the bytes of the values that `task` is the last to read in every order.
  int64_t SurelyFreed(int32_t task) const {
    int64_t bytes = 0;
    for (const int32_t v : net_.inputs[task]) {
      if (last_reader_[Index(v)] != task) continue;  // in the order at hand another one reads it later
      const auto done = [&](int32_t reader) { return reader == task || reach_.SurelyFollows(task, reader); };
      if (std::all_of(net_.readers[v].begin(), net_.readers[v].end(), done)) bytes += net_.values[Index(v)].bytes;
    }
    return bytes;
  }

  void JoinLate(std::vector<int32_t>& late, int32_t task) {
    // Each of them leaves no less than it finds, so what needs the most bytes beyond that goes first.
    std::stable_sort(late.begin(), late.end(),
                     [&](int32_t a, int32_t b) { return groups_[Index(a)].extra() > groups_[Index(b)].extra(); });
    Group joined;
    for (const int32_t earlier : late) {
      Group& group = groups_[Index(earlier)];
      joined.rise = std::max(joined.rise, joined.kept + group.rise);
      joined.kept += group.kept;
      parent_[Index(earlier)] = task;
      if (joined.members.empty()) {
        joined.members.swap(group.members);
        joined.inputs.swap(group.inputs);
      } else {
        joined.members.insert(joined.members.end(), group.members.begin(), group.members.end());
        joined.inputs.insert(joined.inputs.end(), group.inputs.begin(), group.inputs.end());
      }
    }
    Group& last = groups_[Index(task)];
    joined.rise = std::max(joined.rise, joined.kept + last.rise);
    joined.kept += last.kept;
    joined.members.push_back(task);
    for (const int32_t v : last.inputs) {
      const NetValue& value = net_.values[Index(v)];
      if (value.producer < 0 || Leader(value.producer) != task) {
        joined.inputs.push_back(v);
        continue;
      }
      // The value is written inside. If it is also read only inside, it ends with `task`.
      const auto inside = [&](int32_t reader) { return Leader(reader) == task; };
      if (std::all_of(net_.readers[v].begin(), net_.readers[v].end(), inside)) joined.kept -= value.bytes;
    }
    last = std::move(joined);
  }

  const TaskNet& net_;
  const TaskOrder order_;
  const Reachability reach_;
  std::vector<int32_t> last_reader_;  // by value, in order_; -1 where nobody reads it
  std::vector<int32_t> parent_;       // a way to the leader
  std::vector<Group> groups_;         // indexed by leader
};

}  // namespace

TaskOrder ReducedNet::Expand(const TaskOrder& order) const {
  TaskOrder expanded;
  for (const int32_t task : order) {
    const TaskOrder& all = members[static_cast<size_t>(task)];
    expanded.insert(expanded.end(), all.begin(), all.end());
  }
  return expanded;
}

ReducedNet Reduce(const TaskNet& net) {
  ReducedNet reduced{.net = net};
  for (int32_t t = 0; t < net.size; ++t) reduced.members.push_back({t});
  int32_t size = -1;
  for (int round = 0; round < kRounds && size != reduced.net.size; ++round) {
    size = reduced.net.size;
    for (const auto merge : {&Merger::MergeLate, &Merger::MergeEarly}) {
      Merger merger(reduced.net);
      (merger.*merge)();
      reduced = merger.Finish(reduced.members);
    }
  }
  return reduced;
}

}  // namespace snug::core::memory
