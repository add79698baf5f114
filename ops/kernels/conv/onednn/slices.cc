#include "ops/kernels/conv/onednn/slices.h"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/base/bfloat16.h"
#include "engine/base/parallel.h"
#include "engine/base/status.h"
#include "ops/kit/float_vectors.h"
#include "ops/kit/isa.h"

namespace snug::core::onednn {
namespace {

constexpr int64_t kLine = 64;               // bytes: what lies in the workspace begins at multiples of it
constexpr int64_t kSliceBytes = 256 << 10;  // of a slice's images in float, before and after
constexpr int64_t kLeastSlices = 8;         // where the batch has so many images
constexpr int64_t kMostWeights = 1 << 17;   // they are read again for each slice
constexpr int64_t kMostParts = 8;           // of sums over slices, which are added up in the end
constexpr size_t kMostArguments = 4;        // x, w, bias, y

int64_t Lines(int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// What a kernel does with an argument.
enum class Role : uint8_t {
  kWhole,    // float32, for all slices alike
  kRead,     // bfloat16 images
  kWritten,  // bfloat16 images
  kSummed,   // float32, what all slices give together
};

struct SlicedArgument {
  Role role;
  int64_t elements;  // of a slice, or of all of it where it is summed
};

void Widen(int64_t n, const BFloat16* from, float* to) {
  WithIsa([=]() SNUG_LAMBDA {
    for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
  });
}
void Round(int64_t n, const float* from, BFloat16* to) {
  WithIsa([=](auto isa) SNUG_LAMBDA { RoundRow(isa, n, from, to); });
}
void Add(int64_t n, const float* from, float* to) {
  WithIsa([=]() SNUG_LAMBDA {
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) to[i] += from[i];
  });
}

class SlicedKernel final : public Kernel {
 public:
  // `kernels` are alike, one for each thread, because a kernel's calls take turns.
  SlicedKernel(std::vector<KernelPtr> kernels, std::vector<SlicedArgument> arguments, int64_t slices)
      : Kernel(WorkspaceOf(kernels, arguments, slices)),
        kernels_(std::move(kernels)),
        arguments_(std::move(arguments)),
        slices_(slices),
        parts_(PartsOf(arguments_, slices)),
        folded_(FoldedParts(kernels_, arguments_, slices)),
        scratch_(ScratchOf(kernels_, arguments_, slices)) {}

  const char* implementation() const override { return kernels_[0]->implementation(); }

  absl::Status Run(absl::Span<const void* const> arguments, void* workspace) const override {
    SNUG_CHECK(arguments.size() == arguments_.size() && arguments.size() <= kMostArguments);
    const int threads = static_cast<int>(kernels_.size());
    std::mutex mutex;
    absl::Status failure;  // guarded by the mutex
    // A part's slices are one thread's. Which parts there are does not depend on the threads.
    ParallelFor(threads, threads, 1, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) {
        absl::Status status;
        for (int64_t part = parts_ * thread / threads; part < parts_ * (thread + 1) / threads && status.ok(); ++part) {
          status = RunPart(thread, part, arguments, static_cast<char*>(workspace));
          if (status.ok() && part > 0 && part < folded_) AddTo(arguments, part, static_cast<char*>(workspace));
        }
        if (status.ok()) continue;
        const std::lock_guard<std::mutex> lock(mutex);
        failure = status;
      }
    });
    SNUG_RETURN_IF_ERROR(failure);
    AddParts(threads, arguments, static_cast<char*>(workspace));
    return absl::OkStatus();
  }

