#include "engine/train/metric_direction.h"

#include <absl/algorithm/container.h>
#include <absl/strings/strip.h>

#include <iterator>

#include "proto/network.pb.h"

namespace snug::core {
namespace {

constexpr const char* kNames[] = {"unknown", "least", "most"};

Better Opposite(Better better) {
  if (better == Better::kUnknown) return better;
  return better == Better::kLess ? Better::kMore : Better::kLess;
}

const proto::Layer* FindLayer(const proto::Network& network, absl::string_view value) {
  const absl::string_view name = absl::StripSuffix(value, ":0");  // the layer's name stands for its first output
  for (const proto::Layer& layer : network.layer()) {
    if (layer.name() == name) return &layer;
  }
  return nullptr;
}

bool IsObjective(const proto::Network& network, absl::string_view value) {
  return absl::c_any_of(network.objective(), [&](absl::string_view objective) {
    return absl::StripSuffix(objective, ":0") == absl::StripSuffix(value, ":0");
  });
}

// Layers read what stands before them, but a file may be wrong, so `most` bounds how many are followed.
Better BetterOfValue(const proto::Network& network, absl::string_view value, int most) {
  if (IsObjective(network, value)) return Better::kLess;  // whatever makes it, it is minimised
  const proto::Layer* const layer = FindLayer(network, value);
  if (layer == nullptr || most == 0) return Better::kUnknown;
  const auto of_input = [&](int i) {
    return i < layer->input_size() ? BetterOfValue(network, layer->input(i), most - 1) : Better::kUnknown;
  };
  switch (layer->op_case()) {
    case proto::Layer::kSoftmaxCrossEntropy:
    case proto::Layer::kMeanSquaredError:
    case proto::Layer::kNllLoss:
    case proto::Layer::kL1Loss:
    case proto::Layer::kHuberLoss:
    case proto::Layer::kBinaryCrossEntropyWithLogits:
    case proto::Layer::kKlDivergence:
    case proto::Layer::kCosineSimilarityLoss:
      return Better::kLess;
    case proto::Layer::kAccuracy:
    case proto::Layer::kTopKAccuracy:
      return Better::kMore;
    // What grows with its input.
    case proto::Layer::kReduceMean:
    case proto::Layer::kReduceSum:
    case proto::Layer::kReduceMax:
    case proto::Layer::kReshape:
    case proto::Layer::kFlatten:
    case proto::Layer::kCast:
    case proto::Layer::kStopGradient:
    case proto::Layer::kSqrt:
    case proto::Layer::kExp:
    case proto::Layer::kLog:
      return of_input(0);
    case proto::Layer::kNeg:
      return Opposite(of_input(0));
    case proto::Layer::kScale:
      if (layer->scale().factor() == 0) return Better::kUnknown;
      return layer->scale().factor() > 0 ? of_input(0) : Opposite(of_input(0));
    case proto::Layer::kAdd:
    case proto::Layer::kMax:
    case proto::Layer::kMin:
      return of_input(0) == of_input(1) ? of_input(0) : Better::kUnknown;
    default:
      return Better::kUnknown;
  }
}

}  // namespace

const char* Name(Better better) { return kNames[static_cast<size_t>(better)]; }

std::optional<Better> ParseBetter(absl::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (name == kNames[i]) return static_cast<Better>(i);
  }
  return std::nullopt;
}

Better BetterOf(const proto::Network& network, const std::string& metric) {
  if (metric == "loss") return Better::kLess;
  constexpr int kMostLayers = 12;  // a sum of two follows both, so this also bounds the work
  return BetterOfValue(network, metric, kMostLayers);
}

FollowedMetric ParseFollowedMetric(const std::string& text) {
  for (const Better better : {Better::kLess, Better::kMore}) {
    absl::string_view name = text;
    if (absl::ConsumeSuffix(&name, Name(better)) && absl::ConsumeSuffix(&name, ":") && !name.empty()) {
      return {.name = std::string(name), .better = better};
    }
  }
  return {.name = text};
}

}  // namespace snug::core
