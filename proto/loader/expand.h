// Turns the tree of a file into a flat network: layers become messages, blocks and repeats are expanded, and names are
// given their prefixes and resolved.
//
//   block { name: "unit" arg: "width" arg { name: "times" default: 1 } input: "x" layer { ... } output: "relu" }
//   layer { name: "a" input: "image" unit { width: 64 } }     # a use: layers "a.conv", ...; "a" is what it puts out
//   repeat { name: "b" times: 3 index: "i" input: "a" layer { name: "b$i" input: "$input" unit { width: 64 } } }
//
// What is written in the file is understood part by part first: definitions of blocks (block.cc), layers
// (layer_parts.cc) and repeats (repeat.cc).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/scope.h"
#include "proto/loader/syntax.h"
#include "proto/text_loader.h"

namespace snug::core::loader {

// The definition of a block, as it is written in the file.
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

// Finds what each field of a layer is for, and what was meant by fields that do not exist.
struct LayerPart {
  enum class Role : uint8_t { kName, kInput, kParam, kOp, kBlock, kUnknown };
  Role role = Role::kUnknown;
  const Field* field = nullptr;
  const BlockDefinition* block = nullptr;  // only for kBlock
  std::string meant;                       // the guess of what was meant, if the field was misspelt
};

// The fields of a layer; they point into the file's tree.
struct LayerParts {
  std::vector<LayerPart> all;
  const LayerPart* name = nullptr;
  const LayerPart* op = nullptr;  // the op or block; the first if there are several
  bool op_in_doubt = false;       // whether a field that was not understood may have been meant as an op
};

// Reports fields that are unknown, that stand twice, or that are a second op.
LayerParts Understand(const Field& layer, const Scope& scope, const Blocks& blocks, ErrorList* errors);

// The fields of a repeat. Its members point into the file's tree.
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

void Expand(const Value& file, const LoadOptions& options, LoadedNetwork* loaded, ErrorList* errors);

}  // namespace snug::core::loader
