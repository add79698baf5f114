// A registry for one Network: the library's ops, and the ops that the program brings as OpDefs of the engine.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "snug/internal/engine.h"
#include "snug/internal/outside_node.h"
#include "snug/op.h"

namespace snug {
inline namespace v0 {
namespace embed {

class OutsideOps final : public core::OpRegistry {
 public:
  // Begins with every op of the library, and with `snug.custom`, the layer that names an op of the program.
  OutsideOps();

  // Adds the op and its gradient op "<name>_grad". Fails with InvalidArgument or AlreadyExists, which say what is wrong
  // with it.
  absl::Status Add(Op op);

 private:
  core::LayerFn Layer() const;

  // By name. The layer `snug.custom` looks them up; so a copy of this registry knows the same ops.
  std::shared_ptr<std::map<std::string, std::shared_ptr<const OutsideOp>>> outside_;
};

}  // namespace embed
}  // namespace v0
}  // namespace snug