 private:
  static int64_t SummedBytes(const std::vector<SlicedArgument>& arguments) {
    const SlicedArgument& last = arguments.back();
    return last.role == Role::kSummed ? Lines(last.elements * static_cast<int64_t>(sizeof(float))) : 0;
  }
  static int64_t PartsOf(const std::vector<SlicedArgument>& arguments, int64_t slices) {
    return arguments.back().role == Role::kSummed ? std::min(slices, kMostParts) : slices;
  }
  // How many parts the first thread has. They are the first ones, so that it adds each to the output as soon as it is
  // made, in the order in which the others follow.
  static int64_t FoldedParts(const std::vector<KernelPtr>& kernels, const std::vector<SlicedArgument>& arguments,
                             int64_t slices) {
    if (arguments.back().role != Role::kSummed) return 0;
    return PartsOf(arguments, slices) / static_cast<int64_t>(kernels.size());
  }
  // Of one thread: what its slice is in float, what a slice gives to a part that has several, and what the kernel
  // wants.
  static int64_t ScratchOf(const std::vector<KernelPtr>& kernels, const std::vector<SlicedArgument>& arguments,
                           int64_t slices) {
    int64_t bytes = Lines(kernels[0]->workspace_bytes());
    if (slices > PartsOf(arguments, slices)) bytes += SummedBytes(arguments);
    for (const SlicedArgument& argument : arguments) {
      const bool sliced = argument.role == Role::kRead || argument.role == Role::kWritten;
      if (sliced) bytes += Lines(argument.elements * static_cast<int64_t>(sizeof(float)));
    }
    return bytes;
  }
  // The first part's sum is made in the output. The first thread's other parts take turns in one place.
  static int64_t WorkspaceOf(const std::vector<KernelPtr>& kernels, const std::vector<SlicedArgument>& arguments,
                             int64_t slices) {
    const int64_t parts = PartsOf(arguments, slices), folded = FoldedParts(kernels, arguments, slices);
    return static_cast<int64_t>(kernels.size()) * ScratchOf(kernels, arguments, slices) +
           (std::min<int64_t>(folded, 2) + parts - folded - 1) * SummedBytes(arguments);
  }

  float* SumsOf(absl::Span<const void* const> arguments, int64_t part, char* workspace) const {
    if (part == 0) return static_cast<float*>(const_cast<void*>(arguments.back()));
    const int64_t place = part < folded_ ? 0 : part - std::max<int64_t>(folded_ - 1, 1);
    const int64_t at = static_cast<int64_t>(kernels_.size()) * scratch_ + place * SummedBytes(arguments_);
    return reinterpret_cast<float*>(workspace + at);
  }
  void AddTo(absl::Span<const void* const> arguments, int64_t part, char* workspace) const {
    Add(arguments_.back().elements, SumsOf(arguments, part, workspace), SumsOf(arguments, 0, workspace));
  }

  absl::Status RunPart(int64_t thread, int64_t part, absl::Span<const void* const> arguments, char* workspace) const {
    const int64_t begin = slices_ * part / parts_, end = slices_ * (part + 1) / parts_;
    for (int64_t slice = begin; slice < end; ++slice) {
      char* free = workspace + thread * scratch_;
      const auto take = [&free](int64_t bytes) { return std::exchange(free, free + Lines(bytes)); };
      std::array<const void*, kMostArguments> given;
      std::copy(arguments.begin(), arguments.end(), given.begin());
      for (size_t i = 0; i < arguments_.size(); ++i) {
        const auto& [role, elements] = arguments_[i];
        if (role == Role::kWhole) continue;
        if (role == Role::kSummed && slice == begin) {
          given[i] = SumsOf(arguments, part, workspace);
          continue;
        }
        auto* const floats = reinterpret_cast<float*>(take(elements * static_cast<int64_t>(sizeof(float))));
        given[i] = floats;
        if (role == Role::kRead) {
          Widen(elements, static_cast<const BFloat16*>(arguments[i]) + slice * elements, floats);
        }
      }
      SNUG_RETURN_IF_ERROR(kernels_[static_cast<size_t>(thread)]->Run({given.data(), arguments.size()}, free));
      const size_t last = arguments_.size() - 1;
      const int64_t elements = arguments_[last].elements;
      const auto* const made = static_cast<const float*>(given[last]);
      if (arguments_[last].role == Role::kWritten) {
        auto* const to = static_cast<BFloat16*>(const_cast<void*>(arguments[last]));
        Round(elements, made, to + slice * elements);
      } else if (slice > begin) {
        Add(elements, made, SumsOf(arguments, part, workspace));
      }
    }
    return absl::OkStatus();
  }

