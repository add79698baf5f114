// The fields of a repeat, read; what they expand to is expand.cc's business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/scope.h"
#include "proto/loader/syntax.h"

namespace snug::loader {

// It points into the file's tree.
struct RepeatParts {
  bool ok = true;  // nothing is missing or wrong
  const Field *name = nullptr, *input = nullptr, *times_field = nullptr, *from_field = nullptr;
  int64_t times = 0;
  int64_t from = 0;
  std::optional<std::string> index;
  std::vector<const Field*> statements;  // layers and repeats
  std::vector<const Value*> outputs;     // none: the last statement's
};

RepeatParts ReadRepeat(const Field& repeat, const Scope& scope, ErrorList* errors);

// What the name of a layer inside begins with, up to the first argument in it: "" when that is not known.
std::string BeginOfName(const Field& statement);

}  // namespace snug::loader
