#include "ops/lib/axis_option.h"

#include <absl/strings/str_cat.h>

#include "engine/base/shape.h"
#include "ops/infer_context.h"

namespace snug {

absl::StatusOr<int> AxisOption(absl::string_view option, int64_t axis, int rank) {
  absl::StatusOr<int> normal = NormalizeAxis(axis, rank);
  if (!normal.ok()) return InferContext::OptionError(option, normal.status().message());
  if (*normal == 0 && axis < 0) {
    return InferContext::OptionError(option, absl::StrCat("axis ", axis, " is the batch: write 0 if it is meant"));
  }
  return normal;
}

}  // namespace snug
