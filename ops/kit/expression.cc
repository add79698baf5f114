#include "ops/kit/expression.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace snug::core {
namespace {

// Writes the number in hexadecimal, so that C++ reads exactly the same one.
std::string Literal(double x) {
  if (std::isfinite(x)) return absl::StrFormat("%a", x);
  return absl::StrFormat("std::bit_cast<double>(0x%016xULL)", std::bit_cast<uint64_t>(x));
}

}  // namespace

std::string ApplyExpression(absl::string_view function, const std::vector<double>& numbers, const NodeTypes& types,
                            absl::string_view operands) {
  const std::string initializer =
      absl::StrJoin(numbers, ", ", [](std::string* out, double number) { absl::StrAppend(out, Literal(number)); });
  return absl::StrCat("Apply<", CppName(types.output(0).dtype), ">(functions::", function, "{", initializer, "}, ",
                      operands, ")");
}

absl::string_view CppName(DType dtype) {
  switch (dtype) {
#define SNUG_CASE(enumerator, name, type) \
  case DType::enumerator:                 \
    return #type;
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
  return "";
}

}  // namespace snug::core
