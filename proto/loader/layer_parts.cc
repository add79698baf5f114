#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <utility>

#include "engine/base/text/suggest.h"
#include "proto/loader/expand.h"
#include "proto/loader/fill.h"
#include "proto/network.pb.h"

namespace snug::core::loader {
namespace {

using google::protobuf::FieldDescriptor;

class LayerReader {
 public:
  LayerReader(const Blocks& blocks, ErrorList* errors) : blocks_(blocks), errors_(errors) {}

  LayerParts Run(const Field& field, const Scope& scope) {
    LayerParts parts;
    parts.all.reserve(field.value.fields.size());
    for (const Field& f : field.value.fields) {
      LayerPart part{LayerPart::Role::kUnknown, &f, nullptr, ""};
      SetRole(f.name, f, &part);
      if (part.role == LayerPart::Role::kUnknown) Guess(scope, field.value.complete, &part, &parts);
      parts.all.push_back(std::move(part));
    }
    for (const LayerPart& part : parts.all) {
      if (part.role == LayerPart::Role::kName) {
        if (parts.name == nullptr) {
          parts.name = &part;
        } else {
          Fail(scope, part.field->pos,
               absl::StrCat("\"name\" is given twice: first at line ", parts.name->field->pos.line, ", column ",
                            parts.name->field->pos.column));
        }
      } else if (part.role == LayerPart::Role::kOp || part.role == LayerPart::Role::kBlock) {
        if (parts.op == nullptr) {
          parts.op = &part;
        } else {
          Fail(scope, part.field->pos,
               absl::StrCat("a layer has one op: \"", part.field->name, "\" comes after \"", parts.op->field->name,
                            "\" at line ", parts.op->field->pos.line, ", column ", parts.op->field->pos.column));
        }
      }
    }
    return parts;
  }

 private:
  void Fail(const Scope& scope, SourcePos pos, std::string message) {
    errors_->Add(scope.Place(pos), std::move(message));
  }

  void SetRole(const std::string& name, const Field& field, LayerPart* part) {
    if (!field.extension) {
      const auto block = blocks_.find(name);
      if (block != blocks_.end() && !name.empty()) {
        part->role = LayerPart::Role::kBlock;
        part->block = &block->second;
        return;
      }
    }
    Field probe;
    probe.name = name;
    probe.extension = field.extension;
    const FieldDescriptor* descriptor = Filler::Find(probe, proto::Layer::default_instance());
    if (descriptor == nullptr) return;
    if (descriptor->number() == proto::Layer::kNameFieldNumber) {
      part->role = LayerPart::Role::kName;
    } else if (descriptor->number() == proto::Layer::kInputFieldNumber) {
      part->role = LayerPart::Role::kInput;
    } else if (descriptor->number() == proto::Layer::kParamFieldNumber) {
      part->role = LayerPart::Role::kParam;
    } else {
      part->role = LayerPart::Role::kOp;
    }
  }

  // Reports that a field does not exist, and goes on with what was probably meant.
  void Guess(const Scope& scope, bool complete, LayerPart* part, LayerParts* parts) {
    const Field& field = *part->field;
    const bool message = field.value.kind == Value::Kind::kMessage;
    Suggester suggester(field.name);
    if (!field.extension) {
      const auto* type = proto::Layer::descriptor();
      for (int i = 0; i < type->field_count(); ++i) {
        const bool is_message = type->field(i)->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
        if (is_message == message) suggester.Consider(type->field(i)->name());
      }
      for (const auto& [name, block] : blocks_) {
        if (message && !name.empty()) suggester.Consider(name);
      }
    }
    if (message) parts->op_in_doubt = true;
    if (field.value.kind == Value::Kind::kBroken) parts->op_in_doubt = true;
    // It may be a block whose definition was not understood. And where braces are wrong, it may belong elsewhere.
    const bool lost_block = message && !field.extension && blocks_.contains("");
    if (!lost_block && complete) {
      Fail(scope, field.pos,
           absl::StrCat(field.extension ? "unknown extension \""
                        : message       ? "unknown op \""
                                        : "unknown field \"",
                        field.name.substr(0, 80), message ? "\"" : "\" of a layer", suggester.Question()));
    }
    if (!suggester.found()) return;
    part->meant = suggester.best();
    SetRole(part->meant, field, part);
  }

  const Blocks& blocks_;
  ErrorList* errors_;
};

}  // namespace

LayerParts Understand(const Field& layer, const Scope& scope, const Blocks& blocks, ErrorList* errors) {
  return LayerReader(blocks, errors).Run(layer, scope);
}

}  // namespace snug::core::loader
