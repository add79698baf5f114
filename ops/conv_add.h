// What the pass that makes conv_add nodes has to know of them.
#pragma once

#include "engine/graph/value_type.h"

namespace snug::proto {
class FusedConv;
}

namespace snug::core {

// Says whether a library adds to a convolution of x what lies where its result goes, as fast as it convolves.
bool ConvolvesAndAdds(const proto::FusedConv& options, const ValueType& x);

}  // namespace snug::core
