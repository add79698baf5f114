#include "engine/train/trainer.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/non_finite.h"
#include "engine/train/training_options.h"
#include "engine/train/within_step.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

// To find that a run is over takes less; the rest of one that goes on mostly takes more.
constexpr int64_t kAtOnceNs = 50'000;

}  // namespace

Trainer::Trainer(const proto::Network& network, const SourceMap& locations, const OpRegistry& registry,
                 const proto::Training& training, TrainingData data, TrainerOptions options)
    : network_(network),
      locations_(locations),
      registry_(registry),
      training_(std::make_unique<proto::Training>(training)),
      data_(std::move(data)),
      options_(std::move(options)) {}

Trainer::~Trainer() = default;

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const proto::Network& network, const SourceMap& locations,
                                                         const OpRegistry& registry, const proto::Training& training,
                                                         TrainingData data, const TrainerOptions& options) {
  std::unique_ptr<Trainer> trainer(new Trainer(network, locations, registry, training, std::move(data), options));
  SNUG_RETURN_IF_ERROR(trainer->Start());
  return trainer;
}

absl::Status Trainer::Start() {
  if (network_.objective_size() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(locations_.file(), ": nothing to train for: the network has no `objective`"));
  }
  SNUG_RETURN_IF_ERROR(CheckTraining(*training_));
  SNUG_RETURN_IF_ERROR(StartSession());
  const size_t training_programs = micro_batches() > 1 ? 2 : 1;
  LoaderOptions loading = Loading();
  if (session_->programs() > training_programs) {
    SNUG_ASSIGN_OR_RETURN(evaluator_,
                          Evaluator::Create(network_, *session_, training_programs, data_.evaluation, loading));
  }
  std::vector<KnownMetric> metrics;
  if (evaluator_ != nullptr) {
    const Program& program = evaluator_->first_program();
    metrics = KnownMetrics(network_, program);
    judge_.Plan(program, evaluator_->SamplesIn(EvaluatedBatches()), metrics);
    metrics.insert(metrics.end(), judge_.metrics().begin(), judge_.metrics().end());
  }
  progress_ = std::make_unique<Progress>(*training_, std::move(metrics));
  SNUG_RETURN_IF_ERROR(progress_->Check(absl::StrJoin(judge_.missing(), "; ")));
  loading.batch = batch();
  if (const proto::Text& text = training_->data().text(); text.has_rows() && text.rows() != loading.batch) {
    return absl::InvalidArgumentError(absl::StrCat("text: rows: expected the samples of a batch, ", loading.batch,
                                                   ", as each row of a batch goes on by itself; found ", text.rows()));
  }
  loading.image.crop_padding = training_->data().crop();
  loading.image.flip = training_->data().flip();
  SNUG_ASSIGN_OR_RETURN(loader_, Loader::Create(data_.training, loading));
  SNUG_ASSIGN_OR_RETURN(Feeder feeder, Feeder::Create(session_->program(0), data_.training->fields()));
  feeder_ = std::make_unique<Feeder>(std::move(feeder));
  step_feed_ = std::make_unique<StepFeed>(*session_, *loader_, *feeder_, micro_batches());
  if (training_->has_evaluate_every()) evaluate_every_ = training_->evaluate_every();
  if (training_->checkpoint().has_every()) checkpoint_every_ = training_->checkpoint().every();
  FindLength();
  return options_.goes_on ? absl::OkStatus() : CheckAverage();
}

void Trainer::FindLength() {
  constexpr int64_t kEpochs = 10;
  const int64_t batches = steps_per_epoch() * (training_->has_epochs() ? training_->epochs() : kEpochs);
  // Batches are counted from where the data in use would have begun if they had been those of all steps.
  steps_ = training_->has_steps() ? training_->steps() : std::max<int64_t>(0, batches - BatchOf(0));
}

// Fewer checkpoints than the average is to be of would give a file that is not what was asked for.
absl::Status Trainer::CheckAverage() const {
  const int64_t asked = training_->checkpoint().average();
  const int64_t every = checkpoint_every_.value_or(steps_per_epoch());
  const int64_t most = every > 0 ? (steps_ + every - 1) / every : 1;
  if (asked <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("training.checkpoint.average: expected at most ", most,
                   ", as many checkpoints as this training writes in ", steps_, " steps",
                   every > 0 ? absl::StrCat(" (one every ", every, ": checkpoint.every)") : "", ", found ", asked));
}

