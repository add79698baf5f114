// Convolutions of 3 x 3 to 5 x 5 taps by Winograd's minimal filtering (Lavin and Gray 2015): with stride 1, four by
// four elements of the result take 36 multiplications for each pair of channels instead of 144. A tile of six by six
// elements of the data and the filter are transformed, multiplied element by element, which for all tiles and channels
// is 36 matrix products, and the sums are transformed back. With stride 2 it is four convolutions, of 2 x 2, 2 x 1, 1 x
// 2 and one taps, each of its own quarter of the data, in 81 products instead of 144 (axes.h). With stride 1
// the same 36 products make three by three elements of the result of 4 x 4 taps, and two by two of 5 x 5, which take
// 144 and 100 multiplications else.
//
// Data is channels-last, weights are plain. Sums are float. The points of the transforms are 0, +-5/8, +-3/2 and
// infinity, which lose fewer digits than the usual +-1 and +-2. Sums run in a fixed order, so bits do not depend on the
// threads.
#pragma once

#include <cstdint>

#include "engine/graph/value_type.h"
#include "ops/activation.h"
#include "ops/kernels/reduce/part_moments.h"

namespace snug::core {

enum class WinogradKind : uint8_t {
  kPlain,         // stride 1. The gradient of its data is one, too, of dy with the filters turned round.
  kFourTaps,      // 4 x 4 taps, stride 1
  kFiveTaps,      // 5 x 5 taps, stride 1; the gradient of its data is one, too
  kInSteps,       // stride 2, with a pixel of padding before rows and columns
  kBetweenSteps,  // the gradient of its data: the data here are dy
};

// One convolution.
struct WinogradSizes {
  WinogradKind kind = WinogradKind::kPlain;
  int64_t batch = 0;
  int64_t in_height = 0, in_width = 0, in_channels = 0;
  int64_t out_height = 0, out_width = 0, out_channels = 0;
  int64_t pad_top = 0, pad_left = 0;
};

// Output channels have to be multiples of this. Input channels need not be, in a forward convolution: data are read in
// whole blocks of channels, so x has to be readable for as many elements behind its end as the last block is short of.
// Their values do not reach a result.
inline constexpr int64_t kWinogradChannels = 16;
constexpr int64_t RoundedUpChannels(int64_t channels) {
  return (channels + kWinogradChannels - 1) / kWinogradChannels * kWinogradChannels;
}

// Where the filter of an output and an input channel lies: its elements from data + out * out_stride + in * in_stride
// on, last to first if `reversed`.
template <class T>
struct WinogradFilters {
  const T* data = nullptr;
  int64_t out_stride = 0, in_stride = 0;
  bool reversed = false;
  const float* transformed = nullptr;  // not null: they are there already, in WinogradLayout
};

// How many taps a filter has, along both axes.
int64_t WinogradTaps(WinogradKind kind);
// How many results a whole tile has along an axis; in kBetweenSteps, pairs of them.
int64_t WinogradTile(WinogradKind kind);

// Transformed filters as a layout of weights [out_channels, in_channels, taps, taps], for a forward convolution: of
// 3 x 3 taps they take four times the bytes, in steps nine times.
Layout WinogradLayout(WinogradKind kind, int64_t out_channels, int64_t in_channels);
bool IsWinograd(const Layout& layout);

// These are instantiated for float and BFloat16. `bias` may be null.
template <class T>
void WinogradConv(int threads, const WinogradSizes& sizes, const T* x, const WinogradFilters<T>& filters, const T* bias,
                  Activation activation, T* y, void* workspace, const ColumnMoments& moments = {});
int64_t WinogradConvWorkspaceBytes(int threads, const WinogradSizes& sizes, bool transformed);
int64_t WinogradMomentsBytes(const WinogradSizes& sizes);

// Sets dw [out_channels, in_channels, taps, taps], for the kinds that are forward convolutions. The workspace is for as
// many threads as run it: for fewer it may be larger.
template <class T>
void WinogradGradWeight(int threads, const WinogradSizes& sizes, const T* x, const T* dy, T* dw, void* workspace);
int64_t WinogradGradWeightWorkspaceBytes(int threads, const WinogradSizes& sizes);

}  // namespace snug::core
