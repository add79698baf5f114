#include "engine/cuda/cuda_compile.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <algorithm>
#include <vector>

#include "engine/base/hash.h"
#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {
namespace {

// What NVRTC compiles for. `number` is 10 times the major number of a compute capability, plus the minor one.
struct Target {
  int number = 0;
  bool ptx = false;  // code for any later device, which the driver translates
};

// These are nvcc's choices for our other kernels: both turn a product and a sum into one instruction.
std::vector<std::string> OptionsFor(const Target& target) {
  return {absl::StrCat("--gpu-architecture=", target.ptx ? "compute_" : "sm_", target.number), "--std=c++20",
          "--fmad=true"};
}

constexpr absl::string_view kAskingForTargets = "asking NVRTC which devices it compiles for";
constexpr absl::string_view kAdvice = "--disable-passes=fuse_elementwise does without";

absl::Status RequireNvrtc(const Api& api) {
  absl::Status there = api.Require(Library::kNvrtc);
  if (there.ok()) return there;
  return absl::Status(there.code(), absl::StrCat(there.message(), "; ", kAdvice));
}

// Returns the targets that NVRTC compiles for.
absl::StatusOr<std::vector<int>> TargetNumbers(const Api& api) {
  int count = 0;
  SNUG_CUDA_CALL(api, nvrtcGetNumSupportedArchs, (&count), kAskingForTargets);
  std::vector<int> numbers(static_cast<size_t>(std::max(count, 0)));
  if (!numbers.empty()) SNUG_CUDA_CALL(api, nvrtcGetSupportedArchs, (numbers.data()), kAskingForTargets);
  return numbers;
}

// Returns the target for a device. An NVRTC that is older than the device compiles for the last one before it that it
// knows. If it knows none, compiling will say so.
absl::StatusOr<Target> TargetFor(const Api& api, int major, int minor) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<int> numbers, TargetNumbers(api));
  const int wanted = 10 * major + minor;
  Target best;
  for (const int number : numbers) {
    if (number <= wanted) best.number = std::max(best.number, number);
  }
  best.ptx = best.number != 0 && best.number != wanted;
  if (best.number == 0) best.number = wanted;
  return best;
}

// Owns a program of NVRTC's.
class Program {
 public:
  explicit Program(const Api& api) : api_(api) {}
  ~Program() {
    if (handle_ != nullptr) api_.table().nvrtcDestroyProgram(&handle_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  absl::Status Create(const KernelSource& source) {
    std::vector<const char*> names, texts;
    for (const SourceHeader& header : source.headers) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    SNUG_CUDA_CALL(
        api_, nvrtcCreateProgram,
        (&handle_, source.text.c_str(), "fused.cu", static_cast<int>(names.size()), texts.data(), names.data()),
        Doing(source));
    return absl::OkStatus();
  }

  absl::Status Compile(const KernelSource& source, const Target& target) {
    const std::vector<std::string> options = OptionsFor(target);
    std::vector<const char*> words;
    for (const std::string& option : options) words.push_back(option.c_str());
    const nvrtcResult result = api_.table().nvrtcCompileProgram(handle_, static_cast<int>(words.size()), words.data());
    if (result == NVRTC_SUCCESS) return absl::OkStatus();
    return Annotate(api_.Error(Library::kNvrtc, "nvrtcCompileProgram", static_cast<int>(result), Doing(source)), Log());
  }

  absl::StatusOr<std::string> Code(const KernelSource& source, const Target& target) {
    size_t bytes = 0;
    if (target.ptx) {  // it ends with a zero, which the driver wants
      SNUG_CUDA_CALL(api_, nvrtcGetPTXSize, (handle_, &bytes), Doing(source));
      std::string text(bytes, '\0');
      SNUG_CUDA_CALL(api_, nvrtcGetPTX, (handle_, text.data()), Doing(source));
      return text;
    }
    SNUG_CUDA_CALL(api_, nvrtcGetCUBINSize, (handle_, &bytes), Doing(source));
    std::string code(bytes, '\0');
    SNUG_CUDA_CALL(api_, nvrtcGetCUBIN, (handle_, code.data()), Doing(source));
    return code;
  }

 private:
  static std::string Doing(const KernelSource& source) {
    return absl::StrCat("compiling the kernel of ", source.name, " (", kAdvice, ")");
  }

  // Returns what the compiler said, which may be nothing.
  std::string Log() const {
    size_t bytes = 0;
    if (api_.table().nvrtcGetProgramLogSize(handle_, &bytes) != NVRTC_SUCCESS || bytes <= 1) return "NVRTC";
    std::string log(bytes, '\0');
    if (api_.table().nvrtcGetProgramLog(handle_, log.data()) != NVRTC_SUCCESS) return "NVRTC";
    log.resize(bytes - 1);
    return log;
  }

  const Api& api_;
  nvrtcProgram handle_ = nullptr;
};

}  // namespace

absl::StatusOr<std::string> CompilerText(const Api& api, absl::Span<const SourceHeader> headers, int major, int minor) {
  SNUG_RETURN_IF_ERROR(RequireNvrtc(api));
  int version = 0;
  int subversion = 0;
  SNUG_CUDA_CALL(api, nvrtcVersion, (&version, &subversion), "asking NVRTC for its version");
  SNUG_ASSIGN_OR_RETURN(const Target target, TargetFor(api, major, minor));
  uint64_t hash = 0;
  for (const SourceHeader& header : headers) hash = HashName(absl::StrCat(hash, header.name, "\n", header.text));
  return absl::StrCat("NVRTC ", version, ".", subversion, " ", absl::StrJoin(OptionsFor(target), " "), " headers ",
                      absl::Hex(hash));
}

absl::StatusOr<std::string> CompileForDevice(const Api& api, const KernelSource& source, int major, int minor) {
  SNUG_RETURN_IF_ERROR(RequireNvrtc(api));
  SNUG_ASSIGN_OR_RETURN(const Target target, TargetFor(api, major, minor));
  Program program(api);
  SNUG_RETURN_IF_ERROR(program.Create(source));
  SNUG_RETURN_IF_ERROR(program.Compile(source, target));
  return program.Code(source, target);
}

absl::Status TryCompiler(const Api& api) {
  SNUG_RETURN_IF_ERROR(api.Require(Library::kNvrtc));
  const auto compile = [&]() -> absl::Status {
    SNUG_ASSIGN_OR_RETURN(const std::vector<int> numbers, TargetNumbers(api));
    if (numbers.empty()) return absl::InternalError("it knows no device");
    const KernelSource nothing{.name = "a trial", .text = "extern \"C\" __global__ void trial() {}\n", .headers = {}};
    return CompileForDevice(api, nothing, numbers.back() / 10, numbers.back() % 10).status();
  };
  const absl::Status compiled = compile();
  if (compiled.ok()) return compiled;
  return absl::FailedPreconditionError(absl::StrCat("NVRTC is there and compiles nothing: ", compiled.message()));
}

}  // namespace snug::core::cuda
