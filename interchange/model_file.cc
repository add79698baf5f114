#include "interchange/model_file.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>

#include <limits>
#include <set>
#include <utility>

#include "engine/base/status.h"
#include "interchange/onnx.pb.h"

#if __has_include(<google/protobuf/stubs/logging.h>)  // before protobuf 22
#include <google/protobuf/stubs/logging.h>
#define SNUG_SILENCE_PROTOBUF const google::protobuf::LogSilencer silencer
#else
#define SNUG_SILENCE_PROTOBUF
#endif

namespace snug::core::onnx {
namespace {

constexpr size_t kMostListed = 50;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

absl::Status CheckOpsets(const proto::onnx::ModelProto& proto, Model* model) {
  for (const proto::onnx::OperatorSetIdProto& set : proto.opset_import()) {
    if (set.domain().empty() || set.domain() == "ai.onnx") model->opset = set.version();
  }
  if (model->opset == 0) {
    return absl::InvalidArgumentError(
        "names no version of ONNX's standard ops (opset_import): it is no complete model");
  }
  if (model->opset < kOldestOpset || model->opset > kNewestOpset) {
    return absl::InvalidArgumentError(
        absl::StrCat("opset ", model->opset, ": versions ", kOldestOpset, " to ", kNewestOpset,
                     " are understood; export it anew, or convert it with onnx.version_converter"));
  }
  return absl::OkStatus();
}

}  // namespace

Model::Model() = default;
Model::~Model() = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

absl::StatusOr<std::string> ExternalData::Read(const proto::onnx::TensorProto& tensor, int64_t size_bytes) {
  std::string location;
  int64_t offset = 0, length = size_bytes;
  for (const proto::onnx::StringStringEntryProto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    int64_t* number = entry.key() == "offset" ? &offset : entry.key() == "length" ? &length : nullptr;
    if (number != nullptr && (!absl::SimpleAtoi(entry.value(), number) || *number < 0)) {
      return absl::InvalidArgumentError(absl::StrCat("external data: expected a number of bytes as ", entry.key(),
                                                     ", found \"", entry.value(), "\""));
    }
  }
  // A model that came from elsewhere must not make us read other files than its own.
  const std::vector<std::string> parts = absl::StrSplit(location, '/');
  if (location.empty() || location[0] == '/' || std::find(parts.begin(), parts.end(), "..") != parts.end() ||
      location.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("external data: expected a file in the model's folder, found \"", location, "\""));
  }
  if (length != size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("external data: ", length, " bytes for a tensor of ", size_bytes));
  }
  std::unique_ptr<checkpoint::ReadableFile>& file = open_[location];
  if (file == nullptr) {
    SNUG_ASSIGN_OR_RETURN(file, files_.Open(absl::StrCat(folder_, folder_.back() == '/' ? "" : "/", location)));
  }
  if (offset > file->size_bytes() || length > file->size_bytes() - offset) {
    return absl::InvalidArgumentError(absl::StrCat("external data: ", length, " bytes from byte ", offset, " on of ",
                                                   location, ", which has ", file->size_bytes()));
  }
  std::string bytes(static_cast<size_t>(length), '\0');
  SNUG_RETURN_IF_ERROR(file->Read(offset, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
  return bytes;
}

absl::Status ListOfProblems(const std::string& file, const std::vector<std::string>& problems, absl::string_view one,
                            absl::string_view several) {
  std::string text = absl::StrCat(file, ": ", problems.size(), " ", problems.size() == 1 ? one : several, ":");
  for (size_t i = 0; i < problems.size() && i < kMostListed; ++i) absl::StrAppend(&text, "\n  ", problems[i]);
  if (problems.size() > kMostListed) absl::StrAppend(&text, "\n  ... and ", problems.size() - kMostListed, " more");
  return absl::InvalidArgumentError(text);
}

absl::StatusOr<Model> ParseModel(absl::string_view bytes, checkpoint::FileSystem& files, const std::string& path) {
  Model model;
  model.file = path;
  model.proto = std::make_unique<proto::onnx::ModelProto>();
  const auto failed = [&path](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return failed("2 GiB or more, which protobuf cannot read: keep its tensors as external data");
  }
  // What is wrong is said by the error, not by lines of protobuf's own.
  SNUG_SILENCE_PROTOBUF;
  if (!model.proto->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return failed("is no ONNX file, or only a part of one: its protobuf cannot be read");
  }
  if (!model.proto->has_graph()) return failed("is no ONNX model: it has no graph");
  SNUG_RETURN_IF_ERROR(Annotate(CheckOpsets(*model.proto, &model), path));
  model.external = std::make_shared<ExternalData>(files, FolderOf(path));
  std::vector<std::string> problems;
  for (const proto::onnx::TensorProto& proto : model.proto->graph().initializer()) {
    absl::StatusOr<Tensor> tensor = ReadTensor(proto, *model.external);
    if (!tensor.ok()) {
      problems.push_back(absl::StrCat("initializer \"", proto.name(), "\": ", std::string(tensor.status().message())));
      continue;
    }
    tensor->name = proto.name();
    // Single numbers are constants of formulas, unless they have a name as parameters of programs do.
    tensor->is_weight = tensor->is_float() && (tensor->stored_count() != 1 || absl::StrContains(proto.name(), '.'));
    if (!model.initializers.emplace(proto.name(), *std::move(tensor)).second) {
      problems.push_back(absl::StrCat("initializer \"", proto.name(), "\" is there twice"));
    }
  }
  for (const proto::onnx::SparseTensorProto& sparse : model.proto->graph().sparse_initializer()) {
    problems.push_back(absl::StrCat("initializer \"", sparse.values().name(), "\": sparse tensors are not read"));
  }
  if (!problems.empty()) return ListOfProblems(path, problems, "problem", "problems");
  model.proto->mutable_graph()->clear_initializer();  // the bytes are in `initializers` now
  return model;
}

absl::StatusOr<Model> ReadModel(checkpoint::FileSystem& files, const std::string& path) {
  std::string bytes;
  {
    SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<checkpoint::ReadableFile> file, files.Open(path));
    if (file->size_bytes() > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": 2 GiB or more, which protobuf cannot read: keep its tensors as external data"));
    }
    bytes.resize(static_cast<size_t>(file->size_bytes()));
    SNUG_RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size())));
  }
  return ParseModel(bytes, files, path);
}

}  // namespace snug::core::onnx
