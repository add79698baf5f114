// Writes the C++ text of one element, for kernels that are compiled at run time (ops/kernels/fused/source.h). The
// functions in it are those of ops/kernels/fused/prelude.h.
#pragma once

#include <absl/strings/string_view.h>

#include <string>
#include <type_traits>
#include <vector>

#include "ops/node_types.h"

namespace snug::core {

// How many operands a function of ops/math/functions.h has.
template <class F>
inline constexpr int kArity = std::is_invocable_v<F, float>          ? 1
                              : std::is_invocable_v<F, float, float> ? 2
                                                                     : 3;

// Returns what kernels call the type, for example "float".
absl::string_view CppName(DType dtype);

// Returns the text of a call of a function of ops/math/functions.h, which is initialised with these numbers.
std::string ApplyExpression(absl::string_view function, const std::vector<double>& numbers, const NodeTypes& types,
                            absl::string_view operands);

}  // namespace snug::core
