// dense_sgd_update, embedding_sgd_update and their like: the gradient of a dense layer's weights, or of an embedding's
// table, is made in blocks of rows, each of which its update uses at once. The whole gradient, as large as the
// parameter, is never there. The pass update_as_made puts these in the place of a gradient node and an update node;
// their rows of the gradient may differ from that node's in their last bits, as other kernels' do.
#include <absl/strings/str_cat.h>
#include <absl/types/span.h>

#include <algorithm>
#include <array>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/kernels/matmul/blocked.h"
#include "ops/kernels/matmul/gemm.h"
#include "ops/kernels/matmul/split_gemm.h"
#include "ops/kernels/update/private_blocks.h"
#include "ops/kit/dispatch.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/whole_updates.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops {

namespace update_as_made {
namespace {

using proto::ParseOptions;

// Ports: the parameter [rows, width], its slots, what the gradient is made of (x or the ids, and dy), with a dense
// layer's a list of rows that are added to it (where its weights are a table, too), the learning rate, the random state
// where steps are counted, and the gate.
template <int kSlots>
constexpr int kSource = kSlots + 1;
template <int kSlots>
constexpr int kDy = kSlots + 2;
template <int kSlots>
constexpr int kListed = kSlots + 3;  // the numbers of the rows; the rows themselves follow

constexpr int64_t kBlockBytes = 2 << 20;  // of the gradient: it stays in the second- or third-level cache

int64_t BlockRows(const ValueType& parameter, DType gradient) {
  const int64_t row_bytes = std::max<int64_t>(1, parameter.shape[1] * SizeOf(gradient));
  return std::clamp<int64_t>(kBlockBytes / row_bytes, 1, std::max<int64_t>(1, parameter.shape[0]));
}

int64_t BlockBytes(const ValueType& parameter, DType gradient) {
  // Rounded up, so that what lies behind it in the workspace begins on a cache line.
  return (BlockRows(parameter, gradient) * parameter.shape[1] * SizeOf(gradient) + 63) / 64 * 64;
}

// `rate` is the port of the learning rate.
template <int kSlots, bool kCounts>
absl::Status CheckPorts(InferContext& c, int rate) {
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, 2));
  if (c.input(0).dtype == DType::kBFloat16) {
    return c.InputError(0, "expected another type than bfloat16, whose rounding draws by the place in the whole");
  }
  for (int i = 1; i <= kSlots; ++i) {
    SNUG_RETURN_IF_ERROR(c.CheckShape(i, c.shape(0)));
    if (c.input(i).dtype != c.input(0).dtype) return c.InputError(i, "expected the parameter's type");
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(rate, Shape()));
  if (kCounts) SNUG_RETURN_IF_ERROR(CheckRandomState(c, rate + 1));
  return c.CheckShape(c.num_inputs() - 1, Shape());
}

template <int kSlots, bool kCounts>
absl::Status InferDense(InferContext& c) {
  SNUG_RETURN_IF_ERROR((CheckPorts<kSlots, kCounts>(c, kListed<kSlots> + 2)));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kSource<kSlots>, 2, kMaxRank));
  if (c.has_input(kListed<kSlots>) != c.has_input(kListed<kSlots> + 1)) {
    return c.InputError(kListed<kSlots>, "expected rows together with their numbers");
  }
  if (c.has_input(kListed<kSlots>)) {
    SNUG_RETURN_IF_ERROR(c.CheckRank(kListed<kSlots>, 1, 1));
    if (const DType found = c.input(kListed<kSlots>).dtype; found != DType::kInt64) {
      return c.InputError(kListed<kSlots>, absl::StrCat("expected int64, found ", Name(found)));
    }
    SNUG_RETURN_IF_ERROR(c.CheckShape(kListed<kSlots> + 1, {c.shape(kListed<kSlots>)[0], c.shape(0)[1]}));
  }
  const Shape& x = c.shape(kSource<kSlots>);
  SNUG_RETURN_IF_ERROR(c.CheckShape(kSource<kSlots>, x.WithDim(x.rank() - 1, c.shape(0)[1])));
  return c.CheckShape(kDy<kSlots>, x.WithDim(x.rank() - 1, c.shape(0)[0]));
}

