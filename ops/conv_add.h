// What the pass that makes conv_add nodes has to know of them.
#pragma once

#include "engine/graph/value_type.h"

namespace snug::proto {
class FusedConv;
}

namespace snug::core {

// Says whether a convolution of x with an addition and an activation is as fast as without.
bool ConvolvesAndAdds(const proto::FusedConv& options, const ValueType& x);

}  // namespace snug::core
