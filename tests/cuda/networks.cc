#include "tests/cuda/networks.h"

#include <absl/strings/str_cat.h>

#include <cstdlib>
#include <utility>

#include "engine/base/status.h"
#include "engine/run/session/random_feed.h"
#include "engine/run/session/saved_inputs.h"
#include "engine/train/checkpoint/session_state.h"
#include "tests/gpu/test_device.h"
#include "tests/testing/source_path.h"

namespace snug::core {
namespace {

constexpr uint64_t kSeed = 3;

// Returns a tuning that asks for the library's kernel wherever our own for small products is the default.
absl::StatusOr<std::shared_ptr<const Tuning>> LibrariesFor(const LoadedNetwork& loaded, const CompileOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const Compiled compiled,
                        Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  Tuning tuning;
  for (const KernelChoice& kernel : compiled.kernels) {
    if (kernel.Name() == "small") tuning.kernels[kernel.key].choice = "library";
  }
  return std::make_shared<const Tuning>(std::move(tuning));
}

}  // namespace

CompileOptions OptionsOf(const How& how) {
  CompileOptions options{.batch = how.batch,
                         .training = how.training,
                         .precision = how.precision,
                         .threads = 1,
                         .plain_kernels = true,
                         .keep_inputs = how.keep_inputs,
                         .bound = how.bound};
  options.disabled_passes = how.disabled_passes;
  options.memory = {.strategy = how.strategy, .streams = how.streams, .dynamic = how.dynamic};
  return options;
}

std::string How::ToString() const {
  return absl::StrCat(strategy, ", ", streams, " streams, engine ", ExecutorName(engine), graph ? ", graph" : "",
                      keep_inputs ? ", inputs kept" : "", libraries ? ", libraries" : "",
                      own_small_products ? " but for small products" : "", ahead ? ", ahead" : "");
}

absl::StatusOr<LoadedNetwork> LoadModel(const std::string& path) { return LoadNetworkFile(test::SourcePath(path)); }

absl::StatusOr<Compiled> CompileForCpu(const LoadedNetwork& loaded, const How& how) {
  return Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), OptionsOf(how));
}

absl::StatusOr<Compiled> CompileForCuda(const LoadedNetwork& loaded, const How& how) {
  CompileOptions options = OptionsOf(how);
  options.device = {Device::Kind::kCuda};
  options.plain_kernels = !how.libraries;
  if (!CanCompileKernels().ok()) options.disabled_passes.insert("fuse_elementwise");
  if (how.libraries && !how.own_small_products) {
    options.list_choices = true;
    SNUG_ASSIGN_OR_RETURN(options.tuning, LibrariesFor(loaded, options));
    options.list_choices = false;
  }
  return Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options);
}

absl::StatusOr<std::unique_ptr<Session>> NewSession(std::vector<Compiled> compiled, const How& how,
                                                    std::shared_ptr<const cuda::CudaDevice> device) {
  SessionOptions options{.seed = kSeed,
                         .engine = how.engine,
                         .cuda_graph = how.graph,
                         .upload_ahead = how.ahead,
                         .cuda_device = std::move(device)};
  options.fallbacks = how.fallbacks;
  options.strict_kernels = how.strict_kernels;
  return Session::Create(std::move(compiled), options);
}

absl::StatusOr<double> LossOf(Session& session, const LoadedNetwork& loaded) {
  double loss = 0;
  for (const std::string& objective : loaded.network.objective()) {
    SNUG_ASSIGN_OR_RETURN(const double value, session.FetchScalar(objective));
    loss += value;
  }
  return loss;
}

std::map<std::string, std::string> StateBytes(Session& session) {
  std::map<std::string, std::string> state;
  for (const auto& [name, variable] : checkpoint::StateVariables(session, HostAccess::kRead)) {
    state[name].assign(reinterpret_cast<const char*>(variable.view.data),
                       static_cast<size_t>(variable.view.type->size_bytes()));
  }
  return state;
}

absl::StatusOr<Result> Train(Session& session, const LoadedNetwork& loaded, int steps) {
  Result result;
  SNUG_RETURN_IF_ERROR(FeedRandom(session, OpRegistry::Builtin(), kSeed));
  SavedInputs inputs(session);
  for (int i = 0; i < steps; ++i) {
    inputs.Feed();
    SNUG_RETURN_IF_ERROR(session.Run());
    SNUG_ASSIGN_OR_RETURN(const double loss, LossOf(session, loaded));
    result.losses.push_back(loss);
  }
  result.state = StateBytes(session);
  return result;
}

absl::StatusOr<Result> TrainOnCpu(const LoadedNetwork& loaded, int steps, int64_t batch, DType precision) {
  const How how{.strategy = "none", .engine = ExecutorKind::kSerial, .batch = batch, .precision = precision};
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, CompileForCpu(loaded, how));
  std::vector<Compiled> all;
  all.push_back(std::move(compiled));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, NewSession(std::move(all), how, nullptr));
  return Train(*session, loaded, steps);
}

}  // namespace snug::core
