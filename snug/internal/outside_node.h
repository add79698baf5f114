// What a node of an op from outside carries as its options: the op itself, and what was written for the layer. Of the
// engine's hooks most are plain functions; this is how they find what to call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "snug/internal/engine.h"
#include "snug/op.h"

namespace snug {
class Custom;

inline namespace v0 {
namespace embed {

struct OutsideOp {
  Op op;
  std::string gradient_name;
};

struct OutsideNode {
  struct Option {
    std::vector<double> numbers;
    std::string text;
  };

  std::shared_ptr<const OutsideOp> op;
  std::map<std::string, Option, std::less<>> options;
  // A gradient node also has the forward node's types, and the inputs whose gradients are asked for.
  bool gradient = false;
  std::vector<core::ValueType> inputs, outputs;
  std::vector<bool> wanted;

  core::Options ToOptions() const;
  static const OutsideNode& Of(const core::Options& options);
};

OutsideNode NodeOf(std::shared_ptr<const OutsideOp> op, const Custom& written);

}  // namespace embed

// `kernel` is null where only types are known; `types` are those around the node that is running.
struct OpCall::State {
  const embed::OutsideNode* node;
  const core::NodeTypes* types;
  const core::KernelContext* kernel = nullptr;
  int threads = 1;
};

}  // namespace v0
}  // namespace snug
