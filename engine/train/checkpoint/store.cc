#include "engine/train/checkpoint/store.h"

#include <absl/algorithm/container.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>
#include <optional>

#include "engine/base/status.h"
#include "engine/train/checkpoint/average.h"
#include "engine/train/checkpoint/digest.h"

namespace snug::core::checkpoint {
namespace {

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kSuffix = ".safetensors";
constexpr absl::string_view kTemporary = ".tmp";
constexpr absl::string_view kReserved = "snug.";
constexpr absl::string_view kBestName = "best.safetensors";
constexpr absl::string_view kAverageName = "average.safetensors";

std::string FileName(int64_t step) { return absl::StrFormat("%s%09d%s", kPrefix, step, kSuffix); }

// Returns the step in a name, if it is exactly a name that FileName gives.
std::optional<int64_t> StepOf(const std::string& name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::ConsumeSuffix(&digits, kSuffix)) return std::nullopt;
  if (!absl::SimpleAtoi(digits, &step) || step < 0 || FileName(step) != name) return std::nullopt;
  return step;
}

absl::Status VerifyCheckpoint(FileSystem& files, const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(files, path));
  return file.VerifyDigest(/*required=*/true);
}

}  // namespace

std::string CheckpointStore::PathOf(int64_t step) const { return absl::StrCat(directory_, "/", FileName(step)); }

absl::StatusOr<std::vector<int64_t>> CheckpointStore::Steps() const {
  SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_->List(directory_));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    if (const std::optional<int64_t> step = StepOf(name)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

CheckpointStore::Content CheckpointStore::ContentOf(const std::vector<TensorBytes>& tensors) {
  return {.digest = [&tensors](const Metadata& metadata) { return DigestOf(tensors, metadata); },
          .write = [&tensors](const Metadata& metadata,
                              WritableFile& file) { return WriteSafetensors(tensors, metadata, file); }};
}

absl::Status CheckpointStore::Write(const std::string& path, const Content& content, const Metadata& metadata) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_->Create(path));
  SNUG_RETURN_IF_ERROR(content.write(metadata, *file));
  SNUG_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

std::string CheckpointStore::BestPath() const { return absl::StrCat(directory_, "/", kBestName); }
std::string CheckpointStore::AveragePath() const { return absl::StrCat(directory_, "/", kAverageName); }

absl::StatusOr<CheckpointStore::Saved> CheckpointStore::Save(int64_t step, const std::vector<TensorBytes>& tensors,
                                                             const Metadata& metadata) {
  SNUG_ASSIGN_OR_RETURN(Saved saved, SaveAs(PathOf(step), step, ContentOf(tensors), metadata));
  RemoveOld(step, &saved.warnings);
  return saved;
}

absl::StatusOr<CheckpointStore::Saved> CheckpointStore::SaveBest(int64_t step, const std::vector<TensorBytes>& tensors,
                                                                 const Metadata& metadata) {
  return SaveAs(BestPath(), step, ContentOf(tensors), metadata);
}

absl::StatusOr<CheckpointStore::Saved> CheckpointStore::SaveAverage(
    const std::vector<int64_t>& steps, const std::function<bool(const SafetensorsFile&, const std::string&)>& wanted) {
  std::vector<SafetensorsFile> files;
  for (const int64_t step : steps) {
    SNUG_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(*files_, PathOf(step)));
    SNUG_RETURN_IF_ERROR(file.VerifyDigest(/*required=*/true));
    files.push_back(std::move(file));
  }
  SNUG_ASSIGN_OR_RETURN(const AverageOf average, AverageOf::Make(std::move(files), wanted));
  const auto make = [&average](const TensorEntry& tensor, int64_t offset, absl::Span<std::byte> bytes) {
    return average.Read(tensor, offset, bytes);
  };
  const Content content{
      .digest = [&](const Metadata& metadata) { return DigestOf(average.tensors(), make, metadata); },
      .write = [&](const Metadata& metadata,
                   WritableFile& file) { return WriteSafetensors(average.tensors(), make, metadata, file); }};
  Metadata metadata;
  for (const auto& [key, value] : average.newest().metadata()) {
    if (!absl::StartsWith(key, kReserved)) metadata[key] = value;
  }
  metadata[std::string(kAveragedKey)] = absl::StrJoin(steps, ",");
  return SaveAs(AveragePath(), steps.back(), content, metadata);
}

