// Runs a training from beginning to end: batches, steps, evaluations, checkpoints, all of it reported to an observer.
// The result of a run depends on its Training options, the data and the seed, and not on when it is looked at.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "engine/train/data/loader.h"
#include "engine/train/evaluator.h"
#include "engine/train/judgement/training_judge.h"
#include "engine/train/progress.h"
#include "engine/train/step_feed.h"

namespace snug::proto {
class Network;
class Training;
}  // namespace snug::proto

namespace snug::core {
class SourceMap;

struct TrainingData {
  std::shared_ptr<const Dataset> training, evaluation = nullptr;
  // The training part as it is to be judged, where `training` gives other samples at random in each epoch. Null: the
  // same.
  std::shared_ptr<const Dataset> training_judged = nullptr;
  std::vector<std::string> notes = {};  // what the user should know of them: how many there are, what was left out
  // What was learnt from the training samples and belongs to the parameters from then on: metadata for checkpoints.
  std::map<std::string, std::string> learnt = {};
  bool lacks_labels = false;             // the data are for predictions alone, all of them in `training`
  bool evaluation_lacks_labels = false;  // so is `evaluation`
};

struct TrainerOptions {
  CompileOptions compile;  // batch, precision, threads, memory; the trainer sets `training`
  SessionOptions session;  // engine, watchdog, checks; the seed is the training's
  // On CUDA, the next batch goes to the device while a step runs, and a step is reported while the next one runs. This
  // takes more memory (SessionOptions::upload_ahead) where there is some left.
  bool upload_ahead = true;
  // Whether Resume comes next. How many checkpoints there are for an average is for its caller to look at then.
  bool goes_on = false;
  // Evaluations also tell what was taken for what, where the network scores classes (EvaluationReport::judgement), and
  // have the metrics that follow from that.
  bool judges_classes = false;
};

class Trainer {
 public:
  // Reports one step after it; `rate` is the learning rate that it used.
  struct StepReport {
    int64_t step = 0, steps = 0;  // how many steps are done, and how many there are
    int64_t epoch = 0;            // counts from 0
    double rate = 0;
    int64_t begin_ns = 0, end_ns = 0;  // as MonotonicNanoseconds gives them
    // When each phase of the last micro-batch began. What was uploaded ahead was fed while the run before was under
    // way.
    int64_t feed_ns = 0, run_ns = 0, fetch_ns = 0;
    // For how long the step waited for its batch, because the readers were not through with it. What is uploaded ahead
    // is waited for beside a run: this counts where the run was over first, as a whole, which is the most it can be.
    int64_t waited_ns = 0;
    Metrics metrics;  // means over the micro-batches
    // An evaluation is due next, if there are data for it. Until it runs, the outputs of this step's program are there.
    bool evaluates = false;

    double waited_seconds() const { return static_cast<double>(waited_ns) * 1e-9; }
    double seconds() const { return static_cast<double>(end_ns - begin_ns) * 1e-9; }
  };
  struct EvaluationReport {
    int64_t step = 0;  // how many steps were done before
    // Behind the network's own metrics come those that judging them gives (TrainingJudge).
    Evaluator::Report evaluation;
    Progress::Verdict verdict;  // of evaluations in Run
    // What was taken for what, without samples; nothing where classes are not judged.
    std::optional<Judgement> judgement = {};
    std::string not_judged = {};  // why not, where the network scores classes and they were to be judged
  };

  // Each of them may be left empty.
  struct Callbacks {
    // Where batches are uploaded ahead (session().upload_bytes() > 0) the next step may be running by now. Looking at
    // Variables here waits for it, and shows what it has made of them.
    std::function<absl::Status(const StepReport& report)> step;
    std::function<absl::Status(const EvaluationReport& report)> evaluation;
    std::function<absl::Status(int64_t step)> checkpoint;  // called when it is time for a checkpoint
    std::function<bool()> stop;                            // asked before each step; true stops here, after a
                                                           // checkpoint
    // The learning rate of a step, by how many steps were done before, in place of the optimizer's and its schedule's.
    std::function<double(int64_t step)> rate;
    // Where a loss is not finite, the run ends after this, as one that is stopped: nothing was changed by that step. If
    // this is empty the run fails, with the node that made such a number. Of a network that makes several updates in
    // turn, those before the one of that loss were made: then there is no checkpoint, and the error names the update.
    std::function<void()> not_finite;
  };

  // The network, its source map and the ops must outlive this.
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const proto::Network& network, const SourceMap& locations,
                                                         const OpRegistry& registry, const proto::Training& training,
                                                         TrainingData data, const TrainerOptions& options);
  ~Trainer();

  // Runs steps until all are done or `stop` returns true, and evaluates at the end. A step that fails, for instance by
  // a loss that is not finite, has changed nothing, so the state before it becomes a checkpoint too; unless it made one
  // of several updates.
  absl::Status Run(const Callbacks& callbacks);

