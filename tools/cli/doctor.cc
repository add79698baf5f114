// `snug doctor` tells what this machine and this build have, and what Snug uses of it.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/has_cuda.h"
#include "engine/base/machine.h"
#include "engine/base/status.h"
#include "engine/base/text/json.h"
#include "memory/ilp/solver.h"
#include "ops/platform.h"
#if SNUG_HAS_CUDA
#include "engine/cuda/cuda_code_cache.h"
#include "engine/cuda/cuda_compile.h"
#include "engine/cuda/cuda_device.h"
#endif
#include "tools/cli/command.h"
#include "tools/cli/flags/flags.h"

namespace snug::core::cli {
namespace {

struct Finding {
  std::string what, found, note;  // `note` says what follows from it
};

std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

#if SNUG_HAS_CUDA
Finding ExamineFusion() {
  const std::string folder = cuda::DefaultCodeFolder();
  if (const absl::Status found = cuda::FindCompiler(); !found.ok()) {
    return {"fused kernels", "none",
            absl::StrCat("--device=cuda leaves out the pass fuse_elementwise: ", found.message())};
  }
  std::error_code ignored;
  if (std::filesystem::exists(folder, ignored) && !cuda::IsPrivate(folder)) {
    return {"fused kernels", "not kept", folder + ": expected a folder of yours that nobody else may write to"};
  }
  return {"fused kernels", folder.empty() ? "not kept" : folder,
          folder.empty() ? "each process compiles its own"
                         : "where what NVRTC compiled is kept; SNUG_KERNEL_CACHE names another folder, or is off"};
}

// Looks for the libraries, and for devices if the driver is there.
void ExamineCuda(std::vector<Finding>* findings) {
  for (const cuda::LibraryState& library : cuda::FindLibraries()) {
    const absl::string_view name = absl::StripPrefix(cuda::Name(library.library), "the ");
    findings->push_back({std::string(name), library.problem.empty() ? library.version : "none", library.problem});
  }
  findings->push_back(ExamineFusion());
  const absl::StatusOr<std::shared_ptr<const cuda::Api>> api = cuda::Api::Load();
  if (!api.ok()) return findings->push_back({"CUDA devices", "none", "this build computes on the processor here"});
  const absl::StatusOr<std::vector<cuda::DeviceInfo>> devices = cuda::ListDevices(**api);
  if (!devices.ok()) return findings->push_back({"CUDA devices", "none", std::string(devices.status().message())});
  for (const cuda::DeviceInfo& device : *devices) {
    const bool runs = cuda::RunsOn(cuda::CompiledArchitectures(), device.major, device.minor);
    findings->push_back({absl::StrCat("cuda:", device.index), device.ToString(),
                         runs ? "" : absl::StrCat("this build has code for ", cuda::CompiledArchitectures(), " only")});
  }
}
#else
void ExamineCuda(std::vector<Finding>* findings) {
  findings->push_back({"CUDA", "not in this build", "it computes on the processor; CMake finds CUDA where nvcc is"});
}
#endif

std::vector<Finding> Examine() {
  std::vector<Finding> findings;
  findings.push_back({"processor", ProcessorName(), ""});
  findings.push_back(
      {"processors", absl::StrCat(AvailableProcessors()), "that this process may use: --threads by default"});
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  const char* turns = std::getenv("GOMP_SPINCOUNT");
  findings.push_back({"idle threads",
                      policy != nullptr  ? absl::StrCat("OMP_WAIT_POLICY=", policy)
                      : turns != nullptr ? absl::StrCat("spin for ", turns, " turns")
                                         : "as OpenMP has them",
                      "GOMP_SPINCOUNT and OMP_WAIT_POLICY say how long they stay awake"});
  const Platform platform = CpuPlatform();
  findings.push_back({"instructions", platform.instructions, "what our own loops use; SNUG_ISA can lower it"});
  findings.push_back(
      {"memory", absl::StrFormat("%.1f GB", static_cast<double>(AvailableBytes()) * 1e-9), "free for arenas"});
  findings.push_back({"library", platform.library,
                      platform.library == "none" ? "without oneDNN convolutions take plain loops, which are slow"
                                                 : "for convolutions, matrix products and more"});
  findings.push_back({"ILP solvers", memory::IlpSolvers().empty() ? "none" : absl::StrJoin(memory::IlpSolvers(), ", "),
                      memory::IlpSolvers().empty() ? "--memory=olla is not there" : "for --memory=olla"});
  ExamineCuda(&findings);
  return findings;
}

}  // namespace

absl::StatusOr<int> RunDoctor(const Arguments& arguments) {
  bool json = false;
  Flags flags("snug doctor [flags]", "Says what this machine and this build have, and what Snug uses of it.");
  flags.Add("json", &json, "print one JSON document");
  SNUG_ASSIGN_OR_RETURN(const std::vector<std::string> positional, flags.Parse(arguments));
  if (!positional.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("expected no argument, found \"", positional[0], "\""));
  }
  const std::vector<Finding> findings = Examine();
  if (json) {
    Json out;
    out.Object();
    for (const Finding& finding : findings) out.Key(finding.what).String(finding.found);
    out.End();
    std::puts(out.text().c_str());
    return 0;
  }
  for (const Finding& finding : findings) {
    absl::PrintF("%-14s %s%s%s\n", finding.what, finding.found, finding.note.empty() ? "" : "; ", finding.note);
  }
  return 0;
}

}  // namespace snug::core::cli
