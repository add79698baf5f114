#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>

#include <optional>
#include <utility>

#include "engine/base/text/suggest.h"
#include "proto/loader/expand.h"
#include "proto/loader/scope.h"
#include "proto/network.pb.h"

namespace snug::core::loader {
namespace {

class Collector {
 public:
  explicit Collector(ErrorList* errors) : errors_(errors) {}

  BlockDefinition Read(const Field& definition) {
    BlockDefinition block;
    block.pos = definition.pos;
    if (definition.value.kind != Value::Kind::kMessage) {
      if (definition.value.kind != Value::Kind::kBroken) {
        errors_->Add(definition.value.pos, "\"block\": expected a message { }");
      }
      block.broken = true;
      return block;
    }
    block.broken = !definition.value.complete;
    for (const Field& field : definition.value.fields) {
      if (!ReadPart(field.name, field, &block)) Unknown(field, &block);
    }
    if (!has_name_ && definition.value.complete) Fail(&block, block.pos, "a block needs a name: name: \"...\"");
    if (block.statements.empty() && !block.broken) {
      Fail(&block, block.pos, absl::StrCat("block \"", block.name, "\" has no layers"));
    }
    if (block.inputs.empty()) block.inputs = {"input"};
    return block;
  }

 private:
  void Fail(BlockDefinition* block, SourcePos pos, std::string message) {
    errors_->Add(pos, std::move(message));
    block->broken = true;
  }

  // Reads one field. Returns false when blocks have no such field.
  bool ReadPart(absl::string_view name, const Field& field, BlockDefinition* block) {
    if (name == "name") {
      if (has_name_) Fail(block, field.pos, "\"name\" is given twice");
      has_name_ = true;
      block->name = Name(field.value, block).value_or("");
    } else if (name == "arg") {
      ForEach(field.value, [&](const Value& value) { ReadArgument(value, block); });
    } else if (name == "input") {
      ForEach(field.value, [&](const Value& value) {
        if (auto name = Name(value, block)) CheckFresh(*name, value.pos, block), block->inputs.push_back(*name);
      });
    } else if (name == "output") {
      ForEach(field.value, [&](const Value& value) { block->outputs.push_back(&value); });
    } else if (name == "layer" || name == "repeat") {
      block->statements.push_back(&field);
    } else {
      return false;
    }
    return true;
  }

  template <class Body>
  static void ForEach(const Value& value, Body body) {
    if (value.kind != Value::Kind::kList) return body(value);
    for (const Value& item : value.items) body(item);
  }

  // Reads `"channels"`, or `{ name: "stride" default: 1 }`.
  void ReadArgument(const Value& value, BlockDefinition* block) {
    BlockDefinition::Argument argument;
    if (value.kind != Value::Kind::kMessage) {
      const auto name = Name(value, block);
      if (!name) return;
      argument.name = *name;
    } else {
      const Field* name = nullptr;
      bool understood = value.complete;
      block->broken = block->broken || !understood;
      for (const Field& field : value.fields) {
        if (field.name == "name") {
          name = &field;
        } else if (field.name == "default") {
          argument.initial = &field.value;
        } else {
          understood = false;
          Fail(block, field.pos,
               absl::StrCat("unknown field \"", field.name.substr(0, 40), "\" of an arg; it has name and default"));
        }
      }
      if (name == nullptr && !understood) return;  // the field that was not understood may be the name
      if (name == nullptr) return Fail(block, value.pos, "an arg needs a name: arg { name: \"stride\" default: 1 }");
      const auto text = Name(name->value, block);
      if (!text) return;
      argument.name = *text;
    }
    CheckFresh(argument.name, value.pos, block);
    block->arguments.push_back(std::move(argument));
  }

  // Reads a name that can stand after a "$".
  std::optional<std::string> Name(const Value& value, BlockDefinition* block) {
    if (value.kind == Value::Kind::kBroken) {
      block->broken = true;
      return std::nullopt;
    }
    const std::optional<Scalar> scalar = Evaluate(value, Scope(), errors_);
    if (!scalar) {
      block->broken = true;
      return std::nullopt;
    }
    if (scalar->kind != Scalar::Kind::kString || !google::protobuf::io::Tokenizer::IsIdentifier(scalar->text)) {
      Fail(block, value.pos,
           absl::StrCat("expected a name in quotes, of letters, digits and \"_\", found ", scalar->ToString()));
      return std::nullopt;
    }
    return scalar->text;
  }

  void CheckFresh(const std::string& name, SourcePos pos, BlockDefinition* block) {
    bool taken = name == "name" || block->FindArgument(name) != nullptr;
    for (const std::string& input : block->inputs) taken = taken || input == name;
    if (!taken) return;
    Fail(block, pos,
         name == "name" ? "\"$name\" is the name of the block's use; call this something else"
                        : absl::StrCat("\"", name, "\" is given twice"));
  }

  void Unknown(const Field& field, BlockDefinition* block) {
    if (field.name == "block") {
      return Fail(block, field.pos, "a block cannot be defined inside another; it can be used there");
    }
    Suggester suggester(field.name);
    for (const char* name : {"name", "arg", "input", "output", "layer", "repeat"}) suggester.Consider(name);
    Fail(
        block, field.pos,
        absl::StrCat("unknown field \"", field.name.substr(0, 40), "\" of a block",
                     suggester.found() ? suggester.Question() : "; it has name, arg, input, layer, repeat and output"));
    if (!suggester.found()) return;
    ErrorList::Mute mute(errors_);  // reads on with what was probably meant, silently
    ReadPart(suggester.best(), field, block);
  }

  ErrorList* errors_;
  bool has_name_ = false;
};

}  // namespace

const BlockDefinition::Argument* BlockDefinition::FindArgument(absl::string_view argument) const {
  for (const Argument& candidate : arguments) {
    if (absl::string_view(candidate.name) == argument) return &candidate;
  }
  return nullptr;
}

std::string MeantAtTopLevel(const Field& field) {
  const auto* type = proto::Network::descriptor();
  if (field.extension) return "";
  if (type->FindFieldByName(field.name) != nullptr || field.name == "block" || field.name == "repeat")
    return field.name;
  Suggester suggester(field.name);
  for (int i = 0; i < type->field_count(); ++i) suggester.Consider(type->field(i)->name());
  for (const char* name : {"block", "repeat"}) suggester.Consider(name);
  return suggester.best();
}

Blocks CollectBlocks(const Value& file, ErrorList* errors) {
  Blocks blocks;
  if (!file.complete || errors->in_doubt()) blocks.try_emplace("");
  for (const Field& field : file.fields) {
    if (MeantAtTopLevel(field) != "block") continue;
    BlockDefinition block = Collector(errors).Read(field);
    if (block.name.empty()) {
      blocks.try_emplace("");
      continue;
    }
    if (proto::Layer::descriptor()->FindFieldByName(block.name) != nullptr) {
      errors->Add(block.pos,
                  absl::StrCat("a block cannot be called \"", block.name, "\": a layer has a field of that name"));
      continue;
    }
    const auto [it, added] = blocks.try_emplace(block.name, block);
    if (!added) {
      errors->Add(block.pos,
                  absl::StrCat("block \"", block.name, "\" is defined twice: first at line ", it->second.pos.line));
    }
  }
  return blocks;
}

}  // namespace snug::core::loader
