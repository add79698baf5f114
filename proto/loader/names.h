// Knows what each name means: inputs, layers, and uses of blocks and repeats, which stand for the values that they put
// out.
//
// Names are defined and resolved in the order of the expanded file. What cannot be resolved at once is remembered and
// answered at the end, when it is known whether the name comes later, was misspelt, or belongs to something that was
// not understood. In that last case nothing is reported, because the cause was.
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

namespace snug::core::loader {

class NameTable {
 public:
  NameTable(const SourceMap* map, int max_name_length, ErrorList* errors)
      : map_(map), max_name_length_(max_name_length), errors_(errors) {}

  // Allows only letters, digits and _ . - /; reports anything else.
  bool Check(absl::string_view name, SourcePos pos);

  // Defines names, which must be full ones. Defining a name twice is an error.
  void DefineInput(const std::string& name, SourcePos pos) { Define(name, {DefinedAs::kInput, pos, {}, {}}); }
  // `inputs` are the names of what it reads, resolved or not; they are for finding cycles.
  void DefineLayer(const std::string& name, SourcePos pos, std::vector<std::string> inputs) {
    Define(name, {DefinedAs::kLayer, pos, std::move(inputs), {}});
  }
  // Defines a name that stands for values of other layers. `what` describes it, as `block "bottleneck"`. `values` is
  // empty when they are unknown because of an error.
  void DefineAlias(const std::string& name, SourcePos pos, std::vector<std::string> values, std::string what) {
    Define(name, {DefinedAs::kAlias, pos, std::move(values), std::move(what)});
  }

  // Returns the full name of the value that `name` (or "name:1") means where `prefix` is put before names. Returns
  // nothing when it is not known yet, or belongs to something broken; it is reported at the end if that is right.
  // `reader` is the layer that asks.
  std::optional<std::string> Resolve(const std::string& prefix, absl::string_view name, SourcePos pos,
                                     const std::string& reader = "");

  // Says that something was defined here under a name that nobody knows: the next unknown name may be that one.
  void LoseOne() { lost_.push_back(order_++); }
  // Says that any number of names that begin like this may have been lost: unknown ones are not reported.
  void LosePrefix(std::string prefix) { lost_prefixes_.push_back(std::move(prefix)); }

  // Reports the names that are still unknown.
  void Finish();

 private:
  enum class DefinedAs : uint8_t { kInput, kLayer, kAlias };
  struct Definition {
    DefinedAs as;
    SourcePos pos;
    std::vector<std::string> values;  // for layers what they read, for aliases what they stand for
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
  std::vector<std::string> in_order_;  // the keys of names_, so that suggestions do not depend on the hash
  std::vector<Pending> pending_;
  std::vector<std::string> lost_prefixes_;
  std::vector<int64_t> lost_;  // for each lost name, when it was lost
  size_t excuses_ = 0;         // how many of lost_ have excused an unknown name
  std::unordered_set<std::string> excused_;
  int64_t order_ = 0;
};

// Splits "split:1" into {"split", 1}; without an index it gives {name, -1}.
struct OutputName {
  absl::string_view base;
  int index = -1;
};
OutputName SplitOutputName(absl::string_view name);

}  // namespace snug::core::loader
