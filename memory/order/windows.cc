#include "memory/order/windows.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "memory/order/exact_search.h"
#include "memory/order/live_sweep.h"

namespace snug::memory {
namespace {

constexpr int64_t kWorkForOne = int64_t{1} << 16;

// The tasks of order[begin, end) on their own. What is live throughout is left out: `base` bytes.
struct Window {
  TaskNet net;
  int64_t base = 0;

  Window(const TaskNet& whole, const TaskOrder& order, size_t begin, size_t end) {
    const auto index = [](int32_t number) { return static_cast<size_t>(number); };
    std::vector<size_t> position(order.size());
    for (size_t at = 0; at < order.size(); ++at) position[index(order[at])] = at;
    net.size = static_cast<int32_t>(end - begin);
    std::vector<std::pair<int32_t, int32_t>> edges;
    for (size_t at = begin; at < end; ++at) {
      net.write_bytes.push_back(whole.write_bytes[index(order[at])]);
      for (const int32_t next : whole.after[order[at]]) {
        const size_t to = position[index(next)];
        if (to < end) edges.emplace_back(at - begin, to - begin);
      }
    }
    std::vector<NetValue> values;
    std::vector<std::vector<int32_t>> read_by;
    for (int32_t v = 0; v < static_cast<int32_t>(whole.values.size()); ++v) {
      NetValue value = whole.values[index(v)];
      const bool early = value.producer < 0 || position[index(value.producer)] < begin;
      if (!early && position[index(value.producer)] >= end) continue;
      bool later = value.fetched;
      std::vector<int32_t> readers;
      for (const int32_t reader : whole.readers[v]) {
        const size_t at = position[index(reader)];
        later = later || at >= end;
        if (at >= begin && at < end) readers.push_back(static_cast<int32_t>(at - begin));
      }
      if (early && later) base += value.bytes;
      if (early && (later || readers.empty())) continue;
      value.producer = early ? -1 : static_cast<int32_t>(position[index(value.producer)] - begin);
      value.fetched = later;
      values.push_back(value);
      read_by.push_back(std::move(readers));
    }
    net.SetValues(values, std::move(read_by));
    net.SetEdges(std::move(edges));
  }
};

size_t Worst(const TaskNet& net, const TaskOrder& order) {
  LiveSweep sweep(net, Direction::kForward);
  size_t worst = 0;
  int64_t most = -1;
  for (size_t at = 0; at < order.size(); ++at) {
    const int64_t bytes = sweep.live() + sweep.Rise(order[at]);
    if (bytes > most) {
      most = bytes;
      worst = at;
    }
    sweep.Take(order[at]);
  }
  return worst;
}

// Whether the `length` tasks around `worst` could be put in a better order; `order` then has them so.
bool Improve(size_t worst, size_t length, OrderSearch* search, TaskOrder* order) {
  const size_t begin = worst - std::min(worst, length / 2);
  const size_t end = std::min(order->size(), begin + length);
  const Window window(search->net(), *order, begin, end);
  ExactSearch exact(window.net, ExactSearch::Late::kLikeOthers);
  const Answer answer = exact.Decide(search->peak() - 1 - window.base, kWorkForOne);
  search->Spend(exact.work() + 8 * search->net().size);  // the latter for making the window, and finding the worst
  if (answer != Answer::kFound) return false;
  const TaskOrder old(order->begin() + static_cast<std::ptrdiff_t>(begin),
                      order->begin() + static_cast<std::ptrdiff_t>(end));
  for (size_t i = 0; i < old.size(); ++i) (*order)[begin + i] = old[static_cast<size_t>(exact.order()[i])];
  return true;
}

}  // namespace

void ImproveByWindows(int64_t work_limit, OrderSearch* search) {
  const int64_t stop = search->work_left() - work_limit;
  TaskOrder order = search->best();
  for (bool improved = true; improved;) {
    improved = false;
    const size_t worst = Worst(search->net(), order);
    for (size_t length = 16; length <= 128 && !improved; length *= 2) {
      if (search->Done() || search->work_left() < stop) return;
      improved = Improve(worst, length, search, &order);
    }
    if (NetPeak(search->net(), order) >= search->peak()) continue;  // there are more places as bad
    search->Offer(order);
    order = search->best();
  }
}

}  // namespace snug::memory
