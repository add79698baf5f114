#include "engine/cuda/code_file.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "engine/base/hash.h"
#include "engine/base/text/output_file.h"

namespace snug::core::cuda {
namespace {

// Returns what stands before the code. It ends with a hash of the code, which a file that was cut off does not match.
std::string HeadOf(absl::string_view key, absl::string_view code) {
  return absl::StrCat("snug kernel 1\n", key, "\n", code.size(), " ", absl::Hex(HashName(code), absl::kZeroPad16),
                      "\n");
}

}  // namespace

std::string CodePath(const std::string& folder, absl::string_view key) {
  return absl::StrCat(folder, "/", absl::Hex(HashName(key), absl::kZeroPad16), ".kernel");
}

bool IsPrivate(const std::string& folder) {
  struct stat found;
  if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) return false;
  const bool of_others = found.st_uid != geteuid() && found.st_uid != 0;
  return !of_others && (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

std::optional<std::string> ReadCode(const std::string& folder, absl::string_view key) {
  if (folder.empty() || !IsPrivate(folder)) return std::nullopt;
  const std::string path = CodePath(folder, key);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  std::ostringstream read;  // a string stream does not let out what reading throws
  read << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string bytes = read.str();
  absl::string_view rest = bytes;
  if (!absl::ConsumePrefix(&rest, absl::StrCat("snug kernel 1\n", key, "\n"))) return std::nullopt;
  const size_t end = rest.find('\n');
  if (end == absl::string_view::npos) return std::nullopt;
  const absl::string_view code = rest.substr(end + 1);
  if (HeadOf(key, code) != absl::string_view(bytes).substr(0, bytes.size() - code.size())) return std::nullopt;
  return std::string(code);
}

void WriteCode(const std::string& folder, absl::string_view key, absl::string_view code) {
  if (folder.empty()) return;
  std::error_code ignored;
  if (std::filesystem::create_directories(folder, ignored)) {
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
  }
  if (!IsPrivate(folder)) return;
  const auto file = OutputFile::Create(CodePath(folder, key));
  if (!file.ok()) return;
  (*file)->Write(HeadOf(key, code));
  (*file)->Write(code);
  (*file)->Finish().IgnoreError();
}

}  // namespace snug::core::cuda
