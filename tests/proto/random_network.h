// Random networks that keep the loader's rules: every op, every field, odd strings and numbers.
#pragma once

#include <cstdint>

namespace snug::proto {
class Network;
}

namespace snug::core::testing {

proto::Network RandomNetwork(uint32_t seed);

}  // namespace snug::core::testing
