// Gives what a block needs, its inputs and arguments, to the scope in which it is expanded.
#pragma once

#include <string>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/loader/expand.h"
#include "proto/loader/fill.h"
#include "proto/loader/scope.h"

namespace snug::core::loader {

// What a layer, or the use of a block, reads.
struct InputRef {
  std::string value;  // "" when it is not known
  SourcePos pos;
  std::string wanted = "";  // its name, when the value is not known
};

class Binder {
 public:
  // `scope` is where the block is used.
  Binder(const BlockDefinition& block, const Scope& scope, Filler* filler, ErrorList* errors)
      : block_(block), scope_(scope), filler_(*filler), errors_(errors) {}

  // Binds inputs and arguments of a use, which is `field`. Returns false when something is wrong with them.
  bool Bind(const LayerParts& parts, const Field& field, const std::vector<InputRef>& inputs, Scope* inner);
  // The same for the body of a loop or branch that stands at `pos`: its inputs are those of a sub-network, and nobody
  // gives it arguments.
  bool BindBody(SourcePos pos, Scope* inner);

 private:
  bool BindArgument(const Field& given, Scope* inner, std::vector<std::string>* seen);
  // Binds those arguments to their defaults that were not given. Returns false when one has none, and reports it at
  // `pos`, if that is known.
  bool BindDefaults(const std::vector<std::string>& given, SourcePos pos, absl::string_view hint, Scope* inner);
  void Fail(SourcePos pos, std::string message) { errors_->Add(scope_.Place(pos), std::move(message)); }

  const BlockDefinition& block_;
  const Scope& scope_;
  Filler& filler_;
  ErrorList* errors_;
};

}  // namespace snug::core::loader
