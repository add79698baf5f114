// What `snug new` can write.
#pragma once

#include <string>
#include <vector>

namespace snug::core::cli {

std::vector<std::string> NewKinds();

}  // namespace snug::core::cli
