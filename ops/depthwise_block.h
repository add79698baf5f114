// What the pass that makes depthwise_block nodes has to know of them: the inputs, and which ones pay.
#pragma once

#include "engine/graph/value_type.h"

namespace snug::proto {
class DepthwiseBlock;
}

namespace snug::core {

// The weights of each convolution are followed by its bias. `expand`, biases and the shortcut may be absent.
struct DepthwiseBlockPorts {
  enum Input { kX, kExpand, kExpandBias, kDepthwise, kDepthwiseBias, kProject, kProjectBias, kShortcut };
};

// Says whether a block that reads x, and keeps its weights, is done in strips (ops/kernels/conv/depthwise/block.cc).
bool IsDoneInStrips(const proto::DepthwiseBlock& options, const ValueType& x);

}  // namespace snug::core
