// global_norm: the Euclidean norm of all gradients together, for clipping. Sums of squares are kept in double, in
// chunks of fixed size that are added in order, so the bits are the same on any number of threads.
//
// global_norm_rows: the same where some of the gradients are lists of rows (ops/kernels/copy/gather_rows.h). A list is
// added up as the array that it is the rest of would be, in the same lanes and chunks: what is left out is zero, and
// adds nothing. So the bits are those of the whole arrays.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/float32_port.h"
#include "ops/kit/isa.h"
#include "ops/kit/lanes.h"
#include "ops/op_def.h"
#include "ops/optim/gradients_cuda.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"

namespace snug::core::ops::global_norm {
namespace {

constexpr int64_t kChunk = 1 << 15;

int64_t Chunks(int64_t n) { return (n + kChunk - 1) / kChunk; }

absl::Status Infer(InferContext& c) {
  if (c.num_inputs() == 0) return absl::InvalidArgumentError("expected at least one gradient, found none");
  c.SetOutput(0, Float32PortType(c.input(0).dtype), Shape());
  return absl::OkStatus();
}

absl::Status Prepare(PrepareContext& c) {  // makes room for the chunks' sums of the largest gradient
  int64_t chunks = 0;
  for (const ValueType& type : c.types().inputs) chunks = std::max(chunks, Chunks(type.num_elements()));
  c.SetWorkspaceBytes(chunks * static_cast<int64_t>(sizeof(double)));
  return absl::OkStatus();
}

Cost CostOfNode(const NodeTypes& types) {
  Cost cost;
  for (const ValueType& type : types.inputs) cost.flops += 2.0 * static_cast<double>(type.num_elements());
  return cost;
}

// Adds the squares of n elements to the total.
template <class T>
void AddSquares(const KernelContext& k, const T* g, int64_t n, double* total) {
  double* const partial = k.workspace<double>();
  ParallelFor(k.threads(), n, kChunk, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      partial[begin / kChunk] = LaneSum<double>(end - begin, [=](int64_t j) SNUG_LAMBDA {
        const double value = static_cast<double>(g[begin + j]);
        return value * value;
      });
    });
  });
  for (int64_t c = 0; c < Chunks(n); ++c) *total += partial[c];
}

absl::Status NormCpu(const KernelContext& k) {
  return DispatchFloating(k.input_type(0).dtype, [&](auto zero) {
    using T = decltype(zero);
    double total = 0;
    for (int i = 0; i < k.num_inputs(); ++i) AddSquares(k, k.input<T>(i), k.input_type(i).num_elements(), &total);
    *k.output<Float32Port<T>>(0) = static_cast<Float32Port<T>>(std::sqrt(total));
    return absl::OkStatus();
  });
}

// Adds squares up in the lanes and blocks of LaneSum, and in chunks, of which only those with an element are visited.
class SparseSum {
 public:
  explicit SparseSum(double* total) : total_(*total) {}

  void Add(int64_t at, double square) {
    if (at / kLaneBlock != block_) GoTo(at / kLaneBlock);
    lanes_[at % kLanes] += square;
  }
  void End() {
    CloseBlock();
    total_ += chunk_sum_;
  }

 private:
  static_assert(kChunk % kLaneBlock == 0 && kLaneBlock % kLanes == 0);

  void CloseBlock() {
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) lanes_[j] += lanes_[j + width];
    }
    chunk_sum_ += lanes_[0];
    std::fill(lanes_, lanes_ + kLanes, 0.0);
  }
  void GoTo(int64_t block) {
    CloseBlock();
    constexpr int64_t kBlocks = kChunk / kLaneBlock;
    if (block / kBlocks != block_ / kBlocks) total_ += std::exchange(chunk_sum_, 0.0);
    block_ = block;
  }

  double& total_;
  double lanes_[kLanes] = {};
  double chunk_sum_ = 0;
  int64_t block_ = 0;
};

bool IsRowNumbers(const ValueType& type) { return type.dtype == DType::kInt64; }

