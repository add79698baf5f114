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
  // Whether loops may go on beyond their bounds and selectors be no branch: NaN in a value that counts, but on which
  // nothing depends, may come back as a gradient of NaN in place of 0.
  bool may_spoil = false;
};

RandomNest MakeRandomNest(uint64_t seed);

}  // namespace snug::core::test
