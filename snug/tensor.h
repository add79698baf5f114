// Numbers in memory. A Tensor looks at the library's numbers in place; Numbers are the caller's, to be copied; a Buffer
// is the caller's, to be used in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

namespace snug {
inline namespace v0 {

enum class DType : uint8_t { kFloat32, kBFloat16, kFloat64, kInt32, kInt64, kUint8 };

constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return 1;
    case DType::kBFloat16:
      return 2;
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
  }
  return 0;
}

// The DType of a C++ type. bfloat16 has no C++ type.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kFloat32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kFloat64> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kInt32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kInt64> {};
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kUint8> {};

template <class T>
concept Element = requires {
  DTypeOf<std::remove_cv_t<T>>::value;
};

struct TensorType {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
};

// Bytes of the library, row-major. They are valid as long as the object that gave them.
struct Tensor {
  void* data = nullptr;  // null: it is absent, or not known yet
  DType dtype = DType::kFloat32;
  std::span<const int64_t> shape;

  bool present() const { return data != nullptr; }
  int64_t num_elements() const {
    int64_t n = 1;
    for (const int64_t dim : shape) n *= dim;
    return n;
  }
  int64_t size_bytes() const { return num_elements() * SizeOf(dtype); }
  // Returns the elements, or nothing where there are no bytes or T is not their type.
  template <Element T>
  std::span<T> as() const {
    if (data == nullptr || DTypeOf<std::remove_cv_t<T>>::value != dtype) return {};
    return {static_cast<T*>(data), static_cast<size_t>(num_elements())};
  }
  TensorType type() const { return {dtype, {shape.begin(), shape.end()}}; }
};

// The caller's numbers, in anything contiguous: a vector, an array, a span, a list in braces. They are only read.
class Numbers {
 public:
  template <std::ranges::contiguous_range Range>
  requires Element<std::ranges::range_value_t<Range>> Numbers(const Range& range)
      : data_(std::ranges::data(range)),
        size_(static_cast<int64_t>(std::ranges::size(range))),
        dtype_(DTypeOf<std::ranges::range_value_t<Range>>::value) {}
  template <Element T>
  Numbers(std::initializer_list<T> list)
      : data_(list.begin()), size_(static_cast<int64_t>(list.size())), dtype_(DTypeOf<T>::value) {}
  Numbers(const void* data, int64_t size, DType dtype) : data_(data), size_(size), dtype_(dtype) {}

  const void* data() const { return data_; }
  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }

 private:
  const void* data_;
  int64_t size_;  // counts elements
  DType dtype_;
};

// The caller's memory that steps use in place (Program::Bind): anything contiguous that outlives them. A Buffer of
// const elements is only read.
class Buffer {
 public:
  template <std::ranges::contiguous_range Range>
  requires(Element<std::ranges::range_value_t<Range>>&& std::ranges::borrowed_range<Range>) Buffer(Range&& range)
      : data_(std::ranges::data(range)),
        size_(static_cast<int64_t>(std::ranges::size(range))),
        dtype_(DTypeOf<std::ranges::range_value_t<Range>>::value),
        writable_(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<Range>>>) {}
  Buffer(void* data, int64_t size, DType dtype) : data_(data), size_(size), dtype_(dtype), writable_(true) {}
  Buffer(const void* data, int64_t size, DType dtype) : data_(data), size_(size), dtype_(dtype), writable_(false) {}

  const void* data() const { return data_; }
  int64_t size() const { return size_; }
  DType dtype() const { return dtype_; }
  bool writable() const { return writable_; }

 private:
  const void* data_;
  int64_t size_;  // counts elements
  DType dtype_;
  bool writable_;
};

// A Buffer must begin at a multiple of this many bytes.
inline constexpr size_t kBufferAlignment = 64;
// A Buffer in a GPU's memory must begin at a multiple of this; memory from cudaMalloc does.
inline constexpr size_t kCudaBufferAlignment = 256;

template <class T>
struct BufferAllocator {
  using value_type = T;
  BufferAllocator() = default;
  template <class Other>
  BufferAllocator(const BufferAllocator<Other>&) {}
  T* allocate(size_t n) {
    if (n > SIZE_MAX / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{kBufferAlignment}));
  }
  void deallocate(T* data, size_t) { ::operator delete (data, std::align_val_t{kBufferAlignment}); }
  friend bool operator==(const BufferAllocator&, const BufferAllocator&) { return true; }
};

// A vector whose elements can be bound.
template <class T>
using BufferVector = std::vector<T, BufferAllocator<T>>;

}  // namespace v0
}  // namespace snug
