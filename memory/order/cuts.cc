#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "memory/order/live_sweep.h"
#include "memory/order/min_cut.h"
#include "memory/order/order_search.h"

namespace snug::core::memory {

namespace {

constexpr int kDepth = 7;

class Recursion {
 public:
  Recursion(int64_t work_limit, OrderSearch* search)
      : search_(search), net_(search->net()), cut_(net_), work_limit_(work_limit) {}

  void Run() {
    for (int64_t before = kNoBound; search_->peak() < before && !Spent();) {
      before = search_->peak();
      order_ = search_->best();
      Split(0, order_.size(), kDepth);
      search_->Offer(order_);
    }
  }

 private:
  bool Spent() { return search_->Done() || cut_.work() >= work_limit_; }

  // Returns the position in [begin, end) at which most bytes are live, with all before it as it is.
  size_t Worst(size_t begin, size_t end) {
    LiveSweep sweep(net_, Direction::kForward);
    size_t worst = begin;
    int64_t most = -1;
    for (size_t at = 0; at < end; ++at) {
      const int64_t bytes = sweep.live() + sweep.Rise(order_[at]);
      if (at >= begin && bytes > most) {
        most = bytes;
        worst = at;
      }
      sweep.Take(order_[at]);
    }
    search_->Spend(static_cast<int64_t>(end));
    return worst;
  }

  void Split(size_t begin, size_t end, int depth) {
    if (depth == 0 || end - begin < 3 || Spent()) return;
    const int32_t task = order_[Worst(begin, end)];
    const auto place = [&](size_t at) { return order_.begin() + static_cast<std::ptrdiff_t>(at); };
    std::vector<int32_t> inside(order_.begin(), place(begin));
    inside.insert(inside.end(), net_.before[task].begin(), net_.before[task].end());
    std::vector<int32_t> outside(place(end), order_.end());
    outside.push_back(task);
    const int64_t before = cut_.work();
    cut_.Solve(inside, outside, work_limit_ - before);
    search_->Spend(cut_.work() - before);
    if (!cut_.complete()) return;
    const auto rest =
        std::stable_partition(place(begin), place(end), [&](int32_t other) { return cut_.Inside(other); });
    const auto found = std::find(rest, place(end), task);
    std::rotate(rest, found, found + 1);
    const auto middle = static_cast<size_t>(rest - order_.begin());
    Split(begin, middle, depth - 1);
    Split(middle + 1, end, depth - 1);
  }

  OrderSearch* search_;
  const TaskNet& net_;
  MinCut cut_;
  const int64_t work_limit_;
  TaskOrder order_;
};

}  // namespace

void RaiseBoundByCuts(int64_t work_limit, OrderSearch* search) {
  const TaskNet& net = search->net();
  const std::vector<int64_t>& seen = search->least_seen();  // a cut at `task`, with what the task writes, never exceeds
                                                            // this
  TaskOrder tasks(static_cast<size_t>(net.size));
  std::iota(tasks.begin(), tasks.end(), 0);
  std::stable_sort(tasks.begin(), tasks.end(),
                   [&](int32_t a, int32_t b) { return seen[static_cast<size_t>(a)] > seen[static_cast<size_t>(b)]; });
  MinCut cut(net);
  for (const int32_t task : tasks) {
    if (seen[static_cast<size_t>(task)] <= search->bound() || cut.work() >= work_limit || search->Done()) return;
    const int64_t before = cut.work();
    const int64_t live = cut.Solve(net.before[task], {&task, 1}, work_limit - before);
    search->Spend(cut.work() - before);
    search->RaiseBound(live + net.write_bytes[static_cast<size_t>(task)]);
  }
}

void ImproveByCuts(int64_t work_limit, OrderSearch* search) { Recursion(work_limit, search).Run(); }

}  // namespace snug::core::memory
