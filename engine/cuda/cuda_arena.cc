#include "engine/cuda/cuda_arena.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "engine/base/status.h"
#include "engine/cuda/cuda_table.h"

namespace snug::core::cuda {
namespace {

int64_t RoundUp(int64_t bytes, int64_t granularity) { return (bytes + granularity - 1) / granularity * granularity; }

CUmemAllocationProp PropertiesOf(const CudaDevice& device) {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.info().index;
  return properties;
}

CUdeviceptr Number(const std::byte* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

absl::StatusOr<std::unique_ptr<CudaArena>> CudaArena::Create(std::shared_ptr<const CudaDevice> device,
                                                             int64_t size_bytes) {
  std::byte* data = nullptr;
  if (size_bytes > 0) {
    absl::StatusOr<std::byte*> taken = device->Allocate(size_bytes);
    if (!taken.ok()) return Annotate(taken.status(), absl::StrCat("an arena of ", size_bytes, " bytes"));
    data = *taken;
  }
  return std::unique_ptr<CudaArena>(new CudaArena(std::move(device), data, size_bytes));
}

CudaArena::~CudaArena() { device_->Free(data_); }

absl::StatusOr<std::unique_ptr<GrowingCudaArena>> GrowingCudaArena::Create(std::shared_ptr<const CudaDevice> device,
                                                                           int64_t most_bytes) {
  SNUG_RETURN_IF_ERROR(device->MakeCurrent());
  const CUmemAllocationProp properties = PropertiesOf(*device);
  size_t granularity = 0;
  SNUG_CUDA_CALL(device->api(), cuMemGetAllocationGranularity,
                 (&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "asking how memory can be mapped");
  std::unique_ptr<GrowingCudaArena> arena(new GrowingCudaArena(std::move(device), static_cast<int64_t>(granularity)));
  SNUG_RETURN_IF_ERROR(arena->Reserve(most_bytes));
  return arena;
}

absl::Status GrowingCudaArena::Reserve(int64_t most_bytes) {
  const int64_t bytes = RoundUp(most_bytes, granularity_);
  CUdeviceptr address = 0;
  SNUG_CUDA_CALL(device_->api(), cuMemAddressReserve, (&address, static_cast<size_t>(bytes), 0, 0, 0),
                 absl::StrCat("reserving ", bytes, " bytes of addresses"));
  data_ = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr): CUDA's addresses are numbers
  reserved_bytes_ = bytes;
  return absl::OkStatus();
}

absl::Status GrowingCudaArena::GrowTo(int64_t size_bytes) {
  const int64_t bytes = RoundUp(size_bytes, granularity_) - size_bytes_;
  if (bytes <= 0) return absl::OkStatus();
  if (size_bytes_ + bytes > reserved_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("an arena with addresses for ", reserved_bytes_, " bytes cannot grow to ", size_bytes));
  }
  SNUG_RETURN_IF_ERROR(device_->MakeCurrent());
  const CUmemAllocationProp properties = PropertiesOf(*device_);
  Piece piece{.bytes = bytes};
  CUmemGenericAllocationHandle handle = 0;
  SNUG_CUDA_CALL(device_->api(), cuMemCreate, (&handle, static_cast<size_t>(bytes), &properties, 0),
                 absl::StrCat("growing an arena on ", device_->device().ToString(), " from ", size_bytes_, " by ",
                              bytes, " bytes"));
  piece.handle = handle;
  absl::Status put = Put(piece);
  if (!put.ok()) {
    device_->api().table().cuMemRelease(handle);
    return put;
  }
  pieces_.push_back(piece);
  size_bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status GrowingCudaArena::Put(const Piece& piece) {
  const CUdeviceptr at = Number(data_ + size_bytes_);
  const auto bytes = static_cast<size_t>(piece.bytes);
  SNUG_CUDA_CALL(device_->api(), cuMemMap, (at, bytes, 0, piece.handle, 0), "mapping an arena's memory");
  CUmemAccessDesc access = {};
  access.location = PropertiesOf(*device_).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const CUresult opened = device_->api().table().cuMemSetAccess(at, bytes, &access, 1);
  if (opened == CUDA_SUCCESS) return absl::OkStatus();
  device_->api().table().cuMemUnmap(at, bytes);
  return device_->api().Error(Library::kDriver, "cuMemSetAccess", opened, "opening an arena's memory");
}

GrowingCudaArena::~GrowingCudaArena() {
  if (data_ == nullptr) return;
  device_->MakeCurrent().IgnoreError();
  const Table& table = device_->api().table();
  std::byte* at = data_;
  for (const Piece& piece : pieces_) {
    table.cuMemUnmap(Number(at), static_cast<size_t>(piece.bytes));
    table.cuMemRelease(piece.handle);
    at += piece.bytes;
  }
  table.cuMemAddressFree(Number(data_), static_cast<size_t>(reserved_bytes_));
}

}  // namespace snug::core::cuda