template <int kSlots, bool kCounts>
absl::Status InferEmbedding(InferContext& c) {
  SNUG_RETURN_IF_ERROR((CheckPorts<kSlots, kCounts>(c, kDy<kSlots> + 1)));
  SNUG_RETURN_IF_ERROR(c.CheckRank(kSource<kSlots>, 0, kMaxRank - 1));
  Shape dy = c.shape(kSource<kSlots>);
  dy.Append(c.shape(0)[1]);
  return c.CheckShape(kDy<kSlots>, dy);
}

// How blocks of a dense layer's gradient are made: all threads make one together, by chains of multiply-adds or in
// pieces (split_gemm.h), or each makes its own.
enum class Product : uint8_t { kOwn, kSplit, kPrivateBlocks };

struct Way {
  int64_t block_rows = 0, workspace_bytes = 0;
  Product product = Product::kOwn;
};

// What the update reads of a block of rows, and of the last one, which may be shorter.
struct UpdateTypes {
  NodeTypes block, last;
  Product product;
};

// `rate` is the port of the learning rate.
NodeTypes TypesOfRows(const NodeTypes& types, int slots, int rate, int64_t rows) {
  const ValueType& parameter = types.input(0);
  const Shape block = {rows, parameter.shape[1]};
  NodeTypes of_rows{.options = types.options};
  for (int i = 0; i <= slots; ++i) of_rows.inputs.push_back({parameter.dtype, block});
  of_rows.inputs.push_back({types.input(slots + 2).dtype, block});
  for (int i = rate; i < types.num_inputs(); ++i) of_rows.inputs.push_back(types.input(i));
  of_rows.present.assign(of_rows.inputs.size(), true);
  return of_rows;
}

// How many rows the last block of `all` rows has.
int64_t LastRows(int64_t all, int64_t block) { return all % block == 0 ? std::min(all, block) : all % block; }

UpdateTypes UpdateTypesOf(const NodeTypes& types, int slots, int rate, const Way& way) {
  const int64_t block = way.block_rows;
  const int64_t last = LastRows(types.input(0).shape[0], block);
  return {TypesOfRows(types, slots, rate, block), TypesOfRows(types, slots, rate, last), way.product};
}

// Runs the update's own kernel on rows [first, first + rows) of the parameter and its slots, with their gradient.
absl::Status UpdateRows(const KernelContext& k, const KernelFn& update, int slots, int rate, int threads, int64_t first,
                        int64_t rows, void* gradient) {
  const auto& types = k.prepared<UpdateTypes>();
  const NodeTypes& of_rows = types.block.input(0).shape[0] == rows ? types.block : types.last;
  constexpr size_t kMostPorts = 7;  // Adam's: the parameter, two slots, the gradient, the rate, a state and a gate
  std::array<void*, kMostPorts> pointers;
  size_t ports = 0;
  const int64_t offset = first * of_rows.input(0).shape[1] * SizeOf(of_rows.input(0).dtype);
  for (int i = 0; i <= slots; ++i) pointers[ports++] = k.variable<char>(i) + offset;
  pointers[ports++] = gradient;
  for (int i = rate; i < k.num_inputs(); ++i) pointers[ports++] = k.variable<void>(i);
  return update(KernelContext(&of_rows, absl::MakeConstSpan(pointers.data(), ports), {}, nullptr, nullptr, threads,
                              k.random_id()));
}

