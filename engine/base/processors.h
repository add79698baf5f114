// How many processors this process may use.
#pragma once

namespace snug::core {

int AvailableProcessors();  // at least 1

}  // namespace snug::core
