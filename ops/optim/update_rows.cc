// sgd_update_rows and its like: an update of the rows of a table that a list names, with the list's rows as their
// gradient (embedding_grad_rows). The other rows, and what the optimizer keeps for them, stay as they are; their number
// costs nothing. Where a gradient of zero changes nothing, that is what the update of the whole table does, bit for
// bit; elsewhere it is the lazy form of the optimizer, as torch.optim.SparseAdam is of Adam.
//
// The rows are gathered in blocks, as are those of the slots. The update's own kernel runs on a block as if it were a
// parameter, and the block goes back to where it came from.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/gather_rows.h"
#include "ops/kit/random_state.h"
#include "ops/op_def.h"
#include "ops/optim/update.h"
#include "ops/optim/whole_updates.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"

namespace snug::core::ops {

namespace update_rows {
namespace {

using proto::ParseOptions;

constexpr int64_t kBlockElements = 1 << 13;  // of the parameter: with two slots, a block stays in the first-level cache

// How the rows of a node lie. Ports: the parameter [entries, width], its slots, the numbers of the rows, their gradient
// [room, width], and what the update takes besides.
struct Rows {
  int slots = 0;
  int64_t room = 0, width = 0, in_block = 0;

  int numbers() const { return slots + 1; }
  int gradient() const { return slots + 2; }
};

Rows RowsOf(const NodeTypes& types, int slots) {
  Rows rows{.slots = slots, .room = types.input(slots + 1).shape[0], .width = types.input(0).shape[1]};
  rows.in_block =
      std::clamp<int64_t>(kBlockElements / std::max<int64_t>(1, rows.width), 1, std::max<int64_t>(1, rows.room));
  return rows;
}

int64_t BlockBytes(const NodeTypes& types, const Rows& rows, int variable) {
  // Whole cache lines, so that no two threads write to the same.
  return (rows.in_block * rows.width * SizeOf(types.input(variable).dtype) + 63) / 64 * 64;
}

// What a thread has for itself: a block of each Variable, and one of the gradient.
int64_t BytesOfAThread(const NodeTypes& types, const Rows& rows) {
  int64_t bytes = BlockBytes(types, rows, rows.gradient());
  for (int i = 0; i <= rows.slots; ++i) bytes += BlockBytes(types, rows, i);
  return bytes;
}

template <int kSlots, bool kCounts>
absl::Status InferRows(InferContext& c) {
  SNUG_RETURN_IF_ERROR(CheckParameter(c));
  SNUG_RETURN_IF_ERROR(c.CheckRank(0, 2, 2));
  for (int i = 1; i <= kSlots; ++i) {
    if (c.input(i).dtype == DType::kUint8) {
      return c.InputError(i, "expected another type than uint8, whose blocks with a scale each are no rows");
    }
    SNUG_RETURN_IF_ERROR(CheckSlot(c, i));
  }
  constexpr int kNumbers = kSlots + 1;
  SNUG_RETURN_IF_ERROR(c.CheckRank(kNumbers, 1, 1));
  if (const DType found = c.input(kNumbers).dtype; found != DType::kInt64) {
    return c.InputError(kNumbers, absl::StrCat("expected int64, found ", Name(found)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(kNumbers + 1, {c.shape(kNumbers)[0], c.shape(0)[1]}));
  const DType parameter = c.input(0).dtype;
  if (const DType found = c.input(kNumbers + 1).dtype;
      found != parameter && (found == DType::kFloat64 || parameter == DType::kFloat64)) {
    return c.InputError(kNumbers + 1,
                        absl::StrCat("expected ", Name(parameter), " like the parameter, found ", Name(found)));
  }
  SNUG_RETURN_IF_ERROR(c.CheckShape(kNumbers + 2, Shape()));  // lr
  if (kCounts) SNUG_RETURN_IF_ERROR(CheckRandomState(c, kNumbers + 3));
  constexpr int kGate = kNumbers + 3 + (kCounts ? 1 : 0);
  SNUG_RETURN_IF_ERROR(c.CheckShape(kGate, Shape()));
  return kCounts ? absl::OkStatus() : CheckRounding(c, kSlots + 1, kGate + 1);
}

// The types around the update of one block.
NodeTypes BlockTypes(const NodeTypes& types, const Rows& rows) {
  NodeTypes block{.options = types.options};
  for (int i = 0; i < types.num_inputs(); ++i) {
    if (i == rows.numbers()) continue;
    block.inputs.push_back(types.input(i));
    block.present.push_back(types.has_input(i));
    if (i <= rows.gradient()) block.inputs.back().shape = {rows.in_block, rows.width};
  }
  return block;
}

// Runs an update on the rows that are listed, a block at a time, for one thread.
class Blocks {
 public:
  Blocks(const KernelContext& k, const KernelFn& update, const Rows& rows, int64_t count, char* workspace)
      : k_(k), update_(update), rows_(rows), count_(count) {
    SNUG_CHECK(k.num_inputs() <= kMostInputs + 1);
    int port = 0;
    for (int i = 0; i < k.num_inputs(); ++i) {
      if (i != rows.numbers()) pointers_[port++] = k.variable<void>(i);
    }
    for (int i = 0; i <= rows.slots; ++i) {
      pointers_[i] = workspace;
      workspace += BlockBytes(k.types(), rows, i);
    }
    last_gradient_ = workspace;
  }

  void Run(int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * rows_.in_block;
      const int64_t rows = std::min(rows_.in_block, count_ - begin);
      for (int i = 0; i <= rows_.slots; ++i) {
        ForEachRow(i, begin, rows, [](char* kept, char* copy, size_t bytes) { std::memcpy(copy, kept, bytes); });
        Pad(static_cast<char*>(pointers_[i]), rows, k_.input_type(i).dtype);
      }
      pointers_[rows_.slots + 1] = Gradient(begin, rows);
      // Each block has roundings of its own: they are drawn by the place in what the update takes for the whole.
      const uint64_t random_id = MixKeys(k_.random_id(), static_cast<uint64_t>(block));
      const auto ports = static_cast<size_t>(k_.num_inputs() - 1);
      // The gate is open, so there is nothing that an update could refuse.
      SNUG_CHECK_OK(update_(KernelContext(&k_.prepared<NodeTypes>(), {pointers_, ports}, {}, nullptr, nullptr,
                                          /*threads=*/1, random_id)));
      for (int i = 0; i <= rows_.slots; ++i) {
        ForEachRow(i, begin, rows, [](char* kept, char* copy, size_t bytes) { std::memcpy(kept, copy, bytes); });
      }
    }
  }

 private:
  static constexpr int kMostInputs = 8;  // of an update: a parameter, two slots, grad, lr, state, gate, rounding

  // The last block may have fewer rows than all others. Those behind them are zeros, which go nowhere.
  void Pad(char* block, int64_t rows, DType dtype) const {
    const int64_t row_bytes = rows_.width * SizeOf(dtype);
    std::memset(block + rows * row_bytes, 0, static_cast<size_t>((rows_.in_block - rows) * row_bytes));
  }

  // The gradient of a block is where it is, unless the block is not full.
  void* Gradient(int64_t begin, int64_t rows) const {
    const DType dtype = k_.input_type(rows_.gradient()).dtype;
    const int64_t row_bytes = rows_.width * SizeOf(dtype);
    char* const listed = k_.variable<char>(rows_.gradient()) + begin * row_bytes;
    if (rows == rows_.in_block) return listed;
    std::memcpy(last_gradient_, listed, static_cast<size_t>(rows * row_bytes));
    Pad(last_gradient_, rows, dtype);
    return last_gradient_;
  }

  // Calls move(where a row is in a Variable, where in its block, bytes) for the rows of a block.
  template <class Move>
  void ForEachRow(int variable, int64_t begin, int64_t rows, Move move) const {
    constexpr int64_t kAhead = 8;
    const int64_t bytes = rows_.width * SizeOf(k_.input_type(variable).dtype);
    const int64_t* const numbers = k_.input<int64_t>(rows_.numbers()) + begin;
    char* const kept = k_.variable<char>(variable);
    char* const block = static_cast<char*>(pointers_[variable]);
    for (int64_t r = 0; r < rows; ++r) {
      if (r + kAhead < rows) {  // rows lie anywhere: the processor cannot guess where the next one begins
        for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(kept + numbers[r + kAhead] * bytes + byte);
      }
      move(kept + numbers[r] * bytes, block + r * bytes, static_cast<size_t>(bytes));
    }
  }

  const KernelContext& k_;
  const KernelFn& update_;
  const Rows& rows_;
  int64_t count_;
  void* pointers_[kMostInputs] = {};
  char* last_gradient_ = nullptr;
};

absl::Status UpdateListed(const KernelContext& k, const KernelFn& update, int slots) {
  if (!GateIsOpen(k)) return absl::OkStatus();
  const Rows rows = RowsOf(k.types(), slots);
  const auto* numbers = k.input<int64_t>(rows.numbers());
  SNUG_RETURN_IF_ERROR(CheckRowList(numbers, rows.room, k.input_type(0).shape[0]));
  const int64_t count = CountRows(numbers, rows.room);
  const int64_t blocks = (count + rows.in_block - 1) / rows.in_block;
  const int64_t bytes = BytesOfAThread(k.types(), rows);
  const int64_t shares = std::min<int64_t>(std::max(1, k.threads()), blocks);
  ParallelFor(k.threads(), shares, 1, [&](int64_t begin, int64_t end) {
    for (int64_t share = begin; share < end; ++share) {
      Blocks(k, update, rows, count, k.workspace<char>() + share * bytes)
          .Run(blocks * share / shares, blocks * (share + 1) / shares);
    }
  });
  return absl::OkStatus();
}

absl::Status PrepareRows(PrepareContext& c, int slots) {
  const Rows rows = RowsOf(c.types(), slots);
  c.SetWorkspaceBytes(std::max(1, c.threads()) * BytesOfAThread(c.types(), rows));
  c.SetKernel(std::make_shared<NodeTypes>(BlockTypes(c.types(), rows)));
  return absl::OkStatus();
}

template <int kSlots>
Cost CostOfRows(const NodeTypes& types) {
  const ValueType& gradient = types.input(kSlots + 2);
  double bytes = static_cast<double>(gradient.size_bytes());
  for (int i = 0; i <= kSlots; ++i) {
    bytes += 2 * static_cast<double>(gradient.num_elements() * SizeOf(types.input(i).dtype));
  }
  return {.flops = 2 * (1 + kSlots) * static_cast<double>(gradient.num_elements()), .bytes = bytes};
}

using OpsFn = std::vector<OpDef> (*)();

// The sample "known" of the whole update: its two numbers are rows 0 and 2 of a table.
void AddKnown(const OpDef& update, int slots, SampleBuilder& s) {
  constexpr double kStays = 7;
  SampleBuilder of_whole;
  update.samples(of_whole);
  const auto known = std::find_if(of_whole.cases().begin(), of_whole.cases().end(),
                                  [](const Sample& sample) { return sample.name() == "known"; });
  SNUG_CHECK(known != of_whole.cases().end());
  Sample& sample = s.Case("known").With(known->options());
  for (int i = 0; i < static_cast<int>(known->inputs().size()); ++i) {
    const SampleInput& input = known->inputs()[static_cast<size_t>(i)];
    const std::vector<double>& values = input.values;
    if (i <= slots) {
      sample.Input({3, 1}).Values({values[0], kStays, values[1]});
    } else if (i == slots + 1) {
      sample.Int({3}, 0, 3, DType::kInt64).Values({0, 2, -1}).Input({3, 1}).Values({values[0], values[1], 0});
    } else if (!input.is_integer) {
      sample.Input(input.shape).Values(values);
    } else if (input.dtype == DType::kUint8) {
      sample.Bytes(input.shape).Values(values);
    } else {
      sample.Int(input.shape, 0, 100, *input.dtype).Values(values);
    }
  }
  for (const auto& [port, values] : known->expected_mutated()) {
    sample.ExpectMutated(port, {values[0], kStays, values[1]});
  }
}

template <OpsFn kOps, size_t kIndex, int kSlots, bool kCounts>
void Samples(SampleBuilder& s) {
  constexpr const char* kOptions = kCounts || kSlots > 0
                                       ? "momentum: 0.9 beta1: 0.9 beta2: 0.99 epsilon: 1e-6 weight_decay: 0.1"
                                       : "weight_decay: 0.1 lr_mult: 2";
  const auto with = [&s](const char* name, int64_t entries, int64_t width, const std::vector<double>& rows, double gate,
                         bool narrow) -> Sample& {
    const auto room = static_cast<int64_t>(rows.size());
    Sample& sample = s.Case(name).With(ParseOptions<proto::Update>(kOptions));
    for (int i = 0; i <= kSlots; ++i) {
      sample.Input({entries, width});
      if (i > 0) sample.Range(0.1, 1);
      if (narrow) sample.Narrow();
    }
    sample.Int({room}, 0, entries, DType::kInt64).Values(rows).Input({room, width});
    sample.Input({}).Range(0.01, 0.1);
    if (kCounts) sample.Int({2}, 0, 100, DType::kInt64).Values({1, 9});
    sample.Bytes({}).Values({gate});
    if (narrow && !kCounts) sample.Int({2}, 0, 100, DType::kInt64);
    return sample;
  };
  AddKnown(kOps()[kIndex], kSlots, s);
  with("some", 6, 19, {0, 2, 5, -1}, 1, false);
  with("all", 3, 7, {0, 1, 2}, 1, false);
  with("none", 4, 7, {-1, -1}, 1, false);
  with("gate_closed", 6, 19, {1, 4, -1}, 0, false);
  with("rows_longer_than_a_block", 3, 9001, {0, 2, -1}, 1, false);
  std::vector<double> many;
  for (int i = 0; i < 300; ++i) many.push_back(3 * i + i % 2);
  with("several_blocks", 1000, 64, many, 1, false);
  with("kept_in_bfloat16", 1000, 64, many, 1, true);
  const auto wrong = [&s](const char* name, DType numbers, int64_t rows) -> Sample& {
    Sample& sample = s.Case(name).With(ParseOptions<proto::Update>(kOptions));
    for (int i = 0; i <= kSlots; ++i) sample.Input({6, 4});
    sample.Int({3}, 0, 6, numbers).Input({rows, 4}).Input({});
    if (kCounts) sample.Int({2}, 0, 100, DType::kInt64);
    return sample.Bytes({});
  };
  wrong("room", DType::kInt64, 2).Fails("\"grad\" [2, 4]: expected shape [3, 4]");
  wrong("int32", DType::kInt32, 3).Fails("\"rows\" [3]: expected int64, found int32");
  with("not_ascending", 6, 19, {2, 1}, 1, false)
      .FailsAtRun("rows[1]: expected ascending rows in [0, 6), then -1, found 1");
  with("twice", 6, 19, {1, 1}, 1, false).FailsAtRun("rows[1]: expected ascending rows in [0, 6), then -1, found 1");
  with("row_too_large", 6, 19, {1, 6}, 1, false).FailsAtRun("rows[1]: expected ascending rows in [0, 6)");
  with("row_after_the_end", 6, 19, {1, -1, 3}, 1, false).FailsAtRun("rows[2]: expected ascending rows in [0, 6)");
}

// The op that does to rows what `update` does to a whole parameter.
template <OpsFn kOps, int kSlots, bool kCounts, size_t kIndex = 0>
OpDef ByRows(absl::string_view name, absl::string_view doc) {
  const OpDef update = kOps()[kIndex];
  OpDef op{.name = name,
           .doc = doc,
           .inputs = update.inputs,
           .outputs = {},
           .infer = InferRows<kSlots, kCounts>,
           .aliases = update.aliases,
           .cost = CostOfRows<kSlots>,
           .kernels = {{.name = "plain",
                        .prepare = [](PrepareContext& c) { return PrepareRows(c, kSlots); },
                        .run = [whole = update.plain()->run](
                                   const KernelContext& k) { return UpdateListed(k, whole, kSlots); }}},
           .samples = Samples<kOps, kIndex, kSlots, kCounts>};
  op.inputs.insert(op.inputs.begin() + kSlots + 1, {"rows", PortType::kInteger});
  return op;
}

}  // namespace

SNUG_OPS(update_rows) {
  return {
      ByRows<sgd_update::OpsIn_sgd_update, 0, false>(
          "sgd_update_rows", "sgd_update of the rows of a table that are listed, with their gradients"),
      ByRows<momentum_update::OpsIn_momentum_update, 1, false>(
          "momentum_update_rows", "momentum_update of the rows of a table that are listed; other velocities stay too"),
      ByRows<adam_update::OpsIn_adam_update, 2, true>(
          "adam_update_rows", "adam_update of the rows of a table that are listed; other m and v stay too"),
      ByRows<rmsprop_update::OpsIn_rmsprop_update, 1, false>(
          "rmsprop_update_rows", "rmsprop_update of the rows of a table that are listed; other v stay too"),
      ByRows<rmsprop_update::OpsIn_rmsprop_update, 2, false, 1>(
          "rmsprop_momentum_update_rows",
          "rmsprop_momentum_update of the rows of a table that are listed; other slots stay too"),
      ByRows<adagrad_update::OpsIn_adagrad_update, 1, true>(
          "adagrad_update_rows", "adagrad_update of the rows of a table that are listed, with their gradients"),
      ByRows<lion_update::OpsIn_lion_update, 1, false>(
          "lion_update_rows", "lion_update of the rows of a table that are listed; other m stay too")};
}

}  // namespace update_rows
}  // namespace snug::core::ops
