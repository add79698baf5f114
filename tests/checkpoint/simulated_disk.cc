#include "tests/checkpoint/simulated_disk.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"

namespace snug::core::checkpoint {

class SimulatedFile final : public WritableFile, public ReadableFile {
 public:
  SimulatedFile(SimulatedDisk* disk, std::shared_ptr<SimulatedDisk::File> file) : disk_(disk), file_(std::move(file)) {}

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    const auto write = [&](size_t n) { file_->content.append(reinterpret_cast<const char*>(bytes.data()), n); };
    SNUG_RETURN_IF_ERROR(disk_->Call([&] { write(disk_->random_() % (bytes.size() + 1)); }));
    write(bytes.size());
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    SNUG_RETURN_IF_ERROR(disk_->Call());
    if (!disk_->ignore_file_syncs_) file_->synced = file_->content.size();
    return absl::OkStatus();
  }
  absl::Status Close() override { return disk_->Call(); }

  int64_t size_bytes() const override { return static_cast<int64_t>(file_->content.size()); }
  absl::Status Read(int64_t offset, absl::Span<std::byte> bytes) const override {
    if (offset + static_cast<int64_t>(bytes.size()) > size_bytes()) return absl::DataLossError("the file is shorter");
    if (!bytes.empty()) std::memcpy(bytes.data(), file_->content.data() + offset, bytes.size());
    return absl::OkStatus();
  }

 private:
  SimulatedDisk* disk_;
  std::shared_ptr<SimulatedDisk::File> file_;
};

void SimulatedDisk::FailAfter(int64_t calls, Fault fault, uint64_t seed) {
  countdown_ = calls;
  fault_ = fault;
  random_.seed(seed);
}

absl::Status SimulatedDisk::Call(const std::function<void()>& half) {
  if (dead_) return absl::AbortedError("the program has ended");
  ++calls_;
  if (countdown_ < 0 || countdown_-- > 0) return absl::OkStatus();
  if (half) half();
  if (fault_ == Fault::kError) return absl::ResourceExhaustedError("No space left on device");
  dead_ = true;
  if (fault_ == Fault::kPowerLoss) LosePower();
  return absl::AbortedError("the program has ended");
}

void SimulatedDisk::LosePower() {
  // Each name is what it is, or what it was when its directory was synced.
  std::set<std::string> names;
  for (const auto& [name, file] : current_) names.insert(name);
  for (const auto& [name, file] : durable_) names.insert(name);
  for (const std::string& name : names) {
    const Files& source = random_() % 2 == 0 ? current_ : durable_;
    const auto found = source.find(name);
    const std::shared_ptr<File> file = found == source.end() ? nullptr : found->second;
    if (file == nullptr) {
      current_.erase(name);
    } else {
      current_[name] = file;
    }
  }
  // Of a content's end that was not synced, any length is there, and blocks of zeros in it.
  for (const auto& [name, file] : current_) {
    const size_t unsynced = file->content.size() - file->synced;
    if (unsynced == 0) continue;
    if (random_() % 2 == 0) file->content.resize(file->synced + random_() % unsynced);
    for (size_t at = file->synced; at < file->content.size(); at += 16) {
      const size_t block = std::min<size_t>(16, file->content.size() - at);
      if (random_() % 4 == 0) file->content.replace(at, block, block, '\0');
    }
    file->synced = file->content.size();
  }
  durable_ = current_;
}

std::vector<std::string> SimulatedDisk::Paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : current_) paths.push_back(path);
  return paths;
}

absl::Status SimulatedDisk::MakeDirectory(const std::string& path) {
  SNUG_RETURN_IF_ERROR(Call());
  directories_.insert(path);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimulatedDisk::Create(const std::string& path) {
  const auto create = [&] { return current_[path] = std::make_shared<File>(); };
  SNUG_RETURN_IF_ERROR(Call([&] {
    if (fault_ != Fault::kError) create();
  }));
  return std::make_unique<SimulatedFile>(this, create());
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimulatedDisk::Open(const std::string& path) {
  SNUG_RETURN_IF_ERROR(Call());
  if (denied_.count(path) > 0) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot open"));
  const auto found = current_.find(path);
  if (found == current_.end()) return absl::NotFoundError(absl::StrCat(path, ": cannot open"));
  return std::make_unique<SimulatedFile>(this, found->second);
}

absl::Status SimulatedDisk::Rename(const std::string& from, const std::string& to) {
  const auto rename = [&] {
    current_[to] = current_.at(from);
    current_.erase(from);
  };
  SNUG_RETURN_IF_ERROR(Call([&] {
    if (fault_ != Fault::kError && random_() % 2 == 0) rename();
  }));
  rename();
  return absl::OkStatus();
}

absl::Status SimulatedDisk::Remove(const std::string& path) {
  SNUG_RETURN_IF_ERROR(Call([&] {
    if (fault_ != Fault::kError && random_() % 2 == 0) current_.erase(path);
  }));
  if (denied_.count(path) > 0) return absl::PermissionDeniedError(absl::StrCat(path, ": cannot remove"));
  if (current_.erase(path) == 0) return absl::NotFoundError(absl::StrCat(path, ": cannot remove"));
  return absl::OkStatus();
}

absl::Status SimulatedDisk::SyncDirectory(const std::string& path) {
  SNUG_RETURN_IF_ERROR(Call());
  if (ignore_directory_syncs_) return absl::OkStatus();
  const std::string prefix = path + "/";
  const auto inside = [&](const Files::value_type& entry) { return entry.first.rfind(prefix, 0) == 0; };
  std::erase_if(durable_, inside);
  std::copy_if(current_.begin(), current_.end(), std::inserter(durable_, durable_.end()), inside);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SimulatedDisk::List(const std::string& path) {
  SNUG_RETURN_IF_ERROR(Call());
  if (directories_.count(path) == 0) return absl::NotFoundError(absl::StrCat(path, ": cannot list the directory"));
  const std::string prefix = path + "/";
  std::vector<std::string> names;
  for (const auto& [name, file] : current_) {
    if (name.rfind(prefix, 0) == 0) names.push_back(name.substr(prefix.size()));
  }
  return names;
}

}  // namespace snug::core::checkpoint
