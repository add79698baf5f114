#include "engine/train/evaluator.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <chrono>

#include "engine/base/status.h"
#include "engine/compile/differentiate/differentiate.h"
#include "proto/network.pb.h"

namespace snug::core {

absl::StatusOr<std::vector<Compiled>> Evaluator::CompilePrograms(const proto::Network& network,
                                                                 const SourceMap& locations, const OpRegistry& registry,
                                                                 const CompileOptions& options, int64_t batch,
                                                                 int64_t samples) {
  std::vector<Compiled> programs;
  for (const int64_t size : {samples >= batch ? batch : 0, samples % batch}) {
    if (size == 0) continue;
    CompileOptions evaluating = options;
    evaluating.training = false;
    evaluating.micro_batches = {};
    evaluating.batch = size;
    // Where only some values are asked for, there are no means that would need these.
    if (evaluating.only.empty()) {
      for (const std::string& labels : ComputedLabels(network)) evaluating.fetch.push_back(labels);
    }
    if (size != batch) evaluating.memory.plan_file.clear();  // a saved plan is for one batch size only
    SNUG_ASSIGN_OR_RETURN(Compiled one, Compile(network, locations, registry, evaluating));
    programs.push_back(std::move(one));
  }
  return programs;
}

absl::Status Evaluator::ReadAverages(const Compiled& trained, Compiled* evaluating) {
  for (const Variable& average : trained.graph.variables()) {
    if (average.role != VariableRole::kSlot || !absl::EndsWith(average.name, kAverageSuffix)) continue;
    for (Compiled* program : {evaluating, evaluating->derivation.get()}) {
      if (program == nullptr) continue;
      const VariableId parameter = program->graph.FindVariable(trained.graph.variable(average.slot_of).name);
      if (parameter.valid()) program->graph.variable(parameter).shared_as = average.name;
    }
  }
  for (const Variable& variable : evaluating->graph.variables()) {
    const VariableId known = trained.graph.FindVariable(variable.name);
    if (!variable.shared_as.empty() || !known.valid() || trained.graph.variable(known).type == variable.type) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("average-evaluate: expected parameters that all have averages, as these are float32 beside "
                     "stochastic-rounding; "
                     "\"",
                     variable.name, "\" is not trained and has none"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Evaluator>> Evaluator::Create(const proto::Network& network, Session& session,
                                                             size_t first_program,
                                                             std::shared_ptr<const Dataset> dataset,
                                                             LoaderOptions loader) {
  std::unique_ptr<Evaluator> evaluator(new Evaluator(network, session, dataset));
  for (size_t i = first_program; i < session.programs(); ++i) {
    SNUG_ASSIGN_OR_RETURN(Feeder feeder, Feeder::Create(session.program(i), dataset->fields()));
    evaluator->parts_.push_back({i, std::move(feeder)});
    loader.batch = std::max(loader.batch, session.program(i).compiled().batch);
  }
  loader.shuffle = false;
  loader.last_batch = LoaderOptions::LastBatch::kPad;
  SNUG_ASSIGN_OR_RETURN(evaluator->loader_, Loader::Create(std::move(dataset), loader));
  return evaluator;
}

const Evaluator::Part* Evaluator::PartFor(int64_t samples) const {
  for (const Part& part : parts_) {
    if (session_.program(part.program).compiled().batch == samples) return &part;
  }
  return nullptr;
}

int64_t Evaluator::SamplesIn(int64_t batches) const {
  if (batches <= 0 || batches >= loader_->batches_per_epoch()) return dataset_->size();
  return batches * loader_->fields().front().type.shape[0];
}

const DataField* Evaluator::FieldOf(absl::string_view input) const {
  const std::optional<size_t> field = parts_.front().feeder.FieldOf(first_program(), input);
  return field.has_value() ? &dataset_->fields()[*field] : nullptr;
}

absl::StatusOr<Evaluator::Report> Evaluator::Run(int64_t batches, const EvaluationHooks& hooks) {
  const auto begin = std::chrono::steady_clock::now();
  Report report;
  MeanMetrics means(network_, session_.program(parts_.front().program));
  SNUG_RETURN_IF_ERROR(loader_->Seek({}));
  const int64_t all = loader_->batches_per_epoch();
  for (int64_t b = 0; b < (batches > 0 ? std::min(batches, all) : all); ++b) {
    SNUG_ASSIGN_OR_RETURN(const Batch* const batch, loader_->Next());
    const Part* const part = PartFor(batch->valid);
    SNUG_CHECK(part != nullptr);
    Program& program = session_.program(part->program);
    SNUG_RETURN_IF_ERROR(part->feeder.Feed(batch->data, program));
    SNUG_RETURN_IF_ERROR(means.BeforeRun(program));
    if (hooks.before_run) SNUG_RETURN_IF_ERROR(hooks.before_run(program));
    SNUG_RETURN_IF_ERROR(session_.Run(part->program));
    SNUG_RETURN_IF_ERROR(means.AfterRun(program));
    report.samples += batch->valid;
    if (hooks.after_run) SNUG_RETURN_IF_ERROR(hooks.after_run(program, batch->valid));
  }
  report.metrics = means.Get();
  report.objectives = means.GetObjectives();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

}  // namespace snug::core
