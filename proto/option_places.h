// Where the options of `training { }` and `optimizer { }` were written, for errors about their values: fields of a
// file, or flags of the same names.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

namespace snug {

class SourceMap;

class OptionPlaces {
 public:
  // Nowhere in particular: errors name the option as a file writes it.
  OptionPlaces() = default;
  // The file of the map, which must outlive this.
  static OptionPlaces InFile(const SourceMap& locations);
  static OptionPlaces OnCommandLine();

  // InvalidArgument. `option` as in "training.data.mean", whose entry `index` is meant:
  //   net.pbtxt:9:24: training.data.mean: expected ...
  //   --data-mean: expected ...
  absl::Status Error(absl::string_view option, absl::string_view message, int index = 0) const;

 private:
  const SourceMap* locations_ = nullptr;
  bool flags_ = false;
};

}  // namespace snug
