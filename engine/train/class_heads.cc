#include "engine/train/class_heads.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/strip.h>

#include <algorithm>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/train/judgement/class_scores.h"
#include "engine/train/trainer.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

absl::string_view NameOf(absl::string_view value) { return absl::StripSuffix(value, ":0"); }

const proto::Layer* FindLayer(const proto::Network& network, absl::string_view value) {
  for (const proto::Layer& layer : network.layer()) {
    if (layer.name() == NameOf(value)) return &layer;
  }
  return nullptr;
}

// Whether a layer's output has the classes that its one input has, in the same places.
bool KeepsClasses(const proto::Layer& layer) {
  switch (layer.op_case()) {
    case proto::Layer::kSoftmax:
    case proto::Layer::kLogSoftmax:
    case proto::Layer::kRelu:
    case proto::Layer::kDropout:
    case proto::Layer::kScale:
    case proto::Layer::kCast:
    case proto::Layer::kGlobalAvgPool:
    case proto::Layer::kGlobalMaxPool:
    case proto::Layer::kFlatten:
      return layer.input_size() == 1;
    default:
      return false;
  }
}

// The layer that gives these scores their number of classes.
absl::StatusOr<const proto::Layer*> HeadOf(const proto::Network& network, const std::string& scores) {
  std::string value = scores;
  bool flat = false;  // what flatten puts out would have classes for each pixel of a conv layer
  for (int i = 0; i <= network.layer_size(); ++i) {  // a file may be wrong, and its layers read each other in a circle
    const proto::Layer* const layer = FindLayer(network, value);
    if (layer != nullptr && (layer->op_case() == proto::Layer::kDense || layer->op_case() == proto::Layer::kConv)) {
      for (const proto::Param& param : layer->param()) {
        if (!param.tie().empty()) {
          return absl::InvalidArgumentError(absl::StrCat("the layer \"", layer->name(),
                                                         "\" that makes the scores shares its parameter with \"",
                                                         param.tie(), "\", which would have to have as many"));
        }
      }
      if (!flat || layer->op_case() == proto::Layer::kDense) return layer;
      return absl::InvalidArgumentError(absl::StrCat("the scores \"", scores, "\" are all pixels of the conv layer \"",
                                                     layer->name(), "\", which flatten puts into one row"));
    }
    if (layer == nullptr || !KeepsClasses(*layer)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the scores \"", scores, "\" come from \"", value, "\", which is no dense or conv layer"));
    }
    const bool pools =
        layer->op_case() == proto::Layer::kGlobalAvgPool || layer->op_case() == proto::Layer::kGlobalMaxPool;
    flat = !pools && (flat || layer->op_case() == proto::Layer::kFlatten);
    value = layer->input(0);
  }
  return absl::InvalidArgumentError(absl::StrCat("the scores \"", scores, "\" come from layers that read themselves"));
}

int64_t OutputsOf(const proto::Layer& layer) {
  return layer.op_case() == proto::Layer::kDense ? layer.dense().units() : layer.conv().filters();
}

}  // namespace

const char kHeadClassesKey[] = "network.classes";

absl::StatusOr<ClassHeads> FindClassHeads(const proto::Network& network) {
  SNUG_ASSIGN_OR_RETURN(const std::optional<ClassScores> scores, FindClassScores(network, "", ""));
  if (!scores.has_value())
    return absl::InvalidArgumentError(absl::StrCat("there are no class scores: ", kNoClassScores));
  if (scores->language) return absl::InvalidArgumentError("the network is a language model, whose classes are tokens");
  if (!scores->labels_are_fed) {
    return absl::InvalidArgumentError(
        absl::StrCat("the labels \"", scores->labels, "\" are computed by a layer, not those of the data"));
  }
  ClassHeads heads{.labels = scores->labels};
  for (const proto::Layer& layer : network.layer()) {
    // A loss that reads the labels is of another part of the network, as an auxiliary one, whose scores are others.
    const std::optional<ClassScores> read = ScoresReadBy(layer);
    if (!read.has_value() || read->labels != heads.labels) continue;
    if (read->binary) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", layer.name(), "\" reads the labels as yes or no, not as classes"));
    }
    if (read->classes > 0) {
      return absl::InvalidArgumentError(absl::StrCat("\"", layer.name(), "\" has `classes: ", read->classes, "`"));
    }
    SNUG_ASSIGN_OR_RETURN(const proto::Layer* const head, HeadOf(network, read->scores));
    if (std::find(heads.layers.begin(), heads.layers.end(), head->name()) != heads.layers.end()) continue;
    if (heads.classes > 0 && OutputsOf(*head) != heads.classes) {
      return absl::InvalidArgumentError(absl::StrCat("\"", heads.layers[0], "\" has ", heads.classes,
                                                     " outputs, and \"", head->name(), "\" ", OutputsOf(*head)));
    }
    heads.classes = OutputsOf(*head);
    heads.layers.push_back(head->name());
  }
  for (const proto::Input& input : network.input()) {
    if (input.name() != heads.labels || input.max_value() == 0 || input.max_value() == heads.classes) continue;
    return absl::InvalidArgumentError(absl::StrCat("\"", heads.layers[0], "\" has ", heads.classes,
                                                   " outputs, and the labels \"", heads.labels, "\" have max_value ",
                                                   input.max_value()));
  }
  return heads;
}

void SetClasses(const ClassHeads& heads, int64_t classes, proto::Network* network) {
  for (proto::Layer& layer : *network->mutable_layer()) {
    if (std::find(heads.layers.begin(), heads.layers.end(), layer.name()) == heads.layers.end()) continue;
    if (layer.op_case() == proto::Layer::kDense) {
      layer.mutable_dense()->set_units(classes);
    } else {
      layer.mutable_conv()->set_filters(classes);
    }
  }
  for (proto::Input& input : *network->mutable_input()) {
    if (input.name() == heads.labels) input.set_max_value(classes);
  }
}

std::optional<int64_t> ClassesOf(const TrainingData& data) {
  std::optional<int64_t> bounded;
  for (const DataField& field : data.training->fields()) {
    if (!field.classes.empty()) return static_cast<int64_t>(field.classes.size());
    if (field.name == "label" && !IsFloating(field.type.dtype) && field.max_value > 0) bounded = field.max_value;
  }
  return bounded;
}

absl::StatusOr<std::string> SetKeptClasses(const std::map<std::string, std::string>& metadata,
                                           proto::Network* network) {
  const auto found = metadata.find(kHeadClassesKey);
  if (found == metadata.end()) return std::string();
  int64_t classes = 0;
  if (!absl::SimpleAtoi(found->second, &classes) || classes < 1 || classes > kMostClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", kHeadClassesKey, "\": expected a number of classes, found ", Shown(found->second)));
  }
  absl::StatusOr<ClassHeads> heads = FindClassHeads(*network);
  if (!heads.ok()) {
    return Annotate(heads.status(), absl::StrCat("the checkpoint is of a network of ", classes,
                                                 " classes, and this one cannot be given so many"));
  }
  if (heads->classes == classes) return std::string();
  SetClasses(*heads, classes, network);
  return absl::StrCat("as in the training, ", classes, " classes in place of ", heads->classes, ": ",
                      absl::StrJoin(heads->layers, ", "));
}

}  // namespace snug::core