// Calls make(first, rows, block) for each block of rows of the gradient, and then its update.
template <class Make>
absl::Status ForEachBlock(const KernelContext& k, const KernelFn& update, int slots, int rate, const Make& make) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  const ValueType& parameter = k.input_type(0);
  const int64_t block_rows = BlockRows(parameter, k.input_type(slots + 2).dtype);
  for (int64_t first = 0; first < parameter.shape[0]; first += block_rows) {
    const int64_t rows = std::min(block_rows, parameter.shape[0] - first);
    make(first, rows, k.workspace<void>());
    SNUG_RETURN_IF_ERROR(UpdateRows(k, update, slots, rate, k.threads(), first, rows, k.workspace<void>()));
  }
  return absl::OkStatus();
}

// The product that gives a block of dw = dy^T x.
template <class T>
GemmCall<T> BlockCall(const KernelContext& k, int slots, int64_t first, int64_t rows, void* block) {
  const int64_t units = k.input_type(0).shape[0];
  const int64_t width = k.input_type(0).shape[1];
  return {.m = rows,
          .n = width,
          .k = units == 0 ? 0 : k.input_type(slots + 2).num_elements() / units,
          .a = {k.input<T>(slots + 2) + first, 1, units},
          .b = {k.input<T>(slots + 1), width, 1},
          .c = static_cast<T*>(block)};
}

// Adds to rows [first, first + rows) of the gradient those of the list that are among them.
template <class T>
void AddListed(const KernelContext& k, int slots, int threads, int64_t first, int64_t rows, void* block) {
  const int numbers_port = slots + 3;
  if (!k.has_input(numbers_port)) return;
  const auto* const numbers = k.input<int64_t>(numbers_port);
  const auto* const end = numbers + CountRows(numbers, k.input_type(numbers_port).shape[0]);
  const auto* const of_block = std::lower_bound(numbers, end, first);
  const int64_t count = std::lower_bound(of_block, end, first + rows) - of_block;
  const int64_t width = k.input_type(0).shape[1];
  const T* const listed = k.input<T>(numbers_port + 1) + (of_block - numbers) * width;
  AddListedRows(threads, of_block, count, width, listed, first, static_cast<T*>(block));
}

absl::Status CheckListed(const KernelContext& k, int slots) {
  if (!k.has_input(slots + 3)) return absl::OkStatus();
  return CheckRowList(k.input<int64_t>(slots + 3), k.input_type(slots + 3).shape[0], k.input_type(0).shape[0]);
}

absl::Status DensePlain(const KernelContext& k, const KernelFn& update, int slots) {
  SNUG_RETURN_IF_ERROR(CheckListed(k, slots));
  return DispatchFloating(k.input_type(slots + 2).dtype, [&](auto zero) {
    using T = decltype(zero);
    return ForEachBlock(k, update, slots, slots + 5, [&](int64_t first, int64_t rows, void* block) {
      Gemm(k.threads(), BlockCall<T>(k, slots, first, rows, block));
      AddListed<T>(k, slots, k.threads(), first, rows, block);
    });
  });
}

PrivateBlocks PrivateBlocksOf(const NodeTypes& types, int slots, int threads) {
  const Shape& parameter = types.input(0).shape;
  const int64_t rows = types.input(slots + 2).num_elements() / std::max<int64_t>(1, parameter[0]);
  return {threads, parameter[0], parameter[1], rows, slots + 1};
}

// Otherwise all threads make one block together: in bfloat16, and where private ones do not pay.
bool MadeInPrivateBlocks(const NodeTypes& types, int slots, int threads) {
  return types.input(0).dtype == DType::kFloat32 && types.input(slots + 2).dtype == DType::kFloat32 &&
         PrivateBlocksOf(types, slots, threads).serve();
}

