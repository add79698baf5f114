#include "ops/kernels/update/private_blocks.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kernels/copy/transpose.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"

namespace snug::core {
namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));
// A block's rows of the gradient and of the arrays that the update reads are to stay in the second-level cache. Of
// fewer rows than the least, reading the panels of x would take too much of the time; rows so long that these would not
// fit are left to all threads together.
constexpr int64_t kBlockBytes = 1 << 20;
constexpr int64_t kLeastRows = 24, kMostRows = 96;
constexpr int64_t kMostBytesOfLeastRows = 1 << 20;  // of the gradient
constexpr int64_t kBlocksOfThread = 2;              // at least
constexpr int64_t kMostBytesOfX = 8 << 20;
constexpr size_t kMostArrays = 3;

int64_t WholeLines(int64_t floats) { return Parts(floats, 16) * 16; }

// Sets to [rows, k] to columns of dy [k, units], which begin at `dy`.
void TakeColumns(const float* dy, int64_t k, int64_t units, int64_t rows, float* to) {
  WithIsa([=]() SNUG_LAMBDA {
    int64_t p = 0;
    for (; p + 8 <= k; p += 8) TransposeRows<8, 8>(rows, dy + p * units, units, to + p, k);
    for (; p < k; ++p) {
      for (int64_t i = 0; i < rows; ++i) to[i * k + p] = dy[p * units + i];
    }
  });
}

}  // namespace

PrivateBlocks::PrivateBlocks(int threads, int64_t units, int64_t width, int64_t rows, int arrays)
    : threads_(std::max(1, threads)), x_{.n = width, .k = rows}, units_(units) {
  SNUG_CHECK(static_cast<size_t>(arrays) <= kMostArrays);
  const int64_t row_bytes = std::max<int64_t>(1, width * (arrays + 1) * kFloatBytes);
  const int64_t fit = std::min(kBlockBytes / row_bytes, units / (kBlocksOfThread * threads_));
  block_rows_ = std::clamp(fit / 8 * 8, kLeastRows, kMostRows);
  gradient_ = WholeLines(block_rows_ * width);
  of_thread_ = gradient_ + WholeLines(block_rows_ * rows);
}

bool PrivateBlocks::serve() const {
  return PanelsBytes(x_) <= kMostBytesOfX && kLeastRows * x_.n * kFloatBytes <= kMostBytesOfLeastRows &&
         units_ >= kLeastRows * kBlocksOfThread * threads_ && workspace_bytes() <= units_ * x_.n * kFloatBytes;
}

int64_t PrivateBlocks::workspace_bytes() const { return PanelsBytes(x_) + threads_ * of_thread_ * kFloatBytes; }

absl::Status PrivateBlocks::ForEach(const float* x, const float* dy, absl::Span<const float* const> arrays,
                                    float* workspace,
                                    absl::FunctionRef<absl::Status(int64_t, int64_t, float*)> use) const {
  SNUG_CHECK(arrays.size() <= kMostArrays);
  PackIntoPanels(threads_, x_, x, workspace);
  float* const of_threads = workspace + PanelsBytes(x_) / kFloatBytes;
  const int64_t width = x_.n;
  const int64_t blocks = Parts(units_, block_rows_);
  std::mutex mutex;
  absl::Status failure;  // of the first part that failed; both are guarded by the mutex
  int64_t failed = threads_;
  ParallelFor(threads_, threads_, 1, [&](int64_t part, int64_t /*end*/) {
    float* const gradient = of_threads + part * of_thread_;
    float* const columns = gradient + gradient_;
    const int64_t end = std::min(units_, blocks * (part + 1) / threads_ * block_rows_);
    for (int64_t first = blocks * part / threads_ * block_rows_; first < end; first += block_rows_) {
      const int64_t rows = std::min(block_rows_, end - first);
      std::array<NeededNext, kMostArrays> next;
      for (size_t i = 0; i < arrays.size(); ++i) next[i] = {arrays[i] + first * width, rows * width * kFloatBytes};
      TakeColumns(dy + first, x_.k, units_, rows, columns);
      MultiplyByPanelsAndAsk({.m = rows, .n = width, .k = x_.k, .a = columns, .panels = workspace, .c = gradient},
                             absl::MakeConstSpan(next.data(), arrays.size()));
      const absl::Status status = use(first, rows, gradient);
      if (status.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      if (part < failed) failure = status;
      failed = std::min(failed, part);
      return;
    }
  });
  return failure;
}

}  // namespace snug::core
