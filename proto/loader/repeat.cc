#include <absl/strings/str_cat.h>

#include <array>
#include <utility>

#include "engine/base/text/suggest.h"
#include "proto/loader/expand.h"

namespace snug::core::loader {
namespace {

class RepeatReader {
 public:
  RepeatReader(const Scope& scope, ErrorList* errors) : scope_(scope), errors_(errors) {}

  RepeatParts Run(const Field& repeat) {
    for (const Field& field : repeat.value.fields) Sort(field);
    if (parts_.ok && parts_.times_field == nullptr) Missing(repeat, "a repeat needs its number of times: times: 3");
    if (parts_.ok && parts_.statements.empty()) Missing(repeat, "a repeat needs at least one layer");
    if (parts_.times_field != nullptr) ReadInteger(*parts_.times_field, &parts_.times);
    if (parts_.from_field != nullptr) ReadInteger(*parts_.from_field, &parts_.from);
    if (index_ != nullptr) ReadIndex();
    if (parts_.times < 0) {
      Fail(parts_.times_field->value.pos, absl::StrCat("\"times\": expected at least 0, found ", parts_.times));
    } else if (parts_.ok && parts_.times == 0 && parts_.input == nullptr) {
      Fail(parts_.times_field->value.pos, "\"times\" is 0, and there is no input that could be handed on instead");
    }
    return std::move(parts_);
  }

 private:
  void Fail(SourcePos pos, std::string message) {
    errors_->Add(scope_.Place(pos), std::move(message));
    parts_.ok = false;
  }

  // Reports that something is missing, unless it may be in the part that could not be read.
  void Missing(const Field& repeat, std::string message) {
    if (repeat.value.complete) Fail(repeat.pos, std::move(message));
    parts_.ok = false;
  }

  void Sort(const Field& field) {
    if (field.name == "layer" || field.name == "repeat") return parts_.statements.push_back(&field);
    if (field.name == "output") return parts_.outputs.push_back(&field.value);
    const std::array<std::pair<const char*, const Field**>, 5> singular = {{{"times", &parts_.times_field},
                                                                            {"index", &index_},
                                                                            {"from", &parts_.from_field},
                                                                            {"input", &parts_.input},
                                                                            {"name", &parts_.name}}};
    for (const auto& [name, slot] : singular) {
      if (field.name != name) continue;
      if (*slot != nullptr) return Fail(field.pos, absl::StrCat("\"", name, "\" is given twice"));
      *slot = &field;
      return;
    }
    if (field.name == "block") {
      return Fail(field.pos, "a block cannot be defined inside a repeat; it can be used there");
    }
    Suggester suggester(field.name);
    for (const auto& [name, slot] : singular) suggester.Consider(name);
    for (const char* name : {"layer", "repeat", "output"}) suggester.Consider(name);
    Fail(field.pos, absl::StrCat("unknown field \"", field.name.substr(0, 40), "\" of a repeat", suggester.Question()));
    if (suggester.best() == "layer" || suggester.best() == "repeat") parts_.statements.push_back(&field);
  }

  void ReadInteger(const Field& field, int64_t* number) {
    const std::optional<Scalar> scalar = Evaluate(field.value, scope_, errors_);
    parts_.ok = parts_.ok && scalar.has_value();
    if (!scalar) return;
    if (scalar->kind == Scalar::Kind::kInteger) {
      *number = scalar->integer;
    } else {
      Fail(field.value.pos, absl::StrCat("\"", field.name, "\": expected an integer, found ", scalar->ToString()));
    }
  }

  void ReadIndex() {
    const std::optional<Scalar> scalar = Evaluate(index_->value, scope_, errors_);
    parts_.ok = parts_.ok && scalar.has_value();
    if (!scalar) return;
    if (scalar->kind == Scalar::Kind::kString && scalar->text != "input" && scalar->text != "name") {
      parts_.index = scalar->text;
    } else {
      Fail(index_->value.pos, absl::StrCat("\"index\": expected a name such as \"i\", found ", scalar->ToString()));
    }
  }

  const Scope& scope_;
  ErrorList* errors_;
  RepeatParts parts_;
  const Field* index_ = nullptr;
};

}  // namespace

RepeatParts ReadRepeat(const Field& repeat, const Scope& scope, ErrorList* errors) {
  return RepeatReader(scope, errors).Run(repeat);
}

std::string BeginOfName(const Field& statement) {
  for (const Field& field : statement.value.fields) {
    if (field.name != "name" || field.value.kind != Value::Kind::kString) continue;
    const std::string& quoted = field.value.text;
    const size_t dollar = quoted.find('$');
    return quoted.substr(1, dollar == std::string::npos ? quoted.size() - 2 : dollar - 1);
  }
  return "";
}

}  // namespace snug::core::loader
