// What each field of a layer is for, and what was meant by those that do not exist.
#pragma once

#include <string>
#include <vector>

#include "proto/loader/block.h"
#include "proto/loader/error_list.h"
#include "proto/loader/scope.h"
#include "proto/loader/syntax.h"

namespace snug::loader {

struct LayerPart {
  enum class Role : uint8_t { kName, kInput, kParam, kOp, kBlock, kUnknown };
  Role role = Role::kUnknown;
  const Field* field = nullptr;
  const Block* block = nullptr;  // kBlock
  std::string meant;             // not empty: the field was misspelt, and this is the guess
};

// A layer's fields; they point into the file's tree.
struct LayerParts {
  std::vector<LayerPart> all;
  const LayerPart* name = nullptr;
  const LayerPart* op = nullptr;  // the op or block, the first if there are several
  bool op_in_doubt = false;       // something unknown may have been meant as an op
};

// Reports what is unknown, twice there, or one op too many.
LayerParts Understand(const Field& layer, const Scope& scope, const Blocks& blocks, ErrorList* errors);

}  // namespace snug::loader
