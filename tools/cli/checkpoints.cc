#include "tools/cli/checkpoints.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "engine/base/status.h"
#include "engine/train/checkpoint/resume.h"
#include "proto/train.pb.h"

namespace snug::core::cli {

Checkpoints::Checkpoints(const std::string& directory, const proto::Training& training, std::FILE* out)
    : store_(&files_, directory, {.keep_last = static_cast<int>(training.checkpoint().keep())}),
      averaged_(training.checkpoint().average()),
      out_(out) {}

absl::Status Checkpoints::Find(bool resume) {
  absl::StatusOr<checkpoint::CheckpointStore::Found> found = store_.Newest();
  if (absl::IsNotFound(found.status())) {
    return resume ? absl::NotFoundError(absl::StrCat("--resume: there is nothing to go on with (",
                                                     found.status().message(), "); without --resume it begins"))
                  : absl::OkStatus();
  }
  if (!found.ok()) return found.status();
  if (!resume) {
    return absl::InvalidArgumentError(
        absl::StrCat(found->path, ": a training has been here before: go on with --resume, or give another --output"));
  }
  Warn(found->warnings);
  SNUG_ASSIGN_OR_RETURN(const checkpoint::SafetensorsFile file, checkpoint::SafetensorsFile::Open(files_, found->path));
  SNUG_ASSIGN_OR_RETURN(decay_rule_, checkpoint::DecayRuleOf(file));
  metadata_ = file.header().metadata;
  found_ = *std::move(found);
  return absl::OkStatus();
}

absl::Status Checkpoints::Begin(Trainer& trainer) {
  trainer_ = &trainer;
  // What is averaged must not depend on interruptions, so their checkpoints may displace none of the others.
  if (averaged_ > 0) store_.CountOnly([&trainer](int64_t step) { return trainer.writes_checkpoint(step); });
  if (!found_.has_value()) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(
      const checkpoint::Resumed resumed,
      checkpoint::Resume(trainer.session(), files_, found_->path,
                         {.other_rounding = true,
                          .what = "--resume: ",
                          .advice = "give it the same, or begin with its weights: --init-from, and another --output"}));
  Warn(resumed.differences);
  SayWhatDoesNotDecay();
  SNUG_RETURN_IF_ERROR(trainer.Resume(found_->step));
  SNUG_RETURN_IF_ERROR(Annotate(trainer.ResumeProgress(metadata_), found_->path));
  SNUG_RETURN_IF_ERROR(CheckAverage());
  SNUG_RETURN_IF_ERROR(SayWhatIsBest(trainer.progress()));
  // So many steps have used as many batches, whoever ran them: a checkpoint of libsnug says nothing about data.
  const int64_t epoch = trainer.steps_per_epoch();
  absl::FPrintF(out_, "resumed from %s: goes on with batch %d of epoch %d\n", found_->path, found_->step % epoch + 1,
                found_->step / epoch + 1);
  saved_ = found_->step;
  path_ = found_->path;
  return absl::OkStatus();
}

absl::Status Checkpoints::Save(int64_t step) {
  if (step == saved_) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const checkpoint::CheckpointStore::Saved saved,
                        checkpoint::SaveTraining(store_, step, trainer_->session(), MetadataNow()));
  Warn(saved.warnings);
  saved_ = step;
  path_ = saved.path;
  return absl::OkStatus();
}

absl::Status Checkpoints::SaveBest(int64_t step) {
  SNUG_ASSIGN_OR_RETURN(const checkpoint::CheckpointStore::Saved saved,
                        checkpoint::SaveBest(store_, step, trainer_->session(), MetadataNow()));
  Warn(saved.warnings);
  return absl::OkStatus();
}

absl::Status Checkpoints::SaveAverage() {
  averaged_steps_ = trainer_->newest_checkpoints(averaged_, trainer_->step());
  if (averaged_steps_.empty()) return absl::OkStatus();
  if (trainer_->progress().ended()) SNUG_RETURN_IF_ERROR(LeaveOutOfAverage());
  const absl::StatusOr<checkpoint::CheckpointStore::Saved> saved = checkpoint::SaveAverage(store_, averaged_steps_);
  if (!saved.ok()) {
    return Annotate(saved.status(), "the training is done, but the average of its checkpoints cannot be made");
  }
  Warn(saved->warnings);
  return absl::OkStatus();
}