absl::Status UpdateInPrivateBlocks(const KernelContext& k, const KernelFn& update, int slots) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  std::array<const float*, 3> kept;
  for (int i = 0; i <= slots; ++i) kept[static_cast<size_t>(i)] = k.variable<float>(i);
  return PrivateBlocksOf(k.types(), slots, k.threads())
      .ForEach(k.input<float>(slots + 1), k.input<float>(slots + 2),
               absl::MakeConstSpan(kept.data(), static_cast<size_t>(slots) + 1), k.workspace<float>(),
               [&](int64_t first, int64_t rows, float* block) {
                 AddListed<float>(k, slots, /*threads=*/1, first, rows, block);
                 return UpdateRows(k, update, slots, slots + 5, /*threads=*/1, first, rows, block);
               });
}

absl::Status DenseOwn(const KernelContext& k, const KernelFn& update, int slots) {
  SNUG_RETURN_IF_ERROR(CheckListed(k, slots));
  const Product product = k.prepared<UpdateTypes>().product;
  if (product == Product::kPrivateBlocks) return UpdateInPrivateBlocks(k, update, slots);
  char* const behind = k.workspace<char>() + BlockBytes(k.input_type(0), k.input_type(slots + 2).dtype);
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    return ForEachBlock(k, update, slots, slots + 5, [&](int64_t first, int64_t rows, void* block) {
      const GemmCall<T> call = BlockCall<T>(k, slots, first, rows, block);
      if constexpr (std::is_same_v<T, float>) {
        if (product == Product::kSplit) {
          SplitGemm(k.threads(), call, Activation::kIdentity, behind);
          return AddListed<T>(k, slots, k.threads(), first, rows, block);
        }
      }
      BlockedGemm(k.threads(), call, Activation::kIdentity, behind);
      AddListed<T>(k, slots, k.threads(), first, rows, block);
    });
  };
  return k.input_type(slots + 2).dtype == DType::kBFloat16 ? run(BFloat16()) : run(0.0F);
}

Way WayOfDenseOwn(const PrepareContext& c, int slots) {
  const NodeTypes& types = c.types();
  const ValueType& parameter = types.input(0);
  const ValueType& dy = types.input(slots + 2);
  const int64_t width = parameter.shape[1];
  const int64_t rows = BlockRows(parameter, dy.dtype);
  const int64_t depth = dy.num_elements() / std::max<int64_t>(1, parameter.shape[0]);
  const int64_t block = BlockBytes(parameter, dy.dtype);
  const bool narrow = dy.dtype == DType::kBFloat16;
  // The last block's product is cut by itself, so it may take more than that of a whole block.
  const auto room = [&](int64_t (*bytes)(int, int64_t, int64_t, int64_t)) {
    const int64_t last = LastRows(parameter.shape[0], rows);
    return block + std::max(bytes(c.threads(), rows, width, depth), bytes(c.threads(), last, width, depth));
  };
  // What pays for the whole gradient is done for each block, so that blocks have the bits of the whole.
  const bool split = c.licence().split_products && MachineSplitsProducts() && !narrow;
  if (split && SplittingPays(parameter.shape[0], width, depth)) {
    return {rows, room(SplitGemmWorkspaceBytes), Product::kSplit};
  }
  if (MadeInPrivateBlocks(types, slots, c.threads())) {
    const PrivateBlocks blocks = PrivateBlocksOf(types, slots, c.threads());
    return {blocks.block_rows(), blocks.workspace_bytes(), Product::kPrivateBlocks};
  }
  return {rows, room(narrow ? BlockedGemmWorkspaceBytes<BFloat16> : BlockedGemmWorkspaceBytes<float>)};
}

absl::Status EmbeddingPlain(const KernelContext& k, const KernelFn& update, int slots) {
  const ValueType& parameter = k.input_type(0);
  const int ids = slots + 1;
  const int dy = slots + 2;
  auto* const sorted = reinterpret_cast<int64_t*>(k.workspace<char>() + BlockBytes(parameter, k.input_type(dy).dtype));
  SNUG_RETURN_IF_ERROR(SortChoices(k, ids, parameter.shape[0], "ids", sorted));
  return ForEachBlock(k, update, slots, slots + 3, [&](int64_t first, int64_t rows, void* block) {
    SumSortedRows(k, ids, dy, parameter.shape, sorted, first, rows, block);
  });
}

