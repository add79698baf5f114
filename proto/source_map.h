// Where everything in a network was written: the loader makes it, the importer locates its errors and nodes with it.
// What is not known falls back to what encloses it, and at last to the file's name alone (binary files have no more).
// Thread-safe once built.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/source_loc.h"

namespace google::protobuf {
class FieldDescriptor;
}

namespace snug {

// A place in the file, and how what stands there came into the network.
struct SourcePos {
  int32_t line = 0;  // from 1; 0: unknown
  int32_t column = 0;
  int32_t expansion = -1;  // the use of a block, or the repetition, that it came from; -1: written as it stands

  bool known() const { return line > 0; }
};

// The places of a message: its own, and those of its fields.
struct SourceNode {
  const google::protobuf::FieldDescriptor* field = nullptr;
  SourcePos pos;
  std::vector<SourceNode> children;  // in the order written; the entries of a repeated field one by one

  // The k-th entry of a field; null: not written.
  const SourceNode* Find(absl::string_view name, int k = 0) const;
};

class SourceMap {
 public:
  SourceMap() = default;
  explicit SourceMap(std::string file) : file_(std::make_shared<const std::string>(std::move(file))) {}

  // The i-th entry of network.input, .layer, .objective, .output.
  SourceLoc InputLoc(int i, absl::string_view field = "") const;  // field: "shape", ...
  SourceLoc LayerLoc(int i) const;
  SourceLoc ObjectiveLoc(int i) const;
  SourceLoc OutputLoc(int i) const;

  SourceLoc LayerInputLoc(int i, int k) const;                                 // its k-th `input:`
  SourceLoc LayerOpLoc(int i) const;                                           // the op's field
  SourceLoc LayerOptionLoc(int i, absl::string_view option, int k = 0) const;  // "units"; k: of a repeated option
  SourceLoc ParamLoc(int i, int k, absl::string_view field = "") const;        // its k-th `param`, or a field of that
  SourceLoc OptionLoc(absl::string_view path, int k = 0) const;  // "optimizer.sgd.momentum"; k: of a repeated one
  SourceLoc NetworkLoc(absl::string_view field = "") const;      // "batch", ...; without: the file

  const std::string& file() const { return *file_; }
  SourceLoc Loc(SourcePos pos) const;

  // For the loader.
  // `what`: "in block "bottleneck" used at " or the like; the place follows it. Returns the expansion's number.
  int32_t AddExpansion(std::string what, SourcePos used_at);
  std::string Trace(int32_t expansion) const;  // innermost first
  std::vector<SourceNode> inputs, layers, objectives, outputs;
  SourceNode network;  // the fields that stand once

 private:
  struct Expansion {
    std::string what;
    SourcePos used_at;
  };

  std::shared_ptr<const std::string> file_ = std::make_shared<const std::string>();
  std::vector<Expansion> expansions_;
};

}  // namespace snug
