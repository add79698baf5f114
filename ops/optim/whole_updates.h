// The updates of whole parameters, which ops of other files are made of.
#pragma once

#include <vector>

#include "ops/op_def.h"

namespace snug::core::ops {

namespace sgd_update {
SNUG_OPS(sgd_update);
}
namespace momentum_update {
SNUG_OPS(momentum_update);
}
namespace adam_update {
SNUG_OPS(adam_update);
}
namespace rmsprop_update {
SNUG_OPS(rmsprop_update);
}
namespace adagrad_update {
SNUG_OPS(adagrad_update);
}
namespace lion_update {
SNUG_OPS(lion_update);
}

}  // namespace snug::core::ops
