// Arrays of snug/c.h: numbers with owners, and how DLPack hands them on.
#include <dlfcn.h>
#include <unistd.h>

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

// Python's functions about capsules. They are found in the process: the library is linked with no Python, so that it
// serves every version.
class Python {
 public:
  bool is_here() const { return is_valid_ != nullptr && pointer_ != nullptr && context_ != nullptr; }
  // Returns what a capsule of this name has; null where it has another name.
  void* PointerOf(void* capsule, const char* name) const {
    return is_valid_(capsule, name) != 0 ? pointer_(capsule, name) : nullptr;
  }
  bool IsOfThisProcess(void* capsule) const {
    const void* const process = context_(capsule);
    return process == nullptr || reinterpret_cast<intptr_t>(process) == getpid();
  }

 private:
  template <class Function>
  static Function* Find(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  }
  int (*is_valid_)(void*, const char*) = Find<int(void*, const char*)>("PyCapsule_IsValid");
  void* (*pointer_)(void*, const char*) = Find<void*(void*, const char*)>("PyCapsule_GetPointer");
  void* (*context_)(void*) = Find<void*(void*)>("PyCapsule_GetContext");
};

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

// A destructor that is written in Python would lose what the handler of a signal raises within it, and could not run
// while an exception is on its way, or after the interpreter has ended.
void snug_capsule_free(void* capsule) {
  static const Python python;
  if (!python.is_here()) return;
  if (void* const managed = python.PointerOf(capsule, "dltensor")) {
    static_cast<DLManagedTensor*>(managed)->deleter(static_cast<DLManagedTensor*>(managed));
  } else if (void* const versioned = python.PointerOf(capsule, "dltensor_versioned")) {
    static_cast<DLManagedTensorVersioned*>(versioned)->deleter(static_cast<DLManagedTensorVersioned*>(versioned));
  } else if (void* const array = python.PointerOf(capsule, "snug_array")) {
    if (python.IsOfThisProcess(capsule)) snug_array_free(static_cast<snug_array*>(array));
  } else if (void* const network = python.PointerOf(capsule, "snug_network")) {
    if (python.IsOfThisProcess(capsule)) snug_network_free(static_cast<snug_network*>(network));
  } else if (void* const session = python.PointerOf(capsule, "snug_session")) {
    if (python.IsOfThisProcess(capsule)) snug_session_free(static_cast<snug_session*>(session));
  }
}
