#include "tools/cli/checkpoints.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/printable.h"
#include "engine/train/checkpoint/json_reader.h"
#include "engine/train/checkpoint/resume.h"
#include "proto/train.pb.h"
#include "tools/cli/runs/data_course.h"

namespace snug::core::cli {
namespace {

// Keys in the metadata.
constexpr const char* kChanges = "changes";
constexpr const char* kBatch = "batch";

// Advice where a training cannot go on.
constexpr const char* kBeginAnother = "begin with its weights: --init-from, and another --output";

absl::StatusOr<std::vector<OptionChange>> ChangesIn(const checkpoint::Metadata& metadata) {
  const auto found = metadata.find(kChanges);
  if (found == metadata.end()) return std::vector<OptionChange>();
  checkpoint::JsonReader json(found->second);
  absl::StatusOr<std::vector<OptionChange>> changes = ReadChanges(json);
  if (changes.ok()) return changes;
  return Annotate(changes.status(), absl::StrCat("metadata \"", kChanges, "\""));
}

}  // namespace

Checkpoints::Checkpoints(const std::string& directory, const proto::Training& training, std::FILE* out)
    : directory_(directory),
      store_(&files_, directory, {.keep_last = static_cast<int>(training.checkpoint().keep())}),
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

void Checkpoints::Keep(const checkpoint::Metadata& learnt, KeptOptions options, std::set<std::string> may_change) {
  learnt_ = learnt;
  options_ = std::move(options);
  may_change_ = std::move(may_change);
}

absl::Status Checkpoints::TakeDirectory() {
  SNUG_RETURN_IF_ERROR(files_.MakeDirectory(directory_));
  return lock_.Take(directory_);
}

absl::Status Checkpoints::Begin(Trainer& trainer) {
  trainer_ = &trainer;
  if (options_.has_value()) options_->SetBatch(trainer.batch());
  // What is averaged must not depend on interruptions, so their checkpoints may displace none of the others.
  if (averaged_ > 0) store_.CountOnly([&trainer](int64_t step) { return trainer.writes_checkpoint(step); });
  if (!found_.has_value()) return absl::OkStatus();
  const checkpoint::ResumeOptions conditions{.other_rounding = true,
                                             .not_compared = {kBatch},  // it is one of the options
                                             .what = "--resume: ",
                                             .advice = absl::StrCat("give it the same, or ", kBeginAnother)};
  SNUG_ASSIGN_OR_RETURN(const checkpoint::Resumed resumed,
                        checkpoint::CompareConditions(trainer.session(), files_, found_->path, conditions));
  Warn(resumed.differences);
  // Before the tensors: an option says more to whoever gave it than the tensors that are kept because of it.
  SNUG_RETURN_IF_ERROR(FindChanges());
  SNUG_RETURN_IF_ERROR(
      ExplainTensors(checkpoint::Resume(trainer.session(), files_, found_->path, conditions).status()));
  SayWhatDoesNotDecay();
  absl::StatusOr<Trainer::DataBegin> data =
      DataBeginOf(metadata_, trainer, found_->step, begins_epoch_, Changed("data"));
  if (!data.ok()) return Annotate(data.status(), found_->path);
  SNUG_RETURN_IF_ERROR(trainer.Resume(found_->step, *data));
  SNUG_RETURN_IF_ERROR(Annotate(trainer.ResumeProgress(metadata_), found_->path));
  const std::string anew = BeginProgressAnew();
  SNUG_RETURN_IF_ERROR(CheckAverage());
  SNUG_RETURN_IF_ERROR(SayWhatIsBest(trainer.progress()));
  // So many steps have used as many batches, whoever ran them: a checkpoint of libsnug says nothing about data.
  const int64_t epoch = trainer.steps_per_epoch(), batch = trainer.next_batch();
  absl::FPrintF(out_, "resumed from %s: goes on with batch %d of epoch %d\n", found_->path, batch % epoch + 1,
                batch / epoch + 1);
  SayWhatChanged();
  absl::FPrintF(out_, "%s", anew);
  // Where something has changed, the checkpoint of this very step says so too, if the training ends before another.
  if (changed_.empty()) saved_ = found_->step;
  path_ = found_->path;
  if (trainer.finished() && !changed_.empty()) return Save(found_->step);  // no step comes that would
  return absl::OkStatus();
}

absl::Status Checkpoints::FindChanges() {
  absl::StatusOr<std::vector<OptionChange>> before = ChangesIn(metadata_);
  if (!before.ok()) return Annotate(before.status(), found_->path);
  changes_ = *std::move(before);
  changes_before_ = changes_.size();
  absl::StatusOr<std::optional<KeptOptions>> kept = KeptOptions::From(metadata_);
  if (!kept.ok()) return Annotate(kept.status(), found_->path);
  if (!options_.has_value()) return absl::OkStatus();
  if (!kept->has_value()) {
    // The size of a step is what all checkpoints say.
    kept->emplace(*options_);
    const auto batch = metadata_.find(kBatch);
    if (batch != metadata_.end()) (*kept)->SetBatch(batch->second);
    std::set<std::string> unknown = may_change_;
    unknown.erase(kBatch);
    const std::string what = unknown.empty() ? "whether they were the same"
                                             : absl::StrCat("what is others in ", absl::StrJoin(unknown, ", "));
    absl::FPrintF(out_, "the checkpoint does not say with which options it was made: %s is not known\n", what);
    if (!unknown.empty()) {
      changed_ = std::move(unknown);
      begins_epoch_ = other_evaluation_ = Changed("data");
    }
  } else if (may_change_.contains("data") && options_->HasEvaluation() && !(*kept)->HasEvaluation() &&
             trainer_->progress().WasKept(metadata_)) {
    absl::FPrintF(out_, "the checkpoint does not say with which data it was evaluated: they are taken as others\n");
    changed_.insert("data");
    other_evaluation_ = true;
  }
  std::vector<OptionChange> refused;
  for (OptionChange& one : (*kept)->ChangesTo(*options_, found_->step)) {
    const std::string name = NameToResumeWith(one.name);
    if (!name.empty() && !may_change_.contains(name)) {
      refused.push_back(std::move(one));
      continue;
    }
    changed_.insert(name);
    begins_epoch_ = begins_epoch_ || ChangesOrder(one.name);
    other_evaluation_ =
        other_evaluation_ || ChangesEvaluation(one.name) || (one.name == kBatch && options_->EvaluatesSomeBatches());
    changes_.push_back(std::move(one));
  }
  return refused.empty() ? absl::OkStatus() : Refuse(refused);
}

absl::Status Checkpoints::Refuse(const std::vector<OptionChange>& refused) const {
  std::set<std::string> names = may_change_;
  for (const OptionChange& one : refused) names.insert(NameToResumeWith(one.name));
  const auto tell = [&](std::string* out, const OptionChange& one) {
    const std::string files = options_->FilesOf(one.name);
    absl::StrAppend(out, one.name, " ", one.before, ", this run has ", one.after, files.empty() ? "" : ", of ", files);
  };
  constexpr size_t kShown = 8;  // another network has many other layers
  const auto last = refused.begin() + static_cast<int64_t>(std::min(kShown, refused.size()));
  const std::string others =
      last == refused.end() ? "" : absl::StrCat("; ", refused.end() - last, " more are different");
  return absl::InvalidArgumentError(
      absl::StrCat("--resume: ", found_->path, ": the checkpoint was made with ",
                   absl::StrJoin(refused.begin(), last, "; it was made with ", tell), others,
                   "; give it the same, or let it change: --resume-with=", absl::StrJoin(names, ",")));
}

// Some options decide which tensors a training keeps beside its parameters. Where such a one changes, there is nothing
// to go on with.
absl::Status Checkpoints::ExplainTensors(const absl::Status& status) const {
  std::vector<std::string> why;
  for (size_t i = changes_before_; i < changes_.size(); ++i) {
    const OptionChange& one = changes_[i];
    if (!ChangesTensors(one)) continue;
    why.push_back(absl::StrCat(one.name, " ", one.before, ", this run has ", one.after));
  }
  if (!absl::IsInvalidArgument(status) || why.empty()) return status;
  return absl::Status(status.code(),
                      absl::StrCat("--resume-with=optimizer: ", found_->path, ": the checkpoint was made with ",
                                   absl::StrJoin(why, "; it was made with "),
                                   ": that takes other tensors than it keeps; give it the same, or ", kBeginAnother,
                                   "\n", status.message()));
}

// What evaluations of other data have said must not be compared with what they say from now on. Returns what there is
// to say about it.
std::string Checkpoints::BeginProgressAnew() {
  if (!Changed("data") && !other_evaluation_) return "";
  const Progress& progress = trainer_->progress();
  const bool followed = progress.keeps_best() || progress.follows_plateau();
  const std::optional<double> best = progress.best_value();
  const std::string was_best = best.has_value() ? absl::StrFormat("; %s %.6g after step %d does not count any more",
                                                                  progress.best_metric(), *best, progress.best_step())
                                                : "";
  trainer_->BeginProgressAnew(/*best_counts=*/!other_evaluation_);
  if (!followed) return "";
  if (!other_evaluation_) return "the data are others: evaluations that are no better are counted anew\n";
  std::string said =
      absl::StrCat("the data to evaluate with are others: what is best is looked for anew", was_best, "\n");
  if (progress.keeps_best() && std::filesystem::exists(best_path())) {
    absl::StrAppend(&said, "the state of the first evaluation takes the place of ", best_path(),
                    ": move that away if it is to stay\n");
  }
  return said;
}

void Checkpoints::SayWhatChanged() const {
  for (size_t i = changes_before_; i < changes_.size(); ++i) {
    absl::FPrintF(out_, "changed after step %d: %s\n", changes_[i].step, Printable(changes_[i].ToString()));
  }
  for (const std::string& name : may_change_) {
    if (!Changed(name)) absl::FPrintF(out_, "--resume-with=%s: nothing of it has changed\n", name);
  }
  if (begins_epoch_) {
    absl::FPrintF(out_, "the samples come in the order of epoch %d from its beginning on\n",
                  trainer_->data_begin().epoch + 1);
  }
  const bool other_rate = Changed("learning-rate") || Changed("schedule") || Changed("") || begins_epoch_;
  if (!trainer_->finished() && other_rate) {
    absl::FPrintF(out_, "the learning rate of the next step is %.4g\n", trainer_->next_rate());
  }
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
  KeepDataBegin(*trainer_, &metadata);
  if (options_.has_value()) metadata[KeptOptions::kKey] = options_->ToJson();
  if (!changes_.empty()) {
    Json json;
    WriteChanges(changes_, json);
    metadata[kChanges] = json.text();
  }
  return metadata;
}

// Where the average is to be of checkpoints that an earlier part of the training should have left, it must not turn
// out after all steps that they are not there. When a training ends early is not known, so that is looked at then.
absl::Status Checkpoints::CheckAverage() const {
  if (averaged_ == 0 || trainer_->progress().ended()) return absl::OkStatus();
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> there, store_.Steps());
  const std::vector<int64_t> wanted =
      trainer_->newest_checkpoints(averaged_, std::max(trainer_->step(), trainer_->steps()));
  if (static_cast<int64_t>(wanted.size()) < averaged_) {
    return absl::InvalidArgumentError(absl::StrCat("training.checkpoint.average: expected at most ", wanted.size(),
                                                   ", as many checkpoints as this training writes in ",
                                                   std::max(trainer_->step(), trainer_->steps()), " steps; found ",
                                                   averaged_));
  }
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
