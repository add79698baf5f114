#include "engine/train/feeder.h"

#include <absl/strings/str_cat.h>

#include <cstring>
#include <string>

#include "engine/base/bfloat16.h"
#include "engine/base/dtype.h"
#include "engine/base/status.h"

namespace snug::core {
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

std::string FieldNames(absl::Span<const DataField> fields) {
  std::string names;
  for (const DataField& field : fields) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", "\"", field.name, "\" ", field.type.ToString());
  }
  return names;
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
    if (found == fields.size()) {
      return absl::InvalidArgumentError(absl::StrCat(expected, "; the data have ", FieldNames(fields)));
    }
    const DataField& field = fields[found];
    if (!fits(inputs[i], field)) {
      return absl::InvalidArgumentError(
          absl::StrCat(expected, "; the data's field of this name is ", field.type.ToString()));
    }
    if (inputs[i].max_value > 0 && field.max_value > inputs[i].max_value) {
      return absl::InvalidArgumentError(absl::StrCat("input \"", inputs[i].name, "\" takes values below ",
                                                     inputs[i].max_value, "; those of the data's field \"", field.name,
                                                     "\" reach ", field.max_value - 1));
    }
    taken[found] = 1;
    feeder.links_.push_back({i, found, field.type.dtype});
  }
  return feeder;
}

absl::Status Feeder::Feed(absl::Span<const std::byte* const> fields, Program& program, int64_t first) const {
  for (const Link& link : links_) {
    const Endpoint& input = program.compiled().executable.inputs[link.input];
    SNUG_ASSIGN_OR_RETURN(const ValueView view, program.Input(input.name));
    const int64_t sample_bytes = input.type.num_elements() / program.compiled().batch * SizeOf(link.from);
    Convert(fields[link.field] + first * sample_bytes, link.from, input.type.num_elements(), input.type.dtype,
            view.data);
  }
  return absl::OkStatus();
}

}  // namespace snug::core
