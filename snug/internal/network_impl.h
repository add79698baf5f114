// The contents of a Network.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "snug/internal/engine.h"
#include "snug/internal/outside_ops.h"
#include "snug/network.h"

namespace snug {
inline namespace v0 {

struct Network::Impl {
  proto::Network network;
  core::SourceMap locations;
  std::string file;                                                                // the file that the locations are in
  std::vector<std::string> errors;                                                 // the mistakes made so far
  std::shared_ptr<embed::OutsideOps> ops = std::make_shared<embed::OutsideOps>();  // the library's ops and the
                                                                                   // program's

  absl::Status Check() const;
};

}  // namespace v0
}  // namespace snug
