// Which ops a `fused` node may have as members, and what each is called in ops/math/functions.h.
#pragma once

#include <absl/strings/string_view.h>

#include <string>

#include "ops/node_types.h"

namespace snug {

bool CanFuse(absl::string_view op);

// The expression for one element in C++: `operands` are its operands' expressions, with commas between them. For ops
// that CanFuse allows, with the types of a member. Its functions are those of fused_prelude.h.
std::string FusedExpression(absl::string_view op, const NodeTypes& types, absl::string_view operands);

// "float", as kernels call it.
absl::string_view CppName(DType dtype);

}  // namespace snug