  // The step is what a checkpoint keeps in addition to the session's Variables. Resume sets it, as if so many steps had
  // been run.
  int64_t step() const { return step_; }
  // Where the data in use began: with the first batch of `epoch`, after `step` steps. It is the beginning of all unless
  // the training went on with other data, or with batches of another size.
  struct DataBegin {
    // Data that were in use before: after how many steps they began, and how many steps an epoch of them had; 0: that
    // is not known.
    struct Earlier {
      int64_t step = 0, steps_per_epoch = 0;
    };
    int64_t step = 0, epoch = 0;
    std::vector<Earlier> earlier = {};  // ascending, all of them before `step`
  };
  absl::Status Resume(int64_t step) { return Resume(step, DataBegin()); }
  absl::Status Resume(int64_t step, const DataBegin& data);
  const DataBegin& data_begin() const { return data_begin_; }
  // The number of the batch that the next step takes, counted through all epochs.
  int64_t next_batch() const { return BatchOf(step_); }
  // How many epochs were begun so far, those included that are done.
  int64_t epochs_begun() const { return (next_batch() + steps_per_epoch() - 1) / steps_per_epoch(); }
  // The learning rate of the next step. A training whose length is said in epochs goes through its schedule by epochs:
  // where these have other numbers of steps than before, it goes on from the place that its epoch has in all of them.
  double next_rate() const;

  // What the evaluations of Run have said, which a checkpoint keeps too, and ResumeProgress sets.
  const Progress& progress() const { return *progress_; }
  absl::Status ResumeProgress(const std::map<std::string, std::string>& metadata) {
    return progress_->Restore(metadata);
  }
  // The metrics of evaluations, or, without data for these, those of steps.
  std::vector<KnownMetric> metrics() const;
  void BeginProgressAnew(bool best_counts) { progress_->BeginAnew(best_counts); }
  // Whether nothing is left to do: all steps, or as many as `training.best.patience` lets it do.
  bool finished() const { return step_ >= steps_ || progress_->ended(); }

  // Whether a training that nobody interrupts writes a checkpoint of that step.
  bool writes_checkpoint(int64_t step) const {
    return step == steps_ || (step == step_ && finished()) || (step > 0 && IsDue(checkpoint_every_, step));
  }
  // The steps of the newest `count` of those up to `end`, ascending; fewer if there are no more.
  std::vector<int64_t> newest_checkpoints(int64_t count, int64_t end) const;

  // Fails with FailedPrecondition where there are no data for it.
  absl::StatusOr<EvaluationReport> Evaluate();
  // What evaluations run with; null where there are no data for it.
  const Evaluator* evaluator() const { return evaluator_.get(); }
  // What they judge beside the network's metrics; nothing unless TrainerOptions::judges_classes.
  const TrainingJudge& judge() const { return judge_; }

  int64_t steps() const { return steps_; }
  int64_t steps_per_epoch() const { return loader_->batches_per_epoch(); }
  int64_t samples() const { return loader_->samples(); }                          // to train on
  int64_t batch() const { return session_->compiled().batch * micro_batches(); }  // samples in a step
  int64_t micro_batches() const { return options_.compile.micro_batches.count; }  // how many a step has
  Session& session() { return *session_; }
  const Session& session() const { return *session_; }
  int64_t staging_bytes() const;  // the bytes of the batches that are read ahead

 private:
  Trainer(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
          const proto::Training& training, TrainingData data, TrainerOptions options);
  absl::Status Start();
  void FindLength();
  absl::Status StartSession();
  absl::StatusOr<std::vector<Compiled>> CompileEvaluation(const Compiled& trained, bool of_averages);
  absl::Status CheckAverage() const;
  LoaderOptions Loading() const;
  int64_t EvaluatedBatches() const;  // at most so many of the evaluator's; 0: all
  int64_t BatchOf(int64_t step) const { return data_begin_.epoch * steps_per_epoch() + step - data_begin_.step; }
  bool IsDue(const std::optional<int64_t>& every, int64_t step) const {
    return every.has_value() ? *every > 0 && step % *every == 0 : EndsEpoch(step);
  }
  // The batch that follows `step` steps if all epochs so far had as many steps as those of the data in use. Where it is
  // not known how many an earlier one had, `step` itself.
  int64_t BatchAsOfNow(int64_t step) const;
  bool EndsEpoch(int64_t step) const;
  double ScheduleFactor() const;
  // Calls `meanwhile` while the device runs the first micro-batch.
  absl::StatusOr<StepReport> Step(const Callbacks& callbacks, const std::function<void()>& meanwhile);
  absl::Status RunMicroBatches(const std::function<void()>& meanwhile, StepReport* report);
  absl::Status RunMicroBatch(int64_t part, const std::function<void()>& meanwhile, StepReport* report);
  absl::StatusOr<int> UpdatesMade();
  absl::Status NotFinite(int64_t part);
  absl::Status EvaluateInto(const Callbacks& callbacks);

  const proto::Network& network_;
  const SourceMap& locations_;
  const OpRegistry& registry_;
  const std::unique_ptr<const proto::Training> training_;
  const TrainingData data_;
  TrainerOptions options_;

  int64_t step_ = 0, steps_ = 0;
  bool names_not_finite_ = true;  // where a loss is not finite; or it only ends the run, and `diverged_` says so
  bool diverged_ = false;
  bool half_updated_ = false;  // whether the step whose loss was not finite had made the first of its updates
  std::optional<int64_t> evaluate_every_, checkpoint_every_;  // steps; 0: never; nothing: at the end of an epoch
  DataBegin data_begin_;
  double base_rate_ = 0;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<Loader> loader_;
  // Program 0 trains. Where a step has several micro-batches, program 1 runs all but the last. The other programs
  // evaluate.
  std::unique_ptr<Session> session_;
  std::unique_ptr<Feeder> feeder_;
  std::unique_ptr<StepFeed> step_feed_;
  std::unique_ptr<Evaluator> evaluator_;  // null when there is nothing to evaluate with
  TrainingJudge judge_;
};

}  // namespace snug::core
