// Reads the fields of a repeat; expand.cc expands it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/scope.h"
#include "proto/loader/syntax.h"

namespace snug::core::loader {

// Its members point into the file's tree.
struct RepeatParts {
  bool ok = true;  // false when something is missing or wrong
  const Field *name = nullptr, *input = nullptr, *times_field = nullptr, *from_field = nullptr;
  int64_t times = 0;
  int64_t from = 0;
  std::optional<std::string> index;
  std::vector<const Field*> statements;  // its layers and repeats
  std::vector<const Value*> outputs;     // when empty, those of the last statement
};

RepeatParts ReadRepeat(const Field& repeat, const Scope& scope, ErrorList* errors);

// Returns what the name of a layer in it begins with, up to the first argument; "" when that is not known.
std::string BeginOfName(const Field& statement);

}  // namespace snug::core::loader
