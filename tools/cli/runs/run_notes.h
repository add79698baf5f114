// What `snug train` leaves for those who look at the run, beside metrics and checkpoints: run.json (runs::RunRecord),
// the memory plan of its step, as a page and as a picture, and what its last evaluation took for what
// (runs::ConfusionRecord).
#pragma once

#include <absl/status/status.h>

#include <string>

#include "engine/compile/pipeline.h"
#include "engine/train/run_folder.h"
#include "engine/train/trainer.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/run_flags.h"
#include "tools/cli/flags/training_options.h"
#include "tools/runs/confusion_record.h"
#include "tools/runs/run_record.h"

namespace snug::core::cli {

// Of the options: those that were given, and not at their default, by the names of their flags.
runs::RunRecord DescribeRun(const Trainer& trainer, const TrainingOptions& given, const RunFlags& run,
                            const CompileFlags& compile, const MemoryFlags& memory, const std::string& init_from,
                            const RunFolder& folder);

// Keeps run.json true: it says that the training runs from here on, and how it ended. Where nobody says that it did, it
// failed.
class RunNotes {
 public:
  // Writes the record and the plan, and takes away what an evaluation after the trainer's step has left, which is yet
  // to come. None of them is worth a training: what cannot be written is a warning.
  RunNotes(const RunFolder& folder, runs::RunRecord record, const Trainer& trainer, const MemoryOptions& memory);
  ~RunNotes();
  RunNotes(const RunNotes&) = delete;
  RunNotes& operator=(const RunNotes&) = delete;

  void Evaluated(const runs::ConfusionRecord& confusion);

  // `why` it was stopped, where there is more to say of that than that somebody asked for it. Where it cannot be
  // written, what readers see instead is said.
  void Ended(const absl::Status& status, bool finished, const std::string& why = "");

 private:
  const RunFolder folder_;
  runs::RunRecord record_;
  bool ended_ = false;
};

}  // namespace snug::core::cli
