#include "engine/cuda/cuda_caller_stream.h"

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {

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
