#include "engine/compile/memory/memory_settings.h"

#include <absl/strings/str_cat.h>
#include <google/protobuf/descriptor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/base/status.h"
#include "engine/base/text/byte_size.h"
#include "proto/train.pb.h"

namespace snug::core {
namespace {

using google::protobuf::FieldDescriptor;

std::string PathOf(absl::string_view field) { return absl::StrCat("training.memory.", field); }

bool IsDynamic(const FieldDescriptor& field) {
  return field.number() != proto::Memory::kStrategyFieldNumber &&
         field.number() != proto::Memory::kMemoryLimitFieldNumber;
}

// Reads fields by the type of the option that they become.
class Reader {
 public:
  explicit Reader(const proto::Memory& memory) : memory_(memory) {}

  void operator()(absl::string_view name, std::string& option) const {
    if (const FieldDescriptor* field = Given(name)) option = reflection().GetString(memory_, field);
  }
  void operator()(absl::string_view name, double& option) const {
    if (const FieldDescriptor* field = Given(name)) option = reflection().GetDouble(memory_, field);
  }
  void operator()(absl::string_view name, int64_t& option) const {
    if (const FieldDescriptor* field = Given(name)) option = reflection().GetInt64(memory_, field);
  }
  void operator()(absl::string_view name, bool& option) const {
    if (const FieldDescriptor* field = Given(name)) option = reflection().GetBool(memory_, field);
  }

 private:
  const google::protobuf::Reflection& reflection() const { return *memory_.GetReflection(); }

  // Returns null when nothing is said.
  const FieldDescriptor* Given(absl::string_view name) const {
    const FieldDescriptor* const field = memory_.GetDescriptor()->FindFieldByName(std::string(name));
    SNUG_CHECK(field != nullptr);
    return reflection().HasField(memory_, field) ? field : nullptr;
  }

  const proto::Memory& memory_;
};

DynamicMemoryOptions DynamicOptionsOf(const proto::Memory& memory) {
  DynamicMemoryOptions options;
  ForEachOption(options, Reader(memory));
  return options;
}

}  // namespace

absl::Status CheckStrategyName(absl::string_view name) {
  if (name == kDynamicMemory) return absl::OkStatus();
  const absl::Status status = memory::FindStrategy(name).status();
  return status.ok() ? status : absl::InvalidArgumentError(absl::StrCat(status.message(), ", ", kDynamicMemory));
}

absl::Status CheckMemory(const MemorySource& source) {
  const proto::Memory& memory = *source.memory;
  if (memory.has_strategy()) {
    const absl::Status status = CheckStrategyName(memory.strategy());
    if (!status.ok()) return source.places.Error(PathOf("strategy"), status.message());
  }
  if (memory.has_memory_limit()) {
    const absl::Status status = ParseByteSize("", memory.memory_limit()).status();
    if (!status.ok()) return source.places.Error(PathOf("memory_limit"), status.message());
  }
  const DynamicMemoryOptions dynamic = DynamicOptionsOf(memory);
  for (const std::optional<memory::WrongOption>& wrong :
       {memory::FindWrong(dynamic.allocator), memory::FindWrong(dynamic.garbage)}) {
    if (wrong.has_value()) return source.places.Error(PathOf(wrong->option), wrong->message);
  }
  return absl::OkStatus();
}

absl::Status ExpectNothingDynamic(const MemorySource& source) {
  std::vector<const FieldDescriptor*> fields;
  source.memory->GetReflection()->ListFields(*source.memory, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!IsDynamic(*field)) continue;
    return source.places.Error(PathOf(field->name()),
                               absl::StrCat("expected ", source.places.Written(PathOf("strategy"), kDynamicMemory),
                                            " beside it: planned memory has no allocator"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MemoryOptions> MergeMemory(absl::Span<const MemorySource> sources) {
  proto::Memory merged;
  for (size_t i = sources.size(); i-- > 0;) {
    SNUG_RETURN_IF_ERROR(CheckMemory(sources[i]));
    merged.MergeFrom(*sources[i].memory);
  }
  MemoryOptions options;
  if (merged.has_strategy()) options.strategy = merged.strategy();
  if (merged.has_memory_limit()) {
    SNUG_ASSIGN_OR_RETURN(options.memory_limit, ParseByteSize("", merged.memory_limit()));
  }
  options.dynamic = DynamicOptionsOf(merged);
  return options;
}

absl::StatusOr<MemoryOptions> SettleMemory(absl::Span<const MemorySource> sources) {
  SNUG_ASSIGN_OR_RETURN(MemoryOptions options, MergeMemory(sources));
  if (options.strategy == kDynamicMemory) return options;
  for (const MemorySource& source : sources) {
    SNUG_RETURN_IF_ERROR(ExpectNothingDynamic(source));
    if (source.memory->has_strategy()) break;
  }
  return options;
}

}  // namespace snug::core
