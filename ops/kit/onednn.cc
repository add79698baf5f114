#include "ops/kit/onednn.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "engine/base/signal_stack.h"
#include "engine/base/status.h"
#include "ops/kit/onednn_internal.h"
#ifdef _OPENMP
#include <omp.h>
#endif

namespace snug::core::onednn {
namespace {

using dnnl::memory;

// Returns how a blocked description lies in memory, in oneDNN's notation: axes from the outermost, capital where inner
// blocks of the axis follow ("ABcd16b16a").
std::string TagOf(const memory::dims& strides, const memory::dims& block_sizes, const memory::dims& block_axes) {
  std::string tag;
  for (size_t axis = 0; axis < strides.size(); ++axis) tag += static_cast<char>('a' + axis);
  std::stable_sort(tag.begin(), tag.end(), [&](char x, char y) {
    return strides[static_cast<size_t>(x - 'a')] > strides[static_cast<size_t>(y - 'a')];
  });
  for (char& letter : tag) {
    const memory::dim axis = letter - 'a';
    if (std::find(block_axes.begin(), block_axes.end(), axis) != block_axes.end()) letter = absl::ascii_toupper(letter);
  }
  for (size_t i = 0; i < block_sizes.size(); ++i) {
    absl::StrAppend(&tag, block_sizes[i]);
    tag += static_cast<char>('a' + block_axes[i]);
  }
  return tag;
}

std::string TagOf(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  if (desc.get_format_kind() != memory::format_kind::blocked) return "opaque";
  return TagOf(desc.get_strides(), desc.get_inner_blks(), desc.get_inner_idxs());
#else
  if (desc.data.format_kind != dnnl_blocked) return "opaque";
  const dnnl_blocking_desc_t& blocking = desc.data.format_desc.blocking;
  const int rank = desc.data.ndims;
  return TagOf({blocking.strides, blocking.strides + rank},
               {blocking.inner_blks, blocking.inner_blks + blocking.inner_nblks},
               {blocking.inner_idxs, blocking.inner_idxs + blocking.inner_nblks});
#endif
}

// A packed layout as the library itself describes it. Two are equal if the library says so.
class Format final : public PackedFormat {
 public:
  explicit Format(const memory::desc& desc)
      : PackedFormat(TagOf(desc), static_cast<int64_t>(desc.get_size())), desc_(desc) {}

  bool Equals(const PackedFormat& other) const override {
    const auto* const format = dynamic_cast<const Format*>(&other);
    return format != nullptr && format->desc_ == desc_;
  }
  const memory::desc& desc() const { return desc_; }

 private:
  const memory::desc desc_;
};

// A primitive whose memory objects are made once and get their pointers at each run. One memory object costs the
// library about as many bytes of heap as we allow for a whole call.
class PrimitiveKernel final : public Kernel {
 public:
  PrimitiveKernel(dnnl::primitive primitive, const std::vector<Argument>& arguments, const memory::desc& scratchpad,
                  std::string implementation, int threads)
      : Kernel(static_cast<int64_t>(scratchpad.get_size())),
        primitive_(std::move(primitive)),
        implementation_(std::move(implementation)),
        threads_(threads),
        stream_(CpuEngine()) {
    for (const Argument& argument : arguments) AddMemory(argument.id, argument.desc);
    num_arguments_ = arguments.size();
    if (workspace_bytes() > 0) AddMemory(DNNL_ARG_SCRATCHPAD, scratchpad);
  }

  const char* implementation() const override { return implementation_.c_str(); }

  absl::Status Run(absl::Span<const void* const> arguments, void* workspace) const override {
    SNUG_CHECK(arguments.size() == num_arguments_);
    NeedSignalStack();
    const std::lock_guard<std::mutex> lock(mutex_);
    const ThreadScope scope(threads_);
    dnnl_status_t status = dnnl_success;
    for (size_t i = 0; i < exec_.size() && status == dnnl_success; ++i) {
      void* const pointer = i < num_arguments_ ? const_cast<void*>(arguments[i]) : workspace;
      status = dnnl_memory_set_data_handle(exec_[i].memory, pointer);
    }
    if (status == dnnl_success) {
      status = dnnl_primitive_execute(primitive_.get(), stream_.get(), static_cast<int>(exec_.size()), exec_.data());
    }
    if (status == dnnl_success) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("oneDNN (", implementation_, ") failed with status ", int{status}));
  }

 private:
  void AddMemory(int id, const memory::desc& desc) {
    memories_.push_back(memory(desc, CpuEngine(), nullptr));
    exec_.push_back({id, memories_.back().get()});
  }

  dnnl::primitive primitive_;
  std::string implementation_;
  int threads_;
  dnnl::stream stream_;
  std::vector<memory> memories_;
  std::vector<dnnl_exec_arg_t> exec_;
  size_t num_arguments_ = 0;
  mutable std::mutex mutex_;  // guards the pointers in memories_
};

// Instruction sets are sets of bits, so one contains another if it has all of its bits.
bool Has(dnnl::cpu_isa wanted) {
  const auto bits = static_cast<unsigned>(wanted);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & bits) == bits;
}

