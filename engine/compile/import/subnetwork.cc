#include "engine/compile/import/subnetwork.h"

#include <absl/algorithm/container.h>
#include <absl/memory/memory.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>

#include <optional>
#include <utility>

#include "engine/base/error_part.h"
#include "engine/base/text/suggest.h"
#include "proto/network.pb.h"

namespace snug::core {
namespace {

// Bounds against hostile files: a sub-network is imported anew wherever it is run.
constexpr size_t kMostNested = 16;
constexpr int kMostBodies = 10'000;

absl::Status AboutOption(absl::string_view option, int k, absl::string_view message) {
  return About({.kind = ErrorPart::Kind::kOption, .name = std::string(option), .index = k},
               absl::InvalidArgumentError(absl::StrCat(option, ": ", message)));
}

std::string PlaceOf(const std::string& subnetwork, const proto::Layer& layer, const SourceLoc& loc) {
  const std::string where = loc.line > 0 ? absl::StrCat(" at ", loc.ToString()) : "";
  return absl::StrCat(" (in \"", subnetwork, "\", run by layer \"", layer.name(), "\"", where, ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<SubnetworkImporter>> SubnetworkImporter::Find(ImportState& around,
                                                                             const proto::Layer& layer,
                                                                             const std::string& name, int k,
                                                                             std::string scope, const SourceLoc& loc) {
  const auto& all = around.network->subnetwork();
  const auto found = absl::c_find_if(all, [&](const proto::Subnetwork& s) { return s.name() == name; });
  if (found == all.end()) {
    Suggester suggester(name);
    for (const proto::Subnetwork& subnetwork : all) suggester.Consider(subnetwork.name());
    return AboutOption("body", k, absl::StrCat("there is no sub-network \"", name, "\"", suggester.Question()));
  }
  if (const auto same = absl::c_find(around.names, name); same != around.names.end()) {
    return AboutOption("body", k,
                       absl::StrCat("sub-network \"", name, "\" contains itself: ",
                                    absl::StrJoin(same, around.names.end(), " -> "), " -> ", name));
  }
  if (around.names.size() >= kMostNested) {
    return AboutOption("body", k, absl::StrCat("sub-networks are nested more than ", kMostNested, " deep"));
  }
  if (++*around.bodies > kMostBodies) {
    return AboutOption("body", k,
                       absl::StrCat("the network runs more than ", kMostBodies,
                                    " sub-networks, counting those inside others each time"));
  }
  return absl::WrapUnique(
      new SubnetworkImporter(around, layer, static_cast<int>(found - all.begin()), std::move(scope), loc));
}

SubnetworkImporter::SubnetworkImporter(ImportState& around, const proto::Layer& layer, int number, std::string scope,
                                       const SourceLoc& loc)
    : subnetwork_(around.network->subnetwork(number)),
      locations_(around.locations->Subnetwork(number)),
      state_{.builder = GraphBuilder(around.builder.registry(), graph_.get()),
             .result = around.result,
             .precision = around.precision,
             .stochastic_rounding = around.stochastic_rounding,
             .training = around.training,
             .in_micro_batches = around.in_micro_batches,
             .network = around.network,
             .locations = around.locations,
             .errors = around.errors,
             .bodies = around.bodies,
             .outer = &around,
             .prefix = absl::StrCat(around.prefix, scope),
             .place = absl::StrCat(PlaceOf(subnetwork_.name(), layer, loc), around.place),
             .names = around.names},
      layers_(state_, subnetwork_.layer(), locations_) {
  graph_->name = subnetwork_.name();
  state_.names.push_back(subnetwork_.name());
}

const std::string& SubnetworkImporter::name() const { return subnetwork_.name(); }
int SubnetworkImporter::num_inputs() const { return subnetwork_.input_size(); }
int SubnetworkImporter::num_outputs() const { return subnetwork_.output_size(); }
const std::string& SubnetworkImporter::InputName(int i) const { return subnetwork_.input(i); }
const std::string& SubnetworkImporter::OutputName(int i) const { return subnetwork_.output(i).name(); }

absl::StatusOr<int> SubnetworkImporter::InputNumber(absl::string_view option, int k, const std::string& name) const {
  Suggester suggester(name);
  for (int i = 0; i < num_inputs(); ++i) {
    if (InputName(i) == name) return i;
    suggester.Consider(InputName(i));
  }
  return AboutOption(option, k,
                     absl::StrCat("the body \"", this->name(), "\" has no input \"", name, "\"", suggester.Question()));
}

absl::StatusOr<int> SubnetworkImporter::OutputNumber(absl::string_view option, int k, const std::string& name) const {
  Suggester suggester(name);
  for (int i = 0; i < num_outputs(); ++i) {
    if (OutputName(i) == name) return i;
    suggester.Consider(OutputName(i));
  }
  return AboutOption(
      option, k, absl::StrCat("the body \"", this->name(), "\" has no output \"", name, "\"", suggester.Question()));
}

void SubnetworkImporter::AddInput(const ValueType& type, int64_t max_value, bool of_variable, bool per_sample) {
  const std::string& input = InputName(static_cast<int>(graph_->inputs().size()));
  const ValueId value = graph_->AddInput(input, type, max_value);
  if (of_variable) state_.of_variables.insert(value);
  if (per_sample) state_.batched.insert(value);
  layers_.Define(input, std::vector<ValueId>{value});
}

void SubnetworkImporter::Capture(ValueId around) { state_.ReachAround(around); }

bool SubnetworkImporter::Run() {
  const size_t before = state_.errors->size();
  layers_.Run();
  for (const proto::SubnetworkOutput& output : subnetwork_.output()) {
    const std::optional<ValueId> value =
        layers_.Resolve(output.has_value() ? output.value() : output.name(), locations_.LayerLoc(-1));
    if (!value.has_value()) break;
    outputs_.push_back(*value);
    graph_->outputs.push_back({output.name(), *value});
  }
  return state_.errors->size() == before && outputs_.size() == static_cast<size_t>(num_outputs());
}

}  // namespace snug::core
