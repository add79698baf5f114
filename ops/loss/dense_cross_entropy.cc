// dense_cross_entropy: a dense layer, softmax_cross_entropy of what it gives, and all gradients of the two, in blocks
// of rows: of each block the logits, their losses, their gradient over them, dx, and what is added to dweight and
// dbias. The logits of all rows, which are the widest value of a network with a large vocabulary, are never there. Only
// the pass loss_in_blocks makes it.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/isa.h"
#include "ops/loss/cross_entropy.h"
#include "ops/op_def.h"
#include "ops/own_products.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::ops::dense_cross_entropy {
namespace {

using cross_entropy::Numbers;
using proto::ParseOptions;
using Cross = proto::SoftmaxCrossEntropy;

enum Input { kX, kLabels, kWeight, kBias, kDloss };

constexpr int64_t kPartialBytes = 2 << 20;  // of a block's dweight: it stays in the cache until it is added

// Sizes of a node, and of a block and the parts of dweight that are made at once.
struct Sizes {
  explicit Sizes(const NodeTypes& types)
      : rows(types.input(kX).shape.Count(0, types.input(kX).shape.rank() - 1)),
        width(types.input(kWeight).shape[1]),
        classes(types.input(kWeight).shape[0]),
        block(std::min(rows, kRowsInBlockOfLoss)),
        part(std::clamp<int64_t>(kPartialBytes / std::max<int64_t>(1, width * SizeOf(types.input(kX).dtype)), 1,
                                 std::max<int64_t>(1, classes))) {}
  int64_t rows, width, classes;
  int64_t block;  // rows whose logits are there at once
  int64_t part;   // classes whose dweight is made at once
};

// Where things lie in the workspace, each from a cache line on.
struct Room {
  Room(const Sizes& s, int64_t element) {
    logits = Take(s.block * s.classes * element);
    lse = Take(s.block * element);
    losses = Take(s.rows * static_cast<int64_t>(sizeof(double)));
    bias_sums = Take(s.classes * static_cast<int64_t>(sizeof(double)));
    partial = Take(s.part * s.width * element);
  }
  int64_t Take(int64_t size) {
    const int64_t begin = bytes;
    bytes += (size + 63) / 64 * 64;
    return begin;
  }
  int64_t bytes = 0;
  int64_t logits, lse, losses, bias_sums, partial;
};

absl::Status Infer(InferContext& c) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(kX, 2, kMaxRank));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kWeight, 2, 2));
  if (c.input(kX).dtype == DType::kBFloat16) {
    return c.InputError(kX, "expected float32 or float64, whose sums over blocks are not rounded to 8 bits");
  }
  const Cross& options = c.options<Cross>();
  if (!(options.label_smoothing() >= 0 && options.label_smoothing() <= 1)) {
    return c.OptionError("label_smoothing", absl::StrCat("expected 0 to 1, found ", options.label_smoothing()));
  }
  const Shape& x = c.shape(kX);
  const int last = x.rank() - 1;
  const int64_t classes = c.shape(kWeight)[0];
  SNUG_RETURN_IF_ERROR(c.CheckShape(kWeight, {classes, x[last]}));
  if (classes < 1) return c.InputError(kWeight, "expected at least one class");
  if (options.has_classes() && options.classes() != classes) {
    return c.OptionError("classes", absl::StrCat("expected ", classes, ", found ", options.classes()));
  }
  if (c.has_input(kBias)) SNUG_RETURN_IF_ERROR(c.CheckShape(kBias, {classes}));
  SNUG_RETURN_IF_ERROR(c.CheckShape(kDloss, Shape()));
  const DType labels = c.input(kLabels).dtype;
  if (labels != DType::kInt32 && labels != DType::kInt64) {
    return c.InputError(kLabels, absl::StrCat("expected int32 or int64, found ", Name(labels)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(kLabels, x.Without(last)));
  c.SetOutput(0, c.input(kX).dtype, Shape());
  c.SetOutput(1, c.input(kX));
  c.SetOutput(2, c.input(kWeight));
  c.SetOutput(3, c.input(kX).dtype, {classes});
  return absl::OkStatus();
}

int64_t ClassBound(const NodeTypes& types, int input) { return input == kLabels ? types.input(kWeight).shape[0] : 0; }

Cost CostOfNode(const NodeTypes& types) {
  const Sizes s(types);
  const double products = static_cast<double>(s.rows) * static_cast<double>(s.width) * static_cast<double>(s.classes);
  return {.flops = 6 * products, .multiply_adds = products};
}

// Adds the sums of a block's columns.
template <class T>
void AddColumns(int threads, const T* block, int64_t rows, int64_t classes, double* sums) {
  constexpr int64_t kColumns = 1024;
  ParallelFor(threads, classes, kColumns, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      for (int64_t r = 0; r < rows; ++r) {
        SNUG_INDEPENDENT
        for (int64_t j = begin; j < end; ++j) sums[j] += static_cast<double>(block[r * classes + j]);
      }
    });
  });
}

