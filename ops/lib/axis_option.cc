#include "ops/lib/axis_option.h"

#include <absl/strings/str_cat.h>

namespace snug {

absl::StatusOr<int> AxisOption(const InferContext& c, absl::string_view option, int64_t axis, int rank) {
  absl::StatusOr<int> normal = NormalizeAxis(axis, rank);
  if (!normal.ok()) return c.OptionError(option, normal.status().message());
  if (*normal == 0 && axis < 0) {
    return c.OptionError(option, absl::StrCat("axis ", axis, " is the batch: write 0 if it is meant"));
  }
  return normal;
}

}  // namespace snug
