#include "interchange/import/import.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/base/text/output_file.h"
#include "engine/compile/import/import.h"
#include "engine/train/checkpoint/safetensors.h"
#include "interchange/import/graph_importer.h"
#include "interchange/onnx.pb.h"
#include "ops/registry.h"
#include "proto/network.pb.h"
#include "proto/network_writer.h"
#include "proto/text_loader.h"

namespace snug::core::onnx {
namespace {

// Whether nodes ask for sizes, of which the number of samples may be one.
bool AsksForSizes(const Model& model) {
  return absl::c_any_of(model.proto->graph().node(), [](const proto::onnx::NodeProto& node) {
    return node.op_type() == "Shape" || node.op_type() == "Size";
  });
}

// Where a file leaves the number of samples open and computes with it, another number must give the same network.
absl::Status CheckIsOfAnyBatch(const ImportedModel& imported, const Model& model, const ImportModelOptions& options) {
  GraphImporter importer(model, options);
  importer.Run(/*trial=*/1);
  const auto depends = [](absl::string_view what, absl::string_view name) {
    return absl::InvalidArgumentError(absl::StrCat(what, " \"", name,
                                                   "\": its numbers depend on how many samples there "
                                                   "are, which the file leaves open, and a network has any number"));
  };
  if (!importer.problems().empty()) return absl::InvalidArgumentError(importer.problems()[0]);
  const ImportedModel other = importer.Take();
  const auto& layers = imported.network->layer();
  for (int i = 0; i < layers.size(); ++i) {
    const bool same =
        i < other.network->layer_size() && layers[i].SerializeAsString() == other.network->layer(i).SerializeAsString();
    if (!same) return depends("layer", layers[i].name());
  }
  for (const auto& [name, tensor] : imported.weights) {
    const auto found = other.weights.find(name);
    const bool same = found != other.weights.end() && found->second.dims() == tensor.dims() &&
                      found->second.floats() == tensor.floats();
    if (!same) return depends("parameter", name);
  }
  return absl::OkStatus();
}

// What was made is what will be loaded: it is written, loaded and imported, for another number of samples than the one
// that it was made with, and asks for no other parameters than there are.
absl::Status CheckByLoading(const ImportedModel& imported) {
  const std::string text = WriteNetworkText(*imported.network);
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkText(text, "imported.pbtxt"));
  if (WriteNetworkText(loaded.network) != text)
    return absl::InternalError("the network is not loaded as it was written");
  SNUG_ASSIGN_OR_RETURN(const Imported graph, Import(loaded.network, loaded.source_map, OpRegistry::Builtin(),
                                                     {.batch = 2, .training = false}));
  size_t found = 0;
  for (const Variable& variable : graph.graph.variables()) {
    if (variable.role != VariableRole::kParameter && variable.role != VariableRole::kStatistic) continue;
    const auto it = imported.weights.find(variable.name);
    const absl::Span<const int64_t> shape = variable.type.shape.dims();
    if (it == imported.weights.end() || it->second.dims() != Dims(shape.begin(), shape.end())) {
      return absl::InternalError(absl::StrCat("there is no content for ", variable.name));
    }
    ++found;
  }
  if (found != imported.weights.size()) return absl::InternalError("there are weights that no layer has");
  return absl::OkStatus();
}

}  // namespace

ImportedModel::ImportedModel() = default;
ImportedModel::~ImportedModel() = default;
ImportedModel::ImportedModel(ImportedModel&&) noexcept = default;
ImportedModel& ImportedModel::operator=(ImportedModel&&) noexcept = default;

absl::StatusOr<ImportedModel> ImportModel(const Model& model, const ImportModelOptions& options) {
  GraphImporter importer(model, options);
  importer.Run();
  if (!importer.problems().empty()) {
    return ListOfProblems(model.file, importer.problems(), "thing cannot be imported", "things cannot be imported");
  }
  ImportedModel imported = importer.Take();
  if (imported.network->layer_size() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(model.file, ": computes nothing: its outputs are its inputs"));
  }
  if (importer.leaves_batch_open() && AsksForSizes(model)) {
    SNUG_RETURN_IF_ERROR(Annotate(CheckIsOfAnyBatch(imported, model, options), model.file));
  }
  SNUG_RETURN_IF_ERROR(Annotate(CheckByLoading(imported), model.file));
  return imported;
}

absl::Status WriteImported(const ImportedModel& imported, const std::string& prefix,
                           const std::vector<std::string>& comment) {
  checkpoint::PosixFileSystem files;
  const size_t slash = prefix.rfind('/');
  if (slash != std::string::npos && slash > 0) SNUG_RETURN_IF_ERROR(files.MakeDirectory(prefix.substr(0, slash)));
  std::vector<checkpoint::TensorBytes> tensors;
  for (const auto& [name, tensor] : imported.weights) {
    const std::vector<float>& floats = tensor.floats();
    tensors.push_back({name,
                       checkpoint::ElementType::kF32,
                       tensor.dims(),
                       {reinterpret_cast<const std::byte*>(floats.data()), floats.size() * sizeof(float)}});
  }
  std::string text;
  for (const std::string& line : comment) absl::StrAppend(&text, "# ", line, "\n");
  absl::StrAppend(&text, WriteNetworkText(*imported.network));
  const std::string weights = prefix + ".safetensors", temporary = weights + ".tmp";
  // Both files are complete before the first gets its name.
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> network, OutputFile::Create(prefix + ".pbtxt"));
  network->Write(text);
  bool renamed = false;
  const auto write = [&]() -> absl::Status {
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::WritableFile> file, files.Create(temporary));
    SNUG_RETURN_IF_ERROR(checkpoint::WriteSafetensors(tensors, {}, *file));
    SNUG_RETURN_IF_ERROR(file->Close());
    SNUG_RETURN_IF_ERROR(files.Rename(temporary, weights));
    renamed = true;
    return network->Finish();
  };
  absl::Status status = write();
  if (!status.ok()) {
    files.Remove(renamed ? weights : temporary).IgnoreError();
  }
  return status;
}

}  // namespace snug::core::onnx
