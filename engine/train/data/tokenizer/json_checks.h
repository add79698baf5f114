// What readers of a JSON file ask of its values. Each error says at which byte of which file, what was expected there
// and what was found.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>
#include <absl/types/span.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "engine/train/data/tokenizer/json_value.h"

namespace snug::core {

class JsonChecks {
 public:
  using Names = absl::Span<const absl::string_view>;
  static constexpr int64_t kMaxId = std::numeric_limits<int32_t>::max() - 1;

  explicit JsonChecks(const std::string& path) : path_(path), place_(path + ": byte ") {}

  const std::string& path() const { return path_; }
  const std::string& place() const { return place_; }  // "PATH: byte ", what stands before a number

  absl::Status Error(size_t at, absl::string_view message) const;
  // An error of the file as a whole.
  absl::Status ErrorOfFile(absl::string_view message) const;
  // For a key that is none of `known`. `what` is the object that has it; empty for the whole.
  absl::Status Unknown(size_t at, absl::string_view what, absl::string_view key, Names known) const;
  // For a value that asks for what is not done here.
  absl::Status Refuse(absl::string_view what, const JsonValue& found, absl::string_view expected) const;

  // Fails unless the value is an object with no other keys than `known`.
  absl::Status CheckObject(absl::string_view what, const JsonValue& value, Names known) const;
  // Returns `otherwise` where the object has no such member; without that, it must have one.
  absl::StatusOr<bool> Flag(absl::string_view what, const JsonValue& object, absl::string_view key,
                            std::optional<bool> otherwise) const;
  absl::StatusOr<std::string> Text(absl::string_view what, const JsonValue& object, absl::string_view key) const;
  // Returns a member that must be a list.
  absl::StatusOr<const JsonValue*> List(absl::string_view what, const JsonValue& object, absl::string_view key) const;
  absl::StatusOr<int32_t> Id(absl::string_view what, const JsonValue& value) const;
  absl::StatusOr<int32_t> IdOf(absl::string_view what, const JsonValue& object, absl::string_view key) const;

  // The member "type" of an object; empty where it has none.
  static std::string TypeOf(const JsonValue& value);

 private:
  const std::string path_, place_;
};

// What every refusal ends with.
inline constexpr absl::string_view kWhatIsRead = "byte-level BPE, as of GPT-2, Llama 3 and Qwen 2, is read";

}  // namespace snug::core
