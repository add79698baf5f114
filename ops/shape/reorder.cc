// reorder: the same value in another layout. Only the compiler makes it.
//
// The layout pass writes the target into the options ("" is plain, "nhwc" is channels-last), so it survives inference.
// Packed layouts are asked for when kernels are chosen, after the last inference, so there the compiler sets the
// output's type itself. Kernels look only at the types.
//
// Plain <-> channels-last is a transposition of [channels, pixels] for each sample. Our own loops do it, in register
// blocks of 64 bytes squared. A packed format of our own makes its bytes itself; the others are the library's, and so
// is their reorder.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/infer_context.h"
#include "ops/kernel_context.h"
#include "ops/kernels/copy/copy_box.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kit/isa.h"
#include "ops/op_def.h"
#include "ops/prepare_context.h"
#include "ops/sample_builder.h"
#include "proto/internal.pb.h"
#include "proto/options.h"
#if SNUG_HAS_ONEDNN
#include "ops/kernels/copy/onednn_reorder.h"
#endif

namespace snug::core::ops::reorder {
namespace {

using proto::ParseOptions;

absl::Status Infer(InferContext& c) {
  ValueType type = c.input(0);
  const std::string& layout = c.options<proto::Reorder>().layout();
  if (layout == Layout::ChannelsLast().ToString()) {
    SNUG_RETURN_IF_ERROR(c.CheckRank(0, 3, 5));
    type.layout = Layout::ChannelsLast();
  } else if (layout.empty()) {
    type.layout = Layout::Plain();
  } else {
    return c.OptionError("layout", absl::StrCat("expected \"\" or \"nhwc\", found \"", layout, "\""));
  }
  c.SetOutput(0, type);
  return absl::OkStatus();
}

Cost ReorderCost(const NodeTypes& /*types*/) { return {}; }

// ---- transposition ----

// A block has kLanes rows of 64 bytes each.
template <class T>
inline constexpr int64_t kLanes = static_cast<int64_t>(64 / sizeof(T));

// Does one stage of transposing a square block in registers: swaps the off-diagonal quarters of every 2 kStep x 2 kStep
// square. After stages 1, 2, 4, ... the block is transposed.
template <int64_t kStep, class T, class Vector>
SNUG_INLINE void SwapQuarters(Vector* rows) {
  constexpr int64_t kSize = kLanes<T>;
  // The vectors are passed by reference, because by value they have another ABI where the compiler's least processor
  // has no such registers.
  const auto swap = []<size_t... i>(std::index_sequence<i...>, Vector & upper, Vector & lower) SNUG_LAMBDA {
    const Vector a = upper;
    const Vector b = lower;
    upper = __builtin_shufflevector(a, b, ((i & kStep) != 0 ? kSize + i - kStep : i)...);
    lower = __builtin_shufflevector(a, b, ((i & kStep) != 0 ? kSize + i : i + kStep)...);
  };
  constexpr std::make_index_sequence<kSize> kIndices;
  for (int64_t i = 0; i < kSize; ++i) {
    if ((i & kStep) == 0) swap(kIndices, rows[i], rows[i + kStep]);
  }
}

// Sets to[j * to_stride + i] = from[i * from_stride + j] for a whole block.
template <class T>
SNUG_INLINE void TransposeBlock(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
  using Vector __attribute__((vector_size(64))) = T;
  Vector rows[kLanes<T>];
  for (int64_t i = 0; i < kLanes<T>; ++i) std::memcpy(&rows[i], from + i * from_stride, 64);
  SwapQuarters<1, T>(rows);
  SwapQuarters<2, T>(rows);
  SwapQuarters<4, T>(rows);
  constexpr int64_t kSize = kLanes<T>;
  if constexpr (kSize > 8) SwapQuarters<8, T>(rows);
  if constexpr (kSize > 16) SwapQuarters<16, T>(rows);
  if constexpr (kSize > 32) SwapQuarters<32, T>(rows);
  for (int64_t i = 0; i < kLanes<T>; ++i) std::memcpy(to + i * to_stride, &rows[i], 64);
}

template <class T>
SNUG_INLINE void TransposeScalars(const T* from, int64_t from_stride, int64_t rows, int64_t columns, T* to,
                                  int64_t to_stride) {
  for (int64_t j = 0; j < columns; ++j) {
    for (int64_t i = 0; i < rows; ++i) to[j * to_stride + i] = from[i * from_stride + j];
  }
}

// Sets to[3 * j + i] = from[i * stride + j] for a vector's columns: the three colours of an image's pixels.
template <class Vector, class T>
SNUG_INLINE void MixThree(const T* from, int64_t stride, T* to) {
  constexpr size_t kSize = sizeof(Vector) / sizeof(T);
  Vector red, green, blue;
  std::memcpy(&red, from, sizeof(Vector));
  std::memcpy(&green, from + stride, sizeof(Vector));
  std::memcpy(&blue, from + 2 * stride, sizeof(Vector));
  const auto mix = [&]<size_t kThird, size_t... i>(std::integral_constant<size_t, kThird>, std::index_sequence<i...>)
      SNUG_LAMBDA {
    // Number n of the result is colour n % 3 of pixel n / 3.
    constexpr size_t kAt = kThird * kSize;
    const Vector two = __builtin_shufflevector(red, green, ((kAt + i) / 3 + ((kAt + i) % 3 == 1 ? kSize : 0))...);
    const Vector all = __builtin_shufflevector(two, blue, ((kAt + i) % 3 == 2 ? kSize + (kAt + i) / 3 : i)...);
    std::memcpy(to + kAt, &all, sizeof(Vector));
  };
  constexpr std::make_index_sequence<kSize> kIndices;
  mix(std::integral_constant<size_t, 0>(), kIndices);
  mix(std::integral_constant<size_t, 1>(), kIndices);
  mix(std::integral_constant<size_t, 2>(), kIndices);
}

// Transposes the columns [begin, end) of from [rows, columns] into to [columns, rows].
template <Isa kIsa, class T>
SNUG_INLINE void TransposeColumns(const T* from, int64_t rows, int64_t columns, int64_t begin, int64_t end, T* to) {
  constexpr int64_t kSize = kLanes<T>;
  int64_t j = begin;
  if constexpr (std::is_same_v<T, uint32_t> && kIsa != Isa::kBaseline) {
    constexpr int64_t kBytes = kIsa == Isa::kAvx512 ? 64 : 32;
    typedef T Vector __attribute__((vector_size(kBytes)));  // NOLINT: `using` takes no dependent vector_size
    constexpr int64_t kColumns = sizeof(Vector) / sizeof(T);
    if (rows == 3) {
      for (; j + kColumns <= end; j += kColumns) MixThree<Vector>(from + j, columns, to + 3 * j);
    }
  }
  for (; j + kSize <= end; j += kSize) {
    int64_t i = 0;
    for (; i + kSize <= rows; i += kSize) {
      TransposeBlock(from + i * columns + j, columns, to + j * rows + i, rows);
    }
    TransposeScalars(from + i * columns + j, columns, rows - i, kSize, to + j * rows + i, rows);
  }
  TransposeScalars(from + j, columns, rows, end - j, to + j * rows, rows);
}

template <class T>
void Transpose(int threads, int64_t batch, int64_t rows, int64_t columns, const T* from, T* to) {
  // A chunk is some columns of one sample: about 64 KiB, in whole blocks of lanes.
  const int64_t lanes = kLanes<T>;
  const int64_t wanted = (int64_t{64} << 10) / static_cast<int64_t>(sizeof(T)) / rows / lanes * lanes;
  const int64_t width = std::max(lanes, wanted);
  const int64_t chunks = (columns + width - 1) / width;
  ParallelFor(threads, batch * chunks, 1, [=](int64_t first, int64_t last) {
    for (int64_t chunk = first; chunk < last; ++chunk) {
      const int64_t offset = chunk / chunks * rows * columns;
      const int64_t begin = chunk % chunks * width;
      const int64_t end = std::min(columns, begin + width);
      WithIsa([=](auto isa)
                  SNUG_LAMBDA { TransposeColumns<isa()>(from + offset, rows, columns, begin, end, to + offset); });
    }
  });
}

void CopyBytes(int threads, int64_t bytes, const char* from, char* to) {
  ParallelFor(threads, bytes, int64_t{1} << 18, [=](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

absl::Status ReorderCpu(const KernelContext& k) {
  const ValueType& from = k.input_type(0);
  const ValueType& to = k.output_type(0);
  if (from.layout.kind == Layout::Kind::kPacked || to.layout.kind == Layout::Kind::kPacked) {
    return absl::InternalError("a packed layout without the library that reads it");
  }
  const int64_t channels = from.shape.rank() > 1 ? from.shape[1] : 1;
  const int64_t pixels = from.shape.Count(std::min(2, from.shape.rank()), from.shape.rank());
  if (from.layout == to.layout || channels == 1 || pixels == 1) {
    CopyBytes(k.threads(), from.size_bytes(), k.input<char>(0), k.output<char>(0));
    return absl::OkStatus();
  }
  const int64_t rows = to.layout.channels_last() ? channels : pixels;
  const int64_t columns = to.layout.channels_last() ? pixels : channels;
  const auto transpose = [&](auto zero) {
    using T = decltype(zero);
    Transpose(k.threads(), from.shape[0], rows, columns, k.input<T>(0), k.output<T>(0));
    return absl::OkStatus();
  };
  switch (SizeOf(from.dtype)) {
    case 1:
      return transpose(uint8_t{});
    case 2:
      return transpose(uint16_t{});
    case 4:
      return transpose(uint32_t{});
    default:
      return transpose(uint64_t{});
  }
}

// ---- packed layouts ----

std::optional<NotServed> OnlyOwnFormats(const NodeTypes& types) {
  if (types.input(0).layout.plain() && OwnFormatOf(types.output(0).layout) != nullptr) return std::nullopt;
  return ByDesign("it is for our own packed layouts");
}

absl::Status PackOwn(const KernelContext& k) {
  const OwnFormat& format = *OwnFormatOf(k.output_type(0).layout);
  if (k.input_type(0).dtype == DType::kBFloat16) {
    format.Pack(k.threads(), k.input<BFloat16>(0), k.output<void>(0));
  } else {
    format.Pack(k.threads(), k.input<float>(0), k.output<void>(0));
  }
  return absl::OkStatus();
}

#if SNUG_HAS_ONEDNN

std::optional<NotServed> OnlyPacked(const NodeTypes& types) {
  const bool packed =
      types.input(0).layout.kind == Layout::Kind::kPacked || types.output(0).layout.kind == Layout::Kind::kPacked;
  if (packed) return std::nullopt;
  return ByDesign("it is for the library's packed layouts");
}

absl::Status Prepare(PrepareContext& c) {
  SNUG_ASSIGN_OR_RETURN(const onednn::KernelPtr kernel,
                        onednn::MakeReorder(c.types().input(0), c.types().output(0), c.threads()));
  c.SetWorkspaceBytes(kernel->workspace_bytes());
  c.SetKernel(kernel);
  return absl::OkStatus();
}

absl::Status ReorderOneDnn(const KernelContext& k) {
  return k.prepared<onednn::Kernel>().Run({k.input<void>(0), k.output<void>(0)}, k.workspace());
}

constexpr auto kFast = ReorderOneDnn;

#else

constexpr auto kFast = nullptr;
constexpr auto Prepare = nullptr;
constexpr auto OnlyPacked = nullptr;

#endif

void Samples(SampleBuilder& s) {
  const Options last = ParseOptions<proto::Reorder>("layout: \"nhwc\"");
  s.Case("matrix").Input({3, 4});
  s.Case("to_plain").Input({2, 35, 7, 5});
  s.Case("image").With(last).Input({2, 35, 7, 5});
  s.Case("line").With(last).Input({2, 3, 40});
  s.Case("colours").With(last).Input({2, 3, 7, 15});
  s.Case("volume").With(last).Input({2, 17, 2, 3, 7});
  s.Case("one_channel").With(last).Input({2, 1, 5, 5});
  s.Case("blocks").With(last).Input({1, 64, 8, 8});
  s.Case("known").With(last).Input({1, 2, 3}).Values({1, 2, 3, 4, 5, 6}).Expect(0, {1, 2, 3, 4, 5, 6});
  s.Case("bytes").With(last).Bytes({2, 70, 9, 9});
  s.Case("bad_rank").With(last).Input({2, 3}).Fails("expected 3 to 5 dimensions");
  s.Case("bad_layout")
      .With(ParseOptions<proto::Reorder>("layout: \"chwn\""))
      .Input({2, 3, 4})
      .Fails("option \"layout\": expected \"\" or \"nhwc\", found \"chwn\"");
}

}  // namespace

SNUG_OPS(reorder) {
  return {{.name = "reorder",
           .doc = "y = x in another layout",
           .inputs = {{.name = "x", .type = PortType::kAny}},
           .outputs = {{.name = "y", .type = PortType::kAny}},
           .infer = Infer,
           .traits = {.layout = LayoutRule::kConverts},
           .cost = ReorderCost,
           .kernels = {{.name = "own", .serves = OnlyOwnFormats, .run = PackOwn},
                       {.name = "onednn", .library = "oneDNN", .serves = OnlyPacked, .prepare = Prepare, .run = kFast},
                       Plain(ReorderCpu),
                       OwnOnCuda(SNUG_IF_CUDA([](const KernelContext& k) {
                         return CopyBoxCuda(k, SizeOf(k.input_type(0).dtype), k.input_type(0).shape, k.input<void>(0),
                                            k.input_type(0).strides(), k.output<void>(0), k.output_type(0).strides());
                       }))},
           .samples = Samples}};
}

}  // namespace snug::core::ops::reorder
