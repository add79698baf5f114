// Writes a training's checkpoints, and lets a run that ended early go on.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/compile/import/decay.h"
#include "engine/train/checkpoint/directory_lock.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/store.h"
#include "engine/train/option_change.h"
#include "engine/train/trainer.h"
#include "tools/cli/runs/kept_options.h"

namespace snug::core::cli {

class Checkpoints {
 public:
  Checkpoints(const std::string& directory, const proto::Training& training, std::FILE* out);

  // Looks for the checkpoint to go on from, which decides how the network is compiled.
  absl::Status Find(bool resume);

  DecayRule decay_rule() const { return decay_rule_; }
  // Of the checkpoint to go on from; nothing where a training begins.
  const checkpoint::Metadata& metadata() const { return metadata_; }
  // Every checkpoint from now on has these words too, and the options. Where the training goes on, options may be
  // others than they were if `may_change` has their names (NameToResumeWith).
  void Keep(const checkpoint::Metadata& learnt, KeptOptions options, std::set<std::string> may_change);

  // Makes the directory, and keeps others out of it.
  absl::Status TakeDirectory();
  // `trainer` must outlive this.
  absl::Status Begin(Trainer& trainer);
  // What was changed on the way, now and before.
  const std::vector<OptionChange>& changes() const { return changes_; }

  absl::Status Save(int64_t step);

  absl::Status SaveBest(int64_t step);

  // Must follow a training that has finished, if an average is wanted.
  absl::Status SaveAverage();
  // Those whose average was written; none: there is no average.
  const std::vector<int64_t>& averaged_steps() const { return averaged_steps_; }

  // Must follow a training that ended well: removes what the program that saved last could not, because it was killed.
  void Tidy();

  // Tells users after a failure which checkpoint holds the state that was reached.
  absl::Status SayWhatIsKept(const absl::Status& status) const;

  const std::string& path() const { return path_; }
  std::string best_path() const { return store_.BestPath(); }
  std::string average_path() const { return store_.AveragePath(); }

 private:
  checkpoint::Metadata MetadataNow() const;
  absl::Status FindChanges();
  absl::Status Refuse(const std::vector<OptionChange>& refused) const;
  absl::Status ExplainTensors(const absl::Status& status) const;
  std::string BeginProgressAnew();
  void SayWhatChanged() const;
  bool Changed(const std::string& name) const { return changed_.contains(name); }
  absl::Status CheckAverage() const;
  absl::Status LeaveOutOfAverage();
  absl::Status SayWhatIsBest(const Progress& progress);
  static void Warn(const std::vector<std::string>& warnings);

  void SayWhatDoesNotDecay() const;

  Trainer* trainer_ = nullptr;
  checkpoint::PosixFileSystem files_;
  const std::string directory_;
  checkpoint::DirectoryLock lock_;
  checkpoint::CheckpointStore store_;
  int64_t averaged_;                     // how many checkpoints are to be averaged; 0: none
  std::vector<int64_t> averaged_steps_;  // and those that were
  std::FILE* out_;
  std::optional<checkpoint::CheckpointStore::Found> found_;  // the checkpoint to go on from
  checkpoint::Metadata metadata_;                            // of that checkpoint
  checkpoint::Metadata learnt_;                              // of the data
  std::optional<KeptOptions> options_;
  std::set<std::string> may_change_, changed_;  // as --resume-with names them
  std::vector<OptionChange> changes_;
  size_t changes_before_ = 0;      // how many of them are not of this run
  bool begins_epoch_ = false;      // whether the samples come in another order from here on
  bool other_evaluation_ = false;  // whether evaluations are of other samples
  DecayRule decay_rule_ = DecayRule::kAll;
  int64_t saved_ = -1;
  std::string path_;
};

}  // namespace snug::core::cli
