#include "tools/cli/runs/trained_data.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/printable.h"
#include "proto/train.pb.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/flags/proto_flags.h"
#include "tools/cli/runs/kept_options.h"

namespace snug::core::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// What decides which numbers a sample has as it is judged, or which samples are held back, and is nowhere else: neither
// in the samples themselves nor in what is learnt of them (TrainingData::learnt). Random crops, mirror images and
// colours are of the training alone.
struct Option {
  const char* source;  // the member of proto::Data that has the field; empty: that has it itself
  const char* field;
};
constexpr Option kOptions[] = {
    {"", "mean"},
    {"", "deviation"},
    {"", "held_back"},
    {"cifar", "classes"},
    {"json_lines", "length"},
    {"json_lines", "padding"},
    {"json_lines", "truncate"},
};

std::string Hyphens(const char* name) { return absl::StrReplaceAll(name, {{"_", "-"}}); }

std::string FlagOf(const Option& option) {
  return absl::StrCat("data-", Hyphens(option.source), *option.source == '\0' ? "" : "-", Hyphens(option.field));
}

const FieldDescriptor* FieldNamed(const Message& message, const char* name) {
  const FieldDescriptor* const field = message.GetDescriptor()->FindFieldByName(name);
  SNUG_CHECK(field != nullptr);
  return field;
}

// The part of `data` that has the option, or null where the samples come from elsewhere.
const Message* PartWith(const Option& option, const proto::Data& data) {
  if (*option.source == '\0') return &data;
  const FieldDescriptor* const source = FieldNamed(data, option.source);
  const google::protobuf::Reflection& reflection = *data.GetReflection();
  return reflection.HasField(data, source) ? &reflection.GetMessage(data, source) : nullptr;
}

bool Says(const Option& option, const proto::Data& data) {
  const Message* const part = PartWith(option, data);
  if (part == nullptr) return false;
  const FieldDescriptor* const field = FieldNamed(*part, option.field);
  const google::protobuf::Reflection& reflection = *part->GetReflection();
  return field->is_repeated() ? reflection.FieldSize(*part, field) > 0 : reflection.HasField(*part, field);
}

// Gives `to` the option as `from` has it, unsaid too.
void Copy(const Option& option, const proto::Data& from, proto::Data* to) {
  const bool whole = *option.source == '\0';
  Message* const part = whole ? to : to->GetReflection()->MutableMessage(to, FieldNamed(*to, option.source));
  const FieldDescriptor* const field = FieldNamed(*part, option.field);
  part->GetReflection()->ClearField(part, field);
  const Message* const other = PartWith(option, from);
  if (other == nullptr) return;
  const std::unique_ptr<Message> copy(other->New());
  copy->CopyFrom(*other);
  part->GetReflection()->SwapFields(part, copy.get(), {field});
}

// "--data-mean=0.5", or "no --data-mean" where nothing is said of it.
std::string Flag(const std::string& name, const std::optional<std::string>& value) {
  return value.has_value() ? absl::StrCat("--", name, "=", Printable(*value)) : absl::StrCat("no --", name);
}

std::optional<std::string> ValueIn(const proto::Data& data, const std::string& flag) {
  for (auto& [name, value] : ListProtoFlags("data-", "data", data)) {
    if (name == flag) return std::move(value);
  }
  return std::nullopt;
}

// The options of the training, as its flags would have set them.
absl::StatusOr<proto::Data> ReadOptions(const KeptOptions& kept) {
  proto::Data trained;
  Flags flags("", "");
  AddProtoFlags("data-", "data", &trained, flags);
  const std::optional<std::string> source = kept.ValueOf("data");
  std::vector<std::string> arguments;
  for (const Option& option : kOptions) {
    if (*option.source != '\0' && source != Hyphens(option.source)) continue;
    const std::string name = FlagOf(option);
    if (const auto value = kept.ValueOf(name); value.has_value()) {
      arguments.push_back(absl::StrCat("--", name, "=", *value));
    }
  }
  if (source.has_value()) arguments.insert(arguments.begin(), absl::StrCat("--data=", *source));
  if (const absl::Status read = flags.Parse(arguments).status(); !read.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata \"", KeptOptions::kKey, "\": ", Printable(read.message())));
  }
  return trained;
}

}  // namespace

absl::StatusOr<TrainedData> TakeTrainedData(const checkpoint::Metadata& metadata, const proto::Data& given,
                                            const std::optional<int64_t>& given_seed, proto::Data* data,
                                            int64_t* seed) {
  SNUG_ASSIGN_OR_RETURN(const std::optional<KeptOptions> kept, KeptOptions::From(metadata));
  if (!kept.has_value()) return TrainedData();
  SNUG_ASSIGN_OR_RETURN(const proto::Data trained, ReadOptions(*kept));
  std::vector<std::string> taken, differs;
  for (const Option& option : kOptions) {
    // What is said of other data than the training's says nothing of these.
    if (PartWith(option, *data) == nullptr || PartWith(option, trained) == nullptr) continue;
    const std::string name = FlagOf(option);
    const std::optional<std::string> here = ValueIn(*data, name), before = ValueIn(trained, name);
    if (here == before) continue;
    if (!Says(option, given)) {
      Copy(option, trained, data);
      taken.push_back(Flag(name, before));
    } else if (name != "data-held-back" || given.held_back() > 0) {  // nothing held back is all of the samples
      differs.push_back(absl::StrCat(Flag(name, here), " where the training had ", Flag(name, before)));
    }
  }
  const auto found = metadata.find("seed");
  int64_t trained_seed = 0;
  if (found != metadata.end() && absl::SimpleAtoi(found->second, &trained_seed) && trained_seed >= 0 &&
      trained_seed != *seed) {
    const std::string before = absl::StrCat("--seed=", trained_seed);
    if (given_seed.has_value()) {
      differs.push_back(absl::StrCat("--seed=", *seed, " where the training had ", before));
    } else {
      *seed = trained_seed;
      taken.push_back(before);
    }
  }
  return TrainedData{.taken = absl::StrJoin(taken, " "), .differs = absl::StrJoin(differs, "; ")};
}

}  // namespace snug::core::cli
