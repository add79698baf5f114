#include "proto/loader/fill.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "engine/base/text/suggest.h"
#include "engine/base/text/utf8.h"
#include "proto/expected.h"

namespace snug::core::loader {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

std::optional<double> AsDouble(const Scalar& scalar) {
  if (scalar.IsNumeric()) return scalar.AsNumber();
  if (scalar.kind != Scalar::Kind::kIdentifier) return std::nullopt;
  const std::string lower = absl::AsciiStrToLower(scalar.text);
  if (lower == "inf" || lower == "infinity") return std::numeric_limits<double>::infinity();
  if (lower == "nan") return std::numeric_limits<double>::quiet_NaN();
  return std::nullopt;
}

// Returns the field of `message` that holds messages with a field of that name.
const FieldDescriptor* HolderOf(absl::string_view name, const Message& message) {
  const google::protobuf::Descriptor* const type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE || field->is_repeated()) continue;
    if (field->message_type()->FindFieldByName(std::string(name)) != nullptr) return field;
  }
  return nullptr;
}

std::optional<bool> AsBool(const Scalar& scalar) {
  if (scalar.kind == Scalar::Kind::kInteger && (scalar.integer == 0 || scalar.integer == 1)) return scalar.integer == 1;
  if (scalar.kind != Scalar::Kind::kIdentifier) return std::nullopt;
  if (scalar.text == "true" || scalar.text == "True" || scalar.text == "t") return true;
  if (scalar.text == "false" || scalar.text == "False" || scalar.text == "f") return false;
  return std::nullopt;
}

const EnumValueDescriptor* AsEnum(const Scalar& scalar, const google::protobuf::EnumDescriptor* type) {
  if (scalar.kind == Scalar::Kind::kIdentifier) return type->FindValueByName(scalar.text);
  const bool small = scalar.integer >= 0 && scalar.integer <= std::numeric_limits<int32_t>::max();
  if (scalar.kind != Scalar::Kind::kInteger || !small) return nullptr;
  return type->FindValueByNumber(static_cast<int>(scalar.integer));
}

// Sets a single field, or appends to a list.
#define SNUG_STORE(Type, value) \
  (field->is_repeated() ? r->Add##Type(m, field, (value)) : r->Set##Type(m, field, (value)))

bool StoreInteger(const Scalar& scalar, const FieldDescriptor* field, Message* m) {
  const Reflection* r = m->GetReflection();
  const int64_t v = scalar.integer;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      SNUG_STORE(Int64, v);
      return true;
    case FieldDescriptor::CPPTYPE_INT32:
      if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()) return false;
      SNUG_STORE(Int32, static_cast<int32_t>(v));
      return true;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (v < 0) return false;
      SNUG_STORE(UInt64, static_cast<uint64_t>(v));
      return true;
    default:  // CPPTYPE_UINT32
      if (v < 0 || v > std::numeric_limits<uint32_t>::max()) return false;
      SNUG_STORE(UInt32, static_cast<uint32_t>(v));
      return true;
  }
}

// Where a string is written in place of a message whose first field is a string, it is nearly always meant for that
// field.
std::string FirstFieldOf(const FieldDescriptor* descriptor, const Value& value) {
  const FieldDescriptor* first = descriptor->message_type()->FindFieldByNumber(1);
  if (value.kind != Value::Kind::kString || first == nullptr || first->is_repeated() ||
      first->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return "";
  }
  return absl::StrCat(": ", descriptor->name(), " { ", first->name(), ": ", value.text, " }");
}

}  // namespace

const FieldDescriptor* Filler::Find(const Field& field, const Message& message) {
  if (!field.extension) return message.GetDescriptor()->FindFieldByName(field.name);
  const FieldDescriptor* found = message.GetReflection()->FindKnownExtensionByName(field.name);
  return found != nullptr && found->containing_type() == message.GetDescriptor() ? found : nullptr;
}

const FieldDescriptor* Filler::Nearest(absl::string_view name, const Message& message) {
  Suggester suggester(name);
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) suggester.Consider(type->field(i)->name());
  return suggester.found() ? type->FindFieldByName(suggester.best()) : nullptr;
}

