#include "tools/cli/runs/kept_layers.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <vector>

#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::core::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr const char* kLayer = "layer ";
constexpr const char* kBlock = "block ";

bool IsDefault(const Message& message, const FieldDescriptor& field) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field) == field.default_value_int32();
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field) == field.default_value_int64();
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field) == field.default_value_uint32();
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field) == field.default_value_uint64();
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, &field) == field.default_value_float();
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field) == field.default_value_double();
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field) == field.default_value_bool();
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.GetEnum(message, &field) == field.default_value_enum();
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field) == field.default_value_string();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return false;
}

void LeaveOutDefaults(Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      if (!field->is_repeated() && IsDefault(message, *field)) reflection.ClearField(&message, field);
    } else if (field->is_repeated()) {
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        LeaveOutDefaults(*reflection.MutableRepeatedMessage(&message, field, i));
      }
    } else {
      LeaveOutDefaults(*reflection.MutableMessage(&message, field));
    }
  }
}

void LeaveOutBeginnings(proto::Layer& layer) {
  for (proto::Param& parameter : *layer.mutable_param()) parameter.clear_init();
}

template <class Part>
std::string WordsOf(Part part) {
  part.clear_name();
  LeaveOutDefaults(part);
  return std::string(proto::MakeOptions(part).text());
}

}  // namespace

std::map<std::string, std::string> WordsOfLayers(const proto::Network& network) {
  std::map<std::string, std::string> words;
  for (proto::Layer layer : network.layer()) {
    LeaveOutBeginnings(layer);
    words[absl::StrCat(kLayer, layer.name())] = WordsOf(layer);
  }
  for (proto::Subnetwork block : network.subnetwork()) {
    for (proto::Layer& layer : *block.mutable_layer()) LeaveOutBeginnings(layer);
    words[absl::StrCat(kBlock, block.name())] = WordsOf(block);
  }
  return words;
}

bool IsOfLayers(const std::string& option) {
  return absl::StartsWith(option, kLayer) || absl::StartsWith(option, kBlock);
}

}  // namespace snug::core::cli
