// Turns bytes into numbers that suit a linear program. Solvers compute to about 1e-6 of the numbers in a row, so sizes
// are counted in units: their greatest common divisor where that keeps sums below a million, else a millionth of the
// sum.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace snug::core::memory {

class IlpScale {
 public:
  explicit IlpScale(const std::vector<int64_t>& sizes) {
    divisor_ = 0;
    double sum = 0;
    for (const int64_t size : sizes) {
      divisor_ = std::gcd(divisor_, size);
      sum += static_cast<double>(size);
    }
    divisor_ = std::max<int64_t>(divisor_, 1);
    unit_ = std::max(static_cast<double>(divisor_), sum / kLargest);
  }

  double FromBytes(int64_t bytes) const { return static_cast<double>(bytes) / unit_; }

  int64_t ToBytes(double value) const {
    return static_cast<int64_t>(std::llround(value * unit_ / static_cast<double>(divisor_))) * divisor_;
  }

  // A sum of sizes is a multiple of the divisor, so the solver's bound, less its tolerance, may be rounded up to one.
  int64_t BoundToBytes(double bound) const {
    if (!(bound > 0)) return 0;
    const double certain = (bound - kTolerance * std::max(1.0, bound)) * unit_ / static_cast<double>(divisor_);
    return std::max<int64_t>(0, static_cast<int64_t>(std::ceil(certain))) * divisor_;
  }

  // Two different sums differ by at least this.
  double step() const { return static_cast<double>(divisor_) / unit_; }

 private:
  static constexpr double kLargest = 1e6;
  static constexpr double kTolerance = 1e-6;

  int64_t divisor_;
  double unit_;
};

}  // namespace snug::core::memory
