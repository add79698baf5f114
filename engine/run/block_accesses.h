// What Steps access where memory is dynamic, by the addresses that their blocks have at the moment. By these the one
// rule of engine/base/conflict.h also orders a Step after whoever used the same bytes for another block before, so a
// block may be taken again as soon as its last user has been asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/compile/executable.h"
#include "engine/run/dynamic_blocks.h"

namespace snug {

class BlockAccesses {
 public:
  // Both must outlive it.
  BlockAccesses(const Executable& executable, const DynamicBlocks& blocks);

  // Of a Step whose blocks are taken; good until the next call.
  const std::vector<Access>& Of(size_t step);

 private:
  struct Entry {
    Access access;
    int32_t block = -1;  // < 0: it lies in no block, and the access is as it stands
  };

  const DynamicBlocks& blocks_;
  std::vector<std::vector<Entry>> entries_;  // by Step; regions count from their block's first byte
  std::vector<Access> accesses_;
};

}  // namespace snug
