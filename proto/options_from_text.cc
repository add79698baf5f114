#include "proto/options_from_text.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>

#include "proto/options.h"

namespace snug::proto {

absl::StatusOr<core::Options> OptionsFromText(absl::string_view type, absl::string_view text) {
  namespace pb = google::protobuf;
  if (type.empty()) return core::Options();
  const pb::Descriptor* descriptor = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(std::string(type));
  if (descriptor == nullptr) return absl::InvalidArgumentError(absl::StrCat("no message is named \"", type, "\""));
  const std::unique_ptr<pb::Message> message(pb::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
  if (!pb::TextFormat::ParseFromString(std::string(text), message.get())) {
    return absl::InvalidArgumentError(absl::StrCat("expected a ", type, ", found \"", text, "\""));
  }
  return MakeOptions(*message);
}

}  // namespace snug::proto
