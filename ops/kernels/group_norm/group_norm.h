// Group normalisation (Wu, He 2018): each group of neighbouring channels (axis 1) of each sample by its own mean and
// variance. This has the numbers of a node, what its kernels read and write, and the processor's kernels, of which one
// (together.cc) is for groups that lie together, the other (side_by_side.cc) for channels that lie side by side; CUDA's
// are in cuda.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/graph/value_type.h"
#include "ops/kernel_context.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/nn/norm_chunks.h"

namespace snug::core {

struct GroupView {
  static constexpr int64_t kMaxRows = 512;  // a chunk has no more positions, as they are added up in float

  GroupView(const ValueType& x, int64_t all_groups)
      : samples(x.shape[0]), channels(x.shape[1]), inner(x.shape.Count(2, x.shape.rank())), groups(all_groups) {
    per_group = channels / groups;
    side_by_side = x.layout.channels_last() || inner == 1;
    if (side_by_side) {
      rows_per_chunk = std::clamp(kNormChunk / std::max<int64_t>(1, channels), kMinNormRows, kMaxRows);
      chunks = (inner + rows_per_chunk - 1) / rows_per_chunk;
      at_once = AtOnce(std::min(inner, rows_per_chunk) * channels);
    }
  }
  // Returns how many pieces of work, of so many elements, are worth a thread.
  static int64_t AtOnce(int64_t elements) { return std::max<int64_t>(1, kNormChunk / std::max<int64_t>(1, elements)); }

  int64_t elements_of_group() const { return per_group * inner; }
  // These are for chunks, which are counted through all samples.
  int64_t RowsOf(int64_t chunk) const { return std::min(rows_per_chunk, inner - chunk % chunks * rows_per_chunk); }
  int64_t Offset(int64_t chunk) const { return (chunk / chunks * inner + chunk % chunks * rows_per_chunk) * channels; }

  int64_t samples, channels, inner;  // `inner` positions
  int64_t groups, per_group;
  bool side_by_side;
  int64_t rows_per_chunk = 0, chunks = 1;  // of a sample
  int64_t at_once = 1;                     // chunks that are a piece of work
};

template <class T>
struct GroupNormForward {
  using S = Float32Port<T>;
  GroupNormForward(const KernelContext& k, double added)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        bias(k.has_input(2) ? k.input<S>(2) : nullptr),
        y(k.output<T>(0)),
        means(k.output<S>(1)),
        inv_stds(k.output<S>(2)),
        epsilon(added) {}
  const T* x;
  const S *weight, *bias;  // [channels], or null
  T* y;                    // may be x
  S *means, *inv_stds;     // [samples, groups]
  double epsilon;
};

// Let g = dy weight and x' = (x - mean) inv_std. Then dx = inv_std (g - mean(g) - x' mean(g x')), means over the group;
// dweight and dbias are the sums over samples and positions of dy x' and dy. The sums over positions, for each channel,
// give the group's means too.
template <class T>
struct GroupNormBackward {
  using S = Float32Port<T>;
  explicit GroupNormBackward(const KernelContext& k)
      : x(k.input<T>(0)),
        weight(k.has_input(1) ? k.input<S>(1) : nullptr),
        means(k.input<S>(2)),
        inv_stds(k.input<S>(3)),
        dy(k.input<T>(4)),
        dx(k.output<T>(0)),
        dweight(k.output<S>(1)),
        dbias(k.output<S>(2)) {}
  const T* x;
  const S* weight;
  const S *means, *inv_stds;
  const T* dy;
  T* dx;  // may be x or dy
  S *dweight, *dbias;
};

// A channel's gradient is dx = dy scale + (x - mean) slope + offset; the last two are the same for the whole group.
template <class A>
struct GroupGradient {
  // `g` and `gx` are the sums of g and of g (x - mean) over the group.
  SNUG_INLINE GroupGradient(double g, double gx, double inv_std, int64_t count)
      : slope(static_cast<A>(-inv_std * inv_std * inv_std * gx / static_cast<double>(count))),
        offset(static_cast<A>(-inv_std * g / static_cast<double>(count))) {}
  A slope, offset;
};

template <class T>
void NormalizeTogether(int threads, const GroupView& view, const GroupNormForward<T>& call);
// `workspace` is [chunks of all samples][2][channels].
template <class T>
void NormalizeSideBySide(int threads, const GroupView& view, const GroupNormForward<T>& call,
                         Accumulator<T>* workspace);

// Both compute dx, and leave the sums of dy x' and of dy over the positions, for each sample, in `sums`: [samples][2]
// [channels], or at the beginning of the sample's [chunks][2][channels]. After these there is room for
// kGroupGradNumbers for each sample and channel where channels lie side by side.
inline constexpr int64_t kGroupGradNumbers = 4;
template <class T>
void GradTogether(int threads, const GroupView& view, const GroupNormBackward<T>& call, Accumulator<T>* sums);
template <class T>
void GradSideBySide(int threads, const GroupView& view, const GroupNormBackward<T>& call, Accumulator<T>* sums);

}  // namespace snug::core
