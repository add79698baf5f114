#include "ops/lib/activation.h"

#include "proto/internal.pb.h"

namespace snug {

Activation FromProto(proto::Activation activation) {
  switch (activation) {
    case proto::IDENTITY:
      return Activation::kIdentity;
    case proto::RELU:
      return Activation::kRelu;
    case proto::RELU6:
      return Activation::kRelu6;
    case proto::SIGMOID:
      return Activation::kSigmoid;
    case proto::TANH:
      return Activation::kTanh;
  }
  return Activation::kIdentity;
}

}  // namespace snug