absl::StatusOr<CheckpointStore::Saved> CheckpointStore::SaveAs(const std::string& path, int64_t step,
                                                               const Content& content, const Metadata& metadata) {
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("step: expected at least 0, found ", step));
  if (options_.keep_last < 1) {
    return absl::InvalidArgumentError(absl::StrCat("keep_last: expected at least 1, found ", options_.keep_last));
  }
  Metadata all = metadata;
  for (const auto& [key, value] : metadata) {
    if (!absl::StartsWith(key, kReserved)) continue;
    return absl::InvalidArgumentError(absl::StrCat("metadata \"", key, "\": keys \"", kReserved, "*\" are reserved"));
  }
  all[std::string(kStepKey)] = absl::StrCat(step);
  SNUG_ASSIGN_OR_RETURN(const std::string digest, content.digest(all));
  all[std::string(kDigestKey)] = digest;

  Saved saved{.path = path};
  const std::string temporary = absl::StrCat(saved.path, kTemporary);
  SNUG_RETURN_IF_ERROR(files_->MakeDirectory(directory_));
  RemoveLeftovers(&saved.warnings);
  if (path == PathOf(step)) RemoveAverage(&saved.warnings);
  absl::Status status = Write(temporary, content, all);
  if (status.ok()) status = files_->Rename(temporary, saved.path);
  if (!status.ok()) {
    // This gives a full disk its bytes back. If even that fails, the next Save tries again.
    files_->Remove(temporary).IgnoreError();
    return Annotate(status, absl::StrCat("checkpoint of step ", step));
  }
  status = files_->SyncDirectory(directory_);
  if (!status.ok()) return Annotate(status, absl::StrCat("checkpoint of step ", step));
  return saved;
}

std::vector<std::string> CheckpointStore::Tidy(int64_t step) {
  std::vector<std::string> warnings;
  RemoveLeftovers(&warnings);
  RemoveOld(step, &warnings);
  return warnings;
}

void CheckpointStore::RemoveLeftovers(std::vector<std::string>* warnings) {
  const absl::StatusOr<std::vector<std::string>> names = files_->List(directory_);
  if (!names.ok()) return warnings->push_back(std::string(names.status().message()));
  for (const std::string& name : *names) {
    absl::string_view stem = name;
    if (!absl::ConsumeSuffix(&stem, kTemporary)) continue;
    if (stem != kBestName && stem != kAverageName && !StepOf(std::string(stem)).has_value()) continue;
    const absl::Status removed = files_->Remove(absl::StrCat(directory_, "/", name));
    if (!removed.ok()) warnings->push_back(std::string(removed.message()));
  }
}

// It is of checkpoints before the one that is to come, and goes first: whenever a program is killed, an average that is
// there is that of the newest.
void CheckpointStore::RemoveAverage(std::vector<std::string>* warnings) {
  const absl::StatusOr<std::vector<std::string>> names = files_->List(directory_);
  if (!names.ok()) return warnings->push_back(std::string(names.status().message()));
  if (!absl::c_linear_search(*names, kAverageName)) return;
  const absl::Status removed = files_->Remove(AveragePath());
  warnings->push_back(removed.ok()
                          ? absl::StrCat(AveragePath(), ": removed, because it was the mean of older checkpoints")
                          : std::string(removed.message()));
}

// Removes old checkpoints up to `step`, which was saved just now. Later ones belong to another run of training, so they
// stay.
void CheckpointStore::RemoveOld(int64_t step, std::vector<std::string>* warnings) {
  const absl::StatusOr<std::vector<int64_t>> steps = Steps();
  if (!steps.ok()) return warnings->push_back(std::string(steps.status().message()));
  const auto counts = [this](int64_t one) { return counts_ == nullptr || counts_(one); };
  std::vector<int64_t> past;  // the newest first
  int64_t counting = 0;
  for (auto it = steps->rbegin(); it != steps->rend(); ++it) {
    if (*it > step) continue;
    past.push_back(*it);
    counting += counts(*it) ? 1 : 0;
  }
  int64_t places = std::min<int64_t>(counting, options_.keep_last);  // for those that count
  int64_t free_places = options_.keep_last - places;                 // for the others
  for (const int64_t one : past) {
    if ((counts(one) ? places : free_places)-- > 0 || one == step) continue;
    const absl::Status removed = files_->Remove(PathOf(one));
    if (!removed.ok()) warnings->push_back(std::string(removed.message()));
  }
}

absl::StatusOr<CheckpointStore::Found> CheckpointStore::Newest() const {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, Steps());
  Found found;
  for (auto it = steps.rbegin(); it != steps.rend(); ++it) {
    const absl::Status status = VerifyCheckpoint(*files_, PathOf(*it));
    if (absl::IsPermissionDenied(status)) return status;
    if (status.ok()) {
      found.step = *it;
      found.path = PathOf(*it);
      return found;
    }
    found.warnings.push_back(absl::StrCat("passed over: ", status.message()));
  }
  std::string message = absl::StrCat(directory_, ": no complete checkpoint");
  for (const std::string& warning : found.warnings) absl::StrAppend(&message, "\n  ", warning);
  return absl::NotFoundError(message);
}

}  // namespace snug::core::checkpoint
