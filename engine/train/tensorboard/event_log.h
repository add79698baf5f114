// What a training measures, as event files for TensorBoard: numbers of steps and evaluations, how the parameters are
// distributed, the network's graph, and the memory that was planned.
//
//   SNUG_ASSIGN_OR_RETURN(const auto log, EventLog::Open("runs/mlp/tensorboard", trainer, network));
//   SNUG_RETURN_IF_ERROR(log->Step(report));
//
// A training that goes on begins a new file, which tells TensorBoard that it is done with what it read of later steps:
// these are done again.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/tensorboard/record_file.h"
#include "engine/train/trainer.h"

namespace snug::core::tensorboard {

class Wire;

// Gradients that stay until the end of each step, because CompileOptions::parameter_gradients asks for it.
struct KeptGradient {
  std::string parameter, output;  // by which names they are fetched
  int64_t bytes = 0;
};
std::vector<KeptGradient> KeptGradients(const Compiled& compiled);

class EventLog {
 public:
  // Makes the folder, and in it a file whose name comes after those of all event files that are there. The trainer must
  // be at the step that it goes on from, and outlive this.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const std::string& folder, Trainer& trainer,
                                                        const proto::Network& network);

  // <metric>/training, rate/learning_rate, rate/samples_per_second and rate/waited_for_data, a share of the time. Where
  // an evaluation is due also parameters/<name>, and gradients/<name> of those that the trainer's program keeps
  // (CompileOptions::parameter_gradients).
  absl::Status Step(const Trainer::StepReport& report);
  absl::Status Evaluation(const Trainer::EvaluationReport& report);  // <metric>/evaluation

  const std::string& path() const { return path_; }  // of the file

 private:
  EventLog(std::string path, std::unique_ptr<RecordFile> file, Trainer& trainer)
      : path_(std::move(path)), file_(std::move(file)), trainer_(trainer) {}
  absl::Status Begin(const proto::Network& network);
  absl::Status AddHistograms(Wire* summary);

  const std::string path_;
  const std::unique_ptr<RecordFile> file_;
  Trainer& trainer_;
};

}  // namespace snug::core::tensorboard
