// Axes as kernels walk them: with divisions by multiplication (Granlund and Montgomery 1994), as a device has no
// instruction for the others, and calls a routine for them. It is for .cu files.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/host_device.h"
#include "ops/kit/axes.h"

namespace snug::core {

// Divides numbers from 0 on by one that is known when a kernel is launched.
class CudaDivisor {
 public:
  CudaDivisor() = default;
  // For numbers below `end`. Where it fits in 31 bits, a division takes 3 instructions, otherwise about 12. An array
  // that has a dimension of 0 divides nothing, so 0 will do.
  CudaDivisor(int64_t divisor, int64_t end) : is_short_(end <= kShort && divisor < kShort) {
    const auto d = static_cast<uint64_t>(std::max<int64_t>(divisor, 1));
    while ((uint64_t{1} << shift_) < d) ++shift_;
    const uint64_t excess = (uint64_t{1} << shift_) - d;
    magic_ = is_short_ ? (excess << 32) / d + 1 : static_cast<uint64_t>((Wide{excess} << 64) / d + 1);
  }
  bool is_short() const { return is_short_; }

  SNUG_HOST_DEVICE int64_t Divide(int64_t n) const {
    if (is_short_) return DivideShort(static_cast<uint32_t>(n));
    const auto wide = static_cast<uint64_t>(n);
    return static_cast<int64_t>((UpperHalf(wide, magic_) + wide) >> shift_);
  }
  SNUG_HOST_DEVICE uint32_t DivideShort(uint32_t n) const {  // if is_short()
    const auto magic = static_cast<uint32_t>(magic_);
    return (static_cast<uint32_t>((static_cast<uint64_t>(n) * magic) >> 32) + n) >> shift_;
  }

 private:
  __extension__ typedef unsigned __int128 Wide;  // NOLINT(modernize-use-using): nvcc takes no other form
  static constexpr int64_t kShort = int64_t{1} << 31;

  static SNUG_HOST_DEVICE uint64_t UpperHalf(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    return static_cast<uint64_t>((Wide{a} * b) >> 64);
#endif
  }

  uint64_t magic_ = 1;  // that and the shift: division by 1
  uint32_t shift_ = 0;
  bool is_short_ = true;
};

class CudaAxes {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): what a launch passes to a kernel
  CudaAxes(const Axes& axes) : axes_(axes) {
    const int64_t count = axes.count();
    for (int i = 0; i < axes.rank; ++i) {
      const auto axis = static_cast<size_t>(i);
      divisors_[axis] = CudaDivisor(axes.dims[axis], count);
      is_short_ = is_short_ && divisors_[axis].is_short();
    }
  }
  int64_t count() const { return axes_.count(); }

  // Returns where element i lies in the walked array.
  SNUG_HOST_DEVICE int64_t Offset(int64_t i) const {
    if (!is_short_) {
      return OffsetOf<int64_t>(i, [](const CudaDivisor& divisor, int64_t n) { return divisor.Divide(n); });
    }
    return OffsetOf<uint32_t>(static_cast<uint32_t>(i),
                              [](const CudaDivisor& divisor, uint32_t n) { return divisor.DivideShort(n); });
  }

 private:
  template <class Index, class Divide>
  SNUG_HOST_DEVICE int64_t OffsetOf(Index rest, const Divide& divide) const {
    int64_t offset = 0;
    for (int axis = axes_.rank - 1; axis > 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      const Index outer = divide(divisors_[a], rest);
      offset += static_cast<int64_t>(rest - outer * static_cast<Index>(axes_.dims[a])) * axes_.strides[a];
      rest = outer;
    }
    return axes_.rank == 0 ? 0 : offset + static_cast<int64_t>(rest) * axes_.strides[0];
  }

  Axes axes_;
  std::array<CudaDivisor, kMaxRank> divisors_ = {};
  bool is_short_ = true;
};

}  // namespace snug::core
