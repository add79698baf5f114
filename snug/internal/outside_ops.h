// The ops of the library, and those that the program brings, as OpDefs of the engine: a registry for one Network.
#pragma once

#include "snug/internal/engine.h"

#include <map>
#include <memory>
#include <string>

#include "snug/internal/outside_node.h"
#include "snug/op.h"

namespace snug {
inline namespace v0 {
namespace embed {

class OutsideOps final : public OpRegistry {
 public:
  // With every op of the library, and `snug.custom`, the layer that names another.
  OutsideOps();

  // And its gradient op "<name>_grad". InvalidArgument or AlreadyExists: what is wrong with it.
  absl::Status Add(Op op);

  // NotFound: with the nearest name there is.
  absl::StatusOr<std::shared_ptr<const OutsideOp>> FindOutside(const std::string& name) const;

 private:
  std::map<std::string, std::shared_ptr<const OutsideOp>> outside_;
};

}  // namespace embed
}  // namespace v0
}  // namespace snug
