#include "memory/place/progress.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "memory/problem.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

}  // namespace

Progress::Progress(const Problem& problem, const PlannerOptions& options)
    : problem_(problem), options_(options), start_(std::chrono::steady_clock::now()) {
  parts_ = Decompose(problem, &settled_);
  best_.resize(parts_.size());
  totals_.assign(parts_.size(), kNone);
  missing_ = static_cast<int>(parts_.size());
  std::vector<char> open(problem.buffers.size(), 0);
  for (const Instance& part : parts_) {
    bounds_.push_back(part.base + part.bound);
    for (const Item& item : part.items) open[static_cast<size_t>(item.buffer)] = 1;
  }
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i] == 0) settled_total_ = std::max(settled_total_, settled_[i] + problem.buffers[i].size_bytes);
  }
  report_.lower_bound = std::max(LowerBound(problem), settled_total_);
  for (const int64_t bound : bounds_) report_.lower_bound = std::max(report_.lower_bound, bound);
  target_ = std::max(report_.lower_bound, options.capacity);
  if (parts_.empty()) Note();
}

std::shared_ptr<const Conflicts> Progress::conflicts(size_t part) {
  if (conflicts_ == nullptr || part_of_conflicts_ != part) {
    conflicts_.reset();  // before there are others
    conflicts_ = std::make_shared<const Conflicts>(ConflictsOf(parts_[part]));
    part_of_conflicts_ = part;
  }
  return conflicts_;
}

size_t Progress::Worst() const {
  return static_cast<size_t>(std::max_element(totals_.begin(), totals_.end()) - totals_.begin());
}

bool Progress::Done() const {
  if (parts_.empty()) return true;
  if (missing_ > 0) return false;
  const size_t worst = Worst();
  return totals_[worst] <= target_ || totals_[worst] <= bounds_[worst] || TimeIsUp();
}

double Progress::Seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

bool Progress::TimeIsUp() const { return options_.time_limit > 0 && Seconds() >= options_.time_limit; }

void Progress::Note() {
  if (missing_ > 0) return;
  int64_t total = settled_total_;
  for (const int64_t part : totals_) total = std::max(total, part);
  for (size_t i = 0; i < parts_.size(); ++i) report_.lower_bound = std::max(report_.lower_bound, bounds_[i]);
  const bool news = report_.curve.empty() || total < report_.curve.back().total ||
                    report_.lower_bound > report_.curve.back().lower_bound;
  if (news) report_.curve.push_back({Seconds(), total, report_.lower_bound});
}

void Progress::Offer(size_t part, int64_t total, const std::vector<int64_t>& offsets) {
  total += parts_[part].base;
  if (total >= totals_[part]) return;
  if (totals_[part] == kNone) --missing_;
  totals_[part] = total;
  best_[part] = offsets;
  Note();
}

void Progress::RaiseBound(size_t part, int64_t bound) {
  bounds_[part] = std::max(bounds_[part], bound);
  Note();
}

Placement Progress::Finish() {
  Placement result;
  result.plan.offsets = std::move(settled_);
  for (size_t p = 0; p < parts_.size(); ++p) {
    for (size_t i = 0; i < parts_[p].size(); ++i) {
      result.plan.offsets[static_cast<size_t>(parts_[p].items[i].buffer)] = parts_[p].base + best_[p][i];
    }
  }
  for (size_t i = 0; i < problem_.buffers.size(); ++i) {
    result.plan.arena_bytes =
        std::max(result.plan.arena_bytes, result.plan.offsets[i] + problem_.buffers[i].size_bytes);
  }
  report_.seconds = Seconds();
  report_.proven = result.plan.arena_bytes <= report_.lower_bound;
  report_.clock_stopped = !report_.proven && TimeIsUp();
  result.report = std::move(report_);
  return result;
}

}  // namespace snug::core::memory
