// What the accesses that Steps declare order, by the rule of engine/base/conflict.h alone: for verifiers. It shares
// nothing with AccessHistory, from which schedules are made.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/compile/executable.h"

namespace snug::core {

// Thread-compatible. It has an edge into each Step from those that have last written bytes that it uses and, where it
// writes, from those that have read them since. Every pair of Steps that conflict is joined by a path of these.
class DeclaredOrder {
 public:
  explicit DeclaredOrder(const std::vector<Step>& steps);  // takes O(accesses x log)

  // Tells whether `a`, an earlier Step, must come before `b`. Other Steps between them may be needed for that: of a
  // buffer that is written in parts, only the first writer declares the whole.
  bool Before(int32_t a, int32_t b) const;

 private:
  std::vector<std::vector<int32_t>> behind_;  // by Step: those that it comes directly after, ascending
  mutable std::vector<int32_t> seen_by_;      // by Step: in which search it was found last
  mutable int32_t searches_ = 0;
};

}  // namespace snug::core
