// OLLA finds the order of the tasks and the offsets of their values by integer linear programs. B. Steiner, M.
// Elhoushi, J. Kahn, J. Hegarty: "OLLA: Optimizing the Lifetime and Location of Arrays to Reduce the Memory Usage of
// Neural Networks", 2022. Section numbers below are the paper's.
#pragma once

#include "memory/tasks.h"

namespace snug::core::memory {

struct OllaOptions {
  enum class Mode {
    kJoint,  // one program for order and offsets (section 3)
    kSplit,  // one program for the order, then one for the offsets (4.4)
    kAuto,   // split, then joint too unless split is proven to waste nothing
  };
  Mode mode = Mode::kAuto;

  // These reductions keep the optimum.
  bool spans = true;       // 4.1: each task only within its earliest and latest position
  bool precedence = true;  // 4.2: no constraints on the offsets of two values that are never live together
  bool stages = true;      // orders only: splits the program where all orders have the same tasks behind them
  bool merge = true;       // orders only, not in the paper: joins tasks that may as well run in one go (order/reduce.h)

  // These reductions may lose the optimum.
  bool early_updates = false;  // 4.3: each weight update runs before some task that can run early
  bool pyramid = false;        // 4.5: stacks nested lifetimes, longest first, before it solves for the other offsets

  bool fast_start = true;   // the first plan is that of `best`, and its bound holds; otherwise it is that of the given
                            // order
  bool warm_start = false;  // the solver begins with the plan that it has to beat
  TaskOrder start;          // the given order, where only an order is asked for; empty: the first legal one

  friend bool operator==(const OllaOptions&, const OllaOptions&) = default;

  // The switches as the authors ran it.
  static OllaOptions Paper() {
    return {.mode = Mode::kSplit,
            .stages = false,
            .merge = false,
            .early_updates = true,
            .pyramid = true,
            .fast_start = false};
  }
};

}  // namespace snug::core::memory
