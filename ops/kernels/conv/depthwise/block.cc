// Every thread has a range of the output's rows, which it does in strips. For each the rows that the depthwise
// convolution reads are expanded (those that it has in common with the strip before are still there), and what it gives
// is projected. An image of few rows, of which threads would expand many twice, is done as a whole, product by product,
// by all threads. Each number is computed alike in any case, so bits do not depend on threads.
#include "ops/kernels/conv/depthwise/block.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "engine/base/parallel.h"
#include "ops/kernel_context.h"
#include "ops/kernels/conv/depthwise/depthwise.h"
#include "ops/kernels/copy/own_format.h"
#include "ops/kernels/matmul/gemm_tile.h"
#include "ops/kernels/matmul/panels.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kit/isa.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {
namespace strips {
namespace {

using Ports = DepthwiseBlockPorts;

constexpr int64_t kTaps = 3;  // in each direction
// A strip has so many rows that what is between the products takes no more than this, which stays in a second-level
// cache. Fewer bytes, and products have few pixels.
constexpr int64_t kBetweenBytes = 384 << 10;
// Threads that share an image expand the rows at their borders twice, so none takes less than this.
constexpr int64_t kLeastRows = 2;

constexpr int64_t kFloat = sizeof(float);

// ---- the taps of the depthwise convolution ----

// [taps][channels], from [channels, 1, 3, 3].
class TapsFormat : public OwnFormat {
 public:
  explicit TapsFormat(int64_t channels)
      : OwnFormat(absl::StrCat("taps:", channels), kTaps * kTaps * channels * kFloat), channels_(channels) {}
  bool Equals(const PackedFormat& other) const override {
    return dynamic_cast<const TapsFormat*>(&other) != nullptr && other.tag() == tag();
  }
  void Pack(int, const float* from, void* to) const override { PackAny(from, to); }
  void Pack(int, const BFloat16* from, void* to) const override { PackAny(from, to); }

 private:
  template <class T>
  void PackAny(const T* from, void* to) const {
    float* taps = static_cast<float*>(to);
    for (int64_t t = 0; t < kTaps * kTaps; ++t) {
      for (int64_t c = 0; c < channels_; ++c) taps[t * channels_ + c] = static_cast<float>(from[c * kTaps * kTaps + t]);
    }
  }

  const int64_t channels_;
};

bool IsTaps(const Layout& layout) { return dynamic_cast<const TapsFormat*>(layout.packed.get()) != nullptr; }

// ---- how the work is cut ----

// The rows [begin, end) that the depthwise convolution reads for some rows of an image's output.
struct ReadRows {
  ReadRows(const ConvGeometry& g, int64_t first, int64_t last)
      : begin(std::max<int64_t>(0, first * g.stride[0] - g.pad_begin[0])),
        end(std::min(g.in[0], (last - 1) * g.stride[0] - g.pad_begin[0] + kTaps)) {}
  int64_t begin, end;
};

struct Cut {
  Cut(int threads, const DepthwiseBlock& block) {
    const ConvGeometry& g = block.depthwise.geometry;
    const int64_t stride = g.stride[0];
    const int64_t in_row = block.expand.has_value() ? g.in[1] * g.in_channels : 0;
    const int64_t out_row = g.out[1] * g.in_channels;
    const int64_t most = std::max<int64_t>(1, (kBetweenBytes / kFloat - kTaps * in_row) / (stride * in_row + out_row));
    rows = EqualPart(g.out[0], most, 1);
    in_rows = (rows - 1) * stride + kTaps;
    in_floats = in_rows * in_row;
    out_floats = rows * out_row;
    all_rows = g.batch * g.out[0];
    tasks = std::clamp<int64_t>(all_rows / kLeastRows, 1, threads);
    if (in_row > 0 && WholePays(g, (g.in[0] * in_row + g.out[0] * out_row) * kFloat)) {
      whole = true;
      rows = g.out[0];
      in_rows = g.in[0];
      in_floats = in_rows * in_row;
      out_floats = g.out[0] * out_row;
      tasks = 1;
    }
  }
  int64_t task_floats() const { return in_floats + out_floats; }

