// What `eval` and `predict` share: a network without its backward pass, the parameters of a checkpoint, and data.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/run/session/session.h"
#include "engine/train/evaluator.h"
#include "proto/text_loader.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::proto {
class Data;
class Network;
}  // namespace snug::proto

namespace snug::core::checkpoint {
class PosixFileSystem;
class TensorSource;
}  // namespace snug::core::checkpoint

namespace snug::core::cli {

struct InferenceFlags {
  InferenceFlags();
  ~InferenceFlags();

  std::string checkpoint, part = "held-back";
  bool use_average = false;
  std::optional<int64_t> seed;
  int64_t batches = 0;
  bool may_lack_labels = false;  // no flag: of commands that judge nothing
  CompileFlags compile;
  MemoryFlags memory;
  RunFlags run;
  std::unique_ptr<proto::Data> data;

  void AddTo(Flags& flags);
};

struct Inference {
  LoadedNetwork loaded;
  std::string checkpoint;         // the path of the file
  std::vector<std::string> read;  // the files of the data, and of the weights
  std::string unlabelled;         // the file or folder of the data, where it has no labels; otherwise empty
  std::unique_ptr<Session> session;
  std::unique_ptr<Evaluator> evaluator;  // uses the two members above
};

// `fetch` names values that become outputs in addition to the network's own, or in their place where the data have no
// labels.
absl::StatusOr<std::unique_ptr<Inference>> PrepareInference(LoadedNetwork loaded, const InferenceFlags& flags,
                                                            const std::vector<std::string>& fetch);

// A checkpoint that parameters are to be taken from, for commands that do not train.
struct Weights {
  Weights();
  ~Weights();
  Weights(Weights&&) noexcept;

  std::string path;  // of the file
  std::unique_ptr<checkpoint::PosixFileSystem> files;
  std::unique_ptr<checkpoint::TensorSource> source;  // uses `files`
};

// `path` is a safetensors file, or a directory that holds checkpoints itself or in `checkpoints/`, of which the newest
// complete one is taken.
absl::StatusOr<Weights> OpenWeights(const std::string& path);

// Gives the network the number of classes that the training gave it (`snug train --classes-of-data`), and says so.
absl::Status SetTrainedClasses(const Weights& weights, proto::Network* network);

// With `averages`, parameters are their moving averages.
absl::Status LoadWeights(const Weights& weights, bool averages, Session& session);

}  // namespace snug::core::cli
