#include "engine/train/metrics.h"

#include <absl/strings/strip.h>

#include <algorithm>
#include <optional>

#include "engine/base/status.h"
#include "engine/run/session/value_view.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

struct NamedOutput {
  std::string metric, output;
  bool objective = false;
};

constexpr char kLoss[] = "loss";  // the sum of the objectives

// A layer that has the name of the sum, and is not the sum, is told by the name of its first output.
std::string MetricOf(const proto::Network& network, const std::string& output) {
  const bool is_sum = network.objective_size() == 1 && network.objective(0) == output;
  return output == kLoss && !is_sum ? "loss:0" : output;
}

std::vector<NamedOutput> OutputsOf(const proto::Network& network, const Program& program) {
  std::vector<NamedOutput> outputs;
  const std::vector<Endpoint>& there = program.compiled().executable.outputs;
  for (const std::string& objective : network.objective()) {
    // A program of other outputs (CompileOptions::only) has no loss.
    const bool computed =
        std::any_of(there.begin(), there.end(), [&](const Endpoint& e) { return e.name == objective; });
    if (computed) outputs.push_back({kLoss, objective, true});
  }
  // The sum of what different updates minimise tells little: each is a figure of its own, too.
  const size_t objectives = network.update_size() > 0 ? outputs.size() : 0;
  for (size_t i = 0; i < objectives; ++i) {
    const std::string objective = outputs[i].output;  // a copy: the vector grows
    const bool named = std::find(network.output().begin(), network.output().end(), objective) != network.output().end();
    const std::string metric = MetricOf(network, objective);
    if (metric != kLoss && !named) outputs.push_back({metric, objective});
  }
  for (const std::string& output : network.output()) {
    for (const Endpoint& endpoint : there) {
      const bool number = endpoint.name == output && endpoint.type.num_elements() == 1;
      const std::string metric = MetricOf(network, output);
      if (number && metric != kLoss) outputs.push_back({metric, output});
    }
  }
  return outputs;
}

absl::StatusOr<double> ValueOf(const std::string& output, Program& program) {
  SNUG_ASSIGN_OR_RETURN(const std::vector<double> values, program.Fetch(output));
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}

void AddTo(Metrics& metrics, const std::string& name, double value) {
  if (metrics.empty() || metrics.back().first != name) metrics.emplace_back(name, 0);
  metrics.back().second += value;
}

// The labels, and the index in them, by which rows are left out.
struct Ignoring {
  std::string labels;
  int64_t index = 0;
};

std::optional<Ignoring> IgnoringOf(const proto::Layer& layer) {
  if (layer.input_size() < 2) return std::nullopt;
  const std::string labels(absl::StripSuffix(layer.input(1), ":0"));  // the layer's name stands for its first output
  switch (layer.op_case()) {
    case proto::Layer::kSoftmaxCrossEntropy:
      return Ignoring{labels, layer.softmax_cross_entropy().ignore_index()};
    case proto::Layer::kNllLoss:
      return Ignoring{labels, layer.nll_loss().ignore_index()};
    case proto::Layer::kAccuracy:
      return Ignoring{labels, layer.accuracy().ignore_index()};
    case proto::Layer::kTopKAccuracy:
      return Ignoring{labels, layer.top_k_accuracy().ignore_index()};
    default:
      return std::nullopt;
  }
}

std::optional<Ignoring> IgnoringOf(const proto::Network& network, const std::string& output) {
  for (const proto::Layer& layer : network.layer()) {
    if (layer.name() == output) return IgnoringOf(layer);
  }
  return std::nullopt;
}

bool IsInput(const proto::Network& network, const std::string& name) {
  return std::any_of(network.input().begin(), network.input().end(),
                     [&](const proto::Input& input) { return input.name() == name; });
}

}  // namespace

std::vector<std::string> MetricNames(const proto::Network& network, const Program& program) {
  Metrics metrics;
  for (const NamedOutput& output : OutputsOf(network, program)) AddTo(metrics, output.metric, 0);
  std::vector<std::string> names;
  for (const auto& [name, value] : metrics) names.push_back(name);
  return names;
}

std::vector<KnownMetric> KnownMetrics(const proto::Network& network, const Program& program) {
  std::vector<KnownMetric> metrics;
  for (const std::string& name : MetricNames(network, program)) metrics.push_back({name, BetterOf(network, name)});
  return metrics;
}

absl::StatusOr<Metrics> MetricsOf(const proto::Network& network, Program& program) {
  Metrics metrics;
  for (const NamedOutput& output : OutputsOf(network, program)) {
    SNUG_ASSIGN_OR_RETURN(const double value, ValueOf(output.output, program));
    AddTo(metrics, output.metric, value);
  }
  return metrics;
}

std::vector<std::string> ComputedLabels(const proto::Network& network) {
  std::vector<std::string> labels;
  for (const auto* names : {&network.objective(), &network.output()}) {
    for (const std::string& name : *names) {
      const std::optional<Ignoring> ignoring = IgnoringOf(network, name);
      if (ignoring.has_value() && !IsInput(network, ignoring->labels)) labels.push_back(ignoring->labels);
    }
  }
  return labels;
}

MeanMetrics::MeanMetrics(const proto::Network& network, const Program& program) {
  for (const NamedOutput& output : OutputsOf(network, program)) {
    Term& term =
        terms_.emplace_back(Term{.metric = output.metric, .output = output.output, .objective = output.objective});
    const std::optional<Ignoring> ignoring = IgnoringOf(network, output.output);
    if (!ignoring.has_value()) continue;
    term.labels = ignoring->labels;
    term.ignored = ignoring->index;
    term.labels_are_fed = IsInput(network, ignoring->labels);
  }
}

absl::Status MeanMetrics::Count(const absl::StatusOr<ValueView>& labels, Term& term) {
  if (!labels.ok()) return labels.status();
  if (IsFloating(labels->type->dtype)) return absl::OkStatus();  // labels that are probabilities leave no row out
  const std::vector<double> values = LoadNumbers(*labels);
  const auto left_out = std::count(values.begin(), values.end(), static_cast<double>(term.ignored));
  term.counted *= 1 - static_cast<double>(left_out) / static_cast<double>(values.size());
  return absl::OkStatus();
}

absl::Status MeanMetrics::BeforeRun(Program& program) {
  for (Term& term : terms_) {
    term.counted = static_cast<double>(program.compiled().batch);
    if (term.labels_are_fed) SNUG_RETURN_IF_ERROR(Count(program.Input(term.labels), term));
  }
  return absl::OkStatus();
}

absl::Status MeanMetrics::AfterRun(Program& program) {
  for (Term& term : terms_) {
    if (!term.labels.empty() && !term.labels_are_fed) SNUG_RETURN_IF_ERROR(Count(program.Output(term.labels), term));
    SNUG_ASSIGN_OR_RETURN(const double value, ValueOf(term.output, program));
    if (term.counted == 0) continue;  // the mean of nothing is undefined
    term.sum += value * term.counted;
    term.all_counted += term.counted;
  }
  return absl::OkStatus();
}

Metrics MeanMetrics::Get() const {
  Metrics metrics;
  for (const Term& term : terms_) AddTo(metrics, term.metric, term.sum / term.all_counted);
  return metrics;
}

Metrics MeanMetrics::GetObjectives() const {
  Metrics metrics;
  for (const Term& term : terms_) {
    if (term.objective) metrics.emplace_back(term.output, term.sum / term.all_counted);
  }
  return metrics;
}

}  // namespace snug::core
