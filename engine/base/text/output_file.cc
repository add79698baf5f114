#include "engine/base/text/output_file.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>
#include <vector>

namespace snug::core {
namespace {

constexpr absl::string_view kTemporary = ".tmp";
constexpr size_t kDigits = 8;  // the number of random digits behind it
constexpr mode_t kMode = 0666;

absl::Status CannotWrite(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(path, ": cannot be written: ", std::strerror(error)));
}

// The kernel's name of an open file, by which one without a name gets one.
std::string NameOfOpen(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

// Opens a file without a name in the folder of `path`. Null: there are none there, or it could get no name later.
std::FILE* OpenNameless(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kMode);
  if (descriptor < 0) return nullptr;
  std::FILE* const file = access(NameOfOpen(descriptor).c_str(), F_OK) == 0 ? fdopen(descriptor, "wb") : nullptr;
  if (file == nullptr) close(descriptor);
  return file;
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
  // The random digits keep two programs that write the same file apart.
  std::random_device random;
  std::string temporary = absl::StrCat(path, kTemporary, absl::Hex(random(), absl::kZeroPad8));
  // A name that cannot be given is told now, not at the end.
  if (lstat(temporary.c_str(), &found) == 0) return CannotWrite(path, EEXIST);
  if (errno != ENOENT) return CannotWrite(path, errno);
  std::FILE* file = OpenNameless(path);
  const bool named = file == nullptr;
  if (named) file = std::fopen(temporary.c_str(), "wbx");  // "x" refuses a link that somebody may have put here
  if (file == nullptr) return CannotWrite(path, errno);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), file, named));
}

void OutputFile::RemoveLeftovers(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string stem = absl::StrCat(file.filename().string(), kTemporary);
  std::error_code failed;
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry :
       std::filesystem::directory_iterator(file.has_parent_path() ? file.parent_path() : ".", failed)) {
    const std::string name = entry.path().filename().string();
    if (absl::StartsWith(name, stem) && name.size() == stem.size() + kDigits) leftovers.push_back(entry.path());
  }
  // A file that cannot be removed only takes room, so errors are ignored.
  for (const std::filesystem::path& leftover : leftovers) std::filesystem::remove(leftover, failed);
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (named_) std::remove(temporary_.c_str());
}

void OutputFile::Write(absl::string_view text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), file_) != text.size()) error_ = errno;
}

absl::Status OutputFile::Finish() {
  if (std::fflush(file_) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && !named_) {  // a name can be given, but not one that a file has already
    const std::string open = NameOfOpen(fileno(file_));
    named_ = linkat(AT_FDCWD, open.c_str(), AT_FDCWD, temporary_.c_str(), AT_SYMLINK_FOLLOW) == 0;
    if (!named_) error_ = errno;
  }
  if (std::fclose(std::exchange(file_, nullptr)) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && std::rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return absl::OkStatus();
  if (named_) std::remove(temporary_.c_str());
  return CannotWrite(path_, error_);
}

}  // namespace snug::core
