// A convolution of few channels as one of many. Libraries multiply the channels of one tap of the kernel at a time, in
// pieces of 32 or more for tensor cores: of an image, which has 3, most of that is zeros, at each of 7 x 7 taps.
//
// So x is folded. With a stride of (s, t), s rows of pixels become one, and each pixel of the result has as channels
// all that its window sees of them: s rows of the kernel's width, filled up to a multiple of t. Padding is in it as
// zeros. The rest is a convolution with stride 1, without padding, by kernels of one column and s times fewer rows: for
// ResNet's first one, of [115, 112] pixels with 2 * 8 * 3 = 48 channels by 4 x 1 taps in place of [224, 224] with 3 by
// 7 x 7. The numbers that are added up are the same, and zeros.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/base/host_device.h"
#include "ops/kernels/conv/geometry.h"

namespace snug::core::ops {

// All data is channels-last, with 2 bytes for a number.
struct ConvFold {
  // Of the convolution itself.
  int32_t height = 1, width = 1, channels = 1;  // of x
  int32_t filters = 1;
  int32_t kernel_rows = 1, kernel_columns = 1;
  int32_t row_stride = 1, column_stride = 1;
  int32_t pad_top = 0;
  // Of the folded one.
  int32_t batch = 1, folded_height = 1, folded_width = 1;
  int32_t columns = 1;          // of a window; the rows that are folded into one are row_stride
  int32_t lead = 0;             // how many of these columns come before those of the kernel
  int32_t pad_left = 0;         // with `lead`
  int32_t taps = 1;             // rows of the folded kernel
  int32_t folded_channels = 1;  // with zeros at the end: a multiple of 8
  // Of the kernel that folds x: a block makes so many pixels of a row.
  int32_t block_columns = 1;

  // How many numbers of a row of x a window has, one beside the other.
  SNUG_HOST_DEVICE int32_t run() const { return columns * channels; }
  int64_t data_numbers() const { return int64_t{batch} * folded_height * folded_width * folded_channels; }
  int64_t weight_numbers() const { return int64_t{filters} * taps * folded_channels; }
  int64_t data_bytes() const { return RoundedBytes(data_numbers()); }
  int64_t weight_bytes() const { return RoundedBytes(weight_numbers()); }
  // How many numbers of a row of x a block has at a time, a multiple of 8: from a multiple of 8 on, which may be up to
  // 7 before the first that it needs.
  SNUG_HOST_DEVICE int32_t block_pitch() const {
    return ((block_columns - 1) * column_stride * channels + run() + 14) / 8 * 8;
  }

  // Where a number of the folded kernel comes from.
  struct Tap {
    int32_t row = 0, column = 0, channel = 0;
    bool in_kernel = false;  // otherwise it is 0
  };
  SNUG_HOST_DEVICE Tap TapOf(int32_t folded_tap, int32_t folded_channel) const {
    const int32_t row = folded_channel / run(), in_run = folded_channel % run();
    Tap tap = {folded_tap * row_stride + row, in_run / channels - lead, in_run % channels};
    tap.in_kernel = row < row_stride && tap.row < kernel_rows && tap.column >= 0 && tap.column < kernel_columns;
    return tap;
  }
  // The other way round: where a number of the kernel is in the folded one.
  struct Place {
    int32_t tap = 0, channel = 0;
  };
  SNUG_HOST_DEVICE Place PlaceOf(int32_t row, int32_t column, int32_t channel) const {
    return {row / row_stride, (row % row_stride * columns + lead + column) * channels + channel};
  }

 private:
  static int64_t RoundedBytes(int64_t numbers) { return (numbers * 2 + 255) / 256 * 256; }
};

// A block of the kernel that folds x holds so many numbers of x at a time.
inline constexpr int32_t kFoldBlockNumbers = 12 * 1024;

// Returns how a convolution of 2-byte numbers is folded, or nothing where a library does as well without: two spatial
// dimensions, at most 4 channels in one group, strides from 2 on that are no larger than the kernel, and windows of at
// most 4 strides across, since each number of x comes as often.
std::optional<ConvFold> FoldOf(const ConvGeometry& g);

// The convolution of folded data.
ConvGeometry FoldedGeometry(const ConvFold& fold);

}  // namespace snug::core::ops
