// Command-line flags: declared once with their help, parsed with errors that say what was expected.
//
//   Flags flags("snug step NET", "Runs training steps on seeded random data.");
//   int64_t batch = 0;
//   flags.Add("batch", &batch, "samples in a step; default: the model file's, or 1");
//   SNUG_ASSIGN_OR_RETURN(std::vector<std::string> positional, flags.Parse(arguments));
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace snug::cli {

class Flags {
 public:
  Flags(std::string usage, std::string description) : usage_(std::move(usage)), description_(std::move(description)) {}

  void Add(std::string name, bool* target, std::string help);  // --name, --name=true|false
  void Add(std::string name, int64_t* target, std::string help, int64_t min = 0,
           int64_t max = std::numeric_limits<int64_t>::max());                     // --name=N
  void Add(std::string name, double* target, std::string help);                    // --name=X
  void Add(std::string name, std::string* target, std::string help);               // --name=TEXT
  void Add(std::string name, std::vector<std::string>* target, std::string help);  // --name=A,B; may be repeated

  // The positional arguments. `--help` gives a Cancelled status whose message is the help text.
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments) const;
  // Parse, when exactly one positional argument is expected.
  absl::StatusOr<std::string> ParseOne(const std::vector<std::string>& arguments, absl::string_view what) const;
  std::string Help() const;

 private:
  struct Flag {
    std::string name, value_name, help;
    bool needs_value;
    std::function<absl::Status(const std::string& value)> set;
  };
  const Flag* Find(const std::string& name) const;
  absl::Status Unknown(const std::string& name) const;

  std::string usage_, description_;
  std::vector<Flag> flags_;
};

}  // namespace snug::cli
