// Numbers that are none: NaN anywhere, and infinity where it means nothing. network.proto says where it does mean
// something: (may_be_infinite).
#pragma once

#include <optional>
#include <string>

namespace google::protobuf {
class Message;
}

namespace snug::proto {

struct OddNumber {
  std::string field;    // of the message that was looked at: "init"
  int index;            // of its entries, where it is repeated
  std::string message;  // `value: expected a finite number, found nan`; what is in the field itself has no "value: "
};

// The first one in the message or in those inside it, in the order of field numbers.
std::optional<OddNumber> FindOddNumber(const google::protobuf::Message& message);

}  // namespace snug::proto
