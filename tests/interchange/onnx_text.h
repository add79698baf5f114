// ONNX models for tests, written as text: the nodes in protobuf's text format, the rest by calls.
//
//   OnnxText model;
//   model.Input("x", {0, 3});                                     // 0: the batch, which stays open
//   model.Weight("fc.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
//   model.Nodes(R"(node { op_type: "Gemm" input: ["x", "fc.weight"] output: "y" })");
//   model.Output("y");
//   ASSERT_OK_AND_ASSIGN(const ImportedModel imported, model.Import());
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interchange/import/import.h"

namespace snug::proto::onnx {
class ModelProto;
}

namespace snug::core::onnx {

class OnnxText {
 public:
  explicit OnnxText(int64_t opset = 17);
  OnnxText(OnnxText&&) noexcept;
  ~OnnxText();

  void Input(const std::string& name, const std::vector<int64_t>& dims, int type = 1);
  void Output(const std::string& name);
  void Weight(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values);
  // Numbers that follow a pattern, for weights of which only the size matters.
  void Weight(const std::string& name, const std::vector<int64_t>& dims);
  void Ints(const std::string& name, const std::vector<int64_t>& dims, const std::vector<int64_t>& values);
  void Nodes(const std::string& text);

  proto::onnx::ModelProto& proto() { return *proto_; }
  std::string Bytes() const;
  absl::StatusOr<ImportedModel> Import(const ImportModelOptions& options = {}) const;

 private:
  std::unique_ptr<proto::onnx::ModelProto> proto_;
};

absl::StatusOr<ImportedModel> ImportBytes(const std::string& bytes, const ImportModelOptions& options = {});

// What the network puts out under this name, for the batch that the feeds have.
struct Fed {
  std::string name;
  std::vector<double> values;
};
absl::StatusOr<std::vector<double>> Evaluate(const ImportedModel& imported, const std::string& output, int64_t batch,
                                             const std::vector<Fed>& feeds);

}  // namespace snug::core::onnx