  void AddParts(int threads, absl::Span<const void* const> arguments, char* workspace) const {
    if (arguments_.back().role != Role::kSummed) return;
    constexpr int64_t kChunk = 1 << 13;
    float* const to = SumsOf(arguments, 0, workspace);
    ParallelFor(threads, arguments_.back().elements, kChunk, [&](int64_t begin, int64_t end) {
      for (int64_t part = std::max<int64_t>(folded_, 1); part < parts_; ++part) {
        Add(end - begin, SumsOf(arguments, part, workspace) + begin, to + begin);
      }
    });
  }

  const std::vector<KernelPtr> kernels_;
  const std::vector<SlicedArgument> arguments_;
  const int64_t slices_, parts_, folded_;
  const int64_t scratch_;
};

int64_t ImageElements(const ValueType& type) { return type.shape.Count(1, type.shape.rank()); }

ValueType SliceOf(const ValueType& type, int64_t images) {
  return {DType::kFloat32, type.shape.WithDim(0, images), type.layout};
}

}  // namespace

ConvSlices::ConvSlices(const ConvSpec& spec) {
  const int64_t batch = spec.geometry.batch;
  const int64_t image = (ImageElements(spec.x) + ImageElements(spec.y)) * static_cast<int64_t>(sizeof(float));
  images = std::clamp<int64_t>(std::min(kSliceBytes / std::max<int64_t>(image, 1), batch / kLeastSlices), 1,
                               std::max<int64_t>(batch, 1));
  while (batch % images != 0) --images;
  count = batch / images;
}

bool ConvSlices::pay(const ConvSpec& spec, bool weights_are_input) const {
  const int64_t tasks = weights_are_input ? count : std::min(count, kMostParts);
  return tasks >= std::max<int64_t>(spec.threads, 2) && spec.w.num_elements() <= kMostWeights;
}

absl::StatusOr<ConvKernel> MakeSlicedConv(const ConvSpec& spec, MakeConvFn make, bool weights_are_input) {
  const ConvSlices slices(spec);
  ConvSpec slice = spec;
  slice.geometry.batch = slices.images;
  slice.x = SliceOf(spec.x, slices.images);
  slice.y = SliceOf(spec.y, slices.images);
  slice.threads = 1;
  SNUG_ASSIGN_OR_RETURN(ConvKernel made, make(slice));
  if (made.kernel == nullptr) return made;
  std::vector<KernelPtr> kernels = {made.kernel};
  while (kernels.size() < static_cast<size_t>(spec.threads)) {
    SNUG_ASSIGN_OR_RETURN(const ConvKernel another, make(slice));
    kernels.push_back(another.kernel);
  }
  const SlicedArgument x = {Role::kRead, slice.x.num_elements()};
  const SlicedArgument y = {Role::kRead, slice.y.num_elements()};
  const int64_t weights = spec.w.size_bytes() / static_cast<int64_t>(sizeof(float));  // in the layout that they have
  std::vector<SlicedArgument> arguments;
  if (!weights_are_input) {
    arguments = {x, y, {Role::kSummed, weights}};
  } else if (make == &MakeConvGradInput) {
    arguments = {y, {Role::kWhole, 0}, {Role::kWritten, x.elements}};
  } else {
    arguments = {x, {Role::kWhole, 0}};
    if (spec.bias) arguments.push_back({Role::kWhole, 0});
    arguments.push_back({Role::kWritten, y.elements});
  }
  made.kernel = std::make_shared<SlicedKernel>(std::move(kernels), std::move(arguments), slices.count);
  return made;
}

}  // namespace snug::core::onednn
