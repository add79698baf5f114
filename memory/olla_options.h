// OLLA: the order of the tasks and the offsets of their values as integer linear programs.
// B. Steiner, M. Elhoushi, J. Kahn, J. Hegarty: "OLLA: Optimizing the Lifetime and Location of Arrays to Reduce the
// Memory Usage of Neural Networks", 2022. Section numbers below are the paper's.
#pragma once

#include "memory/tasks.h"

namespace snug::memory {

struct OllaOptions {
  enum class Mode {
    kJoint,  // one program for order and offsets (section 3)
    kSplit,  // one for the order, then one for the offsets (4.4)
    kAuto,   // split, and joint too unless that is proven to be without waste
  };
  Mode mode = Mode::kAuto;

  // Reductions that keep the optimum.
  bool spans = true;       // 4.1: each task only within its earliest and latest position
  bool precedence = true;  // 4.2: nothing about the offsets of two values that are never live together
  bool stages = true;      // orders only: where all orders have the same tasks behind them, one program ends
  bool merge = true;  // orders only, not in the paper: tasks that may as well run in one go are one (order/reduce.h)

  // Reductions that may lose it.
  bool early_updates = false;  // 4.3: each weight update runs before some task that can run early
  bool pyramid = false;        // 4.5: nested lifetimes are stacked, longest first, before the offsets are solved for

  bool fast_start = true;   // the first plan is that of `best`, and its bound holds; else the given order's
  bool warm_start = false;  // the solver begins with the plan that it has to beat
  TaskOrder start;          // where only an order is asked for: the given one; empty: the first legal one

  // As the authors ran it.
  static OllaOptions Paper() {
    return {.mode = Mode::kSplit,
            .stages = false,
            .merge = false,
            .early_updates = true,
            .pyramid = true,
            .fast_start = false};
  }
};

}  // namespace snug::memory
