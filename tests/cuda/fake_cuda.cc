#include "tests/cuda/fake_cuda.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/base/status.h"
#include "tests/cuda/fake_cuda_table.h"

namespace snug::core::cuda {
namespace {

State* g_state = nullptr;

std::string Several(size_t n, const char* what) {
  return n == 0 ? "" : std::to_string(n) + " " + what + (n == 1 ? " " : "s ");
}

}  // namespace

State& fake::CurrentState() { return *g_state; }

bool fake::GivesBack(const std::string& name) {
  static const auto* const names = new std::set<std::string>{
      "cuMemFree",           "cuMemFreeHost",      "cuMemAddressFree", "cuMemRelease",
      "cuMemUnmap",          "cuStreamDestroy",    "cuEventDestroy",   "cuDevicePrimaryCtxRelease",
      "cuStreamEndCapture",  "cuGraphExecDestroy", "cuGraphDestroy",   "cuLibraryUnload",
      "nvrtcDestroyProgram", "cublasLtDestroy",    "cudnnDestroy",     "cudnnBackendDestroyDescriptor"};
  return names->count(name) == 1;
}

FakeCuda::FakeCuda(const FakeOptions& options) : state_(std::make_unique<State>(options)) {
  SNUG_CHECK(g_state == nullptr);
  g_state = state_.get();
}

FakeCuda::~FakeCuda() { g_state = nullptr; }

std::shared_ptr<const Api> FakeCuda::api() const {
  std::vector<LibraryState> libraries;
  for (const Library library :
       {Library::kDriver, Library::kRuntime, Library::kCublasLt, Library::kCudnn, Library::kNvrtc}) {
    const bool optional = library == Library::kCublasLt || library == Library::kCudnn;
    const bool missing = optional && state_->options.libraries == FakeLibraries::kMissing;
    libraries.push_back({library, "pretended", "13.0", missing ? "not there" : ""});
  }
  Table table;
  fake::FillDriver(&table);
  fake::FillLibraries(&table);
  fake::FillCompiler(&table);
#define SNUG_CUDA_FUNCTION(library, function) SNUG_CHECK_MSG(table.function != nullptr, #function);
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
  return std::make_shared<const Api>(table, std::move(libraries));
}

absl::Status FakeCuda::Run(CUstream_st* stream, const std::string& name, std::function<void()> work) {
  if (state_->Fails(name)) return absl::InternalError(name + " failed: CUDA_ERROR_UNKNOWN (unknown error)");
  state_->Push(stream, std::move(work));
  return absl::OkStatus();
}

const std::vector<std::string>& FakeCuda::calls() const { return state_->calls; }
int64_t FakeCuda::Count(const std::string& name) const {
  return std::count(state_->calls.begin(), state_->calls.end(), name);
}
const std::vector<int>& FakeCuda::algorithms() const { return state_->algorithms; }
void FakeCuda::ClearCalls() {
  state_->calls.clear();
  state_->algorithms.clear();
}

void FakeCuda::FailCall(int64_t n, const std::string& only) {
  state_->until_failure = n;
  state_->fails_only = only;
  state_->has_failed = false;
}
bool FakeCuda::has_failed() const { return state_->has_failed; }

std::string FakeCuda::Leaks() const {
  const State& s = *state_;
  return Several(static_cast<size_t>(s.contexts), "context") + Several(s.blocks.size(), "block") +
         Several(s.pinned.size(), "pinned block") + Several(s.reserved.size(), "reservation") +
         Several(s.handles.size(), "handle") + Several(s.mapped.size(), "mapping") +
         Several(s.streams.size(), "stream") + Several(s.events.size(), "event") + Several(s.graphs.size(), "graph") +
         Several(s.executables.size(), "executable graph") +
         Several(static_cast<size_t>(s.cublas_handles), "cuBLASLt handle") +
         Several(static_cast<size_t>(s.cudnn_handles), "cuDNN handle") +
         Several(static_cast<size_t>(s.cudnn_descriptors), "cuDNN descriptor") + Several(s.programs.size(), "program") +
         Several(s.libraries.size(), "library") + (s.capture != nullptr ? "capture" : "");
}
int64_t FakeCuda::used_bytes() const { return state_->used(); }
bool FakeCuda::OnDevice(const void* address) const { return state_->OnDevice(address); }

}  // namespace snug::core::cuda
