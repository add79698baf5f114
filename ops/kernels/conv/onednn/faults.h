// What oneDNN 2.6 computes wrongly of convolutions, so that another row has to serve them. Each fault was found beside
// sums in double, and has a sample of its own among those of conv (ops/linear/conv.cc).
#pragma once

#include <optional>
#include <string>

#include "engine/base/dtype.h"
#include "ops/kernels/conv/geometry.h"
#include "ops/kernels/conv/node.h"

namespace snug::core::ops {

// Says for users what is wrong; nothing: there is no fault that we know of.
std::optional<std::string> OneDnnFaultOf(ConvPart part, const ConvGeometry& g, DType dtype);

}  // namespace snug::core::ops