template <class T>
void AddAll(int threads, int64_t n, const T* added, T* sums) {
  ParallelFor(threads, n, int64_t{1} << 15, [=](int64_t begin, int64_t end) {
    WithIsa([=]() SNUG_LAMBDA {
      SNUG_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) sums[i] += added[i];
    });
  });
}

// `multiply(call)` computes a product.
template <class T, class Label, class Multiply>
absl::Status Run(const KernelContext& k, const Label* labels, Multiply multiply) {
  const Sizes s(k.types());
  const Room room(s, SizeOf(k.input_type(kX).dtype));
  const auto at = [&](int64_t begin) { return k.workspace<char>() + begin; };
  T* const logits = reinterpret_cast<T*>(at(room.logits));
  T* const lse = reinterpret_cast<T*>(at(room.lse));
  auto* const losses = reinterpret_cast<double*>(at(room.losses));
  auto* const bias_sums = reinterpret_cast<double*>(at(room.bias_sums));
  T* const partial = reinterpret_cast<T*>(at(room.partial));
  const Cross& options = k.options<Cross>();
  const Numbers numbers = {
      .smoothing = options.label_smoothing(), .ignored = options.ignore_index(), .classes = s.classes};
  int64_t counted = 0;
  SNUG_RETURN_IF_ERROR(CheckLabels(labels, s.rows, s.classes, numbers.ignored, &counted));
  const T* const weight = k.input<T>(kWeight);
  T* const dweight = k.output<T>(2);
  const double dloss = static_cast<double>(*k.input<T>(kDloss));
  std::fill_n(bias_sums, s.classes, 0.0);
  for (int64_t first = 0; first < s.rows; first += s.block) {
    const int64_t rows = std::min(s.block, s.rows - first);
    const T* const x = k.input<T>(kX) + first * s.width;
    multiply(GemmCall<T>{.m = rows,
                         .n = s.classes,
                         .k = s.width,
                         .a = {x, s.width, 1},
                         .b = {weight, 1, s.width},
                         .c = logits,
                         .bias = k.has_input(kBias) ? k.input<T>(kBias) : nullptr});
    const cross_entropy::Call<T, Label> call(logits, labels + first, rows, numbers);
    cross_entropy::ForwardRows(k.threads(), call, losses + first, lse);
    cross_entropy::BackwardRows(k.threads(), call, counted, lse, dloss, logits);  // logits are their gradient now
    for (int64_t unit = 0; unit < s.classes; unit += s.part) {
      const int64_t units = std::min(s.part, s.classes - unit);
      T* const of_units = dweight + unit * s.width;
      multiply(GemmCall<T>{.m = units,
                           .n = s.width,
                           .k = rows,
                           .a = {logits + unit, 1, s.classes},
                           .b = {x, s.width, 1},
                           .c = first == 0 ? of_units : partial});
      if (first > 0) AddAll(k.threads(), units * s.width, static_cast<const T*>(partial), of_units);
    }
    AddColumns(k.threads(), static_cast<const T*>(logits), rows, s.classes, bias_sums);
    // Last, because dx may lie on x.
    multiply(GemmCall<T>{.m = rows,
                         .n = s.width,
                         .k = s.classes,
                         .a = {logits, s.classes, 1},
                         .b = {weight, s.width, 1},
                         .c = k.output<T>(1) + first * s.width});
  }
  *k.output<T>(0) = static_cast<T>(cross_entropy::MeanLoss(s.rows, counted, losses));
  T* const dbias = k.output<T>(3);
  for (int64_t j = 0; j < s.classes; ++j) dbias[j] = static_cast<T>(bias_sums[j]);
  return absl::OkStatus();
}

template <class T, class Multiply>
absl::Status RunOnLabels(const KernelContext& k, Multiply multiply) {
  return DispatchInteger(k.input_type(kLabels).dtype,
                         [&](auto zero) { return Run<T>(k, k.input<decltype(zero)>(kLabels), multiply); });
}

absl::Status Plain(const KernelContext& k) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return RunOnLabels<T>(k, [&](const GemmCall<T>& call) { Gemm(k.threads(), call); });
  };
  return k.input_type(kX).dtype == DType::kFloat64 ? run(0.0) : run(0.0F);
}

absl::Status PreparePlain(PrepareContext& c) {
  c.SetWorkspaceBytes(Room(Sizes(c.types()), SizeOf(c.types().input(kX).dtype)).bytes);
  return absl::OkStatus();
}

