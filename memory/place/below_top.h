// Picks where local search over lists begins: at what the top of a placement rests on.
#pragma once

#include <cstddef>
#include <random>
#include <vector>

namespace snug::core::memory {

// Walks down from an item that ends at the top, from each item to one that it rests on, for as long as `goes_on()`.
// `is_top(i)` tells whether i ends at the top; `rest(i, visit)` calls visit(j) for every j that i rests on.
template <class IsTop, class Rest, class GoesOn>
size_t PickBelowTop(size_t items, const IsTop& is_top, const Rest& rest, const GoesOn& goes_on, std::mt19937& random) {
  std::vector<size_t> choices;
  for (size_t i = 0; i < items; ++i) {
    if (is_top(i)) choices.push_back(i);
  }
  size_t picked = choices[random() % choices.size()];
  while (goes_on()) {
    choices.clear();
    rest(picked, [&](size_t other) { choices.push_back(other); });
    if (choices.empty()) break;
    picked = choices[random() % choices.size()];
  }
  return picked;
}

}  // namespace snug::core::memory
