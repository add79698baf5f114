#include "proto/data_type.h"

#include "engine/base/status.h"
#include "proto/network.pb.h"
#include "proto/options.h"

namespace snug::proto {

core::DType ToDType(DataType type, core::DType floating) {
  switch (type) {
    case FLOAT:
      return floating;
    case FLOAT32:
      return core::DType::kFloat32;
    case BFLOAT16:
      return core::DType::kBFloat16;
    case FLOAT64:
      return core::DType::kFloat64;
    case INT32:
      return core::DType::kInt32;
    case INT64:
      return core::DType::kInt64;
    case UINT8:
      return core::DType::kUint8;
  }
  return floating;
}

DataType FromDType(core::DType dtype) {
  switch (dtype) {
    case core::DType::kFloat32:
      return FLOAT32;
    case core::DType::kBFloat16:
      return BFLOAT16;
    case core::DType::kFloat64:
      return FLOAT64;
    case core::DType::kInt32:
      return INT32;
    case core::DType::kInt64:
      return INT64;
    case core::DType::kUint8:
      return UINT8;
  }
  return FLOAT;
}

core::Options CastTo(core::DType dtype) {
  Cast options;
  options.set_dtype(FromDType(dtype));
  return MakeOptions(options);
}

}  // namespace snug::proto
