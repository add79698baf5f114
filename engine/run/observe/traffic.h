// How many bytes a step moves, beside the least that its values need: what more fusion could save.
#pragma once

#include "engine/compile/executable.h"

namespace snug::core {

struct Traffic {
  // What the kernels read and write when each goes through its inputs and outputs once. Kernels that sweep twice over
  // what does not stay in a cache move more.
  double moved = 0;
  // Each value written once, and read once by whoever reads it; Variables likewise.
  double least = 0;
};

Traffic TrafficOf(const Executable& executable);

}  // namespace snug::core
