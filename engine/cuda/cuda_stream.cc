#include "engine/cuda/cuda_stream.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_libraries.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {
namespace {

CUdeviceptr Address(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaEvent>> CudaEvent::Create(std::shared_ptr<const CudaDevice> device, bool timed) {
  SNUG_RETURN_IF_ERROR(device->MakeCurrent());
  CUevent handle = nullptr;
  SNUG_CUDA_CALL(device->api(), cuEventCreate, (&handle, timed ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING),
                 "making an event");
  return std::unique_ptr<CudaEvent>(new CudaEvent(std::move(device), handle));
}

CudaEvent::~CudaEvent() {
  device_->MakeCurrent().IgnoreError();
  device_->api().table().cuEventDestroy(handle_);
}

absl::StatusOr<bool> CudaEvent::Passed() const {
  const CUresult result = device_->api().table().cuEventQuery(handle_);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return result == CUDA_SUCCESS;
  return device_->api().Error(Library::kDriver, "cuEventQuery", result, "asking how far a stream is");
}

absl::Status CudaEvent::Wait() const {
  SNUG_CUDA_CALL(device_->api(), cuEventSynchronize, (handle_), "waiting for a stream");
  return absl::OkStatus();
}

absl::StatusOr<double> CudaEvent::MillisecondsSince(const CudaEvent& earlier) const {
  float milliseconds = 0;
  SNUG_CUDA_CALL(device_->api(), cuEventElapsedTime, (&milliseconds, earlier.handle_, handle_),
                 "asking how long a kernel took");
  return milliseconds;
}

absl::StatusOr<std::unique_ptr<CudaEvent>> EventPool::Take() {
  {
    const std::lock_guard lock(mu_);
    if (!free_.empty()) {
      std::unique_ptr<CudaEvent> event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  return CudaEvent::Create(device_);
}

void EventPool::Give(std::unique_ptr<CudaEvent> event) {
  const std::lock_guard lock(mu_);
  free_.push_back(std::move(event));
}

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Create(std::shared_ptr<const CudaDevice> device) {
  SNUG_RETURN_IF_ERROR(device->MakeCurrent());
  CUstream handle = nullptr;
  SNUG_CUDA_CALL(device->api(), cuStreamCreate, (&handle, CU_STREAM_NON_BLOCKING), "making a stream");
  return std::unique_ptr<CudaStream>(new CudaStream(std::move(device), handle));
}

CudaStream::~CudaStream() {
  device_->MakeCurrent().IgnoreError();
  device_->api().table().libraries->Drop(*this);
  device_->api().table().cuStreamDestroy(handle_);
}

absl::Status CudaStream::Upload(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  SNUG_CUDA_CALL(device_->api(), cuMemcpyHtoDAsync, (Address(to), from, static_cast<size_t>(bytes), handle_),
                 absl::StrCat("copying ", bytes, " bytes to ", device_->device().ToString()));
  return absl::OkStatus();
}

absl::Status CudaStream::Download(std::byte* to, const std::byte* from, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  SNUG_CUDA_CALL(device_->api(), cuMemcpyDtoHAsync, (to, Address(from), static_cast<size_t>(bytes), handle_),
                 absl::StrCat("copying ", bytes, " bytes from ", device_->device().ToString()));
  return absl::OkStatus();
}

absl::Status CudaStream::Clear(std::byte* address, int64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  SNUG_CUDA_CALL(device_->api(), cuMemsetD8Async, (Address(address), 0, static_cast<size_t>(bytes), handle_),
                 absl::StrCat("clearing ", bytes, " bytes"));
  return absl::OkStatus();
}

absl::Status CudaStream::Record(CudaEvent& event) {
  SNUG_CUDA_CALL(device_->api(), cuEventRecord, (event.handle_, handle_), "recording an event");
  return absl::OkStatus();
}

absl::Status CudaStream::WaitFor(const CudaEvent& event) {
  SNUG_CUDA_CALL(device_->api(), cuStreamWaitEvent, (handle_, event.handle_, 0), "making a stream wait for an event");
  return absl::OkStatus();
}

absl::Status CudaStream::Synchronize() {
  SNUG_CUDA_CALL(device_->api(), cuStreamSynchronize, (handle_), "waiting for a stream");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CallerStream>> CallerStream::Create(std::shared_ptr<const CudaDevice> device,
                                                                   CUstream_st* handle) {
  SNUG_RETURN_IF_ERROR(device->MakeCurrent());
  std::unique_ptr<CallerStream> stream(new CallerStream(std::move(device), handle));
  for (CUevent_st** const event : {&stream->begun_, &stream->ended_}) {
    SNUG_CUDA_CALL(stream->device_->api(), cuEventCreate, (event, CU_EVENT_DISABLE_TIMING), "making an event");
  }
  return stream;
}

CallerStream::~CallerStream() {
  device_->MakeCurrent().IgnoreError();
  for (CUevent_st* const event : {begun_, ended_}) {
    if (event != nullptr) device_->api().table().cuEventDestroy(event);
  }
}

absl::Status CallerStream::ComesBefore(const CudaStream& ours) const { return Order(handle_, ours.handle(), begun_); }

absl::Status CallerStream::ComesAfter(const CudaStream& ours) const { return Order(ours.handle(), handle_, ended_); }

absl::Status CallerStream::Order(CUstream_st* first, CUstream_st* second, CUevent_st* event) const {
  SNUG_CUDA_CALL(device_->api(), cuEventRecord, (event, first), "ordering a step on the caller's stream");
  SNUG_CUDA_CALL(device_->api(), cuStreamWaitEvent, (second, event, 0), "ordering a step on the caller's stream");
  return absl::OkStatus();
}

}  // namespace snug::core::cuda
