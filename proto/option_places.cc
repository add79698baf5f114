#include "proto/option_places.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <string>

#include "engine/base/status.h"
#include "proto/flag_names.h"
#include "proto/source_map.h"

namespace snug::core {

OptionPlaces OptionPlaces::InFile(const SourceMap& locations) {
  OptionPlaces places;
  places.kind_ = Kind::kFile;
  places.locations_ = &locations;
  return places;
}

OptionPlaces OptionPlaces::OnCommandLine() {
  OptionPlaces places;
  places.kind_ = Kind::kFlags;
  return places;
}

OptionPlaces OptionPlaces::InProgram() {
  OptionPlaces places;
  places.kind_ = Kind::kProgram;
  return places;
}

std::string OptionPlaces::FlagName(absl::string_view flag) const {
  return kind_ == Kind::kFlags ? absl::StrCat("--", flag) : absl::StrReplaceAll(flag, {{"-", "_"}});
}

absl::Status OptionPlaces::FlagError(absl::string_view flag, absl::string_view message) const {
  const std::string name = kind_ == Kind::kProgram ? absl::StrCat("option \"", FlagName(flag), "\"") : FlagName(flag);
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", message));
}

std::string OptionPlaces::FlagWritten(absl::string_view flag, absl::string_view value) const {
  return kind_ == Kind::kFlags ? absl::StrCat(FlagName(flag), "=", value)
                               : absl::StrCat(FlagName(flag), " = \"", value, "\"");
}

absl::Status OptionPlaces::Error(absl::string_view option, absl::string_view message, int index) const {
  if (kind_ == Kind::kFlags || kind_ == Kind::kProgram) return FlagError(FlagOfOption(option), message);
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat(option, ": ", message));
  return locations_ == nullptr ? status : At(locations_->OptionLoc(option, index), status);
}

std::string OptionPlaces::Written(absl::string_view option, absl::string_view value) const {
  if (kind_ == Kind::kFlags || kind_ == Kind::kProgram) return FlagWritten(FlagOfOption(option), value);
  return absl::StrCat(option, ": \"", value, "\"");
}

}  // namespace snug::core
