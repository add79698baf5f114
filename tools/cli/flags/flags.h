// Command-line flags. They are declared once, with their help, and parsed with errors that say what was expected.
//
//   Flags flags("snug step NET", "Runs training steps on seeded random data.");
//   int64_t batch = 0;
//   flags.Add("batch", &batch, "samples in a step; default: 1");
//   SNUG_ASSIGN_OR_RETURN(std::vector<std::string> positional, flags.Parse(arguments));
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace snug::core::cli {

// The help of a command, in parts.
struct Usage {
  struct Flag {
    std::string section, name, value_name, help;  // without a value's name: it may stand alone
  };
  std::string usage, description;
  std::vector<Flag> flags;
};

// The one argument that is answered with the parts of the help, as text that Flags::ReadList reads.
inline constexpr char kListFlags[] = "--help=list";

class Flags {
 public:
  Flags(std::string usage, std::string description) : usage_(std::move(usage)), description_(std::move(description)) {}

  void Add(const std::string& name, bool* target, std::string help);  // --name, --name=true|false
  void Add(const std::string& name, int64_t* target, std::string help, int64_t min = 0,
           int64_t max = std::numeric_limits<int64_t>::max());                            // --name=N
  void Add(const std::string& name, double* target, std::string help);                    // --name=X
  void Add(const std::string& name, std::string* target, std::string help);               // --name=TEXT
  void Add(const std::string& name, std::vector<std::string>* target, std::string help);  // --name=A,B; may be repeated

  // Adds a flag like the others, but the target stays empty unless the flag is given.
  template <class T, class... Limits>
  void Add(const std::string& name, std::optional<T>* target, std::string help, Limits... limits) {
    const auto value = std::make_shared<T>();
    Add(name, value.get(), std::move(help), limits...);
    auto& set = flags_.back().set;
    set = [value, target, parse = std::move(set)](const std::string& text) {
      absl::Status status = parse(text);
      if (status.ok()) *target = *value;
      return status;
    };
  }
  // Adds --name=VALUE or, with an empty `value_name`, also --name alone; `set` gets the text of the value.
  void Add(std::string name, std::string value_name, std::string help,
           std::function<absl::Status(const std::string& value)> set);
  bool Has(const std::string& name) const { return Find(name) != nullptr; }

  // Puts the flags that are added from now on under this heading in the help. Headings come in the sequence in which
  // they are first named.
  void Section(const std::string& heading);

  // Returns the positional arguments. `--help` gives a Cancelled status whose message is the help text.
  absl::StatusOr<std::vector<std::string>> Parse(const std::vector<std::string>& arguments) const;
  // Parses like Parse, for exactly one positional argument.
  absl::StatusOr<std::string> ParseOne(const std::vector<std::string>& arguments, absl::string_view what) const;
  std::string Help() const;
  static Usage ReadList(absl::string_view list);

 private:
  struct Flag {
    std::string name, value_name, help;
    bool needs_value;
    std::function<absl::Status(const std::string& value)> set;
    size_t section;
  };
  const Flag* Find(const std::string& name) const;
  std::string List() const;
  absl::Status Unknown(const std::string& name) const;

  std::string usage_, description_;
  std::vector<Flag> flags_;
  std::vector<std::string> sections_ = {"flags"};
  size_t section_ = 0;  // the current section
};

}  // namespace snug::core::cli
