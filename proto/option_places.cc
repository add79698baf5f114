#include "proto/option_places.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <string>

#include "engine/base/status.h"
#include "proto/source_map.h"

namespace snug {
namespace {

// "training.checkpoint.keep" is --checkpoint-keep.
std::string FlagName(absl::string_view option) {
  option.remove_prefix(option.find('.') + 1);
  return absl::StrCat("--", absl::StrReplaceAll(option, {{".", "-"}, {"_", "-"}}));
}

}  // namespace

OptionPlaces OptionPlaces::InFile(const SourceMap& locations) {
  OptionPlaces places;
  places.locations_ = &locations;
  return places;
}

OptionPlaces OptionPlaces::OnCommandLine() {
  OptionPlaces places;
  places.flags_ = true;
  return places;
}

absl::Status OptionPlaces::Error(absl::string_view option, absl::string_view message, int index) const {
  if (flags_) return absl::InvalidArgumentError(absl::StrCat(FlagName(option), ": ", message));
  const absl::Status status = absl::InvalidArgumentError(absl::StrCat(option, ": ", message));
  return locations_ == nullptr ? status : At(locations_->OptionLoc(option, index), status);
}

}  // namespace snug
