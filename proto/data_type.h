// Converts between the model file's DataType and the engine's DType.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/options.h"

namespace snug::proto {

enum DataType : int;

// FLOAT becomes `floating`, the precision of the run.
DType ToDType(DataType type, DType floating);
DataType FromDType(DType dtype);
Options CastTo(DType dtype);  // the options of a cast

}  // namespace snug::proto
