#include "engine/cuda/code_file.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/strip.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "engine/base/hash.h"
#include "engine/base/output_file.h"

namespace snug::cuda {
namespace {

// What stands before the code. It ends with a hash of the code, so a file that was cut off does not have it.
std::string HeadOf(absl::string_view key, absl::string_view code) {
  return absl::StrCat("snug kernel 1\n", key, "\n", code.size(), " ", absl::Hex(HashName(code), absl::kZeroPad16),
                      "\n");
}

}  // namespace

std::string CodePath(const std::string& folder, absl::string_view key) {
  return absl::StrCat(folder, "/", absl::Hex(HashName(key), absl::kZeroPad16), ".kernel");
}

std::optional<std::string> ReadCode(const std::string& folder, absl::string_view key) {
  if (folder.empty()) return std::nullopt;
  std::ifstream file(CodePath(folder, key), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
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
  std::filesystem::create_directories(folder, ignored);
  const auto file = OutputFile::Create(CodePath(folder, key));
  if (!file.ok()) return;
  (*file)->Write(HeadOf(key, code));
  (*file)->Write(code);
  (*file)->Finish().IgnoreError();
}

}  // namespace snug::cuda