void Checkpoints::Tidy() {
  if (saved_ >= 0) Warn(store_.Tidy(saved_));
}

absl::Status Checkpoints::SayWhatIsKept(const absl::Status& status) const {
  if (status.ok() || saved_ < 0 || saved_ != trainer_->step()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "\nThe state after step ", saved_, " is in ", path_,
                   "\n--resume goes on from it, and meets the same step again; to go back further, remove the newest "
                   "checkpoints before"));
}

checkpoint::Metadata Checkpoints::MetadataNow() const {
  checkpoint::Metadata metadata = trainer_->progress().ToMetadata();
  metadata.insert(learnt_.begin(), learnt_.end());
  return metadata;
}

// Where the average is to be of checkpoints that an earlier part of the training should have left, it must not turn
// out after all steps that they are not there. When a training ends early is not known, so that is looked at then.
absl::Status Checkpoints::CheckAverage() const {
  if (averaged_ == 0 || trainer_->progress().ended()) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> there, store_.Steps());
  const std::vector<int64_t> wanted =
      trainer_->newest_checkpoints(averaged_, std::max(trainer_->step(), trainer_->steps()));
  for (auto it = wanted.rbegin(); it != wanted.rend(); ++it) {
    if (*it > found_->step || absl::c_linear_search(there, *it)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "training.checkpoint.average: it is to be of the checkpoints after steps ", absl::StrJoin(wanted, ", "),
        ", and ", store_.PathOf(*it),
        " is not there: an earlier part of this training kept fewer, or wrote them after other steps, or it was "
        "removed; give at most ",
        it - wanted.rbegin()));
  }
  return absl::OkStatus();
}

absl::Status Checkpoints::LeaveOutOfAverage() {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> there, store_.Steps());
  std::vector<int64_t> missing;
  const auto is_there = [&](int64_t step) { return absl::c_linear_search(there, step); };
  absl::c_remove_copy_if(averaged_steps_, std::back_inserter(missing), is_there);
  std::erase_if(averaged_steps_, [&](int64_t step) { return !is_there(step); });
  if (!missing.empty()) {
    Warn({absl::StrCat("the training ended early: the average is of ", averaged_steps_.size(),
                       " checkpoints, because those after steps ", absl::StrJoin(missing, ", "), " are not there")});
  }
  return absl::OkStatus();
}

// The best state may be one that is yet to come, where a training was killed before the next checkpoint, or goes on
// from an older one. It is found again then, or another one that takes its place.
absl::Status Checkpoints::SayWhatIsBest(const Progress& progress) {
  if (!progress.keeps_best() || !std::filesystem::exists(best_path())) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const checkpoint::SafetensorsFile best, checkpoint::SafetensorsFile::Open(files_, best_path()));
  Progress kept = progress;
  SNUG_RETURN_IF_ERROR(Annotate(kept.Restore(best.header().metadata), best_path()));
  if (kept.best_value() == progress.best_value() || kept.best_step() <= found_->step) return absl::OkStatus();
  Warn({absl::StrCat(best_path(), " is the state after step ", kept.best_step(), ", and this goes on from step ",
                     found_->step, ": the next best takes its place, so move it away if it is to stay")});
  return absl::OkStatus();
}

void Checkpoints::Warn(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings) std::fprintf(stderr, "warning: %s\n", warning.c_str());
}

void Checkpoints::SayWhatDoesNotDecay() const {
  const std::vector<std::string>& differs = trainer_->session().compiled().decay_differs;
  if (decay_rule_ == DecayRule::kAll || differs.empty()) return;
  Warn({absl::StrCat(absl::StrJoin(differs, ", "),
                     ": this training began when biases of dense layers had no weight decay, and goes on so; a new one "
                     "lets them decay, unless no_decay or decay_mult says otherwise")});
}

}  // namespace snug::core::cli
