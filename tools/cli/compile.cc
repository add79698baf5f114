// `snug compile NET` shows what becomes of a model file.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "engine/compile/control/loop_report.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/summary.h"
#include "engine/compile/unread_parameters.h"
#include "engine/graph/graph.h"
#include "engine/run/session/fallbacks.h"
#include "proto/network_writer.h"
#include "proto/text_loader.h"
#include "tools/cli/command.h"
#include "tools/cli/flags/compile_flags.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/memory_flags.h"
#include "tools/cli/flags/run_flags.h"

namespace snug::core::cli {
namespace {

struct Stage {
  std::string name, text, dot;
};

absl::Status WriteFile(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path.string(), ": ", std::strerror(errno)));
}

absl::Status WriteStages(const std::string& directory, const std::vector<Stage>& stages) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot make the folder ", directory, ": ", error.message()));
  for (const Stage& stage : stages) {
    const std::filesystem::path path = std::filesystem::path(directory) / stage.name;
    SNUG_RETURN_IF_ERROR(WriteFile(path.string() + ".txt", stage.text));
    if (!stage.dot.empty()) SNUG_RETURN_IF_ERROR(WriteFile(path.string() + ".dot", stage.dot));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunCompile(const Arguments& arguments) {
  CompileFlags compile_flags;
  MemoryFlags memory_flags;
  bool train = false;
  bool json = false;
  std::string dump;
  std::vector<std::string> gradients, fetch;
  Flags flags("snug compile NET [flags]",
              "Compiles a model file and says what it became: parameters, nodes, multiply-adds, bytes.");
  flags.Add("train", &train, "with backward pass and updates; default: forward only");
  flags.Add("dump", &dump, "folder to write every stage to, as text and Graphviz dot");
  flags.Add("fetch", &fetch, "values to keep fetchable, by name");
  flags.Add("gradients", &gradients, "values whose gradients are wanted too, by name (with --train)");
  compile_flags.AddTo(flags);
  compile_flags.AddKeepDerivedTo(flags);
  compile_flags.AddOnlyTo(flags);
  memory_flags.AddTo(flags);
  AddJsonFlag(flags, &json);
  SNUG_ASSIGN_OR_RETURN(const std::string file, flags.ParseOne(arguments, "a model file"));
  if (!gradients.empty() && !train) {
    return absl::InvalidArgumentError("--gradients goes with --train: without it there is no backward pass");
  }
  SNUG_ASSIGN_OR_RETURN(const LoadedNetwork loaded, LoadNetworkFile(file));
  SNUG_ASSIGN_OR_RETURN(CompileOptions options, compile_flags.Options(memory_flags.streams.count));
  SNUG_ASSIGN_OR_RETURN(options.memory, memory_flags.Options({&loaded}));
  options.training = train;
  options.fetch = fetch;
  options.gradients = gradients;

  const OpRegistry& registry = OpRegistry::Builtin();
  std::vector<Stage> stages = {{"00_network", WriteNetworkText(loaded.network), ""}};
  if (!dump.empty()) {
    options.observer = [&](absl::string_view stage, const Graph& graph) {
      stages.push_back({std::string(stage), ToText(graph), ToDot(graph)});
    };
  }
  SNUG_ASSIGN_OR_RETURN(const Compiled compiled, Compile(loaded.network, loaded.source_map, registry, options));
  SayWhatVaries(compiled);
  std::fputs(InVainText(compiled).c_str(), stderr);
  std::fputs(UnreadParametersText(compiled).c_str(), stderr);
  Fallbacks fallbacks(nullptr);
  SNUG_RETURN_IF_ERROR(fallbacks.AddPassedOver(compiled));
  const GraphSummary& summary = compiled.summary;
  const double multiply_adds = summary.multiply_adds / static_cast<double>(compiled.batch);

  if (!dump.empty()) {
    stages.push_back({"75_passed_over", PassedOverText(compiled), ""});
    if (!compiled.loops.empty()) stages.push_back({"77_loops", LoopsText(compiled), ""});
    stages.push_back({"80_order", OrderText(compiled), ""});
    stages.push_back({"90_plan", PlanText(compiled), ""});
    SNUG_RETURN_IF_ERROR(WriteStages(dump, stages));
  }
  if (json) {
    Json out;
    out.Object()
        .Key("network")
        .String(loaded.network.name())
        .Key("batch")
        .Number(compiled.batch)
        .Key("training")
        .Bool(train);
    out.Key("parameters").Number(summary.parameters).Key("nodes").Number(summary.nodes);
    out.Key("multiply_adds")
        .Number(static_cast<int64_t>(multiply_adds))
        .Key("activation_bytes")
        .Number(summary.activation_bytes);
    WriteLoops(compiled, out);
    WriteFallbacks(fallbacks.all(), out);
    out.End();
    std::puts(out.text().c_str());
  } else {
    absl::PrintF(
        "%s, batch %d, %s\nparameters        %d\nnodes             %d\nmultiply-adds     %d per sample\nactivation "
        "bytes  %d\n",
        loaded.network.name(), compiled.batch, train ? "training" : "forward only", summary.parameters, summary.nodes,
        static_cast<int64_t>(multiply_adds), summary.activation_bytes);
    std::fputs(LoopsText(compiled).c_str(), stdout);
    if (!dump.empty()) absl::PrintF("every stage is in %s\n", dump);
  }
  return 0;
}

}  // namespace snug::core::cli
