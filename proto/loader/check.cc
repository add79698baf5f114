#include "proto/loader/check.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <set>
#include <vector>

#include "engine/base/shape.h"
#include "engine/base/text/utf8.h"
#include "proto/loader/names.h"
#include "proto/loader/subnetworks.h"
#include "proto/network.pb.h"
#include "proto/text_loader.h"

namespace snug::core::loader {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// Looks for fields that this program does not know, because leaving them out would change what the file means, and for
// strings that are not text.
struct Oddities {
  bool unknown_fields = false;
  bool bad_strings = false;

  void Look(const Message& message) {
    const auto* r = message.GetReflection();
    unknown_fields = unknown_fields || !r->GetUnknownFields(message).empty();
    std::vector<const FieldDescriptor*> fields;
    r->ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const int size = field->is_repeated() ? r->FieldSize(message, field) : 1;
      for (int i = 0; i < size; ++i) {
        if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
          Look(field->is_repeated() ? r->GetRepeatedMessage(message, field, i) : r->GetMessage(message, field));
        } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
          const std::string text =
              field->is_repeated() ? r->GetRepeatedString(message, field, i) : r->GetString(message, field);
          bad_strings = bad_strings || !IsUtf8(text);
        } else {
          break;
        }
      }
    }
  }
};

int NumOps(const proto::Layer& layer) {
  int ops = 0;
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  layer.GetReflection()->ListFields(layer, &fields);
  for (const auto* field : fields) ops += field->is_extension() || field->containing_oneof() != nullptr ? 1 : 0;
  return ops;
}

bool IsInteger(proto::DataType dtype) {
  return dtype == proto::INT32 || dtype == proto::INT64 || dtype == proto::UINT8;
}

// Checks ops and names of layers that stand in a file as they are. `what` begins messages, `pos` is where they are.
template <class Layers>
void CheckLayers(const Layers& layers, absl::string_view what, SourcePos pos, NameTable* names, ErrorList* errors) {
  for (int i = 0; i < layers.size(); ++i) {
    const proto::Layer& layer = layers.Get(i);
    const int ops = NumOps(layer);
    if (ops != 1) {
      errors->Add(pos, absl::StrCat(what, i, " \"", layer.name(), "\": expected one op, found ", ops));
    }
    for (const std::string& name : layer.input()) names->Resolve("", name, pos, layer.name());
    if (names->Check(layer.name(), pos)) {
      names->DefineLayer(layer.name(), pos, {layer.input().begin(), layer.input().end()});
    }
  }
}

}  // namespace

void CheckInput(const proto::Input& input, const ReportInput& report) {
  std::vector<int64_t> dims(input.shape().dim().begin(), input.shape().dim().end());
  for (size_t k = 0; k < dims.size(); ++k) {
    if (dims[k] < 1) {
      return report("dim", static_cast<int>(k), absl::StrCat("\"dim\": expected at least 1, found ", dims[k]));
    }
  }
  // The batch adds a dimension.
  if (!input.no_batch()) dims.insert(dims.begin(), 1);
  const absl::StatusOr<Shape> shape = MakeShape(dims);
  if (!shape.ok()) report("shape", 0, std::string(shape.status().message()));
  if (!input.has_max_value()) return;
  if (!IsInteger(input.dtype())) {
    report("max_value", 0, "\"max_value\" is for inputs of integers: add dtype: INT32");
  } else if (input.max_value() < 1) {
    report("max_value", 0, absl::StrCat("\"max_value\": expected at least 1, found ", input.max_value()));
  }
}

void CheckBinary(const proto::Network& network, const LoadOptions& options, const SourceMap* map, ErrorList* errors) {
  if (network.layer_size() > options.max_layers) {
    errors->Add({}, absl::StrCat("the network has ", network.layer_size(), " layers; at most ", options.max_layers,
                                 " are allowed"));
    return;
  }
  Oddities oddities;
  oddities.Look(network);
  if (oddities.unknown_fields) {
    errors->Add({},
                "the file has fields that this program does not know: it was written by a newer version, or uses ops "
                "that are not linked in");
    return;
  }
  if (oddities.bad_strings) return errors->Add({}, "a name in the file is not UTF-8");
  if (network.layer_size() == 0) errors->Add({}, "a network needs at least one layer");
  if (network.has_batch() && network.batch() < 1) {
    errors->Add({}, absl::StrCat("\"batch\": expected at least 1, found ", network.batch()));
  }
  NameTable names(map, options.max_name_length, errors);
  for (int i = 0; i < network.input_size(); ++i) {
    const proto::Input& input = network.input(i);
    CheckInput(input, [&](absl::string_view, int, const std::string& message) {
      errors->Add({}, absl::StrCat("input ", i, " \"", input.name(), "\": ", message));
    });
    if (names.Check(input.name(), {})) names.DefineInput(input.name(), {});
  }
  CheckLayers(network.layer(), "layer ", {}, &names, errors);
  for (const std::string& name : network.objective()) names.Resolve("", name, {});
  for (const std::string& name : network.output()) names.Resolve("", name, {});
  for (const proto::AlternatingUpdate& update : network.update()) {
    for (const std::string& name : update.objective()) names.Resolve("", name, {});
  }
  names.Finish();
  CheckSubnetworks(network, *map, options, errors);
}

void CheckSubnetworks(const proto::Network& network, const SourceMap& map, const LoadOptions& options,
                      ErrorList* errors) {
  std::set<std::string> known;
  std::vector<WantedBody> wanted;
  const auto find = [&](const auto& layers) {
    for (const proto::Layer& layer : layers) FindBodies(layer, SourceNode(), &wanted);
  };
  find(network.layer());
  for (int k = 0; k < network.subnetwork_size(); ++k) {
    const proto::Subnetwork& subnetwork = network.subnetwork(k);
    const SourceNode* place = map.network.Find("subnetwork", k);
    const SourcePos pos = place == nullptr ? SourcePos() : place->pos;
    const std::string what = absl::StrCat("sub-network \"", subnetwork.name(), "\": ");
    find(subnetwork.layer());
    if (subnetwork.name().empty()) errors->Add(pos, "a sub-network needs a name");
    if (!known.insert(subnetwork.name()).second) errors->Add(pos, what + "is defined twice");
    NameTable names(&map, options.max_name_length, errors);
    for (const std::string& input : subnetwork.input()) {
      if (names.Check(input, pos)) names.DefineInput(input, pos);
    }
    CheckLayers(subnetwork.layer(), what + "layer ", pos, &names, errors);
    for (const proto::SubnetworkOutput& output : subnetwork.output()) {
      if (names.Check(SplitOutputName(output.name()).base, pos))
        names.Resolve("", output.has_value() ? output.value() : output.name(), pos);
    }
    names.Finish();
  }
  for (const WantedBody& body : wanted) {
    if (!known.contains(body.name) && errors->empty()) errors->Add({}, NoSuchBody(body.name, network, {}));
  }
}

}  // namespace snug::core::loader
