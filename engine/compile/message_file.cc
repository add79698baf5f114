#include "engine/compile/message_file.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include "engine/base/status.h"
#include "memory/formats/text_file.h"

namespace snug::core {
namespace {

bool IsText(const std::string& path) { return absl::EndsWith(path, ".pbtxt") || absl::EndsWith(path, ".txt"); }

// Keeps the first error of a text file; protobuf would print them all.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("; ", line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::Status ReadMessageFile(const std::string& path, absl::string_view what, absl::string_view maker,
                             google::protobuf::Message* message) {
  SNUG_ASSIGN_OR_RETURN(const std::string bytes, memory::ReadTextFile(path));
  if (bytes.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": expected ", what, ", found an empty file"));
  }
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (IsText(path) ? parser.ParseFromString(bytes, message) : message->ParseFromString(bytes)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(path, ": not ", what, " in ", IsText(path) ? "text" : "binary",
                                                 " form (*.pbtxt and *.txt are text, everything else is binary); `",
                                                 maker, "` writes them", error.text()));
}

absl::Status WriteMessageFile(const std::string& path, const google::protobuf::Message& message) {
  std::string bytes;
  if (IsText(path)) {
    google::protobuf::TextFormat::PrintToString(message, &bytes);
  } else {
    bytes = message.SerializeAsString();
  }
  return memory::WriteTextFile(path, bytes);
}

}  // namespace snug::core