std::vector<int64_t> Trainer::newest_checkpoints(int64_t count, int64_t end) const {
  std::vector<int64_t> steps;
  for (int64_t step = end; step > 0 && static_cast<int64_t>(steps.size()) < count; --step) {
    if (writes_checkpoint(step)) steps.push_back(step);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// The options that training and evaluation share.
LoaderOptions Trainer::Loading() const {
  const proto::Data& data = training_->data();
  LoaderOptions options{.seed = static_cast<uint64_t>(training_->seed()),
                        .shuffle = data.shuffle(),
                        .by_length = data.json_lines().by_length(),
                        .workers = static_cast<int>(data.readers()),
                        .buffers = static_cast<int>(data.readers()) + 2};
  options.image.mean.assign(data.mean().begin(), data.mean().end());
  options.image.deviation.assign(data.deviation().begin(), data.deviation().end());
  return options;
}

absl::Status Trainer::StartSession() {
  options_.compile.training = true;
  options_.compile.micro_batches = {.count = training_->accumulate(), .last = true};
  if (micro_batches() > 1 && !options_.compile.memory.plan_file.empty()) {
    return absl::InvalidArgumentError(
        "accumulate excludes a saved plan, which is for one program: training in micro-batches has two");
  }
  std::vector<Compiled> compiled;
  SNUG_ASSIGN_OR_RETURN(Compiled trained, Compile(network_, locations_, registry_, options_.compile));
  const proto::Optimizer& optimizer =
      options_.compile.optimizer != nullptr ? *options_.compile.optimizer : network_.optimizer();
  base_rate_ = optimizer.learning_rate();
  compiled.push_back(std::move(trained));
  if (micro_batches() > 1) {
    CompileOptions options = options_.compile;
    options.micro_batches.last = false;
    SNUG_ASSIGN_OR_RETURN(compiled.emplace_back(), Compile(network_, locations_, registry_, options));
  }
  if (data_.evaluation != nullptr) {
    SNUG_ASSIGN_OR_RETURN(std::vector<Compiled> evaluating,
                          CompileEvaluation(compiled[0], optimizer.average().evaluate()));
    for (Compiled& one : evaluating) compiled.push_back(std::move(one));
  }
  SessionOptions session = options_.session;
  session.seed = static_cast<uint64_t>(training_->seed());
  session.upload_ahead = options_.upload_ahead;
  const int64_t limit = options_.compile.memory.memory_limit;
  session.memory_limit = limit;
  SNUG_ASSIGN_OR_RETURN(session_, Session::Create(std::move(compiled), session));
  // Each program keeps the limit, but together they may not: one may have the most Variables, the other the longest
  // step.
  const int64_t bytes = session_->state_bytes() + session_->step_bytes();
  if (limit == 0 || bytes <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the programs of this training take ", bytes, " bytes together, the limit is ", limit));
}

absl::StatusOr<std::vector<Compiled>> Trainer::CompileEvaluation(const Compiled& trained, bool of_averages) {
  CompileOptions options = options_.compile;
  options.memory.plan_file.clear();                      // the saved plan is for the training step
  if (of_averages) options.stochastic_rounding = false;  // averages are float32
  if (options_.judges_classes) {
    SNUG_ASSIGN_OR_RETURN(judge_, TrainingJudge::Create(network_));
  }
  for (std::string& name : judge_.Fetched()) options.fetch.push_back(std::move(name));
  SNUG_ASSIGN_OR_RETURN(
      std::vector<Compiled> evaluating,
      Evaluator::CompilePrograms(network_, locations_, registry_, options, trained.batch, data_.evaluation->size()));
  for (Compiled& one : evaluating) {
    if (of_averages) SNUG_RETURN_IF_ERROR(Evaluator::ReadAverages(trained, &one));
  }
  return evaluating;
}

std::vector<KnownMetric> Trainer::metrics() const {
  return evaluator_ == nullptr ? KnownMetrics(network_, session_->program(0)) : progress_->metrics();
}

int64_t Trainer::staging_bytes() const {
  return loader_->staging_bytes() + (evaluator_ == nullptr ? 0 : evaluator_->staging_bytes());
}

absl::Status Trainer::Resume(int64_t step, const DataBegin& data) {
  data_begin_ = data;
  step_feed_->BeginAt(BatchOf(0));
  SNUG_RETURN_IF_ERROR(step_feed_->Seek(step));
  step_ = step;
  FindLength();
  return absl::OkStatus();
}

int64_t Trainer::EvaluatedBatches() const { return training_->evaluate_batches() * micro_batches(); }

double Trainer::next_rate() const { return base_rate_ * ScheduleFactor() * progress_->rate_factor(); }

double Trainer::ScheduleFactor() const {
  const proto::Schedule& schedule = training_->schedule();
  const bool by_epochs = !training_->has_steps() && data_begin_.step > 0;
  if (!by_epochs || step_ < schedule.warm_up()) return LearningRateFactor(schedule, step_, steps_);
  // As if all epochs had as many steps as those from now on; so the warm-up had others, too.
  const int64_t step = BatchOf(step_);
  const int64_t warm_up = BatchAsOfNow(schedule.warm_up());
  proto::Schedule scaled = schedule;
  scaled.set_warm_up(std::min(step, warm_up));
  return LearningRateFactor(scaled, step, BatchOf(steps_));
}

int64_t Trainer::BatchAsOfNow(int64_t step) const {
  if (step >= data_begin_.step) return BatchOf(step);
  // The epochs that were begun before each of the earlier data, a part of one counting as a whole.
  int64_t epochs = 0;
  for (size_t i = 0; i < data_begin_.earlier.size(); ++i) {
    const DataBegin::Earlier& one = data_begin_.earlier[i];
    const int64_t end = i + 1 < data_begin_.earlier.size() ? data_begin_.earlier[i + 1].step : data_begin_.step;
    if (one.steps_per_epoch == 0) break;
    if (step < end) {
      const double part = static_cast<double>(step - one.step) / static_cast<double>(one.steps_per_epoch);
      return std::lround((static_cast<double>(epochs) + part) * static_cast<double>(steps_per_epoch()));
    }
    epochs += (end - one.step + one.steps_per_epoch - 1) / one.steps_per_epoch;
  }
  return step;
}

bool Trainer::EndsEpoch(int64_t step) const {
  if (step > data_begin_.step) return BatchOf(step) % steps_per_epoch() == 0;
  const DataBegin::Earlier* in_use = nullptr;  // when that step was made
  for (const DataBegin::Earlier& one : data_begin_.earlier) {
    if (one.step < step) in_use = &one;
  }
  return in_use != nullptr && in_use->steps_per_epoch > 0 && (step - in_use->step) % in_use->steps_per_epoch == 0;
}

absl::StatusOr<Trainer::StepReport> Trainer::Step(const Callbacks& callbacks, const std::function<void()>& meanwhile) {
  StepReport report{.steps = steps_, .epoch = next_batch() / steps_per_epoch(), .begin_ns = MonotonicNanoseconds()};
  report.rate = callbacks.rate ? callbacks.rate(step_) : next_rate();
  SNUG_RETURN_IF_ERROR(session_->SetLearningRate(report.rate));
  const absl::Status status = RunMicroBatches(meanwhile, &report);
  if (!status.ok()) {
    ClearSums(*session_);
    return status;
  }
  report.step = ++step_;
  report.end_ns = MonotonicNanoseconds();
  return report;
}

absl::Status Trainer::RunMicroBatches(const std::function<void()>& meanwhile, StepReport* report) {
  for (int64_t part = 0; part < micro_batches(); ++part) SNUG_RETURN_IF_ERROR(RunMicroBatch(part, meanwhile, report));
  return absl::OkStatus();
}

absl::Status Trainer::RunMicroBatch(int64_t part, const std::function<void()>& meanwhile, StepReport* report) {
  const int64_t parts = micro_batches();
  const size_t program = step_feed_->ProgramOf(part);
  report->feed_ns = MonotonicNanoseconds();
  SNUG_RETURN_IF_ERROR(SetDraw(*session_, part, parts));
  SNUG_RETURN_IF_ERROR(step_feed_->Feed(step_, part));
  report->run_ns = MonotonicNanoseconds();
  report->waited_ns += step_feed_->TakeWaitedNanoseconds();
  SNUG_RETURN_IF_ERROR(session_->Begin(program));
  if (part == 0) meanwhile();
  if (step_ + 1 < steps_ || part + 1 < parts) step_feed_->FeedAhead(step_, part);
  // The next run must wait until this one's loss is known: after a loss that is not finite nothing may change.
  const int64_t finish_ns = MonotonicNanoseconds();
  SNUG_RETURN_IF_ERROR(session_->Finish());
  report->fetch_ns = MonotonicNanoseconds();
  const int64_t waited_beside = step_feed_->TakeWaitedNanoseconds();
  if (report->fetch_ns - finish_ns < kAtOnceNs) report->waited_ns += waited_beside;
  SNUG_ASSIGN_OR_RETURN(const Metrics metrics, MetricsOf(network_, session_->program(program)));
  if (!std::isfinite(metrics[0].second)) return NotFinite(part);
  if (part == 0) report->metrics.resize(metrics.size());
  for (size_t i = 0; i < metrics.size(); ++i) {
    report->metrics[i].first = metrics[i].first;
    report->metrics[i].second += metrics[i].second / static_cast<double>(parts);
  }
  return absl::OkStatus();
}

// How many updates of a step were made before the first whose objectives are not finite.
absl::StatusOr<int> Trainer::UpdatesMade() {
  for (int k = 0; k < network_.update_size(); ++k) {
    for (const std::string& objective : network_.update(k).objective()) {
      SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, session_->Fetch(objective));
      for (const double value : values) {
        if (!std::isfinite(value)) return k;
      }
    }
  }
  return 0;
}

absl::Status Trainer::NotFinite(int64_t part) {
  SNUG_ASSIGN_OR_RETURN(const int made, UpdatesMade());
  half_updated_ = made > 0;
  if (half_updated_ && names_not_finite_) {
    return absl::InternalError(absl::StrCat(
        "step ", step_ + 1, ": the loss of update ", made + 1, " is not finite (",
        absl::StrJoin(network_.update(made).objective(), ", "), "), and ",
        made == 1 ? "the update before it was" : absl::StrCat("the ", made, " updates before it were"),
        " made already: the parameters are those of no whole step, and no checkpoint is written of them. Go on from "
        "the last one; a smaller learning rate or clip_norm may help."));
  }
  if (!names_not_finite_) {
    diverged_ = true;
    return absl::CancelledError("the loss is not finite");
  }
  const auto feed = [&](Program& program) { return step_feed_->FeedAgain(step_, part, program); };
  SNUG_ASSIGN_OR_RETURN(const std::string what,
                        DescribeNonFinite(network_, locations_, registry_, options_.compile, *session_, feed));
  return absl::InternalError(absl::StrCat(
      "step ", step_ + 1, ": the loss is not finite. ", what,
      "\nThe parameters are those of the step before. A smaller learning rate, clip_norm or a warm-up may help."));
}

absl::StatusOr<Trainer::EvaluationReport> Trainer::Evaluate() {
  if (evaluator_ == nullptr) return absl::FailedPreconditionError("there are no data to evaluate with");
  EvaluationReport report{.step = step_};
  TrainingJudge::Evaluated judged;
  SNUG_ASSIGN_OR_RETURN(report.evaluation, judge_.Run(*evaluator_, EvaluatedBatches(), &judged));
  for (auto& metric : judged.metrics) report.evaluation.metrics.push_back(std::move(metric));
  report.judgement = std::move(judged.judgement);
  report.not_judged = std::move(judged.not_judged);
  return report;
}

absl::Status Trainer::EvaluateInto(const Callbacks& callbacks) {
  if (evaluator_ == nullptr) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(EvaluationReport report, Evaluate());
  report.verdict = progress_->Evaluated(step_, report.evaluation.metrics);
  return callbacks.evaluation ? callbacks.evaluation(report) : absl::OkStatus();
}

namespace {

// A step has failed, but what the steps before it have reached is saved, unless that fails too.
absl::Status WithCheckpoint(const absl::Status& failure, const absl::Status& saved) {
  if (saved.ok()) return failure;
  return absl::Status(failure.code(),
                      absl::StrCat(failure.message(), "\nNor could a checkpoint be written: ", saved.message()));
}

}  // namespace

absl::Status Trainer::Run(const Callbacks& callbacks) {
  const auto checkpoint = [&] { return callbacks.checkpoint ? callbacks.checkpoint(step_) : absl::OkStatus(); };
  std::optional<StepReport> untold;  // the last step's report, which is told late
  absl::Status told;
  const auto tell = [&] {
    if (untold.has_value() && callbacks.step) told.Update(callbacks.step(*untold));
    untold.reset();
  };
  const bool tells_later = session_->upload_bytes() > 0;
  names_not_finite_ = !callbacks.not_finite;
  diverged_ = half_updated_ = false;
  while (!finished()) {
    if (callbacks.stop && callbacks.stop()) {
      tell();
      return told.ok() ? checkpoint() : told;
    }
    absl::StatusOr<StepReport> report = Step(callbacks, tell);
    tell();  // a step that failed may not have begun
    SNUG_RETURN_IF_ERROR(told);
    if (diverged_) {
      callbacks.not_finite();
      return half_updated_ ? absl::OkStatus() : checkpoint();
    }
    if (!report.ok()) {
      const bool has_state = step_ > 0 && !session_->failed() && !half_updated_;
      return has_state ? WithCheckpoint(report.status(), checkpoint()) : report.status();
    }
    untold = *std::move(report);
    const bool last = step_ == steps_;
    const bool evaluates = last || IsDue(evaluate_every_, step_);
    untold->evaluates = evaluates;
    const bool saves = last || IsDue(checkpoint_every_, step_);
    if (!tells_later || evaluates || saves) tell();
    SNUG_RETURN_IF_ERROR(told);
    if (evaluates) SNUG_RETURN_IF_ERROR(EvaluateInto(callbacks));
    if (saves || finished()) SNUG_RETURN_IF_ERROR(checkpoint());
  }
  return absl::OkStatus();
}

}  // namespace snug::core
