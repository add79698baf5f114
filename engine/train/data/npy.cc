#include <absl/strings/str_cat.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/base/status.h"
#include "engine/train/data/file_bytes.h"
#include "engine/train/data/npy_header.h"
#include "engine/train/data/sources.h"

namespace snug::core {
namespace {

struct Column {
  std::shared_ptr<const FileBytes> file;
  NpyHeader header;
  DataField field;
  bool pixels = false;
};

// Calls f(T{}) for the C++ type of the numbers in the file.
template <class F>
auto DispatchItem(const NpyHeader& header, F&& f) {
  switch (header.kind) {
    case 'f':
      return header.item_bytes == 4 ? f(float{}) : f(double{});
    case 'i':
      return header.item_bytes == 1   ? f(int8_t{})
             : header.item_bytes == 2 ? f(int16_t{})
             : header.item_bytes == 4 ? f(int32_t{})
                                      : f(int64_t{});
    case 'u':
      return header.item_bytes == 1 ? f(uint8_t{}) : f(uint16_t{});
    default:
      return f(bool{});
  }
}

// Calls f(T{}) for the C++ type of the field, if it is one that numbers can be turned into.
template <class F>
absl::Status DispatchField(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kInt64:
      return f(int64_t{});
    case DType::kUint8:
      return f(uint8_t{});
    case DType::kBFloat16:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("expected float32, float64, int32, int64 or uint8, found ", Name(dtype)));
}

template <class To, class From>
bool Allowed(From value, const DataField& field) {
  if constexpr (std::is_floating_point_v<To>) {
    return std::isfinite(static_cast<To>(value));
  } else if constexpr (std::is_floating_point_v<From>) {
    return false;  // OpenColumn() has refused it already
  } else {
    const auto wide = static_cast<int64_t>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
    if (field.padding == kIgnoredLabel && wide == kIgnoredLabel) return true;
    if (field.max_value > 0 && wide >= field.max_value) return false;
    return wide >= (field.max_value > 0 ? 0 : static_cast<int64_t>(std::numeric_limits<To>::min())) &&
           wide <= static_cast<int64_t>(std::numeric_limits<To>::max());
  }
}

std::string Expected(const DataField& field) {
  if (IsFloating(field.type.dtype)) return absl::StrCat("a finite ", Name(field.type.dtype));
  if (field.max_value > 0) return absl::StrCat("0 to ", field.max_value - 1);
  return absl::StrCat("a number that ", Name(field.type.dtype), " can hold");
}

template <class To, class From>
absl::Status ReadNumbers(const Column& column, int64_t sample, std::byte* out) {
  const int64_t n = column.field.type.num_elements();
  const int64_t begin = column.header.data_begin + sample * n * static_cast<int64_t>(sizeof(From));
  const uint8_t* data = column.file->bytes().data() + begin;
  auto* numbers = reinterpret_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) {
    From value;
    if constexpr (std::is_same_v<From, bool>) {
      value = data[i] != 0;
    } else {
      std::memcpy(&value, data + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    }
    if (!Allowed<To>(value, column.field)) [[unlikely]] {
      return column.file->Error(begin + i * static_cast<int64_t>(sizeof(From)),
                                absl::StrCat("sample ", sample, ", element ", i, " of field \"", column.field.name,
                                             "\": expected ", Expected(column.field), ", found ", value));
    }
    numbers[i] = static_cast<To>(value);  // NOLINT(bugprone-signed-char-misuse): int8 is a number
  }
  return absl::OkStatus();
}

absl::Status ReadColumn(const Column& column, int64_t sample, std::byte* out) {
  if (column.pixels) {
    const int64_t n = column.field.type.num_elements();
    PixelsToFloats(column.file->bytes().data() + column.header.data_begin + sample * n, n, out);
    return absl::OkStatus();
  }
  return DispatchField(column.field.type.dtype, [&](auto to) {
    return DispatchItem(column.header, [&](auto from) -> absl::Status {
      return ReadNumbers<decltype(to), decltype(from)>(column, sample, out);
    });
  });
}

class NpyDataset final : public Dataset {
 public:
  NpyDataset(std::vector<DataField> fields, std::vector<Column> columns)
      : Dataset(std::move(fields), columns[0].header.shape[0]), columns_(std::move(columns)) {}

  absl::Status Read(int64_t sample, absl::Span<std::byte* const> fields) const override {
    for (size_t i = 0; i < columns_.size(); ++i) SNUG_RETURN_IF_ERROR(ReadColumn(columns_[i], sample, fields[i]));
    return absl::OkStatus();
  }

 private:
  std::vector<Column> columns_;
};

absl::StatusOr<Column> OpenColumn(const NpyField& wanted) {
  Column column;
  SNUG_ASSIGN_OR_RETURN(column.file, FileBytes::Open(wanted.path));
  SNUG_ASSIGN_OR_RETURN(column.header, ReadNpyHeader(*column.file));
  const Shape& shape = column.header.shape;
  const bool floats = column.header.kind == 'f';
  column.field = {.name = wanted.name, .max_value = wanted.max_value, .padding = wanted.label ? kIgnoredLabel : 0};
  column.field.type.shape = shape.Without(0);
  column.pixels = !wanted.dtype && column.header.type_name() == "u1" && shape.rank() >= 3;
  column.field.type.dtype = wanted.dtype.value_or(floats || column.pixels ? DType::kFloat32 : DType::kInt32);
  const absl::Status possible = DispatchField(column.field.type.dtype, [](auto) { return absl::OkStatus(); });
  if (!possible.ok()) return Annotate(possible, absl::StrCat("type of field \"", wanted.name, "\""));
  if (floats && !IsFloating(column.field.type.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(wanted.path, ": field \"", wanted.name,
                                                   "\": expected integers, found ", column.header.type_name(),
                                                   ": save array.astype(numpy.int32)"));
  }
  return column;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Dataset>> OpenNpy(const std::vector<NpyField>& fields) {
  if (fields.empty()) return absl::InvalidArgumentError(".npy: expected a field, found none");
  std::vector<Column> columns;
  std::vector<DataField> described;
  for (const NpyField& wanted : fields) {
    SNUG_ASSIGN_OR_RETURN(Column column, OpenColumn(wanted));
    if (!columns.empty() && column.header.shape[0] != columns[0].header.shape[0]) {
      return absl::InvalidArgumentError(absl::StrCat(wanted.path, ": expected as many samples as ", fields[0].path,
                                                     " has, ", columns[0].header.shape[0], ", found ",
                                                     column.header.shape[0]));
    }
    described.push_back(column.field);
    columns.push_back(std::move(column));
  }
  return std::make_shared<const NpyDataset>(std::move(described), std::move(columns));
}

}  // namespace snug::core
