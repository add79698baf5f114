#include "proto/option_places.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>
#include <absl/strings/str_split.h>
#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "engine/base/status.h"
#include "proto/field_options.pb.h"
#include "proto/network.pb.h"
#include "proto/source_map.h"

namespace snug::core {

OptionPlaces OptionPlaces::InFile(const SourceMap& locations) {
  OptionPlaces places;
  places.written_in_ = WrittenIn::kFile;
  places.locations_ = &locations;
  return places;
}

OptionPlaces OptionPlaces::OnCommandLine() {
  OptionPlaces places;
  places.written_in_ = WrittenIn::kFlags;
  return places;
}

OptionPlaces OptionPlaces::InProgram() {
  OptionPlaces places;
  places.written_in_ = WrittenIn::kProgram;
  return places;
}

std::string OptionPlaces::FlagName(absl::string_view flag) const {
  return written_in_ == WrittenIn::kFlags ? absl::StrCat("--", flag) : absl::StrReplaceAll(flag, {{"-", "_"}});
}

absl::Status OptionPlaces::FlagError(absl::string_view flag, absl::string_view message) const {
  const std::string name =
      written_in_ == WrittenIn::kProgram ? absl::StrCat("option \"", FlagName(flag), "\"") : FlagName(flag);
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", message));
}

std::string OptionPlaces::FlagWritten(absl::string_view flag, absl::string_view value) const {
  return written_in_ == WrittenIn::kFlags ? absl::StrCat(FlagName(flag), "=", value)
                                          : absl::StrCat(FlagName(flag), " = \"", value, "\"");
}

absl::Status OptionPlaces::Error(absl::string_view option, absl::string_view message, int index) const {
  if (written_in_ == WrittenIn::kFlags || written_in_ == WrittenIn::kProgram)
    return FlagError(FlagOfOption(option), message);
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat(option, ": ", message));
  return locations_ == nullptr ? status : At(locations_->OptionLoc(option, index), status);
}

std::string OptionPlaces::Written(absl::string_view option, absl::string_view value) const {
  if (written_in_ == WrittenIn::kFlags || written_in_ == WrittenIn::kProgram)
    return FlagWritten(FlagOfOption(option), value);
  return absl::StrCat(option, ": \"", value, "\"");
}

using google::protobuf::FieldDescriptor;

std::string FlagName(const FieldDescriptor& field, absl::string_view prefix) {
  if (field.options().HasExtension(proto::flag)) return field.options().GetExtension(proto::flag);
  return absl::StrCat(prefix, absl::StrReplaceAll(field.name(), {{"_", "-"}}));
}

std::string FlagPrefix(const FieldDescriptor& field, absl::string_view prefix) {
  const std::string name = FlagName(field, prefix);
  return name.empty() ? "" : absl::StrCat(name, "-");
}

std::string FlagOfOption(absl::string_view option) {
  const std::vector<std::string> path = absl::StrSplit(option, '.');
  std::string prefix;  // flags leave out the first part, `training` or `optimizer`
  const google::protobuf::Descriptor* type = proto::Network::descriptor();
  for (size_t i = 0; i < path.size(); ++i) {
    const FieldDescriptor* const field = type->FindFieldByName(path[i]);
    SNUG_CHECK(field != nullptr);
    if (i + 1 == path.size()) return FlagName(*field, prefix);
    if (i > 0) prefix = FlagPrefix(*field, prefix);
    type = field->message_type();
    SNUG_CHECK(type != nullptr);
  }
  return "";
}

}  // namespace snug::core
