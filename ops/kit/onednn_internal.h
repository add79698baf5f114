// What the files ops/kernels/*/onednn.cc share: conversions between our types and oneDNN's, and the making of a Kernel
// from a primitive. A primitive is made inside Guard (the library throws) under a ThreadScope (it fixes its threads
// when it is made):
//
//   return Guard([&]() -> absl::StatusOr<KernelPtr> {
//     ThreadScope scope(threads);
//     const matmul::primitive_desc pd(...UserScratchpad()...);
//     return MakeKernel(pd, dnnl::matmul(pd), {{DNNL_ARG_SRC, pd.src_desc()}, ...}, threads);
//   });
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/str_cat.h>

#include <cstdint>
#include <limits>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "engine/graph/value_type.h"
#include "ops/kit/onednn.h"

namespace snug::core::onednn {

const dnnl::engine& CpuEngine();

dnnl::memory::data_type DataType(DType dtype);
dnnl::memory::dims Dims(const Shape& shape);  // rank 0 becomes one dimension of 1

// Describes a value in the layout that its type says: plain, channels-last or packed.
dnnl::memory::desc Describe(const ValueType& type);
// One describes row-major data, the other leaves the layout to the primitive.
dnnl::memory::desc DescribePlain(const dnnl::memory::dims& dims, DType dtype);
dnnl::memory::desc DescribeAny(const dnnl::memory::dims& dims, DType dtype);

// Returns the layout that a primitive wants for a value: plain or packed. The packed form keeps the description, with
// the dimensions as the library sees them (a grouped convolution's weights have one more than ours).
Layout LayoutOf(const dnnl::memory::desc& desc);
// Returns the description that a packed layout keeps.
dnnl::memory::desc DescriptionOf(const PackedFormat& format);

// Tells primitives to take their scratchpad from the caller.
inline dnnl::primitive_attr UserScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

struct Argument {
  int id;  // DNNL_ARG_...
  dnnl::memory::desc desc;
};
KernelPtr MakeKernel(dnnl::primitive primitive, const std::vector<Argument>& arguments,
                     const dnnl::memory::desc& scratchpad, std::string implementation, int threads);
template <class PrimitiveDesc>
KernelPtr MakeKernel(const PrimitiveDesc& pd, dnnl::primitive primitive, const std::vector<Argument>& arguments,
                     int threads) {
  return MakeKernel(std::move(primitive), arguments, pd.scratchpad_desc(), pd.impl_info_str(), threads);
}

// Says that an implementation is a plain loop nest, which is slower than our own plain kernels.
inline bool IsReference(absl::string_view implementation) { return implementation.substr(0, 3) == "ref"; }

// The library chooses its blocks with dimensions of 32 bits, and would cut larger ones without a word.
template <class... Dims>
bool DimsFit(Dims... dims) {
  return ((dims <= std::numeric_limits<int32_t>::max()) && ...);
}

// OK, or Unimplemented with the reason why the library is not asked for kernels of this element type.
absl::Status CheckSupports(DType dtype);

// Sets, for a scope, the number of threads that primitives made or run on this thread use.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  [[maybe_unused]] int before_;  // unused without OpenMP
};

// Calls fn (absl::Status or StatusOr) and turns the library's exceptions into a Status: Unimplemented where it has no
// such primitive, InvalidArgument or Internal otherwise.
absl::Status FromError(const dnnl::error& error);
template <class Fn>
auto Guard(Fn&& fn) -> decltype(fn()) {
  try {
    return fn();
  } catch (const dnnl::error& error) {
    return FromError(error);
  }
}

}  // namespace snug::core::onednn
