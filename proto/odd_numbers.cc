#include "proto/odd_numbers.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cmath>
#include <utility>
#include <vector>

#include "proto/network.pb.h"

namespace snug::proto {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

double Number(const Message& message, const FieldDescriptor* field, int i) {
  const Reflection* r = message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
    return field->is_repeated() ? r->GetRepeatedFloat(message, field, i) : r->GetFloat(message, field);
  }
  return field->is_repeated() ? r->GetRepeatedDouble(message, field, i) : r->GetDouble(message, field);
}

// Says what is wrong with entry i of the field; empty when nothing is.
std::string Odd(const Message& message, const FieldDescriptor* field, int i) {
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const Reflection* r = message.GetReflection();
    const auto inside =
        FindOddNumber(field->is_repeated() ? r->GetRepeatedMessage(message, field, i) : r->GetMessage(message, field));
    return inside ? absl::StrCat(inside->field, ": ", inside->message) : "";
  }
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE && field->cpp_type() != FieldDescriptor::CPPTYPE_FLOAT) {
    return "";
  }
  const double number = Number(message, field, i);
  const bool infinite = field->options().GetExtension(may_be_infinite);
  if (std::isfinite(number) || (infinite && std::isinf(number))) return "";
  return absl::StrCat("expected a ", infinite ? "" : "finite ", "number, found ", number);
}

}  // namespace

std::optional<OddNumber> FindOddNumber(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? message.GetReflection()->FieldSize(message, field) : 1;
    for (int i = 0; i < size; ++i) {
      std::string odd = Odd(message, field, i);
      if (!odd.empty()) return OddNumber{std::string(field->name()), i, std::move(odd)};
    }
  }
  return std::nullopt;
}

}  // namespace snug::proto
