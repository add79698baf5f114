// Knows where the options of `training { }` and `optimizer { }` were written, for errors about their values: in fields
// of a file, in flags of the same names, or in a program that embeds the library.
#pragma once

#include <absl/status/status.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <string>

namespace google::protobuf {
class FieldDescriptor;
}

namespace snug::core {

class SourceMap;

class OptionPlaces {
 public:
  // Stands for no place in particular: errors name the option as a file would.
  OptionPlaces() = default;
  // The options come from the map's file. The map must outlive this.
  static OptionPlaces InFile(const SourceMap& locations);
  static OptionPlaces OnCommandLine();
  static OptionPlaces InProgram();

  // Returns InvalidArgument. `option` is written as "training.data.mean"; `index` picks one of its entries:
  //   net.pbtxt:9:24: training.data.mean: expected ...
  //   --data-mean: expected ...
  //   option "data_mean": expected ...
  absl::Status Error(absl::string_view option, absl::string_view message, int index = 0) const;

  // The same of options that no file has, by the name of their flag, "plain-kernels":
  //   --plain-kernels: expected ...
  //   option "plain_kernels": expected ...
  absl::Status FlagError(absl::string_view flag, absl::string_view message) const;
  std::string FlagName(absl::string_view flag) const;                              // --plain-kernels, plain_kernels
  std::string FlagWritten(absl::string_view flag, absl::string_view value) const;  // --device=cuda, device = "cuda"

  // How one writes here that a text option has a value: `training.data.csv.label: "x"`, --data-csv-label=x,
  // data_csv_label = "x".
  std::string Written(absl::string_view option, absl::string_view value) const;

 private:
  enum class WrittenIn : uint8_t { kNowhere, kFile, kFlags, kProgram };

  WrittenIn written_in_ = WrittenIn::kNowhere;
  const SourceMap* locations_ = nullptr;  // only for options in a file
};

// Returns the flag of a field: the option's path with hyphens, so `checkpoint.keep` is --checkpoint-keep, unless (flag)
// says otherwise (proto/field_options.proto). `prefix` begins the names of all flags of its message; it is empty or
// ends with a hyphen.
std::string FlagName(const google::protobuf::FieldDescriptor& field, absl::string_view prefix);
// Returns the prefix for the flags of the fields inside this field's message.
std::string FlagPrefix(const google::protobuf::FieldDescriptor& field, absl::string_view prefix);

// Returns "checkpoint-keep" for "training.checkpoint.keep", and "sgd-momentum" for "optimizer.sgd.momentum".
std::string FlagOfOption(absl::string_view option);

}  // namespace snug::core
