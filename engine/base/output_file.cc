#include "engine/base/output_file.h"

#include <absl/strings/str_cat.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

namespace snug {
namespace {

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& given) {
  struct stat found;
  std::string path = given;
  if (lstat(given.c_str(), &found) == 0 && S_ISLNK(found.st_mode)) {
    std::error_code failed;
    path = std::filesystem::weakly_canonical(given, failed).string();
    if (failed) return CannotWrite(given, failed.value());
  }
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected the name of a file, found a folder or a device of that name"));
  }
  // Nobody else who writes a file of that name has the same temporary one.
  std::random_device random;
  std::string temporary = absl::StrCat(path, ".tmp", absl::Hex(random(), absl::kZeroPad8));
  std::FILE* file = std::fopen(temporary.c_str(), "wbx");  // never through a link that somebody laid here
  if (file == nullptr) return CannotWrite(path, errno);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), file));
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  std::remove(temporary_.c_str());
}

void OutputFile::Write(absl::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
}

absl::Status OutputFile::Finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return absl::OkStatus();
  std::remove(temporary_.c_str());
  return CannotWrite(path_, error_);
}

}  // namespace snug
