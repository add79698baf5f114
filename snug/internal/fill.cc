#include "snug/internal/fill.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <limits>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "proto/expected.h"
#include "snug/internal/custom.pb.h"

namespace snug {
inline namespace v0 {
namespace embed {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// One element of an option's value.
using Scalar = std::variant<bool, int64_t, double, std::string>;

std::vector<Scalar> ScalarsOf(const OptionValue& value) {
  return std::visit(
      [](const auto& v) -> std::vector<Scalar> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::vector<int64_t>> || std::is_same_v<T, std::vector<double>>) {
          return {v.begin(), v.end()};
        } else {
          return {v};
        }
      },
      value.value());
}

std::string Describe(const Scalar& scalar) {
  if (const auto* v = std::get_if<bool>(&scalar)) return *v ? "true" : "false";
  if (const auto* v = std::get_if<int64_t>(&scalar)) return absl::StrCat(*v);
  if (const auto* v = std::get_if<double>(&scalar)) return absl::StrCat(*v);
  return absl::StrCat("\"", std::get<std::string>(scalar), "\"");
}

// Returns false when the value is not of the field's type.
bool Put(const Scalar& scalar, const FieldDescriptor* field, Message* m) {
  const Reflection* r = m->GetReflection();
  const auto store = [&](auto set, auto add, auto value) {
    field->is_repeated() ? (r->*add)(m, field, std::move(value)) : (r->*set)(m, field, std::move(value));
    return true;
  };
  const auto* integer = std::get_if<int64_t>(&scalar);
  const auto* number = std::get_if<double>(&scalar);
  const auto* truth = std::get_if<bool>(&scalar);
  const auto* text = std::get_if<std::string>(&scalar);
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return integer != nullptr && store(&Reflection::SetInt64, &Reflection::AddInt64, *integer);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (integer != nullptr)
        return store(&Reflection::SetDouble, &Reflection::AddDouble, static_cast<double>(*integer));
      return number != nullptr && store(&Reflection::SetDouble, &Reflection::AddDouble, *number);
    case FieldDescriptor::CPPTYPE_BOOL:
      return truth != nullptr && store(&Reflection::SetBool, &Reflection::AddBool, *truth);
    case FieldDescriptor::CPPTYPE_STRING:
      return text != nullptr && store(&Reflection::SetString, &Reflection::AddString, *text);
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* named = text == nullptr ? nullptr : field->enum_type()->FindValueByName(*text);
      return named != nullptr && store(&Reflection::SetEnum, &Reflection::AddEnum, named);
    }
    default:
      return false;
  }
}

absl::StatusOr<const FieldDescriptor*> FindField(absl::string_view name, const Message& message) {
  const auto* type = message.GetDescriptor();
  if (const FieldDescriptor* field = type->FindFieldByName(std::string(name)); field != nullptr) return field;
  core::Suggester suggester(name);
  for (int i = 0; i < type->field_count(); ++i) suggester.Consider(std::string(type->field(i)->name()));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown field \"", name, "\" of ", std::string(type->name()), suggester.Question()));
}

absl::Status Set(absl::string_view path, const OptionValue& value, Message* message) {
  const size_t dot = path.find('.');
  SNUG_ASSIGN_OR_RETURN(const FieldDescriptor* const field, FindField(path.substr(0, dot), *message));
  const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
  if (dot != absl::string_view::npos) {
    if (!is_message || field->is_repeated()) {
      return absl::InvalidArgumentError(absl::StrCat("\"", path.substr(0, dot), "\" has no fields"));
    }
    return Set(path.substr(dot + 1), value, message->GetReflection()->MutableMessage(message, field));
  }
  const std::vector<Scalar> scalars = ScalarsOf(value);
  if (is_message) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", path, "\" is a message: its fields are named \"", path, ".<field>\""));
  }
  if (!field->is_repeated() && scalars.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", core::Expected(field), ", found ", scalars.size()));
  }
  if (field->is_repeated()) message->GetReflection()->ClearField(message, field);
  for (const Scalar& scalar : scalars) {
    if (Put(scalar, field, message)) continue;
    return absl::InvalidArgumentError(absl::StrCat("expected ", core::Expected(field), ", found ", Describe(scalar)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status SetOption(const Option& option, Message* message) {
  return core::Annotate(Set(option.name, option.value, message), absl::StrCat("option \"", option.name, "\""));
}

void SetCustomOption(const Option& option, Custom* custom) {
  Custom::Option* const added = custom->add_option();
  added->set_name(option.name);
  for (const Scalar& scalar : ScalarsOf(option.value)) {
    if (const auto* text = std::get_if<std::string>(&scalar)) {
      added->set_text(*text);
    } else {
      added->add_number(std::visit(
          [](const auto& v) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(v)>>) return static_cast<double>(v);
            return 0.0;
          },
          scalar));
    }
  }
}

}  // namespace embed
}  // namespace v0
}  // namespace snug
