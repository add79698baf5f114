#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <unordered_map>

#include "engine/base/status.h"
#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMaxTasks = 10'000'000;
constexpr int64_t kMaxTotalBytes = int64_t{1} << 62;

class GraphReader {
 public:
  GraphReader(absl::string_view path, absl::string_view text) : path_(path), text_(text) {}

  absl::StatusOr<GraphFile> Read() {
    // Nodes are read first, because a tensor may stand before the nodes that it names.
    for (TextLines lines(path_, text_); lines.Next();) {
      if (lines.fields()[0] == "node") SNUG_RETURN_IF_ERROR(Node(lines));
    }
    for (TextLines lines(path_, text_); lines.Next();) {
      if (lines.fields()[0] == "node") continue;
      if (lines.fields()[0] != "tensor") {
        return lines.Error(absl::StrCat("expected \"node\" or \"tensor\", found \"", lines.fields()[0], "\""));
      }
      SNUG_RETURN_IF_ERROR(Tensor(lines));
    }
    if (file_.ids.empty()) return absl::InvalidArgumentError(absl::StrCat(path_, ": has no node"));
    SNUG_RETURN_IF_ERROR(Annotate(CheckTasks(file_.tasks), path_));
    return std::move(file_);
  }

 private:
  static absl::Status CheckFields(const TextLines& lines, size_t min, size_t max, absl::string_view form) {
    const size_t count = lines.fields().size();
    if (count >= min && count <= max) return absl::OkStatus();
    return lines.Error(absl::StrCat("expected \"", form, "\", found ", count, " fields"));
  }

  absl::Status Node(const TextLines& lines) {
    SNUG_RETURN_IF_ERROR(CheckFields(lines, 3, 4, "node ID NAME UPDATES"));
    SNUG_ASSIGN_OR_RETURN(const int64_t id, lines.Integer(1, "a node id", 0));
    if (lines.fields().size() == 4) SNUG_RETURN_IF_ERROR(lines.Integer(3, "1 for an update, else 0,", 0, 1));
    if (!tasks_.emplace(id, file_.tasks.size()).second) return lines.Error(absl::StrCat("node ", id, " comes twice"));
    if (file_.tasks.size() == kMaxTasks) return lines.Error(absl::StrCat("more than ", kMaxTasks, " nodes"));
    file_.ids.push_back(id);
    file_.tasks.names.emplace_back(lines.fields()[2]);
    return absl::OkStatus();
  }

  absl::StatusOr<int32_t> Task(const TextLines& lines, absl::string_view text, absl::string_view what) const {
    SNUG_ASSIGN_OR_RETURN(const int64_t id, lines.ParseInteger(text, what, 0));
    const auto found = tasks_.find(id);
    if (found == tasks_.end()) return lines.Error(absl::StrCat("there is no node ", id, ", ", what));
    return found->second;
  }

  absl::Status Tensor(const TextLines& lines) {
    SNUG_RETURN_IF_ERROR(CheckFields(lines, 5, 6, "tensor ID PRODUCER BYTES CONSUMERS [KIND]"));
    SNUG_ASSIGN_OR_RETURN(const int64_t id, lines.Integer(1, "a tensor id", 0));
    if (!tensors_.emplace(id, lines.number()).second) return lines.Error(absl::StrCat("tensor ", id, " comes twice"));
    TaskValue value{.name = absl::StrCat(id), .alignment = 1};
    SNUG_ASSIGN_OR_RETURN(value.producer, Task(lines, lines.fields()[2], "the producer"));
    SNUG_ASSIGN_OR_RETURN(value.size_bytes, lines.Integer(3, "a size in bytes", 0, kMaxTotalBytes - total_bytes_ - 1));
    total_bytes_ += value.size_bytes;
    const absl::string_view kind = lines.fields().size() == 6 ? lines.fields()[5] : "";
    if (kind != "" && kind != "persistent" && kind != "control" && kind != "war") {
      return lines.Error(absl::StrCat("expected persistent, control, war or nothing, found \"", kind, "\""));
    }
    value.resident = kind == "persistent";
    if (lines.fields()[4] != "-") {
      for (const absl::string_view consumer : absl::StrSplit(lines.fields()[4], ',')) {
        SNUG_ASSIGN_OR_RETURN(const int32_t reader, Task(lines, consumer, "a consumer"));
        if (reader == value.producer && !value.resident) {
          return lines.Error(absl::StrCat("node ", consumer, " consumes what it produces"));
        }
        value.readers.push_back(reader);
      }
    }
    std::sort(value.readers.begin(), value.readers.end());
    value.readers.erase(std::unique(value.readers.begin(), value.readers.end()), value.readers.end());
    if (kind != "control" && kind != "war") {
      file_.tasks.values.push_back(std::move(value));
      return absl::OkStatus();
    }
    if (value.size_bytes != 0) {
      return lines.Error(absl::StrCat("expected 0 bytes for ", kind, ", found ", value.size_bytes));
    }
    for (const int32_t reader : value.readers) file_.tasks.edges.emplace_back(value.producer, reader);
    return absl::OkStatus();
  }

  absl::string_view path_, text_;
  GraphFile file_;
  std::unordered_map<int64_t, int32_t> tasks_;  // task by id
  std::unordered_map<int64_t, int> tensors_;    // line by tensor id
  int64_t total_bytes_ = 0;
};

}  // namespace

absl::StatusOr<GraphFile> ReadGraphFile(const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseGraph(path, text);
}

absl::StatusOr<GraphFile> ParseGraph(absl::string_view path, absl::string_view text) {
  return GraphReader(path, text).Read();
}

}  // namespace snug::core::memory
