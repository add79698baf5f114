// Reads one operand of a broadcasting op in the order in which the output lies in memory.
//
// Kernels run over blocks of the output. An operand that lies like the output is read where it is; any other (a scalar,
// one number per channel, another order of axes) is first spread into a buffer of one block, which stays in the
// first-level cache. So an op needs one vector loop, whatever is broadcast.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kit/axes.h"
#include "ops/kit/isa.h"

namespace snug::core {

class BroadcastView {
 public:
  // Axes are aligned at the end, as in NumPy. The shapes must be compatible.
  BroadcastView(const ValueType& operand, const ValueType& output);
  // `strides` has the operand's stride along each axis of the output, 0 where the operand is repeated.
  BroadcastView(const Strides& strides, const ValueType& output);

  // Says whether element i of the output reads element i of the operand.
  bool contiguous() const { return axes_.rank == 0 || (axes_.rank == 1 && axes_.strides[0] == 1); }

  // The axes of the output in memory order, with the operand's strides.
  const Axes& axes() const { return axes_; }

  // Returns the operand's elements for the output's elements [begin, begin + count): they are in x itself, or copied
  // into `buffer`.
  template <class T>
  SNUG_INLINE const T* Read(const T* x, int64_t begin, int64_t count, T* __restrict buffer) const {
    if (contiguous()) return x + begin;
    const int64_t stride = axes_.inner_stride();
    int64_t done = 0;
    for (Walk walk(axes_, begin); done < count;) {
      const int64_t run = std::min(count - done, walk.left());
      const T* from = x + walk.offset();
      T* to = buffer + done;
      if (stride == 0) {
        const T value = *from;
        for (int64_t i = 0; i < run; ++i) to[i] = value;
      } else if (stride == 1) {
        for (int64_t i = 0; i < run; ++i) to[i] = from[i];
      } else {
        for (int64_t i = 0; i < run; ++i) to[i] = from[i * stride];
      }
      walk.Advance(run);
      done += run;
    }
    return buffer;
  }

 private:
  Axes axes_;
};

}  // namespace snug::core