bool Filler::Charge(int64_t bytes, SourcePos pos) {
  if (exhausted()) return false;
  budget_ -= bytes + static_cast<int64_t>(sizeof(SourceNode));
  if (!exhausted()) return true;
  errors_->Add(pos, "the network becomes too large here: blocks, repeats and lists expand beyond the limit");
  return false;
}

bool Filler::IsDuplicate(const Field& field, const FieldDescriptor* descriptor, const Scope& scope,
                         const SourceNode& node) {
  if (descriptor->is_repeated()) return false;
  for (const SourceNode& child : node.children) {
    if (child.field == descriptor) {
      errors_->Add(scope.Place(field.pos), absl::StrCat("\"", field.name, "\" is given twice: first at line ",
                                                        child.pos.line, ", column ", child.pos.column));
      return true;
    }
    if (descriptor->containing_oneof() != nullptr && !child.field->is_extension() &&
        child.field->containing_oneof() == descriptor->containing_oneof()) {
      errors_->Add(scope.Place(field.pos),
                   absl::StrCat("\"", field.name, "\" and \"", child.field->name(), "\" (line ", child.pos.line,
                                ", column ", child.pos.column, ") exclude each other"));
      return true;
    }
  }
  return false;
}

void Filler::FillAll(const Value& value, const Scope& scope, Message* message, SourceNode* node) {
  for (const Field& field : value.fields) {
    if (exhausted() || errors_->full()) return;
    if (!value.complete && Find(field, *message) == nullptr)
      continue;  // where braces are wrong, it may belong elsewhere
    Fill(field, scope, message, node);
  }
}

void Filler::Fill(const Field& field, const Scope& scope, Message* message, SourceNode* node) {
  const FieldDescriptor* descriptor = Find(field, *message);
  if (descriptor == nullptr) return Unknown(field, scope, message, node);
  if (IsDuplicate(field, descriptor, scope, *node)) return;
  SourceNode place{descriptor, scope.Place(field.pos), {}};
  const bool is_message = descriptor->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (field.value.kind == Value::Kind::kBroken) {
    node->children.push_back(std::move(place));
  } else if (is_message && field.value.kind == Value::Kind::kList && descriptor->is_repeated()) {
    for (const Value& item : field.value.items) {
      SourceNode entry{descriptor, scope.Place(item.pos), {}};
      FillMessage(item, descriptor, scope, message, &entry);
      node->children.push_back(std::move(entry));
      if (exhausted()) return;
    }
  } else if (is_message) {
    FillMessage(field.value, descriptor, scope, message, &place);
    node->children.push_back(std::move(place));
  } else {
    FillScalar(field.value, descriptor, scope, message, node);
    if (!node->children.empty() && node->children.back().field == descriptor) return;
    node->children.push_back(std::move(place));
  }
}

void Filler::Unknown(const Field& field, const Scope& scope, Message* message, SourceNode* node) {
  // As it is written in the file; types have names that users do not know.
  const std::string type(node->field != nullptr ? node->field->name() : message->GetDescriptor()->name());
  const FieldDescriptor* holder = field.extension ? nullptr : HolderOf(field.name, *message);
  const FieldDescriptor* near = field.extension || holder != nullptr ? nullptr : Nearest(field.name, *message);
  std::string meant;
  if (holder != nullptr) meant = absl::StrCat("; it stands in ", holder->name(), " { }");
  if (near != nullptr) meant = absl::StrCat("; did you mean \"", near->name(), "\"?");
  errors_->Add(scope.Place(field.pos), absl::StrCat(field.extension ? "unknown extension \"" : "unknown field \"",
                                                    field.name.substr(0, 80), "\" of ", type, meant));
  if (near == nullptr) return;
  // Goes on as if the field had been written right, for the sake of what depends on it.
  ErrorList::Mute mute(errors_);
  Field right = field;
  right.name = std::string(near->name());
  if (!IsDuplicate(right, near, scope, *node)) Fill(right, scope, message, node);
}

