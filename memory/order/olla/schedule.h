// Writes OLLA's lifetimes as linear constraints (sections 3.2 and 4.1), with one task at each position.
//
// The paper has two binaries for each value and position: C says that it is written there, and P that it is kept. Here
// both follow from one binary for each task and position, done(task, position), which says whether the task has run at
// that position or before.
//   C(value, t) = done(writer, t) - done(writer, t - 1),  live = C + P >= done(writer, t) - done(reader, t - 1)
// The equations of the paper become: each task once and all its outputs with it (3, 5): done never falls and ends at 1;
// inputs are there (4): done(reader, t) <= done(writer, t - 1); created or kept, not both (1, 2): by construction.
#pragma once

#include <absl/types/span.h>

#include <cstdint>
#include <vector>

#include "memory/ilp/model.h"
#include "memory/order/olla/graph.h"

namespace snug::core::memory {

// A sum of terms and a constant.
struct Affine {
  std::vector<LinearTerm> terms;
  double constant = 0;

  bool IsConstant() const { return terms.empty(); }
  void Add(const Affine& other, double factor);
};

class OllaSchedule {
 public:
  // Adds the variables of the order to `model`. With `spans`, each task runs within its earliest and latest position
  // only.
  OllaSchedule(const OllaGraph& graph, bool spans, IlpModel* model);

  // Is 1 if the value is live at the position. It is as tight as the order allows, but a solution may have 1 elsewhere
  // too.
  const Affine& Live(size_t value, int32_t position) const {
    return live_[value * static_cast<size_t>(size_) + static_cast<size_t>(position)];
  }

  // Returns a legal order for any values: a solution's own order, and where some values are unknown (NaN) one that is
  // close to the known ones.
  TaskOrder Decode(absl::Span<const double> values) const;

  // Writes the values of the variables for `order`.
  void Encode(const TaskOrder& order, std::vector<double>* values) const;

 private:
  Affine Done(int32_t task, int32_t position) const;
  // Returns the number of positions at which the task has not run yet.
  double PositionOf(size_t task, absl::Span<const double> values) const;
  void AddPositions(bool spans);
  void AddPrecedence();
  Affine MakeLive(size_t value, int32_t position);

  const OllaGraph& graph_;
  int32_t size_;
  IlpModel* model_;
  // The task has not run before first_ and has run at last_; the variables from done_ on say whether it has run in
  // between. All are indexed by task.
  std::vector<int32_t> first_, last_, done_;
  std::vector<Affine> live_;
  std::vector<std::pair<int32_t, std::vector<Affine>>> live_variables_;  // each variable is the maximum of its
                                                                         // expressions
};

}  // namespace snug::core::memory
