#include "ops/activation.h"

#include "proto/internal.pb.h"

namespace snug::core {

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

proto::Activation ToProto(Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      return proto::IDENTITY;
    case Activation::kRelu:
      return proto::RELU;
    case Activation::kRelu6:
      return proto::RELU6;
    case Activation::kSigmoid:
      return proto::SIGMOID;
    case Activation::kTanh:
      return proto::TANH;
  }
  return proto::IDENTITY;
}

}  // namespace snug::core
