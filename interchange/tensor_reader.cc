// The elements of a TensorProto: in one of its typed lists, as raw bytes, or in another file.
#include <absl/strings/str_cat.h>

#include <cstring>
#include <utility>

#include "engine/base/bfloat16.h"
#include "engine/base/status.h"
#include "engine/train/checkpoint/element_type.h"
#include "interchange/model_file.h"
#include "interchange/onnx.pb.h"

namespace snug::core::onnx {
namespace {

using snug::proto::onnx::TensorProto;

// The bytes need not be aligned, so each element is copied out.
template <class From, class To>
std::vector<To> FromRaw(const std::string& bytes, To (*convert)(From)) {
  std::vector<To> values(bytes.size() / sizeof(From));
  for (size_t i = 0; i < values.size(); ++i) {
    From element;
    std::memcpy(&element, bytes.data() + i * sizeof(From), sizeof(From));
    values[i] = convert(element);
  }
  return values;
}

template <class From>
int64_t ToInt(From value) {
  return static_cast<int64_t>(value);
}

float FromBFloat16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// 0: a type that is not read.
int64_t BytesOf(int32_t type) {
  switch (type) {
    case TensorProto::BOOL:
    case TensorProto::INT8:
    case TensorProto::UINT8:
      return 1;
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16:
    case TensorProto::INT16:
    case TensorProto::UINT16:
      return 2;
    case TensorProto::FLOAT:
    case TensorProto::INT32:
    case TensorProto::UINT32:
      return 4;
    case TensorProto::DOUBLE:
    case TensorProto::INT64:
    case TensorProto::UINT64:
      return 8;
    default:
      return 0;
  }
}

std::vector<float> RawFloats(int32_t type, const std::string& bytes) {
  switch (type) {
    case TensorProto::FLOAT16:
      return FromRaw<uint16_t, float>(bytes, checkpoint::HalfToFloat);
    case TensorProto::BFLOAT16:
      return FromRaw<uint16_t, float>(bytes, FromBFloat16);
    case TensorProto::DOUBLE:
      return FromRaw<double, float>(bytes, [](double x) { return static_cast<float>(x); });
    default:
      return FromRaw<float, float>(bytes, [](float x) { return x; });
  }
}

std::vector<int64_t> RawInts(int32_t type, const std::string& bytes) {
  switch (type) {
    case TensorProto::BOOL:
    case TensorProto::UINT8:
      return FromRaw<uint8_t, int64_t>(bytes, ToInt<uint8_t>);
    case TensorProto::INT8:
      return FromRaw<int8_t, int64_t>(bytes, ToInt<int8_t>);
    case TensorProto::UINT16:
      return FromRaw<uint16_t, int64_t>(bytes, ToInt<uint16_t>);
    case TensorProto::INT16:
      return FromRaw<int16_t, int64_t>(bytes, ToInt<int16_t>);
    case TensorProto::UINT32:
      return FromRaw<uint32_t, int64_t>(bytes, ToInt<uint32_t>);
    case TensorProto::INT32:
      return FromRaw<int32_t, int64_t>(bytes, ToInt<int32_t>);
    case TensorProto::UINT64:
      return FromRaw<uint64_t, int64_t>(bytes, ToInt<uint64_t>);
    default:
      return FromRaw<int64_t, int64_t>(bytes, ToInt<int64_t>);
  }
}

template <class To, class List>
std::vector<To> Listed(const List& list) {
  std::vector<To> values;
  values.reserve(static_cast<size_t>(list.size()));
  for (const auto value : list) values.push_back(static_cast<To>(value));
  return values;
}

std::vector<float> ListedFloats(const TensorProto& proto) {
  switch (proto.data_type()) {
    case TensorProto::DOUBLE:
      return Listed<float>(proto.double_data());
    case TensorProto::FLOAT16:
    case TensorProto::BFLOAT16: {
      std::vector<float> values;
      for (const int32_t bits : proto.int32_data()) {
        const auto half = static_cast<uint16_t>(bits);
        values.push_back(proto.data_type() == TensorProto::FLOAT16 ? checkpoint::HalfToFloat(half)
                                                                   : FromBFloat16(half));
      }
      return values;
    }
    default:
      return Listed<float>(proto.float_data());
  }
}

std::vector<int64_t> ListedInts(const TensorProto& proto) {
  switch (proto.data_type()) {
    case TensorProto::INT64:
      return Listed<int64_t>(proto.int64_data());
    case TensorProto::UINT32:
    case TensorProto::UINT64:
      return Listed<int64_t>(proto.uint64_data());
    default:
      return Listed<int64_t>(proto.int32_data());
  }
}

}  // namespace

absl::StatusOr<Tensor> ReadTensor(const TensorProto& proto, ExternalData& external) {
  const int32_t type = proto.data_type();
  const int64_t width = BytesOf(type);
  if (width == 0) {
    const std::string name = TensorProto::DataType_IsValid(type)
                                 ? TensorProto::DataType_Name(static_cast<TensorProto::DataType>(type))
                                 : absl::StrCat("number ", type);
    return absl::InvalidArgumentError(absl::StrCat("element type ", name, " is not read"));
  }
  if (proto.has_segment()) return absl::InvalidArgumentError("a tensor in segments is not read");
  const Dims dims(proto.dims().begin(), proto.dims().end());
  SNUG_ASSIGN_OR_RETURN(const int64_t count, CountElements(dims));
  const bool is_float = type == TensorProto::FLOAT || type == TensorProto::DOUBLE || type == TensorProto::FLOAT16 ||
                        type == TensorProto::BFLOAT16;
  const Kind kind = is_float ? Kind::kFloat : type == TensorProto::BOOL ? Kind::kBool : Kind::kInt;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  if (proto.data_location() == TensorProto::EXTERNAL || proto.has_raw_data()) {
    std::string bytes;
    if (proto.data_location() == TensorProto::EXTERNAL) {
      SNUG_ASSIGN_OR_RETURN(bytes, external.Read(proto, count * width));
    }
    const std::string& raw = proto.data_location() == TensorProto::EXTERNAL ? bytes : proto.raw_data();
    if (static_cast<int64_t>(raw.size()) != count * width) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", count * width, " bytes for ", DimsText(dims), ", found ", raw.size()));
    }
    is_float ? void(floats = RawFloats(type, raw)) : void(ints = RawInts(type, raw));
  } else {
    is_float ? void(floats = ListedFloats(proto)) : void(ints = ListedInts(proto));
    const size_t found = is_float ? floats.size() : ints.size();
    if (static_cast<int64_t>(found) != count) {
      return absl::InvalidArgumentError(
          absl::StrCat("expected ", count, " elements for ", DimsText(dims), ", found ", found));
    }
  }
  return is_float ? Tensor::Floats(dims, std::move(floats)) : Tensor::Ints(dims, std::move(ints), kind);
}

}  // namespace snug::core::onnx
