#include "tests/cuda/fake_cuda.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <type_traits>
#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"
#include "tests/cuda/fake_cublas.h"
#include "tests/cuda/fake_cudnn.h"
#include "tests/cuda/fake_graph.h"

namespace snug::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGranularity = 2 << 20;
constexpr int kPoison = 0xee;
constexpr size_t kPoisoned = 1 << 20;  // of a block: large ones stay untouched, which costs nothing

void* NewBytes(size_t bytes) {
  void* address = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(address, kPoison, std::min(bytes, kPoisoned));
  return address;
}

// A capture while it goes on.
struct Capture {
  FakeGraph graph;
  CUstream origin = nullptr;
  std::set<CUstream> streams;  // that take part
  bool broken = false;         // by a call that no capture allows
};

struct Event {
  int64_t recorded = 0, passed = 0;
  // Recorded in a capture: what comes before it there.
  std::shared_ptr<Capture> capture;
  FakeGraph::Nodes after;
  int64_t passed_at = 0;
};

// What a stream has been given and has not done yet.
struct Work {
  std::function<bool()> ready;  // empty: always
  std::function<void()> run;
};

struct Stream {
  std::deque<Work> queue;
  std::shared_ptr<Capture> capture;  // instead of the queue
  FakeGraph::Nodes last;             // of the capture: what the stream was given last
};

// What NVRTC is given, and the code that comes of it: the same text.
struct Source {
  std::string text;
};
// Loaded code, and the kernels that were asked for by name.
struct LoadedCode {
  struct Kernel {
    const LoadedCode* code;
    std::string name;
  };
  std::string text;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};
constexpr char kCodeBegins[] = "pretended code\n";

using Blocks = std::map<std::byte*, size_t>;

bool Contains(const Blocks& blocks, const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  auto after = blocks.upper_bound(const_cast<std::byte*>(at));
  if (after == blocks.begin()) return false;
  --after;
  return at < after->first + after->second;
}

}  // namespace

struct FakeCuda::State {
  explicit State(const FakeOptions& o) : options(o), random(o.seed) {}

  FakeOptions options;
  std::mt19937_64 random;
  std::vector<std::string> calls;
  int64_t until_failure = -1;
  std::string fails_only;
  bool has_failed = false;

  int contexts = 0;
  Blocks blocks, pinned, reserved;
  std::map<CUmemGenericAllocationHandle, size_t> handles;
  std::map<std::byte*, std::pair<size_t, CUmemGenericAllocationHandle>> mapped;
  CUmemGenericAllocationHandle last_handle = 0;
  int64_t time = 0;  // rises with each event that passes
  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUevent, std::shared_ptr<Event>> events;
  std::shared_ptr<Capture> capture;  // one at a time
  int cublas_handles = 0, cudnn_handles = 0, cudnn_descriptors = 0;
  std::map<CUgraph, std::shared_ptr<FakeGraph>> graphs;
  std::map<CUgraphExec, std::shared_ptr<FakeGraph>> executables;
  std::map<nvrtcProgram, std::unique_ptr<Source>> programs;
  std::map<CUlibrary, std::unique_ptr<LoadedCode>> libraries;

  int64_t used() const {
    int64_t sum = 0;
    for (const auto& [address, bytes] : blocks) sum += static_cast<int64_t>(bytes);
    for (const auto& [handle, bytes] : handles) sum += static_cast<int64_t>(bytes);
    return sum;
  }

  Stream& At(CUstream stream) {
    const auto found = streams.find(stream);
    SNUG_CHECK_MSG(found != streams.end(), "not a stream");
    return *found->second;
  }
  Event& At(CUevent event) {
    const auto found = events.find(event);
    SNUG_CHECK_MSG(found != events.end(), "not an event");
    return *found->second;
  }

  // The stream is given something to do.
  void Push(CUstream stream, std::function<void()> run) {
    Stream& to = At(stream);
    if (to.capture == nullptr) return to.queue.push_back({nullptr, std::move(run)});
    to.last = {to.capture->graph.Add(to.last, std::move(run))};
  }

  // Whether a capture forbids such a call; it is broken then.
  bool Forbidden() {
    if (capture != nullptr) capture->broken = true;
    return capture != nullptr;
  }

  void EndCapture() {
    for (const CUstream stream : capture->streams) {
      At(stream).capture = nullptr;
      At(stream).last.clear();
    }
    capture = nullptr;
  }

  // Whether this call is the one that was to fail.
  bool Fails(const std::string& name) {
    calls.push_back(name);
    const bool counted = fails_only.empty() || fails_only == name;
    if (!counted || until_failure < 0 || until_failure-- != 0) return false;
    has_failed = true;
    return true;
  }