void Filler::FillMessage(const Value& value, const FieldDescriptor* descriptor, const Scope& scope, Message* message,
                         SourceNode* node) {
  if (!Charge(64, scope.Place(value.pos))) return;
  // The entry is added even if it turns out to be broken, so that entries and places keep the same numbers.
  const Reflection* r = message->GetReflection();
  Message* child =
      descriptor->is_repeated() ? r->AddMessage(message, descriptor) : r->MutableMessage(message, descriptor);
  if (value.kind != Value::Kind::kMessage && value.kind != Value::Kind::kBroken) {
    errors_->Add(scope.Place(value.pos), absl::StrCat("\"", descriptor->name(), "\": expected a message { }, found ",
                                                      value.Describe(), FirstFieldOf(descriptor, value)));
  }
  FillAll(value, scope, child, node);
}

void Filler::FillScalar(const Value& value, const FieldDescriptor* descriptor, const Scope& scope, Message* message,
                        SourceNode* node) {
  if (value.kind == Value::Kind::kMessage) {
    errors_->Add(scope.Place(value.pos), absl::StrCat("\"", descriptor->name(), "\": expected ", Expected(descriptor),
                                                      ", found a message { }"));
    return;
  }
  if (value.kind == Value::Kind::kList && descriptor->is_repeated()) {
    for (const Value& item : value.items) {
      FillScalar(item, descriptor, scope, message, node);
      if (exhausted() || errors_->full()) return;
    }
    return;
  }
  const std::optional<Scalar> scalar = Evaluate(value, scope, errors_);
  if (!scalar) return;
  const SourcePos pos = scope.Place(value.pos);
  const bool many = scalar->kind == Scalar::Kind::kList && descriptor->is_repeated();
  for (const Scalar& one : many ? scalar->items : std::vector<Scalar>{*scalar}) {
    if (!Charge(static_cast<int64_t>(one.text.size()) + 8, pos)) return;
    if (!Store(one, pos, descriptor, message)) return;
    node->children.push_back({descriptor, pos, {}});
  }
}

bool Filler::Store(const Scalar& scalar, SourcePos pos, const FieldDescriptor* field, Message* m) {
  const Reflection* r = m->GetReflection();
  const auto wrong = [&](absl::string_view more = "") {
    errors_->Add(
        pos, absl::StrCat("\"", field->name(), "\": expected ", Expected(field), ", found ", scalar.ToString(), more));
    return false;
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      if (scalar.kind != Scalar::Kind::kInteger && scalar.kind != Scalar::Kind::kHuge) return wrong();
      if (scalar.kind == Scalar::Kind::kHuge || !StoreInteger(scalar, field, m)) {
        errors_->Add(pos, absl::StrCat("\"", field->name(), "\": ", scalar.ToString(), " is out of range for ",
                                       field->cpp_type_name()));
        return false;
      }
      return true;
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const std::optional<double> number = AsDouble(scalar);
      if (!number) return wrong();
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        SNUG_STORE(Double, *number);
      } else {
        SNUG_STORE(Float, static_cast<float>(*number));
      }
      return true;
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      const std::optional<bool> flag = AsBool(scalar);
      if (!flag) return wrong();
      SNUG_STORE(Bool, *flag);
      return true;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      const bool name = scalar.kind == Scalar::Kind::kIdentifier || scalar.kind == Scalar::Kind::kReference;
      if (scalar.kind != Scalar::Kind::kString) return wrong(name ? " (without quotes)" : "");
      if (!IsUtf8(scalar.text)) return wrong(", which is not UTF-8");
      SNUG_STORE(String, scalar.text);
      return true;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = AsEnum(scalar, field->enum_type());
      if (value == nullptr) {
        Suggester suggester(scalar.text);
        for (int i = 0; i < field->enum_type()->value_count(); ++i) {
          suggester.Consider(field->enum_type()->value(i)->name());
        }
        return wrong(suggester.Question());
      }
      SNUG_STORE(Enum, value);
      return true;
    }
    default:
      return wrong();
  }
}

#undef SNUG_STORE

}  // namespace snug::core::loader
