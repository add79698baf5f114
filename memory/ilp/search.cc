#include "memory/ilp/search.h"

#include <algorithm>

namespace snug::memory {

IlpSearch::IlpSearch(const PlannerOptions& options) : seconds_(options.time_limit), work_(options.work_limit) {
  if (seconds_ <= 0 && work_ <= 0) work_ = kDefaultWork;
}

void IlpSearch::Record() {
  if (total_ >= 0) report_.curve.push_back({Seconds(), total_, report_.lower_bound});
}

void IlpSearch::Improve(int64_t total) {
  if (total_ >= 0 && total >= total_) return;
  total_ = total;
  Record();
}

void IlpSearch::Tighten(int64_t lower_bound) {
  if (lower_bound <= report_.lower_bound) return;
  report_.lower_bound = lower_bound;
  Record();
}

IlpOptions IlpSearch::Limits(double part) const {
  IlpOptions limits;
  // A limit of 0 would be none.
  if (seconds_ > 0) limits.seconds = std::max(1e-3, (seconds_ - Seconds()) * part);
  if (work_ > 0) limits.work = std::max<int64_t>(1, work_ - report_.work);
  return limits;
}

void IlpSearch::Spend(const IlpResult& result) {
  report_.work += result.work;
  report_.clock_stopped |= result.clock_stopped;
}

SearchReport IlpSearch::Report(int64_t total) const {
  SearchReport report = report_;
  report.seconds = Seconds();
  report.proven = total <= report.lower_bound;
  return report;
}

}  // namespace snug::memory
