#include "tools/cli/runs/classes_of_data.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_join.h>

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "engine/train/class_heads.h"
#include "proto/network.pb.h"
#include "proto/train.pb.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/preparation_log.h"

namespace snug::core::cli {
namespace {

constexpr absl::string_view kFlag = "--classes-of-data: ";

}  // namespace

void AddClassesOfDataFlag(Flags& flags, absl::string_view kept, bool* wanted) {
  flags.Add("classes-of-data", wanted,
            absl::StrCat("the layers that score classes get as many outputs as the data have classes", kept));
}

absl::StatusOr<TrainingData> OpenDataAndSetClasses(const proto::Training& training, bool classes_of_data,
                                                   const checkpoint::Metadata* goes_on_from, proto::Network* network,
                                                   std::FILE* out) {
  const bool goes_on = goes_on_from != nullptr;
  const bool kept = goes_on && goes_on_from->contains(kHeadClassesKey);
  if (kept) {
    SNUG_ASSIGN_OR_RETURN(const std::string said, SetKeptClasses(*goes_on_from, network));
    if (!said.empty()) absl::FPrintF(out, "network: %s\n", said);
  }
  const absl::StatusOr<ClassHeads> heads = FindClassHeads(*network);
  const bool sets = classes_of_data && !kept;
  if (sets && !heads.ok()) return absl::InvalidArgumentError(absl::StrCat(kFlag, heads.status().message()));
  proto::Network open_to_any = *network;  // for data with more classes than the file has
  for (proto::Input& input : *open_to_any.mutable_input()) {
    if (sets && input.name() == heads->labels) input.clear_max_value();
  }
  SNUG_ASSIGN_OR_RETURN(
      TrainingData data,
      OpenDataAloud(out, training.data(), open_to_any, static_cast<uint64_t>(training.seed()), goes_on_from, goes_on));
  for (const std::string& note : data.notes) absl::FPrintF(out, "data: %s\n", Printable(note));
  if (kept) data.learnt[kHeadClassesKey] = goes_on_from->at(kHeadClassesKey);
  const std::optional<int64_t> classes = ClassesOf(data);
  if (sets && !classes.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kFlag, "expected data that say how many classes they have, as folders of images, tables and CIFAR do"));
  }
  if (!heads.ok() || !classes.has_value() || *classes == heads->classes) return data;
  const std::string layers = absl::StrJoin(heads->layers, ", ");
  if (sets && goes_on) {
    return absl::InvalidArgumentError(absl::StrCat(kFlag, "the checkpoint was trained with the ", heads->classes,
                                                   " classes of the file: leave out this flag"));
  }
  if (sets) {
    SetClasses(*heads, *classes, network);
    data.learnt[kHeadClassesKey] = absl::StrCat(*classes);
    absl::FPrintF(out, "network: %d classes, as the data have, in place of %d: %s\n", *classes, heads->classes, layers);
  } else if (*classes < heads->classes) {
    absl::FPrintF(
        out,
        "network: %s scores %d classes, and the data have %d: the others are learnt as never right, and may be "
        "predicted; --classes-of-data gives it %d\n",
        layers, heads->classes, *classes, *classes);
  }
  return data;
}

}  // namespace snug::core::cli
