// Converts between the model file's DataType and the engine's DType.
#pragma once

#include "engine/base/dtype.h"
#include "engine/base/options.h"

namespace snug::proto {

enum DataType : int;

// FLOAT becomes `floating`, the precision of the run.
core::DType ToDType(DataType type, core::DType floating);
DataType FromDType(core::DType dtype);
core::Options CastTo(core::DType dtype);  // the options of a cast

}  // namespace snug::proto
