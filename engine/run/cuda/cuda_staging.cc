#include "engine/run/cuda/cuda_staging.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/status.h"
#include "memory/problem.h"

namespace snug::core {
namespace {

// Outputs of at most so many bytes are copied after every step, whether somebody wants them or not: losses and metrics.
constexpr int64_t kSmall = 4096;

int64_t Place(const ValueType& type, int64_t* end) {
  constexpr int64_t kCacheLine = 64;
  return std::exchange(*end, *end + memory::AlignUp(type.size_bytes(), kCacheLine));
}

int64_t SizeOfAll(const std::vector<Endpoint>& endpoints) {
  int64_t end = 0;
  for (const Endpoint& endpoint : endpoints) Place(endpoint.type, &end);
  return end;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStaging>> CudaStaging::Create(const Executable& executable, const ArenaBytes& arenas,
                                                                 const CudaStreams& streams, CudaUploads* uploads) {
  const int64_t sides = uploads == nullptr ? 1 : int64_t{kSides};
  const int64_t size = sides * SizeOfAll(executable.inputs) + SizeOfAll(executable.outputs);
  SNUG_ASSIGN_OR_RETURN(std::unique_ptr<cuda::PinnedBytes> bytes, cuda::PinnedBytes::Create(streams.device(), size));
  if (size > 0) std::memset(bytes->data(), 0, static_cast<size_t>(size));
  std::unique_ptr<CudaStaging> staging(new CudaStaging(executable, arenas, streams, uploads, std::move(bytes)));
  if (uploads != nullptr) SNUG_RETURN_IF_ERROR(staging->MakeEvents());
  return staging;
}

CudaStaging::CudaStaging(const Executable& executable, const ArenaBytes& arenas, const CudaStreams& streams,
                         CudaUploads* uploads, std::unique_ptr<cuda::PinnedBytes> bytes)
    : executable_(executable),
      arenas_(arenas),
      streams_(streams),
      uploads_(uploads),
      layout_(LayOutUploads(executable, streams.device()->device().alignment())),
      bytes_(std::move(bytes)),
      inputs_(executable.inputs.size()) {
  int64_t end = 0;
  for (size_t side = 0; side < (uploads == nullptr ? 1 : kSides); ++side) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      inputs_[i].host[side] = bytes_->data() + Place(executable.inputs[i].type, &end);
    }
  }
  for (const Endpoint& output : executable.outputs) outputs_.push_back({bytes_->data() + Place(output.type, &end)});
}

absl::Status CudaStaging::MakeEvents() {
  for (Side& side : sides_) {
    SNUG_ASSIGN_OR_RETURN(side.read, cuda::CudaEvent::Create(streams_.device()));
  }
  return absl::OkStatus();
}

CudaStaging::~CudaStaging() {
  if (uploads_ == nullptr) return;
  uploads_->stream().Synchronize().IgnoreError();  // uploads may be reading our bytes
  uploads_->GiveBack(this);
}

std::byte* CudaStaging::OutputBytes(size_t output) const {
  const Slot& slot = executable_.outputs[output].slot;
  const bool unbound = slot.arena == Arena::kCaller && arenas_.Address(slot) == nullptr;
  return unbound ? nullptr : outputs_[output].host;
}

bool CudaStaging::AnyAhead() const {
  return std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return input.ahead; });
}

absl::Status CudaStaging::Feed(size_t i) {
  if (Side& side = sides_[filling_]; side.in_flight) {
    SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
    SNUG_RETURN_IF_ERROR(side.read->Wait());
    side.in_flight = false;
  }
  inputs_[i].fed = true;
  if (!std::exchange(inputs_[i].ahead, false) || AnyAhead()) return absl::OkStatus();
  uploads_->GiveBack(this);
  return absl::OkStatus();
}

