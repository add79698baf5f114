// Numbers for tests of kernels: between -1 and 1, no two neighbours alike, the same each time.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug::core {

template <class T>
std::vector<T> Wave(int64_t count, double step) {
  std::vector<T> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(static_cast<float>(std::sin(step * static_cast<double>(i + 1))));
  }
  return values;
}

}  // namespace snug::core
