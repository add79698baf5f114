// Group norm on the processor where channels lie side by side (channels-last, or no axes after the channels). The
// positions of a sample are cut into chunks, by the shape alone: sums of each chunk and channel are left in the
// workspace and added in order. So the bits are the same on any number of threads.
#include <cmath>

#include "engine/base/parallel.h"
#include "ops/kernels/group_norm/group_norm.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

// Adds up element(offset, channel) over the rows of a chunk, for each channel.
template <class A, class Element>
SNUG_INLINE void SumRows(int64_t rows, int64_t channels, A* sums, Element element) {
  for (int64_t c = 0; c < channels; ++c) sums[c] = 0;
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4) {
    const int64_t i = row * channels;
    SNUG_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) {
      sums[c] += (element(i + c, c) + element(i + channels + c, c)) +
                 (element(i + 2 * channels + c, c) + element(i + 3 * channels + c, c));
    }
  }
  for (; row < rows; ++row) {
    const int64_t i = row * channels;
    SNUG_INDEPENDENT
    for (int64_t c = 0; c < channels; ++c) sums[c] += element(i + c, c);
  }
}

template <class A>
SNUG_INLINE double SumOf(const A* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]);
  return sum;
}

}  // namespace

// `workspace` is [chunks of all samples][2][channels]: first, for each chunk, the means of its groups, once for each of
// their channels, and the sums of squares around these, in a group's first channel. Then the first chunk of each sample
// has the sample's means and scales instead.
template <class T>
void NormalizeSideBySide(int threads, const GroupView& view, const GroupNormForward<T>& call,
                         Accumulator<T>* workspace) {
  using A = Accumulator<T>;
  const int64_t channels = view.channels;
  const int64_t per_group = view.per_group;
  const int64_t all_chunks = view.samples * view.chunks;
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const T* x = call.x + view.Offset(chunk);
        const int64_t rows = view.RowsOf(chunk);
        A* means = workspace + chunk * 2 * channels;
        A* squares = means + channels;
        SumRows(rows, channels, means, [=](int64_t i, int64_t) SNUG_LAMBDA { return static_cast<A>(x[i]); });
        for (int64_t first = 0; first < channels; first += per_group) {
          const A mean = static_cast<A>(SumOf(means + first, per_group) / static_cast<double>(rows * per_group));
          for (int64_t c = 0; c < per_group; ++c) means[first + c] = mean;
        }
        SumRows(rows, channels, squares, [=](int64_t i, int64_t c) SNUG_LAMBDA {
          const A d = static_cast<A>(x[i]) - means[c];
          return d * d;
        });
        for (int64_t first = 0; first < channels; first += per_group) {
          squares[first] = static_cast<A>(SumOf(squares + first, per_group));
        }
      }
    });
  });
  const int64_t samples_at_once = GroupView::AtOnce(view.chunks * channels);
  ParallelFor(threads, view.samples, samples_at_once, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin * view.groups; group < end * view.groups; ++group) {
      const int64_t sample = group / view.groups;
      A* numbers = workspace + sample * view.chunks * 2 * channels + group % view.groups * per_group;
      const double count = static_cast<double>(view.elements_of_group());
      double sum = 0;
      for (int64_t chunk = 0; chunk < view.chunks; ++chunk) {
        sum += static_cast<double>(numbers[chunk * 2 * channels]) * static_cast<double>(view.RowsOf(chunk) * per_group);
      }
      const double mean = sum / count;
      double squares = 0;
      for (int64_t chunk = 0; chunk < view.chunks; ++chunk) {
        const A* of_chunk = numbers + chunk * 2 * channels;
        const double d = static_cast<double>(of_chunk[0]) - mean;
        squares +=
            static_cast<double>(of_chunk[channels]) + d * d * static_cast<double>(view.RowsOf(chunk) * per_group);
      }
      const A inv_std = static_cast<A>(1 / std::sqrt(squares / count + call.epsilon));
      call.means[group] = static_cast<A>(mean);
      call.inv_stds[group] = inv_std;
      const auto* weight = call.weight != nullptr ? call.weight + group % view.groups * per_group : nullptr;
      for (int64_t c = 0; c < per_group; ++c) {
        numbers[c] = static_cast<A>(mean);
        numbers[channels + c] = weight != nullptr ? inv_std * weight[c] : inv_std;
      }
    }
  });
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const A* means = workspace + chunk / view.chunks * view.chunks * 2 * channels;
        const A* scales = means + channels;
        const auto* bias = call.bias;
        for (int64_t row = 0; row < view.RowsOf(chunk); ++row) {
          const T* x = call.x + view.Offset(chunk) + row * channels;
          T* y = call.y + view.Offset(chunk) + row * channels;
          if (bias != nullptr) {
            SNUG_INDEPENDENT
            for (int64_t c = 0; c < channels; ++c) {
              y[c] = static_cast<T>((static_cast<A>(x[c]) - means[c]) * scales[c] + bias[c]);
            }
          } else {
            SNUG_INDEPENDENT
            for (int64_t c = 0; c < channels; ++c) y[c] = static_cast<T>((static_cast<A>(x[c]) - means[c]) * scales[c]);
          }
        }
      }
    });
  });
}

