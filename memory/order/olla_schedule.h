// The lifetimes of OLLA as linear constraints (sections 3.2 and 4.1), one task at each position.
//
// The paper has two binaries for each value and position: C, it is written there, and P, it is kept. They follow from
// one for each task: done(task, position), whether the task has run at that position or before.
//   C(value, t) = done(writer, t) - done(writer, t - 1),  live = C + P >= done(writer, t) - done(reader, t - 1)
// The equations of the paper become: each task once and all its outputs with it (3, 5): done never falls and ends at 1;
// inputs are there (4): done(reader, t) <= done(writer, t - 1); created or kept, not both (1, 2): by construction.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/ilp/model.h"
#include "memory/order/olla_graph.h"

namespace snug::memory {

// Terms and a constant.
struct Affine {
  std::vector<LinearTerm> terms;
  double constant = 0;

  bool IsConstant() const { return terms.empty(); }
  void Add(const Affine& other, double factor);
};

class OllaSchedule {
 public:
  // Adds the variables of the order to `model`. With `spans`, a task only runs within its earliest and latest position.
  OllaSchedule(const OllaGraph& graph, bool spans, IlpModel* model);

  // 1 if the value is live at the position: as tight as the order allows, and in solutions possibly more than that.
  const Affine& Live(size_t value, int32_t position) const {
    return live_[value * static_cast<size_t>(size_) + static_cast<size_t>(position)];
  }

  // A legal order, whatever the values: where they are a solution, theirs; where some are not known (NaN), one that is
  // near what is known.
  TaskOrder Decode(absl::Span<const double> values) const;

  // Writes the variables that stand for `order`.
  void Encode(const TaskOrder& order, std::vector<double>* values) const;

 private:
  Affine Done(int32_t task, int32_t position) const;
  // The number of positions at which it has not run yet.
  double PositionOf(size_t task, absl::Span<const double> values) const;
  void AddPositions(bool spans);
  void AddPrecedence();
  Affine MakeLive(size_t value, int32_t position);

  const OllaGraph& graph_;
  int32_t size_;
  IlpModel* model_;
  // For each task: it has not run before first_, it has at last_, and between the two variables say whether it has.
  std::vector<int32_t> first_, last_, done_;
  std::vector<Affine> live_;
  std::vector<std::pair<int32_t, std::vector<Affine>>> live_variables_;  // each the maximum of its expressions
};

}  // namespace snug::memory
