// What peers_test.py needs of the library, as a program:
//
//   checkpoint_peer copy IN OUT              every tensor and all metadata, read and written
//   checkpoint_peer train MODEL STEPS OUT    a model's state after some steps on random data
//   checkpoint_peer predict MODEL WEIGHTS INPUTS VALUES OUT
//                                            evaluates a model on the inputs of a file, and writes some of its values,
//                                            whose names have commas between them
#include <absl/strings/str_split.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/compile/pipeline.h"
#include "engine/run/session/random_feed.h"
#include "engine/run/session/session.h"
#include "engine/train/checkpoint/element_type.h"
#include "engine/train/checkpoint/file_system.h"
#include "engine/train/checkpoint/session_state.h"
#include "proto/text_loader.h"

namespace snug::core::checkpoint {
namespace {

absl::StatusOr<std::vector<std::byte>> ReadAll(const SafetensorsFile& file, const TensorEntry& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(tensor.size_bytes()));
  SNUG_RETURN_IF_ERROR(file.Read(tensor, absl::MakeSpan(bytes)));
  return bytes;
}

absl::Status Write(const std::vector<TensorBytes>& tensors, const Metadata& metadata, const std::string& path) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, PosixFileSystem().Create(path));
  SNUG_RETURN_IF_ERROR(WriteSafetensors(tensors, metadata, *file));
  return file->Close();
}

absl::Status Copy(const std::string& from, const std::string& to) {
  PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(files, from));
  std::vector<std::vector<std::byte>> contents;
  std::vector<TensorBytes> tensors;
  for (const TensorEntry& tensor : file.header().tensors) {
    SNUG_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, ReadAll(file, tensor));
    contents.push_back(std::move(bytes));
    tensors.push_back({tensor.name, tensor.type, tensor.shape, contents.back()});
  }
  return Write(tensors, file.header().metadata, to);
}

absl::StatusOr<std::unique_ptr<Session>> Load(const std::string& model, CompileOptions options) {
  options.keep_inputs = true;
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(model));
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(), options));
  return Session::Create(std::move(compiled), {.seed = 1});
}

absl::Status Train(const std::string& model, int steps, const std::string& to) {
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, Load(model, {.batch = 2}));
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, OpRegistry::Builtin(), 1));
  for (int step = 0; step < steps; ++step) SNUG_RETURN_IF_ERROR(session->Run());
  return Write(StateOf(*session), {}, to);
}

absl::Status Predict(const std::string& model, const std::string& weights, const std::string& inputs,
                     const std::vector<std::string>& values, const std::string& to) {
  PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const SafetensorsFile data, SafetensorsFile::Open(files, inputs));
  if (data.header().tensors.empty()) return absl::InvalidArgumentError("no inputs");
  const int64_t batch = data.header().tensors[0].shape.at(0);
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                        Load(model, {.batch = batch, .training = false, .fetch = values}));
  SNUG_ASSIGN_OR_RETURN(const LoadedState state, LoadState(*session, files, weights, LoadMode::kWeights));
  for (const std::string& note : state.notes) std::fprintf(stderr, "%s\n", note.c_str());
  SNUG_RETURN_IF_ERROR(FeedRandom(*session, OpRegistry::Builtin(), 1));  // labels, which the file leaves out
  for (const TensorEntry& tensor : data.header().tensors) {
    SNUG_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ReadAll(data, tensor));
    std::vector<double> values(bytes.size() / static_cast<size_t>(SizeOf(tensor.type)));
    Convert(tensor.type, bytes, DType::kFloat64, reinterpret_cast<std::byte*>(values.data()));
    SNUG_RETURN_IF_ERROR(session->Feed(tensor.name, values));
  }
  SNUG_RETURN_IF_ERROR(session->Run());
  std::vector<std::vector<double>> contents;
  std::vector<TensorBytes> tensors;
  for (const std::string& value : values) {
    SNUG_ASSIGN_OR_RETURN(const ValueView view, session->Output(value));
    SNUG_ASSIGN_OR_RETURN(std::vector<double> numbers, session->Fetch(value));
    const absl::Span<const int64_t> dims = view.type->shape.dims();
    contents.push_back(std::move(numbers));
    tensors.push_back(
        {value,
         ElementType::kF64,
         {dims.begin(), dims.end()},
         {reinterpret_cast<const std::byte*>(contents.back().data()), contents.back().size() * sizeof(double)}});
  }
  return Write(tensors, {}, to);
}

absl::Status Main(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "copy") return Copy(arguments[1], arguments[2]);
  if (arguments.size() == 4 && arguments[0] == "train") {
    return Train(arguments[1], std::atoi(arguments[2].c_str()), arguments[3]);
  }
  if (arguments.size() == 6 && arguments[0] == "predict") {
    return Predict(arguments[1], arguments[2], arguments[3], absl::StrSplit(arguments[4], ','), arguments[5]);
  }
  return absl::InvalidArgumentError("the arguments are at the top of peer.cc");
}

}  // namespace
}  // namespace snug::core::checkpoint

int main(int argc, char** argv) {
  const absl::Status status = snug::core::checkpoint::Main({argv + 1, argv + argc});
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
