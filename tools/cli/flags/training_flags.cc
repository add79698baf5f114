#include "tools/cli/flags/training_flags.h"

#include <absl/strings/str_format.h>

#include "engine/base/status.h"
#include "engine/compile/defaults.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/init_from.h"
#include "proto/train.pb.h"
#include "tools/cli/flags/proto_flags.h"

namespace snug::core::cli {

void TrainingFlags::AddTrainingFile(Flags& flags) {
  flags.Add("training", &training_file, "a file with the `training { }` and `optimizer { }` to use");
}

void TrainingFlags::AddInit(Flags& flags) {
  flags.Add(
      "init-from", &init_from,
      "begin with the parameters of a file, as far as they fit: safetensors, PyTorch's torch.save (.pth, .pt), or the "
      "directory that `snug train` left");
  flags.Add("init-patterns", &init_patterns, "which of them: patterns of names, !x excludes; default: all");
}

// The help begins with the sections that users look for first. But the flags from messages are added last, because
// they skip names that are flags already.
void TrainingFlags::AddSections(Flags& flags, const std::function<void()>& more,
                                const std::set<std::string>& without_training,
                                const std::set<std::string>& without_optimizer) {
  for (const char* heading : {"training", "data", "optimizer", "how it computes", "memory"}) flags.Section(heading);
  flags.Section("how it computes");
  compile.batch_otherwise = "that of `training { }` in the model file, the file's own, or 32";
  compile.AddTo(flags);
  run.AddTo(flags);
  more();
  flags.Section("memory");
  memory.AddTo(flags);
  flags.Section("data");
  AddProtoFlags("data-", "data", options.training.mutable_data(), flags);
  flags.Section("training");
  options.implied_for_training = AddProtoFlags("", "training", &options.training, flags, without_training);
  flags.Section("optimizer");
  options.implied_for_optimizer = AddProtoFlags("", "optimizer", &options.optimizer, flags, without_optimizer);
}

absl::StatusOr<TrainingOptions> TrainingFlags::Settle(const LoadedNetwork& loaded) {
  SNUG_ASSIGN_OR_RETURN(TrainingOptions settled, CombineTrainingOptions(loaded, training_file, options));
  const proto::Training& training = settled.training;
  compile.batch = ChooseBatch(BatchFor::kTraining, compile.batch, loaded.network, training);
  if (compile.precision.empty()) compile.precision = training.precision();
  if (!compile.stochastic_rounding.has_value()) compile.stochastic_rounding = training.stochastic_rounding();
  return settled;
}

absl::StatusOr<TrainerOptions> TrainingFlags::ForTrainer(const TrainingOptions& given) const {
  TrainerOptions trainer;
  SNUG_ASSIGN_OR_RETURN(trainer.compile, compile.Options(memory.streams.count));
  SNUG_ASSIGN_OR_RETURN(trainer.compile.memory, memory.Options(given.files));
  SNUG_ASSIGN_OR_RETURN(trainer.session, run.Options(compile.threads > 0, &trainer.compile));
  trainer.compile.optimizer = &given.optimizer;
  trainer.compile.no_decay.emplace(given.training.no_decay().begin(), given.training.no_decay().end());
  trainer.compile.no_decay_places = given.no_decay_places;
  return trainer;
}

absl::Status TrainingFlags::Initialise(Session& session, std::FILE* out) const {
  if (init_from.empty()) {
    if (init_patterns.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError("--init-patterns: expected --init-from beside it, whose parameters it chooses");
  }
  checkpoint::PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const checkpoint::InitReport report,
                        checkpoint::InitFrom(session, files, init_from, init_patterns));
  absl::FPrintF(out, "%s\n", report.ToString());
  return absl::OkStatus();
}

}  // namespace snug::core::cli
