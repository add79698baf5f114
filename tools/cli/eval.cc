// `snug eval NET --checkpoint=...` tells how good trained parameters are on data.
#include <absl/strings/str_format.h>

#include <cstdio>
#include <memory>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "tools/cli/command.h"
#include "tools/cli/inference.h"

namespace snug::core::cli {

absl::StatusOr<int> RunEval(const Arguments& arguments) {
  InferenceFlags f;
  bool json = false;
  Flags flags(
      "snug eval NET --checkpoint=PATH [flags]",
      "Runs trained parameters over data and prints the means of the loss and of each metric. The data are those\n"
      "of the model file's `training { }`, unless --data says otherwise.");
  f.AddTo(flags);
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  SNUG_ASSIGN_OR_RETURN(const std::unique_ptr<Inference> inference, PrepareInference(file, f, {}));
  SNUG_ASSIGN_OR_RETURN(const Evaluator::Report report, inference->evaluator->Run(f.batches));
  if (json) {
    Json out;
    out.Object().Key("checkpoint").String(inference->checkpoint).Key("samples").Number(report.samples);
    out.Key("seconds").Number(report.seconds).Key("metrics").Object();
    for (const auto& [name, value] : report.metrics) out.Key(name).Number(value);
    out.End();
    WriteKernels(inference->session->compiled(), out);
    WriteFallbacks(inference->session->fallbacks(), out);
    out.End();
    std::puts(out.text().c_str());
    return 0;
  }
  absl::PrintF("%s, %d samples, %.2f s\n", inference->checkpoint, report.samples, report.seconds);
  for (const auto& [name, value] : report.metrics) absl::PrintF("%-20s %.6g\n", name, value);
  return 0;
}

}  // namespace snug::core::cli
