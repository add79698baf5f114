// Makes the opaque Options handle from a protobuf message: canonical bytes (deterministic serialisation) and a line of
// text.
#pragma once

#include <absl/status/statusor.h>
#include <absl/strings/string_view.h>

#include <memory>

#include "engine/base/options.h"

namespace google::protobuf {
class Message;
}

namespace snug::proto {

core::Options MakeOptions(const google::protobuf::Message& message);  // copies the message

namespace internal {
void ParseTextOrDie(const char* text, google::protobuf::Message* message);
}
// Makes options from text that is known to be right, for op samples and tests.
template <class Message>
core::Options ParseOptions(const char* text) {
  Message message;
  internal::ParseTextOrDie(text, &message);
  return MakeOptions(message);
}

}  // namespace snug::proto
