// KernelRow: one way to compute the nodes of an op on one kind of device. An op lists its rows (OpDef::kernels); those
// of a device stand in order of preference, and the last of them serves whatever the others do not. A kernel of another
// library is one more row.
//
// The compiler takes the first row that serves a node's types, prepares it, and goes on to the next one if it declines
// (engine/compile/kernels/choose.h). A row that does not take a node says why (NotServed), and the compiler keeps that.
// Entries are callables, which may have state; a null one has a stated meaning.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/device.h"

namespace snug::core {

class PrepareContext;
class KernelContext;
struct NodeTypes;

namespace cuda {
class CodeCache;
class LaunchContext;
}  // namespace cuda

// Says why a row leaves a node to the rows after it.
struct NotServed {
  enum class Cause : uint8_t {
    // The row has nothing for a node that it is there for. Where the row is a library's, the user is told, because what
    // serves instead may be many times slower (engine/run/session/fallbacks.h).
    kRefused,
    // Another row is meant to serve such nodes: it is as fast, or the user asked for what only it can do. Dumps say so.
    kByDesign,
  };
  Cause cause = Cause::kRefused;
  std::string why;
};
NotServed Refused(std::string why);
NotServed ByDesign(std::string why);

// What a session has for the kernel of one Step when its device is open.
struct SettleContext {
  const void* prepared;                       // what Prepare handed to SetKernel
  const cuda::LaunchContext* cuda = nullptr;  // where the Step's kernels are launched; null on the CPU
  cuda::CodeCache* code = nullptr;            // holds code that is compiled at run time
};

// What a kernel that is several calls asks the device for, for predictions: products of a library, `calls` times each,
// and sweeps of ours between them.
struct KernelCalls {
  struct Product {
    double calls = 1, count = 1, m = 1, n = 1, k = 1;  // count times [m, k] by [k, n] in a call
  };
  std::vector<Product> products;
  double sweeps = 0;
  double sweep_bytes = 0;  // what all sweeps read and write
  double kept_bytes = 0;   // what is handed from call to call at a time
};

using KeptInputFn = std::function<int(const NodeTypes&)>;
using ServesFn = std::function<std::optional<NotServed>(const NodeTypes&)>;
using PrepareFn = std::function<absl::Status(PrepareContext&)>;
using VariantsFn = std::function<absl::StatusOr<std::vector<std::string>>(const PrepareContext&)>;
using SettleFn = std::function<absl::Status(const SettleContext&)>;
using CallsFn = std::function<KernelCalls(const void* prepared)>;
using KernelFn = std::function<absl::Status(const KernelContext&)>;
using TogetherFn = std::function<absl::Status(absl::Span<const KernelContext>)>;

inline constexpr Device::Kind kOnCuda = Device::Kind::kCuda;

inline constexpr int kMostTogether = 32;

struct KernelRow {
  Device::Kind device = Device::Kind::kCpu;
  // Dumps, profiles and traces call the kernel so. It is the library's name, "own" or another name for ours, or "plain"
  // for the reference on the CPU, which serves every floating dtype and is the oracle of every test.
  absl::string_view name;
  // The library that the kernel belongs to, such as "oneDNN"; empty: it is ours. Its bits may depend on the number of
  // threads.
  absl::string_view library = {};
  // The row is only there for nodes whose input of this number is kept (PrepareContext::kept). Null: for every node.
  KeptInputFn kept_input = nullptr;
  ServesFn serves = nullptr;    // nullopt, or the reason why it does not; null: it serves every node
  PrepareFn prepare = nullptr;  // library objects, workspace, wanted layouts; null: stateless, no workspace
  // `snug tune` may ask for this row, by its name, in place of another that is so, too. Prepare declines if the choice
  // is another row's, or fails: nothing else is taken without a word.
  bool tunable = false;
  // Lists by name what else Prepare can build for these types (a library's other implementations, another algorithm).
  // All are right to rounding; `snug tune` measures which is fastest. The name of a later row stands for that row.
  // Null: there is nothing else.
  VariantsFn variants = nullptr;
  // Runs before the first step: loads code, has the library choose its algorithm. Fails with Unimplemented, and the
  // reason, if the library has nothing for this after all; then the next row serves within the plan. Null: there is
  // nothing to do.
  SettleFn settle = nullptr;
  CallsFn calls = nullptr;  // null: a call does it all
  // On CUDA it asks for the work on k.cuda()'s stream (engine/cuda/cuda_launch.h), without waiting or allocating.
  // Unimplemented means the same as in `settle`, for what only shows now. Null: this build does not have the kernel,
  // and the registry leaves the row out.
  KernelFn run = nullptr;
  // Does the same for 1 to kMostTogether nodes of this row at once, whose ports have the same dtypes
  // (ops/kit/cuda/together.h). Null: they run one by one.
  TogetherFn together = nullptr;
};

// A kernel with what its Prepare handed to SetKernel.
struct PreparedKernel {
  std::shared_ptr<const KernelRow> kernel;
  std::shared_ptr<const void> prepared;
};

// The two rows that most ops have: the reference, and a kernel of ours on CUDA that needs no workspace.
KernelRow Plain(KernelFn run);
KernelRow OwnOnCuda(KernelFn run);

// Lists what a tuning may ask for where the first of these rows serves, and is taken unless another is asked for.
absl::StatusOr<std::vector<std::string>> ChoicesAmong(absl::Span<const KernelRow* const> rows,
                                                      const PrepareContext& context);

// For KernelRow::serves, if a kernel knows float32 and bfloat16 only. It is by design: a network is in float64 because
// its user asked for exact results and not for speed (docs/decisions.md).
std::optional<NotServed> NotInDouble(const NodeTypes& types);

}  // namespace snug::core
