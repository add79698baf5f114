// Finds NaN anywhere, and infinity where it means nothing. network.proto marks where it has a meaning:
// (may_be_infinite).
#pragma once

#include <optional>
#include <string>

namespace google::protobuf {
class Message;
}

namespace snug::proto {

struct OddNumber {
  std::string field;    // the field, in the message that was searched: "init"
  int index;            // the entry, if the field is repeated
  std::string message;  // `value: expected a finite number, found nan`; without "value: " if the number is in the field
                        // itself
};

// Returns the first one in the message or in messages inside it, in the order of field numbers.
std::optional<OddNumber> FindOddNumber(const google::protobuf::Message& message);

}  // namespace snug::proto