Way WayOfEmbedding(const PrepareContext& c, int slots) {
  const ValueType& parameter = c.types().input(0);
  const DType gradient = c.types().input(slots + 2).dtype;
  const int64_t ids = c.types().input(slots + 1).num_elements();
  return {BlockRows(parameter, gradient),
          BlockBytes(parameter, gradient) + (parameter.shape[0] + 1 + ids) * static_cast<int64_t>(sizeof(int64_t))};
}

template <int kSlots>
Cost DenseCost(const NodeTypes& types) {
  const double parameter = static_cast<double>(types.input(0).size_bytes());
  const auto& x = types.input(kSource<kSlots>);
  const auto& dy = types.input(kDy<kSlots>);
  const double units = static_cast<double>(types.input(0).shape[0]);
  return {.flops = 2 * static_cast<double>(x.num_elements()) * units,
          .bytes = 2 * (1 + kSlots) * parameter + static_cast<double>(x.size_bytes() + dy.size_bytes())};
}

template <int kSlots>
Cost EmbeddingCost(const NodeTypes& types) {
  const double parameter = static_cast<double>(types.input(0).size_bytes());
  const auto& dy = types.input(kDy<kSlots>);
  return {.flops = static_cast<double>(types.input(0).num_elements()),
          .bytes = 2 * (1 + kSlots) * parameter + static_cast<double>(dy.size_bytes())};
}

constexpr const char* kAdamOptions = "beta1: 0.9 beta2: 0.999 epsilon: 1e-8 weight_decay: 0.1";

// What follows the gradient: the learning rate, the state and the gate.
template <bool kCounts>
void AddRest(Sample& sample, double gate) {
  sample.Input({}).Range(0.01, 0.1);
  if (kCounts) sample.Int({2}, 0, 100, DType::kInt64).Values({1, 9});
  sample.Bytes({}).Values({gate});
}

template <int kSlots, bool kCounts>
Sample& AddCase(SampleBuilder& s, const char* name, const Shape& parameter,
                const std::vector<std::vector<double>>& values = {}, bool narrow = false) {
  Sample& sample = s.Case(name).With(ParseOptions<proto::Update>(kCounts       ? kAdamOptions
                                                                 : kSlots == 1 ? "momentum: 0.9 weight_decay: 0.1"
                                                                               : "weight_decay: 0.1 lr_mult: 2"));
  for (int i = 0; i <= kSlots; ++i) {
    sample.Input(parameter);
    if (i == kSlots && kCounts) sample.Range(0.1, 1);
    if (!values.empty()) sample.Values(values[static_cast<size_t>(i)]);
    if (narrow) sample.Narrow();
  }
  return sample;
}

template <int kSlots, bool kCounts>
void DenseSamples(SampleBuilder& s) {
  const auto with = [&s](const char* name, int64_t units, int64_t width, Shape rows, double gate,
                         const std::vector<double>& listed = {}) -> Sample& {
    Sample& sample = AddCase<kSlots, kCounts>(s, name, {units, width});
    Shape x = rows;
    x.Append(width);
    rows.Append(units);
    sample.Input(x).Input(rows);
    if (listed.empty()) {
      sample.Absent().Absent();
    } else {
      const auto room = static_cast<int64_t>(listed.size());
      sample.Int({room}, 0, units, DType::kInt64).Values(listed).Input({room, width});
    }
    AddRest<kCounts>(sample, gate);
    return sample;
  };
  with("small", 5, 7, {3}, 1);
  with("rows_in_two_axes", 6, 33, {2, 5}, 1);
  with("gate_closed", 5, 7, {3}, 0);
  with("listed_rows", 6, 9, {4}, 1, {0, 3, 5, -1});
  with("no_listed_rows", 6, 9, {4}, 1, {-1, -1});
  with("listed_row_too_large", 6, 9, {4}, 1, {0, 6}).FailsAtRun("rows[1]: expected ascending rows in [0, 6)");
  Sample& rounded = AddCase<kSlots, kCounts>(s, "kept_in_bfloat16", {5, 7}, {}, /*narrow=*/true);
  rounded.Input({3, 7}).Input({3, 5}).Absent().Absent();
  AddRest<kCounts>(rounded, 1);
  rounded.Only({DType::kBFloat16}).Fails("expected another type than bfloat16, whose rounding draws");
  Sample& wrong = AddCase<kSlots, kCounts>(s, "units", {5, 7});
  wrong.Input({3, 7}).Input({3, 4}).Absent().Absent();
  AddRest<kCounts>(wrong, 1);
  wrong.Fails("\"dy\" [3, 4]: expected shape [3, 5]");
}