// AMD's processors do products of bfloat16 at twice the rate of float32's; Intel's that lack AMX at half of it
// (docs/benchmarks/bfloat16.md).
bool IsAmd() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

}  // namespace

std::string Version() {
  const dnnl_version_t& version = *dnnl_version();
  return absl::StrCat(version.major, ".", version.minor, ".", version.patch);
}

bool Supports(DType dtype) {
  if (dtype == DType::kFloat32) return true;
  if (dtype != DType::kBFloat16) return false;
  static const bool has_avx512 = Has(dnnl::cpu_isa::avx512_core);
  return has_avx512;
}

bool HasAmx() {
  static const bool has_amx = Has(dnnl::cpu_isa::avx512_core_amx);
  return has_amx;
}

bool MultipliesBFloat16() {
  static const bool on_amd = Has(dnnl::cpu_isa::avx512_core_bf16) && IsAmd();
  return on_amd || HasAmx();
}

absl::Status CheckSupports(DType dtype) {
  if (Supports(dtype)) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("oneDNN has no fast kernels for ", Name(dtype), " on this processor"));
}

bool Declines(PrepareContext& c, const absl::Status& made) {
  if (!absl::IsUnimplemented(made) || !c.choice().empty()) return false;
  c.Decline(Refused(std::string(made.message())));
  return true;
}

const dnnl::engine& CpuEngine() {
  // The library's cache of primitives is switched off: version 2.6 was seen to crash in comparing its keys (TensorFlow
  // did without it before 2.7.1, because it corrupts memory: tensorflow/tensorflow#58269), and what it keeps is in no
  // plan. The cache is the process's, so a program around us that uses oneDNN goes without it as well. Making the
  // kernels of ResNet-50 anew costs 50 ms.
  static const dnnl::engine engine = [] {
    dnnl::set_primitive_cache_capacity(0);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return engine;
}

memory::data_type DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return memory::data_type::f32;
    case DType::kBFloat16:
      return memory::data_type::bf16;
    default:
      return memory::data_type::undef;
  }
}

memory::dims Dims(const Shape& shape) {
  if (shape.rank() == 0) return {1};
  return {shape.dims().begin(), shape.dims().end()};
}

memory::desc Describe(const ValueType& type) {
  if (type.layout.kind == Layout::Kind::kPacked) return DescriptionOf(*type.layout.packed);
  const memory::dims dims = Dims(type.shape);
  if (type.layout.plain()) return DescribePlain(dims, type.dtype);
  const Strides strides = type.strides();
  return memory::desc(dims, DataType(type.dtype), memory::dims(strides.begin(), strides.begin() + type.shape.rank()));
}

memory::desc DescribePlain(const memory::dims& dims, DType dtype) {
  memory::dims strides(dims.size());
  memory::dim stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return memory::desc(dims, DataType(dtype), strides);
}

memory::desc DescribeAny(const memory::dims& dims, DType dtype) {
  return memory::desc(dims, DataType(dtype), memory::format_tag::any);
}

Layout LayoutOf(const memory::desc& desc) {
#if DNNL_VERSION_MAJOR >= 3
  const memory::desc plain = DescribePlain(
      desc.get_dims(), desc.get_data_type() == memory::data_type::bf16 ? DType::kBFloat16 : DType::kFloat32);
#else
  const memory::desc plain =
      DescribePlain(desc.dims(), desc.data_type() == memory::data_type::bf16 ? DType::kBFloat16 : DType::kFloat32);
#endif
  if (desc == plain) return Layout::Plain();
  return Layout::Packed(std::make_shared<const Format>(desc));
}

memory::desc DescriptionOf(const PackedFormat& format) {
  const auto* const ours = dynamic_cast<const Format*>(&format);
  SNUG_CHECK(ours != nullptr);
  return ours->desc();
}

KernelPtr MakeKernel(dnnl::primitive primitive, const std::vector<Argument>& arguments, const memory::desc& scratchpad,
                     std::string implementation, int threads) {
  return std::make_shared<PrimitiveKernel>(std::move(primitive), arguments, scratchpad, std::move(implementation),
                                           threads);
}

#ifdef _OPENMP
ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
ThreadScope::~ThreadScope() { omp_set_num_threads(before_); }
#else
ThreadScope::ThreadScope(int /*threads*/) : before_(1) {}
ThreadScope::~ThreadScope() = default;
#endif

absl::Status FromError(const dnnl::error& error) {
  const std::string message = absl::StrCat("oneDNN: ", error.what());
  switch (error.status) {
    case dnnl_unimplemented:
      return absl::UnimplementedError(message);
    case dnnl_invalid_arguments:
      return absl::InvalidArgumentError(message);
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::InternalError(message);
  }
}

}  // namespace snug::core::onednn
