// The defaults that the command and the library share, and what is asked before a default is taken.
#pragma once

#include <cstdint>

namespace snug::proto {
class Network;
class Optimizer;
class Training;
}  // namespace snug::proto

namespace snug::core {

enum class BatchFor : uint8_t {
  kStep,       // a step to look at or to tune: `training { batch }`, the network's own, or 1
  kTraining,   // `training { batch }`, the network's own, or 32
  kInference,  // 64: what comes out does not depend on it
};
// Returns the samples in a step. `given` comes first, if it is more than 0. `training` need not be the network's own.
int64_t ChooseBatch(BatchFor purpose, int64_t given, const proto::Network& network, const proto::Training& training);

// Makes an optimizer SGD with momentum 0.9 if it does not say what it is.
void SetDefaultKind(proto::Optimizer* optimizer);

}  // namespace snug::core
