// A debug aid that overwrites bytes as soon as nothing needs them. A kernel that reads what a plan has freed, or what
// nobody has written, then finds NaNs (all bits set) instead of numbers that happen to be right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memory/problem.h"

namespace snug::core {

class Poison {
 public:
  // Positions in the problem are numbers of Steps, 0 to steps - 1.
  Poison(const memory::Problem& problem, const memory::Plan& plan, size_t steps, std::byte* arena);

  void BeforeSteps() { Fill(unfed_); }  // overwrites all that is not fed
  void AfterStep(size_t step) { Fill(freed_[step]); }

 private:
  struct Range {
    int64_t begin, end;
  };
  using Ranges = std::vector<Range>;
  static Ranges Without(const Ranges& ranges, const Range& taken);
  void Fill(const Ranges& ranges);

  std::byte* arena_;
  Ranges unfed_;
  std::vector<Ranges> freed_;  // by Step
};

}  // namespace snug::core
