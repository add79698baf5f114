#include "proto/option_places.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <string>

#include "engine/base/status.h"
#include "proto/flag_names.h"
#include "proto/source_map.h"

namespace snug {

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

absl::Status OptionPlaces::Error(absl::string_view option, absl::string_view message, int index) const {
  switch (kind_) {
    case Kind::kFlags:
      return absl::InvalidArgumentError(absl::StrCat("--", FlagOfOption(option), ": ", message));
    case Kind::kProgram: {
      const std::string name = absl::StrReplaceAll(FlagOfOption(option), {{"-", "_"}});
      return absl::InvalidArgumentError(absl::StrCat("option \"", name, "\": ", message));
    }
    case Kind::kNowhere:
    case Kind::kFile:
      break;
  }
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat(option, ": ", message));
  return locations_ == nullptr ? status : At(locations_->OptionLoc(option, index), status);
}

std::string OptionPlaces::Written(absl::string_view option, absl::string_view value) const {
  if (kind_ == Kind::kFlags) return absl::StrCat("--", FlagOfOption(option), "=", value);
  if (kind_ == Kind::kProgram) {
    return absl::StrCat(absl::StrReplaceAll(FlagOfOption(option), {{"-", "_"}}), " = \"", value, "\"");
  }
  return absl::StrCat(option, ": \"", value, "\"");
}

}  // namespace snug
