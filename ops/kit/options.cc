#include "ops/kit/options.h"

#include <absl/strings/str_cat.h>

#include "ops/infer_context.h"

namespace snug::core {

absl::StatusOr<int> AxisOption(absl::string_view option, int64_t axis, int rank) {
  absl::StatusOr<int> normal = NormalizeAxis(axis, rank);
  if (!normal.ok()) return InferContext::OptionError(option, normal.status().message());
  if (*normal == 0 && axis < 0) {
    return InferContext::OptionError(option, absl::StrCat("axis ", axis, " is the batch: write 0 if it is meant"));
  }
  return normal;
}

absl::Status ReadSpatialOption(absl::string_view option, absl::Span<const int64_t> given, int spatial, int64_t at_least,
                               std::array<int64_t, kMaxSpatial>* to) {
  if (given.empty()) return absl::OkStatus();
  const auto count = static_cast<int>(given.size());
  if (count != 1 && count != spatial) {
    return InferContext::OptionError(
        option,
        absl::StrCat("expected ", spatial == 1 ? "1 number" : absl::StrCat("1 or ", spatial, " numbers"),
                     " (the input has ", spatial, " spatial dimension", spatial == 1 ? "" : "s", "), found ", count));
  }
  for (size_t i = 0; i < static_cast<size_t>(spatial); ++i) {
    const int64_t number = given[count == 1 ? 0 : i];
    if (number < at_least || number > kMaxSpatialOption) {
      return InferContext::OptionError(
          option, absl::StrCat("expected between ", at_least, " and ", kMaxSpatialOption, ", found ", number));
    }
    (*to)[i] = number;
  }
  return absl::OkStatus();
}

}  // namespace snug::core
