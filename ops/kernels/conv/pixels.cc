#include "ops/kernels/conv/pixels.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/dtype.h"
#include "engine/base/parallel.h"

namespace snug::core::ops {
namespace {

constexpr int64_t kPixelsAtOnce = 32;  // by a thread

using Sizes = std::array<int64_t, kMaxSpatial>;

// Where a pixel is: its image, and its place in it.
struct Place {
  Place(const Sizes& sizes, int64_t pixel)
      : image(pixel / (sizes[0] * sizes[1] * sizes[2])),
        at{pixel / (sizes[1] * sizes[2]) % sizes[0], pixel / sizes[2] % sizes[1], pixel % sizes[2]} {}
  int64_t PixelOf(const Sizes& sizes) const {
    return ((image * sizes[0] + at[0]) * sizes[1] + at[1]) * sizes[2] + at[2];
  }
  // Goes to the next pixel.
  void Advance(const Sizes& sizes) {
    for (size_t axis = kMaxSpatial; axis-- > 0;) {
      if (++at[axis] < sizes[axis]) return;
      at[axis] = 0;
    }
    ++image;
  }

  int64_t image;
  Sizes at;
};

}  // namespace

bool IsProductOfPixels(const ConvGeometry& g) {
  constexpr Sizes kNone = {};
  return g.taps() == 1 && g.groups == 1 && g.pad_begin == kNone && g.pad_end == kNone;
}

template <class T>
void TakenPixels<T>::Find(int64_t tap, int64_t first, absl::Span<const T*> rows) const {
  Sizes offset = {};  // of the tap, from where a pixel of the result is
  for (size_t axis = kMaxSpatial; axis-- > 0; tap /= g_.kernel[axis]) {
    offset[axis] = tap % g_.kernel[axis] * g_.dilation[axis] - g_.pad_begin[axis];
  }
  Place at(g_.out, first);
  for (const T*& row : rows) {
    Place from = at;
    bool is_there = true;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      from.at[axis] = at.at[axis] * g_.stride[axis] + offset[axis];
      is_there = is_there && from.at[axis] >= 0 && from.at[axis] < g_.in[axis];
    }
    row = is_there ? x_ + from.PixelOf(g_.in) * g_.in_channels : padding_;
    at.Advance(g_.out);
  }
}

template <class T>
void TakePixels(int threads, const ConvGeometry& g, const T* x, T* taken) {
  const TakenPixels<T> pixels(g, x);
  ParallelFor(threads, g.batch * g.out[0] * g.out[1] * g.out[2], kPixelsAtOnce, [&](int64_t begin, int64_t end) {
    std::array<const T*, kPixelsAtOnce> rows;
    for (int64_t first = begin; first < end; first += kPixelsAtOnce) {
      const auto some = absl::MakeSpan(rows).first(static_cast<size_t>(std::min(kPixelsAtOnce, end - first)));
      pixels.Find(/*tap=*/0, first, some);
      T* to = taken + first * g.in_channels;
      for (const T* row : some) to = std::copy_n(row, g.in_channels, to);
    }
  });
}

template <class T>
void PutBackPixels(int threads, const ConvGeometry& g, const T* taken, T* dx) {
  const auto put_back = [&](int64_t pixel) {
    T* const to = dx + pixel * g.in_channels;
    Place place(g.in, pixel);
    bool was_taken = true;
    for (size_t axis = 0; axis < kMaxSpatial; ++axis) {
      was_taken = was_taken && place.at[axis] % g.stride[axis] == 0;
      place.at[axis] /= g.stride[axis];
      was_taken = was_taken && place.at[axis] < g.out[axis];
    }
    if (was_taken) {
      std::copy_n(taken + place.PixelOf(g.out) * g.in_channels, g.in_channels, to);
    } else {
      std::fill_n(to, g.in_channels, T());
    }
  };
  ParallelFor(threads, g.batch * g.in[0] * g.in[1] * g.in[2], kPixelsAtOnce, [&](int64_t begin, int64_t end) {
    for (int64_t pixel = begin; pixel < end; ++pixel) put_back(pixel);
  });
}

template <class T>
Patches<T>::Patches(const ConvGeometry& g, const T* x) : x_(x), channels_(g.in_channels) {
  for (size_t axis = 0; axis < static_cast<size_t>(g.spatial); ++axis) {
    const size_t to = axis + kMaxSpatial - static_cast<size_t>(g.spatial);
    in_[to] = g.in[axis];
    out_[to] = g.out[axis];
    kernel_[to] = g.kernel[axis];
    stride_[to] = g.stride[axis];
    dilation_[to] = g.dilation[axis];
    pad_[to] = g.pad_begin[axis];
  }
}

template <class T>
const T* Patches<T>::Row(int64_t row, int64_t begin, int64_t columns, T* scratch) const {
  const Place place(out_, row);
  Place corner = place;  // what the first tap takes, which may be padding
  for (size_t axis = 0; axis < kMaxSpatial; ++axis) corner.at[axis] = place.at[axis] * stride_[axis] - pad_[axis];
  const int64_t side_by_side = kernel_[2] * channels_;
  // Those of a row of taps that are no padding.
  const int64_t first = std::clamp<int64_t>(-corner.at[2], 0, kernel_[2]) * channels_;
  const int64_t last = std::clamp<int64_t>(in_[2] - corner.at[2], 0, kernel_[2]) * channels_;
  T* to = scratch;
  for (int64_t column = begin, end = begin + columns; column < end;) {
    const int64_t taps = column / side_by_side;
    const int64_t from = column - taps * side_by_side, until = std::min(side_by_side, end - taps * side_by_side);
    Place at = corner;
    at.at[0] += taps / kernel_[1] * dilation_[0];
    at.at[1] += taps % kernel_[1] * dilation_[1];
    const bool inside = at.at[0] >= 0 && at.at[0] < in_[0] && at.at[1] >= 0 && at.at[1] < in_[1];
    const int64_t data = inside ? std::clamp(first, from, until) : until;
    const int64_t data_end = inside ? std::clamp(last, data, until) : until;
    to = std::fill_n(to, data - from, T());
    if (data_end > data) to = std::copy_n(x_ + (at.PixelOf(in_) * channels_ + data), data_end - data, to);
    to = std::fill_n(to, until - data_end, T());
    column += until - from;
  }
  return scratch;
}

template class TakenPixels<float>;
template class TakenPixels<BFloat16>;
template class Patches<float>;
template class Patches<BFloat16>;

template void TakePixels(int, const ConvGeometry&, const float*, float*);
template void TakePixels(int, const ConvGeometry&, const BFloat16*, BFloat16*);
template void PutBackPixels(int, const ConvGeometry&, const float*, float*);
template void PutBackPixels(int, const ConvGeometry&, const BFloat16*, BFloat16*);

}  // namespace snug::core::ops
