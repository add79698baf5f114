#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "engine/base/status.h"
#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max() - 1;
constexpr int64_t kMaxNodes = 10'000'000;

absl::StatusOr<std::vector<int32_t>> ParseTasks(const TextLines& lines, absl::string_view list) {
  std::vector<int32_t> tasks;
  for (const absl::string_view part : absl::StrSplit(list, ',')) {
    SNUG_ASSIGN_OR_RETURN(const int64_t task, lines.ParseInteger(part, "a node id", 0, kMaxId));
    tasks.push_back(static_cast<int32_t>(task));
  }
  return tasks;
}

class Parser {
 public:
  Parser(absl::string_view path, absl::string_view text) : path_(path), lines_(path, text) {}

  absl::StatusOr<NncFile> Parse() {
    while (lines_.Next()) {
      const absl::string_view record = lines_.fields()[0];
      if (record == "nodes") {
        SNUG_ASSIGN_OR_RETURN(const int64_t nodes, lines_.Integer(1, "a number of nodes", 0, kMaxNodes));
        file_.problem.tasks = static_cast<int32_t>(nodes);
      } else if (record == "edge") {
        SNUG_ASSIGN_OR_RETURN(const int64_t a, lines_.Integer(1, "a node id", 0, file_.problem.tasks - 1));
        SNUG_ASSIGN_OR_RETURN(const int64_t b, lines_.Integer(2, "a node id", 0, file_.problem.tasks - 1));
        file_.problem.edges.emplace_back(static_cast<int32_t>(a), static_cast<int32_t>(b));
        edge_lines_.push_back(lines_.number());
      } else if (record == "tensor") {
        SNUG_RETURN_IF_ERROR(ParseTensor());
      } else if (record == "interference_edges") {
        SNUG_ASSIGN_OR_RETURN(file_.interference_edges, lines_.Integer(1, "a number of edges", 0));
      } else if (record == "total") {
        SNUG_ASSIGN_OR_RETURN(file_.total, lines_.Integer(1, "a number of bytes", 0));
      }
    }
    return Finish();
  }

 private:
  absl::Status ParseTensor() {
    SNUG_ASSIGN_OR_RETURN(const int64_t id, lines_.Integer(1, "a tensor id", 0, kMaxId));
    if (!buffer_of_.emplace(id, file_.problem.buffers.size()).second) {
      return lines_.Error(absl::StrCat("tensor ", id, " is here twice"));
    }
    PartialBuffer buffer{.name = absl::StrCat("t", id), .size_bytes = -1, .alignment = 1};
    int64_t companion = -1;
    int64_t interferes = -1;
    for (size_t at = 2; at < lines_.fields().size(); at += 2) {
      const absl::string_view key = lines_.fields()[at];
      if (key == "size") {
        SNUG_ASSIGN_OR_RETURN(buffer.size_bytes, lines_.Integer(at + 1, "a size", 0, int64_t{1} << 50));
      } else if (key == "type") {
        SNUG_ASSIGN_OR_RETURN(const int64_t kind, lines_.Integer(at + 1, "a type", 0, kMaxId));
        buffer.kind = static_cast<int32_t>(kind);
      } else if (key == "companion") {
        SNUG_ASSIGN_OR_RETURN(companion, lines_.Integer(at + 1, "a tensor id", 0, kMaxId));
      } else if (key == "interferes") {
        SNUG_ASSIGN_OR_RETURN(interferes, lines_.Integer(at + 1, "a number of tensors", 0));
      } else if (key == "head" || key == "tail") {
        if (at + 1 >= lines_.fields().size()) return lines_.Error(absl::StrCat("expected nodes after \"", key, "\""));
        std::vector<int32_t>& uses = key == "head" ? buffer.heads : buffer.tails;
        SNUG_ASSIGN_OR_RETURN(uses, ParseTasks(lines_, lines_.fields()[at + 1]));
      } else {
        return lines_.Error(absl::StrCat("unknown field \"", key, "\" of a tensor"));
      }
    }
    if (buffer.size_bytes < 0 || buffer.heads.empty() || buffer.tails.empty()) {
      return lines_.Error("expected size, head and tail of the tensor");
    }
    total_bytes_ += buffer.size_bytes;
    if (total_bytes_ > kMaxSumOfSizes)
      return lines_.Error(absl::StrCat("the sizes up to here add up to more than ", kMaxSumOfSizes));
    file_.problem.buffers.push_back(std::move(buffer));
    file_.interferes.push_back(interferes);
    companions_.push_back(companion);
    return absl::OkStatus();
  }

  absl::StatusOr<NncFile> Finish() {
    for (size_t i = 0; i < companions_.size(); ++i) {
      if (companions_[i] < 0) continue;
      const auto found = buffer_of_.find(companions_[i]);
      if (found == buffer_of_.end()) {
        return lines_.Error(absl::StrCat("tensor ", companions_[i], ", a companion, is nowhere in the file"));
      }
      file_.problem.buffers[i].companion = static_cast<int32_t>(found->second);
    }
    SNUG_RETURN_IF_ERROR(Annotate(CheckPartialProblem(file_.problem), path_));
    SNUG_RETURN_IF_ERROR(CheckNoCycle());
    return std::move(file_);
  }

  // The error shows the cycle and the line of its last edge.
  absl::Status CheckNoCycle() const {
    constexpr size_t kShown = 8;
    std::vector<int32_t> cycle = FindCycle(file_.problem.tasks, file_.problem.edges);
    if (cycle.empty()) return absl::OkStatus();
    int line = 0;
    size_t begin = 0;  // the task that the last edge leads to
    for (size_t i = 0; i < cycle.size(); ++i) {
      const Edge edge(cycle[(i + cycle.size() - 1) % cycle.size()], cycle[i]);
      const auto found = std::find(file_.problem.edges.begin(), file_.problem.edges.end(), edge);
      const int its = edge_lines_[static_cast<size_t>(found - file_.problem.edges.begin())];
      if (its < line) continue;
      line = its;
      begin = i;
    }
    std::rotate(cycle.begin(), cycle.begin() + static_cast<std::ptrdiff_t>(begin), cycle.end());
    const size_t nodes = cycle.size();
    cycle.push_back(cycle.front());
    const bool all = cycle.size() <= kShown;
    const std::string shown = absl::StrJoin(cycle.begin(), all ? cycle.end() : cycle.begin() + kShown, " -> ");
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", line, ": the edges form a cycle of ", nodes, " nodes: ", shown, all ? "" : " -> ..."));
  }

  absl::string_view path_;
  TextLines lines_;
  NncFile file_;
  std::map<int64_t, size_t> buffer_of_;
  std::vector<int64_t> companions_;
  std::vector<int> edge_lines_;
  int64_t total_bytes_ = 0;
};

}  // namespace

bool IsNnc(absl::string_view text) { return absl::StartsWith(text, "nncgraph "); }

absl::StatusOr<NncFile> ParseNnc(absl::string_view text, absl::string_view path) { return Parser(path, text).Parse(); }

}  // namespace snug::core::memory
