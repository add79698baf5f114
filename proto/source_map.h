// Knows where everything in a network was written. The loader makes it; the importer locates errors and nodes with it.
// A place that is unknown falls back to what encloses it, and at last to the file's name (binary files have nothing
// else). Thread-safe once built.
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/text/source_loc.h"

namespace google::protobuf {
class FieldDescriptor;
}

namespace snug::core {

// A place in the file, and how what is written there came into the network.
struct SourcePos {
  int32_t line = 0;  // counts from 1; 0: unknown
  int32_t column = 0;
  int32_t expansion = -1;  // the use of a block, or the repetition, that it came from; -1 if none

  bool known() const { return line > 0; }
};

// The place of a message, and the places of its fields.
struct SourceNode {
  const google::protobuf::FieldDescriptor* field = nullptr;
  SourcePos pos;
  std::vector<SourceNode> children;  // in the order written; the entries of a repeated field one by one

  // Returns the k-th entry of a field, or null when it was not written.
  const SourceNode* Find(absl::string_view name, int k = 0) const;
};

class SourceMap {
 public:
  SourceMap() = default;
  explicit SourceMap(std::string file) : file_(std::make_shared<const std::string>(std::move(file))) {}

  // These return places in the i-th entry of network.input, .layer, .objective and .output.
  SourceLoc InputLoc(int i, absl::string_view field = "") const;  // field: "shape", ...
  SourceLoc LayerLoc(int i) const;
  SourceLoc ObjectiveLoc(int i) const;
  SourceLoc OutputLoc(int i) const;

  SourceLoc LayerInputLoc(int i, int k) const;                                 // its k-th `input:`
  SourceLoc LayerOpLoc(int i) const;                                           // the op's field
  SourceLoc LayerOptionLoc(int i, absl::string_view option, int k = 0) const;  // "units"; k counts the entries of a
                                                                               // repeated option
  SourceLoc ParamLoc(int i, int k, absl::string_view field = "") const;        // its k-th `param`, or a field of that
                                                                               // one
  SourceLoc OptionLoc(absl::string_view path, int k = 0) const;  // "optimizer.sgd.momentum"; k counts the entries of a
                                                                 // repeated option
  // The k-th `update`, or the i-th entry of a field of it.
  SourceLoc UpdateLoc(int k, absl::string_view field = "", int i = 0) const;
  SourceLoc NetworkLoc(absl::string_view field = "") const;  // "batch", ...; "" for the file

  // Returns the places in the k-th entry of network.subnetwork, as if its layers were the network's.
  SourceMap Subnetwork(int k) const;

  const std::string& file() const { return *file_; }
  SourceLoc Loc(SourcePos pos) const;

  // The loader calls this to add a use of a block or a repetition. Returns its number. `what` is "in block "bottleneck"
  // used at " or the like, and the place follows it.
  int32_t AddExpansion(std::string what, SourcePos used_at);
  std::string Trace(int32_t expansion) const;  // innermost first
  std::vector<SourceNode> inputs, layers, objectives, outputs;
  SourceNode network;  // the fields at the top of the file

 private:
  struct Expansion {
    std::string what;
    SourcePos used_at;
  };

  std::shared_ptr<const std::string> file_ = std::make_shared<const std::string>();
  std::vector<Expansion> expansions_;
};

}  // namespace snug::core
