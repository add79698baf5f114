#include "proto/data_type.h"

#include "engine/base/status.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::proto {

DType ToDType(DataType type, DType floating) {
  switch (type) {
    case FLOAT:
      return floating;
    case FLOAT32:
      return DType::kFloat32;
    case BFLOAT16:
      return DType::kBFloat16;
    case FLOAT64:
      return DType::kFloat64;
    case INT32:
      return DType::kInt32;
    case INT64:
      return DType::kInt64;
    case UINT8:
      return DType::kUint8;
  }
  return floating;
}

DataType FromDType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return FLOAT32;
    case DType::kBFloat16:
      return BFLOAT16;
    case DType::kFloat64:
      return FLOAT64;
    case DType::kInt32:
      return INT32;
    case DType::kInt64:
      return INT64;
    case DType::kUint8:
      return UINT8;
  }
  return FLOAT;
}

Options CastTo(DType dtype) {
  Cast options;
  options.set_dtype(FromDType(dtype));
  return MakeOptions(options);
}

}  // namespace snug::proto
