#include "ops/lib/random_state.h"

#include <absl/strings/str_cat.h>

namespace snug {

absl::Status CheckRandomState(const InferContext& c, int input) {
  const ValueType expected = {DType::kInt64, {2}, {}};
  if (c.input(input) == expected) return absl::OkStatus();
  return c.InputError(input, absl::StrCat("expected ", expected.ToString(), ", found ", c.input(input).ToString()));
}

}  // namespace snug
