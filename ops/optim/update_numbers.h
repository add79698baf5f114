// Turns the options of an update into numbers, for code that does not know protobuf.
#pragma once

#include <memory>

#include "ops/optim/updates_cuda.h"
#include "ops/prepare_context.h"

namespace snug::core {

// `Update` is proto::Update.
template <class Update>
UpdateNumbers NumbersOf(const Update& options) {
  return {.lr_mult = options.lr_mult(),
          .momentum = options.momentum(),
          .weight_decay = options.weight_decay(),
          .beta1 = options.has_lr_decay() ? options.lr_decay() : options.beta1(),
          .beta2 = options.beta2(),
          .epsilon = options.epsilon(),
          .nesterov = options.nesterov(),
          .decoupled_decay = options.decoupled_decay()};
}

// The KernelRow::prepare of an update's CUDA kernel.
template <class Update>
absl::Status PrepareUpdateCuda(PrepareContext& c) {
  c.SetKernel(std::make_shared<UpdateNumbers>(NumbersOf(c.options<Update>())));
  return absl::OkStatus();
}

}  // namespace snug::core
