// The bytes of a value that is fed or fetched, or of a Variable, in its type's layout. Numbers can be copied into and
// out of them.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <vector>

#include "engine/graph/graph.h"

namespace snug::core {

struct ValueView {
  const ValueType* type;
  std::byte* data;
};

// Converts to or from the value's own element type. Sizes must agree. `name` is for the error.
absl::Status StoreNumbers(absl::string_view name, const ValueView& view, absl::Span<const double> values);
std::vector<double> LoadNumbers(const ValueView& view);

}  // namespace snug::core
