// The definition of a block, as written.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/syntax.h"

namespace snug::loader {

struct Block {
  struct Argument {
    std::string name;
    const Value* initial = nullptr;  // null: every use gives it
  };
  std::string name;
  SourcePos pos;
  std::vector<Argument> arguments;
  std::vector<std::string> inputs;       // by name; {"input"} when the definition names none
  std::vector<const Field*> statements;  // layers and repeats
  std::vector<const Value*> outputs;     // none: the last statement's
  bool broken = false;                   // its uses are not looked at

  const Argument* FindArgument(absl::string_view argument) const;
};

using Blocks = std::map<std::string, Block, std::less<>>;

// All definitions of the file; they point into it. There is one called "" if there may be some that were not
// understood.
Blocks CollectBlocks(const Value& file, ErrorList* errors);

// What a field of the file is called, or was probably meant to be called: of a network, "block" or "repeat". "" if
// nothing is near.
std::string MeantAtTopLevel(const Field& field);

}  // namespace snug::loader