  // One piece of work of any stream that may go on; which, is chosen by chance.
  bool Advance() {
    std::vector<Stream*> able;
    for (const auto& [handle, stream] : streams) {
      if (stream->queue.empty()) continue;
      const Work& next = stream->queue.front();
      if (!next.ready || next.ready()) able.push_back(stream.get());
    }
    if (able.empty()) return false;
    Stream& chosen = *able[random() % able.size()];
    const Work work = std::move(chosen.queue.front());
    chosen.queue.pop_front();
    work.run();
    return true;
  }
  void RunUntil(const std::function<bool()>& done) {
    while (!done()) SNUG_CHECK_MSG(Advance(), "streams wait for each other for ever");
  }
  void RunAll() {
    while (Advance()) {
    }
  }
};

namespace {

using State = FakeCuda::State;
State* g_state = nullptr;  // the table's functions take no argument of ours

// What stands for each function: overloads of Fake, by the entry.
template <auto entry>
struct Entry {};
template <auto entry>
constexpr const char* kName = nullptr;
#define SNUG_CUDA_FUNCTION(library, function) \
  template <>                                 \
  constexpr const char* kName<&Table::function> = #function;
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION

#define SNUG_FAKE(function, ...) \
  auto Fake(Entry<&Table::function>, [[maybe_unused]] State& s __VA_OPT__(, ) __VA_ARGS__)

SNUG_FAKE(cuInit, unsigned) { return s.options.devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS; }
SNUG_FAKE(cuDriverGetVersion, int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGetErrorName, CUresult code, const char** text) {
  *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGetErrorString, CUresult code, const char** text) {
  *text = code == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "unknown error";
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuDeviceGetCount, int* count) {
  *count = s.options.devices;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuDeviceGet, CUdevice* device, int index) {
  *device = index;
  return index >= 0 && index < s.options.devices ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
SNUG_FAKE(cuDeviceGetName, char* name, int size, CUdevice) {
  std::strncpy(name, "Pretended GPU", static_cast<size_t>(size));
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuDeviceGetAttribute, int* value, CUdevice_attribute attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? s.options.major
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? s.options.minor
                                                                       : 4;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuDeviceTotalMem, size_t* bytes, CUdevice) {
  *bytes = static_cast<size_t>(s.options.device_bytes);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuDevicePrimaryCtxRetain, CUcontext* context, CUdevice) {
  ++s.contexts;
  *context = reinterpret_cast<CUcontext>(&s);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuDevicePrimaryCtxRelease, CUdevice) {
  --s.contexts;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuCtxSetCurrent, CUcontext context) {
  return context == reinterpret_cast<CUcontext>(&s) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUdeviceptr Number(void* address) { return reinterpret_cast<CUdeviceptr>(address); }
std::byte* Bytes(CUdeviceptr address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are numbers
}

SNUG_FAKE(cuMemGetInfo, size_t* free, size_t* total) {
  *total = static_cast<size_t>(s.options.device_bytes);
  *free = *total - static_cast<size_t>(s.used());
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemAlloc, CUdeviceptr* address, size_t bytes) {
  if (s.Forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (s.used() + static_cast<int64_t>(bytes) > s.options.device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  auto* block = static_cast<std::byte*>(NewBytes(bytes));
  s.blocks[block] = bytes;
  *address = Number(block);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemFree, CUdeviceptr address) {
  s.RunAll();
  SNUG_CHECK_MSG(s.blocks.erase(Bytes(address)) == 1, "cuMemFree: not a block");
  std::free(Bytes(address));
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemHostAlloc, void** address, size_t bytes, unsigned) {
  if (s.Forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  *address = NewBytes(bytes);
  s.pinned[static_cast<std::byte*>(*address)] = bytes;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemFreeHost, void* address) {
  s.RunAll();
  SNUG_CHECK_MSG(s.pinned.erase(static_cast<std::byte*>(address)) == 1, "cuMemFreeHost: not a block");
  std::free(address);
  return CUDA_SUCCESS;
}

bool IsDevice(const State& s, const void* address) {
  return Contains(s.blocks, address) || Contains(s.reserved, address);
}

void CheckDevice(const State& s, CUdeviceptr address) {
  SNUG_CHECK_MSG(s.options.any_address || IsDevice(s, Bytes(address)), "not an address of the device");
}

SNUG_FAKE(cuMemcpyHtoDAsync, CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  CheckDevice(s, to);
  // Memory that is not pinned is read before the call returns.
  auto copy = std::make_shared<std::vector<std::byte>>();
  if (!Contains(s.pinned, from)) {
    copy->assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  }
  s.Push(stream, [=] { std::memcpy(Bytes(to), copy->empty() ? from : copy->data(), bytes); });
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemcpyDtoHAsync, void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CheckDevice(s, from);
  Stream& queue = s.At(stream);
  s.Push(stream, [=] { std::memcpy(to, Bytes(from), bytes); });
  if (!Contains(s.pinned, to)) s.RunUntil([&] { return queue.queue.empty(); });
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemcpyDtoDAsync, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  s.Push(stream, [=] { std::memcpy(Bytes(to), Bytes(from), bytes); });
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemsetD8Async, CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream) {
  CheckDevice(s, address);
  s.Push(stream, [=] { std::memset(Bytes(address), value, bytes); });
  return CUDA_SUCCESS;
}

SNUG_FAKE(cuMemGetAllocationGranularity, size_t* bytes, const CUmemAllocationProp*, CUmemAllocationGranularity_flags) {
  *bytes = kGranularity;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemAddressReserve, CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  if (bytes == 0 || bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  auto* block = static_cast<std::byte*>(NewBytes(bytes));
  s.reserved[block] = bytes;
  *address = Number(block);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemAddressFree, CUdeviceptr address, size_t bytes) {
  const auto found = s.reserved.find(Bytes(address));
  SNUG_CHECK_MSG(found != s.reserved.end() && found->second == bytes, "cuMemAddressFree: not what was reserved");
  std::free(found->first);
  s.reserved.erase(found);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemCreate, CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
          unsigned long long) {
  if (bytes == 0 || bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (s.used() + static_cast<int64_t>(bytes) > s.options.device_bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = ++s.last_handle;
  s.handles[*handle] = bytes;
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemRelease, CUmemGenericAllocationHandle handle) {
  SNUG_CHECK_MSG(s.handles.erase(handle) == 1, "cuMemRelease: not a handle");
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemMap, CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
          unsigned long long) {
  SNUG_CHECK_MSG(Contains(s.reserved, Bytes(address)) && offset == 0 && s.handles.at(handle) == bytes,
                 "cuMemMap: not what was reserved and made");
  s.mapped[Bytes(address)] = {bytes, handle};
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemUnmap, CUdeviceptr address, size_t bytes) {
  s.RunAll();
  const auto found = s.mapped.find(Bytes(address));
  SNUG_CHECK_MSG(found != s.mapped.end() && found->second.first == bytes, "cuMemUnmap: not what was mapped");
  s.mapped.erase(found);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemSetAccess, CUdeviceptr address, size_t, const CUmemAccessDesc*, size_t) {
  return s.mapped.count(Bytes(address)) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SNUG_FAKE(cuStreamCreate, CUstream* stream, unsigned) {
  auto made = std::make_unique<Stream>();
  *stream = reinterpret_cast<CUstream>(made.get());
  s.streams[*stream] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuStreamDestroy, CUstream stream) {
  SNUG_CHECK_MSG(s.At(stream).capture == nullptr, "cuStreamDestroy: of a stream that is being captured");
  s.RunUntil([&] { return s.At(stream).queue.empty(); });
  s.streams.erase(stream);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuStreamSynchronize, CUstream stream) {
  if (s.At(stream).capture != nullptr && s.Forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  s.RunUntil([&] { return s.At(stream).queue.empty(); });
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuEventCreate, CUevent* event, unsigned) {
  auto made = std::make_shared<Event>();
  *event = reinterpret_cast<CUevent>(made.get());
  s.events[*event] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuEventDestroy, CUevent event) {
  SNUG_CHECK_MSG(s.events.erase(event) == 1, "cuEventDestroy: not an event");
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuEventRecord, CUevent event, CUstream stream) {
  std::shared_ptr<Event> e = s.events.at(event);
  Stream& of = s.At(stream);
  e->capture = of.capture;
  if (of.capture != nullptr) {
    e->after = of.last;
    return CUDA_SUCCESS;
  }
  const int64_t version = ++e->recorded;
  of.queue.push_back({nullptr, [e, version, &s] {
                        e->passed = std::max(e->passed, version);
                        e->passed_at = ++s.time;
                      }});
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned) {
  std::shared_ptr<Event> e = s.events.at(event);
  Stream& waiting = s.At(stream);
  if (e->capture != nullptr) {
    SNUG_CHECK_MSG(e->capture == s.capture, "cuStreamWaitEvent: for an event of another capture");
    if (waiting.capture == nullptr) waiting.capture = e->capture;
    e->capture->streams.insert(stream);
    waiting.last.insert(e->after.begin(), e->after.end());
    return CUDA_SUCCESS;
  }
  if (waiting.capture != nullptr && s.Forbidden()) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  waiting.queue.push_back({[e, version = e->recorded] { return e->passed >= version; }, [] {}});
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuEventQuery, CUevent event) {
  const Event& e = s.At(event);
  if (e.passed < e.recorded) s.Advance();  // time goes by
  return e.passed >= e.recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
SNUG_FAKE(cuEventSynchronize, CUevent event) {
  const Event& e = s.At(event);
  s.RunUntil([&] { return e.passed >= e.recorded; });
  return CUDA_SUCCESS;
}

SNUG_FAKE(cuEventElapsedTime, float* milliseconds, CUevent from, CUevent to) {
  const Event& begin = s.At(from);
  const Event& end = s.At(to);
  if (begin.passed < begin.recorded || end.passed < end.recorded) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(end.passed_at - begin.passed_at);
  return CUDA_SUCCESS;
}

SNUG_FAKE(cuStreamBeginCapture, CUstream stream, CUstreamCaptureMode) {
  Stream& origin = s.At(stream);
  if (s.capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  s.capture = origin.capture = std::make_shared<Capture>();
  s.capture->origin = stream;
  s.capture->streams = {stream};
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuStreamEndCapture, CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = s.At(stream).capture;
  if (capture == nullptr || capture->origin != stream) return CUDA_ERROR_ILLEGAL_STATE;
  const FakeGraph::Nodes last = s.At(stream).last;
  bool joined = true;
  for (const CUstream one : capture->streams) joined &= capture->graph.AllBefore(s.At(one).last, last);
  s.EndCapture();
  if (capture->broken) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  auto made = std::make_shared<FakeGraph>(std::move(capture->graph));
  *graph = reinterpret_cast<CUgraph>(made.get());
  s.graphs[*graph] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGraphInstantiate, CUgraphExec* executable, CUgraph graph, unsigned long long) {
  auto made = std::make_shared<FakeGraph>(*s.graphs.at(graph));
  *executable = reinterpret_cast<CUgraphExec>(made.get());
  s.executables[*executable] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGraphExecUpdate, CUgraphExec executable, CUgraph graph, CUgraphExecUpdateResultInfo*) {
  FakeGraph& old = *s.executables.at(executable);
  if (!old.LooksLike(*s.graphs.at(graph))) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  old = *s.graphs.at(graph);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGraphLaunch, CUgraphExec executable, CUstream stream) {
  s.Push(stream, [graph = s.executables.at(executable), &s] { graph->Run(s.random); });
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGraphExecDestroy, CUgraphExec executable) {
  SNUG_CHECK_MSG(s.executables.erase(executable) == 1, "cuGraphExecDestroy: not an executable graph");
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuGraphDestroy, CUgraph graph) {
  SNUG_CHECK_MSG(s.graphs.erase(graph) == 1, "cuGraphDestroy: not a graph");
  return CUDA_SUCCESS;
}

SNUG_FAKE(cudaLaunchKernel, const void* kernel, dim3 grid, dim3 block, void** arguments, size_t, cudaStream_t stream) {
  s.At(stream);
  if (s.options.kernels == nullptr) return cudaSuccess;
  s.Push(stream, s.options.kernels(kernel, {grid.x, grid.y, grid.z}, block.x, arguments));
  return cudaSuccess;
}
SNUG_FAKE(cudaGetErrorName, cudaError_t)->const char* { return "cudaErrorUnknown"; }
SNUG_FAKE(cudaGetErrorString, cudaError_t)->const char* { return "unknown error"; }

SNUG_FAKE(cublasLtGetVersion)->size_t { return 130000; }
SNUG_FAKE(cublasLtGetStatusName, cublasStatus_t)->const char* { return "CUBLAS_STATUS_INTERNAL_ERROR"; }
SNUG_FAKE(cublasLtGetStatusString, cublasStatus_t)->const char* { return "the library failed"; }
SNUG_FAKE(cublasLtCreate, cublasLtHandle_t* handle) {
  if (s.Forbidden()) return CUBLAS_STATUS_EXECUTION_FAILED;
  ++s.cublas_handles;
  *handle = reinterpret_cast<cublasLtHandle_t>(&s.cublas_handles);
  return CUBLAS_STATUS_SUCCESS;
}
SNUG_FAKE(cublasLtDestroy, cublasLtHandle_t) {
  --s.cublas_handles;
  return CUBLAS_STATUS_SUCCESS;
}
SNUG_FAKE(cublasLtMatmulDescInit_internal, cublasLtMatmulDesc_t to, size_t bytes, cublasComputeType_t compute,
          cudaDataType_t scale) {
  return fake_cublas::Describe(to, bytes, compute, scale);
}
SNUG_FAKE(cublasLtMatmulDescSetAttribute, cublasLtMatmulDesc_t to, cublasLtMatmulDescAttributes_t attribute,
          const void* value, size_t bytes) {
  return fake_cublas::Set(to, attribute, value, bytes);
}
SNUG_FAKE(cublasLtMatrixLayoutInit_internal, cublasLtMatrixLayout_t to, size_t bytes, cudaDataType_t type,
          uint64_t rows, uint64_t columns, int64_t leading) {
  return fake_cublas::Describe(to, bytes, type, rows, columns, leading);
}
SNUG_FAKE(cublasLtMatrixLayoutSetAttribute, cublasLtMatrixLayout_t to, cublasLtMatrixLayoutAttribute_t attribute,
          const void* value, size_t bytes) {
  return fake_cublas::Set(to, attribute, value, bytes);
}
SNUG_FAKE(cublasLtMatmulPreferenceInit_internal, cublasLtMatmulPreference_t to, size_t bytes) {
  return fake_cublas::Describe(to, bytes);
}
SNUG_FAKE(cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreference_t to,
          cublasLtMatmulPreferenceAttributes_t attribute, const void* value, size_t bytes) {
  return fake_cublas::Set(to, attribute, value, bytes);
}
SNUG_FAKE(cublasLtMatmulAlgoGetHeuristic, cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
          cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t* found, int* count) {
  using namespace fake_cublas;
  *count = 0;
  if (s.Forbidden()) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (s.options.libraries == FakeLibraries::kRefuse) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c != d || asked < 1) return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status = Choose(Look<Operation>(operation), Look<Matrix>(a), Look<Matrix>(b), Look<Matrix>(d),
                                       Look<Preference>(preference), found);
  *count = status == CUBLAS_STATUS_SUCCESS ? 1 : 0;
  return status;
}
SNUG_FAKE(cublasLtMatmul, cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
          cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
          const void* c, cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
          const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes, cudaStream_t stream) {
  using namespace fake_cublas;
  if (handle == nullptr || c != d) return CUBLAS_STATUS_INVALID_VALUE;
  std::function<void()> work;
  const cublasStatus_t status =
      Bind({Look<Operation>(operation), Look<Matrix>(a_layout), Look<Matrix>(b_layout), Look<Matrix>(d_layout), alpha,
            beta, a, b, d, algorithm, workspace, workspace_bytes},
           &work);
  if (status == CUBLAS_STATUS_SUCCESS) s.Push(stream, std::move(work));
  return status;
}
SNUG_FAKE(cudnnGetVersion)->size_t { return 91300; }
SNUG_FAKE(cudnnGetErrorString, cudnnStatus_t)->const char* { return "the library failed"; }

// Descriptors are counted: what is made is given back.
template <class Inside, class Descriptor>
cudnnStatus_t NewDescriptor(State& s, Descriptor* to) {
  ++s.cudnn_descriptors;
  *to = reinterpret_cast<Descriptor>(new Inside());
  return CUDNN_STATUS_SUCCESS;
}
template <class Inside, class Descriptor>
cudnnStatus_t DeleteDescriptor(State& s, Descriptor descriptor) {
  --s.cudnn_descriptors;
  delete reinterpret_cast<Inside*>(descriptor);
  return CUDNN_STATUS_SUCCESS;
}
template <class Inside, class Descriptor>
Inside& Within(Descriptor descriptor) {
  return *reinterpret_cast<Inside*>(descriptor);
}

SNUG_FAKE(cudnnCreate, cudnnHandle_t* handle) {
  if (s.Forbidden()) return CUDNN_STATUS_EXECUTION_FAILED;
  *handle = reinterpret_cast<cudnnHandle_t>(new CUstream(nullptr));
  ++s.cudnn_handles;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnDestroy, cudnnHandle_t handle) {
  delete reinterpret_cast<CUstream*>(handle);
  --s.cudnn_handles;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnSetStream, cudnnHandle_t handle, cudaStream_t stream) {
  *reinterpret_cast<CUstream*>(handle) = stream;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateTensorDescriptor, cudnnTensorDescriptor_t* to) { return NewDescriptor<fake_cudnn::Tensor>(s, to); }
SNUG_FAKE(cudnnDestroyTensorDescriptor, cudnnTensorDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Tensor>(s, one);
}
SNUG_FAKE(cudnnSetTensor4dDescriptor, cudnnTensorDescriptor_t to, cudnnTensorFormat_t format, cudnnDataType_t type,
          int n, int c, int h, int w) {
  Within<fake_cudnn::Tensor>(to) = {format, type, {n, c, h, w}};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateFilterDescriptor, cudnnFilterDescriptor_t* to) { return NewDescriptor<fake_cudnn::Tensor>(s, to); }
SNUG_FAKE(cudnnDestroyFilterDescriptor, cudnnFilterDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Tensor>(s, one);
}
SNUG_FAKE(cudnnSetFilter4dDescriptor, cudnnFilterDescriptor_t to, cudnnDataType_t type, cudnnTensorFormat_t format,
          int k, int c, int h, int w) {
  Within<fake_cudnn::Tensor>(to) = {format, type, {k, c, h, w}};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateActivationDescriptor, cudnnActivationDescriptor_t* to) {
  return NewDescriptor<fake_cudnn::Activation>(s, to);
}
SNUG_FAKE(cudnnDestroyActivationDescriptor, cudnnActivationDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Activation>(s, one);
}
SNUG_FAKE(cudnnSetActivationDescriptor, cudnnActivationDescriptor_t to, cudnnActivationMode_t mode,
          cudnnNanPropagation_t, double) {
  Within<fake_cudnn::Activation>(to) = {mode};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnCreateConvolutionDescriptor, cudnnConvolutionDescriptor_t* to) {
  return NewDescriptor<fake_cudnn::Convolution>(s, to);
}
SNUG_FAKE(cudnnDestroyConvolutionDescriptor, cudnnConvolutionDescriptor_t one) {
  return DeleteDescriptor<fake_cudnn::Convolution>(s, one);
}
SNUG_FAKE(cudnnSetConvolution2dDescriptor, cudnnConvolutionDescriptor_t to, int pad_h, int pad_w, int stride_h,
          int stride_w, int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute) {
  Within<fake_cudnn::Convolution>(to) = {
      {pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, mode, compute, 1, CUDNN_DEFAULT_MATH};
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnSetConvolutionGroupCount, cudnnConvolutionDescriptor_t to, int groups) {
  Within<fake_cudnn::Convolution>(to).groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnSetConvolutionMathType, cudnnConvolutionDescriptor_t to, cudnnMathType_t math) {
  Within<fake_cudnn::Convolution>(to).math = math;
  return CUDNN_STATUS_SUCCESS;
}

// The three kinds of convolution: their heuristics, workspaces and work are alike.
template <class Performance>
cudnnStatus_t ListAlgorithms(State& s, fake_cudnn::Kind kind, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
                             cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, int asked, int* count,
                             Performance* to) {
  *count = 0;
  if (s.Forbidden()) return CUDNN_STATUS_EXECUTION_FAILED;
  if (s.options.libraries == FakeLibraries::kRefuse) return CUDNN_STATUS_NOT_SUPPORTED_LAYOUT;
  const cudnnStatus_t status = Check(kind, Within<fake_cudnn::Tensor>(x), Within<fake_cudnn::Tensor>(w),
                                     Within<fake_cudnn::Tensor>(y), Within<fake_cudnn::Convolution>(conv));
  if (status == CUDNN_STATUS_SUCCESS) fake_cudnn::List(kind, asked, count, to);
  return status;
}
cudnnStatus_t Convolve(State& s, cudnnHandle_t handle, fake_cudnn::Call call, cudnnTensorDescriptor_t x,
                       cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv) {
  call.x = Within<fake_cudnn::Tensor>(x);
  call.w = Within<fake_cudnn::Tensor>(w);
  call.y = Within<fake_cudnn::Tensor>(y);
  call.conv = Within<fake_cudnn::Convolution>(conv);
  std::function<void()> work;
  const cudnnStatus_t status = Bind(call, &work);
  if (status == CUDNN_STATUS_SUCCESS) s.Push(*reinterpret_cast<CUstream*>(handle), std::move(work));
  return status;
}

SNUG_FAKE(cudnnGetConvolutionForwardAlgorithm_v7, cudnnHandle_t, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
          cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t y, int asked, int* count,
          cudnnConvolutionFwdAlgoPerf_t* to) {
  return ListAlgorithms(s, fake_cudnn::Kind::kForward, x, w, y, conv, asked, count, to);
}
SNUG_FAKE(cudnnGetConvolutionForwardWorkspaceSize, cudnnHandle_t, cudnnTensorDescriptor_t, cudnnFilterDescriptor_t,
          cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  *bytes = fake_cudnn::WorkspaceBytes(fake_cudnn::Kind::kForward, algorithm);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnConvolutionForward, cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
          const void* x_data, cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnTensorDescriptor_t y, void* y_data) {
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kForward,
                   .data = x_data,
                   .factor = w_data,
                   .result = y_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta},
                  x, w, y, conv);
}
SNUG_FAKE(cudnnConvolutionBiasActivationForward, cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
          const void* x_data, cudnnFilterDescriptor_t w, const void* w_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnTensorDescriptor_t z, const void* z_data, cudnnTensorDescriptor_t bias, const void* bias_data,
          cudnnActivationDescriptor_t activation, cudnnTensorDescriptor_t y, void* y_data) {
  if (z != y || z_data != y_data) return CUDNN_STATUS_BAD_PARAM;
  if (s.options.libraries == FakeLibraries::kServeUnfused) return CUDNN_STATUS_NOT_SUPPORTED;
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kForward,
                   .data = x_data,
                   .factor = w_data,
                   .result = y_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta,
                   .activation = &Within<fake_cudnn::Activation>(activation),
                   .bias_type = Within<fake_cudnn::Tensor>(bias),
                   .bias = bias_data},
                  x, w, y, conv);
}
SNUG_FAKE(cudnnGetConvolutionBackwardDataAlgorithm_v7, cudnnHandle_t, cudnnFilterDescriptor_t w,
          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, cudnnTensorDescriptor_t x, int asked,
          int* count, cudnnConvolutionBwdDataAlgoPerf_t* to) {
  return ListAlgorithms(s, fake_cudnn::Kind::kGradInput, x, w, y, conv, asked, count, to);
}
SNUG_FAKE(cudnnGetConvolutionBackwardDataWorkspaceSize, cudnnHandle_t, cudnnFilterDescriptor_t, cudnnTensorDescriptor_t,
          cudnnConvolutionDescriptor_t, cudnnTensorDescriptor_t, cudnnConvolutionBwdDataAlgo_t algorithm,
          size_t* bytes) {
  *bytes = fake_cudnn::WorkspaceBytes(fake_cudnn::Kind::kGradInput, algorithm);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnConvolutionBackwardData, cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w,
          const void* w_data, cudnnTensorDescriptor_t y, const void* y_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnTensorDescriptor_t x, void* x_data) {
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kGradInput,
                   .data = y_data,
                   .factor = w_data,
                   .result = x_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta},
                  x, w, y, conv);
}
SNUG_FAKE(cudnnGetConvolutionBackwardFilterAlgorithm_v7, cudnnHandle_t, cudnnTensorDescriptor_t x,
          cudnnTensorDescriptor_t y, cudnnConvolutionDescriptor_t conv, cudnnFilterDescriptor_t w, int asked,
          int* count, cudnnConvolutionBwdFilterAlgoPerf_t* to) {
  return ListAlgorithms(s, fake_cudnn::Kind::kGradWeight, x, w, y, conv, asked, count, to);
}
SNUG_FAKE(cudnnGetConvolutionBackwardFilterWorkspaceSize, cudnnHandle_t, cudnnTensorDescriptor_t,
          cudnnTensorDescriptor_t, cudnnConvolutionDescriptor_t, cudnnFilterDescriptor_t,
          cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  *bytes = fake_cudnn::WorkspaceBytes(fake_cudnn::Kind::kGradWeight, algorithm);
  return CUDNN_STATUS_SUCCESS;
}
SNUG_FAKE(cudnnConvolutionBackwardFilter, cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x,
          const void* x_data, cudnnTensorDescriptor_t y, const void* y_data, cudnnConvolutionDescriptor_t conv,
          cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t workspace_bytes, const void* beta,
          cudnnFilterDescriptor_t w, void* w_data) {
  return Convolve(s, handle,
                  {.kind = fake_cudnn::Kind::kGradWeight,
                   .data = x_data,
                   .factor = y_data,
                   .result = w_data,
                   .algorithm = algorithm,
                   .workspace = workspace,
                   .workspace_bytes = workspace_bytes,
                   .alpha = alpha,
                   .beta = beta},
                  x, w, y, conv);
}

SNUG_FAKE(nvrtcVersion, int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetErrorString, nvrtcResult)->const char* { return "the library failed"; }

SNUG_FAKE(nvrtcCreateProgram, nvrtcProgram* program, const char* text, const char*, int, const char* const*,
          const char* const*) {
  auto made = std::make_unique<Source>(Source{kCodeBegins + std::string(text)});
  *program = reinterpret_cast<nvrtcProgram>(made.get());
  s.programs[*program] = std::move(made);
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcCompileProgram, nvrtcProgram program, int, const char* const*) {
  const bool bad = s.programs.at(program)->text.find("#error") != std::string::npos;
  return bad ? NVRTC_ERROR_COMPILATION : NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetProgramLogSize, nvrtcProgram, size_t* bytes) {
  *bytes = sizeof("line 1: no good");
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetProgramLog, nvrtcProgram, char* log) {
  std::strcpy(log, "line 1: no good");
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetCUBINSize, nvrtcProgram program, size_t* bytes) {
  *bytes = s.programs.at(program)->text.size() + 1;
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcGetCUBIN, nvrtcProgram program, char* code) {
  std::strcpy(code, s.programs.at(program)->text.c_str());
  return NVRTC_SUCCESS;
}
SNUG_FAKE(nvrtcDestroyProgram, nvrtcProgram* program) {
  SNUG_CHECK_MSG(s.programs.erase(*program) == 1, "nvrtcDestroyProgram: not a program");
  return NVRTC_SUCCESS;
}

SNUG_FAKE(cuLibraryLoadData, CUlibrary* library, const void* code, CUjit_option*, void**, unsigned, CUlibraryOption*,
          void**, unsigned) {
  if (s.Forbidden()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::string text = static_cast<const char*>(code);
  if (text.rfind(kCodeBegins, 0) != 0) return CUDA_ERROR_INVALID_IMAGE;
  auto made = std::make_unique<LoadedCode>(LoadedCode{text.substr(sizeof(kCodeBegins) - 1), {}});
  *library = reinterpret_cast<CUlibrary>(made.get());
  s.libraries[*library] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuLibraryUnload, CUlibrary library) {
  s.RunAll();
  SNUG_CHECK_MSG(s.libraries.erase(library) == 1, "cuLibraryUnload: not a library");
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuLibraryGetKernel, CUkernel* kernel, CUlibrary library, const char* name) {
  LoadedCode& code = *s.libraries.at(library);
  if (code.text.find(std::string(" ") + name + "(") == std::string::npos) return CUDA_ERROR_NOT_FOUND;
  auto& made = code.kernels[name];
  if (made == nullptr) made = std::make_unique<LoadedCode::Kernel>(LoadedCode::Kernel{&code, name});
  *kernel = reinterpret_cast<CUkernel>(made.get());
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuLaunchKernel, CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned, unsigned,
          unsigned, CUstream stream, void** arguments, void**) {
  s.At(stream);
  if (s.options.sources == nullptr) return CUDA_SUCCESS;
  const auto& kernel = *reinterpret_cast<const LoadedCode::Kernel*>(function);
  s.Push(stream, s.options.sources(kernel.code->text, kernel.name, {x, y, z}, threads, arguments));
  return CUDA_SUCCESS;
}
#undef SNUG_FAKE

// Whether a function gives something back: it does so even when it reports a failure, which then is of earlier work.
bool GivesBack(const std::string& name) {
  static const auto* const names = new std::set<std::string>{"cuMemFree",
                                                             "cuMemFreeHost",
                                                             "cuMemAddressFree",
                                                             "cuMemRelease",
                                                             "cuMemUnmap",
                                                             "cuStreamDestroy",
                                                             "cuEventDestroy",
                                                             "cuDevicePrimaryCtxRelease",
                                                             "cuStreamEndCapture",
                                                             "cuGraphExecDestroy",
                                                             "cuGraphDestroy",
                                                             "cuLibraryUnload",
                                                             "nvrtcDestroyProgram",
                                                             "cublasLtDestroy",
                                                             "cudnnDestroy",
                                                             "cudnnDestroyTensorDescriptor",
                                                             "cudnnDestroyFilterDescriptor",
                                                             "cudnnDestroyActivationDescriptor",
                                                             "cudnnDestroyConvolutionDescriptor"};
  return names->count(name) == 1;
}

CUresult FailureOf(CUresult) { return CUDA_ERROR_UNKNOWN; }
cudaError_t FailureOf(cudaError_t) { return cudaErrorUnknown; }
cublasStatus_t FailureOf(cublasStatus_t) { return CUBLAS_STATUS_INTERNAL_ERROR; }
cudnnStatus_t FailureOf(cudnnStatus_t) { return CUDNN_STATUS_INTERNAL_ERROR; }
nvrtcResult FailureOf(nvrtcResult) { return NVRTC_ERROR_INTERNAL_ERROR; }

template <auto entry, class Function>
struct Trampoline;
template <auto entry, class R, class... A>
struct Trampoline<entry, R (*)(A...)> {
  static R Call(A... arguments) {
    State& s = *g_state;
    if constexpr (std::is_enum_v<R>) {
      const std::string name = kName<entry>;
      if (name.rfind("cuGetError", 0) != 0) {  // an error is described without that being a call
        if (s.Fails(name)) {
          if (GivesBack(name)) Fake(Entry<entry>(), s, arguments...);
          return FailureOf(R());
        }
      }
    }
    return Fake(Entry<entry>(), s, arguments...);
  }
};

Table MakeTable() {
  Table table;
#define SNUG_CUDA_FUNCTION(library, function) \
  table.function = &Trampoline<&Table::function, decltype(Table::function)>::Call;
#include "engine/cuda/cuda_functions.inc"
#undef SNUG_CUDA_FUNCTION
  return table;
}

std::string Several(size_t n, const char* what) {
  return n == 0 ? "" : std::to_string(n) + " " + what + (n == 1 ? " " : "s ");
}

}  // namespace

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
  return std::make_shared<const Api>(MakeTable(), std::move(libraries));
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
void FakeCuda::ClearCalls() { state_->calls.clear(); }

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
bool FakeCuda::OnDevice(const void* address) const { return IsDevice(*state_, address); }

}  // namespace snug::cuda
