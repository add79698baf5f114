// Tells whether data are those that a training began with, whatever their files are called and wherever they lie.
#pragma once

#include <string>

#include "engine/train/data/dataset.h"

namespace snug::core {

// Returns 16 hexadecimal digits, which depend on the fields of the samples and on their bytes: all of them where they
// are few megabytes of numbers, else of 16 samples spread over them. A sample that cannot be read counts as that, and
// is no error here: the step that needs it will say more.
std::string ChecksumOf(const Dataset& dataset);

}  // namespace snug::core
