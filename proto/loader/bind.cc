#include "proto/loader/bind.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/base/text/suggest.h"

namespace snug::core::loader {

bool Binder::Bind(const LayerParts& parts, const Field& field, const std::vector<InputRef>& inputs, Scope* inner) {
  if (block_.broken) return false;
  bool ok = true;
  if (inputs.size() != block_.inputs.size()) {
    if (field.value.complete) {
      Fail(field.pos, absl::StrCat("block \"", block_.name, "\" reads ", block_.inputs.size(),
                                   block_.inputs.size() == 1 ? " input, found " : " inputs, found ", inputs.size()));
    }
    ok = false;
  }
  for (size_t i = 0; i < std::min(inputs.size(), block_.inputs.size()); ++i) {
    inner->bindings.emplace_back(block_.inputs[i], Scalar{.kind = Scalar::Kind::kReference, .text = inputs[i].value});
  }
  if (!parts.op->meant.empty()) return false;
  const Value& given = parts.op->field->value;
  if (given.kind != Value::Kind::kMessage) {
    if (given.kind != Value::Kind::kBroken) {
      Fail(given.pos, absl::StrCat("\"", block_.name, "\": expected a message { } with the block's arguments, found ",
                                   given.Describe()));
    }
    return false;
  }
  std::vector<std::string> seen;
  for (const Field& argument : given.fields) ok = BindArgument(argument, inner, &seen) && ok;
  return BindDefaults(seen, given.complete ? parts.op->field->pos : SourcePos(), "", inner) && ok;
}

bool Binder::BindBody(SourcePos pos, Scope* inner) {
  if (block_.broken) return false;
  for (const std::string& input : block_.inputs) {
    inner->bindings.emplace_back(input, Scalar{.kind = Scalar::Kind::kReference, .text = input});
  }
  return BindDefaults({}, pos, ", which the body of a loop or branch is not given: use it in a block without arguments",
                      inner);
}

bool Binder::BindDefaults(const std::vector<std::string>& given, SourcePos pos, absl::string_view hint, Scope* inner) {
  bool ok = true;
  for (const BlockDefinition::Argument& argument : block_.arguments) {
    if (std::find(given.begin(), given.end(), argument.name) != given.end()) continue;
    if (argument.initial == nullptr) {
      if (pos.known()) {
        Fail(pos, absl::StrCat("block \"", block_.name, "\" needs its argument \"", argument.name, "\"", hint));
      }
      ok = false;
      continue;
    }
    // Defaults may use the arguments before them.
    std::optional<Scalar> value = Evaluate(*argument.initial, *inner, errors_);
    ok = ok && value.has_value();
    if (value) inner->bindings.emplace_back(argument.name, *std::move(value));
  }
  return ok;
}

bool Binder::BindArgument(const Field& given, Scope* inner, std::vector<std::string>* seen) {
  std::string name = given.name;
  bool ok = true;
  if (block_.FindArgument(name) == nullptr) {
    Suggester suggester(name);
    for (const BlockDefinition::Argument& argument : block_.arguments) suggester.Consider(argument.name);
    Fail(given.pos, absl::StrCat("block \"", block_.name, "\" has no argument \"", name.substr(0, 40), "\"",
                                 suggester.Question()));
    if (!suggester.found()) return false;
    name = suggester.best();
    ok = false;
  }
  if (std::find(seen->begin(), seen->end(), name) != seen->end()) {
    if (ok) Fail(given.pos, absl::StrCat("argument \"", name, "\" is given twice"));
    return false;
  }
  seen->push_back(name);
  std::optional<Scalar> value = Evaluate(given.value, scope_, errors_);
  if (!value) return false;
  if (!filler_.Charge(static_cast<int64_t>(value->items.size() * sizeof(Scalar)), scope_.Place(given.pos))) {
    return false;
  }
  inner->bindings.emplace_back(name, *std::move(value));
  return ok;
}

}  // namespace snug::core::loader
