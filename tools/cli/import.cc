// `snug import FILE.onnx --out=WHERE` makes a model file and weights of an ONNX model.
#include "interchange/import/import.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "interchange/import/network_builder.h"
#include "interchange/model_file.h"
#include "proto/network.pb.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {
namespace {

std::string StemOf(const std::string& path) {
  const std::string name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos || dot == 0 ? name : name.substr(0, dot);
}

// A directory gets files that are called after the model's; anything else is what both names begin with.
std::string PrefixOf(const std::string& out, const std::string& file) {
  struct stat status = {};
  const bool folder = out.back() == '/' || (stat(out.c_str(), &status) == 0 && S_ISDIR(status.st_mode));
  return folder ? absl::StrCat(out, out.back() == '/' ? "" : "/", StemOf(file)) : out;
}

// "NAME:1,3,224,224"; names have colons too.
absl::Status AddShape(const std::string& text, std::map<std::string, onnx::Dims>* shapes) {
  const size_t colon = text.rfind(':');
  onnx::Dims dims;
  if (colon != std::string::npos && colon > 0) {
    for (const absl::string_view number : absl::StrSplit(text.substr(colon + 1), 'x')) {
      int64_t dim = 0;
      if (!absl::SimpleAtoi(number, &dim) || dim < 1) {
        dims.clear();
        break;
      }
      dims.push_back(dim);
    }
  }
  if (dims.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--shape: expected NAME:SIZExSIZEx..., batch and all, as tokens:1x128, found \"", text, "\""));
  }
  (*shapes)[text.substr(0, colon)] = dims;
  return absl::OkStatus();
}

void PrintJson(const onnx::ImportedModel& imported, const std::string& prefix) {
  int64_t parameters = 0;
  for (const auto& [name, tensor] : imported.weights) parameters += tensor.stored_count();
  Json json;
  json.Object().Key("network").String(prefix + ".pbtxt").Key("weights").String(prefix + ".safetensors");
  json.Key("layers").Number(static_cast<int64_t>(imported.network->layer_size())).Key("numbers").Number(parameters);
  for (const bool inputs : {true, false}) {
    json.Key(inputs ? "inputs" : "outputs").Array();
    for (const auto& [onnx_name, name] : inputs ? imported.inputs : imported.outputs) {
      json.Object().Key("onnx").String(onnx_name).Key("name").String(name).End();
    }
    json.End();
  }
  json.End();
  std::puts(json.text().c_str());
}

}  // namespace

absl::StatusOr<int> RunImport(const Arguments& arguments) {
  std::string out;
  onnx::ImportModelOptions options;
  std::vector<std::string> shapes;
  bool json = false, overwrite = false;
  Flags flags(
      "snug import FILE.onnx --out=WHERE [flags]",
      "Makes a model file of an ONNX model (opsets 11 to 21), and a safetensors file of its weights, for\n"
      "`snug train NET --init-from=WEIGHTS` and `snug predict NET --checkpoint=WEIGHTS`. What cannot be imported is\n"
      "listed, by node, and nothing is written. docs/onnx.md tells more.");
  flags.Add("out", &out, "a directory, or what the names of both files begin with: PREFIX.pbtxt, PREFIX.safetensors");
  flags.Add("shape", &shapes, "NAME:SIZExSIZEx...: sizes of an input that the file leaves open, batch and all");
  flags.Add("name", &options.name, "the network's name; default: the graph's");
  flags.Add(
      "loss", &options.loss,
      "softmax_cross_entropy or mean_squared_error of the first output, and a label: a network that can be trained");
  flags.Add("overwrite", &overwrite, "replace files of these names, whoever wrote them");
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "an ONNX file"));
  if (out.empty())
    return absl::InvalidArgumentError("--out: expected a directory, or what the files' names begin with");
  for (const std::string& shape : shapes) SNUG_RETURN_IF_ERROR(AddShape(shape, &options.shapes));
  if (options.name.empty()) options.name = StemOf(file);
  const std::string prefix = PrefixOf(out, file);
  for (const char* const ending : {".pbtxt", ".safetensors"}) {
    struct stat there = {};
    if (overwrite || stat((prefix + ending).c_str(), &there) != 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("--out: ", prefix, ending,
                                                   " is there already, and somebody may have ",
                                                   "changed it: choose another name, or --overwrite"));
  }
  checkpoint::PosixFileSystem files;
  SNUG_ASSIGN_OR_RETURN(const onnx::Model model, onnx::ReadModel(files, file));
  SNUG_ASSIGN_OR_RETURN(const onnx::ImportedModel imported, onnx::ImportModel(model, options));
  std::vector<std::string> comment = {absl::StrCat("Imported from ", file.substr(file.rfind('/') + 1), " (ONNX opset ",
                                                   model.opset, "); its weights are in ",
                                                   prefix.substr(prefix.rfind('/') + 1), ".safetensors.")};
  for (const auto& [onnx_name, name] : imported.outputs) {
    if (onnx_name != name)
      comment.push_back(absl::StrCat("Output \"", onnx::CleanName(onnx_name), "\" there is \"", name, "\" here."));
  }
  SNUG_RETURN_IF_ERROR(onnx::WriteImported(imported, prefix, comment));
  if (json) {
    PrintJson(imported, prefix);
    return 0;
  }
  std::printf("%s.pbtxt: %d layers\n%s.safetensors: %zu tensors\n", prefix.c_str(), imported.network->layer_size(),
              prefix.c_str(), imported.weights.size());
  for (const auto& [onnx_name, name] : imported.outputs) {
    std::printf("output %s: --fetch=%s\n", onnx_name.c_str(), name.c_str());
  }
  return 0;
}

}  // namespace snug::core::cli
