#include "ops/infer_context.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/error_part.h"

namespace snug::core {

void InferContext::SetOutput(int i, ValueType type) {
  auto& outputs = types_.outputs;
  if (static_cast<size_t>(i) >= outputs.size()) outputs.resize(static_cast<size_t>(i) + 1);
  outputs[static_cast<size_t>(i)] = std::move(type);
}

absl::Status InferContext::InputError(int i, absl::string_view message) const {
  const std::string& name = names_[std::min(static_cast<size_t>(i), names_.size() - 1)];
  return About(
      {.kind = ErrorPart::Kind::kInput, .index = i},
      absl::InvalidArgumentError(absl::StrCat("input ", i, " \"", name, "\" ", shape(i).ToString(), ": ", message)));
}

absl::Status InferContext::OptionError(absl::string_view option, absl::string_view message) {
  return core::OptionError(option, message);
}

absl::Status InferContext::CheckRank(int i, int min_rank, int max_rank) const {
  const int rank = shape(i).rank();
  if (rank >= min_rank && rank <= max_rank) return absl::OkStatus();
  const std::string expected = min_rank == max_rank ? absl::StrCat(min_rank) : absl::StrCat(min_rank, " to ", max_rank);
  return InputError(i, absl::StrCat("expected ", expected, " dimensions (batch first), found ", rank));
}

absl::Status InferContext::CheckShape(int i, const Shape& expected) const {
  if (shape(i) == expected) return absl::OkStatus();
  return InputError(i, absl::StrCat("expected shape ", expected.ToString()));
}

}  // namespace snug::core
