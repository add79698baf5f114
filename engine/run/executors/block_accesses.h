// The accesses of Steps whose memory is dynamic, by the addresses that their blocks have at the moment. With these, the
// one rule of engine/base/conflict.h also orders a Step after earlier users of the same bytes in another block, so a
// block may be taken again as soon as its last user is queued.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/conflict.h"
#include "engine/compile/executable.h"
#include "engine/run/executors/dynamic_blocks.h"

namespace snug::core {

class BlockAccesses {
 public:
  // Both arguments must outlive this.
  BlockAccesses(const Executable& executable, const DynamicBlocks& blocks);

  // Returns the accesses of a Step whose blocks are taken; valid until the next call.
  const std::vector<Access>& Of(size_t step);

 private:
  struct Entry {
    Access access;
    int32_t block = -1;  // < 0: it lies in no block, and the access needs no change
  };

  const DynamicBlocks& blocks_;
  std::vector<std::vector<Entry>> entries_;  // by Step; regions count from the first byte of their block
  std::vector<Access> accesses_;
};

}  // namespace snug::core
