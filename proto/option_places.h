// Where the options of `training { }` and `optimizer { }` were written, for errors about their values: fields of a
// file, flags of the same names, or a program that embeds the library.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace snug {

class SourceMap;

class OptionPlaces {
 public:
  // Nowhere in particular: errors name the option as a file writes it.
  OptionPlaces() = default;
  // The file of the map, which must outlive this.
  static OptionPlaces InFile(const SourceMap& locations);
  static OptionPlaces OnCommandLine();
  static OptionPlaces InProgram();

  // InvalidArgument. `option` as in "training.data.mean", whose entry `index` is meant:
  //   net.pbtxt:9:24: training.data.mean: expected ...
  //   --data-mean: expected ...
  //   option "data_mean": expected ...
  absl::Status Error(absl::string_view option, absl::string_view message, int index = 0) const;

  // How one writes here that a text option has a value: `training.data.csv.label: "x"`, --data-csv-label=x,
  // data_csv_label = "x".
  std::string Written(absl::string_view option, absl::string_view value) const;

 private:
  enum class Kind : uint8_t { kNowhere, kFile, kFlags, kProgram };

  Kind kind_ = Kind::kNowhere;
  const SourceMap* locations_ = nullptr;  // of a file
};

}  // namespace snug