  int64_t rows;     // of the output, in a strip
  int64_t in_rows;  // that it reads
  int64_t in_floats, out_floats;
  int64_t all_rows;  // of all images
  int64_t tasks;
  bool whole = false;  // all threads do the one image together, as one task

 private:
  // Of one image threads expand rows at their borders twice, and one has a row more than others where these do not
  // come out even. `bytes` are those between the products. It was measured for few rows and two threads.
  bool WholePays(const ConvGeometry& g, int64_t bytes) const {
    constexpr int64_t kManyMore = 6;  // where the most that a thread expands is more than its share by a sixth of it
    constexpr int64_t kFewRows = 8;
    const int64_t panels = g.in_channels / kPanel<float>;  // which threads share where it is not a product
    if (g.batch > 1 || tasks == 1 || g.out[0] > kFewRows || bytes > 2 * kBetweenBytes) return false;
    if (g.in_channels % kPanel<float> != 0 || panels < tasks) return false;
    int64_t most = 0;
    for (int64_t task = 0; task < tasks; ++task) {
      const ReadRows read(g, all_rows * task / tasks, all_rows * (task + 1) / tasks);
      most = std::max(most, read.end - read.begin);
    }
    return kManyMore * (most * tasks - g.in[0]) >= g.in[0];
  }
};

// ---- a task ----

struct Block {
  const DepthwiseBlock& shape;
  const Cut& cut;
  const KernelContext& k;
  const float* bias;  // of the depthwise convolution

