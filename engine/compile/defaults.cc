#include "engine/compile/defaults.h"

#include <array>
#include <cstddef>

#include "proto/network.pb.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

struct BatchRule {
  bool asks_training = false, asks_network = false;
  int64_t otherwise = 1;
};

// What counts, if nobody gives a batch: one rule for each BatchFor, in the sequence of the enumerators.
constexpr std::array<BatchRule, 3> kBatchRules = {{
    {.asks_training = true, .asks_network = true, .otherwise = 1},
    {.asks_training = true, .asks_network = true, .otherwise = 32},
    {.otherwise = 64},
}};

}  // namespace

int64_t ChooseBatch(BatchFor purpose, int64_t given, const proto::Network& network, const proto::Training& training) {
  const BatchRule& rule = kBatchRules[static_cast<size_t>(purpose)];
  if (given > 0) return given;
  if (rule.asks_training && training.has_batch()) return training.batch();
  if (rule.asks_network && network.has_batch()) return network.batch();
  return rule.otherwise;
}

void SetDefaultKind(proto::Optimizer* optimizer) {
  if (optimizer->kind_case() == proto::Optimizer::KIND_NOT_SET) optimizer->mutable_sgd()->set_momentum(0.9);
}

}  // namespace snug::core
