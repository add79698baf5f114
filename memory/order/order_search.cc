#include "memory/order/order_search.h"

#include <algorithm>
#include <utility>

#include "memory/order/live_sweep.h"

namespace snug::core::memory {
namespace {

// Every order has at least the inputs and outputs of each task live at once.
int64_t NaiveBound(const TaskNet& net) {
  int64_t bound = net.start_bytes;
  for (int32_t t = 0; t < net.size; ++t) {
    int64_t bytes = net.write_bytes[static_cast<size_t>(t)];
    for (const int32_t v : net.inputs[t]) bytes += net.values[static_cast<size_t>(v)].bytes;
    bound = std::max(bound, bytes);
  }
  return bound;
}

}  // namespace

OrderSearch::OrderSearch(const TaskNet& net, const PlannerOptions& options, int64_t default_work)
    : net_(net),
      options_(options),
      work_limit_(options.work_limit > 0 ? options.work_limit : default_work),
      best_(net.ProgramOrder()),
      peak_(NetPeak(net, best_)),
      bound_(NaiveBound(net)),
      least_seen_(static_cast<size_t>(net.size), kNoBound) {
  Note();
}

int64_t OrderSearch::Offer(const TaskOrder& order) {
  TaskOrder tight = Tighten(net_, order);
  Spend(4 * net_.size);
  LiveSweep sweep(net_, Direction::kForward);
  int64_t peak = net_.start_bytes;
  for (const int32_t task : tight) {
    const int64_t bytes = sweep.live() + sweep.Rise(task);
    peak = std::max(peak, bytes);
    least_seen_[static_cast<size_t>(task)] = std::min(least_seen_[static_cast<size_t>(task)], bytes);
    sweep.Take(task);
  }
  if (peak < peak_) {
    peak_ = peak;
    best_ = std::move(tight);
    Note();
  }
  return peak;
}

void OrderSearch::RaiseBound(int64_t bound) {
  if (bound <= bound_) return;
  bound_ = bound;
  Note();
}

bool OrderSearch::Done() {
  if (bound_ >= peak_ || report_.work >= work_limit_) return true;
  if (options_.capacity > 0 && peak_ + net_.resident_bytes <= options_.capacity) return true;
  if (options_.time_limit <= 0 || Seconds() < options_.time_limit) return false;
  report_.clock_stopped = true;
  return true;
}

SearchReport OrderSearch::Report() {
  report_.lower_bound = bound_ + net_.resident_bytes;
  report_.proven = bound_ == peak_;
  report_.seconds = Seconds();
  return report_;
}

double OrderSearch::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
}

void OrderSearch::Note() {
  report_.curve.push_back({Seconds(), peak_ + net_.resident_bytes, bound_ + net_.resident_bytes});
}

}  // namespace snug::core::memory
