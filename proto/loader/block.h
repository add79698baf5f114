// The definition of a block, as it is written in the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/syntax.h"

namespace snug::core::loader {

struct BlockDefinition {
  struct Argument {
    std::string name;
    const Value* initial = nullptr;  // null when every use must give a value
  };
  std::string name;
  SourcePos pos;
  std::vector<Argument> arguments;
  std::vector<std::string> inputs;       // their names; {"input"} when the definition gives none
  std::vector<const Field*> statements;  // its layers and repeats
  std::vector<const Value*> outputs;     // when empty, those of the last statement
  bool broken = false;                   // whether the definition has errors; its uses are then skipped

  const Argument* FindArgument(absl::string_view argument) const;
};

using Blocks = std::map<std::string, BlockDefinition, std::less<>>;

// Collects all definitions of the file; they point into it. If some were not understood there is also one called "".
Blocks CollectBlocks(const Value& file, ErrorList* errors);

// Returns what a field at the top of the file is called, or was probably meant to be called: a field of a network,
// "block" or "repeat". "" if nothing is near.
std::string MeantAtTopLevel(const Field& field);

}  // namespace snug::core::loader
