#include "engine/train/judgement/confusion.h"

#include <algorithm>
#include <tuple>

namespace snug::core {
namespace {

double Share(int64_t part, int64_t whole) { return static_cast<double>(part) / static_cast<double>(whole); }

}  // namespace

double Confusion::Class::precision() const { return Share(right, predicted); }
double Confusion::Class::recall() const { return Share(right, samples); }
double Confusion::Class::f1() const { return Share(2 * right, samples + predicted); }

void Confusion::Add(int64_t label, int64_t predicted) {
  ++rows_;
  ++classes_[static_cast<size_t>(label)].samples;
  if (predicted == kNone) {
    ++unpredicted_;
  } else {
    ++classes_[static_cast<size_t>(predicted)].predicted;
  }
  if (label == predicted) {
    ++right_;
    ++classes_[static_cast<size_t>(label)].right;
  } else {
    ++confused_[Key(label, predicted)];
  }
}

std::vector<Confusion::Cell> Confusion::Confused() const {
  const int64_t stride = Key(1, kNone);
  std::vector<Cell> cells;
  cells.reserve(confused_.size());
  for (const auto& [key, count] : confused_) cells.push_back({key / stride, key % stride - 1, count});
  std::sort(cells.begin(), cells.end(), [](const Cell& a, const Cell& b) {
    return std::tuple(-a.count, a.label, a.predicted) < std::tuple(-b.count, b.label, b.predicted);
  });
  return cells;
}

int64_t Confusion::Count(int64_t label, int64_t predicted) const {
  if (label == predicted) return classes_[static_cast<size_t>(label)].right;
  const auto found = confused_.find(Key(label, predicted));
  return found == confused_.end() ? 0 : found->second;
}

double Confusion::accuracy() const { return Share(right_, rows_); }

Confusion::Means Confusion::means() const {
  Means sums;
  int64_t there = 0;
  for (const Class& one : classes_) {
    if (one.samples == 0) continue;
    ++there;
    if (one.predicted > 0) sums.precision += one.precision();
    sums.recall += one.recall();
    sums.f1 += one.f1();
  }
  const auto n = static_cast<double>(there);
  return {sums.precision / n, sums.recall / n, sums.f1 / n};
}

}  // namespace snug::core
