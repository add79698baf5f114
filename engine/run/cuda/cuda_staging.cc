#include "engine/run/cuda/cuda_staging.h"

#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug {
namespace {

// What is copied after every step, whether somebody wants it or not: losses and metrics.
constexpr int64_t kSmall = 4096;

int64_t Place(const ValueType& type, int64_t* end) {
  constexpr int64_t kCacheLine = 64;
  return std::exchange(*end, *end + memory::AlignUp(type.size_bytes(), kCacheLine));
}

int64_t SizeOfAll(const Executable& executable) {
  int64_t end = 0;
  for (const Endpoint& input : executable.inputs) Place(input.type, &end);
  for (const Endpoint& output : executable.outputs) Place(output.type, &end);
  return end;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStaging>> CudaStaging::Create(const Executable& executable, const ArenaBytes& arenas,
                                                                 const CudaStreams& streams) {
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<cuda::PinnedBytes> bytes,
                        cuda::PinnedBytes::Create(streams.device(), SizeOfAll(executable)));
  if (bytes->size_bytes() > 0) std::memset(bytes->data(), 0, static_cast<size_t>(bytes->size_bytes()));
  return std::unique_ptr<CudaStaging>(new CudaStaging(executable, arenas, streams, std::move(bytes)));
}

CudaStaging::CudaStaging(const Executable& executable, const ArenaBytes& arenas, const CudaStreams& streams,
                         std::unique_ptr<cuda::PinnedBytes> bytes)
    : executable_(executable), arenas_(arenas), streams_(streams), bytes_(std::move(bytes)) {
  int64_t end = 0;
  for (const Endpoint& input : executable.inputs) inputs_.push_back({bytes_->data() + Place(input.type, &end)});
  for (const Endpoint& output : executable.outputs) outputs_.push_back({bytes_->data() + Place(output.type, &end)});
}

std::byte* CudaStaging::OutputBytes(size_t output) const {
  const Slot& slot = executable_.outputs[output].slot;
  const bool unbound = slot.arena == Arena::kCaller && arenas_.Address(slot) == nullptr;
  return unbound ? nullptr : outputs_[output].host;
}

absl::Status CudaStaging::UploadFed() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].fed) continue;
    const Endpoint& input = executable_.inputs[i];
    SNUG_RETURN_IF_ERROR(streams_[0].Upload(arenas_.Address(input.slot), inputs_[i].host, input.type.size_bytes()));
    inputs_[i].fed = false;
  }
  return absl::OkStatus();
}

absl::Status CudaStaging::DownloadSmall() {
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const Endpoint& output = executable_.outputs[i];
    const bool now = output.type.size_bytes() <= kSmall && output.slot.arena != Arena::kCaller;
    if (now) SNUG_RETURN_IF_ERROR(Download(i));
    outputs_[i].here = now;
  }
  return absl::OkStatus();
}

absl::Status CudaStaging::Download(size_t i) {
  const Endpoint& output = executable_.outputs[i];
  return streams_[0].Download(outputs_[i].host, arenas_.Address(output.slot), output.type.size_bytes());
}

absl::Status CudaStaging::Fetch(size_t output) {
  if (outputs_[output].here) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
  SNUG_RETURN_IF_ERROR(Download(output));
  SNUG_RETURN_IF_ERROR(streams_[0].Synchronize());
  outputs_[output].here = executable_.outputs[output].slot.arena != Arena::kCaller;  // another may be bound
  return absl::OkStatus();
}

}  // namespace snug