absl::Status Own(const KernelContext& k) {
  void* const behind = k.workspace<char>() + Room(Sizes(k.types()), sizeof(float)).bytes;
  return RunOnLabels<float>(
      k, [&](const GemmCall<float>& call) { BlockedGemm(k.threads(), call, Activation::kIdentity, behind); });
}

absl::Status PrepareOwn(PrepareContext& c) {
  const Sizes s(c.types());
  int64_t product = 0;
  const auto need = [&](int64_t m, int64_t n, int64_t k) {
    if (m == 0) return;
    product = std::max(product, BlockedGemmWorkspaceBytes<float>(c.threads(), m, n, k));
  };
  for (const int64_t rows : {s.block, s.rows % s.block}) {  // the last block may have fewer
    need(rows, s.classes, s.width);
    need(rows, s.width, s.classes);
    for (const int64_t units : {s.part, s.classes % s.part}) need(units, s.width, rows);
  }
  c.SetWorkspaceBytes(Room(s, sizeof(float)).bytes + product);
  return absl::OkStatus();
}

void Samples(SampleBuilder& s) {
  const auto with = [&s](const char* name, const Shape& rows, int64_t width, int64_t classes, bool bias,
                         const char* options) -> Sample& {
    Shape x = rows;
    x.Append(width);
    Sample& sample = s.Case(name).With(ParseOptions<Cross>(options)).Only({DType::kFloat32, DType::kFloat64});
    sample.Input(x).Int(rows, 0, classes).Input({classes, width});
    bias ? sample.Input({classes}) : sample.Absent();
    return sample.Input({}).Range(0.5, 2);
  };
  with("small", {5}, 7, 10, true, "");
  with("no_bias", {5}, 7, 10, false, "");
  with("sequence", {2, 9}, 16, 133, true, "label_smoothing: 0.1");
  with("several_blocks", {kRowsInBlockOfLoss * 2 + 3}, 6, 9, true, "");
  with("several_whole_blocks", {2, kRowsInBlockOfLoss}, 5, 70, true, "label_smoothing: 0.2");
  // A class of no weights is as good as the other: each costs log 2. Half the rows are ignored.
  s.Case("known")
      .With(ParseOptions<Cross>("ignore_index: 1"))
      .Only({DType::kFloat32, DType::kFloat64})
      .Input({2, 1})
      .Values({3, 100})
      .Int({2}, 0, 2)
      .Values({0, 1})
      .Input({2, 1})
      .Values({0, 0})
      .Input({2})
      .Values({0, 0})
      .Input({})
      .Values({2})
      .Expect(0, {0.693147180559945309})
      .Expect(1, {0, 0})
      .Expect(2, {-3, 3})
      .Expect(3, {-1, 1});
  const auto floats = [&s](const char* name) -> Sample& { return s.Case(name).Only({DType::kFloat32}); };
  floats("label_too_large")
      .Input({2, 3})
      .Int({2}, 0, 5)
      .Values({4, 5})
      .Input({5, 3})
      .Absent()
      .Input({})
      .FailsAtRun("row 1: expected a class in [0, 5) or the ignored -100, found 5");
  floats("labels").Input({2, 3}).Int({3}, 0, 5).Input({5, 3}).Absent().Input({}).Fails("expected shape [2]");
  floats("weight").Input({2, 3}).Int({2}, 0, 5).Input({5, 4}).Absent().Input({}).Fails("expected shape [5, 3]");
  floats("bias").Input({2, 3}).Int({2}, 0, 5).Input({5, 3}).Input({4}).Input({}).Fails("expected shape [5]");
  s.Case("bfloat16")
      .Only({DType::kBFloat16})
      .Input({2, 3})
      .Int({2}, 0, 5)
      .Input({5, 3})
      .Absent()
      .Input({})
      .Fails("expected float32 or float64");
}

}  // namespace

SNUG_OPS(dense_cross_entropy) {
  return {{.name = "dense_cross_entropy",
           .doc = "softmax_cross_entropy of x weight^T + bias, and dx, dweight and dbias of dloss, in blocks of rows",
           .inputs = {{"x"},
                      {"labels", PortType::kInteger},
                      {"weight"},
                      {.name = "bias", .optional = true},
                      {"dloss", PortType::kFloat32}},
           .outputs = {{"loss", PortType::kFloat32}, {"dx"}, {"dweight"}, {"dbias"}},
           .infer = Infer,
           .aliases = {{Alias::Kind::kMayShare, 1, 0}},
           .index_bound = ClassBound,
           .cost = CostOfNode,
           .kernels = {{.name = "own", .serves = NotInDouble, .prepare = PrepareOwn, .run = Own},
                       {.name = "plain", .prepare = PreparePlain, .run = Plain}},
           .samples = Samples}};
}

}  // namespace snug::core::ops::dense_cross_entropy