template <int kSlots, bool kCounts>
void EmbeddingSamples(SampleBuilder& s) {
  const auto with = [&s](const char* name, int64_t entries, int64_t width, Shape ids, double gate) {
    Sample& sample = AddCase<kSlots, kCounts>(s, name, {entries, width});
    sample.Int(ids, 0, entries);
    ids.Append(width);
    sample.Input(ids);
    AddRest<kCounts>(sample, gate);
  };
  // The numbers of sgd_update's, momentum_update's and adam_update's samples, the gradient as sums of rows.
  Sample& known = AddCase<kSlots, kCounts>(
      s, "known", {2, 1},
      {{1, -2}, kCounts ? std::vector<double>{0.1, -0.2} : std::vector<double>{0.5, 1}, {0.01, 0.04}});
  known.Int({3}, 0, 2).Values({0, 1, 1}).Input({3, 1}).Values({0.5, 0.125, 0.125});
  known.Input({}).Values({kCounts ? 0.01 : 0.1});
  if (kCounts) known.Int({2}, 0, 100, DType::kInt64).Values({1, 9});
  known.Bytes({}).Values({1});
  if constexpr (kSlots == 0) known.ExpectMutated(0, {0.88, -2.01});
  if constexpr (kSlots == 1) known.ExpectMutated(0, {0.895, -2.095}).ExpectMutated(1, {1.05, 0.95});
  if constexpr (kCounts) {
    known.ExpectMutated(0, {0.9977413503496595, -1.99865896685293})
        .ExpectMutated(1, {0.15, -0.175})
        .ExpectMutated(2, {0.01035, 0.0399625});
  }
  with("repeated", 6, 19, {4, 5}, 1);
  with("gate_closed", 6, 19, {4}, 0);
  Sample& wrong = AddCase<kSlots, kCounts>(s, "id_too_large", {6, 19});
  wrong.Int({2}, 0, 6).Values({0, 6}).Input({2, 19});
  AddRest<kCounts>(wrong, 1);
  wrong.FailsAtRun("ids[1]: expected an entry in [0, 6), found 6");
}

// The op that does what `update` does with a gradient that is made on the way.
OpDef AsMade(const OpDef& update, absl::string_view name, absl::string_view doc, Port source, int slots,
             bool adds_listed) {
  OpDef op{.name = name, .doc = doc, .outputs = {}};
  for (int i = 0; i <= slots; ++i) {
    op.inputs.push_back(update.inputs[static_cast<size_t>(i)]);
    op.aliases.push_back({Alias::Kind::kMutates, 0, i});
  }
  op.inputs.push_back(source);
  op.inputs.push_back({"dy"});
  if (adds_listed) {
    op.inputs.push_back({"rows", PortType::kInteger, true});
    op.inputs.push_back({.name = "listed", .optional = true});
  }
  for (size_t i = static_cast<size_t>(slots) + 2; i < update.inputs.size(); ++i) {
    if (!update.inputs[i].optional) op.inputs.push_back(update.inputs[i]);  // "rounding" is: see CheckPorts()
  }
  return op;
}

