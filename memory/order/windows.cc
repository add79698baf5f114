#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "memory/order/exact_search.h"
#include "memory/order/live_sweep.h"
#include "memory/order/order_search.h"
#include "memory/race.h"

namespace snug::core::memory {
namespace {

constexpr size_t kLengths[] = {16, 32, 64, 128};  // the lengths of stretches that are tried
constexpr int64_t kWorkForOne = int64_t{1} << 16;
constexpr int64_t kWorkBetweenLooks = kWorkForOne / 16;  // how often an attempt looks whether its result is still
                                                         // wanted

// The tasks of order[begin, end) on their own. The `base` bytes that are live throughout are left out.
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

// An attempt to find a better order for the tasks of order[begin, end).
struct WindowAttempt {
  size_t begin = 0, end = 0;
  int64_t work_limit = 0;
  TaskOrder better;
  int64_t work = 0;

  // Looks for an order of these tasks whose peak is below the best one's. Returns whether there is one.
  bool Run(const OrderSearch& search, const TaskOrder& order, const std::function<bool()>& stop) {
    const Window window(search.net(), order, begin, end);
    ExactSearch exact(window.net, ExactSearch::Late::kLikeOthers);
    Answer answer = Answer::kUnknown;
    while (answer == Answer::kUnknown && exact.work() < work_limit && !stop()) {
      answer = exact.Decide(search.peak() - 1 - window.base, std::min(kWorkBetweenLooks, work_limit - exact.work()));
    }
    work = exact.work() + OwnWork(search);
    if (answer != Answer::kFound) return false;
    for (const int32_t task : exact.order()) better.push_back(order[begin + static_cast<size_t>(task)]);
    return true;
  }

  // The work of making the window and finding the worst place.
  static int64_t OwnWork(const OrderSearch& search) { return 8 * search.net().size; }
};

// Tries to put the tasks around `worst` in a better order; on success `order` has them so. Stretches of all lengths are
// tried at once, as far as `work` goes, and the shortest that succeeds counts.
bool Improve(size_t worst, int64_t work, OrderSearch* search, TaskOrder* order) {
  std::vector<WindowAttempt> attempts;
  for (const size_t length : kLengths) {
    const int64_t for_one = std::min(kWorkForOne, work - WindowAttempt::OwnWork(*search));
    if (for_one <= 0) break;
    work -= for_one + WindowAttempt::OwnWork(*search);
    const size_t begin = worst - std::min(worst, length / 2);
    attempts.push_back({.begin = begin, .end = std::min(order->size(), begin + length), .work_limit = for_one});
  }
  const int winner =
      Race(search->threads(), static_cast<int>(attempts.size()), [&](int index, const std::function<bool()>& stop) {
        return attempts[static_cast<size_t>(index)].Run(*search, *order, stop);
      });
  for (size_t i = 0; i < attempts.size(); ++i) {
    if (static_cast<int>(i) <= winner) search->Spend(attempts[i].work);
  }
  if (winner == static_cast<int>(attempts.size())) return false;
  const WindowAttempt& best = attempts[static_cast<size_t>(winner)];
  std::copy(best.better.begin(), best.better.end(), order->begin() + static_cast<std::ptrdiff_t>(best.begin));
  return true;
}

}  // namespace

void ImproveByWindows(int64_t work_limit, OrderSearch* search) {
  const int64_t stop = search->work_left() - work_limit;
  TaskOrder order = search->best();
  for (bool improved = true; improved;) {
    if (search->Done()) return;
    improved = Improve(Worst(search->net(), order), search->work_left() - stop, search, &order);
    if (NetPeak(search->net(), order) >= search->peak()) continue;  // there are more places that are as bad
    search->Offer(order);
    order = search->best();
  }
}

}  // namespace snug::core::memory
