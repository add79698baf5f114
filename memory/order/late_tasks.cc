#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "memory/order/exact_search.h"
#include "memory/order/task_net.h"

namespace snug::core::memory {
namespace {

constexpr size_t kMostAlong = 64;  // a task takes at most so many late ones along, which keeps the lists short

using Sets = std::vector<std::vector<int32_t>>;

void Unite(const std::vector<int32_t>& more, std::vector<int32_t>* set) {
  std::vector<int32_t> both;
  std::set_union(set->begin(), set->end(), more.begin(), more.end(), std::back_inserter(both));
  set->swap(both);
}

class Finder {
 public:
  Finder(const TaskNet& net, bool none)
      : net_(net), late_(static_cast<size_t>(net.size), 0), along_(late_.size()), needs_(late_.size()) {
    const TaskOrder order = net.ProgramOrder();
    const Reachability reach(net.after, order);
    for (const int32_t task : order) {
      std::vector<int32_t>& along = along_[Index(task)];
      std::vector<int32_t>& needs = needs_[Index(task)];
      for (const int32_t earlier : net.before[task]) {
        if (late_[Index(earlier)] == 0) {
          Unite({earlier}, &needs);
          continue;
        }
        Unite({earlier}, &along);
        Unite(along_[Index(earlier)], &along);
        Unite(needs_[Index(earlier)], &needs);
      }
      late_[Index(task)] = !none && along.size() < kMostAlong && IsLate(task, reach) ? 1 : 0;
    }
  }

  // Returns the order of `along` that needs the fewest bytes. All of them leave more than they find, so Lawler's rule
  // for one machine holds: among those that no other one follows, the one that needs least beyond what it leaves goes
  // last.
  std::vector<int32_t> Sequence(std::vector<int32_t> along) const {
    std::vector<int32_t> sequence;
    while (!along.empty()) {
      size_t last = along.size();
      for (size_t i = 0; i < along.size(); ++i) {
        const auto followed_by = [&](int32_t other) {
          const std::vector<int32_t>& earlier = along_[Index(other)];
          return std::binary_search(earlier.begin(), earlier.end(), along[i]);
        };
        if (std::any_of(along.begin(), along.end(), followed_by)) continue;
        if (last == along.size() || Extra(along[i]) < Extra(along[last])) last = i;
      }
      sequence.push_back(along[last]);
      along.erase(along.begin() + static_cast<std::ptrdiff_t>(last));
    }
    std::reverse(sequence.begin(), sequence.end());
    return sequence;
  }

  const std::vector<char>& late() const { return late_; }
  const Sets& along() const { return along_; }
  const Sets& needs() const { return needs_; }

 private:
  static size_t Index(int32_t number) { return static_cast<size_t>(number); }

  // Returns what `task` needs while it runs, beyond what it leaves live.
  int64_t Extra(int32_t task) const {
    int64_t extra = net_.write_bytes[Index(task)];
    for (const int32_t v : net_.outputs[task]) extra -= net_.values[Index(v)].bytes;
    return extra;
  }

  bool IsLate(int32_t task, const Reachability& reach) const {
    if (net_.after[task].empty()) return false;
    for (const int32_t follower : net_.after[task]) {
      if (Extra(task) > net_.write_bytes[Index(follower)]) return false;
    }
    for (const int32_t v : net_.inputs[task]) {
      const auto later = [&](int32_t reader) { return reach.SurelyFollows(reader, task); };
      if (std::none_of(net_.readers[v].begin(), net_.readers[v].end(), later)) return false;
    }
    return true;
  }

  const TaskNet& net_;
  std::vector<char> late_;
  // Both have a sorted list for each task: the late tasks that it needs through late tasks only, and the tasks that are
  // not late that it needs in this way.
  Sets along_, needs_;
};

}  // namespace

LateTasks::LateTasks(const TaskNet& net, bool none) {
  const Finder finder(net, none);
  late = finder.late();
  std::vector<std::pair<int32_t, int32_t>> along_pairs, before_pairs, after_pairs;
  for (int32_t t = 0; t < net.size; ++t) {
    if (late[static_cast<size_t>(t)] != 0) continue;
    for (const int32_t other : finder.Sequence(finder.along()[static_cast<size_t>(t)]))
      along_pairs.emplace_back(t, other);
    for (const int32_t other : finder.needs()[static_cast<size_t>(t)]) {
      before_pairs.emplace_back(t, other);
      after_pairs.emplace_back(other, t);
    }
  }
  along = Lists(net.size, along_pairs);
  before = Lists(net.size, before_pairs);
  after = Lists(net.size, after_pairs);
}

}  // namespace snug::core::memory
