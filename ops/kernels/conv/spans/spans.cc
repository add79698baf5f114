#include "ops/kernels/conv/spans/spans.h"

#include <algorithm>
#include <cstdint>

#include "ops/kernels/conv/spans/lines.h"

namespace snug::core::ops {

WhyNot WhyNotSpansSizes(const ConvGeometry& g) {
  constexpr int64_t kMostWeights = 1 << 15;  // so that all panels stay in a second-level cache
  using spans::kLinesRoom;
  if (g.spatial != 2 || g.groups != 1) return ByDesign("it is for two dimensions without groups");
  if (g.dilation[1] != 1 && g.kernel[1] != 1) return ByDesign("it wants taps side by side");
  if (g.taps() == 1) return ByDesign("it is for several taps");
  if (g.weight_shape().num_elements() > kMostWeights) return ByDesign("it is for few weights");
  const spans::Sizes s(g);
  if (s.reach > kLinesRoom / s.line || s.result_line > kLinesRoom) {
    return ByDesign("its lines have to fit into a cache");
  }
  return std::nullopt;
}

int64_t SpansWorkspaceBytes(ConvPart part, const ConvGeometry& g) {
  const spans::Sizes s(g);
  const auto whole_vectors = [](int64_t columns) { return spans::VectorsFor(columns) * spans::LanesFor(columns); };
  const auto bytes = [](int64_t floats) { return floats * static_cast<int64_t>(sizeof(float)); };
  switch (part) {
    case ConvPart::kForward:
      return bytes((g.kernel[0] * s.span + 1) * whole_vectors(g.out_channels));
    case ConvPart::kGradInput:
      return bytes(g.kernel[0] * whole_vectors(s.span) * g.out_channels);
    case ConvPart::kGradWeight:
      break;
  }
  return bytes(spans::PartsOfImages(g) * g.kernel[0] * s.span * whole_vectors(g.out_channels));
}

}  // namespace snug::core::ops
