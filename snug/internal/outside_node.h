// What a node of an op from outside carries as its options: the op itself, and what was written for the layer. The
// engine's hooks are plain functions; this is how they find what to call.
#pragma once

#include "snug/internal/engine.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

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
  // Of a gradient node: the forward node's types, and the inputs whose gradients are asked for.
  bool gradient = false;
  std::vector<ValueType> inputs, outputs;
  std::vector<bool> wanted;

  Options ToOptions() const;

  // What Options::Get asks of a message.
  struct Descriptor {
    std::string full_name() const { return "snug.outside"; }
  };
  static Descriptor* descriptor() {
    static Descriptor only;
    return &only;
  }
  static const OutsideNode& default_instance() {
    static const OutsideNode none;
    return none;
  }
};

OutsideNode NodeOf(std::shared_ptr<const OutsideOp> op, const Custom& written);

}  // namespace embed

// `kernel` is null where only types are known; `types` are those around the node that is running.
struct OpCall::State {
  const embed::OutsideNode* node;
  const NodeTypes* types;
  const KernelContext* kernel = nullptr;
  int threads = 1;
};

}  // namespace v0
}  // namespace snug
