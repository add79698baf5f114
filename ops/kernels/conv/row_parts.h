// What the rows of our own convolutions have in common (own_rows.h).
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>

#include "ops/kernel_context.h"
#include "ops/kernels/batch_norm/part_gradients.h"
#include "ops/kernels/conv/node.h"
#include "ops/kernels/conv/pixels.h"
#include "ops/kernels/matmul/parts.h"
#include "ops/kernels/reduce/part_moments.h"
#include "ops/prepare_context.h"

namespace snug::core::ops {

using WhyNot = std::optional<NotServed>;

// Data and results have to be channels-last; weights are not looked at.
inline WhyNot WhyNotChannelsLast(ConvPart part, const NodeTypes& types) {
  const auto channels_last = [](const ValueType& type) { return type.layout == Layout::ChannelsLast(); };
  const bool data = channels_last(types.input(0)) &&
                    (part == ConvPart::kGradWeight ? channels_last(types.input(1)) : channels_last(types.output(0)));
  if (!data) return ByDesign("it takes channels-last data");
  return std::nullopt;
}

// What the rows for all channels together ask of a node.
inline WhyNot WhyNotByPixels(ConvPart part, const NodeTypes& types, const ConvGeometry& g) {
  if (WhyNot in_double = NotInDouble(types)) return in_double;
  if (g.groups != 1) return ByDesign("it has no groups");
  return WhyNotChannelsLast(part, types);
}

inline WhyNot WhyNotInSteps(const ConvGeometry& g) {
  if (IsStrided(g)) return ByDesign("it goes in steps of 1");
  return std::nullopt;
}

// Calls f with a zero of the node's dtype, float or BFloat16.
template <class Fn>
auto WithFloatOf(DType dtype, const Fn& f) {
  return dtype == DType::kBFloat16 ? f(BFloat16()) : f(0.0F);
}

// Says whether a tuning names another row's kernel, and declines then.
inline bool LeftToAnother(PrepareContext& c, absl::string_view own) {
  if (c.choice().empty() || c.choice() == own) return false;
  c.Decline(ByDesign("the tuning asks for another"));
  return true;
}

inline int64_t WholeLines(int64_t bytes) {
  constexpr int64_t kLine = 64;
  return Parts(bytes, kLine) * kLine;
}

// What the kernels that measure their results leave in the workspace's first lines, in whole lines.
inline int64_t MomentsBytes(const ConvNode& node, int64_t bytes) { return node.measures ? WholeLines(bytes) : 0; }
inline ColumnMoments MomentsOf(const KernelContext& k, const ConvNode& node) {
  if (!node.measures) return {};
  return {.mean = k.output<float>(1), .var = k.output<float>(2), .workspace = k.workspace<float>()};
}

// What a node asks for that sums.
template <class T>
NormGradient<T> NormOf(const KernelContext& k, const ConvNode& node) {
  if (!node.sums) return {};
  const auto or_null = [&](int i) { return k.has_input(i) ? k.input<float>(i) : nullptr; };
  return {.x = k.input<T>(kSumsX),
          .y = k.has_input(kSumsY) ? k.input<T>(kSumsY) : nullptr,
          .mean = k.input<float>(kSumsMean),
          .var = k.input<float>(kSumsVar),
          .weight = or_null(kSumsWeight),
          .bias = or_null(kSumsBias),
          .epsilon = node.epsilon,
          .activation = node.activation,
          .dweight = k.output<float>(1),
          .dbias = k.output<float>(2),
          .workspace = k.workspace<float>()};
}

}  // namespace snug::core::ops
