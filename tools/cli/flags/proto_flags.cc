#include "tools/cli/flags/proto_flags.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <google/protobuf/descriptor.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/suggest.h"
#include "proto/field_options.pb.h"
#include "proto/option_places.h"

namespace snug::core::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// A number or text from the command line.
struct Parsed {
  int64_t integer = 0;
  double number = 0;
  bool truth = false;
  std::string text;
};

absl::StatusOr<Parsed> Parse(const FieldDescriptor& field, const std::string& name, const std::string& value) {
  const auto wrong = [&](absl::string_view expected) {
    return absl::InvalidArgumentError(absl::StrCat("--", name, ": expected ", expected, ", found \"", value, "\""));
  };
  Parsed parsed;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      if (!absl::SimpleAtoi(value, &parsed.integer) || parsed.integer < 0) return wrong("a whole number of at least 0");
      return parsed;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!absl::SimpleAtod(value, &parsed.number) || !std::isfinite(parsed.number)) return wrong("a number");
      return parsed;
    case FieldDescriptor::CPPTYPE_BOOL:
      parsed.truth = value.empty() || value == "true";
      if (!parsed.truth && value != "false") return wrong("true or false");
      return parsed;
    default:
      parsed.text = value;
      return parsed;
  }
}

void Store(const FieldDescriptor* field, const Parsed& value, Message* message) {
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  const bool list = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return list ? reflection.AddInt64(message, field, value.integer)
                  : reflection.SetInt64(message, field, value.integer);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return list ? reflection.AddDouble(message, field, value.number)
                  : reflection.SetDouble(message, field, value.number);
    case FieldDescriptor::CPPTYPE_BOOL:
      return list ? reflection.AddBool(message, field, value.truth) : reflection.SetBool(message, field, value.truth);
    default:
      return list ? reflection.AddString(message, field, value.text) : reflection.SetString(message, field, value.text);
  }
}

const char* ValueName(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return "N";
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return field.is_repeated() ? "X,Y" : "X";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "";
    default:
      return field.is_repeated() ? "A,B" : "TEXT";
  }
}

std::string Default(const FieldDescriptor& field) {
  if (!field.has_default_value()) return "";
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat("; default ", field.default_value_int64());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat("; default ", field.default_value_double());
    case FieldDescriptor::CPPTYPE_BOOL:
      return absl::StrCat("; default ", field.default_value_bool() ? "true" : "false");
    default:
      return absl::StrCat("; default ", field.default_value_string());
  }
}

// Six digits where these are all of it, and every bit otherwise.
std::string NumberText(double value) {
  std::string text = absl::StrCat(value);
  double read = 0;
  return absl::SimpleAtod(text, &read) && read == value ? text : absl::StrFormat("%.17g", value);
}

// A scalar's value, or the `index`-th of a list.
std::string ValueText(const Message& message, const FieldDescriptor& field, int index) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const bool list = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(list ? reflection.GetRepeatedInt64(message, &field, index)
                               : reflection.GetInt64(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return NumberText(list ? reflection.GetRepeatedDouble(message, &field, index)
                             : reflection.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (list ? reflection.GetRepeatedBool(message, &field, index) : reflection.GetBool(message, &field))
                 ? "true"
                 : "false";
    default:
      return list ? reflection.GetRepeatedString(message, &field, index) : reflection.GetString(message, &field);
  }
}

void List(const std::string& prefix, const std::string& oneof_flag, const Message& message,
          std::vector<std::pair<std::string, std::string>>* flags) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const std::unique_ptr<const Message> defaults(message.New());
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = FlagName(*field, prefix);
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      if (field->is_repeated()) continue;
      if (field->containing_oneof() != nullptr) flags->emplace_back(oneof_flag, FlagName(*field, ""));
      List(FlagPrefix(*field, prefix), name, reflection.GetMessage(message, field), flags);
    } else if (field->is_repeated()) {
      std::vector<std::string> values;
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) values.push_back(ValueText(message, *field, i));
      flags->emplace_back(name, absl::StrJoin(values, ","));
    } else if (const std::string value = ValueText(message, *field, 0);
               !field->has_default_value() || value != ValueText(*defaults, *field, 0)) {
      flags->emplace_back(name, value);
    }
  }
}

}  // namespace

class ProtoFlagAdder {
  // The fields that lead from a message to one of its parts, which are made when a flag sets something in them. Where a
  // field is of a oneof, `named_by` is the flag that would choose it by its name.
  struct Hop {
    const FieldDescriptor* field;
    std::string named_by;
  };
  using Path = std::vector<Hop>;

 public:
  ProtoFlagAdder(Message* root, Flags& flags, const std::set<std::string>& without)
      : root_(root), flags_(flags), without_(without), implied_(std::make_shared<ImpliedChoices>()) {}

