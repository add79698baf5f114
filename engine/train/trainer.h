// Training from beginning to end: batches in, steps, evaluations, checkpoints, and everything that happens told to an
// observer. What decides about a run is its Training options, the data and the seed; when it is looked at is not.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session.h"
#include "engine/train/data/loader.h"
#include "engine/train/evaluator.h"
#include "engine/train/feeder.h"
#include "engine/train/step_feed.h"

namespace snug {

namespace proto {
class Network;
class Training;
}  // namespace proto
class SourceMap;

struct TrainingData {
  std::shared_ptr<const Dataset> training, evaluation;
};

struct TrainerOptions {
  CompileOptions compile;  // batch, precision, threads, memory; `training` is set by the trainer
  SessionOptions session;  // engine, watchdog, checks; the seed is the training's
  // On CUDA: the next batch goes to the device while a step runs, and steps are told of while the next one does. Takes
  // memory (SessionOptions::upload_ahead) where there is some left.
  bool upload_ahead = true;
};

class Trainer {
 public:
  // Of one step, after it; `rate` is the learning rate it used.
  struct StepReport {
    int64_t step = 0, steps = 0;  // done, and in all
    int64_t epoch = 0;            // from 0
    double rate = 0;
    int64_t begin_ns = 0, end_ns = 0;  // of MonotonicNanoseconds
    // When each part of the last micro-batch began. What was uploaded ahead was fed while the one before ran.
    int64_t feed_ns = 0, run_ns = 0, fetch_ns = 0;
    Metrics metrics;  // means over the micro-batches

    double seconds() const { return static_cast<double>(end_ns - begin_ns) * 1e-9; }
  };
  struct EvaluationReport {
    int64_t step = 0;  // steps done before
    Evaluator::Report evaluation;
  };

  // All of them may be left out.
  struct Callbacks {
    // Where batches are uploaded ahead (session().upload_bytes() > 0) the next step may run already: who looks at
    // Variables here waits for it, and sees what it has made of them.
    std::function<absl::Status(const StepReport& report)> step;
    std::function<absl::Status(const EvaluationReport& report)> evaluation;
    std::function<absl::Status(int64_t step)> checkpoint;  // it is time for one
    std::function<bool()> stop;                            // asked before each step: stop here, after a checkpoint
  };

  // The network, its source map and the ops must outlive it.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const proto::Network& network, const SourceMap& locations,
                                                         const OpRegistry& registry, const proto::Training& training,
                                                         TrainingData data, const TrainerOptions& options);
  ~Trainer();

  // Steps until all are done, or `stop` says so; evaluates at the end. A step that fails, as by a loss that is not
  // finite, has changed nothing: the state before it is a checkpoint, too.
  absl::Status Run(const Callbacks& callbacks);

  // What a checkpoint keeps beside the session's Variables; as if that many steps had been run.
  int64_t step() const { return step_; }
  absl::Status Resume(int64_t step);

  // FailedPrecondition where there are no data for it.
  absl::StatusOr<EvaluationReport> Evaluate();

  int64_t steps() const { return steps_; }
  int64_t steps_per_epoch() const { return loader_->batches_per_epoch(); }
  int64_t batch() const { return session_->compiled().batch * micro_batches(); }  // samples in a step
  int64_t micro_batches() const { return options_.compile.micro_batches.count; }  // in which they go through
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  int64_t staging_bytes() const;  // of the batches that are read ahead

 private:
  Trainer(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
          const proto::Training& training, TrainingData data, TrainerOptions options);
  absl::Status Start();
  absl::Status StartSession();
  LoaderOptions Loading() const;
  // Calls `meanwhile` while the device runs the first micro-batch.
  absl::StatusOr<StepReport> Step(const std::function<void()>& meanwhile);
  absl::Status RunMicroBatches(const std::function<void()>& meanwhile, StepReport* report);
  absl::Status RunMicroBatch(int64_t part, const std::function<void()>& meanwhile, StepReport* report);
  absl::Status NotFinite(int64_t part);
  absl::Status EvaluateInto(const Callbacks& callbacks);

  const proto::Network& network_;
  const SourceMap& locations_;
  const OpRegistry& registry_;
  const std::unique_ptr<const proto::Training> training_;
  const TrainingData data_;
  TrainerOptions options_;

  int64_t step_ = 0, steps_ = 0;
  int64_t evaluate_every_ = 0, checkpoint_every_ = 0;
  double base_rate_ = 0;
  std::unique_ptr<Loader> loader_;
  // Program 0 trains; where a step has several micro-batches, program 1 runs all but the last. The others evaluate.
  std::unique_ptr<Session> session_;
  std::unique_ptr<Feeder> feeder_;
  std::unique_ptr<StepFeed> step_feed_;
  std::unique_ptr<Evaluator> evaluator_;  // null: there is nothing to evaluate with
};

}  // namespace snug
