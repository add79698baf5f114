// What `$name` means at some place of the file: the arguments and inputs of the block it stands in, the indices of the
// repeats around it; and the evaluation of values with it.
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

namespace snug::loader {

// A value, evaluated.
struct Scalar {
  enum class Kind : uint8_t {
    kInteger,
    kHuge,  // an integer beyond int64: its value is in `number`
    kNumber,
    kString,
    kIdentifier,  // true, an enumerator, ...
    kReference,   // what a layer can read, by its full name: the inputs of blocks and repeats
    kList,
  };
  Kind kind = Kind::kInteger;
  int64_t integer = 0;
  double number = 0;  // of the integer zero too: as a floating number, "-0" is not "0"
  std::string text;
  std::vector<Scalar> items;

  bool IsNumeric() const { return kind == Kind::kInteger || kind == Kind::kHuge || kind == Kind::kNumber; }
  double AsNumber() const { return kind == Kind::kInteger && integer != 0 ? static_cast<double>(integer) : number; }
  // `3`, `"abc"`, `SAME`: as it would be written.
  std::string ToString() const;
};

struct Scope {
  const Scope* outer = nullptr;  // a repeat sees what stands around it; a block does not
  std::string prefix;            // of the names of layers made here: "" or "layer1.0."
  int32_t expansion = -1;
  int depth = 0;  // blocks and repeats around
  std::vector<std::pair<std::string, Scalar>> bindings;

  const Scalar* Find(absl::string_view name) const;
  SourcePos Place(SourcePos pos) const { return {pos.line, pos.column, expansion}; }
};

// Nothing: it was reported (or `value` is broken, which was reported before).
std::optional<Scalar> Evaluate(const Value& value, const Scope& scope, ErrorList* errors);

}  // namespace snug::loader
