#include "proto/options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <utility>

#include "engine/base/status.h"

namespace snug::proto {

core::Options MakeOptions(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  printer.SetUseShortRepeatedPrimitives(true);
  std::string text;
  printer.PrintToString(message, &text);
  while (!text.empty() && text.back() == ' ') text.pop_back();

  std::shared_ptr<google::protobuf::Message> copy(message.New());
  copy->CopyFrom(message);
  return core::Options(std::shared_ptr<const google::protobuf::Message>(std::move(copy)),
                       std::string(message.GetDescriptor()->full_name()), std::move(bytes), std::move(text));
}

namespace internal {
void ParseTextOrDie(const char* text, google::protobuf::Message* message) {
  SNUG_CHECK_MSG(google::protobuf::TextFormat::ParseFromString(text, message), text);
}
}  // namespace internal

}  // namespace snug::proto
