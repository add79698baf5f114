// Products with a B that is packed as a whole beforehand: once and kept, as for dense layers of a forward-only program
// whose weights stand still (CompileOptions::keep_derived), once for all rounds of a loop, or in each call, where it is
// small beside the other factor. Nothing else is packed.
//
// Each element of c is one chain of multiply-adds in the order of k, from the addend on, so bits depend neither on
// blocks nor on threads, and are those of products that pack block by block (blocked.h).
#pragma once

#include <absl/types/span.h>

#include <cstdint>

#include "engine/graph/value_type.h"
#include "ops/activation.h"
#include "ops/kernels/batch_norm/part_gradients.h"
#include "ops/kernels/matmul/needed_next.h"
#include "ops/kernels/reduce/part_moments.h"

namespace snug::core {

struct PanelsShape {
  int64_t n = 0, k = 0;
  bool transposed = false;  // the value that is packed is [n, k], not [k, n]
  // Of several parts, of as many rows of B each, the value that is packed is [n, k / parts, parts], transposed.
  int64_t parts = 1;
  friend bool operator==(const PanelsShape&, const PanelsShape&) = default;
};

// The layout of a B in panels of a register tile's columns.
Layout PanelsLayout(const PanelsShape& shape);
bool IsPanels(const Layout& layout);

// Packs a row-major b so. These are instantiated for float and BFloat16.
template <class T>
void PackIntoPanels(int threads, const PanelsShape& shape, const T* b, float* panels);
int64_t PanelsBytes(const PanelsShape& shape);

// The rows of a factor that do not follow each other in memory, as of the pixels that a convolution in steps takes.
// Nor need the parts of a row, as of what several taps take for one pixel.
template <class T>
class ScatteredRows {
 public:
  virtual ~ScatteredRows() = default;
  // Sets rows[i] to where that part of row first + i begins.
  virtual void Find(int64_t part, int64_t first, absl::Span<const T*> rows) const = 0;
};

// c [m, n] = activation(addend [m, n] + a [m, k] B + bias [n]); addend, which may be c itself, and bias may be null.
// Sums are float.
template <class T>
struct PanelsCall {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  const ScatteredRows<T>* scattered_a = nullptr;  // in place of a
  int64_t parts = 1;                              // of a row that is scattered; B is packed in as many
  const float* panels = nullptr;
  const T* addend = nullptr;
  const T* bias = nullptr;
  Activation activation = Activation::kIdentity;
  T* c = nullptr;
  ColumnMoments moments = {};  // of c
  NormGradient<T> norm = {};   // where c is the gradient of a norm's result; not together with an activation
};
template <class T>
void MultiplyByPanels(int threads, const PanelsCall<T>& call);
template <class T>
int64_t PanelsMomentsBytes(int64_t m, int64_t n, int64_t k);
template <class T>
int64_t PanelsNormBytes(int64_t m, int64_t n, int64_t k);

// MultiplyByPanels for few rows (96 at most), on the caller's thread. It asks for `next` while it multiplies, and does
// not measure.
void MultiplyByPanelsAndAsk(const PanelsCall<float>& call, absl::Span<const NeededNext> next);

}  // namespace snug::core
