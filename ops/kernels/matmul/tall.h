// Products of two tall matrices, the first one transposed: the gradient of a layer's weights, where there are many more
// rows (pixels, tokens) than columns (channels). The result is small, so every thread keeps sums of its own over a part
// of the rows, and they are added up in the end. Parts are cut by the shape, so bits do not depend on the threads.
#pragma once

#include <cstdint>

namespace snug::core {

// The rows of a factor that is nowhere in memory as a whole: they are made when they are packed.
template <class T>
class TallRows {
 public:
  virtual ~TallRows() = default;
  // Returns columns [begin, begin + columns) of a row, which may be put into `scratch`.
  virtual const T* Row(int64_t row, int64_t begin, int64_t columns, T* scratch) const = 0;
};

// c [m, n] = a [k, m], transposed, times b [k, n]. All are row-major, and k is 1 or more.
template <class T>
struct TallCall {
  int64_t m = 0, n = 0, k = 0;
  const T* a = nullptr;
  const T* b = nullptr;
  const TallRows<T>* made_b = nullptr;  // in place of b
  int64_t groups = 1;  // of b's columns, all of one size: c has the first columns of all of them, then the second ones
  T* c = nullptr;
};

// Says whether c is small enough, and the factors tall enough, for several sums of each element.
bool IsTall(int64_t m, int64_t n, int64_t k);

// These are instantiated for float and BFloat16; sums are float.
template <class T>
void MultiplyTall(int threads, const TallCall<T>& call, float* workspace);
int64_t TallWorkspaceBytes(int64_t m, int64_t n, int64_t k);

}  // namespace snug::core
