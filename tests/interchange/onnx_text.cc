#include "tests/interchange/onnx_text.h"

#include <google/protobuf/text_format.h>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "interchange/onnx.pb.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core::onnx {

OnnxText::OnnxText(int64_t opset) : proto_(std::make_unique<proto::onnx::ModelProto>()) {
  proto_->set_ir_version(8);
  proto_->add_opset_import()->set_version(opset);
  proto_->mutable_graph()->set_name("test");
}
OnnxText::OnnxText(OnnxText&&) noexcept = default;
OnnxText::~OnnxText() = default;

void OnnxText::Input(const std::string& name, const std::vector<int64_t>& dims, int type) {
  auto* input = proto_->mutable_graph()->add_input();
  input->set_name(name);
  auto* tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const int64_t dim : dims) {
    dim > 0 ? tensor->mutable_shape()->add_dim()->set_dim_value(dim)
            : tensor->mutable_shape()->add_dim()->set_dim_param("n");
  }
}

void OnnxText::Output(const std::string& name) { proto_->mutable_graph()->add_output()->set_name(name); }

void OnnxText::Weight(const std::string& name, const std::vector<int64_t>& dims, const std::vector<float>& values) {
  auto* tensor = proto_->mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(1);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  for (const float value : values) tensor->add_float_data(value);
}

void OnnxText::Weight(const std::string& name, const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(0.01F * static_cast<float>((i * 37) % 101 - 50));
  Weight(name, dims, values);
}

void OnnxText::Ints(const std::string& name, const std::vector<int64_t>& dims, const std::vector<int64_t>& values) {
  auto* tensor = proto_->mutable_graph()->add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(7);
  for (const int64_t dim : dims) tensor->add_dims(dim);
  for (const int64_t value : values) tensor->add_int64_data(value);
}

void OnnxText::Nodes(const std::string& text) {
  proto::onnx::GraphProto nodes;
  SNUG_CHECK(google::protobuf::TextFormat::ParseFromString(text, &nodes));
  proto_->mutable_graph()->MergeFrom(nodes);
}

std::string OnnxText::Bytes() const { return proto_->SerializeAsString(); }

absl::StatusOr<ImportedModel> OnnxText::Import(const ImportModelOptions& options) const {
  return ImportBytes(Bytes(), options);
}

absl::StatusOr<ImportedModel> ImportBytes(const std::string& bytes, const ImportModelOptions& options) {
  checkpoint::PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const Model model, ParseModel(bytes, files, "test.onnx"));
  return ImportModel(model, options);
}

absl::StatusOr<std::vector<double>> Evaluate(const ImportedModel& imported, const std::string& output, int64_t batch,
                                             const std::vector<Fed>& feeds) {
  SNUG_ASSIGN_OR_RETURN(Compiled compiled,
                        Compile(*imported.network, SourceMap("test"), OpRegistry::Builtin(),
                                {.batch = batch, .training = false, .fetch = {output}, .keep_inputs = true}));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Session::Create(std::move(compiled), {}));
  for (const auto& [name, tensor] : imported.weights) {
    const std::vector<double> values(tensor.floats().begin(), tensor.floats().end());
    SNUG_RETURN_IF_ERROR(session->SetVariable(name, values));
  }
  for (const Fed& fed : feeds) SNUG_RETURN_IF_ERROR(session->Feed(fed.name, fed.values));
  SNUG_RETURN_IF_ERROR(session->Run());
  return session->Fetch(output);
}

}  // namespace snug::core::onnx
