#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "memory/formats/formats.h"
#include "memory/formats/text_file.h"

namespace snug::core::memory {
namespace {

constexpr int64_t kMaxTime = std::numeric_limits<int32_t>::max() - 1;
constexpr int64_t kMaxBufferBytes = int64_t{1} << 56;

class CsvReader {
 public:
  CsvReader(absl::string_view text, absl::string_view path) : path_(path), lines_(path, text) {}

  absl::StatusOr<Problem> Read() {
    if (!lines_.Next(',')) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": expected a header line \"id,lower,upper,size\", found nothing"));
    }
    SNUG_RETURN_IF_ERROR(ReadHeader());
    Problem problem;
    int64_t sum = 0;
    while (lines_.Next(',')) {
      SNUG_ASSIGN_OR_RETURN(Buffer buffer, ReadBuffer());
      sum += buffer.size_bytes;
      if (sum > kMaxSumOfSizes)
        return lines_.Error(absl::StrCat("the sizes up to here add up to more than ", kMaxSumOfSizes));
      problem.buffers.push_back(std::move(buffer));
    }
    return problem;
  }

 private:
  struct Column {
    absl::string_view name;
    size_t at = std::string::npos;
    bool there() const { return at != std::string::npos; }
  };

  absl::Status ReadHeader() {
    columns_ = lines_.fields().size();
    for (size_t i = 0; i < columns_; ++i) {
      for (Column* column : {&id_, &lower_, &upper_, &size_, &alignment_, &gaps_}) {
        if (absl::StripAsciiWhitespace(lines_.fields()[i]) != column->name) continue;
        if (column->there()) return lines_.Error(absl::StrCat("column \"", column->name, "\" is there twice"));
        column->at = i;
      }
    }
    for (const Column* column : {&id_, &lower_, &upper_, &size_}) {
      if (column->there()) continue;
      return lines_.Error(absl::StrCat("expected the columns id, lower, upper and size, found \"",
                                       absl::StrJoin(lines_.fields(), ","), "\": \"", column->name, "\" is missing"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> Number(const Column& column, int64_t min, int64_t max) const {
    return lines_.Integer(column.at, column.name, min, max);
  }

  absl::StatusOr<Buffer> ReadBuffer() {
    if (lines_.fields().size() != columns_) {
      return lines_.Error(
          absl::StrCat("expected ", columns_, " fields, as in the header, found ", lines_.fields().size()));
    }
    Buffer buffer;
    buffer.name = std::string(absl::StripAsciiWhitespace(lines_.fields()[id_.at]));
    const auto [before, fresh] = first_lines_.emplace(buffer.name, lines_.number());
    if (!fresh) {
      return lines_.Error(absl::StrCat("id \"", buffer.name, "\" is there twice, first in line ", before->second));
    }
    SNUG_ASSIGN_OR_RETURN(const int64_t lower, Number(lower_, 0, kMaxTime));
    SNUG_ASSIGN_OR_RETURN(const int64_t upper, Number(upper_, lower + 1, kMaxTime));
    SNUG_ASSIGN_OR_RETURN(buffer.size_bytes, Number(size_, 0, kMaxBufferBytes));
    buffer.alignment = 1;
    if (alignment_.there()) {
      SNUG_ASSIGN_OR_RETURN(buffer.alignment, Number(alignment_, 1, int64_t{1} << 30));
    }
    buffer.first = static_cast<int32_t>(lower);
    buffer.last = static_cast<int32_t>(upper - 1);
    if (gaps_.there()) SNUG_RETURN_IF_ERROR(ReadGaps(&buffer));
    return buffer;
  }

  absl::Status ReadGaps(Buffer* buffer) const {
    int64_t live_from = buffer->first;
    for (absl::string_view piece : absl::StrSplit(lines_.fields()[gaps_.at], ' ', absl::SkipEmpty())) {
      const std::vector<absl::string_view> ends = absl::StrSplit(piece, '-');
      if (ends.size() != 2) return lines_.Error(absl::StrCat("expected gaps \"from-to\", found \"", piece, "\""));
      SNUG_ASSIGN_OR_RETURN(const int64_t from, lines_.ParseInteger(ends[0], "a gap's begin", live_from + 1));
      SNUG_ASSIGN_OR_RETURN(const int64_t to, lines_.ParseInteger(ends[1], "a gap's end", from + 1, buffer->last));
      buffer->gaps.push_back({static_cast<int32_t>(from), static_cast<int32_t>(to - 1)});
      live_from = to;
    }
    return absl::OkStatus();
  }

  absl::string_view path_;
  TextLines lines_;
  size_t columns_ = 0;
  Column id_{"id"}, lower_{"lower"}, upper_{"upper"}, size_{"size"}, alignment_{"alignment"}, gaps_{"gaps"};
  std::unordered_map<std::string, int> first_lines_;  // the line on which each id stands first
};

}  // namespace

absl::StatusOr<Problem> ParseCsv(absl::string_view text, absl::string_view path) {
  return CsvReader(text, path).Read();
}

std::string OffsetsCsv(const std::vector<std::string>& names, const Plan& plan) {
  std::string out = "id,offset\n";
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&out, names[i], ",", plan.offsets[i], "\n");
  }
  return out;
}

}  // namespace snug::core::memory
