#include "engine/train/step_feed.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "engine/base/bfloat16.h"
#include "engine/base/dtype.h"
#include "engine/base/status.h"
#include "engine/run/executors/executor.h"

namespace snug::core {

absl::Status StepFeed::Feed(int64_t step, int64_t part) {
  const int64_t number = step * parts_ + part;
  if (std::exchange(ahead_, -1) == number) return ahead_status_;
  SNUG_RETURN_IF_ERROR(Read(step));
  return FeedInto(part, session_.program(ProgramOf(part)));
}

void StepFeed::FeedAhead(int64_t step, int64_t part) {
  if (session_.upload_bytes() == 0) return;
  const bool last = part + 1 == parts_;
  const int64_t next_step = last ? step + 1 : step, next_part = last ? 0 : part + 1;
  const size_t program = ProgramOf(next_part);
  ahead_status_ = [&]() -> absl::Status {
    SNUG_RETURN_IF_ERROR(Read(next_step));
    SNUG_RETURN_IF_ERROR(FeedInto(next_part, session_.program(program)));
    return session_.UploadAhead(program);
  }();
  ahead_ = next_step * parts_ + next_part;
}

absl::Status StepFeed::FeedAgain(int64_t step, int64_t part, Program& program) {
  ahead_ = -1;
  SNUG_RETURN_IF_ERROR(Read(step));
  return FeedInto(part, program);
}

absl::Status StepFeed::Seek(int64_t step) {
  ahead_ = -1;
  batch_ = nullptr;
  return loader_.Seek(PositionOf(step));
}

LoaderPosition StepFeed::PositionOf(int64_t step) const {
  const int64_t epoch = loader_.batches_per_epoch();
  return {.epoch = (step + first_) / epoch, .batch = (step + first_) % epoch};
}

// Steps come in sequence, except one that is looked at again after the next one's batch was read.
absl::Status StepFeed::Read(int64_t step) {
  if (batch_ != nullptr && step == batch_step_) return absl::OkStatus();
  if (!(loader_.position() == PositionOf(step))) SNUG_RETURN_IF_ERROR(Seek(step));
  batch_ = nullptr;
  const int64_t begin = MonotonicNanoseconds();
  const absl::StatusOr<const Batch*> batch = loader_.Next();
  waited_ns_ += MonotonicNanoseconds() - begin;
  SNUG_ASSIGN_OR_RETURN(batch_, batch);
  batch_step_ = step;
  return absl::OkStatus();
}

absl::Status StepFeed::FeedInto(int64_t part, Program& program) const {
  return feeder_.Feed(batch_->data, program, part * program.compiled().batch);
}

namespace {

template <class From, class To>
void ConvertAs(const std::byte* from, int64_t n, std::byte* to) {
  const From* in = reinterpret_cast<const From*>(from);
  To* out = reinterpret_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<To>(in[i]);
}

template <class From>
void ConvertFrom(const std::byte* from, int64_t n, DType to_type, std::byte* to) {
  switch (to_type) {
#define SNUG_CASE(enumerator, text, type) \
  case DType::enumerator:                 \
    return ConvertAs<From, type>(from, n, to);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
}

void Convert(const std::byte* from, DType from_type, int64_t n, DType to_type, std::byte* to) {
  if (from_type == to_type) {
    std::memcpy(to, from, static_cast<size_t>(n * SizeOf(to_type)));
    return;
  }
  switch (from_type) {
#define SNUG_CASE(enumerator, text, type) \
  case DType::enumerator:                 \
    return ConvertFrom<type>(from, n, to_type, to);
    SNUG_DTYPES(SNUG_CASE)
#undef SNUG_CASE
  }
}

std::string MadeOf(const DataField& field) {
  return field.made_of.empty() ? "" : absl::StrCat(" (", field.made_of, ")");
}

std::string FieldNames(absl::Span<const DataField> fields) {
  std::string names;
  for (const DataField& field : fields) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", "\"", field.name, "\" ", field.type.ToString(), MadeOf(field));
  }
  return names;
}

bool IsRead(const Graph& graph, const std::string& input) {
  const ValueId value = graph.FindValue(input);
  const std::vector<NodeId> nodes = graph.ProgramOrder();
  return std::any_of(nodes.begin(), nodes.end(),
                     [&](NodeId id) {
                       const std::vector<ValueId>& inputs = graph.node(id).inputs;
                       return std::find(inputs.begin(), inputs.end(), value) != inputs.end();
                     }) ||
         std::any_of(graph.outputs.begin(), graph.outputs.end(),
                     [&](const Output& output) { return output.value == value; });
}

}  // namespace

absl::StatusOr<Feeder> Feeder::Create(const Program& program, absl::Span<const DataField> fields) {
  Feeder feeder;
  std::vector<char> taken(fields.size(), 0);
  const std::vector<Endpoint>& inputs = program.compiled().executable.inputs;
  const int64_t batch = program.compiled().batch;
  const auto elements = [batch](const Endpoint& input) { return input.type.num_elements() / batch; };
  const auto fits = [&](const Endpoint& input, const DataField& field) {
    return field.type.num_elements() == elements(input) && IsFloating(field.type.dtype) == IsFloating(input.type.dtype);
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t found = fields.size();
    for (size_t f = 0; f < fields.size(); ++f) {
      if (fields[f].name == inputs[i].name) found = f;
    }
    for (size_t f = 0; f < fields.size() && found == fields.size(); ++f) {
      if (!taken[f] && fits(inputs[i], fields[f])) found = f;
    }
    const std::string expected = absl::StrCat("input \"", inputs[i].name, "\" takes ", elements(inputs[i]), " ",
                                              Name(inputs[i].type.dtype), " numbers a sample");
    if (found == fields.size() && !IsRead(program.compiled().graph, inputs[i].name)) {
      feeder.unread_.push_back(i);
      continue;
    }
    if (found == fields.size()) {
      return absl::InvalidArgumentError(absl::StrCat(expected, "; the data have ", FieldNames(fields)));
    }
    const DataField& field = fields[found];
    if (!fits(inputs[i], field)) {
      return absl::InvalidArgumentError(
          absl::StrCat(expected, "; the data's field of this name is ", field.type.ToString(), MadeOf(field)));
    }
    if (inputs[i].max_value > 0 && field.max_value > inputs[i].max_value) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", inputs[i].name, "\" takes values below ",
                                                     inputs[i].max_value, "; those of the data's field \"", field.name,
                                                     "\"", MadeOf(field), " reach ", field.max_value - 1));
    }
    taken[found] = 1;
    feeder.links_.push_back({i, found, field.type.dtype});
  }
  return feeder;
}

std::optional<size_t> Feeder::FieldOf(const Program& program, absl::string_view input) const {
  for (const Link& link : links_) {
    if (program.compiled().executable.inputs[link.input].name == input) return link.field;
  }
  return std::nullopt;
}

absl::Status Feeder::Feed(absl::Span<const std::byte* const> fields, Program& program, int64_t first) const {
  for (const Link& link : links_) {
    const Endpoint& input = program.compiled().executable.inputs[link.input];
    SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Input(input.name));
    const int64_t sample_bytes = input.type.num_elements() / program.compiled().batch * SizeOf(link.from);
    Convert(fields[link.field] + first * sample_bytes, link.from, input.type.num_elements(), input.type.dtype,
            view.data);
  }
  for (const size_t unread : unread_) {
    SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Input(program.compiled().executable.inputs[unread].name));
    std::memset(view.data, 0, static_cast<size_t>(view.type->size_bytes()));
  }
  return absl::OkStatus();
}

}  // namespace snug::core
