// Writes a network as an ONNX model: what its layers compute forwards, with dropout and the like out of the way and
// loops unrolled, in ops of opset 17.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace snug::proto {
class Network;
}

namespace snug::core {
class SourceMap;
}

namespace snug::core::onnx {

inline constexpr int64_t kExportedOpset = 17;
inline constexpr int64_t kExportedIrVersion = 8;

struct ExportOptions {
  // Names of values that are the model's outputs; empty: what the network's objectives and outputs are computed from,
  // as a rule the scores that a loss reads.
  std::vector<std::string> fetch;
  int64_t batch = 0;                 // 0: the model takes any number of samples
  std::string file = "the network";  // for errors
};

// Returns the content of a parameter, a statistic or the like, by its name.
using ContentOf = std::function<absl::StatusOr<std::vector<float>>(const std::string& name)>;

// Returns the names that the outputs of the model have: options.fetch, or what stands for it.
absl::StatusOr<std::vector<std::string>> ExportedOutputs(const proto::Network& network, const SourceMap& locations,
                                                         const ExportOptions& options);

// Returns the bytes of the file. The error lists everything that ONNX cannot express, by node.
absl::StatusOr<std::string> ExportModel(const proto::Network& network, const SourceMap& locations,
                                        const ExportOptions& options, const ContentOf& content);

}  // namespace snug::core::onnx
