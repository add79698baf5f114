// The pretended driver and runtime: devices, memory, streams, events, graphs, launches.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/cuda/fake_cuda_table.h"

namespace snug::core::cuda {
namespace {

constexpr size_t kAlignment = 256;
constexpr size_t kGranularity = 2 << 20;
constexpr int kPoison = 0xee;
constexpr size_t kPoisoned = 1 << 20;  // the rest of a large block stays untouched, which costs nothing

void* NewBytes(size_t bytes) {
  void* address = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  std::memset(address, kPoison, std::min(bytes, kPoisoned));
  return address;
}

CUdeviceptr Number(void* address) { return reinterpret_cast<CUdeviceptr>(address); }
std::byte* Bytes(CUdeviceptr address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are numbers
}
void CheckDevice(const State& s, CUdeviceptr address) {
  SNUG_CHECK_MSG(s.options.any_address || s.OnDevice(Bytes(address)), "not an address of the device");
}

}  // namespace

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

SNUG_FAKE(cuMemcpyHtoDAsync, CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  CheckDevice(s, to);
  // Host memory that is not pinned is read before the call returns.
  auto copy = std::make_shared<std::vector<std::byte>>();
  if (!fake::Contains(s.pinned, from)) {
    copy->assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  }
  s.Push(stream, [=] { std::memcpy(Bytes(to), copy->empty() ? from : copy->data(), bytes); });
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuMemcpyDtoHAsync, void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  CheckDevice(s, from);
  fake::Stream& queue = s.At(stream);
  s.Push(stream, [=] { std::memcpy(to, Bytes(from), bytes); });
  if (!fake::Contains(s.pinned, to)) s.RunUntil([&] { return queue.queue.empty(); });
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
  SNUG_CHECK_MSG(fake::Contains(s.reserved, Bytes(address)) && offset == 0 && s.handles.at(handle) == bytes,
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
  auto made = std::make_unique<fake::Stream>();
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
  auto made = std::make_shared<fake::Event>();
  *event = reinterpret_cast<CUevent>(made.get());
  s.events[*event] = std::move(made);
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuEventDestroy, CUevent event) {
  SNUG_CHECK_MSG(s.events.erase(event) == 1, "cuEventDestroy: not an event");
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuEventRecord, CUevent event, CUstream stream) {
  std::shared_ptr<fake::Event> e = s.events.at(event);
  fake::Stream& of = s.At(stream);
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
  std::shared_ptr<fake::Event> e = s.events.at(event);
  fake::Stream& waiting = s.At(stream);
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
  const fake::Event& e = s.At(event);
  if (e.passed < e.recorded) s.Advance();  // asking lets time go by
  return e.passed >= e.recorded ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
SNUG_FAKE(cuEventSynchronize, CUevent event) {
  const fake::Event& e = s.At(event);
  s.RunUntil([&] { return e.passed >= e.recorded; });
  return CUDA_SUCCESS;
}

SNUG_FAKE(cuEventElapsedTime, float* milliseconds, CUevent from, CUevent to) {
  const fake::Event& begin = s.At(from);
  const fake::Event& end = s.At(to);
  if (begin.passed < begin.recorded || end.passed < end.recorded) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(end.passed_at - begin.passed_at);
  return CUDA_SUCCESS;
}

SNUG_FAKE(cuStreamBeginCapture, CUstream stream, CUstreamCaptureMode) {
  fake::Stream& origin = s.At(stream);
  if (s.capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  s.capture = origin.capture = std::make_shared<fake::Capture>();
  s.capture->origin = stream;
  s.capture->streams = {stream};
  return CUDA_SUCCESS;
}
SNUG_FAKE(cuStreamEndCapture, CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  const std::shared_ptr<fake::Capture> capture = s.At(stream).capture;
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
  // Kernels are loaded when they are first launched, which is not allowed while something is recorded.
  const bool loaded = !s.launched.insert(kernel).second;
  if (s.capture != nullptr && !loaded) {
    s.capture->broken = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  if (s.options.kernels == nullptr) return cudaSuccess;
  s.Push(stream, s.options.kernels(kernel, {grid.x, grid.y, grid.z}, block.x, arguments));
  return cudaSuccess;
}
SNUG_FAKE(cudaGetErrorName, cudaError_t)->const char* { return "cudaErrorUnknown"; }
SNUG_FAKE(cudaGetErrorString, cudaError_t)->const char* { return "unknown error"; }

void fake::FillDriver(Table* table) {
  struct File {};
  FillEntries<File>(table);
}

}  // namespace snug::core::cuda