absl::Status InferRows(InferContext& c) {
  const ValueType* first = nullptr;
  for (int i = 0; i < c.num_inputs(); ++i) {
    if (IsRowNumbers(c.input(i))) {
      SNUG_RETURN_IF_ERROR(c.CheckRank(i, 1, 1));
      if (++i == c.num_inputs()) {
        return absl::InvalidArgumentError("expected rows behind the last of their numbers, found no more inputs");
      }
      SNUG_RETURN_IF_ERROR(c.CheckRank(i, 2, 2));
      SNUG_RETURN_IF_ERROR(c.CheckShape(i, {c.shape(i - 1)[0], c.shape(i)[1]}));
    }
    if (!IsFloating(c.input(i).dtype)) {
      return c.InputError(i, absl::StrCat("expected a gradient, found ", c.input(i).ToString()));
    }
    if (first == nullptr) first = &c.input(i);
    if (c.input(i).dtype != first->dtype) {
      return c.InputError(
          i, absl::StrCat("expected ", Name(first->dtype), " like the others, found ", Name(c.input(i).dtype)));
    }
  }
  if (first == nullptr) return absl::InvalidArgumentError("expected at least one gradient, found none");
  c.SetOutput(0, Float32PortType(first->dtype), Shape());
  return absl::OkStatus();
}

absl::Status NormRowsCpu(const KernelContext& k) {
  const int last = k.num_inputs() - 1;  // the last input is no row numbers
  return DispatchFloating(k.input_type(last).dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    double total = 0;
    for (int i = 0; i < k.num_inputs(); ++i) {
      if (!IsRowNumbers(k.input_type(i))) {
        AddSquares(k, k.input<T>(i), k.input_type(i).num_elements(), &total);
        continue;
      }
      const auto* rows = k.input<int64_t>(i);
      const int64_t room = k.input_type(i).shape[0];
      SNUG_RETURN_IF_ERROR(CheckRowList(rows, room, std::numeric_limits<int64_t>::max()));
      const T* g = k.input<T>(++i);
      const int64_t width = k.input_type(i).shape[1];
      SparseSum sum(&total);
      for (int64_t r = 0; r < CountRows(rows, room); ++r) {
        for (int64_t j = 0; j < width; ++j) {
          const double value = static_cast<double>(g[r * width + j]);
          sum.Add(rows[r] * width + j, value * value);
        }
      }
      sum.End();
    }
    *k.output<Float32Port<T>>(0) = static_cast<Float32Port<T>>(std::sqrt(total));
    return absl::OkStatus();
  });
}

void RowsSamples(SampleBuilder& s) {
  s.Case("one").Int({3}, 0, 9, DType::kInt64).Values({1, 4, -1}).Input({3, 7});
  s.Case("among_others")
      .Input({3, 100})
      .Int({3}, 0, 9000, DType::kInt64)
      .Values({3, 700, 8191})
      .Input({3, 65})
      .Input({1});
  s.Case("known")
      .Int({2}, 0, 9, DType::kInt64)
      .Values({5, 7})
      .Input({2, 1})
      .Values({3, 0})
      .Input({1})
      .Values({4})
      .Expect(0, {5});
  s.Case("no_rows").Input({2}).Int({3}, 0, 9, DType::kInt64).Fails("expected rows behind the last of their numbers");
  s.Case("room").Int({3}, 0, 9, DType::kInt64).Input({2, 4}).Fails("expected shape [3, 4]");
  s.Case("none").Fails("expected at least one gradient");
}

void Samples(SampleBuilder& s) {
  s.Case("one").Input({5, 7});
  s.Case("several").Input({3, 100}).Input({1}).Input({2, 2, 33});
  s.Case("chunks").Input({70001}).Input({32768});
  s.Case("known").Input({2}).Values({3, 0}).Input({1}).Values({4}).Expect(0, {5});
  s.Case("none").Fails("expected at least one gradient");
}

}  // namespace

SNUG_OPS(global_norm) {
  return {{.name = "global_norm",
           .doc = "norm = sqrt(sum of squares of all elements of all gradients)",
           .inputs = {{"grads", PortType::kFloating, /*optional=*/false, /*variadic=*/true}},
           .outputs = {{"norm", PortType::kFloat32}},
           .infer = Infer,
           .cost = CostOfNode,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = NormCpu},
                       {.device = kOnCuda,
                        .name = "own",
                        .prepare = SNUG_IF_CUDA(PrepareGlobalNormCuda),
                        .run = SNUG_IF_CUDA(GlobalNormCuda)}},
           .samples = Samples},
          {.name = "global_norm_rows",
           .doc = "global_norm, where before a gradient that is a list of rows their numbers stand, int64",
           .inputs = {{"grads", PortType::kAny, /*optional=*/false, /*variadic=*/true}},
           .outputs = {{"norm", PortType::kFloat32}},
           .infer = InferRows,
           .cost = CostOfNode,
           .kernels = {{.name = "plain", .prepare = Prepare, .run = NormRowsCpu}},
           .samples = RowsSamples}};
}

}  // namespace snug::core::ops::global_norm
