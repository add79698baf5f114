#include "proto/text_loader.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/utf8.h"
#include "proto/loader/check.h"
#include "proto/loader/error_list.h"
#include "proto/loader/expand.h"
#include "proto/loader/syntax.h"

namespace snug::core {
namespace {

absl::Status TooLarge(absl::string_view file, const LoadOptions& options) {
  return absl::InvalidArgumentError(
      absl::StrCat(file, ": the file is larger than ", options.max_file_bytes >> 20, " MiB"));
}

// Checks the size while it reads, because a file may grow or be endless.
absl::StatusOr<std::string> ReadFile(const std::string& path, const LoadOptions& options) {
  const auto failed = [&] { return absl::ErrnoToStatus(errno, absl::StrCat(path, ": cannot be read")); };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return failed();
  std::string content;
  std::vector<char> chunk(1 << 16);
  while (true) {
    errno = 0;
    const size_t n = std::fread(chunk.data(), 1, chunk.size(), file.get());
    content.append(chunk.data(), n);
    if (static_cast<int64_t>(content.size()) > options.max_file_bytes) return TooLarge(path, options);
    if (n < chunk.size()) break;
  }
  if (errno == EISDIR) return absl::InvalidArgumentError(absl::StrCat(path, ": expected a file, found a directory"));
  if (std::ferror(file.get()) != 0) return failed();
  return content;
}

// Returns false, and reports it, when the text is not UTF-8; nothing after that can be read.
bool CheckUtf8(absl::string_view text, loader::ErrorList* errors) {
  SourcePos pos{1, 1, -1};
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) {
      errors->Add(pos, absl::StrCat("this is no text: the byte 0x",
                                    absl::Hex(static_cast<unsigned char>(text[0]), absl::kZeroPad2),
                                    " is not UTF-8; binary networks are named *.pb"));
      return false;
    }
    if (text[0] == '\n') {
      ++pos.line;
      pos.column = 1;
    } else {
      pos.column += static_cast<int32_t>(length);
    }
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

absl::StatusOr<LoadedNetwork> LoadNetworkText(absl::string_view text, absl::string_view file_name,
                                              const LoadOptions& options) {
  if (static_cast<int64_t>(text.size()) > options.max_file_bytes) return TooLarge(file_name, options);
  LoadedNetwork loaded{{}, SourceMap(std::string(file_name))};
  loader::ErrorList errors(&loaded.source_map);
  if (CheckUtf8(text, &errors)) {
    if (absl::StartsWith(text, "\xEF\xBB\xBF")) text.remove_prefix(3);  // a byte order mark
    loader::Expand(loader::ParseSyntax(text, options, &errors), options, &loaded, &errors);
  }
  SNUG_RETURN_IF_ERROR(errors.ToStatus());
  return loaded;
}

absl::StatusOr<LoadedNetwork> LoadNetworkBinary(absl::string_view bytes, absl::string_view file_name,
                                                const LoadOptions& options) {
  if (static_cast<int64_t>(bytes.size()) > options.max_file_bytes) return TooLarge(file_name, options);
  LoadedNetwork loaded{{}, SourceMap(std::string(file_name))};
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
  stream.SetRecursionLimit(options.max_depth);
  if (!loaded.network.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return absl::InvalidArgumentError(absl::StrCat(file_name, ": is no binary network, or is damaged"));
  }
  loader::ErrorList errors(&loaded.source_map);
  loader::CheckBinary(loaded.network, options, &loaded.source_map, &errors);
  SNUG_RETURN_IF_ERROR(errors.ToStatus());
  return loaded;
}

absl::StatusOr<LoadedNetwork> LoadNetworkFile(const std::string& path, const LoadOptions& options) {
  SNUG_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, options));
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, absl::EndsWith(path, ".pb") ? LoadNetworkBinary(content, path, options)
                                                                          : LoadNetworkText(content, path, options));
  if (loaded.network.name().empty()) loaded.network.set_name(std::filesystem::path(path).stem().string());
  return loaded;
}

absl::StatusOr<LoadedNetwork> LoadTrainingFile(const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(path, {.needs_layers = false}));
  if (loaded.network.layer_size() == 0 && loaded.network.input_size() == 0) return loaded;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": expected only `training { }` and `optimizer { }`, found a network"));
}

}  // namespace snug::core
