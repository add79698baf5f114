// Reads an ONNX file with the tensors that it keeps in other files. Whatever the bytes are, the result is a model whose
// initializers are complete, or an error that lists what is wrong.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "engine/train/checkpoint/file_system.h"
#include "interchange/tensor.h"

namespace snug::proto::onnx {
class ModelProto;
class TensorProto;
}  // namespace snug::proto::onnx

namespace snug::core::onnx {

// The versions of ONNX's standard ops that are understood.
inline constexpr int64_t kOldestOpset = 11;
inline constexpr int64_t kNewestOpset = 21;

// Finds the bytes of tensors that lie beside the model's file.
class ExternalData {
 public:
  // `folder` is that of the model; what a model names outside of it is refused.
  ExternalData(checkpoint::FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  absl::StatusOr<std::string> Read(const proto::onnx::TensorProto& tensor, int64_t size_bytes);

 private:
  checkpoint::FileSystem& files_;
  std::string folder_;
  std::map<std::string, std::unique_ptr<checkpoint::ReadableFile>> open_;
};

// Converts: floating-point types to float32, integers to int64. Fails for types that have no such numbers.
absl::StatusOr<Tensor> ReadTensor(const proto::onnx::TensorProto& proto, ExternalData& external);

struct Model {
  Model();
  ~Model();
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;

  std::string file;  // for messages
  std::unique_ptr<proto::onnx::ModelProto> proto;
  std::shared_ptr<ExternalData> external;
  int64_t opset = 0;
  std::map<std::string, Tensor> initializers;
};

absl::StatusOr<Model> ReadModel(checkpoint::FileSystem& files, const std::string& path);
// `path` names the bytes in messages, and its folder is where external data lie.
absl::StatusOr<Model> ParseModel(absl::string_view bytes, checkpoint::FileSystem& files, const std::string& path);

// One error that says how many problems there are ("thing cannot be imported" of one), and lists them.
absl::Status ListOfProblems(const std::string& file, const std::vector<std::string>& problems, absl::string_view one,
                            absl::string_view several);

}  // namespace snug::core::onnx
