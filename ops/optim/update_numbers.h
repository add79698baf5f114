// The options of an update, for what does not know protobuf.
#pragma once

#include "ops/optim/updates_cuda.h"

namespace snug {

template <class Update>  // proto::Update
UpdateNumbers Numbers(const Update& options) {
  return {.lr_mult = options.lr_mult(),
          .momentum = options.momentum(),
          .weight_decay = options.weight_decay(),
          .beta1 = options.beta1(),
          .beta2 = options.beta2(),
          .epsilon = options.epsilon(),
          .nesterov = options.nesterov(),
          .decoupled_decay = options.decoupled_decay()};
}

}  // namespace snug
