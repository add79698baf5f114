// Knows what `$name` means at a place in the file, and evaluates values there. It has the arguments and inputs of the
// block around the place, and the indices of the repeats around it.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/syntax.h"
#include "proto/source_map.h"

namespace snug::core::loader {

// The result of evaluating a value.
struct Scalar {
  enum class Kind : uint8_t {
    kInteger,
    kHuge,  // an integer beyond int64; `number` holds it
    kNumber,
    kString,
    kIdentifier,  // true, an enumerator, ...
    kReference,   // the full name of what a layer can read: an input of a block or repeat
    kList,
  };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  double number = 0;  // also set for the integer zero, because "-0" as a floating number is not "0"
  std::string text;
  std::vector<Scalar> items;

  bool IsNumeric() const { return kind == Kind::kInteger || kind == Kind::kHuge || kind == Kind::kNumber; }
  double AsNumber() const { return kind == Kind::kInteger && integer != 0 ? static_cast<double>(integer) : number; }
  // Returns it as it would be written: `3`, `"abc"`, `SAME`.
  std::string ToString() const;
};

struct Scope {
  const Scope* outer = nullptr;  // a repeat sees what is around it; a block does not
  std::string prefix;            // put before the names of layers made here: "" or "layer1.0."
  int32_t expansion = -1;
  int depth = 0;  // how many blocks and repeats are around
  std::vector<std::pair<std::string, Scalar>> bindings;

  const Scalar* Find(absl::string_view name) const;
  SourcePos Place(SourcePos pos) const { return {pos.line, pos.column, expansion}; }
};

// Returns nothing when there was an error. It is reported, unless `value` is broken, which was reported before.
std::optional<Scalar> Evaluate(const Value& value, const Scope& scope, ErrorList* errors);

}  // namespace snug::core::loader
