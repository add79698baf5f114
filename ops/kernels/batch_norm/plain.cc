// The plain kernels of batch normalisation, and what they share with the fast ones.
#include <absl/strings/str_cat.h>

#include <cmath>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/batch_norm/batch_norm.h"
#include "ops/math/functions.h"

namespace snug::core {
namespace {

constexpr int64_t kGroup = 16;  // channels that are done together: they fill a cache line where they lie side by side

// Calls fn(i, c) for every element i of the channels [begin, end) in the order of memory; c counts from `begin`.
template <class Fn>
void ForEachInGroup(const ChannelView& view, int64_t begin, int64_t end, Fn&& fn) {
  for (int64_t n = 0; n < view.outer; ++n) {
    for (int64_t c = begin; c < end; ++c) {
      const int64_t first = (n * view.channels + c) * view.inner;
      for (int64_t i = first; i < first + view.inner; ++i) fn(i, c - begin);
    }
  }
}

}  // namespace

ChannelView::ChannelView(const ValueType& x) {
  const int rank = x.shape.rank();
  outer = x.shape[0];
  channels = x.shape[1];
  inner = x.shape.Count(2, rank);
  if (x.layout.channels_last()) {
    outer *= inner;
    inner = 1;
  }
}

template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormForward<T>& call) {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  const double n = static_cast<double>(view.count());
  ParallelFor(threads, view.channels, kGroup, [&](int64_t begin, int64_t end) {
    double mean[kGroup] = {}, var[kGroup] = {}, scale[kGroup];
    const bool of_batch = call.batch_mean != nullptr;
    if (of_batch) {
      ForEachInGroup(view, begin, end, [&](int64_t i, int64_t c) { mean[c] += static_cast<double>(call.x[i]); });
      for (double& m : mean) m /= n;
      ForEachInGroup(view, begin, end, [&](int64_t i, int64_t c) {
        const double d = static_cast<double>(call.x[i]) - mean[c];
        var[c] += d * d;
      });
    }
    for (int64_t c = begin; c < end; ++c) {
      const int64_t j = c - begin;
      if (of_batch) {
        call.batch_mean[c] = static_cast<S>(mean[j]);
        call.batch_var[c] = static_cast<S>(var[j] / n);
      }
      mean[j] = static_cast<double>(of_batch ? call.batch_mean[c] : call.mean[c]);
      var[j] = static_cast<double>(of_batch ? call.batch_var[c] : call.var[c]);
      scale[j] = (call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1) / std::sqrt(var[j] + call.epsilon);
    }
    ForEachInGroup(view, begin, end, [&](int64_t i, int64_t j) {
      A v = (static_cast<A>(call.x[i]) - static_cast<A>(mean[j])) * static_cast<A>(scale[j]);
      if (call.bias != nullptr) v += static_cast<A>(call.bias[begin + j]);
      if (call.add != nullptr) v += static_cast<A>(call.add[i]);
      call.y[i] = static_cast<T>(call.silu ? functions::Silu()(v) : Activate(call.activation, v));
    });
  });
}

template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormBackward<T>& call) {
  using A = Accumulator<T>;
  using S = Float32Port<T>;
  const double n = static_cast<double>(view.count());
  ParallelFor(threads, view.channels, kGroup, [&](int64_t begin, int64_t end) {
    double sum[kGroup] = {}, product[kGroup] = {}, inv_std[kGroup], scale[kGroup];
    for (int64_t c = begin; c < end; ++c) {
      inv_std[c - begin] = 1 / std::sqrt(static_cast<double>(call.var[c]) + call.epsilon);
      scale[c - begin] = (call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1) * inv_std[c - begin];
    }
    const auto rest = [&](int64_t c) { return call.mean_rest != nullptr ? call.mean_rest[begin + c] : S(0); };
    const auto centred = [&](int64_t i, int64_t c) {
      return static_cast<A>(call.x[i]) - static_cast<A>(call.mean[begin + c]) - static_cast<A>(rest(c));
    };
    const auto g = [&](int64_t i, int64_t c) {
      const A bias = call.bias != nullptr ? static_cast<A>(call.bias[begin + c]) : A(0);
      const A v = call.y != nullptr ? static_cast<A>(call.y[i]) : centred(i, c) * static_cast<A>(scale[c]) + bias;
      const A dy = static_cast<A>(call.dy[i]);
      if (call.silu) return functions::SiluGrad()(v, dy);
      if (!LetsThrough(call.activation, v)) return A(0);
      return call.dy2 == nullptr ? dy : static_cast<A>(static_cast<T>(dy + static_cast<A>(call.dy2[i])));
    };
    ForEachInGroup(view, begin, end, [&](int64_t i, int64_t c) {
      const A through = g(i, c);
      if (call.dadd != nullptr) call.dadd[i] = static_cast<T>(through);
      sum[c] += static_cast<double>(through);
      product[c] +=
          static_cast<double>(through) *
          (static_cast<double>(call.x[i]) - static_cast<double>(call.mean[begin + c]) - static_cast<double>(rest(c)));
    });
    for (int64_t c = begin; c < end; ++c) {
      const int64_t j = c - begin;
      product[j] *= inv_std[j];
      call.dbias[c] = static_cast<S>(sum[j]);
      call.dweight[c] = static_cast<S>(product[j]);
      if (!call.training) sum[j] = product[j] = 0;  // the statistics do not depend on x
    }
    ForEachInGroup(view, begin, end, [&](int64_t i, int64_t j) {
      const A through = call.dadd != nullptr ? static_cast<A>(call.dadd[i]) : g(i, j);
      const A dx = static_cast<A>(scale[j]) *
                   (through - static_cast<A>(sum[j] / n) - centred(i, j) * static_cast<A>(inv_std[j] * product[j] / n));
      call.dx[i] = static_cast<T>(dx);
    });
  });
}

template <class T>
void BatchNormPlain(int threads, const ChannelView& view, const BatchNormGradInput<T>& call) {
  using A = Accumulator<T>;
  const double n = static_cast<double>(view.count());
  ParallelFor(threads, view.channels, kGroup, [&](int64_t begin, int64_t end) {
    double inv_std[kGroup], scale[kGroup];
    for (int64_t c = begin; c < end; ++c) {
      inv_std[c - begin] = 1 / std::sqrt(static_cast<double>(call.var[c]) + call.epsilon);
      scale[c - begin] = (call.weight != nullptr ? static_cast<double>(call.weight[c]) : 1) * inv_std[c - begin];
    }
    ForEachInGroup(view, begin, end, [&](int64_t i, int64_t j) {
      const int64_t c = begin + j;
      const double normalised = (static_cast<double>(call.x[i]) - static_cast<double>(call.mean[c])) * inv_std[j];
      const double of_all = static_cast<double>(call.dbias[c]) + normalised * static_cast<double>(call.dweight[c]);
      call.dx[i] = static_cast<T>(static_cast<A>(scale[j] * (static_cast<double>(call.dy[i]) - of_all / n)));
    });
  });
}

template void BatchNormPlain(int, const ChannelView&, const BatchNormForward<float>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormForward<double>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormForward<BFloat16>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormBackward<float>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormBackward<double>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormBackward<BFloat16>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormGradInput<float>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormGradInput<double>&);
template void BatchNormPlain(int, const ChannelView&, const BatchNormGradInput<BFloat16>&);

absl::Status PrepareBatchNorm(PrepareContext& c) {
  c.SetWorkspaceBytes(BatchNormWorkspace(ChannelView(c.types().input(0))));
  return absl::OkStatus();
}

}  // namespace snug::core
