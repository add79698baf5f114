// Runs a forward pass over a whole Dataset, and takes the means of its objectives and metrics or does whatever else
// with the outputs. The samples that fill no batch are run by a program of their own size, so that every sample counts
// once.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "engine/train/data/loader.h"
#include "engine/train/metrics.h"
#include "engine/train/step_feed.h"

namespace snug::proto {
class Network;
}

namespace snug::core {
class SourceMap;

// What else is done with the program of each batch.
struct EvaluationHooks {
  std::function<absl::Status(Program& program)> before_run = {};  // it is fed, and the run may write over that
  // `valid` of the batch's samples are real.
  std::function<absl::Status(Program& program, int64_t valid)> after_run = {};
};

class Evaluator {
 public:
  // Compiles the programs that an evaluation of so many samples needs: one for whole batches (by the saved plan, if the
  // options name one), and one for the samples that are left.
  static absl::StatusOr<std::vector<Compiled>> CompilePrograms(const proto::Network& network,
                                                               const SourceMap& locations, const OpRegistry& registry,
                                                               const CompileOptions& options, int64_t batch,
                                                               int64_t samples);

  // Makes a program of CompilePrograms read the moving averages of parameters (proto::Average) instead of these, in a
  // session whose first program keeps averages.
  static absl::Status ReadAverages(const Compiled& trained, Compiled* evaluating);

  // The session's programs from `first_program` on must be those of CompilePrograms. `loader` only says what happens to
  // images. The network and the session must outlive this.
  static absl::StatusOr<std::unique_ptr<Evaluator>> Create(const proto::Network& network, Session& session,
                                                           size_t first_program, std::shared_ptr<const Dataset> dataset,
                                                           LoaderOptions loader);

  struct Report {
    double seconds = 0;
    int64_t samples = 0;
    Metrics metrics;     // means over the samples, or over the rows that count
    Metrics objectives;  // the same of each objective by itself, by its name
  };
  // Runs at most `batches`, or all if that is 0.
  absl::StatusOr<Report> Run(int64_t batches, const EvaluationHooks& hooks = {});
  // The number of samples that Run() goes through.
  int64_t SamplesIn(int64_t batches) const;

  const Program& first_program() const { return session_.program(parts_.front().program); }
  // Returns the field of the data that an input takes, or null where there is no such input.
  const DataField* FieldOf(absl::string_view input) const;
  const Dataset& dataset() const { return *dataset_; }
  int64_t staging_bytes() const { return loader_->staging_bytes(); }

 private:
  struct Part {
    size_t program = 0;
    Feeder feeder;
  };

  Evaluator(const proto::Network& network, Session& session, std::shared_ptr<const Dataset> dataset)
      : network_(network), session_(session), dataset_(std::move(dataset)) {}
  const Part* PartFor(int64_t samples) const;

  const proto::Network& network_;
  Session& session_;
  const std::shared_ptr<const Dataset> dataset_;
  std::unique_ptr<Loader> loader_;
  std::vector<Part> parts_;
};

}  // namespace snug::core
