// Arrays of snug/c.h: numbers with owners, and how DLPack hands them on.
#include <dlfcn.h>

#include <cstddef>
#include <limits>

#include "snug/internal/c_handles.h"
#include "snug/internal/dlpack.h"

using namespace snug::c_api;

// What an array, and everything that looks at the same bytes, own together.
struct snug_array {
  std::shared_ptr<void> bytes;
  snug::DType dtype = snug::DType::kFloat32;
  std::vector<int64_t> shape;
};

namespace {

using snug::DType;
using snug::Status;

// An array as DLPack has it, in one piece with what its pointers point to.
template <class Managed>
struct Handed {
  Managed managed{};
  std::shared_ptr<void> bytes;
  std::vector<int64_t> shape, strides;
};

DLDataType ElementOf(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * snug::SizeOf(dtype));
  switch (dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
      return {kDLFloat, bits, 1};
    case DType::kBFloat16:
      return {kDLBfloat, bits, 1};
    case DType::kInt32:
    case DType::kInt64:
      return {kDLInt, bits, 1};
    case DType::kUint8:
      break;
  }
  return {kDLUInt, bits, 1};
}

template <class Managed>
Managed* HandOn(const snug_array& array) {
  auto handed = std::make_unique<Handed<Managed>>();
  handed->bytes = array.bytes;
  handed->shape = array.shape;
  handed->strides.resize(array.shape.size());
  int64_t stride = 1;
  for (size_t i = array.shape.size(); i-- > 0;) {
    handed->strides[i] = stride;
    stride *= array.shape[i];
  }
  handed->managed.dl_tensor = {.data = array.bytes.get(),
                               .device = {kDLCPU, 0},
                               .ndim = static_cast<int32_t>(array.shape.size()),
                               .dtype = ElementOf(array.dtype),
                               .shape = handed->shape.data(),
                               .strides = handed->strides.data(),
                               .byte_offset = 0};
  handed->managed.manager_ctx = handed.get();
  handed->managed.deleter = [](Managed* self) { delete static_cast<Handed<Managed>*>(self->manager_ctx); };
  return &handed.release()->managed;
}

// Returns the bytes of so many elements, or nothing where that is no size.
snug::Result<int64_t> BytesOf(DType dtype, const int64_t* shape, int32_t rank) {
  int64_t bytes = snug::SizeOf(dtype);
  for (int32_t i = 0; i < rank; ++i) {
    if (shape[i] < 0 || __builtin_mul_overflow(bytes, shape[i], &bytes)) {
      return Invalid("argument \"shape\": expected sizes of at least 0 that can be had, found " +
                     std::to_string(shape[i]) + " in place " + std::to_string(i));
    }
  }
  return bytes;
}

}  // namespace

snug_error* snug_array_new(snug_dtype dtype, const int64_t* shape, int32_t rank, snug_array** array) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"array", array}}); !given.ok()) return given;
    if (rank < 0 || (rank > 0 && shape == nullptr)) {
      return Invalid("argument \"rank\": expected the length of \"shape\", found " + std::to_string(rank));
    }
    const snug::Result<DType> type = DTypeFrom(dtype);
    if (!type.ok()) return type.status();
    const snug::Result<int64_t> bytes = BytesOf(*type, shape, rank);
    if (!bytes.ok()) return bytes.status();
    constexpr std::align_val_t kAlignment{snug::kBufferAlignment};
    std::shared_ptr<void> owned(::operator new(static_cast<size_t>(*bytes), kAlignment),
                                [](void* data) { ::operator delete (data, std::align_val_t{snug::kBufferAlignment}); });
    *array = new snug_array{std::move(owned), *type, {shape, shape + rank}};
    return {};
  });
}

snug_error* snug_array_of(snug_session* session, const snug_tensor* tensor, snug_array** array) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"session", session}, {"tensor", tensor}, {"array", array}}); !given.ok()) return given;
    if (tensor->data == nullptr) return Invalid("argument \"tensor\": expected one with bytes, found none");
    const snug::Result<DType> type = DTypeFrom(static_cast<snug_dtype>(tensor->dtype));
    if (!type.ok()) return type.status();
    *array = new snug_array{
        std::shared_ptr<void>(session->session, tensor->data), *type, {tensor->shape, tensor->shape + tensor->rank}};
    return {};
  });
}

snug_error* snug_array_tensor(const snug_array* array, snug_tensor* tensor) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"array", array}, {"tensor", tensor}}); !given.ok()) return given;
    return GiveTensor(snug::Tensor{array->bytes.get(), array->dtype, {array->shape.data(), array->shape.size()}},
                      tensor);
  });
}

void snug_array_free(snug_array* array) { delete array; }

snug_error* snug_array_dlpack(const snug_array* array, int versioned, void** managed) {
  return Guarded([&]() -> Status {
    if (Status given = Given({{"array", array}, {"managed", managed}}); !given.ok()) return given;
    if (versioned == 0) {
      *managed = HandOn<DLManagedTensor>(*array);
      return {};
    }
    auto* const handed = HandOn<DLManagedTensorVersioned>(*array);
    handed->major = 1;
    handed->minor = 0;
    *managed = handed;
    return {};
  });
}

// Python's functions are found in the process: the library is linked with no Python, so that it serves every version. A
// destructor that is written in Python would run while an exception is on its way, or after the interpreter has ended.
void snug_array_capsule_free(void* capsule) {
  const auto is_valid = reinterpret_cast<int (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"));
  const auto pointer_in = reinterpret_cast<void* (*)(void*, const char*)>(dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  if (is_valid == nullptr || pointer_in == nullptr) return;
  if (is_valid(capsule, "dltensor") != 0) {
    auto* const managed = static_cast<DLManagedTensor*>(pointer_in(capsule, "dltensor"));
    managed->deleter(managed);
  } else if (is_valid(capsule, "dltensor_versioned") != 0) {
    auto* const managed = static_cast<DLManagedTensorVersioned*>(pointer_in(capsule, "dltensor_versioned"));
    managed->deleter(managed);
  }
}
