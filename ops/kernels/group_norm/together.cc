// Group norm of plain values on the processor: a group lies together and is done from start to end, so what is read
// again comes from the cache.
#include <cmath>

#include "engine/base/parallel.h"
#include "ops/kernels/group_norm/group_norm.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"

namespace snug::core {

template <class T>
void NormalizeTogether(int threads, const GroupView& view, const GroupNormForward<T>& call) {
  using A = Accumulator<T>;
  const int64_t n = view.elements_of_group();
  const int64_t inner = view.inner;
  ParallelFor(threads, view.samples * view.groups, GroupView::AtOnce(n), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t group = begin; group < end; ++group) {
        const T* x = call.x + group * n;
        T* y = call.y + group * n;
        const double count = static_cast<double>(n);
        const A mean =
            static_cast<A>(LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(x[i]); }) / count);
        const double squares = LaneSum<A>(n, [=](int64_t i) SNUG_LAMBDA {
          const A d = static_cast<A>(x[i]) - mean;
          return d * d;
        });
        const A inv_std = static_cast<A>(1 / std::sqrt(squares / count + call.epsilon));
        call.means[group] = mean;
        call.inv_stds[group] = inv_std;
        const int64_t first = group % view.groups * view.per_group;
        for (int64_t c = 0; c < view.per_group; ++c) {
          const T* a = x + c * inner;
          T* b = y + c * inner;
          const A scale = call.weight != nullptr ? inv_std * call.weight[first + c] : inv_std;
          const A bias = call.bias != nullptr ? call.bias[first + c] : A(0);
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < inner; ++i) b[i] = static_cast<T>((static_cast<A>(a[i]) - mean) * scale + bias);
        }
      }
    });
  });
}

// Leaves the sums of dy x' and of dy over the positions in `sums`, [samples][2][channels].
template <class T>
void GradTogether(int threads, const GroupView& view, const GroupNormBackward<T>& call, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  const int64_t n = view.elements_of_group();
  const int64_t inner = view.inner;
  ParallelFor(threads, view.samples * view.groups, GroupView::AtOnce(n), [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t group = begin; group < end; ++group) {
        const A mean = call.means[group];
        const A inv_std = call.inv_stds[group];
        const int64_t first = group % view.groups * view.per_group;
        A* products = sums + group / view.groups * 2 * view.channels + first;
        A* dys = products + view.channels;
        double g = 0, gx = 0;
        for (int64_t c = 0; c < view.per_group; ++c) {
          const T* a = call.x + group * n + c * inner;
          const T* d = call.dy + group * n + c * inner;
          const double dy = LaneSum<A>(inner, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(d[i]); });
          const double product = LaneSum<A>(
              inner, [=](int64_t i) SNUG_LAMBDA { return static_cast<A>(d[i]) * (static_cast<A>(a[i]) - mean); });
          const double weight = call.weight != nullptr ? static_cast<double>(call.weight[first + c]) : 1;
          g += weight * dy;
          gx += weight * product;
          dys[c] = static_cast<A>(dy);
          products[c] = static_cast<A>(product * static_cast<double>(inv_std));
        }
        const GroupGradient<A> gradient(g, gx, static_cast<double>(inv_std), n);
        for (int64_t c = 0; c < view.per_group; ++c) {
          const T* a = call.x + group * n + c * inner;
          const T* d = call.dy + group * n + c * inner;
          T* b = call.dx + group * n + c * inner;
          const A scale = call.weight != nullptr ? inv_std * call.weight[first + c] : inv_std;
          SNUG_INDEPENDENT
          for (int64_t i = 0; i < inner; ++i) {
            b[i] = static_cast<T>(static_cast<A>(d[i]) * scale +
                                  ((static_cast<A>(a[i]) - mean) * gradient.slope + gradient.offset));
          }
        }
      }
    });
  });
}

template void NormalizeTogether(int, const GroupView&, const GroupNormForward<float>&);
template void NormalizeTogether(int, const GroupView&, const GroupNormForward<BFloat16>&);
template void NormalizeTogether(int, const GroupView&, const GroupNormForward<double>&);
template void GradTogether(int, const GroupView&, const GroupNormBackward<float>&, Accumulator<float>*);
template void GradTogether(int, const GroupView&, const GroupNormBackward<BFloat16>&, Accumulator<BFloat16>*);
template void GradTogether(int, const GroupView&, const GroupNormBackward<double>&, Accumulator<double>*);

}  // namespace snug::core
