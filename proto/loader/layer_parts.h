// Finds what each field of a layer is for, and what was meant by fields that do not exist.
#pragma once

#include <string>
#include <vector>

#include "proto/loader/block.h"
#include "proto/loader/error_list.h"
#include "proto/loader/scope.h"
#include "proto/loader/syntax.h"

namespace snug::core::loader {

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

}  // namespace snug::core::loader
