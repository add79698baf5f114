// Trains on a device and on the CPU, so that the results can be compared.
#pragma once

#include <absl/status/statusor.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/cuda/cuda_device.h"
#include "engine/run/session/session.h"
#include "proto/text_loader.h"

namespace snug::core {

struct How {
  std::string strategy = "best";
  int streams = 1;
  bool graph = true;
  ExecutorKind engine = ExecutorKind::kReplay;
  bool keep_inputs = false;
  bool training = true;
  bool libraries = false;           // CUDA's kernels are those of its libraries, where these have some
  bool own_small_products = false;  // but for small products, which are our own, as they are by default
  std::vector<std::string> bound = {};
  int64_t batch = 4;
  bool ahead = false;  // inputs may be uploaded ahead
  DType precision = DType::kFloat32;
  Fallbacks::Report fallbacks = nullptr;
  bool strict_kernels = false;
  DynamicMemoryOptions dynamic = {};
  std::set<std::string> disabled_passes = {};

  std::string ToString() const;
};

CompileOptions OptionsOf(const How& how);  // for the CPU

struct Result {
  std::vector<double> losses;                // one for each step
  std::map<std::string, std::string> state;  // the bytes of each Variable that lasts
  bool operator==(const Result&) const = default;
};

absl::StatusOr<LoadedNetwork> LoadModel(const std::string& path);  // `path` begins at the root of the repository

// One compiles for the CPU's plain kernels, the other for CUDA's.
absl::StatusOr<Compiled> CompileForCpu(const LoadedNetwork& loaded, const How& how);
absl::StatusOr<Compiled> CompileForCuda(const LoadedNetwork& loaded, const How& how);

// The session is on the CPU if `device` is null.
absl::StatusOr<std::unique_ptr<Session>> NewSession(std::vector<Compiled> compiled, const How& how,
                                                    std::shared_ptr<const cuda::CudaDevice> device);

constexpr int kTrainingSteps = 3;  // the graph is recorded in the second

absl::StatusOr<double> LossOf(Session& session, const LoadedNetwork& loaded);
// Runs steps on seeded random data, which is fed anew each time.
absl::StatusOr<Result> Train(Session& session, const LoadedNetwork& loaded, int steps);
std::map<std::string, std::string> StateBytes(Session& session);

// Compiles and trains.
absl::StatusOr<Result> TrainOnCpu(const LoadedNetwork& loaded, int steps, int64_t batch = How().batch,
                                  DType precision = DType::kFloat32);

}  // namespace snug::core
