// What every planner takes and gives. A placer gives a Problem offsets; an orderer gives Tasks an Order; a strategy
// (strategies.h) is one of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/olla_options.h"
#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::memory {

struct PlannerOptions {
  // Planners that search count work in steps of their own kind and stop when it is spent: the same limit gives the same
  // plan on every machine and with any number of threads. 0: each planner's default.
  int64_t work_limit = 0;
  double time_limit = 0;  // seconds; 0: none. A plan that a clock stopped is not reproducible, and the report says so.
  int threads = 1;
  int64_t capacity = 0;  // > 0: stop as soon as the total is no larger
  int match_range =
      16;          // share: from the pool, blocks in [size / R, size * R]; 0 shares nothing; < 0 tries 1, 2, 4, ...
  int colors = 2;  // parallel sharing: how many longest paths are coloured
  OllaOptions olla;
};

struct CurvePoint {
  double seconds = 0;
  int64_t total = 0;
  int64_t lower_bound = 0;
};

// How a search went.
struct SearchReport {
  int64_t lower_bound = 0;  // no legal answer has less; of what, the planner's header says
  bool proven = false;      // the answer is optimal
  bool clock_stopped = false;
  double seconds = 0;
  int64_t work = 0;                // spent
  std::vector<CurvePoint> curve;   // each improvement of the total or of the bound, oldest first
  std::vector<std::string> notes;  // what it tried and how far it came, and what it did not try; one a line
};

struct Placement {
  Plan plan;
  SearchReport report;
};

struct Ordering {
  TaskOrder order;
  int64_t peak = 0;
  SearchReport report;
};

}  // namespace snug::memory
