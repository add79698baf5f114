// A way to compute products, and what it is asked for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace snug::core {

// c [m, n] = a [m, k] b [k, n], where a stored operand may be the transpose of what is multiplied.
struct Product {
  std::string name;
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  const float *a, *b;
  float* c;
};

// Computes one product; null where a contender has no way for it.
using Call = std::function<void()>;
struct Contender {
  std::string name;
  std::function<Call(const Product&)> prepare;
};

// Ends the program with this message.
[[noreturn]] void Fail(const std::string& message);

}  // namespace snug::core