  void Add(const google::protobuf::Descriptor& type, const std::string& prefix, const std::string& oneof_flag,
           const Path& path) {
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor* field = type.field(i);
      const std::string name = FlagName(*field, prefix);
      if (without_.contains(name)) continue;
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
        AddScalar(field, name, path);
        continue;
      }
      Path inner = path;
      inner.push_back({field, oneof_flag});
      Add(*field->message_type(), FlagPrefix(*field, prefix), name, inner);
    }
    for (int i = 0; i < type.oneof_decl_count(); ++i) AddChoice(*type.oneof_decl(i), oneof_flag, path);
  }

  std::shared_ptr<const ImpliedChoices> implied() const { return implied_; }

 private:
  void AddScalar(const FieldDescriptor* field, const std::string& name, const Path& path) {
    if (flags_.Has(name)) return;
    const std::string help = absl::StrCat(field->options().GetExtension(proto::help), Default(*field));
    flags_.Add(name, ValueName(*field), help,
               [this_root = root_, implied = implied_, field, name, path](const std::string& value) {
                 NoteChoices(path, name, implied.get());
                 return Set(this_root, path, *field, name, value);
               });
  }

  static void NoteChoices(const Path& path, const std::string& name, ImpliedChoices* implied) {
    std::vector<const FieldDescriptor*> to;
    for (const Hop& hop : path) {
      to.push_back(hop.field);
      if (hop.field->containing_oneof() != nullptr)
        implied->choices_.try_emplace(hop.named_by, ImpliedChoices::Choice{name, to});
    }
  }

  static absl::Status Set(Message* root, const Path& path, const FieldDescriptor& field, const std::string& name,
                          const std::string& value) {
    SNUG_ASSIGN_OR_RETURN(Message* const message, Reach(root, path, name));
    std::vector<std::string> entries = {value};
    if (field.is_repeated()) entries = absl::StrSplit(value, ',');
    for (const std::string& entry : entries) {
      SNUG_ASSIGN_OR_RETURN(const Parsed parsed, Parse(field, name, entry));
      Store(&field, parsed, message);
    }
    return absl::OkStatus();
  }

  // Returns the message at the end of the path. It is an error if a oneof on the way has another member chosen.
  static absl::StatusOr<Message*> Reach(Message* root, const Path& path, const std::string& name) {
    Message* message = root;
    for (const auto& [field, named_by] : path) {
      const google::protobuf::Reflection& reflection = *message->GetReflection();
      if (const google::protobuf::OneofDescriptor* oneof = field->containing_oneof()) {
        const FieldDescriptor* chosen = reflection.GetOneofFieldDescriptor(*message, oneof);
        if (chosen != nullptr && chosen != field) {
          return absl::InvalidArgumentError(absl::StrCat("--", name, ": is for ", FlagName(*field, ""), ", but ",
                                                         FlagName(*chosen, ""), " was chosen before"));
        }
      }
      message = reflection.MutableMessage(message, field);
    }
    return message;
  }

  void AddChoice(const google::protobuf::OneofDescriptor& oneof, const std::string& name, const Path& path) {
    if (flags_.Has(name)) return;
    std::vector<std::string> names;
    for (int i = 0; i < oneof.field_count(); ++i) names.push_back(FlagName(*oneof.field(i), ""));
    flags_.Add(name, "NAME", absl::StrJoin(names, ", "),
               [this_root = root_, implied = implied_, &oneof, name, path](const std::string& value) {
                 implied->named_.insert(name);
                 return Choose(this_root, path, oneof, name, value);
               });
  }

  static absl::Status Choose(Message* root, const Path& path, const google::protobuf::OneofDescriptor& oneof,
                             const std::string& name, const std::string& value) {
    Suggester suggester(value);
    std::vector<std::string> names;
    for (int i = 0; i < oneof.field_count(); ++i) {
      const FieldDescriptor* member = oneof.field(i);
      names.push_back(FlagName(*member, ""));
      suggester.Consider(names.back());
      if (names.back() != value) continue;
      Path inner = path;
      inner.push_back({member, name});
      return Reach(root, inner, name).status();
    }
    return absl::InvalidArgumentError(absl::StrCat("--", name, ": expected one of ", absl::StrJoin(names, ", "),
                                                   "; found \"", value, "\"", suggester.Question()));
  }

  Message* root_;
  Flags& flags_;
  const std::set<std::string>& without_;
  std::shared_ptr<ImpliedChoices> implied_;
};

absl::Status ImpliedChoices::CheckAgainst(const Message& base) const {
  for (const auto& [named_by, choice] : choices_) {
    if (named_.contains(named_by)) continue;
    const Message* holder = &base;  // of the oneof
    for (size_t i = 0; i + 1 < choice.to.size(); ++i) {
      holder = &holder->GetReflection()->GetMessage(*holder, choice.to[i]);
    }
    const FieldDescriptor* member = choice.to.back();
    const FieldDescriptor* has = holder->GetReflection()->GetOneofFieldDescriptor(*holder, member->containing_oneof());
    if (has == nullptr || has == member) continue;
    return absl::InvalidArgumentError(absl::StrCat("--", choice.flag, ": is for ", FlagName(*member, ""),
                                                   ", but the file has ", FlagName(*has, ""), "; --", named_by, "=",
                                                   FlagName(*member, ""), " beside it takes that instead"));
  }
  return absl::OkStatus();
}

std::shared_ptr<const ImpliedChoices> AddProtoFlags(const std::string& prefix, const std::string& oneof_flag,
                                                    Message* message, Flags& flags,
                                                    const std::set<std::string>& without) {
  ProtoFlagAdder adder(message, flags, without);
  adder.Add(*message->GetDescriptor(), prefix, oneof_flag, {});
  return adder.implied();
}

std::vector<std::pair<std::string, std::string>> ListProtoFlags(const std::string& prefix,
                                                                const std::string& oneof_flag, const Message& message) {
  std::vector<std::pair<std::string, std::string>> flags;
  List(prefix, oneof_flag, message, &flags);
  return flags;
}

void Override(const Message& given, Message* base) {
  const google::protobuf::Reflection& reflection = *base->GetReflection();
  std::vector<const FieldDescriptor*> fields, plain;
  given.GetReflection()->ListFields(given, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!field->is_repeated() && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Override(given.GetReflection()->GetMessage(given, field), reflection.MutableMessage(base, field));
    } else {
      plain.push_back(field);
    }
  }
  const std::unique_ptr<Message> copy(given.New());
  copy->CopyFrom(given);
  reflection.SwapFields(base, copy.get(), plain);
}

}  // namespace snug::core::cli
