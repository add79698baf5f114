// Random networks of loops and branches inside each other, as the text of a model file, for tests beside an
// interpreter.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace snug::core::test {

struct RandomNest {
  std::string text;  // its objective is "loss", its inputs those of `feeds`
  std::map<std::string, std::vector<double>> feeds;
};

RandomNest MakeRandomNest(uint64_t seed);

}  // namespace snug::core::test
