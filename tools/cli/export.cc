// `snug export NET --checkpoint=... --out=FILE.onnx` writes a network as an ONNX model.
#include "interchange/export/export.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/base/text/output_file.h"
#include "engine/compile/pipeline.h"
#include "engine/run/session/session.h"
#include "engine/train/checkpoint/init_from.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/output_flag.h"
#include "tools/cli/inference.h"

namespace snug::core::cli {
namespace {

struct ExportFlags {
  std::string out, checkpoint, init_from;
  std::vector<std::string> fetch;
  bool use_average = false, json = false;
  int64_t batch = 0, seed = 0;
};

// The parameters as a checkpoint or other weights have them, or as they are at first.
absl::StatusOr<std::unique_ptr<Session>> ParametersOf(LoadedNetwork& loaded, const ExportFlags& f) {
  if (f.use_average && f.checkpoint.empty()) {
    return absl::InvalidArgumentError("--use-average: expected --checkpoint beside it, which has the averages");
  }
  std::optional<Weights> weights;
  if (!f.checkpoint.empty()) {
    SNUG_ASSIGN_OR_RETURN(Weights opened, OpenWeights(f.checkpoint));
    SNUG_RETURN_IF_ERROR(CheckNotRead("out", f.out, {opened.path}));
    weights.emplace(std::move(opened));
    SNUG_RETURN_IF_ERROR(SetTrainedClasses(*weights, &loaded.network));
  }
  SNUG_ASSIGN_OR_RETURN(Compiled compiled, Compile(loaded.network, loaded.source_map, OpRegistry::Builtin(),
                                                   {.batch = 1, .training = false, .fetch = f.fetch}));
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                        Session::Create(std::move(compiled), {.seed = static_cast<uint64_t>(f.seed)}));
  if (weights.has_value()) {
    SNUG_RETURN_IF_ERROR(LoadWeights(*weights, f.use_average, *session));
  } else if (!f.init_from.empty()) {
    checkpoint::PosixFileSystem files;
    SNUG_ASSIGN_OR_RETURN(const checkpoint::InitReport report, checkpoint::InitFrom(*session, files, f.init_from, {}));
    SNUG_RETURN_IF_ERROR(CheckNotRead("out", f.out, {report.path}));
    std::fprintf(stderr, "%s\n", report.ToString().c_str());
  }
  return session;
}

}  // namespace

absl::StatusOr<int> RunExport(const Arguments& arguments) {
  ExportFlags f;
  Flags flags("snug export NET --out=FILE.onnx [flags]",
              absl::StrCat("Writes what a network computes forwards as an ONNX model (opset ", onnx::kExportedOpset,
                           "), for any number of samples.\nWhat ONNX cannot express is listed, by node, and nothing is "
                           "written. docs/onnx.md tells more."));
  flags.Add("out", &f.out, "the file");
  flags.Add("checkpoint", &f.checkpoint,
            "the parameters: a file of safetensors or of PyTorch, or the directory that `snug train` left; default: as "
            "they are at first");
  flags.Add("init-from", &f.init_from, "the same, but those that the file lacks stay as they are at first");
  flags.Add("use-average", &f.use_average, "take the moving averages in the checkpoint, which --average-decay keeps");
  flags.Add("fetch", &f.fetch,
            "the outputs; default: what the objective and the outputs are computed from, as the scores");
  flags.Add("batch", &f.batch, "exactly so many samples; default: any number");
  flags.Add("seed", &f.seed, "of parameters as they are at first; default 0");
  AddJsonFlag(flags, &f.json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (f.out.empty()) return absl::InvalidArgumentError("--out: expected the name of a file to write");
  if (!f.checkpoint.empty() && !f.init_from.empty()) {
    return absl::InvalidArgumentError("--init-from: the parameters come from --checkpoint: give one of the two");
  }
  SNUG_RETURN_IF_ERROR(CheckNotRead("out", f.out, {file}));
  SNUG_ASSIGN_OR_RETURN(LoadedNetwork loaded, LoadNetworkFile(file));
  onnx::ExportOptions options{.fetch = f.fetch, .batch = f.batch, .file = file};
  SNUG_ASSIGN_OR_RETURN(options.fetch, onnx::ExportedOutputs(loaded.network, loaded.source_map, options));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, ParametersOf(loaded, f));
  const auto content = [&](const std::string& name) -> absl::StatusOr<std::vector<float>> {
    SNUG_ASSIGN_OR_RETURN(const ValueView view, session->FindVariable(name, HostAccess::kRead));
    SNUG_CHECK(view.type->dtype == DType::kFloat32);
    const auto* numbers = reinterpret_cast<const float*>(view.data);
    return std::vector<float>(numbers, numbers + view.type->shape.num_elements());
  };
  SNUG_ASSIGN_OR_RETURN(const std::string bytes,
                        onnx::ExportModel(loaded.network, loaded.source_map, options, content));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<OutputFile> out, OutputFile::Create(f.out));
  out->Write(bytes);
  SNUG_RETURN_IF_ERROR(out->Finish());
  if (f.json) {
    Json json;
    json.Object().Key("file").String(f.out).Key("opset").Number(onnx::kExportedOpset);
    json.Key("bytes").Number(static_cast<int64_t>(bytes.size())).Key("outputs").Array();
    for (const std::string& name : options.fetch) json.String(name);
    json.End().End();
    std::puts(json.text().c_str());
    return 0;
  }
  std::printf("%s: opset %d, outputs %s\n", f.out.c_str(), static_cast<int>(onnx::kExportedOpset),
              absl::StrJoin(options.fetch, ", ").c_str());
  return 0;
}

}  // namespace snug::core::cli
