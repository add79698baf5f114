// Who is called what: inputs, layers, and the uses of blocks and repeats, which stand for what they put out.
//
// Names are defined and resolved in the order of the (expanded) file. What cannot be resolved at once is remembered,
// and answered at the end, when it is known whether the name comes later, was misspelt, or belongs to something that
// was not understood (then nothing is said: the cause has been).
#pragma once

#include <absl/strings/string_view.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "proto/loader/error_list.h"
#include "proto/source_map.h"

namespace snug::loader {

class NameTable {
 public:
  NameTable(const SourceMap* map, int max_name_length, ErrorList* errors)
      : map_(map), max_name_length_(max_name_length), errors_(errors) {}

  // Letters, digits and _ . - / only; reports what is wrong.
  bool Check(absl::string_view name, SourcePos pos);

  // All names are full ones. A name that is taken is an error.
  void DefineInput(const std::string& name, SourcePos pos) { Define(name, {Kind::kInput, pos, {}, {}}); }
  // `inputs`: what it reads, resolved or not (to find cycles).
  void DefineLayer(const std::string& name, SourcePos pos, std::vector<std::string> inputs) {
    Define(name, {Kind::kLayer, pos, std::move(inputs), {}});
  }
  // Stands for values of other layers. `what`: `block "bottleneck"`. No values: not known, because of an error.
  void DefineAlias(const std::string& name, SourcePos pos, std::vector<std::string> values, std::string what) {
    Define(name, {Kind::kAlias, pos, std::move(values), std::move(what)});
  }

  // What `name` (or "name:1") means where `prefix` is put before names: the full name of a value. Nothing: not known
  // now, or known to come from something broken; reported in the end, where that is right. `reader`: the layer that
  // asks.
  std::optional<std::string> Resolve(const std::string& prefix, absl::string_view name, SourcePos pos,
                                     const std::string& reader = "");

  // Something was defined here, nobody knows under which name: the next unknown name may be its.
  void LoseOne() { lost_.push_back(order_++); }
  // Names that begin so may have been lost, any number of them: unknown ones are not reported.
  void LosePrefix(std::string prefix) { lost_prefixes_.push_back(std::move(prefix)); }

  // Reports the names that stayed unknown.
  void Finish();

 private:
  enum class Kind : uint8_t { kInput, kLayer, kAlias };
  struct Definition {
    Kind kind;
    SourcePos pos;
    std::vector<std::string> values;  // layers: what they read; aliases: what they stand for
    std::string what;
  };
  struct Pending {
    std::string prefix, name, reader;
    SourcePos pos;
    int64_t order;
  };

  void Define(const std::string& name, Definition definition);
  void ReportUnknown(const Pending& pending, bool suggest);
  void ReportEarly(const Pending& pending, const std::string& full, const Definition& definition);
  bool IsExcused(const Pending& pending, const std::string& full);
  static std::string Who(const Pending& pending);
  bool Reaches(const std::string& from, const std::string& to) const;

  const SourceMap* map_;
  int max_name_length_;
  ErrorList* errors_;
  std::unordered_map<std::string, Definition> names_;
  std::vector<std::string> in_order_;  // of names_, so that suggestions do not depend on the hash
  std::vector<Pending> pending_;
  std::vector<std::string> lost_prefixes_;
  std::vector<int64_t> lost_;  // when each was
  size_t excuses_ = 0;         // how many of them have served as an excuse
  std::unordered_set<std::string> excused_;
  int64_t order_ = 0;
};

// "split:1" -> {"split", 1}; without an index: {name, -1}.
struct OutputName {
  absl::string_view base;
  int index = -1;
};
OutputName SplitOutputName(absl::string_view name);

}  // namespace snug::loader