// `sums` is [chunks of all samples][2][channels]: of dy (x - mean) and of dy. Then the first chunk of each sample has
// the sums of dy x' and dy over all of them. `numbers` is [samples][kGroupGradNumbers][channels]: means, scales,
// slopes, offsets.
template <class T>
void GradSideBySide(int threads, const GroupView& view, const GroupNormBackward<T>& call, Accumulator<T>* sums) {
  using A = Accumulator<T>;
  const int64_t channels = view.channels;
  const int64_t per_group = view.per_group;
  const int64_t all_chunks = view.samples * view.chunks;
  A* const numbers = sums + all_chunks * 2 * channels;
  const int64_t samples_at_once = GroupView::AtOnce(view.chunks * channels);
  ParallelFor(threads, view.samples * view.groups, samples_at_once * view.groups, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      A* means = numbers + group / view.groups * kGroupGradNumbers * channels + group % view.groups * per_group;
      for (int64_t c = 0; c < per_group; ++c) means[c] = call.means[group];
    }
  });
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const T* x = call.x + view.Offset(chunk);
        const T* dy = call.dy + view.Offset(chunk);
        const A* means = numbers + chunk / view.chunks * kGroupGradNumbers * channels;
        A* products = sums + chunk * 2 * channels;
        SumRows(view.RowsOf(chunk), channels, products, [=](int64_t i, int64_t c) SNUG_LAMBDA {
          return static_cast<A>(dy[i]) * (static_cast<A>(x[i]) - means[c]);
        });
        SumRows(view.RowsOf(chunk), channels, products + channels,
                [=](int64_t i, int64_t) SNUG_LAMBDA { return static_cast<A>(dy[i]); });
      }
    });
  });
  ParallelFor(threads, view.samples, samples_at_once, [=](int64_t begin, int64_t end) {
    for (int64_t group = begin * view.groups; group < end * view.groups; ++group) {
      const int64_t sample = group / view.groups;
      const int64_t first = group % view.groups * per_group;
      A* products = sums + sample * view.chunks * 2 * channels + first;
      const A inv_std = call.inv_stds[group];
      const auto* weight = call.weight != nullptr ? call.weight + first : nullptr;
      double g = 0, gx = 0;
      for (int64_t c = 0; c < per_group; ++c) {
        double product = 0, dy = 0;
        for (int64_t chunk = 0; chunk < view.chunks; ++chunk) {
          product += static_cast<double>(products[chunk * 2 * channels + c]);
          dy += static_cast<double>(products[chunk * 2 * channels + channels + c]);
        }
        const double factor = weight != nullptr ? static_cast<double>(weight[c]) : 1;
        g += factor * dy;
        gx += factor * product;
        products[c] = static_cast<A>(product * static_cast<double>(inv_std));
        products[channels + c] = static_cast<A>(dy);
      }
      const GroupGradient<A> gradient(g, gx, static_cast<double>(inv_std), view.elements_of_group());
      A* scales = numbers + (sample * kGroupGradNumbers + 1) * channels + first;
      for (int64_t c = 0; c < per_group; ++c) {
        scales[c] = weight != nullptr ? inv_std * weight[c] : inv_std;
        scales[channels + c] = gradient.slope;
        scales[2 * channels + c] = gradient.offset;
      }
    }
  });
  ParallelFor(threads, all_chunks, view.at_once, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        const A* means = numbers + chunk / view.chunks * kGroupGradNumbers * channels;
        const A* scales = means + channels;
        const A* slopes = scales + channels;
        const A* offsets = slopes + channels;
        for (int64_t row = 0; row < view.RowsOf(chunk); ++row) {
          const int64_t at = view.Offset(chunk) + row * channels;
          const T* x = call.x + at;
          const T* dy = call.dy + at;
          T* dx = call.dx + at;
          SNUG_INDEPENDENT
          for (int64_t c = 0; c < channels; ++c) {
            dx[c] = static_cast<T>(static_cast<A>(dy[c]) * scales[c] +
                                   ((static_cast<A>(x[c]) - means[c]) * slopes[c] + offsets[c]));
          }
        }
      }
    });
  });
}

template void NormalizeSideBySide(int, const GroupView&, const GroupNormForward<float>&, Accumulator<float>*);
template void NormalizeSideBySide(int, const GroupView&, const GroupNormForward<BFloat16>&, Accumulator<BFloat16>*);
template void NormalizeSideBySide(int, const GroupView&, const GroupNormForward<double>&, Accumulator<double>*);
template void GradSideBySide(int, const GroupView&, const GroupNormBackward<float>&, Accumulator<float>*);
template void GradSideBySide(int, const GroupView&, const GroupNormBackward<BFloat16>&, Accumulator<BFloat16>*);
template void GradSideBySide(int, const GroupView&, const GroupNormBackward<double>&, Accumulator<double>*);

}  // namespace snug::core