  const float* input(int i) const { return k.has_input(i) ? k.input<float>(i) : nullptr; }
};

void Multiply(int threads, const DepthwiseBlock::Part& part, int64_t pixels, const float* x, const float* panels,
              const float* bias, float* y) {
  MultiplyByPanels<float>(threads, {.m = pixels,
                                    .n = part.geometry.out_channels,
                                    .k = part.geometry.in_channels,
                                    .a = x,
                                    .panels = panels,
                                    .bias = bias,
                                    .activation = part.activation,
                                    .c = y});
}

void AddTo(float* y, const float* x, int64_t count) {
  WithIsa([=]() SNUG_LAMBDA {
    SNUG_INDEPENDENT
    for (int64_t i = 0; i < count; ++i) y[i] += x[i];
  });
}

// The depthwise convolution, but for what it reads.
DepthwiseRows<float> RowsOf(const Block& block) {
  const ConvGeometry& g = block.shape.depthwise.geometry;
  const Activation activation = block.shape.depthwise.activation;
  const bool clamped = activation != Activation::kIdentity;
  return {.in_height = g.in[0],
          .in_width = g.in[1],
          .channels = g.in_channels,
          .taps = block.input(Ports::kDepthwise),
          .bias = block.bias,
          .least = clamped ? 0.0F : -std::numeric_limits<float>::infinity(),
          .most = activation == Activation::kRelu6 ? 6.0F : std::numeric_limits<float>::infinity(),
          .kernel_height = kTaps,
          .kernel_width = kTaps,
          .stride_height = g.stride[0],
          .stride_width = g.stride[1],
          .pad_top = g.pad_begin[0],
          .pad_left = g.pad_begin[1],
          .out_width = g.out[1]};
}

// Does rows [begin, end) of one image's output.
void RunImage(const Block& block, int64_t image, int64_t begin, int64_t end, float* workspace) {
  const DepthwiseBlock& shape = block.shape;
  const ConvGeometry& g = shape.depthwise.geometry;
  const ConvGeometry& out = shape.project.geometry;
  const int64_t in_row = g.in[1] * g.in_channels;
  const int64_t x_row = g.in[1] * (shape.expand.has_value() ? shape.expand->geometry.in_channels : g.in_channels);
  const float* x = block.input(Ports::kX) + image * g.in[0] * x_row;
  float* expanded = workspace;
  float* wide = workspace + block.cut.in_floats;
  DepthwiseRows<float> rows = RowsOf(block);
  rows.x = x;
  // Rows that are expanded take the places of those that are not read any more.
  const int64_t held = block.cut.in_rows;
  int64_t held_end = 0;  // of the rows that are expanded
  for (int64_t row = begin; row < end; row += block.cut.rows) {
    const int64_t last = std::min(end, row + block.cut.rows);
    if (shape.expand.has_value()) {
      const ReadRows read(g, row, last);
      for (int64_t from = std::max(read.begin, held_end), to = 0; from < read.end; from = to) {
        const int64_t place = from % held;
        to = std::min(read.end, from + held - place);
        Multiply(/*threads=*/1, *shape.expand, (to - from) * g.in[1], x + from * x_row, block.input(Ports::kExpand),
                 block.input(Ports::kExpandBias), expanded + place * in_row);
      }
      held_end = read.end;
      const int64_t round = read.begin / held * held;
      rows.x = expanded - round * in_row;
      rows.turn = round + held;
      rows.held_rows = held;
    }
    ConvolveRows(rows, row, last, {0, g.in_channels}, wide);
    const int64_t pixels = (last - row) * g.out[1];
    const int64_t at = (image * g.out[0] + row) * g.out[1] * out.out_channels;
    float* y = block.k.output<float>(0) + at;
    Multiply(/*threads=*/1, shape.project, pixels, wide, block.input(Ports::kProject), block.input(Ports::kProjectBias),
             y);
    if (const float* shortcut = block.input(Ports::kShortcut); shortcut != nullptr) {
      AddTo(y, shortcut + at, pixels * out.out_channels);
    }
  }
}

// Does the only image, product by product.
void RunWhole(const Block& block) {
  const KernelContext& k = block.k;
  const DepthwiseBlock& shape = block.shape;
  const ConvGeometry &g = shape.depthwise.geometry, &out = shape.project.geometry;
  float* const expanded = k.workspace<float>();
  float* const wide = expanded + block.cut.in_floats;
  Multiply(k.threads(), *shape.expand, g.in[0] * g.in[1], block.input(Ports::kX), block.input(Ports::kExpand),
           block.input(Ports::kExpandBias), expanded);
  DepthwiseRows<float> rows = RowsOf(block);
  rows.x = expanded;
  // Two threads find the channels in their caches that they have expanded, as a product of so few pixels is shared by
  // columns.
  ParallelFor(k.threads(), g.in_channels, kPanel<float>, [&](int64_t begin, int64_t end) {
    ConvolveRows(rows, 0, g.out[0], {begin, end - begin}, wide);
  });
  const int64_t pixels = g.out[0] * g.out[1];
  float* const y = k.output<float>(0);
  Multiply(k.threads(), shape.project, pixels, wide, block.input(Ports::kProject), block.input(Ports::kProjectBias), y);
  if (const float* shortcut = block.input(Ports::kShortcut); shortcut != nullptr) {
    AddTo(y, shortcut, pixels * out.out_channels);
  }
}

void Run(const KernelContext& k, const DepthwiseBlock& shape) {
  const Cut cut(k.threads(), shape);
  const float* bias = k.has_input(Ports::kDepthwiseBias) ? k.input<float>(Ports::kDepthwiseBias) : nullptr;
  if (bias == nullptr) {
    float* const zeros = k.workspace<float>() + cut.tasks * cut.task_floats();
    std::fill_n(zeros, shape.depthwise.geometry.in_channels, 0.0F);
    bias = zeros;
  }
  const Block block = {shape, cut, k, bias};
  if (cut.whole) return RunWhole(block);
  const int64_t height = shape.depthwise.geometry.out[0];
  ParallelFor(k.threads(), cut.tasks, 1, [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t end = cut.all_rows * (task + 1) / cut.tasks;
      for (int64_t row = cut.all_rows * task / cut.tasks; row < end;) {
        const int64_t image = row / height;
        const int64_t stop = std::min(end, (image + 1) * height);
        RunImage(block, image, row - image * height, stop - image * height,
                 k.workspace<float>() + task * cut.task_floats());
        row = stop;
      }
    }
  });
}

// ---- the row ----

bool IsProduct(const ConvGeometry& g) {
  return g.taps() == 1 && g.groups == 1 && g.stride[0] == 1 && g.stride[1] == 1 && g.pad_begin[0] == 0 &&
         g.pad_begin[1] == 0 && g.pad_end[0] == 0 && g.pad_end[1] == 0;
}

bool IsClamp(Activation activation) {
  return activation == Activation::kIdentity || activation == Activation::kRelu || activation == Activation::kRelu6;
}

absl::Status Prepare(PrepareContext& c, const DepthwiseBlock& block) {
  const auto want = [&](int i, const ConvGeometry& g) {
    if (!IsPanels(c.types().input(i).layout)) {
      c.WantInputLayout(i, PanelsLayout({.n = g.out_channels, .k = g.in_channels, .transposed = true}));
    }
  };
  if (block.expand.has_value()) want(Ports::kExpand, block.expand->geometry);
  if (!IsTaps(c.types().input(Ports::kDepthwise).layout)) {
    c.WantInputLayout(Ports::kDepthwise,
                      Layout::Packed(std::make_shared<TapsFormat>(block.depthwise.geometry.in_channels)));
  }
  want(Ports::kProject, block.project.geometry);
  const Cut cut(c.threads(), block);
  const int64_t zeros = c.types().has_input(Ports::kDepthwiseBias) ? 0 : block.depthwise.geometry.in_channels;
  c.SetWorkspaceBytes((cut.tasks * cut.task_floats() + zeros) * kFloat);
  return absl::OkStatus();
}

}  // namespace
}  // namespace strips

