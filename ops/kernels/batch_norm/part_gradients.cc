#include "ops/kernels/batch_norm/part_gradients.h"

#include <cmath>

#include "engine/base/bfloat16.h"
#include "engine/base/parallel.h"

namespace snug::core {

template <class T>
PartGradients<T>::PartGradients(int64_t parts, int64_t columns, const NormGradient<T>& asked)
    : parts_(parts),
      columns_(columns),
      asked_(asked),
      numbers_(asked.workspace),
      sums_(asked.workspace == nullptr ? nullptr : asked.workspace + kNumbers * columns) {
  if (!this->asked()) return;
  for (int64_t c = 0; c < columns; ++c) {
    const batch_norm::Numbers numbers =
        batch_norm::Normalising(asked, c, static_cast<double>(asked.mean[c]), static_cast<double>(asked.var[c]));
    numbers_[c] = numbers.mean;
    numbers_[columns + c] = numbers.scale;
    numbers_[2 * columns + c] = numbers.bias;
  }
}

template <class T>
void PartGradients<T>::PutTogether(int threads) const {
  constexpr int64_t kColumns = 16;  // at a time: a line of memory
  ParallelFor(threads, columns_, kColumns, [this](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    double sum[kColumns] = {}, product[kColumns] = {};
    WithIsa([&, this]() SNUG_LAMBDA {
      for (int64_t part = 0; part < parts_; ++part) {
        const float* const of_part = sums_ + part * 2 * columns_ + begin;
        for (int64_t c = 0; c < n; ++c) {
          sum[c] += static_cast<double>(of_part[c]);
          product[c] += static_cast<double>(of_part[columns_ + c]);
        }
      }
    });
    for (int64_t c = 0; c < n; ++c) {
      const double std = std::sqrt(static_cast<double>(asked_.var[begin + c]) + asked_.epsilon);
      asked_.dbias[begin + c] = static_cast<float>(sum[c]);
      asked_.dweight[begin + c] = static_cast<float>(product[c] / std);
    }
  });
}

template class PartGradients<float>;
template class PartGradients<BFloat16>;

}  // namespace snug::core
