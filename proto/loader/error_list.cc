#include "proto/loader/error_list.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "engine/base/text/source_loc.h"

namespace snug::core::loader {
namespace {

bool Before(SourcePos a, SourcePos b) { return std::tie(a.line, a.column) < std::tie(b.line, b.column); }

}  // namespace

void ErrorList::Add(SourcePos pos, std::string message) {
  if (muted_ > 0 || full() || syntax_lines_.contains(pos.line) || (doubt_.known() && Before(doubt_, pos))) return;
  // A mistake inside a block is a mistake in every use of it: reporting it once is enough.
  if (!seen_.emplace(pos.line, pos.column, pos.expansion >= 0 ? "" : message).second) return;
  errors_.push_back({pos, std::move(message)});
}

void ErrorList::AddSyntax(SourcePos pos, std::string message) {
  Add(pos, std::move(message));
  syntax_lines_.insert(pos.line);
}

void ErrorList::DoubtAfter(SourcePos pos) {
  if (!doubt_.known() || Before(pos, doubt_)) doubt_ = pos;
}

absl::Status ErrorList::ToStatus() const {
  if (errors_.empty()) return absl::OkStatus();
  std::vector<Error> sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Error& a, const Error& b) { return Before(a.pos, b.pos); });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kShown); ++i) {
    const absl::Status located = At(map_->Loc(sorted[i].pos), absl::InvalidArgumentError(sorted[i].message));
    absl::StrAppend(&text, i == 0 ? "" : "\n", located.message());
  }
  if (sorted.size() > kShown) {
    const size_t more = sorted.size() - kShown;
    absl::StrAppend(&text, "\n... and ", more, more == 1 ? " more error" : " more errors",
                    full() ? " (reading stopped there)" : "");
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace snug::core::loader