// Fills the other side from now on, and this one again when `reader` has read what it was given.
absl::Status CudaStaging::TurnSides(cuda::CudaStream& reader) {
  Side& side = sides_[filling_];
  SNUG_RETURN_IF_ERROR(reader.Record(*side.read));
  side.in_flight = true;
  filling_ = (filling_ + 1) % kSides;
  return absl::OkStatus();
}

absl::Status CudaStaging::UploadAhead() {
  const bool any = std::any_of(inputs_.begin(), inputs_.end(), [](const Input& input) { return input.fed; });
  // If another program's inputs wait there already, these are sent when their step begins.
  if (!any || uploads_ == nullptr || !uploads_->Claim(this)) return absl::OkStatus();
  SNUG_RETURN_IF_ERROR(streams_.device()->MakeCurrent());
  absl::Status status = SendAhead();
  if (!status.ok()) {
    uploads_->stream().Synchronize().IgnoreError();  // so that nothing that was asked for before is under way
    if (!AnyAhead()) uploads_->GiveBack(this);
    return status;
  }
  for (Input& input : inputs_) input.ahead |= std::exchange(input.fed, false);
  return absl::OkStatus();
}

absl::Status CudaStaging::SendAhead() {
  SNUG_RETURN_IF_ERROR(uploads_->WaitUntilTaken());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].fed) continue;
    SNUG_RETURN_IF_ERROR(uploads_->stream().Upload(uploads_->data() + layout_.offsets[i], InputBytes(i),
                                                   executable_.inputs[i].type.size_bytes()));
  }
  ahead_ = filling_;
  return TurnSides(uploads_->stream());
}

absl::Status CudaStaging::BringInputs() {
  SNUG_RETURN_IF_ERROR(TakeAhead());
  return SendFed();
}

absl::Status CudaStaging::SendFed() {
  bool any = false;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!inputs_[i].fed) continue;
    const Endpoint& input = executable_.inputs[i];
    SNUG_RETURN_IF_ERROR(streams_[0].Upload(arenas_.Address(input.slot), InputBytes(i), input.type.size_bytes()));
    inputs_[i].fed = false;
    any = true;
  }
  return any && uploads_ != nullptr ? TurnSides(streams_[0]) : absl::OkStatus();
}

absl::Status CudaStaging::TakeAhead() {
  if (!AnyAhead()) return absl::OkStatus();
  // Whatever fails, nothing waits any longer after this: a step takes it, or it is lost.
  uploads_->GiveBack(this);
  absl::Status status;
  if (sides_[ahead_].in_flight) status = streams_[0].WaitFor(*sides_[ahead_].read);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!std::exchange(inputs_[i].ahead, false) || !status.ok()) continue;
    const Endpoint& input = executable_.inputs[i];
    status = streams_.launch(0)->Copy(arenas_.Address(input.slot), uploads_->data() + layout_.offsets[i],
                                      input.type.size_bytes());
  }
  return status.ok() ? uploads_->Taken(streams_[0]) : status;
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
  // The caller may bind another buffer before the next Fetch.
  outputs_[output].here = executable_.outputs[output].slot.arena != Arena::kCaller;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<CudaUploads>> CudaUploads::Create(const std::shared_ptr<const cuda::CudaDevice>& device,
                                                                 int64_t bytes) {
  std::unique_ptr<CudaUploads> uploads(new CudaUploads());
  SNUG_ASSIGN_OR_RETURN(uploads->arena_, cuda::CudaArena::Create(device, bytes));
  SNUG_ASSIGN_OR_RETURN(uploads->taken_, cuda::CudaEvent::Create(device));
  SNUG_ASSIGN_OR_RETURN(uploads->stream_, cuda::CudaStream::Create(device));
  return uploads;
}

bool CudaUploads::Claim(const void* owner) {
  if (owner_ == nullptr) owner_ = owner;
  return owner_ == owner;
}

void CudaUploads::GiveBack(const void* owner) {
  if (owner_ == owner) owner_ = nullptr;
}

}  // namespace snug::core