using RunFn = absl::Status (*)(const KernelContext&, const KernelFn&, int);
using WayFn = Way (*)(const PrepareContext&, int slots);

KernelRow RowOf(absl::string_view name, const OpDef& update, int slots, int rate, WayFn way_of, RunFn run) {
  return {.name = name,
          .prepare =
              [=](PrepareContext& c) {
                const Way way = way_of(c, slots);
                c.SetKernel(std::make_shared<UpdateTypes>(UpdateTypesOf(c.types(), slots, rate, way)));
                c.SetWorkspaceBytes(way.workspace_bytes);
                if (way.product == Product::kSplit) c.SetVariant("split");
                return absl::OkStatus();
              },
          .run = [=, update_rows = update.plain()->run](const KernelContext& k) { return run(k, update_rows, slots); }};
}

Way WayOfDensePlain(const PrepareContext& c, int slots) {
  const DType gradient = c.types().input(slots + 2).dtype;
  return {BlockRows(c.types().input(0), gradient), BlockBytes(c.types().input(0), gradient)};
}

template <int kSlots, bool kCounts>
void AddOps(const OpDef& update, absl::string_view dense_name, absl::string_view dense_doc,
            absl::string_view embedding_name, absl::string_view embedding_doc, std::vector<OpDef>* ops) {
  OpDef dense = AsMade(update, dense_name, dense_doc, {"x"}, kSlots, /*adds_listed=*/true);
  dense.infer = InferDense<kSlots, kCounts>;
  dense.cost = DenseCost<kSlots>;
  constexpr int kRate = kListed<kSlots> + 2;
  dense.kernels = {RowOf("own", update, kSlots, kRate, WayOfDenseOwn, DenseOwn),
                   RowOf("plain", update, kSlots, kRate, WayOfDensePlain, DensePlain)};
  dense.kernels[0].serves = NotInDouble;
  dense.samples = DenseSamples<kSlots, kCounts>;
  ops->push_back(std::move(dense));
  OpDef embedding =
      AsMade(update, embedding_name, embedding_doc, {"ids", PortType::kInteger}, kSlots, /*adds_listed=*/false);
  embedding.infer = InferEmbedding<kSlots, kCounts>;
  embedding.index_bound = [](const NodeTypes& types, int input) -> int64_t {
    return input == kSource<kSlots> ? types.input(0).shape[0] : 0;
  };
  embedding.cost = EmbeddingCost<kSlots>;
  embedding.kernels = {RowOf("plain", update, kSlots, kDy<kSlots> + 1, WayOfEmbedding, EmbeddingPlain)};
  embedding.samples = EmbeddingSamples<kSlots, kCounts>;
  ops->push_back(std::move(embedding));
}

}  // namespace

SNUG_OPS(update_as_made) {
  std::vector<OpDef> ops;
  AddOps<0, false>(sgd_update::OpsIn_sgd_update()[0], "dense_sgd_update",
                   "sgd_update of weights with dw = dy^T x, made in blocks of rows", "embedding_sgd_update",
                   "sgd_update of a table with its rows' sums of dy, made in blocks of rows", &ops);
  AddOps<1, false>(momentum_update::OpsIn_momentum_update()[0], "dense_momentum_update",
                   "momentum_update of weights with dw = dy^T x, made in blocks of rows", "embedding_momentum_update",
                   "momentum_update of a table with its rows' sums of dy, made in blocks of rows", &ops);
  AddOps<2, true>(adam_update::OpsIn_adam_update()[0], "dense_adam_update",
                  "adam_update of weights with dw = dy^T x, made in blocks of rows", "embedding_adam_update",
                  "adam_update of a table with its rows' sums of dy, made in blocks of rows", &ops);
  return ops;
}

}  // namespace update_as_made
}  // namespace snug::core::ops
