// What every planner takes and gives. A placer gives a Problem offsets, an orderer gives Tasks an Order, and a strategy
// (strategies.h) is one of each.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memory/olla_options.h"
#include "memory/problem.h"
#include "memory/tasks.h"

namespace snug::core::memory {

struct PlannerOptions {
  // Planners that search count work in units of their own and stop when it is spent: the same limit gives the same plan
  // on every machine and with any number of threads. 0 means each planner's default.
  int64_t work_limit = 0;
  double time_limit = 0;  // in seconds; 0: none. A plan that a clock stopped is not reproducible, and the report says
                          // so.
  int threads = 1;
  int64_t capacity = 0;  // when > 0, stops as soon as the total is no larger
  // Sharing takes blocks of [size / R, size * R] bytes from the pool. 0 shares nothing; below 0 it tries 1, 2, 4, ...
  int match_range = 16;
  int colors = 2;  // parallel sharing colours so many longest paths
  OllaOptions olla;
};

struct CurvePoint {
  double seconds = 0;
  int64_t total = 0;
  int64_t lower_bound = 0;
};

// Tells how a search went.
struct SearchReport {
  int64_t lower_bound = 0;  // no legal answer needs less; the planner's header says what the bound covers
  bool proven = false;      // whether the answer is proven to be optimal
  bool clock_stopped = false;
  double seconds = 0;
  int64_t work = 0;                // the work that was spent
  std::vector<CurvePoint> curve;   // each improvement of the total or of the bound, oldest first
  std::vector<std::string> notes;  // a line each: what it tried and how far it came, and what it did not try
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

}  // namespace snug::core::memory