std::optional<NotServed> WhyNotStrips(const DepthwiseBlock& block, const ValueType& x) {
  if (x.dtype != DType::kFloat32) return ByDesign("it is for float32");
  if (!x.layout.channels_last()) return ByDesign("it is for channels-last data");
  const ConvGeometry& g = block.depthwise.geometry;
  if (g.spatial != 2) return ByDesign("it is for images");
  if ((block.expand.has_value() && !strips::IsProduct(block.expand->geometry)) ||
      !strips::IsProduct(block.project.geometry)) {
    return ByDesign("it is for 1 x 1 taps around the depthwise convolution");
  }
  const auto both = [](const auto& sizes, int64_t size) { return sizes[0] == size && sizes[1] == size; };
  if (g.groups != g.in_channels || g.out_channels != g.in_channels || !both(g.kernel, strips::kTaps) ||
      !(both(g.stride, 1) || both(g.stride, 2)) || !both(g.dilation, 1) || g.pad_begin[0] > 1 || g.pad_begin[1] > 1 ||
      g.pad_end[0] > 1 || g.pad_end[1] > 1) {
    return ByDesign("it is for depthwise convolutions of 3 x 3 taps, stride 1 or 2, and padding 0 or 1");
  }
  if (g.in[0] < 2) return ByDesign("it is for images of two rows or more");
  if (g.in_channels < kLeastDepthwiseChannels) return ByDesign("its channels have to fill a vector");
  if (!strips::IsClamp(block.depthwise.activation)) return ByDesign("it knows relu and relu6 only");
  return std::nullopt;
}

KernelRow StripsRow(DescribeDepthwiseBlock describe) {
  return {
      .name = "strips",
      .kept_input = [](const NodeTypes&) -> int { return strips::Ports::kProject; },
      .serves = [=](const NodeTypes& types) { return WhyNotStrips(describe(types), types.input(strips::Ports::kX)); },
      .prepare = [=](PrepareContext& c) { return strips::Prepare(c, describe(c.types())); },
      .run =
          [=](const KernelContext& k) {
            strips::Run(k, describe(k.types()));
            return absl::OkStatus();
          }};
}

}  // namespace snug::core::ops
